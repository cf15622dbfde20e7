#pragma once
// One function per subcommand: declares its flags and a callback that does the work and sets the exit code
// (0 done, 1 failed its own check, 2 bad usage or input, 3 something outside failed).
#include <span>

#include "command_line.h"

namespace wattle::apps {

/// `wattle WORDS...`: its exit code.
int run_wattle(std::span<char* const> words);

void add_carbon(Command app, int& exit_code);
void add_config(Command app, int& exit_code);
void add_agent(Command app, int& exit_code);
void add_agent_guardian(Command app, int& exit_code);
void add_mock_engine(Command app, int& exit_code);
void add_fit(Command app, int& exit_code);
void add_forecast(Command app, int& exit_code);
void add_forecast_length(Command forecast, int& exit_code);
void add_gateway(Command app, int& exit_code);
void add_init(Command app, int& exit_code);
void add_key(Command app, int& exit_code);
void add_plan(Command app, int& exit_code);
void add_planner(Command app, int& exit_code);
void add_profile(Command app, int& exit_code);
void add_recipes(Command app, int& exit_code);
void add_replay(Command app, int& exit_code);
void add_reproduce(Command app, int& exit_code);
void add_sim(Command app, int& exit_code);
void add_report(Command app, int& exit_code);
void add_trace(Command app, int& exit_code);
void add_validate(Command app, int& exit_code);
void add_up(Command app, int& exit_code);

}  // namespace wattle::apps
