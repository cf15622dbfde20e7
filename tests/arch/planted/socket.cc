// Planted for the symbol ban: opens a socket.
#include <sys/socket.h>
int planted_socket() { return socket(AF_INET, SOCK_STREAM, 0); }
