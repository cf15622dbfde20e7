#include "config/make_step_model.h"

#include "config/locate.h"
#include "config/profile.h"

namespace wattle::config {

Result<engine::StepModel> make_step_model(const GpuSpec& gpu, const LlmSpec& llm, const Parallelism& parallel,
                                          const engine::EngineOptions& options) {
  const Result<engine::HardwareProfile> profile = config::profile_of(gpu.name, project());
  if (!profile) return std::unexpected(profile.error());
  return engine::StepModel::make(gpu, llm, parallel, *profile, options);
}

}  // namespace wattle::config
