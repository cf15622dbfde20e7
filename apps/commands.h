#pragma once
// One function per subcommand: declares its flags and a callback that does the work and sets the exit code
// (0 done, 1 failed its own check, 2 bad usage or input, 3 something outside failed).
#include <CLI/CLI.hpp>

#include "base/error.h"

namespace wattle::apps {

/// Prints "wattle: where: what" to stderr and returns the exit code for this kind of error.
int fail(const Error& error);

void add_config(CLI::App& app, int& exit_code);
void add_agent(CLI::App& app, int& exit_code);
void add_agent_guardian(CLI::App& app, int& exit_code);
void add_mock_engine(CLI::App& app, int& exit_code);
void add_fit(CLI::App& app, int& exit_code);
void add_gateway(CLI::App& app, int& exit_code);
void add_planner(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_recipes(CLI::App& app, int& exit_code);
void add_replay(CLI::App& app, int& exit_code);
void add_reproduce(CLI::App& app, int& exit_code);
void add_sim(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);
void add_validate(CLI::App& app, int& exit_code);
void add_up(CLI::App& app, int& exit_code);

}  // namespace wattle::apps
