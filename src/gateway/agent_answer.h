#pragma once
// An agent's answer to GET /engines?after=N, or ?after=N&steps=M. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/decision.h"
#include "predict/step_sample.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::gateway {

struct AgentAnswer {
  struct Engine {
    std::string name;                       ///< the address of its step reports
    std::optional<std::int64_t> energy_uj;  ///< since the agent's start; none: not metered
    Milliwatts power;
    MegaHertz clock;
    MegaHertz commanded;
    bool emulated = false;  ///< its GPUs are virtual
  };
  struct Decision {
    Instant at;  ///< on the agent's clock
    std::string engine;
    Mode mode = Mode::Enforce;
    MegaHertz clock;
    std::string reason;
  };
  /// A step from which its predictor learns.
  struct Measured {
    std::string engine;
    predict::StepSample step;
  };
  std::int64_t started_unix_us = 0;  ///< the agent; 0: it does not say
  std::vector<Engine> engines;
  std::vector<Decision> decisions;  ///< empty without `now`: their times cannot be converted
  std::optional<Instant> now;       ///< on the agent's clock
  std::int64_t next_decision = 0;
  std::vector<Measured> steps;
  std::map<std::string, std::string> facts;  ///< its beliefs about the fleet, by name
  std::int64_t next_step = 0;
};

/// Unusable entries are left out, so that agents of other versions are still metered. None: not an agent's answer.
/// Numbers are within the range of the arithmetic that uses them.
[[nodiscard]] std::optional<AgentAnswer> read_agent_answer(std::string_view text);

}  // namespace wattle::gateway
