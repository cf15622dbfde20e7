#include "predict/online/online_latency.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"

namespace wattle::predict {

namespace {

constexpr std::size_t kHeldOut = 4;           ///< one sample in so many judges and is not learnt from
constexpr std::size_t kEnoughForMedian = 16;  ///< ratios
constexpr double kNoise = 1.05;               ///< two models this close differ by chance
constexpr double kNegligible = 0.005;         ///< share of a step's time, over both phases: no decision hangs on it
constexpr Span kLongestStep = Span::s(600);   ///< no step takes this long

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

OnlineLatency::OnlineLatency(std::shared_ptr<const LatencyModel> offline, LatencyRefit refit,
                             const OnlineOptions& options)
    : refit_(std::move(refit)), options_(options), offline_(std::move(offline)), active_(offline_) {
  WATTLE_CHECK(options_.window > 0 && options_.window <= options_.ring && options_.refit_every > 0,
               "a window within the ring, and at least one sample between refits");
  ring_.resize(static_cast<std::size_t>(options_.ring));
}

void OnlineLatency::Sums::add(double measured, double offline, double active) {
  ++samples;
  measured_ms += measured;
  offline_ms += std::abs(offline - measured);
  active_ms += std::abs(active - measured);
  signed_ms += active - measured;
}

OnlineError OnlineLatency::Sums::error() const {
  if (samples == 0) return {};
  const auto n = static_cast<double>(samples);
  return {samples, offline_ms / n, active_ms / n, signed_ms / measured_ms};
}

const StepSample& OnlineLatency::sample(std::size_t i) const {
  return ring_[(static_cast<std::size_t>(counts_.samples) - 1 - i) % ring_.size()];
}

bool OnlineLatency::held_out(std::size_t i) const {
  return (static_cast<std::size_t>(counts_.samples) - 1 - i) % kHeldOut == 0;
}

double OnlineLatency::badness(const LatencyModel& model, std::size_t newest, bool held_out_only) const {
  double error_ms[2] = {0.0, 0.0};
  double measured_ms[2] = {0.0, 0.0};
  for (std::size_t i = 0; i < std::min(newest, kept_); ++i) {
    if (held_out_only && !held_out(i)) continue;
    const StepSample& s = sample(i);
    const std::size_t phase = pure_prefill(s.shape) ? 1 : 0;
    error_ms[phase] += std::abs(model.step_time(s.shape, s.clock).millis() - s.duration.millis());
    measured_ms[phase] += s.duration.millis();
  }
  double sum = 0.0;
  for (const std::size_t phase : {0U, 1U}) {
    if (measured_ms[phase] > 0.0) sum += error_ms[phase] / measured_ms[phase];
  }
  return sum;
}

bool OnlineLatency::add(const StepSample& s) {
  if (s.clock.value() <= 0 || s.duration <= Span() || s.duration > kLongestStep || s.shape.decode_kv_tokens < 0 ||
      !(pure_prefill(s.shape) || pure_decode(s.shape))) {
    ++counts_.ignored;
    return false;
  }
  ring_[static_cast<std::size_t>(counts_.samples) % ring_.size()] = s;
  ++counts_.samples;
  kept_ = std::min(kept_ + 1, ring_.size());
  ++since_refit_;
  ++since_adoption_;
  sums_[pure_prefill(s.shape) ? 1 : 0].add(s.duration.millis(), offline_->step_time(s.shape, s.clock).millis(),
                                           active_->step_time(s.shape, s.clock).millis());
  if (!previous_ || since_adoption_ % options_.window != 0) return false;
  const auto window = static_cast<std::size_t>(options_.window);
  if (badness(*active_, window, false) <= kNoise * badness(*previous_, window, false) + kNegligible) return false;
  active_ = std::move(previous_);
  previous_ = nullptr;
  kept_ = std::min(kept_, window);
  since_refit_ = 0;
  ++counts_.rolled_back;
  return true;
}

bool OnlineLatency::refit_due() const { return options_.refit && !fitting_ && since_refit_ >= options_.refit_every; }

std::vector<StepSample> OnlineLatency::begin_refit() {
  fitting_ = true;
  since_refit_ = 0;
  ++counts_.refits;
  std::vector<StepSample> samples;
  samples.reserve(kept_);
  for (std::size_t i = kept_; i-- > 0;) {
    if (!held_out(i)) samples.push_back(sample(i));
  }
  return samples;
}

OnlineLatency::Ended OnlineLatency::end_refit(Result<std::shared_ptr<const LatencyModel>> model) {
  fitting_ = false;
  if (!model) {
    ++counts_.failed;
    return {};
  }
  const auto window = static_cast<std::size_t>(options_.window);
  if (!(badness(**model, window, true) < badness(*active_, window, true))) {
    ++counts_.rejected;
    return {false, std::move(*model)};
  }
  Ended ended{true, std::move(previous_)};
  previous_ = std::move(active_);
  active_ = std::move(*model);
  since_adoption_ = 0;
  ++counts_.adopted;
  return ended;
}

OnlineError OnlineLatency::since_start(bool prefill) const { return sums_[prefill ? 1 : 0].error(); }

OnlineError OnlineLatency::newest(bool prefill) const {
  Sums sums;
  for (std::size_t i = 0; i < std::min(kept_, static_cast<std::size_t>(options_.window)); ++i) {
    const StepSample& s = sample(i);
    if (pure_prefill(s.shape) != prefill) continue;
    sums.add(s.duration.millis(), offline_->step_time(s.shape, s.clock).millis(),
             active_->step_time(s.shape, s.clock).millis());
  }
  return sums.error();
}

std::vector<StepSample> level_profile(std::span<const StepSample> profile, const LatencyModel& offline,
                                      std::span<const StepSample> served) {
  std::map<std::pair<bool, MegaHertz>, std::vector<double>> by_clock;
  std::map<bool, std::vector<double>> by_phase;
  for (const StepSample& s : served) {
    const auto predicted = static_cast<double>(offline.step_time(s.shape, s.clock).ns());
    if (predicted <= 0.0) continue;
    const double ratio = static_cast<double>(s.duration.ns()) / predicted;
    by_clock[{pure_prefill(s.shape), s.clock}].push_back(ratio);
    by_phase[pure_prefill(s.shape)].push_back(ratio);
  }
  std::map<bool, double> phase_ratio;
  for (auto& [phase, ratios] : by_phase) {
    if (ratios.size() >= kEnoughForMedian) phase_ratio[phase] = median(ratios);
  }
  std::map<std::pair<bool, MegaHertz>, double> clock_ratio;
  for (auto& [key, ratios] : by_clock) {
    if (ratios.size() >= kEnoughForMedian) clock_ratio[key] = median(ratios);
  }
  std::vector<StepSample> levelled(profile.begin(), profile.end());
  for (StepSample& s : levelled) {
    const bool phase = pure_prefill(s.shape);
    double ratio = phase_ratio.contains(phase) ? phase_ratio[phase] : 1.0;
    if (const auto found = clock_ratio.find({phase, s.clock}); found != clock_ratio.end()) ratio = found->second;
    s.duration = Span(std::llround(static_cast<double>(s.duration.ns()) * ratio));
  }
  return levelled;
}

}  // namespace wattle::predict
