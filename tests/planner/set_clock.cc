// Preloaded: the time of day is off by as many seconds as the file named by SET_CLOCK says at the moment.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  std::FILE* const file = clock == CLOCK_REALTIME ? std::fopen(std::getenv("SET_CLOCK"), "r") : nullptr;
  if (file == nullptr) return result;
  long off = 0;
  if (std::fscanf(file, "%ld", &off) == 1) time->tv_sec += off;
  std::fclose(file);
  return result;
}
