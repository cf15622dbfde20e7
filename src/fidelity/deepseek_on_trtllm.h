#pragma once
// InferenceMAX's runs of DeepSeek-R1 on TensorRT-LLM: its scripts differ by image, GPU and load.
#include "engine/options.h"
#include "fidelity/sample_row.h"

namespace wattle::fidelity {

/// Sets the options as in the script of the row's date (github.com/SemiAnalysisAI/InferenceX, benchmarks/dsr1_*_trt*.sh
/// of November 2025, January and February 2026).
void start_deepseek_on_trtllm(const SampleRow& row, engine::EngineOptions& engine);

}  // namespace wattle::fidelity
