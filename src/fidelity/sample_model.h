#pragma once
// The parallelism and concurrency of an end-to-end sample.
#include <cstdint>
#include <expected>
#include <string>

#include "model/hardware.h"

namespace wattle::fidelity {

/// One row of aiconfigurator's sample, as far as stated.
struct SampleShape {
  bool generated = false;  ///< by aiconfigurator's generator: its columns are used as they are
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::int32_t attention_data = 1;
  std::int32_t moe_tensor = 1;
  std::int32_t moe_expert = 1;
};

/// The row's parallelism. InferenceMAX's rows state a degree twice for parallel experts (tp_size 64, moe_tp_size 8 and
/// moe_ep_size 8 on one H200 node of 8 GPUs): such columns are read as one degree. Error: why they cannot be read.
[[nodiscard]] std::expected<Parallelism, std::string> parallelism_of(const SampleShape& row, const LlmSpec& llm);

/// Requests in flight. With data-parallel attention the row's batch_size is one group's share (by a degree that may be
/// stated twice); the source's "silicon_concurrency=" counts all.
[[nodiscard]] std::int64_t concurrency_of(const SampleShape& row, const std::string& source, std::int32_t batch_size);

}  // namespace wattle::fidelity
