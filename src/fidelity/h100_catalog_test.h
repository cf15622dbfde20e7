#pragma once
// For tests: an H100 with a profile of defaults, and two models.
#include "fidelity/experiment.h"

namespace wattle::fidelity {

inline Catalog h100_catalog() {
  Catalog catalog;
  GpuSpec gpu;
  gpu.name = "h100";
  gpu.clock_max = MegaHertz(1980);
  gpu.tdp = Watts(700.0);
  gpu.memory_bandwidth_bytes_per_s = 3.35e12;
  gpu.bf16_flops_per_s = 989e12;
  gpu.fp8_flops_per_s = 1979e12;
  gpu.nvlink_bytes_per_s = 450e9;
  gpu.sm_count = 132;
  catalog.gpus["h100"] = gpu;
  LlmSpec llm;
  llm.name = "llama-3-70b";
  llm.layers = 80;
  llm.hidden = 8192;
  llm.heads = 64;
  llm.ffn = 28672;
  catalog.llms["llama-3-70b"] = llm;
  LlmSpec small;
  small.name = "llama-3.1-8b";
  catalog.llms["llama-3.1-8b"] = small;
  engine::HardwareProfile profile;
  profile.gpu = "h100";
  catalog.profiles["h100"] = profile;
  return catalog;
}

}  // namespace wattle::fidelity
