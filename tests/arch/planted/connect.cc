// Planted for the symbol ban: connects.
#include <sys/socket.h>
int planted_connect(const sockaddr* address) { return connect(0, address, sizeof(sockaddr)); }
