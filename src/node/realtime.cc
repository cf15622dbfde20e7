#include "node/realtime.h"

#include <sched.h>

namespace wattle::node {

bool run_in_real_time() {
  sched_param lowest{};
  lowest.sched_priority = ::sched_get_priority_min(SCHED_RR);
  return ::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) == 0;
}

}  // namespace wattle::node
