#include "experiment/request_profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "experiment/prepare.h"
#include "policy/frequency/static_clock.h"

namespace wattle::experiment {

namespace {

constexpr std::size_t kTerms = 6;
constexpr std::size_t kClocks = 8;
constexpr Span kRun = Span::s(120);

struct Sample {
  std::array<double, kTerms> x{1.0};
  double seconds = 0.0;
};

/// Admits every request and records the state at its dispatch.
class Probe final : public policy::AdmissionPolicy {
 public:
  Probe(MegaHertz clock, std::vector<Sample>& samples) : clock_(clock), samples_(samples) {}
  AdmissionDecision admit(const Request&, const FleetSnapshot&) override { return {}; }
  [[nodiscard]] EventKinds observes() const override { return EventKinds::of<event::Started, event::Left>(); }
  void observe(const Event& event, Instant now) override {
    if (const auto* started = std::get_if<event::Started>(&event)) {
      const auto& step = started->instance.step;
      open_[started->request.id.value()].x = {
          1.0,
          static_cast<double>(clock_.value()),
          static_cast<double>(step.shape.decode_requests + step.shape.prefill_requests),
          static_cast<double>(step.kv_tokens),
          static_cast<double>(started->request.prompt_tokens),
          0.0};
    } else if (const auto* left = std::get_if<event::Left>(&event)) {
      ended(left->outcome, now);
    }
  }

 private:
  void ended(const Outcome& outcome, Instant now) {
    const auto found = open_.find(outcome.request.id.value());
    if (found == open_.end()) return;
    if (outcome.fate == Fate::Finished) {
      found->second.x[5] = outcome.output_tokens;
      found->second.seconds = (now - outcome.dispatched).seconds();
      samples_.push_back(found->second);
    }
    open_.erase(found);
  }

  MegaHertz clock_;
  std::vector<Sample>& samples_;
  std::unordered_map<std::int64_t, Sample> open_;
};

/// Normal equations, scaled, by Gauss-Jordan with pivoting; a term without variation gets 0.
std::array<double, kTerms> least_squares(const std::vector<Sample>& samples) {
  std::array<double, kTerms> scale{};
  for (const auto& s : samples) {
    for (std::size_t i = 0; i < kTerms; ++i) scale[i] = std::max(scale[i], std::abs(s.x[i]));
  }
  std::array<std::array<double, kTerms + 1>, kTerms> m{};
  for (const auto& s : samples) {
    for (std::size_t i = 0; i < kTerms; ++i) {
      const double xi = scale[i] > 0.0 ? s.x[i] / scale[i] : 0.0;
      for (std::size_t j = 0; j < kTerms; ++j) m[i][j] += scale[j] > 0.0 ? xi * s.x[j] / scale[j] : 0.0;
      m[i][kTerms] += xi * s.seconds;
    }
  }
  const double negligible = 1e-9 * static_cast<double>(samples.size());
  for (std::size_t column = 0; column < kTerms; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < kTerms; ++row) {
      if (std::abs(m[row][column]) > std::abs(m[pivot][column])) pivot = row;
    }
    std::swap(m[column], m[pivot]);
    if (std::abs(m[column][column]) < negligible) {
      m[column].fill(0.0);
      m[column][column] = 1.0;
    }
    for (std::size_t row = 0; row < kTerms; ++row) {
      if (row == column) continue;
      const double factor = m[row][column] / m[column][column];
      for (std::size_t k = column; k <= kTerms; ++k) m[row][k] -= factor * m[column][k];
    }
  }
  std::array<double, kTerms> weights{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (scale[i] > 0.0) weights[i] = m[i][kTerms] / m[i][i] / scale[i];
  }
  return weights;
}

double explained(const RequestLatency& model, const std::vector<Sample>& samples) {
  double sum = 0.0;
  double squares = 0.0;
  double residual = 0.0;
  for (const auto& s : samples) {
    const double predicted =
        model.seconds(MegaHertz(static_cast<std::int32_t>(s.x[1])), s.x[2], s.x[3], s.x[4], s.x[5]);
    sum += s.seconds;
    squares += s.seconds * s.seconds;
    residual += (predicted - s.seconds) * (predicted - s.seconds);
  }
  const double total = squares - sum * sum / static_cast<double>(samples.size());
  return total > 0.0 ? 1.0 - residual / total : 1.0;
}

}  // namespace

Result<RequestFit> fit_request_latency(const config::LoadedScenario& loaded, std::size_t pool,
                                       const std::string& data_dir) {
  if (loaded.scenario.pools.at(pool).role != Role::Colocated) {
    return bad_input(loaded.origins.of(fmt::format("fleet.{}.role", pool)),
                     "the regression is of whole requests; it needs colocated instances");
  }
  std::vector<Sample> samples;
  const auto clocks = supported_clocks(loaded.gpus[pool]);
  for (std::size_t c = 1; c <= kClocks; ++c) {
    const MegaHertz clock = clocks[(clocks.size() - 1) * c / kClocks];
    for (const double load : {0.3, 0.6, 0.9}) {
      config::LoadedScenario scenario = alone(loaded, pool);
      auto& s = scenario.scenario;
      s.seed += 1000;
      if (!s.workload_fallback.empty()) {
        s.workload.trace.clear();
        s.workload.synthetic = s.workload_fallback;
      }
      s.workload.rate_scale *= load;
      s.workload.rate_per_s *= load;
      s.workload.peak_rate_per_s *= load;
      s.workload.trough_rate_per_s = 0.0;
      s.workload.rate_window = std::min(s.workload.rate_window, kRun / 4);
      s.workload.duration = kRun;
      systems::LoadedRecipe fixed;
      fixed.recipe.name = "request-profile";
      fixed.recipe.decode_frequency.options = policy::StaticClockOptions{.clock = clock};
      auto run = prepare(scenario, fixed, data_dir);
      if (!run) return std::unexpected(run.error());
      run->setup.instances.front().initial_clock = clock;
      run->setup.policies.admission = {std::make_unique<Probe>(clock, samples), Mode::Enforce};
      (void)sim::simulate(std::move(run->setup));
    }
  }
  if (samples.empty())
    return bad_input(loaded.scenario.file, "no request finished; nothing to fit the latency of requests on");
  RequestFit fit;
  fit.model.weights = least_squares(samples);
  fit.r2 = explained(fit.model, samples);
  fit.samples = samples.size();
  return fit;
}

}  // namespace wattle::experiment
