#pragma once
// DynamoLLM's instance manager (HPCA 2025, section IV-B): every five seconds, the clock of one instance.
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/load_table.h"
#include "policy/frequency/frequency.h"

namespace wattle::managers {

struct InstanceManagerOptions {
  Span epoch = Span::s(5);
  /// The load is a mean over about this time (ours: an epoch has only about ten requests). A profile's load is a mean
  /// rate whose bursts are in its latencies already.
  Span memory = Span::s(60);
  double margin = 0.1;     ///< share of a clock's capacity kept free (ours)
  std::int32_t pools = 0;  ///< number of the plan's pools (PoolMap); spec.pool says in which of them it serves
  bool queue = true;       ///< highest clock while requests wait that no step of the last epoch admitted
};

/// Excludes the clocks whose profile misses the objectives at the present load and takes the one of least energy among
/// the rest; the highest if none remains. The load comes from the instance's own step reports, so that the policy works
/// beside the GPU, or from its streams if it sends none; with work that neither counts, the highest clock. The load is
/// prompt tokens computed and tokens decoded, each divided by the class's mean length; the higher quotient counts,
/// because smaller classes have other proportions. An idle instance continues to decide each epoch until its clock is
/// that of no load.
class InstanceManager final : public policy::FrequencyPolicy {
 public:
  /// The load is expressed in the class for which the instance's pool is planned. If the table lacks the instance's TP
  /// degree, the highest clock is kept.
  InstanceManager(const InstanceManagerOptions& options, std::shared_ptr<const plan::LoadTable> table,
                  const InstanceSpec& spec);
  ClockDecision choose(const InstanceView& view, Instant now) override;
  void delivered(const Delivered& news) override;

  /// Requests per second of the heaviest class, as last estimated.
  [[nodiscard]] double load_per_s() const { return load_per_s_; }

 private:
  void join(const InstanceSpec& spec);
  void hear(const StepReport& step);
  void judge(Instant now);
  void decide();
  [[nodiscard]] const plan::ShardProfile* leanest_at(double load_per_s) const;

  InstanceManagerOptions options_;
  std::shared_ptr<const plan::LoadTable> table_;
  const plan::ProfiledClass* class_ = nullptr;       ///< of the pool in which it serves
  std::vector<const plan::ShardProfile*> profiles_;  ///< by clock
  MegaHertz top_;
  MegaHertz clock_;
  const char* reason_ = "start: highest clock";
  bool started_ = false;
  Instant begun_;  ///< start of the present epoch
  StepReport last_;
  double prompt_tokens_ = 0.0, output_tokens_ = 0.0;  ///< of the present epoch
  bool admitted_ = true;                              ///< a step admitted a request, or none waited
  bool waited_ = false;
  bool worked_ = false;   ///< in the present epoch
  bool counted_ = false;  ///< some of that work was counted
  double load_per_s_ = 0.0;
  double mean_prompts_per_s_ = 0.0, mean_outputs_per_s_ = 0.0;
  double seen_ = 0.0;  ///< weight of these means that is based on observed time
};

}  // namespace wattle::managers
