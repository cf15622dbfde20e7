#pragma once
// The running totals of one run, in bounded memory whatever the number of requests.
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/histogram.h"
#include "journal/gap_histogram.h"
#include "journal/record.h"
#include "journal/summary.h"
#include "model/service.h"

namespace wattle::journal {

/// Feed it every arrival, decision, outcome and token gap; ask for the summary at the end.
///
/// A request is held to the objectives of its tier and size (model/objectives.h).
///
/// Attainment (all over ARRIVED requests, so one that is rejected, failed, cancelled or still in flight misses):
///  ttft/tbt/e2e: finished within the SLO; itl: share of all token gaps within their requests' SLO;
///  all: finished and every stated SLO met, ITL by the request's mean gap (docs/decisions/0005).
///  A share of nothing is NaN, and so is that of an objective which no tier or size states.
///
/// fairness_jain = (sum x)^2 / (n sum x^2) over groups, x = share of the group's requests that met every stated SLO.
///  Groups are the tenants when more than one was seen, else the four quartiles of output length (requests that
///  produced tokens). 1 when nobody met anything, NaN when nothing was produced.
///
/// Fairness::jain is over the same quartiles, x = their tokens delivered in time. A request's tokens are taken to come
///  evenly between its first and its last.
class RunStatistics final : public Sink {
 public:
  /// `classes`: what requests are counted by. One class and one tier are the whole, and have no rows.
  explicit RunStatistics(Objectives objectives, Classifier classes = {},
                         const std::optional<FairnessBasis>& fairness = std::nullopt);

  /// Every request that reached the control plane, once, before its outcome.
  void add_arrivals(std::int64_t count = 1) { counts_.arrive(count); }
  void decision(const DecisionRecord& record) override;
  /// No allocation in steady state.
  void outcome(const Outcome& outcome) override;

  /// `count` token gaps of this length; `within` of them within the objective of the request whose they are.
  void add_gap(Span gap, std::int64_t count, std::int64_t within) {
    gaps_.add(gap, count);
    within_ += within;
  }
  /// `steps` decode steps of (first + i x increment) / 2^20 ns, one gap each for `requests` requests, and `within` as
  /// above. Exact, closed form.
  void add_gaps(std::int64_t first_fixed_point, std::int64_t increment, std::int64_t steps, std::int64_t requests,
                std::int64_t within) {
    gaps_.add_affine(first_fixed_point, increment, steps, requests);
    within_ += within;
  }

  /// Everything but energy, carbon, cost, GPUs, mean clock, effort, recipe and digest, which the driver knows.
  [[nodiscard]] RunSummary summary() const;
  [[nodiscard]] RunCurves curves() const;

  [[nodiscard]] std::int64_t arrived() const { return counts_.arrived; }
  [[nodiscard]] std::int64_t left() const { return counts_.left(); }

 private:
  struct Group {
    std::int64_t left = 0;
    std::int64_t attained = 0;
  };

  /// Of one class or tier.
  struct Served {
    ServiceRow counts;
    std::int64_t attained = 0;
    Histogram ttft;
    Histogram tbt;
    Histogram e2e;
  };
  static void add(Served& served, const Outcome& outcome, bool attained);
  static std::vector<ServiceRow> rows(const std::vector<Served>& served);
  void count_for_fairness(const Outcome& outcome, bool attained);
  [[nodiscard]] double jain() const;
  /// Counts of a histogram over output tokens, by quartile of lengths_.
  [[nodiscard]] std::array<std::int64_t, 4> by_quartile(const Histogram& of) const;
  [[nodiscard]] Fairness fairness() const;

  Objectives objectives_;
  Classifier classes_;
  std::vector<Served> by_class_;  ///< empty: there is one
  std::vector<Served> by_tier_;
  std::int64_t misclassified_ = 0;
  EmergencyCounts emergency_;
  RequestCounts counts_;
  TokenCounts tokens_;
  std::optional<FairnessBasis> basis_;
  std::int64_t ttft_met_ = 0;
  std::int64_t tbt_met_ = 0;
  std::int64_t e2e_met_ = 0;
  std::int64_t all_met_ = 0;
  std::int64_t clock_changes_ = 0;
  Histogram ttft_;
  Histogram tbt_;
  Histogram e2e_;
  Histogram queue_;
  Histogram waiting_;
  GapHistogram gaps_;
  std::int64_t within_ = 0;     ///< of these, within their objective
  Histogram lengths_;           ///< output tokens of requests that produced any
  Histogram attained_lengths_;  ///< of those that met every stated SLO
  Histogram timely_;            ///< tokens delivered in time, by the output tokens of their request
  std::int64_t in_limit_ = 0;   ///< finished within FairnessBasis::limit
  std::unordered_map<std::int32_t, Group> tenants_;
};

}  // namespace wattle::journal
