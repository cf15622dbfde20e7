#pragma once
// The procedure that measures DynamoLLM's profile of a model (HPCA 2025, section IV-A), independent of what is
// measured: a simulated instance (load_profiler.h) or a live engine (live/loads.h).
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/objectives.h"
#include "plan/load_table.h"
#include "workload/options.h"

namespace wattle::calibrate {

/// A class of requests to profile.
struct ClassRequests {
  std::string name;
  plan::ShardLimits limits;                                    ///< if only E2E has an objective, it is the TTFT limit
  std::vector<std::pair<std::int32_t, std::int32_t>> lengths;  ///< prompt and output tokens, used in turn; not empty
  /// Objectives of the individual requests, if they differ from `limits`: a class with several sizes is within its
  /// limits if the quantile of latencies relative to their own objectives is.
  Objectives held_to = {};
};

/// Requests per second at which requests do not overlap.
inline constexpr double kLoneLoad = 1e-3;

struct LoadSearchOptions {
  std::vector<MegaHertz> clocks;                      ///< ascending, lockable; see clocks_to_profile
  double quantile = 0.99;                             ///< of latencies
  std::vector<double> shares = {0.25, 0.5, 0.75, 1};  ///< measured, as shares of the highest load within limits
  double bend = 0.2;  ///< if power between two loads rises by more than this share of the whole rise, a load in between
                      ///< is measured
  int halvings = 2;   ///< maximum number of such halvings
  double stride = 1.5;            ///< factor between loads until one is within the limits and one beyond
  double tolerance = 1.03;        ///< the search for the highest load ends when those two are within this factor
  double beyond = 1.1;            ///< factor between loads beyond the limits
  double least_load = kLoneLoad;  ///< requests/s; if it misses the limits, only requests alone are within them
};

/// The quantiles of TTFT and TBT that have to be within the limits.
struct HeldQuantiles {
  double ttft, tbt;
};

/// A measured load. TTFT is the time to the first token or to the end of the answer, whichever is larger relative to
/// its objective, scaled to TTFT's limit.
struct MeasuredLoad {
  plan::LoadPoint point;
  double kept, ttft_kept, tbt_kept;  ///< shares of requests within both limits, within TTFT's, within TBT's
  Span mean_e2e;
  bool kept_up;  ///< answers finished as fast as requests arrived
};

/// Collects the latencies of a class's requests. Requests that arrive before `from` count only for kept_up().
class LatencyTally {
 public:
  LatencyTally(const ClassRequests& of, Instant from) : of_(of), from_(from) {}
  /// `own`: this request's objectives.
  void add(const Slo& own, Instant arrival, Span ttft, Span tbt, Span e2e);
  [[nodiscard]] MeasuredLoad measured(double load_per_s, Watts power, const HeldQuantiles& held) const;

 private:
  /// True if as many answers end between `from` and the last arrival as requests arrived one decode time earlier.
  /// Needed because the latency limits do not show a growing queue if there is no TTFT limit, or one longer than the
  /// measurement. Also true if the measurement was too short to tell.
  [[nodiscard]] bool kept_up() const;

  const ClassRequests& of_;
  Instant from_;
  std::vector<Span> ttft_, tbt_;
  std::vector<Instant> arrivals_, ends_;  ///< of all requests
  Span answering_;                        ///< total time from first token to end
  std::int64_t kept_ = 0;
  Span e2e_;
};

/// Measures loads on instances of one TP degree. Calls may take as long as what they measure.
class LoadBench {
 public:
  virtual ~LoadBench() = default;
  [[nodiscard]] virtual int tp() const = 0;
  /// Requests per second at which the search starts.
  [[nodiscard]] virtual double first_guess(const ClassRequests& of) = 0;
  /// Power with the model loaded and no requests.
  [[nodiscard]] virtual std::optional<Watts> idle_power(MegaHertz clock) = 0;
  /// Measures requests that do not overlap; their power is not used. `few`: only enough requests for a latency, not for
  /// a share of requests.
  [[nodiscard]] virtual std::optional<MeasuredLoad> lone(const ClassRequests& of, MegaHertz clock,
                                                         const HeldQuantiles& held, bool few) = 0;
  /// Measures Poisson arrivals, with the same pattern at every rate. None: not all of them could be served, or
  /// failure() has the reason.
  [[nodiscard]] virtual std::optional<MeasuredLoad> measure(const ClassRequests& of, MegaHertz clock,
                                                            const HeldQuantiles& held, double load_per_s) = 0;
  /// Error after which it cannot measure any more.
  [[nodiscard]] virtual std::optional<Error> failure() const { return std::nullopt; }
};

/// Poisson arrivals of the class's requests; the pattern of the gaps is the same at every rate.
[[nodiscard]] std::vector<workload::TraceRow> arrivals_of(const ClassRequests& of, std::int64_t requests,
                                                          double rate_per_s);

/// The class's entry in a table, without profiles; `of` has requests.
[[nodiscard]] plan::ProfiledClass head_of(const ClassRequests& of);

/// Adds the classes and their profiles to the table. Searches the highest load within the limits; a clock at which even
/// non-overlapping requests miss them gets their latencies at two loads. At the highest clock, loads beyond the limits
/// are also measured, up to the load at which the number of requests within the limits per second no longer grows
/// (plan::most_useful_load). For a class for which no configuration meets the limits at the quantile, even for
/// non-overlapping requests, the quantile is lowered accordingly, and the provenance says so. `progress` is called for
/// each class and TP degree. Errors: a class without requests; those of the benches; non-overlapping requests that are
/// not served.
[[nodiscard]] Result<void> search_loads(plan::LoadTable& table, std::span<LoadBench* const> benches,
                                        const std::vector<ClassRequests>& classes, const LoadSearchOptions& options,
                                        const std::function<void(const std::string&)>& progress = {});

}  // namespace wattle::calibrate
