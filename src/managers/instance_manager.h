#pragma once
// DynamoLLM's instance manager (HPCA 2025, section IV-B): every five seconds, the clock of one instance.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/load_table.h"
#include "policy/frequency/frequency.h"

namespace wattle::managers {

struct InstanceManagerOptions {
  Span epoch = Span::s(5);
  /// The load is the mean over about so long (ours: an epoch has only some ten requests): a profile's load is a mean
  /// rate, whose bursts are in its latencies already.
  Span memory = Span::s(60);
  double margin = 0.1;     ///< share of what a clock carries that is kept free (ours)
  std::int32_t pools = 0;  ///< of the plan (PoolMap); spec.pool says which of them it serves in
  bool queue = true;       ///< highest clock while requests wait that no step of the last epoch took in
};

/// Drops the clocks whose profile misses the objectives at the present load, then takes the one of least energy; the
/// highest where none is left. Knows the load from the instance's own step reports, so that it works beside the GPU,
/// or from what its streams have brought where it sends none; the highest clock where there is work and neither counts
/// it. The load is prompt tokens computed and tokens decoded, over the class's mean lengths; the higher of the two
/// counts, as requests of smaller classes have other proportions. Idle it goes on deciding each epoch, until the clock
/// is that of no load.
class InstanceManager final : public policy::FrequencyPolicy {
 public:
  /// The load counts in the class that the instance's pool is planned for. A table without the instance's TP degree
  /// keeps the highest clock.
  InstanceManager(const InstanceManagerOptions& options, std::shared_ptr<const plan::LoadTable> table,
                  const InstanceSpec& spec);
  ClockDecision choose(const InstanceView& view, Instant now) override;
  void delivered(const Delivered& news) override;

  /// Requests per second of the heaviest class, as last judged.
  [[nodiscard]] double load_per_s() const { return load_per_s_; }

 private:
  void join(const InstanceSpec& spec);
  void hear(const StepReport& step);
  void judge(Instant now);
  void decide();
  [[nodiscard]] const plan::ShardProfile* leanest_at(double load_per_s) const;

  InstanceManagerOptions options_;
  std::shared_ptr<const plan::LoadTable> table_;
  const plan::ProfiledClass* class_ = nullptr;       ///< of the pool it serves in
  std::vector<const plan::ShardProfile*> profiles_;  ///< by clock
  MegaHertz top_;
  MegaHertz clock_;
  const char* reason_ = "start: highest clock";
  bool started_ = false;
  Instant begun_;  ///< the present epoch
  StepReport last_;
  double prompt_tokens_ = 0.0, output_tokens_ = 0.0;  ///< of the present epoch
  bool admitted_ = true;                              ///< a step took in a request, or none waited
  bool waited_ = false;
  bool worked_ = false;   ///< in the present epoch
  bool counted_ = false;  ///< something of that
  double load_per_s_ = 0.0;
  double mean_prompts_per_s_ = 0.0, mean_outputs_per_s_ = 0.0;
  double seen_ = 0.0;  ///< weight of these means that is of time observed
};

}  // namespace wattle::managers
