#include <fmt/core.h>

#include <cstdio>
#include <exception>

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
  CLI::App app{"Wattle: an energy- and carbon-aware control plane for LLM serving"};
  app.name("wattle");
  app.require_subcommand(1);
  int exit_code = 0;
  wattle::apps::add_config(app, exit_code);
  wattle::apps::add_agent(app, exit_code);
  wattle::apps::add_agent_guardian(app, exit_code);
  wattle::apps::add_mock_engine(app, exit_code);
  wattle::apps::add_fit(app, exit_code);
  wattle::apps::add_gateway(app, exit_code);
  wattle::apps::add_planner(app, exit_code);
  wattle::apps::add_profile(app, exit_code);
  wattle::apps::add_recipes(app, exit_code);
  wattle::apps::add_replay(app, exit_code);
  wattle::apps::add_reproduce(app, exit_code);
  wattle::apps::add_sim(app, exit_code);
  wattle::apps::add_report(app, exit_code);
  wattle::apps::add_trace(app, exit_code);
  wattle::apps::add_validate(app, exit_code);
  wattle::apps::add_up(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "wattle: {}\n", error.what());
    return 1;
  }
  return exit_code;
}
