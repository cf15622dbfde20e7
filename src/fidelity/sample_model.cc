#include "fidelity/sample_model.h"

#include <charconv>
#include <string_view>

namespace wattle::fidelity {

std::expected<Parallelism, std::string> parallelism_of(const SampleShape& row, const LlmSpec& llm) {
  Parallelism shape(row.tensor);
  shape.pipeline = row.pipeline;
  shape.data = row.attention_data;
  if (llm.experts == 1) {
    if (shape.data > 1) return std::unexpected("data-parallel attention of a dense model");
    return shape;
  }
  shape.expert = row.moe_expert;
  const std::int32_t gpus = row.tensor * row.attention_data;
  const std::int32_t of_experts = row.moe_tensor * row.moe_expert;
  if (!row.generated && row.moe_expert > 1) {
    const bool twice = row.moe_tensor == row.moe_expert && gpus == of_experts;
    const bool data_twice = row.attention_data == row.tensor && gpus == row.moe_expert;
    if (twice || data_twice) {
      const std::int32_t degree = twice ? row.moe_expert : row.tensor;
      shape.tensor = row.attention_data > 1 ? 1 : degree;
      shape.data = row.attention_data > 1 ? degree : 1;
      shape.expert = degree;
      return shape;
    }
  }
  if (gpus != of_experts) return std::unexpected("attention and experts on different numbers of GPUs");
  return shape;
}

std::int64_t concurrency_of(const SampleShape& row, const std::string& source, std::int32_t batch_size) {
  constexpr std::string_view kStated = "silicon_concurrency=";
  const auto at = source.find(kStated);
  std::int32_t stated = 0;
  if (row.attention_data > 1 && at != std::string::npos) {
    const char* from = source.data() + at + kStated.size();
    std::from_chars(from, source.data() + source.size(), stated);
  }
  return stated > 0 ? stated : std::int64_t{batch_size} * row.attention_data;
}

}  // namespace wattle::fidelity
