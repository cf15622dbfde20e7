#pragma once
// What FREESH's workers draw by the paper's own words: their rating at the highest clock "irrespective of the actual
// workload" (appendix B.2, Figure 15), less at lower clocks along a line (Figure 14).
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "journal/record.h"
#include "plan/pools_problem.h"

namespace wattle::reproduce::freesh {

/// kIdleShare of the rating at MIAD's floor of 300 MHz, all of it at `most`.
[[nodiscard]] double power_share(MegaHertz clock, MegaHertz most);

struct Consumed {
  Joules energy;
  GramsCo2 carbon;
};

/// Adds up what a run's workers draw so. Samples come once a period.
class RatedPower {
 public:
  /// `episodes`: one after the other, `partition` of them sorts the requests. `pooled`: a worker serves all types, and
  /// is rated as the mean over the demand.
  RatedPower(const std::vector<plan::PoolsProblem>& episodes, std::size_t partition, bool pooled, Span period);

  void joined(const journal::Instance& instance);
  void sample(const journal::Sample& sample);
  /// Of the whole run, by the ratings.
  [[nodiscard]] const Consumed& rated() const { return rated_; }
  /// Of the time before `episodes` end, by the ratings.
  [[nodiscard]] const Consumed& rated_in_time() const { return rated_in_time_; }
  /// Of the time before `episodes` end, as the ledger has it.
  [[nodiscard]] Joules booked_in_time() const;

 private:
  struct Worker {
    std::size_t site = 0;
    Watts rating;
    MegaHertz most;
    Picojoules booked;
  };
  [[nodiscard]] Watts rating_of(const InstanceSpec& spec) const;

  const std::vector<plan::PoolsProblem>& episodes_;
  std::size_t partition_;
  bool pooled_;
  Span period_;
  std::map<InstanceId, Worker> workers_;
  Consumed rated_, rated_in_time_;
};

}  // namespace wattle::reproduce::freesh
