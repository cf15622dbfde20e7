#pragma once
// A thread that must have a core when it wakes.

namespace wattle::node {

/// The calling thread runs before all ordinary ones of the machine (SCHED_RR at its lowest priority); threads and
/// processes that it starts do not. It should wait for most of its time: the kernel leaves the others 5 % of a core
/// (sched_rt_runtime_us). False: not permitted, and nothing changed.
bool run_in_real_time();

}  // namespace wattle::node
