#include "fidelity/benchmark_run.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "carbon/ledger.h"
#include "engine/replica.h"
#include "fidelity/samples.h"
#include "fidelity/step_value.h"

namespace wattle::fidelity {
namespace {

constexpr InstanceId kInstance(0);

std::int32_t draw_length(RandomStream& random, double mean_tokens, double cv, double shortest, double longest) {
  double tokens = mean_tokens;
  if (shortest < 1.0) {
    tokens *= shortest + (1.0 - shortest) * random.uniform();
  } else if (cv > 0.0) {
    const double sigma2 = std::log(1.0 + cv * cv);
    tokens *= std::exp(std::sqrt(sigma2) * random.normal() - sigma2 / 2.0);
    if (longest > 0.0) tokens = std::min(tokens, longest);
  }
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, std::llround(tokens)));
}

/// A ledger for one instance, without carbon and prices.
carbon::Ledger one_meter(std::int32_t gpus) {
  carbon::Ledger ledger(std::vector<carbon::SiteRates>(1));
  ledger.add_instance(Instant(), gpus);
  return ledger;
}

/// The client, its clock and its meter.
class Benchmark final : public engine::ReplicaObserver {
 public:
  Benchmark(const engine::StepModel& model, const engine::EngineOptions& engine, const Load& load,
            const RivalPower* rival)
      : load_(load),
        rival_(rival),
        skip_(static_cast<std::int32_t>(load.warm_up * load.requests)),
        token_time_(Span::from_seconds(load.front_end_token_s)),
        random_(11, "serving-test"),
        replica_(model, options(engine, load, rival), *this) {}

  Measured run();

  Hold step_starts(const StepReport&) override { return {std::numeric_limits<std::int64_t>::max(), Instant::never()}; }
  void goes_idle(InstanceId, Instant) override {}
  void power_changes(InstanceId, Instant at, Milliwatts power, std::int32_t, std::int64_t, MegaHertz) override {
    if (rival_ == nullptr) draw(power, at);
  }
  void decode_joined(InstanceId, engine::Tag, Instant) override {}
  void decode_left(InstanceId, engine::Tag, Instant) override {}
  void prefill_settled(InstanceId, Instant, std::span<const engine::PrefillShare>) override {}
  void gaps(const engine::TokenGaps& of) override {
    emitted_ += of.steps * of.requests;
    if (window_) gaps_.add(of.first, of.increment, of.steps, of.requests);
  }

 private:
  struct Request {
    Instant arrival;
    Instant first_token = Instant::never();
  };
  struct Submission {
    Instant at;
    engine::Job job;
  };

  static engine::ReplicaOptions options(const engine::EngineOptions& engine, const Load& load,
                                        const RivalPower* rival) {
    engine::ReplicaOptions made;
    made.id = kInstance;
    made.engine = engine;
    made.initial_clock = load.clock;
    // A rival model's power is per step, and tokens that wait at the front end need single steps.
    made.fast_forward = rival == nullptr && load.front_end_token_s <= 0.0;
    return made;
  }
  [[nodiscard]] bool closed() const { return load_.concurrency > 0; }
  /// Requests to send; a steady loop continues beyond the measured window.
  [[nodiscard]] std::int32_t most() const {
    return closed() && load_.warm_up > 0.0 ? std::numeric_limits<std::int32_t>::max() : load_.requests;
  }
  [[nodiscard]] Instant next_arrival() const {
    return closed() || issued_ >= load_.requests ? Instant::never() : Instant() + Span::from_seconds(next_arrival_s_);
  }
  [[nodiscard]] Instant next_submission() const {
    return submissions_.empty() ? Instant::never() : submissions_.front().at;
  }

  /// Each of the prompts sent before the run, an answer of one token each; when that is done.
  [[nodiscard]] Instant send_first_prompts();
  void issue(Instant at);
  void issue_due(Instant now);
  void see_events(Instant now);
  void start_step(Instant now);
  /// The instance's power from `at` on, without attribution to requests.
  void draw(Milliwatts power, Instant at) { ledger_.power_changes(kInstance, at, power, 0, 0); }
  void draw_as_rival(const StepShape& shape, double seconds, Instant at) {
    draw(to_milliwatts(Watts(rival_->step(shape, seconds))), at);
  }
  void open_window(Instant now);
  [[nodiscard]] Measured result(Instant end);

  const Load& load_;
  const RivalPower* rival_;
  std::int32_t skip_;  ///< requests at either end outside the window
  Span token_time_;
  RandomStream random_;
  carbon::Ledger ledger_ = one_meter(1);

  std::vector<PromptContent> prompts_;  ///< prefixes of prompts; empty: none are shared
  std::vector<Request> requests_;       ///< by tag
  std::deque<Submission> submissions_;  ///< on their way to the engine, in order
  double next_arrival_s_ = 0.0;         ///< open loop
  std::int32_t issued_ = 0;
  std::int32_t finished_ = 0;
  Instant front_end_free_;
  Instant shown_;             ///< when the client sees the tokens of the last step
  std::int64_t emitted_ = 0;  ///< tokens since the client last looked
  bool feasible_ = true;

  bool window_ = false;
  Instant window_start_;
  Picojoules energy_before_;
  std::int64_t tokens_ = 0;
  std::vector<double> ttft_s_;
  std::vector<double> tpot_s_;
  Gaps gaps_;

  engine::Replica replica_;  ///< calls the members above
};

Instant Benchmark::send_first_prompts() {
  for (std::int32_t i = 0; i < load_.distinct_prompts; ++i) {
    const std::uint64_t id[] = {static_cast<std::uint64_t>(i)};
    prompts_.push_back(chained(static_cast<std::int32_t>(load_.input_mean), id));
    if (i >= load_.prompts_sent_before) continue;
    engine::Job job;
    job.id = RequestId(-1 - i);
    job.prompt_tokens = static_cast<std::int32_t>(load_.input_mean);
    job.output_tokens = 1;
    job.content = prompts_.back();
    feasible_ = replica_.can_ever_fit(job.prompt_tokens, job.output_tokens);
    if (feasible_) replica_.submit(job, Instant());
  }
  Instant now;
  for (; feasible_; now = replica_.next_wake()) {
    replica_.advance(now);
    replica_.events().clear();
    if (!replica_.wants_start()) break;
    start_step(now);
    if (replica_.requests_held() == 0) break;
  }
  emitted_ = 0;
  front_end_free_ = shown_ = now;
  return now;
}

void Benchmark::issue(Instant at) {
  engine::Job job;
  job.tag = static_cast<engine::Tag>(issued_);
  job.id = RequestId(issued_);
  job.arrival = at;
  job.prompt_tokens = draw_length(random_, load_.input_mean, load_.input_cv, load_.shortest, load_.longest_input);
  job.output_tokens = draw_length(random_, load_.output_mean, load_.output_cv, load_.shortest, load_.longest_output);
  if (load_.prefill_only) job.output_tokens = 1;
  job.kv_ready = load_.decode_only;
  if (!prompts_.empty()) {
    job.content = prompts_[static_cast<std::size_t>(random_.uniform() * static_cast<double>(prompts_.size()))];
  }
  const std::int32_t index = issued_++;
  requests_.push_back({at, Instant::never()});
  feasible_ = replica_.can_ever_fit(job.prompt_tokens, job.output_tokens);
  if (!feasible_) return;
  // A closed loop starts in its steady state: requests in flight are spread over their lives.
  if (closed() && load_.warm_up > 0.0 && index < load_.concurrency) {
    const auto generated = static_cast<std::int32_t>(std::int64_t{job.output_tokens} * index / load_.concurrency);
    if (generated > 0) {
      job.prompt_tokens += generated - 1;
      job.output_tokens -= generated - 1;
      job.kv_ready = true;
      replica_.submit(job, at);
      return;
    }
  }
  const double turn_s = load_.front_end_s / load_.front_end_processes;
  front_end_free_ = std::max(at, front_end_free_) + Span::from_seconds(turn_s);
  submissions_.push_back({front_end_free_ + Span::from_seconds(load_.front_end_s - turn_s), job});
}

void Benchmark::issue_due(Instant now) {
  if (closed()) {
    while (feasible_ && issued_ < most() && issued_ - finished_ < load_.concurrency) issue(std::max(now, shown_));
    return;
  }
  while (feasible_ && next_arrival() <= now) {
    issue(next_arrival());
    next_arrival_s_ += random_.exponential() / load_.rate_per_s;
  }
}

void Benchmark::see_events(Instant now) {
  const auto is_first = [](const engine::Event& e) { return e.kind == engine::EventKind::FirstToken; };
  emitted_ += std::ranges::count_if(replica_.events(), is_first);
  if (window_) tokens_ += emitted_;
  if (token_time_ == Span()) {
    shown_ = now;
  } else if (emitted_ > 0) {
    shown_ = front_end_free_ = std::max(now, front_end_free_) + token_time_ * emitted_;
  }
  emitted_ = 0;
  for (const engine::Event& e : replica_.events()) {
    if (e.kind == engine::EventKind::TakenOver) continue;
    Request& request = requests_[e.tag];
    if (is_first(e)) {
      request.first_token = shown_;
      if (window_) ttft_s_.push_back((shown_ - request.arrival).seconds());
      continue;
    }
    ++finished_;
    if (load_.decode_only) request.first_token = e.prefill_start;
    if (window_ && e.output_tokens > 1 && request.first_token != Instant::never()) {
      tpot_s_.push_back((shown_ - request.first_token).seconds() / (e.output_tokens - 1));
    }
  }
  replica_.events().clear();
}

void Benchmark::start_step(Instant now) {
  replica_.start_step(now);
  if (rival_ != nullptr) draw_as_rival(replica_.report(now).shape, seconds_of(replica_.run().first), now);
}

void Benchmark::open_window(Instant now) {
  ledger_.close(now);
  window_ = true;
  window_start_ = now;
  energy_before_ = ledger_.totals(kInstance).total.energy;
}

Measured Benchmark::run() {
  if (rival_ != nullptr) draw_as_rival(StepShape{}, 0.0, Instant());
  Instant now = send_first_prompts();
  if (skip_ == 0) open_window(now);
  for (;;) {
    replica_.advance(now);
    see_events(now);
    if (finished_ >= load_.requests - skip_) return result(now);
    if (!window_ && finished_ >= skip_) open_window(now);
    issue_due(now);
    if (!feasible_) return {.feasible = false};
    for (; next_submission() <= now; submissions_.pop_front()) replica_.submit(submissions_.front().job, now);
    if (replica_.wants_start()) start_step(now);
    now = std::min({replica_.next_wake(), next_arrival(), next_submission()});
    WATTLE_CHECK(now != Instant::never(), "a run ends with its last request");
  }
}

Measured Benchmark::result(Instant end) {
  ledger_.close(end);
  Measured m;
  m.energy_j = (ledger_.totals(kInstance).total.energy - energy_before_).joules().value();
  m.duration_s = (end - window_start_).seconds();
  m.power_w = m.energy_j / m.duration_s;
  m.output_tokens_per_s = static_cast<double>(tokens_) / m.duration_s;
  m.ttft_mean_s = mean_of(ttft_s_);
  m.ttft_p99_s = percentile(ttft_s_, 0.99);
  m.tpot_mean_s = mean_of(tpot_s_);
  m.tpot_p99_s = percentile(tpot_s_, 0.99);
  m.itl_p50_s = gaps_.empty() ? std::numeric_limits<double>::quiet_NaN() : seconds_of(gaps_.percentile(0.50));
  return m;
}

}  // namespace

std::unexpected<Error> too_large() { return bad_input({}, "a request exceeds the KV cache"); }

Measured run(const engine::StepModel& model, const engine::EngineOptions& engine, const Load& load,
             const RivalPower* rival) {
  return Benchmark(model, engine, load, rival != nullptr && rival->rival.law == PowerLaw::Ours ? nullptr : rival).run();
}

}  // namespace wattle::fidelity
