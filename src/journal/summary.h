#pragma once
// The figures of one run: what `wattle sim --json` prints per recipe and what run.json keeps.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "model/outcome.h"
#include "units/quantity.h"

namespace wattle::journal {

/// Milliseconds; all zero, null in JSON, when count is 0. Percentiles carry the histogram's error (< 0.4 %), mean and
/// max are exact.
struct Distribution {
  std::int64_t count = 0;
  double mean_ms = 0.0;
  double p50_ms = 0.0;
  double p90_ms = 0.0;
  double p95_ms = 0.0;
  double p99_ms = 0.0;
  double max_ms = 0.0;
};

/// The one count of requests: of the control loop, its metrics and a run's figures.
/// arrived = finished + rejected + failed + cancelled + in_flight, always.
struct RequestCounts {
  std::int64_t arrived = 0;
  std::int64_t finished = 0;
  std::int64_t rejected = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  std::int64_t in_flight = 0;    ///< held or dispatched
  std::int64_t held = 0;         ///< of these: by admission; known to the control loop only, as is dispatched()
  std::int64_t preempted = 0;    ///< at least once; known to a run's figures only
  std::int64_t preemptions = 0;  ///< in all
  [[nodiscard]] std::int64_t left() const { return finished + rejected + failed + cancelled; }
  [[nodiscard]] std::int64_t dispatched() const { return in_flight - held; }
  void arrive(std::int64_t count = 1) {
    arrived += count;
    in_flight += count;
  }
  void leave(Fate fate) {
    --in_flight;
    ++(fate == Fate::Finished   ? finished
       : fate == Fate::Rejected ? rejected
       : fate == Fate::Failed   ? failed
                                : cancelled);
  }
  bool operator==(const RequestCounts&) const = default;
  std::int64_t clamped_prompts = 0;  ///< prompts of the workload longer than workload.max_prompt_tokens
  std::int64_t clamped_outputs = 0;
  std::int64_t skipped_failed = 0;  ///< the trace's requests without an answer, which are left out
};

/// prompt: of requests that got a first token (in the control loop: believed, of all that arrived); output: delivered
/// to clients, whatever the fate.
struct TokenCounts {
  std::int64_t prompt = 0;
  std::int64_t output = 0;
  std::int64_t cached_prompt =
      0;  ///< part of `prompt` that was not computed because its KV was cached; 0 if not reported
  /// The prefix cache's hit rate, by tokens.
  [[nodiscard]] double cached_share() const {
    return prompt == 0 ? 0.0 : static_cast<double>(cached_prompt) / static_cast<double>(prompt);
  }
};

struct EnergySplit {
  Joules total;
  Joules busy;
  Joules idle;
  Joules prefill;
  Joules decode;
  Joules residue{};    ///< remainders of divisions, and prefill work whose requests had all left
  Joules idle_tail{};  ///< of idle: after each instance's last work
  /// Part of total: at times for which a site's intensity was unknown; its carbon uses the last known one.
  Joules unknown_carbon{};
  /// Likewise for the price of electricity, and the cost.
  Joules unknown_price{};
};

struct CostSplit {
  Usd gpus;
  Usd electricity;  ///< beyond what the GPUs' price holds
};

/// The usage of one tenant, class, instance or site. Requests and tokens: of tenants and classes only.
struct UsageRow {
  std::string name;
  std::int64_t requests = 0;
  std::int64_t unmetered_requests = 0;  ///< those of which some energy was not metered; it is in no figure
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  Joules energy;
  GramsCo2 carbon;  ///< also NaN if no intensity was ever known
  Usd cost;
  /// Of tenants and classes, of these: some of their energy was drawn at an unknown intensity, or price; it is in the
  /// figures at the last known one. NaN where it is so of all of them.
  std::int64_t unknown_carbon_requests = 0;
  std::int64_t unknown_price_requests = 0;
  Joules unknown_carbon{};  ///< of instances and sites: see EnergySplit
  Joules unknown_price{};   ///< likewise
};

/// The ledger's account of a run (control::consumption). NaN, null in JSON: unknown, because nothing was metered;
/// otherwise what was metered, and `unmetered_s` says how much is missing.
struct Consumption {
  /// Source of the energy readings: "simulated", "emulated" (virtual GPUs), "measured", or "none".
  std::string meters = "none";
  EnergySplit energy;
  GramsCo2 carbon;
  Usd cost;
  CostSplit cost_split;
  double gpu_s = 0.0;        ///< time of all GPUs together
  double unmetered_s = 0.0;  ///< instance time at an unknown power
  UsageRow all_requests;
  std::vector<UsageRow> by_tenant;
  std::vector<UsageRow> by_class;
  std::vector<UsageRow> by_instance;
  std::vector<UsageRow> by_site;
};

/// Shares in [0, 1]; NaN, null in JSON: of nothing, or of an SLO that no request is held to. One that only some are
/// held to counts as met by the others that finished.
struct Attainment {
  double ttft = 0.0;  ///< of arrived requests
  double itl = 0.0;   ///< of all token gaps
  double tbt = 0.0;   ///< of arrived requests, by their mean gap
  double e2e = 0.0;   ///< of arrived requests
  double all = 0.0;   ///< of arrived requests: finished, with every stated SLO met (ITL: by its mean gap)

  /// NaN for what `stated` does not state.
  [[nodiscard]] Attainment of_stated(const Slo& stated) const;
};

/// How requests of one class or tier were served, of those that left; shares in [0, 1], NaN (null in JSON) where none
/// did.
struct ServiceRow {
  std::string name;
  std::int64_t left = 0;
  std::int64_t finished = 0;
  std::int64_t rejected = 0;  ///< shed and squashed ones, too
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  double attainment = 0.0;  ///< finished, with every stated SLO met (ITL by the mean gap, decision 0005)
  Distribution ttft;
  Distribution tbt;
  Distribution e2e;
};

/// Counts of the emergency steps taken when requests were about to miss their deadlines (journal::Rung).
struct EmergencyCounts {
  std::int64_t reordered = 0;
  std::int64_t boosted = 0;
  std::int64_t resteered = 0;
  std::int64_t squashed = 0;
  std::int64_t shed = 0;
};

/// FREESH's fairness to clients (appendix C; FairnessBasis). NaN, null in JSON: the time that requests take alone is
/// unknown.
struct Fairness {
  /// Jain's index over K = 4 clients, the quartiles of output tokens; of each, the tokens delivered within alpha x Lat.
  double jain = std::numeric_limits<double>::quiet_NaN();
  /// Share of arrived requests not finished within beta x Lat.
  double violation_rate = std::numeric_limits<double>::quiet_NaN();
  Distribution waiting;  ///< the larger of TTFT and the longest gap between tokens, finished requests
};

/// The cost of the run itself.
struct Effort {
  double virtual_s = 0.0;  ///< length of the run in its own time
  double wall_s = 0.0;
  std::int64_t iterations = 0;
  std::int64_t events = 0;
  std::int64_t peak_rss_bytes = 0;
};

/// Errors of the predicted step times of one phase; zeros if none were measured.
struct PredictionError {
  std::int64_t samples = 0;
  double offline_ms = 0.0;  ///< mean absolute error of the model fitted offline
  double active_ms = 0.0;   ///< of the model believed at the time
  double drift = 0.0;       ///< at the end: mean signed error over mean duration
};

struct Prediction {
  PredictionError prefill;
  PredictionError decode;
  std::int64_t refits = 0;
  std::int64_t adopted = 0;
  std::int64_t rejected = 0;
  std::int64_t failed = 0;
  std::int64_t rolled_back = 0;
};

struct RunSummary : Consumption {
  std::string recipe;
  RequestCounts requests;
  TokenCounts tokens;
  double tokens_per_joule = 0.0;  ///< output tokens per joule of total energy; NaN of none
  Watts mean_power;
  /// Power of the fleet without work after the run; NaN, null in JSON: unknown, as for live runs.
  Watts idle_power = Watts(std::numeric_limits<double>::quiet_NaN());
  double mean_gpus = 0.0;
  Attainment slo;
  Distribution ttft;   ///< finished requests
  Distribution itl;    ///< every token gap
  Distribution tbt;    ///< finished requests with at least two tokens
  Distribution e2e;    ///< finished requests
  Distribution queue;  ///< arrival to first scheduled prompt token, finished requests
  double clock_mean_mhz = 0.0;
  std::int64_t clock_changes = 0;
  std::int64_t overruns = 0;  ///< steps that outlasted their prediction by more than the watchdog's slack
  Prediction prediction;
  double fairness_jain = 1.0;
  std::vector<ServiceRow> service_by_class;  ///< by the class they were served as; empty: there is one
  std::vector<ServiceRow> service_by_tier;   ///< empty: there is one
  std::int64_t misclassified = 0;            ///< finished requests whose answer was of another class
  EmergencyCounts emergency;
  Fairness fairness;
  std::int64_t extrapolations = 0;  ///< number of predictions outside the measured range
  Effort sim;
  std::uint64_t journal_digest = 0;
  std::vector<std::string> extrapolated;  ///< where the simulated hardware left its profile's measured range

  /// Shares of its energy for which something was unknown and the last known value was used, with the name of the
  /// unknown quantity; empty: everything was known.
  [[nodiscard]] std::vector<std::pair<const char*, double>> unknown_rates() const;
  /// Whether it did so much less work than the baseline that less energy is no saving: more than a hundredth of the
  /// baseline's finished requests or tokens are missing.
  [[nodiscard]] bool did_less_than(const RunSummary& baseline) const;
  /// Fills in tokens_per_joule and mean_power from energy, tokens and sim.virtual_s. Call after the driver's figures.
  void derive();
};

/// Cumulative distributions, thinned: (milliseconds, share at or below), both ascending, last share 1. Empty: no data.
using Curve = std::vector<std::pair<double, double>>;
struct RunCurves {
  Curve ttft;
  Curve itl;
  Curve tbt;
  Curve e2e;
};

}  // namespace wattle::journal
