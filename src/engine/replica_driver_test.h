#pragma once
// A replica fed with requests, which keeps what it said: for the tests of this folder.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/replica.h"

namespace wattle::engine {

struct Arrival {
  Instant at;
  Job job;
};

/// Feeds a Replica, and keeps what it said.
class Driver : public ReplicaObserver {
 public:
  Driver(const StepModel& model, const EngineOptions& options, bool fast_forward = false)
      : Driver(model, options_with(options, fast_forward)) {}
  Driver(const StepModel& model, const ReplicaOptions& options) : replica_(model, options, *this) {}

  void run(const std::vector<Arrival>& arrivals) {
    std::size_t next = 0;
    for (;;) {
      const Instant arrival = next < arrivals.size() ? arrivals[next].at : Instant::never();
      const Instant now = std::min(replica_.next_wake(), arrival);
      if (now == Instant::never()) return;
      replica_.advance(now);
      events.insert(events.end(), replica_.events().begin(), replica_.events().end());
      replica_.events().clear();
      for (; next < arrivals.size() && arrivals[next].at == now; ++next) replica_.submit(arrivals[next].job, now);
      if (replica_.wants_start()) replica_.start_step(now);
      replica_.check_invariants();
    }
  }
  [[nodiscard]] const Replica& replica() const { return replica_; }
  [[nodiscard]] Instant finished(Tag tag) const {
    const auto is = [&](const Event& e) { return e.kind == EventKind::Finished && e.tag == tag; };
    const auto at = std::ranges::find_if(events, is);
    return at == events.end() ? Instant::never() : at->at;
  }
  [[nodiscard]] std::int32_t largest_batch() const {
    std::int32_t most = 0;
    for (const StepReport& step : steps) most = std::max(most, step.shape.decode_requests);
    return most;
  }

  std::vector<Event> events;
  std::vector<StepReport> steps;
  std::int64_t gaps_within = 0;

 private:
  static ReplicaOptions options_with(const EngineOptions& engine, bool fast_forward) {
    ReplicaOptions options;
    options.engine = engine;
    options.initial_clock = MegaHertz(1980);
    options.fast_forward = fast_forward;
    return options;
  }
  Hold step_starts(const StepReport& report) override {
    steps.push_back(report);
    return {std::numeric_limits<std::int64_t>::max(), Instant::never()};
  }
  void goes_idle(InstanceId, Instant) override {}
  void power_changes(InstanceId, Instant, Milliwatts, std::int32_t, std::int64_t, MegaHertz) override {}
  void decode_joined(InstanceId, Tag, Instant) override {}
  void decode_left(InstanceId, Tag, Instant) override {}
  void prefill_settled(InstanceId, Instant, std::span<const PrefillShare>) override {}
  void gaps(const TokenGaps& of) override { gaps_within += of.within; }

  Replica replica_;
};

inline Arrival request(Tag tag, Instant at, std::int32_t prompt, std::int32_t output) {
  Job job;
  job.tag = tag;
  job.id = RequestId(tag);
  job.arrival = at;
  job.prompt_tokens = prompt;
  job.output_tokens = output;
  return {at, job};
}

inline std::vector<Arrival> together(std::int32_t requests, std::int32_t prompt, std::int32_t output) {
  std::vector<Arrival> all;
  for (std::int32_t i = 0; i < requests; ++i) all.push_back(request(static_cast<Tag>(i), Instant(), prompt, output));
  return all;
}

}  // namespace wattle::engine
