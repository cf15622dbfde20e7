#pragma once
// The rule by which DynamoLLM's profile of a model (HPCA 2025, section IV-A) is measured, whatever measures a load: a
// simulated instance (load_profiler.h) or a live engine (live/loads.h).
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

/// A class of requests, as it is profiled.
struct ClassRequests {
  std::string name;
  plan::ShardLimits limits;  ///< where only the end of an answer has an objective, TTFT's is that
  std::vector<std::pair<std::int32_t, std::int32_t>> lengths;  ///< prompt and output tokens, drawn in turn; not empty
  /// What each of them is held to, where that is not `limits`: a class of several sizes is within its limits when the
  /// quantile of latencies over their own objectives is.
  Objectives held_to = {};
};

/// Requests per second that have the instance to themselves.
inline constexpr double kLoneLoad = 1e-3;

struct LoadSearchOptions {
  std::vector<MegaHertz> clocks;                      ///< ascending, the GPU's own: `clocks_to_profile`
  double quantile = 0.99;                             ///< of latencies
  std::vector<double> shares = {0.25, 0.5, 0.75, 1};  ///< measured loads, of the most within limits
  double bend = 0.2;    ///< a rise of power between two loads above this share of the whole rise is measured in between
  int halvings = 2;     ///< as often as that
  double stride = 1.5;  ///< from one load to the next, until one is within the limits and one beyond
  double tolerance = 1.03;  ///< the most load is searched until the two are within this factor
  double beyond = 1.1;      ///< from one load beyond the limits to the next
  double least_load =
      kLoneLoad;  ///< requests per second; where two at once miss the limits there, only lone ones keep them
};

/// Of TTFT and of TBT: the quantile that is held to the limits.
struct HeldQuantiles {
  double ttft, tbt;
};

/// A load and how it went. TTFT here is the first token or the end of the answer, whichever took more of its objective,
/// in terms of TTFT's limit.
struct MeasuredLoad {
  plan::LoadPoint point;
  double kept, ttft_kept, tbt_kept;  ///< shares of requests within both limits, within that of TTFT, of TBT
  Span mean_e2e;
  bool kept_up;  ///< answers ended as fast as requests came
};

/// Latencies of the requests of a class. Who arrives before `from` counts only for whether they are kept up with.
class LatencyTally {
 public:
  LatencyTally(const ClassRequests& of, Instant from) : of_(of), from_(from) {}
  /// `own`: what this request is held to.
  void add(const Slo& own, Instant arrival, Span ttft, Span tbt, Span e2e);
  [[nodiscard]] MeasuredLoad measured(double load_per_s, Watts power, const HeldQuantiles& held) const;

 private:
  /// Of answers that end between `from` and the last arrival there are as many as requests that came so much earlier as
  /// an answer takes from its first token on. Limits do not say it where there is none of TTFT, or one longer than the
  /// measurement. True where it was too short to tell.
  [[nodiscard]] bool kept_up() const;

  const ClassRequests& of_;
  Instant from_;
  std::vector<Span> ttft_, tbt_;
  std::vector<Instant> arrivals_, ends_;  ///< of all
  Span answering_;                        ///< from first tokens on, all together
  std::int64_t kept_ = 0;
  Span e2e_;
};

/// What measures loads on instances of one TP degree. Calls may take as long as what they measure.
class LoadBench {
 public:
  virtual ~LoadBench() = default;
  [[nodiscard]] virtual int tp() const = 0;
  /// Requests per second from which the search begins.
  [[nodiscard]] virtual double first_guess(const ClassRequests& of) = 0;
  /// With the model loaded and no requests.
  [[nodiscard]] virtual std::optional<Watts> idle_power(MegaHertz clock) = 0;
  /// Requests that have the instance to themselves; power is of no account. `few`: as many as a latency takes, not a
  /// share of requests.
  [[nodiscard]] virtual std::optional<MeasuredLoad> lone(const ClassRequests& of, MegaHertz clock,
                                                         const HeldQuantiles& held, bool few) = 0;
  /// Poisson arrivals, the same pattern at every rate. None: not all of them could be served, or failure() says why.
  [[nodiscard]] virtual std::optional<MeasuredLoad> measure(const ClassRequests& of, MegaHertz clock,
                                                            const HeldQuantiles& held, double load_per_s) = 0;
  /// Why it can measure nothing any more.
  [[nodiscard]] virtual std::optional<Error> failure() const { return std::nullopt; }
};

/// Poisson arrivals of the class's requests; the gaps' pattern is the same at every rate.
[[nodiscard]] std::vector<workload::TraceRow> arrivals_of(const ClassRequests& of, std::int64_t requests,
                                                          double rate_per_s);

/// A class as a table has it, without profiles; `of` has requests.
[[nodiscard]] plan::ProfiledClass head_of(const ClassRequests& of);

/// Adds the classes and their profiles to the table. The most load within limits is searched; a clock that misses them
/// even for lone requests gets the lone requests' latencies at two loads. The highest clock is measured beyond, up to
/// the load from which on fewer requests a second are within limits, not more (plan::most_useful_load). Of a class of
/// which no configuration keeps the quantile even of lone requests, as many points below the most that one keeps count,
/// and the provenance says so. `progress` hears of each class and TP degree. Errors: a class without requests; those
/// of the benches; lone requests that are not served.
[[nodiscard]] Result<void> search_loads(plan::LoadTable& table, std::span<LoadBench* const> benches,
                                        const std::vector<ClassRequests>& classes, const LoadSearchOptions& options,
                                        const std::function<void(const std::string&)>& progress = {});

}  // namespace wattle::calibrate
