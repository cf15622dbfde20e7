#include "engine/step_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "engine/hardware_profile.h"
#include "engine/operations.h"

namespace wattle::engine {
namespace {

GpuSpec h100() {
  GpuSpec gpu;
  gpu.name = "h100";
  gpu.clock_max = MegaHertz(1980);
  gpu.tdp = Watts(700.0);
  gpu.memory_bandwidth_bytes_per_s = 3.35e12;
  gpu.bf16_flops_per_s = 989e12;
  gpu.fp8_flops_per_s = 1979e12;
  gpu.nvlink_bytes_per_s = 450e9;
  gpu.sm_count = 132;
  return gpu;
}

LlmSpec llama_70b() {
  LlmSpec llm;
  llm.name = "llama-3-70b";
  llm.layers = 80;
  llm.hidden = 8192;
  llm.heads = 64;
  llm.ffn = 28672;
  return llm;
}

LlmSpec mixtral() {
  LlmSpec llm;
  llm.name = "mixtral-8x7b";
  llm.experts = 8;
  llm.experts_per_token = 2;
  llm.vocab = 32000;
  return llm;
}

StepModel model(const LlmSpec& llm = LlmSpec{}, std::int32_t tp = 1, const HardwareProfile& profile = {}) {
  auto made = StepModel::make(h100(), llm, tp, profile, EngineOptions{});
  if (!made) throw std::runtime_error(made.error().message());
  return std::move(*made);
}

std::int64_t duration(const DecodeLine& line, std::int64_t kv) { return line.base + line.slope * kv; }

/// A profile with so much power that TDP often limits the clock.
HardwareProfile hot() {
  HardwareProfile p;
  p.active_w = 250.0;
  return p;
}

StepShape prompt(std::int64_t tokens, std::int32_t decodes = 0, std::int64_t kv = 0) {
  return {decodes, kv, 1, tokens, tokens * tokens / 2};
}

TEST(StepModel, decode_lines_tile_the_kv_axis) {
  const StepModel m = model();
  std::int64_t kv = 0;
  int lines = 0;
  while (kv != std::numeric_limits<std::int64_t>::max()) {
    const DecodeLine line = m.decode(64, kv, MegaHertz(1410));
    ASSERT_EQ(line.kv_from, kv);
    ASSERT_GT(line.kv_below, line.kv_from);
    const DecodeLine same = m.decode(64, line.kv_below - 1, MegaHertz(1410));
    ASSERT_EQ(same.kv_from, kv);
    kv = line.kv_below;
    ++lines;
  }
  EXPECT_GT(lines, 10);
}

RC_GTEST_PROP(StepModel, decode_time_rises_with_batch_and_kv_and_falls_with_clock, ()) {
  const bool clipped = *rc::gen::arbitrary<bool>();
  static const StepModel cool_model = model(llama_70b(), 4);
  static const StepModel hot_model = model(llama_70b(), 4, hot());
  const StepModel& m = clipped ? hot_model : cool_model;
  const auto batch = *rc::gen::inRange(1, 700);
  const auto more = *rc::gen::inRange(0, 200);
  const auto kv = *rc::gen::inRange<std::int64_t>(0, 400'000);
  const auto extra = *rc::gen::inRange<std::int64_t>(0, 100'000);
  const MegaHertz clock(*rc::gen::inRange(210, 1981));
  const MegaHertz faster(*rc::gen::inRange(clock.value(), 1981));
  const std::int64_t t = duration(m.decode(batch, kv, clock), kv);
  RC_ASSERT(t > 0);
  RC_ASSERT(duration(m.decode(batch + more, kv, clock), kv) >= t);
  RC_ASSERT(duration(m.decode(batch, kv + extra, clock), kv + extra) >= t);
  RC_ASSERT(duration(m.decode(batch, kv, faster), kv) <= t);
}

RC_GTEST_PROP(StepModel, power_stays_between_idle_and_tdp_and_rises_with_clock, ()) {
  const bool clipped = *rc::gen::arbitrary<bool>();
  static const StepModel cool_model = model();
  static const StepModel hot_model = model(LlmSpec{}, 1, hot());
  const StepModel& m = clipped ? hot_model : cool_model;
  const auto batch = *rc::gen::inRange(1, 512);
  const auto kv = *rc::gen::inRange<std::int64_t>(0, 300'000);
  const auto tokens = *rc::gen::inRange<std::int64_t>(1, 9000);
  const MegaHertz clock(*rc::gen::inRange(210, 1981));
  const MegaHertz faster(*rc::gen::inRange(clock.value(), 1981));
  const Milliwatts tdp = to_milliwatts(m.gpu().tdp);
  const DecodeLine line = m.decode(batch, kv, clock);
  RC_ASSERT(line.power <= tdp);
  RC_ASSERT(line.power >= m.idle_power(clock) || line.effective_clock < clock);
  RC_ASSERT(line.power <= m.decode(batch, kv, faster).power);
  RC_ASSERT(line.effective_clock <= clock);
  const StepCost cost = m.mixed(prompt(tokens, batch, kv), clock);
  RC_ASSERT(cost.power <= tdp);
  RC_ASSERT(cost.power <= m.mixed(prompt(tokens, batch, kv), faster).power);
}

RC_GTEST_PROP(StepModel, prompt_time_rises_with_tokens_and_falls_with_clock, ()) {
  static const StepModel dense = model(LlmSpec{}, 1, hot());
  static const StepModel sparse = model(mixtral(), 2);
  const StepModel& m = *rc::gen::arbitrary<bool>() ? dense : sparse;
  const auto tokens = *rc::gen::inRange<std::int64_t>(1, 20'000);
  const auto more = *rc::gen::inRange<std::int64_t>(0, 2'000);
  const MegaHertz clock(*rc::gen::inRange(210, 1981));
  const MegaHertz faster(*rc::gen::inRange(clock.value(), 1981));
  const std::int64_t t = m.mixed(prompt(tokens), clock).duration;
  RC_ASSERT(m.mixed(prompt(tokens + more), clock).duration >= t);
  RC_ASSERT(m.mixed(prompt(tokens), faster).duration <= t);
  RC_ASSERT(m.mixed(prompt(tokens, 8, 1000), clock).duration >= t);
}

TEST(StepModel, a_decode_step_costs_the_same_through_either_call) {
  const StepModel m = model();
  for (const std::int32_t batch : {1, 16, 77, 256, 640}) {
    for (const std::int64_t per_request : {1, 8, 64, 200, 500, 1500}) {
      if (batch * per_request > m.kv_blocks() * EngineOptions{}.block_size) continue;
      StepShape shape;
      shape.decode_requests = batch;
      shape.decode_kv_tokens = batch * per_request;
      const StepCost cost = m.mixed(shape, MegaHertz(1200));
      const DecodeLine line = m.decode(batch, shape.decode_kv_tokens, MegaHertz(1200));
      EXPECT_NEAR(static_cast<double>(duration(line, shape.decode_kv_tokens)), static_cast<double>(cost.duration),
                  0.005 * static_cast<double>(cost.duration))
          << batch << " x " << per_request << ": a line is the secant of a range of KV";
      EXPECT_NEAR(static_cast<double>(line.power.value()), static_cast<double>(cost.power.value()),
                  0.02 * static_cast<double>(cost.power.value()));
    }
  }
}

TEST(StepModel, a_step_beyond_tdp_runs_at_a_lower_clock_and_takes_longer) {
  const StepModel cool = model();
  const StepModel clipped = model(LlmSpec{}, 1, hot());
  const StepShape shape = prompt(8000);
  const StepCost a = cool.mixed(shape, MegaHertz(1980));
  const StepCost b = clipped.mixed(shape, MegaHertz(1980));
  EXPECT_EQ(b.power, to_milliwatts(Watts(700.0 * HardwareProfile{}.clip_share)));
  EXPECT_LT(b.effective_clock, MegaHertz(1980));
  EXPECT_GT(b.duration, a.duration);
  // Locking to any clock above the one the clip settles at changes nothing.
  EXPECT_EQ(clipped.mixed(shape, MegaHertz(b.effective_clock.value() + 30)).duration, b.duration);
}

TEST(StepModel, decode_time_is_a_staircase_at_graph_and_tile_borders) {
  const StepModel m = model(llama_70b(), 4);
  const auto time = [&](std::int32_t batch) { return duration(m.decode(batch, 0, MegaHertz(1980)), 0); };
  const std::int64_t within = time(128) - time(127);
  const std::int64_t across = time(129) - time(128);
  EXPECT_GT(across, 4 * within);
  EXPECT_GT(time(17) - time(16), 4 * (time(16) - time(15)));
}

TEST(StepModel, decodes_alone_compute_the_whole_graph_they_run_in) {
  EngineOptions options;
  options.graph_sizes = {128, 256, 320};
  const auto graphs = StepModel::make(h100(), llama_70b(), 4, HardwareProfile{}, options);
  ASSERT_TRUE(graphs.has_value());
  const auto time = [&](std::int32_t batch) { return duration(graphs->decode(batch, 0, MegaHertz(1980)), 0); };
  const std::int64_t request = time(200) - time(199);  // its own attention and gap
  EXPECT_GT(time(257) - time(256), 20 * request) << "64 rows more";
  EXPECT_EQ(time(320) - time(319), request) << "the same graph";
  EXPECT_LT(std::abs(time(400) - duration(model(llama_70b(), 4).decode(400, 0, MegaHertz(1980)), 0)), 2)
      << "no graph that large: as it is";
  const StepShape mixed{200, 40'000, 1, 512, 512 * 256};
  EXPECT_EQ(graphs->mixed(mixed, MegaHertz(1980)).duration,
            model(llama_70b(), 4).mixed(mixed, MegaHertz(1980)).duration)
      << "prompts run without graphs";
}

TEST(StepModel, weights_larger_than_memory_are_refused_with_both_sizes) {
  const auto made = StepModel::make(h100(), llama_70b(), 1, HardwareProfile{}, EngineOptions{});
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().what.find("143."), std::string::npos) << made.error().message();
  EXPECT_NE(made.error().what.find("72.0 GB"), std::string::npos) << made.error().message();
}

TEST(StepModel, impossible_shapes_are_refused) {
  EXPECT_FALSE(StepModel::make(h100(), LlmSpec{}, 3, HardwareProfile{}, EngineOptions{}).has_value());
  EXPECT_FALSE(StepModel::make(h100(), LlmSpec{}, 0, HardwareProfile{}, EngineOptions{}).has_value());
}

TEST(StepModel, eight_bit_weights_without_units_for_them_are_read_as_such_and_multiplied_in_sixteen_bits) {
  LlmSpec narrow;
  narrow.dtype = Dtype::Fp8;
  GpuSpec a100;
  a100.name = "a100-80g";
  const auto wide = StepModel::make(a100, LlmSpec{}, 1, HardwareProfile{}, EngineOptions{}).value();
  const auto made = StepModel::make(a100, narrow, 1, HardwareProfile{}, EngineOptions{}).value();
  const auto of = [&](const StepModel& m) { return static_cast<double>(m.decode(1, 100, a100.clock_max).base); };
  EXPECT_LT(of(made), 0.75 * of(wide));
  const auto prompt_of = [&](const StepModel& m) {
    return static_cast<double>(m.mixed(prompt(8192), a100.clock_max).duration);
  };
  EXPECT_NEAR(prompt_of(made) / prompt_of(wide), 1.0, 0.02);
  const auto said = made.extrapolated();
  EXPECT_EQ(std::ranges::count(said, a100.name + ": 8-bit weights without units for them, never measured"), 1);
}

TEST(StepModel, kv_blocks_fill_what_weights_leave) {
  const StepModel m = model();
  const LlmSpec llm;
  const double expected = (80e9 * 0.9 - llm.weight_bytes() - 2e9) / (llm.kv_bytes_per_token() * 16);
  EXPECT_EQ(m.kv_blocks(), static_cast<std::int64_t>(expected));
}

TEST(StepModel, an_engines_own_gaps_replace_the_profiles) {
  EngineOptions options;
  options.step_gap = Span::ms(5);
  options.request_gap = Span::us(20);
  HardwareProfile without;
  without.step_gap_s = 0.0;
  without.request_gap_s = 0.0;
  without.sampling_ns_per_logit = 0.0;
  const auto slow = StepModel::make(h100(), LlmSpec{}, 1, without, options);
  ASSERT_TRUE(slow.has_value());
  const StepShape shape{10, 5000, 0, 0, 0};
  const std::int64_t fast = model(LlmSpec{}, 1, without).mixed(shape, MegaHertz(1980)).duration;
  const double added_ns = static_cast<double>(slow->mixed(shape, MegaHertz(1980)).duration - fast) /
                          static_cast<double>(std::int64_t{1} << kTimeFractionBits);
  EXPECT_NEAR(added_ns, 5.2e6, 1.0) << "5 ms a step and 20 us for each of ten requests";
}

TEST(StepModel, prompts_cost_the_scheduler_time_each_while_the_gpu_waits) {
  EngineOptions options;
  options.prompt_gap = Span::ms(3);
  const auto slow = StepModel::make(h100(), LlmSpec{}, 1, HardwareProfile{}, options);
  ASSERT_TRUE(slow.has_value());
  const StepShape shape{0, 0, 4, 1024, 4 * 256 * 128};
  const StepCost with = slow->mixed(shape, MegaHertz(990));
  const StepCost without = model().mixed(shape, MegaHertz(990));
  EXPECT_NEAR(static_cast<double>((with.duration - without.duration) >> kTimeFractionBits), 12e6, 10.0);
  EXPECT_LT(with.power, without.power);
}

TEST(StepModel, AStepWithPromptsWaitsOnceForKernelsThatNoGraphHolds) {
  EngineOptions options;
  options.prompt_step_gap = Span::ms(3);
  const auto slow = StepModel::make(h100(), LlmSpec{}, 1, HardwareProfile{}, options);
  ASSERT_TRUE(slow.has_value());
  const auto added_ns = [&](const StepShape& shape) {
    const auto longer = slow->mixed(shape, MegaHertz(990)).duration - model().mixed(shape, MegaHertz(990)).duration;
    return static_cast<double>(longer >> kTimeFractionBits);
  };
  EXPECT_NEAR(added_ns({0, 0, 4, 1024, 4 * 256 * 128}), 3e6, 10.0);
  EXPECT_EQ(added_ns({10, 5000, 0, 0, 0}), 0.0);
}

TEST(StepModel, a_framework_that_overlaps_hides_its_time_behind_the_gpu) {
  HardwareProfile with;
  with.sampling_ns_per_logit = 0.0;
  EngineOptions overlapped;
  overlapped.framework = Framework::Sglang;
  const StepShape shape{10, 5000, 0, 0, 0};
  const auto duration = [&](const EngineOptions& engine) {
    const auto m = StepModel::make(h100(), LlmSpec{}, 1, with, engine);
    EXPECT_TRUE(m);
    return m->mixed(shape, MegaHertz(1980)).duration;
  };
  EngineOptions none;
  none.step_gap = Span();
  EXPECT_EQ(duration(overlapped), duration(none));
  overlapped.step_gap = Span::ms(80);
  EXPECT_EQ(duration(overlapped) >> kTimeFractionBits, Span::ms(80).ns()) << "the longer counts";
}

TEST(StepModel, vllm_before_v1_starts_each_layers_kernels_one_by_one) {
  EngineOptions v0;
  v0.framework = Framework::VllmV0;
  EngineOptions none;
  none.step_gap = Span();
  const FrameworkTimes times = times_of(Framework::VllmV0);
  const LlmSpec llm;
  for (const std::int32_t gpus : {1, 2}) {
    const auto with = StepModel::make(h100(), llm, gpus, HardwareProfile{}, v0);
    const auto without = StepModel::make(h100(), llm, gpus, HardwareProfile{}, none);
    ASSERT_TRUE(with && without);
    const StepShape shape{10, 5000, 0, 0, 0};
    const Span layer = times.layer + (gpus > 1 ? times.parallel_layer : Span());
    const auto added = with->mixed(shape, MegaHertz(1980)).duration - without->mixed(shape, MegaHertz(1980)).duration;
    EXPECT_NEAR(static_cast<double>(added >> kTimeFractionBits),
                llm.layers * layer.seconds() * 1e9 + 10 * times.request.seconds() * 1e9, 10.0)
        << gpus;
  }
}

TEST(StepModel, an_engines_own_attention_reads_kv_at_its_own_pace) {
  // No overhead and no L2, so that attention over a long context takes only the time to read it.
  HardwareProfile plain;
  plain.decode_attention_efficiency = 0.4;
  plain.decode_attention_clock_share = 0.0;
  plain.decode_attention_head_s = 0.0;
  plain.decode_attention_tail_waves = 0.0;
  EngineOptions faster;
  faster.decode_attention_efficiency = 0.8;
  const auto reading = [&](const EngineOptions& engine, std::int32_t mhz) {
    const auto m = StepModel::make(h100(), LlmSpec{}, 1, plain, engine);
    EXPECT_TRUE(m);
    const auto step = [&](std::int64_t kv) { return m->mixed({16, kv, 0, 0, 0}, MegaHertz(mhz)).duration; };
    return static_cast<double>(step(200'000) - step(100'000));
  };
  EXPECT_NEAR(reading({}, 1980) / reading(faster, 1980), 2.0, 0.01);
  EXPECT_NEAR(reading({}, 210) / reading(faster, 210), 2.0, 0.01) << "memory has its own clock";
  plain.decode_attention_clock_share = 0.5;
  EXPECT_NEAR(reading({}, 1980) / reading(faster, 1980), 2.0, 0.01);
  EXPECT_LT(reading({}, 210) / reading(faster, 210), 1.2) << "there L2 sets the pace, whatever the kernel";
  for (const double share : {0.0, -1.0, 1.5}) {
    faster.decode_attention_efficiency = share;
    EXPECT_FALSE(StepModel::make(h100(), LlmSpec{}, 1, plain, faster));
  }
}

TEST(StepModel, a_power_limit_lowers_power_and_clock_of_heavy_steps_only) {
  const StepShape prompts{0, 0, 8, 8192, 8 * 1024 * 512};
  EngineOptions limited;
  limited.power_limit = Watts(400);
  const auto free = StepModel::make(h100(), LlmSpec{}, 1, HardwareProfile{}, {});
  const auto capped = StepModel::make(h100(), LlmSpec{}, 1, HardwareProfile{}, limited);
  ASSERT_TRUE(free && capped);
  const StepCost heavy = capped->mixed(prompts, MegaHertz(1980));
  EXPECT_LE(to_watts(heavy.power).value(), 400.0);
  EXPECT_LT(heavy.effective_clock, free->mixed(prompts, MegaHertz(1980)).effective_clock);
  EXPECT_GT(heavy.duration, free->mixed(prompts, MegaHertz(1980)).duration);
  EXPECT_EQ(capped->mixed(prompts, MegaHertz(600)).duration, free->mixed(prompts, MegaHertz(600)).duration);
  limited.power_limit = Watts(701);
  EXPECT_FALSE(StepModel::make(h100(), LlmSpec{}, 1, HardwareProfile{}, limited)) << "more than the TDP";
}

TEST(StepModel, sampling_takes_its_time_per_entry_of_the_vocabulary_on_every_gpu_of_the_group) {
  HardwareProfile with;
  with.sampling_ns_per_logit = 0.25;
  HardwareProfile without;
  without.sampling_ns_per_logit = 0.0;
  for (const std::int32_t tp : {1, 4}) {
    for (const std::int32_t vocab : {32000, 128000}) {
      LlmSpec llm = llama_70b();
      llm.layers = 20;
      llm.vocab = vocab;
      const StepShape shape{64, 6400, 0, 0, 0};
      const std::int64_t added = model(llm, tp, with).mixed(shape, MegaHertz(1980)).duration -
                                 model(llm, tp, without).mixed(shape, MegaHertz(1980)).duration;
      EXPECT_NEAR(static_cast<double>(added) / static_cast<double>(std::int64_t{1} << kTimeFractionBits),
                  0.25 * vocab * 64, 2.0)
          << "TP " << tp;
    }
  }
  HardwareProfile hotter = with;
  hotter.sampling_activity = 2.0;
  const StepShape shape{64, 6400, 0, 0, 0};
  EXPECT_GT(model({}, 1, hotter).mixed(shape, MegaHertz(1980)).power,
            model({}, 1, with).mixed(shape, MegaHertz(1980)).power);
  EXPECT_GT(model({}, 1, with).mixed(shape, MegaHertz(990)).duration,
            model({}, 1, with).mixed(shape, MegaHertz(1980)).duration);
}

TEST(StepModel, attention_kept_in_16_bits_is_read_and_stored_twice_as_wide) {
  LlmSpec narrow = llama_70b();
  narrow.dtype = Dtype::Fp8;
  LlmSpec wide = narrow;
  wide.attention_weights = Dtype::Bf16;
  EXPECT_DOUBLE_EQ(wide.weight_bytes() - narrow.weight_bytes(), 80.0 * narrow.attention_parameters());
  HardwareProfile profile;
  profile.fp8_ramp_s = 0.0;
  const StepShape one{1, 100, 0, 0, 0};
  const std::int64_t added = model(wide, 4, profile).mixed(one, MegaHertz(1980)).duration -
                             model(narrow, 4, profile).mixed(one, MegaHertz(1980)).duration;
  const double bytes_s = 80.0 * narrow.attention_parameters() / 4.0 / (3.35e12 * profile.memory_efficiency);
  EXPECT_NEAR(static_cast<double>(added) * 1e-9 / static_cast<double>(std::int64_t{1} << kTimeFractionBits), bytes_s,
              0.02 * bytes_s);
}

TEST(StepModel, decode_attentions_tail_fades_as_the_batch_grows) {
  HardwareProfile profile;
  profile.decode_attention_tail_waves = 0.5;
  profile.decode_attention_tail_most = 0.4;
  const GpuSpec gpu;
  const LlmSpec llm;
  const Operations operations(gpu, llm, 1, profile, gpu.clock_max.value());
  EXPECT_DOUBLE_EQ(operations.decode_attention_tail(1), 1.4) << "8 blocks: no more than the most";
  EXPECT_DOUBLE_EQ(operations.decode_attention_tail(54), 1.0 + 0.5 * 108 / (54.0 * 8));
  EXPECT_LT(operations.decode_attention_tail(512), 1.02);
}

TEST(StepModel, an_eight_bit_kv_cache_holds_twice_as_much) {
  LlmSpec llm;
  const HardwareProfile profile;
  const auto wide = StepModel::make(GpuSpec{}, llm, 1, profile, {});
  llm.kv_dtype = Dtype::Fp8;
  const auto narrow = StepModel::make(GpuSpec{}, llm, 1, profile, {});
  ASSERT_TRUE(wide && narrow);
  EXPECT_NEAR(static_cast<double>(narrow->kv_blocks()), 2.0 * static_cast<double>(wide->kv_blocks()), 1.0);
  EXPECT_LT(narrow->decode(64, 64 * 1000, MegaHertz(1410)).slope, wide->decode(64, 64 * 1000, MegaHertz(1410)).slope);
}

}  // namespace
}  // namespace wattle::engine
