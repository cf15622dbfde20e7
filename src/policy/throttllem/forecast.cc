#include "policy/throttllem/forecast.h"

#include <algorithm>

#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

namespace {

/// Predicted at a time: a clock that is far too low fails early.
constexpr std::size_t kChunk = 64;

bool believable(Span predicted) { return predicted > Span() && predicted <= kLongestBelievable; }

/// Prompts as a step has them.
StepShape prompts_of(const ForecastBasis& basis) {
  StepShape shape;
  if (basis.prefill_tokens <= 0) return shape;
  shape.prefill_requests = std::max(basis.prefill_requests, 1);
  shape.prefill_tokens = basis.prefill_tokens;
  shape.prefill_context_tokens = basis.prefill_tokens * (basis.prefill_tokens / shape.prefill_requests) / 2;
  return shape;
}

/// In predicted time.
Span until(Instant deadline, const ForecastBasis& basis) {
  if (deadline == Instant::never()) return Span::max();
  return deadline - basis.begin - basis.reserve;
}

}  // namespace

void Forecaster::reserve(std::size_t requests) {
  requests_.reserve(requests);
  kv_tokens_.reserve(requests);
  iterations_.reserve(requests);
  limits_.reserve(requests);
  last_.reserve(requests);
  steps_.reserve(requests);
}

void Forecaster::read(const Scoreboard& board, const ForecastBasis& basis) {
  basis_ = basis;
  requests_.clear();
  kv_tokens_.clear();
  iterations_.clear();
  limits_.clear();
  last_.clear();
  all_iterations_ = 0;
  own_limit_ = Span::max();
  const auto entries = board.requests();
  board.walk([&](const Stretch& stretch, std::size_t first, std::size_t last) {
    if (first == 0) first_kv_tokens_ = stretch.kv_tokens_at_from;
    Instant tightest = Instant::never();
    for (std::size_t i = first; i < last; ++i) {
      if (entries[i].id == basis.own_deadline) {
        own_ = requests_.size();
        own_limit_ = until(entries[i].deadline, basis);
      } else if (!entries[i].lost) {
        tightest = std::min(tightest, entries[i].deadline);
      }
    }
    requests_.push_back(stretch.requests);
    kv_tokens_.push_back(stretch.mean_kv_tokens());
    iterations_.push_back(stretch.until - stretch.from);
    limits_.push_back(until(tightest, basis));
    last_.push_back(last);
    all_iterations_ += iterations_.back();
    return true;
  });
  steps_.resize(requests_.size());
  prompts_ = prompts_of(basis);
  mean_ = {};
  if (all_iterations_ == 0) return;
  std::int64_t requests = 0;
  std::int64_t kv_tokens = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests += requests_[i] * iterations_[i];
    kv_tokens += kv_tokens_[i] * iterations_[i];
  }
  mean_.decode_requests = static_cast<std::int32_t>((requests + all_iterations_ / 2) / all_iterations_);
  mean_.decode_kv_tokens = kv_tokens / all_iterations_;
}

/// How much longer the first iteration takes because of prompt tokens; negative: not believable.
Span Forecaster::prefill_delay(const LatencyModel& latency, MegaHertz clock) const {
  if (prompts_.idle()) return {};
  StepShape shape = prompts_;
  Span decode;
  if (!requests_.empty()) shape.decode_requests = std::max(requests_.front() - shape.prefill_requests, 0);
  if (shape.decode_requests > 0) {
    // The KV of prompts that are still being computed is not read yet.
    shape.decode_kv_tokens = std::max<std::int64_t>(first_kv_tokens_ - basis_.prefill_tokens, 0);
    StepShape alone;
    alone.decode_requests = shape.decode_requests;
    alone.decode_kv_tokens = shape.decode_kv_tokens;
    decode = latency.step_time(alone, clock);
  }
  const Span mixed = latency.step_time(shape, clock);
  if (!believable(mixed) || decode < Span()) return Span(-1);
  return std::max(mixed - decode, Span());
}

template <typename Visit>
Obstacle Forecaster::walk(const LatencyModel& latency, MegaHertz clock, Span& decoding, Visit&& visit) {
  const Span prefill = prefill_delay(latency, clock);
  if (prefill < Span()) return Obstacle::Disbelieved;
  const std::span<Span> steps(steps_);
  for (std::size_t from = 0; from < steps.size(); from += kChunk) {
    const std::size_t count = std::min(kChunk, steps.size() - from);
    latency.decode_times(std::span(requests_).subspan(from, count), std::span(kv_tokens_).subspan(from, count), clock,
                         steps.subspan(from, count));
    for (std::size_t i = from; i < from + count; ++i) {
      if (!believable(steps[i])) return Obstacle::Disbelieved;
      // 2^63 ns are 15 million iterations of 600 s: sums of plausible steps are far below.
      decoding += steps[i] * iterations_[i];
      if (!visit(i, prefill + decoding)) return Obstacle::Deadline;
    }
  }
  return Obstacle::None;
}

Forecast Forecaster::at(const LatencyModel& latency, MegaHertz clock) {
  Forecast result;
  Span decoding;
  result.obstacle = walk(latency, clock, decoding, [&](std::size_t i, Span at) {
    if (i == own_ && at > own_limit_) result.own_deadline_missed = true;
    return at <= limits_[i];
  });
  if (result.obstacle != Obstacle::None || all_iterations_ == 0) return result;
  if (decoding / all_iterations_ > basis_.tbt) result.obstacle = Obstacle::Tbt;
  return result;
}

MegaHertz Forecaster::lowest_clock(const LatencyModel& latency, std::span<const MegaHertz> clocks, Obstacle& at_top) {
  at_top = at(latency, clocks.back()).obstacle;
  if (at_top != Obstacle::None) return clocks.back();
  const auto fails = [&](MegaHertz clock) { return at(latency, clock).obstacle != Obstacle::None; };
  return *std::ranges::partition_point(clocks.first(clocks.size() - 1), fails);
}

double Forecaster::effort(const LatencyModel& latency, const PowerModel& power, MegaHertz clock) const {
  const auto of = [&](const StepShape& shape) {
    const Span time = latency.step_time(shape, clock);
    const Milliwatts drawn = power.step_power(shape, clock);
    return believable(time) ? static_cast<double>(time.ns()) * static_cast<double>(drawn.value()) : 0.0;
  };
  const double decoding = mean_.idle() ? 0.0 : of(mean_) * static_cast<double>(all_iterations_);
  const double prompts = prompts_.idle() ? 0.0 : of(prompts_);
  const bool nonsense = (!mean_.idle() && decoding <= 0.0) || (!prompts_.idle() && prompts <= 0.0);
  return nonsense ? 0.0 : decoding + prompts;
}

MegaHertz Forecaster::least_energy_clock(const LatencyModel& latency, const PowerModel& power,
                                         std::span<const MegaHertz> clocks) const {
  MegaHertz best = clocks.front();
  double least = 0.0;
  for (const MegaHertz clock : clocks) {
    const double took = effort(latency, power, clock);
    if (took <= 0.0) return clocks.front();
    if (clock != clocks.front() && took >= least) continue;
    least = took;
    best = clock;
  }
  return best;
}

std::int32_t Forecaster::give_up_hopeless(Scoreboard& board, const LatencyModel& latency, MegaHertz clock) {
  const std::int32_t before = board.lost();
  Span decoding;
  std::size_t first = 0;
  walk(latency, clock, decoding, [&](std::size_t i, Span at) {
    for (; first < last_[i]; ++first) {
      if (at > until(board.requests()[first].deadline, basis_)) board.set_lost(first);
    }
    return true;
  });
  return board.lost() - before;
}

}  // namespace wattle::policy
