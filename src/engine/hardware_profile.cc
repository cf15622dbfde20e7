#include "engine/hardware_profile.h"

#include <array>

namespace wattle::engine {
namespace {

using P = HardwareProfile;

constexpr auto kFields = std::to_array<ProfileField>({
    {"tensor_efficiency", &P::tensor_efficiency, "", 0.2, 1.1,
     "Share of the peak 16-bit FLOP/s that a large matrix product reaches at clock_max if the power limit does not "
     "lower the clock"},
    {"fp8_tensor_efficiency", &P::fp8_tensor_efficiency, "", 0.2, 1.2, "The same for 8-bit operands"},
    {"tile_quantisation", &P::tile_quantisation, "", 0.0, 1.0,
     "Share of the padding to whole 128-row tiles that costs time"},
    {"wave_offset", &P::wave_offset, "", 0.0, 2.0,
     "Waves of thread blocks lost to filling and draining the GPU, per matrix product"},
    {"memory_efficiency", &P::memory_efficiency, "", 0.3, 1.0,
     "Share of the memory bandwidth reached when weights are streamed at clock_max"},
    {"memory_clock_share", &P::memory_clock_share, "", 0.0, 1.0,
     "Time per byte through L2 and its fabric (~ 1/clock) at clock_max, relative to the time from memory. The slower "
     "of both counts"},
    {"overlap_exponent", &P::overlap_exponent, "", 1.0, 10.0,
     "p in the p-norm that combines compute and memory time. Higher: they overlap better"},
    {"kernel_ramp_s", &P::kernel_ramp_s, "s", 1e-7, 1.5e-5, "Time to start and end one matrix product at clock_max"},
    {"fp8_ramp_s", &P::fp8_ramp_s, "s", 0.0, 3e-5,
     "Additional time of a product with 8-bit weights, for scaling its activations"},
    {"attention_ramp_s", &P::attention_ramp_s, "s", 1e-7, 3e-5,
     "Time to start and end one layer's attention at clock_max"},
    {"prefill_attention_efficiency", &P::prefill_attention_efficiency, "", 0.05, 1.2,
     "Share of the peak 16-bit FLOP/s in prefill attention"},
    {"prefill_attention_memory_efficiency", &P::prefill_attention_memory_efficiency, "", 0.02, 2.0,
     "Share of the memory bandwidth for Q, K, V and output of prefill attention"},
    {"decode_attention_efficiency", &P::decode_attention_efficiency, "", 0.1, 1.0,
     "Share of the memory bandwidth reached when decode attention reads KV at clock_max"},
    {"decode_attention_clock_share", &P::decode_attention_clock_share, "", 0.0, 1.0,
     "memory_clock_share when decode attention reads KV"},
    {"decode_attention_head_s", &P::decode_attention_head_s, "s", 0.0, 1e-6,
     "Time of decode attention per request, layer and KV head on the GPU, at clock_max"},
    {"decode_attention_tail_waves", &P::decode_attention_tail_waves, "", 0.0, 4.0,
     "Waves of thread blocks (one per request and KV head) lost at the end of decode attention"},
    {"decode_attention_tail_most", &P::decode_attention_tail_most, "", 0.0, 1.0,
     "Upper bound of that loss, as a share of the time to read KV: with fewer blocks than SMs the kernel splits each "
     "request's KV"},
    {"layer_overhead_s", &P::layer_overhead_s, "s", 0.0, 6e-5, "Time of the small kernels of one layer at clock_max"},
    {"elementwise_passes", &P::elementwise_passes, "", 0.0, 60.0,
     "Activation traffic of the small kernels per layer, as a multiple of tokens x hidden x 2 bytes"},
    {"allreduce_latency_s", &P::allreduce_latency_s, "s", 0.0, 3e-5,
     "Time of an all-reduce of a few bytes at clock_max"},
    {"allreduce_pass_s", &P::allreduce_pass_s, "s", 0.0, 3e-5,
     "Additional time of an all-reduce that passes the link twice instead of once. 0: all pass it twice"},
    {"allreduce_efficiency", &P::allreduce_efficiency, "", 0.05, 1.0,
     "Share of the link bandwidth for up to 16 MB on the link, in all-reduce and between groups"},
    {"allreduce_size_exponent", &P::allreduce_size_exponent, "", 0.0, 0.5,
     "For more bytes that share grows with (bytes / 16 MB)^this, up to the whole bandwidth"},
    {"latency_clock_share", &P::latency_clock_share, "", 0.0, 1.0,
     "Share of ramps, small kernels and all-reduce latency that scales with 1/clock"},
    {"step_gap_s", &P::step_gap_s, "s", 0.0, 0.01, "CPU time of the serving framework per step"},
    {"request_gap_s", &P::request_gap_s, "s", 0.0, 1e-4,
     "GPU time per request in a step that depends on neither model, vocabulary nor clock"},
    {"sampling_ns_per_logit", &P::sampling_ns_per_logit, "ns", 0.0, 1.0,
     "Time to sample one request's token (sorting and drawing), per entry of the vocabulary, at clock_max"},
    {"sampling_activity", &P::sampling_activity, "", 0.0, 3.0,
     "Power of the sampling kernels beyond active_w, as a multiple of busy_w"},
    {"idle_floor_w", &P::idle_floor_w, "W", 0.0, 500.0, "Idle power with the model loaded, at a very low clock"},
    {"idle_clock_w", &P::idle_clock_w, "W", 0.0, 500.0, "Additional idle power at clock_max"},
    {"idle_clock_exponent", &P::idle_clock_exponent, "", 0.5, 8.0,
     "Idle power = idle_floor_w + idle_clock_w x (f/fmax)^this"},
    {"active_w", &P::active_w, "W", 0.0, 600.0, "Additional power while any kernel runs, at clock_max"},
    {"active_clock_share", &P::active_clock_share, "", 0.0, 1.0, "Share of active_w that is proportional to x s(x)"},
    {"busy_w", &P::busy_w, "W", 0.0, 800.0,
     "Additional power while tensor or memory units work, at clock_max; proportional to x s(x)"},
    {"tensor_pj_per_flop", &P::tensor_pj_per_flop, "pJ", 0.0, 2.0,
     "Energy of a 16-bit tensor operation at clock_max, proportional to s(x). 8-bit operations cost less in proportion "
     "to their peak rate"},
    {"memory_pj_per_byte", &P::memory_pj_per_byte, "pJ", 0.0, 300.0, "Energy to move a byte at clock_max"},
    {"memory_voltage_share", &P::memory_voltage_share, "", 0.0, 1.0,
     "Share of memory_pj_per_byte that is proportional to s(x)"},
    {"voltage_floor", &P::voltage_floor, "", 0.1, 0.9, "x below which the core voltage no longer falls"},
    {"voltage_exponent", &P::voltage_exponent, "", 0.2, 3.0,
     "s(x) = max(voltage_floor, x)^this, the square of the voltage"},
    {"clip_share", &P::clip_share, "", 0.8, 1.0, "Share of TDP at which the GPU settles when it lowers its clock"},
    {"measured_requests", &P::measured_requests, "", 0.0, 1e6, "Largest decode batch among the fitted measurements"},
    {"measured_context_tokens", &P::measured_context_tokens, "", 0.0, 1e9,
     "Longest KV of one request among the fitted measurements"},
    {"measured_step_tokens", &P::measured_step_tokens, "", 0.0, 1e9,
     "Most tokens in one step among the fitted measurements"},
    {"measured_tensor_parallel", &P::measured_tensor_parallel, "", 0.0, 1024.0,
     "Most GPUs per instance among the fitted measurements"},
    {"measured_clock_low_mhz", &P::measured_clock_low_mhz, "MHz", 0.0, 1e4,
     "Lowest locked clock among the fitted measurements"},
    {"measured_clock_high_mhz", &P::measured_clock_high_mhz, "MHz", 0.0, 1e4,
     "Highest locked clock among the fitted measurements"},
});

}  // namespace

std::span<const ProfileField> profile_fields() { return kFields; }

}  // namespace wattle::engine
