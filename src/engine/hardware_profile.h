#pragma once
// The fitted factors of one GPU kind: what its data sheet does not say. One set per kind of GPU, none per LLM, TP
// degree or data point; `wattle fit` writes them to profiles/<gpu>.toml with where they come from and how well they
// fit.
#include <string>

namespace wattle::engine {

/// x below is clock / clock_max of the GPU. Every time is in seconds, every power in watts of one GPU.
struct HardwareProfile {
  std::string gpu;  ///< name of the GpuSpec these factors belong to

  // Matrix products. Time = p-norm of compute and memory, plus a ramp.
  double tensor_efficiency = 0.80;      ///< share of the peak FLOP/s a large product reaches; compute time ~ 1/x
  double fp8_tensor_efficiency = 0.70;  ///< the same for 8-bit operands
  double tile_quantisation = 0.5;       ///< share of the padding to whole 128-row tiles that costs time, 0-1
  double wave_offset = 0.35;            ///< waves of thread blocks lost to filling and draining, per product
  double memory_efficiency = 0.85;      ///< share of the memory bandwidth reached when streaming weights, at x = 1
  double memory_clock_share = 0.30;     ///< share of memory-bound time that scales with 1/x
  double overlap_exponent = 4.0;        ///< p of the p-norm; higher = compute and memory overlap better
  double kernel_ramp_s = 2.0e-6;        ///< per product, at x = 1; scales with 1/x
  // Attention.
  double prefill_attention_efficiency = 0.50;   ///< share of the peak 16-bit FLOP/s; ~ 1/x
  double decode_attention_efficiency = 0.60;    ///< share of the memory bandwidth when reading KV, at x = 1
  double decode_attention_clock_share = 0.50;   ///< share of that time that scales with 1/x
  double decode_attention_request_s = 0.02e-6;  ///< per request and layer, at x = 1; scales with 1/x
  // The small kernels of a layer (norms, rotary embedding, activation, KV write).
  double layer_overhead_s = 8.0e-6;  ///< per layer, at x = 1; scales with 1/x
  double elementwise_passes = 14.0;  ///< activation traffic per layer, in units of tokens x hidden x 2 bytes
  // All-reduce of a tensor-parallel group, twice a layer.
  double allreduce_latency_s = 8.0e-6;  ///< per call, clock independent
  double allreduce_efficiency = 0.45;   ///< share of the link bandwidth
  // The serving framework on the CPU; the GPU clock does not touch it.
  double step_gap_s = 1.5e-3;     ///< per step
  double request_gap_s = 8.0e-6;  ///< per request in the step
  // Power: idle(x) = floor + clock x^exponent; a step adds busy(x) and energy per operation and per byte.
  double idle_floor_w = 79.0;
  double idle_clock_w = 107.0;
  double idle_clock_exponent = 3.5;
  double busy_w = 80.0;  ///< any kernel running, at x = 1
  double busy_exponent = 1.5;
  double tensor_pj_per_flop = 0.40;  ///< 16-bit, at x = 1; 8-bit costs in proportion to its peak rate
  double tensor_exponent = 1.25;     ///< energy per operation ~ x^this (voltage squared)
  double memory_pj_per_byte = 70.0;  ///< at x = 1
  double memory_exponent = 0.5;
};

}  // namespace wattle::engine
