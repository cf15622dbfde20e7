#pragma once
// What FREESH's workers draw by the paper's own words: their rating at the highest clock "irrespective of the actual
// workload" (appendix B.2, Figure 15), less at lower clocks along a line (Figure 14).
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "carbon/ledger.h"
#include "journal/record.h"
#include "plan/pools_problem.h"

namespace wattle::reproduce::freesh {

/// kIdleShare of the rating at MIAD's floor of 300 MHz, all of it at `most`.
[[nodiscard]] double power_share(MegaHertz clock, MegaHertz most);

/// A ledger of a run in which workers draw so. Samples say what clock the time until the next has.
class RatedPower {
 public:
  /// `partition` of the problem's sorts the requests. `pooled`: a worker serves all types, and is rated as the mean
  /// over the demand. `end`: of the time that in_time() is about.
  RatedPower(const plan::PoolsProblem& problem, std::size_t partition, bool pooled,
             std::vector<carbon::SiteRates> sites, Instant end);

  void joined(const journal::Instance& instance);
  void decision(const journal::DecisionRecord& record);
  void sample(const journal::Sample& sample);
  /// Up to the newest sample.
  [[nodiscard]] carbon::Totals rated();
  [[nodiscard]] carbon::Totals rated_in_time();
  /// As the run's own ledger has it, before `end`.
  [[nodiscard]] Picojoules booked_in_time() const;

 private:
  struct Worker {
    InstanceId in_ledger;
    Watts rating;
    MegaHertz most;
    Picojoules booked;
  };
  [[nodiscard]] Watts rating_of(const InstanceSpec& spec) const;

  const plan::PoolsProblem& problem_;
  std::size_t partition_;
  bool pooled_;
  carbon::Ledger ledger_;
  Instant end_, now_;
  std::map<InstanceId, Worker> workers_;
  std::optional<carbon::Totals> rated_in_time_;
};

}  // namespace wattle::reproduce::freesh
