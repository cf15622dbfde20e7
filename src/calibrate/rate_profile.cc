#include "calibrate/rate_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "engine/replica.h"

namespace wattle::calibrate {

namespace {

/// The paper's: 8 ms for the call, about 200 ms until effective.
constexpr engine::ClockDelays kDelays{Span::ms(8), Span::ms(192)};
constexpr Span kWindow = Span::s(1);

class Agent final : public engine::ReplicaObserver {
 public:
  /// `pause`: from a clock that is effective to its measurement.
  Agent(const engine::StepModel& model, const engine::EngineOptions& options, std::span<const MegaHertz> clocks,
        Span pause, RandomStream& random, std::vector<predict::StepSample>& samples)
      : clocks_(clocks),
        pause_(pause),
        random_(random),
        samples_(samples),
        replica_(model, with(options, clocks), *this) {}

  /// Until the engine is empty again.
  void run(std::int32_t batch, std::int32_t output_tokens) {
    for (std::int32_t i = 0; i < batch; ++i) {
      engine::Job job;
      job.tag = static_cast<engine::Tag>(i);
      job.id = RequestId(i);
      job.prompt_tokens = 1;
      job.output_tokens = output_tokens;
      replica_.submit(job, Instant());
    }
    replica_.start_step(Instant());
    for (Instant now = replica_.next_wake(); now != Instant::never(); now = replica_.next_wake()) {
      replica_.advance(now);
      replica_.events().clear();
      if (replica_.wants_start()) replica_.start_step(now);
    }
  }

  Hold step_starts(const StepReport& report) override {
    const Instant now = report.start;
    if (now < settled_) return {std::numeric_limits<std::int64_t>::max(), settled_};
    const bool same =
        measuring_ && report.shape.prefill_tokens == 0 && report.shape.decode_requests == first_.shape.decode_requests;
    if (same && now - first_.start >= kWindow) {
      auto shape = report.shape;
      shape.decode_kv_tokens = (first_.shape.decode_kv_tokens + shape.decode_kv_tokens) / 2;
      samples_.push_back({clock_, shape, (now - first_.start) / (report.sequence - first_.sequence)});
    }
    if (!same || now - first_.start >= kWindow) {
      measuring_ = report.shape.prefill_tokens == 0 && !same;
      first_ = report;
    }
    if (!measuring_) {
      clock_ = clocks_[random_.below(clocks_.size())];
      replica_.command_clock(clock_, now);
      settled_ = now + kDelays.whole() + pause_;
      return {std::numeric_limits<std::int64_t>::max(), settled_};
    }
    return {std::numeric_limits<std::int64_t>::max(), first_.start + kWindow};
  }
  void goes_idle(InstanceId, Instant) override {}
  void power_changes(InstanceId, Instant, Milliwatts, std::int32_t, std::int64_t, MegaHertz) override {}
  void decode_joined(InstanceId, engine::Tag, Instant) override {}
  void decode_left(InstanceId, engine::Tag, Instant) override {}
  void prefill_settled(InstanceId, Instant, std::span<const engine::PrefillShare>) override {}
  void gaps(const engine::TokenGaps&) override {}

 private:
  static engine::ReplicaOptions with(const engine::EngineOptions& options, std::span<const MegaHertz> clocks) {
    engine::ReplicaOptions made;
    made.id = InstanceId(0);
    made.engine = options;
    made.delays = kDelays;
    made.initial_clock = clocks.back();
    return made;
  }

  std::span<const MegaHertz> clocks_;
  Span pause_;
  RandomStream& random_;
  std::vector<predict::StepSample>& samples_;
  engine::Replica replica_;
  MegaHertz clock_;
  Instant settled_;
  bool measuring_ = false;
  StepReport first_;  ///< of the measurement
};

/// State of a full engine.
struct Filling {
  std::int64_t usable = 0;  ///< blocks
  std::int64_t most = 0;    ///< requests
  std::int64_t block_size = 0;
  /// Of each request of a batch.
  [[nodiscard]] std::int64_t output_tokens(std::int64_t batch) const {
    return std::max<std::int64_t>(usable / batch * block_size - 1, 1);
  }
};

/// How long all batches decode, each clock being in force as long as any other.
double seconds_of(const engine::StepModel& model, const Filling& filling, std::span<const MegaHertz> clocks) {
  constexpr std::size_t kClocks = 8;  // of the list, evenly
  const std::size_t of = std::min(clocks.size(), kClocks);
  double seconds = 0.0;
  for (std::int64_t batch = 1; batch <= filling.most; ++batch) {
    const std::int64_t tokens = filling.output_tokens(batch);
    const std::int64_t kv = tokens * batch / 2;
    double steps_per_s = 0.0;
    for (std::size_t i = 0; i < of; ++i) {
      const auto& line =
          model.decode(static_cast<std::int32_t>(batch), kv, clocks[(2 * i + 1) * clocks.size() / (2 * of)]);
      steps_per_s += std::ldexp(1e9, engine::kTimeFractionBits) / static_cast<double>(line.base + line.slope * kv);
    }
    seconds += static_cast<double>(tokens * static_cast<std::int64_t>(of)) / steps_per_s;
  }
  return seconds;
}

}  // namespace

std::vector<predict::StepSample> collect_rates(const engine::StepModel& model, const engine::EngineOptions& options,
                                               std::span<const MegaHertz> clocks, std::int64_t most) {
  std::vector<predict::StepSample> samples;
  RandomStream random(1, "profile.rates");
  // The engine keeps some blocks free when it admits, so that a batch of one block each still enters whole.
  const auto usable = static_cast<std::int64_t>(static_cast<double>(model.kv_blocks()) * (1.0 - options.watermark));
  const Filling filling{usable, std::min<std::int64_t>(options.max_num_seqs, usable), options.block_size};
  constexpr double kPeriod_s = (kWindow + kDelays.whole()).seconds();
  const double apart_s = seconds_of(model, filling, clocks) / static_cast<double>(most);
  const Span pause = Span::from_seconds(std::max(0.0, apart_s - kPeriod_s));
  for (std::int64_t batch = 1; batch <= filling.most; ++batch) {
    Agent(model, options, clocks, pause, random, samples)
        .run(static_cast<std::int32_t>(batch), static_cast<std::int32_t>(filling.output_tokens(batch)));
  }
  return samples;
}

}  // namespace wattle::calibrate
