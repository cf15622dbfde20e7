#include "node/realtime.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace wattle::node {

namespace {

bool may_by_capability() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  return ::syscall(SYS_capget, &header, sets.data()) == 0 && (sets[0].effective >> CAP_SYS_NICE & 1U) != 0;
}

}  // namespace

RealTime run_in_real_time(int above) {
  sched_param wanted{};
  wanted.sched_priority = ::sched_get_priority_min(SCHED_RR) + above;
  if (::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &wanted) == 0) return RealTime::Granted;
  return errno == EPERM && may_by_capability() ? RealTime::Forbidden : RealTime::NotPermitted;
}

const char* text_of(RealTime answer) {
  switch (answer) {
    case RealTime::Granted:
      return "granted";
    case RealTime::NotPermitted:
      return "CAP_SYS_NICE is missing";
    case RealTime::Forbidden:
      return "CAP_SYS_NICE is there, but the control group has no real-time budget (cpu.rt_runtime_us) or a "
             "system-call filter (systemd's RestrictRealtime) forbids it";
  }
  return "";
}

}  // namespace wattle::node
