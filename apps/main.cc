#include <fmt/core.h>

#include <cstdio>

#include "commands.h"

namespace wattle::apps {

int fail(const Error& error) {
  fmt::print(stderr, "wattle: {}\n", error.message());
  switch (error.kind) {
    case ErrorKind::BadInput:
      return 2;
    case ErrorKind::Failed:
      return 1;
    case ErrorKind::External:
      return 3;
  }
  return 1;
}

}  // namespace wattle::apps

int main(int argc, char** argv) {
  using namespace wattle::apps;
  return run_program("wattle", "Wattle: an energy- and carbon-aware control plane for LLM serving",
                     {argv, static_cast<std::size_t>(argc)}, [](Command app, int& exit_code) {
                       add_carbon(app, exit_code);
                       add_config(app, exit_code);
                       add_agent(app, exit_code);
                       add_agent_guardian(app, exit_code);
                       add_mock_engine(app, exit_code);
                       add_fit(app, exit_code);
                       add_forecast(app, exit_code);
                       add_gateway(app, exit_code);
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
                     });
}
