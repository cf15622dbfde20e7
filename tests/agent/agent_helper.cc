// A small agent and its guardian as processes that tests can kill.
//   agent-guardian --nvml LIBRARY --state FILE
//   lock LIBRARY STATE MHZ GPU...     locks, prints "locked GUARDIAN_PID", then waits to be killed
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "node/actuator.h"
#include "node/gpu/open.h"

using namespace wattle;        // NOLINT
using namespace wattle::node;  // NOLINT

int main(int argc, char** argv) {
  if (argc == 6 && std::strcmp(argv[1], "agent-guardian") == 0) return guard(argv[3], argv[5], 20);
  if (argc < 6 || std::strcmp(argv[1], "lock") != 0) return 2;
  auto nvml = node::open_gpus(argv[2]);
  if (!nvml) return 3;
  node::KeeperOptions options;
  options.library = argv[2];
  options.state_file = argv[3];
  auto keeper = node::LockKeeper::start(options, *nvml);
  if (!keeper) {
    std::printf("refused: %s\n", keeper.error().message().c_str());
    std::fflush(stdout);
    return 3;
  }
  node::Actuator::Target target{InstanceId(0), {}};
  for (int i = 5; i < argc; ++i) target.gpus.push_back((*nvml)->find(argv[i]).value());
  const std::size_t gpus = target.gpus.size();
  node::Actuator actuator({std::move(target)}, *keeper);
  actuator.command(InstanceId(0), MegaHertz(std::atoi(argv[4])), Instant());
  for (;;) {
    std::size_t locked = 0;
    for (const auto& s : actuator.stats()) locked += s.applied.value() != 0 ? 1U : 0U;
    if (locked == gpus) break;
    usleep(1000);
  }
  std::printf("locked %d\n", (*keeper)->guardian_pid());
  std::fflush(stdout);
  for (;;) pause();
}
