#pragma once
// Number formats of a checkpoint, from `quantization_config` in its config.json or from the file beside it.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"

namespace wattle::config {

/// Names as in LLM files: bf16, fp8, nvfp4, mxfp4, int4. As engines serve it: 32 bits are loaded as 16.
struct CheckpointFormats {
  std::string weights = "bf16";
  bool attention_kept = false;  ///< attention is not converted, the rest is
  std::string kv_cache;         ///< what engines use unless a flag says otherwise; empty: as they compute
};

/// Of the text part. Parts of a few layers that are not converted, named by their numbers, are not counted. `dense`: no
/// experts. Errors name the key: formats that are not modelled, several for one kind of weights, and dense FFNs that
/// are converted in part.
[[nodiscard]] Result<CheckpointFormats> checkpoint_formats(const nlohmann::json& config, std::int64_t layers,
                                                           bool dense, const std::string& file);

/// TensorRT Model Optimizer writes number formats into a file beside config.json, hf_quant_config.json; newer versions
/// write them into both. `config` with the formats of that file, unless it states its own.
[[nodiscard]] Result<std::string> with_modelopt_formats(const std::string& config, const std::string& formats,
                                                        const std::string& formats_file);

}  // namespace wattle::config
