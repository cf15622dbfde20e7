#include "gateway/run_recorder.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "journal/plan_reader.h"
#include "net/clock.h"
#include "net/faults.h"
#include "net/log.h"

namespace wattle::gateway {

namespace {
constexpr auto kPeriod = std::chrono::milliseconds(100);
}

RunRecorder::RunRecorder(std::unique_ptr<journal::RunWriter> writer, const journal::RunFacts& facts, Options options)
    : options_(options),
      writer_(std::move(writer)),
      origin_(net::steady_now()),
      recipe_(facts.recipe),
      statistics_(facts.service.judged(facts.slo), facts.service.classes, facts.fairness) {
  thread_ = std::thread([this] { run(); });
}

Result<std::unique_ptr<RunRecorder>> RunRecorder::open(const std::string& directory, const journal::RunFacts& facts,
                                                       Options options) {
  journal::RunFiles files;
  files.trace = false;  // stretches of steps are the engines' own
  auto writer = journal::RunWriter::open(directory, facts, files);
  if (!writer) return std::unexpected(writer.error());
  return std::unique_ptr<RunRecorder>(new RunRecorder(std::move(*writer), facts, options));
}

RunRecorder::~RunRecorder() { stop(); }

void RunRecorder::joined(const journal::Instance& facts) { put(joined_, facts); }

void RunRecorder::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void RunRecorder::run() {
  for (;;) {
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      last = wake_.wait_for(lock, kPeriod, [this] { return stop_; });
    }
    write(last);
    if (last) return;
    try {
      checkpoint();
    } catch (...) {
      net::count_fault("the journal");
    }
  }
}

void RunRecorder::write(bool all) {
  std::vector<journal::Instance> joined;
  std::vector<journal::DecisionRecord> decisions;
  std::vector<Planned> plans;
  std::vector<Outcome> outcomes;
  std::vector<journal::Sample> samples;
  {
    const std::lock_guard lock(mutex_);
    joined.swap(joined_);
    decisions.swap(decisions_);
    plans.swap(plans_);
    outcomes.swap(outcomes_);
    samples.swap(samples_);
  }
  changed_ = changed_ || !joined.empty() || !decisions.empty() || !plans.empty() || !outcomes.empty() ||
             !samples.empty() || !held_.empty() || !held_plans_.empty() || !held_samples_.empty();
  for (const auto& facts : joined) writer_->joined(facts);
  held_.insert(held_.end(), decisions.begin(), decisions.end());
  std::ranges::stable_sort(held_, {}, &journal::DecisionRecord::at);
  std::ranges::move(plans, std::back_inserter(held_plans_));
  std::ranges::stable_sort(held_plans_, {}, &Planned::at);
  const Instant young = all ? Instant::never() : net::steady_now() - options_.hold_back;
  const auto ripe = std::ranges::partition_point(held_, [&](const auto& r) { return r.at < young; });
  for (auto r = held_.begin(); r != ripe; ++r) {
    write_plans(r->at);
    r->at = since_start(r->at);
    statistics_.decision(*r);
    writer_->decision(*r);
  }
  held_.erase(held_.begin(), ripe);
  write_plans(young);
  for (Outcome& o : outcomes) {
    for (Instant* at : {&o.request.arrival, &o.dispatched, &o.prefill_start, &o.first_token, &o.left}) {
      *at = since_start(*at);
    }
    statistics_.add_arrivals();
    statistics_.outcome(o);
    if (o.fate == Fate::Finished && o.output_tokens > 1) {
      statistics_.add_gap(o.tbt(), o.output_tokens - 1, o.gaps_within_itl);
    }
    writer_->outcome(o);
  }
  write_samples(samples, all);
}

void RunRecorder::write_samples(const std::vector<journal::Sample>& samples, bool all) {
  held_samples_.insert(held_samples_.end(), samples.begin(), samples.end());
  std::ranges::stable_sort(held_samples_, {}, &journal::Sample::at);
  const Instant young = all ? Instant::never() : net::steady_now() - options_.hold_back_samples;
  auto ripe = std::ranges::partition_point(held_samples_, [&](const auto& s) { return s.at < young; });
  if (held_samples_.end() - ripe > static_cast<std::ptrdiff_t>(options_.queue))
    ripe = held_samples_.end() - static_cast<std::ptrdiff_t>(options_.queue);
  for (auto s = held_samples_.begin(); s != ripe; ++s) {
    if (s->at < newest_sample_) {  // later than anything that is held back
      ++dropped_;
      continue;
    }
    newest_sample_ = s->at;
    s->at = since_start(s->at);
    clock_sum_mhz_ += s->clock.value();
    ++clock_samples_;
    writer_->sample(*s);
  }
  held_samples_.erase(held_samples_.begin(), ripe);
}

void RunRecorder::write_plans(Instant before) {
  const auto ripe = std::ranges::partition_point(held_plans_, [&](const Planned& p) { return p.at < before; });
  for (auto p = held_plans_.begin(); p != ripe; ++p) {
    journal::put_later(p->plan, Instant() - origin_);
    writer_->plan({since_start(p->at), p->mode, p->plan, p->gpus, p->flaw});
  }
  held_plans_.erase(held_plans_.begin(), ripe);
}

/// Where what was recorded is from now on. A full disk is said when it is met, not when the run ends.
void RunRecorder::checkpoint() {
  const Instant now = net::steady_now();
  if (!changed_ || now < checkpointed_ + options_.checkpoint) return;
  checkpointed_ = now;
  changed_ = false;
  std::function<journal::Consumption()> consumption;
  {
    const std::lock_guard lock(mutex_);
    if (!problem_.empty()) return;
    consumption = consumption_;
  }
  const auto written = writer_->checkpoint(
      summary_at(since_start(now), consumption ? consumption() : journal::Consumption()), statistics_.curves());
  if (written) return;
  const std::string problem = written.error().message();
  {
    const std::lock_guard lock(mutex_);
    problem_ = problem;
  }
  net::log_line(net::LogLevel::Error, "the journal fails, and requests go on without it",
                {{"error", std::string_view(problem)}});
}

std::string RunRecorder::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void RunRecorder::ask_consumption(std::function<journal::Consumption()> consumption) {
  const std::lock_guard lock(mutex_);
  consumption_ = std::move(consumption);
}

journal::RunSummary RunRecorder::summary_at(Instant end, const journal::Consumption& consumption) const {
  auto summary = statistics_.summary();
  static_cast<journal::Consumption&>(summary) = consumption;
  summary.recipe = recipe_;
  if (clock_samples_ > 0) summary.clock_mean_mhz = clock_sum_mhz_ / static_cast<double>(clock_samples_);
  summary.sim.virtual_s = summary.sim.wall_s = end.seconds();
  summary.mean_gpus = summary.gpu_s / summary.sim.virtual_s;
  summary.derive();
  return summary;
}

Result<void> RunRecorder::close(const journal::Consumption& consumption) {
  stop();
  return writer_->close(summary_at(since_start(net::steady_now()), consumption), statistics_.curves());
}

}  // namespace wattle::gateway
