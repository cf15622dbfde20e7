#pragma once
// What data sets call a GPU, a model and a number format. A name that is not known is none that is like it: a GH200 is
// no H200, and weights in 8-bit integers are not in 16 bits.
#include <expected>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "fidelity/experiment.h"

namespace wattle::fidelity {

/// By its full name or a usual way to write it, whatever the case and the separators: "NVIDIA H100 80GB HBM3" and
/// "h100_sxm" are h100. Error: why rows of it are not scored.
[[nodiscard]] std::expected<const GpuSpec*, std::string> published_gpu(const Catalog& catalog, std::string_view name);

/// Catalog::llm() with its weights in the first of `formats` that is not empty, otherwise in what the name ends with
/// ("-FP8"), otherwise as published. Error: why rows of it are not scored.
[[nodiscard]] std::expected<LlmSpec, std::string> published_llm(const Catalog& catalog, std::string_view name,
                                                                std::initializer_list<std::string_view> formats = {});

/// The model with its weights in the format, by a data set's name of it. 4-bit checkpoints of a mixture of experts keep
/// attention in 16 bits, those of a dense model quantise every linear layer (NVIDIA's ModelOpt). None: a format that we
/// do not simulate.
[[nodiscard]] std::optional<LlmSpec> in_format(LlmSpec llm, std::string_view format);

}  // namespace wattle::fidelity
