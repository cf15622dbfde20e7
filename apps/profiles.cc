#include "profiles.h"

#include "engine/hardware_profile.h"

namespace wattle::apps {

Result<engine::StepModel> make_step_model(const GpuSpec& gpu, const LlmSpec& llm, std::int32_t tensor_parallel,
                                          const engine::EngineOptions& options) {
  engine::HardwareProfile profile;
  profile.gpu = gpu.name;
  return engine::StepModel::make(gpu, llm, tensor_parallel, profile, options);
}

}  // namespace wattle::apps
