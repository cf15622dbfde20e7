// Planted for the symbol ban: starts a thread.
#include <pthread.h>
int planted_pthread_create(void* (*f)(void*)) {
  pthread_t id{};
  return pthread_create(&id, nullptr, f, nullptr);
}
