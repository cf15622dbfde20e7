#pragma once
// Which model in which number formats an end-to-end sample ran, and how its GPUs shared it.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "model/hardware.h"

namespace wattle::fidelity {

/// One row of aiconfigurator's sample, as far as it says that.
struct SampleShape {
  std::string precision;   ///< fp8, fp4, int4, bf16 or empty
  std::string gemm_mode;   ///< of the linear layers: fp8, fp8_block, nvfp4, int4_wo or empty
  bool generated = false;  ///< by aiconfigurator's generator: its columns are taken at their word
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::int32_t attention_data = 1;
  std::int32_t moe_tensor = 1;
  std::int32_t moe_expert = 1;
};

/// The row's GPUs. InferenceMAX's rows state a degree twice where experts are parallel (tp_size 64, moe_tp_size 8 and
/// moe_ep_size 8 on one H200 node of 8 GPUs): such columns are read as one degree for all. Error: why they cannot be
/// read.
[[nodiscard]] std::expected<Parallelism, std::string> parallelism_of(const SampleShape& row, const LlmSpec& llm);

/// Requests in flight. The batch_size of rows with data-parallel attention is one group's share (by a degree that may
/// be stated twice); their source says "silicon_concurrency=", which is all of them.
[[nodiscard]] std::int32_t concurrency_of(const SampleShape& row, const std::string& source, double batch_size);

/// The model with the row's formats in place of the published ones. 4-bit checkpoints of a mixture of experts keep
/// attention in 16 bits, those of a dense model quantise every linear layer (NVIDIA's ModelOpt).
[[nodiscard]] LlmSpec as_run(const SampleShape& row, LlmSpec llm);

}  // namespace wattle::fidelity
