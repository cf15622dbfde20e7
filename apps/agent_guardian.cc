// `wattle agent-guardian`: started by `wattle agent`, outlives it, takes its clock locks off. Not for people.
#include <memory>
#include <string>

#include "commands.h"
#include "log_format.h"
#include "node/guardian.h"

namespace wattle::apps {

void add_agent_guardian(Command app, int& exit_code) {
  Command command = app.add_subcommand("agent-guardian", "Releases clock locks when its agent dies");
  command.hide();
  struct Flags {
    std::string library, state, log_format = "text";
  };
  auto flags = std::make_shared<Flags>();
  command.add_option("--nvml", flags->library).required();
  command.add_option("--state", flags->state).required();
  add_log_format_flag(command, flags->log_format);
  command.callback([flags, &exit_code] {
    apply_log_format(flags->log_format);
    exit_code = node::guard(flags->library, flags->state);
  });
}

}  // namespace wattle::apps
