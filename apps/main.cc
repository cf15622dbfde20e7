#include <fcntl.h>

#include "commands.h"
#include "config/deployment.h"

namespace wattle::apps {

namespace {

Result<void> flags_of_file(const std::string& subcommand, const std::string& file, const std::string& node,
                           std::vector<config::FlagText>& to) {
  if (subcommand != "gateway" && subcommand != "agent" && subcommand != "planner") return {};
  const auto deployment = config::Deployment::load(file);
  if (!deployment) return std::unexpected(deployment.error());
  if (subcommand == "agent") {
    auto flags = deployment->agent(node);
    if (!flags) return std::unexpected(flags.error());
    to = std::move(*flags);
  } else {
    to = subcommand == "planner" ? deployment->planner() : deployment->gateway();
  }
  return {};
}

}  // namespace

int run_wattle(std::span<char* const> words) {
  return run_program(
      "wattle", "Wattle: an energy- and carbon-aware control plane for LLM serving", words,
      [](Command app, int& exit_code) {
        add_carbon(app, exit_code);
        add_config(app, exit_code);
        add_agent(app, exit_code);
        add_agent_guardian(app, exit_code);
        add_mock_engine(app, exit_code);
        add_fit(app, exit_code);
        add_forecast(app, exit_code);
        add_gateway(app, exit_code);
        add_init(app, exit_code);
        add_key(app, exit_code);
        add_plan(app, exit_code);
        add_planner(app, exit_code);
        add_profile(app, exit_code);
        add_recipes(app, exit_code);
        add_replay(app, exit_code);
        add_reproduce(app, exit_code);
        add_sim(app, exit_code);
        add_report(app, exit_code);
        add_trace(app, exit_code);
        add_validate(app, exit_code);
        add_up(app, exit_code);
      },
      flags_of_file);
}

}  // namespace wattle::apps

int main(int argc, char** argv) {
  // If one of the three is closed, a file or socket would get its number, and printed text would go there.
  for (const int stream : {0, 1, 2}) {
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", stream == 0 ? O_RDONLY : O_WRONLY);
  }
  return wattle::apps::run_wattle({argv, static_cast<std::size_t>(argc)});
}
