#include "engine/shape_check.h"

#include <fmt/format.h>

namespace wattle::engine {

Result<void> check_shape(const std::string& where, const LlmSpec& llm, const Parallelism& parallel) {
  const std::int32_t tensor = parallel.tensor;
  if (tensor < 1) return bad_input(where, "tensor_parallel must be at least 1");
  if (llm.heads % tensor != 0) {
    return bad_input(where,
                     fmt::format("{} attention heads do not divide by a tensor_parallel of {}", llm.heads, tensor));
  }
  if (parallel.pipeline < 1 || parallel.pipeline > llm.layers) {
    return bad_input(
        where, fmt::format("pipeline_parallel {} is not between 1 and the {} layers", parallel.pipeline, llm.layers));
  }
  if (parallel.data < 1) return bad_input(where, "data_parallel must be at least 1");
  if (parallel.data > 1 && llm.experts == 1) {
    return bad_input(where, "data_parallel shares experts and the model has none; use more instances (count) instead");
  }
  if (parallel.expert < 1 || tensor * parallel.data % parallel.expert != 0 || llm.experts % parallel.expert != 0) {
    return bad_input(where, fmt::format("expert_parallel {} must divide tensor_parallel x data_parallel = {} and the "
                                        "model's {} experts",
                                        parallel.expert, tensor * parallel.data, llm.experts));
  }
  return {};
}

}  // namespace wattle::engine
