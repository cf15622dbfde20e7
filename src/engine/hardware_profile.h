#pragma once
// The fitted factors of one kind of GPU: what its data sheet does not say. One set per kind of GPU, none per LLM, TP
// degree or data point; `wattle fit` writes them to profiles/<gpu>.toml with their source and the quality of the fit.
#include <span>
#include <string>

namespace wattle::engine {

/// x below is clock / clock_max of the GPU. All times are in seconds, all powers in watts of one GPU.
struct HardwareProfile {
  std::string gpu;  ///< name of the GpuSpec these factors belong to

  // Matrix products: p-norm of compute (~ 1/x) and memory time, plus a ramp.
  double tensor_efficiency = 0.81;
  double fp8_tensor_efficiency = 0.75;
  double tile_quantisation = 0.25;
  double wave_offset = 0.05;
  double memory_efficiency = 0.86;
  double memory_clock_share = 0.50;
  double overlap_exponent = 2.9;
  double kernel_ramp_s = 4.5e-6;
  double fp8_ramp_s = 3.0e-6;
  // Attention, per layer.
  double attention_ramp_s = 11.5e-6;
  double prefill_attention_efficiency = 0.69;
  double prefill_attention_memory_efficiency = 0.40;
  double decode_attention_efficiency = 0.89;
  double decode_attention_clock_share = 0.60;
  double decode_attention_head_s = 0.03e-6;
  double decode_attention_tail_waves = 0.0;
  double decode_attention_tail_most = 0.3;
  // The small kernels of a layer (norms, rotary embedding, activation, KV write).
  double layer_overhead_s = 10.0e-6;
  double elementwise_passes = 14.0;
  // All-reduce of a tensor-parallel group, twice a layer.
  double allreduce_latency_s = 7.0e-6;
  double allreduce_pass_s = 0.0;
  double allreduce_efficiency = 0.50;
  double allreduce_size_exponent = 0.0;
  // Share of ramps, small kernels and all-reduce latency that scales with 1/x.
  double latency_clock_share = 0.60;
  // The serving framework, which no clock touches: on the CPU, and holding the GPU for each request.
  double step_gap_s = 1.0e-3;
  double request_gap_s = 0.0;
  // Sampling on the GPU: 32-bit logits, sort, softmax, draw.
  double sampling_ns_per_logit = 0.2;
  double sampling_activity = 1.0;
  // Power: idle(x) = floor + clock x^exponent. A running step adds a part of which a
  // share follows clock and voltage, one that follows them whole, and
  // energy per operation and per byte. Energies follow the voltage: s(x) = max(voltage_floor, x)^voltage_exponent.
  double idle_floor_w = 79.0;
  double idle_clock_w = 107.0;
  double idle_clock_exponent = 3.5;
  double rest_w = 0.0;  // by which a GPU that waits draws less than that at clock_max (EngineOptions::idle_gpu)
  double active_w = 40.0;
  double active_clock_share = 0.0;
  double busy_w = 80.0;
  double tensor_pj_per_flop = 0.60;
  double memory_pj_per_byte = 60.0;
  double memory_voltage_share = 0.5;
  double voltage_floor = 0.55;
  double voltage_exponent = 1.4;
  double clip_share = 0.99;
  // Range of the measurements behind the factors; 0 if nothing was measured on this GPU. Beyond it, the model
  // extrapolates.
  double measured_requests = 0.0;
  double measured_context_tokens = 0.0;
  double measured_step_tokens = 0.0;
  double measured_tensor_parallel = 0.0;
  double measured_clock_low_mhz = 0.0;
  double measured_clock_high_mhz = 0.0;
};

/// One value: its key in profiles/*.toml, its meaning, and its physical range.
struct ProfileField {
  const char* key;
  double HardwareProfile::*member;
  const char* unit;
  double low;
  double high;
  const char* meaning;
};

/// All factors and the measured range, in file order.
[[nodiscard]] std::span<const ProfileField> profile_fields();

}  // namespace wattle::engine
