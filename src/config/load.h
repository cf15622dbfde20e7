#pragma once
// Files to structs: strict, checked, each problem with its place.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/fill.h"
#include "config/project.h"
#include "config/scenario.h"
#include "model/hardware.h"

namespace wattle::config {

/// A scenario with the hardware it names, checked to be a fleet that can serve.
struct LoadedScenario {
  Scenario scenario;
  LlmSpec llm;
  std::vector<GpuSpec> gpus;  ///< one per pool, in the pools' order
  Origins origins;
};

/// Splits "key=value" arguments; one that is no such pair is BadInput.
[[nodiscard]] Result<std::vector<Override>> parse_overrides(const std::vector<std::string>& arguments);

/// Is this a scenario's key ("fleet.0.gpu" too)?
[[nodiscard]] bool is_scenario_key(std::string_view key);
/// Every record of a scenario, [[fleet]] included.
[[nodiscard]] std::vector<const OptionSpec*> scenario_keys();

[[nodiscard]] Result<GpuSpec> load_gpu(const std::string& file);
[[nodiscard]] Result<LlmSpec> load_llm(const std::string& file);

/// `name_or_path` as Project::find takes it.
[[nodiscard]] Result<LoadedScenario> load_scenario(std::string_view name_or_path,
                                                   const std::vector<Override>& overrides, const Project& project);

/// The same from texts, for tests and embedded defaults; `file` only names them.
[[nodiscard]] Result<GpuSpec> gpu_from_text(std::string_view text, const std::string& file);
[[nodiscard]] Result<LlmSpec> llm_from_text(std::string_view text, const std::string& file);
[[nodiscard]] Result<LoadedScenario> scenario_from_text(std::string_view text, const std::string& file,
                                                        const std::vector<Override>& overrides, const Project& project);

}  // namespace wattle::config
