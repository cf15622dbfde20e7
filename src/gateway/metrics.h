#pragma once
// The gateway's numbers in Prometheus form. Names say their unit; label sets are bounded.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gateway/loop_metrics.h"
#include "gateway/request_observer.h"
#include "gateway/strand.h"
#include "gateway/usage_metrics.h"
#include "journal/summary.h"
#include "predict/length_belief.h"
#include "predict/length_learner.h"
#include "telemetry/fpm_socket.h"

namespace wattle::gateway {

class GatewayMetrics {
 public:
  GatewayMetrics();
  ~GatewayMetrics();

  /// A request on an API path was answered with this status (for a stream: when it has ended).
  void answered(int status);
  /// Statistics for one more loop, to which only that loop adds; scrapes sum over the loops.
  [[nodiscard]] LoopMetrics& of_loop();
  /// A connection was refused, or an answer cut off. Any thread.
  void worker_failure(std::string_view worker);
  void retried();                  ///< a request was sent to another engine, because the first refused the connection
  void missing_transfer_params();  ///< a prefill answer without kv_transfer_params

  struct WorkerRow {
    InstanceId id;
    std::string url;
    std::string role;
    bool up = false;
    std::int32_t active_requests = 0;
    control::TelemetryCounts reports;
    ViewSource source = ViewSource::Streams;
    Span view_age{};
  };
  struct Extras {
    std::int64_t connections = 0;
    telemetry::FpmDrops drops;
    std::int64_t agents_differ = 0;   ///< AgentLinks::differing
    std::int64_t report_sources = 0;  ///< engines whose step reports are listened to
    ControlStrand::Learnt learnt;
    std::int64_t extrapolations = 0;  ///< predictions outside the range their belief was measured in
    predict::LengthCounts lengths;
    predict::LengthLearnerCounts length_fits;
    journal::TokenCounts tokens;
    journal::Consumption used;
    std::vector<SiteIntensity> intensities;  ///< of sites that have a name
    std::int64_t unmetered_requests = 0;
    std::int64_t unmetered_workers = 0;
    std::int64_t foreign_workers = 0;
    std::int64_t resent = 0;
    std::optional<RequestObserver::Counts> observed;  ///< none: requests are not observed
    std::int64_t log_dropped = 0;                     ///< lines of the process's log
    std::vector<control::ModelUsage> by_model;        ///< that clients ask for
    struct {
      bool kept = false;
      bool failing = false;
      std::int64_t dropped = 0;
    } journal;
  };
  /// Text exposition format 0.0.4. `workers`: the present ones; failures of others are reported as one sum.
  [[nodiscard]] std::string text(const journal::RequestCounts& counts, const std::vector<WorkerRow>& workers,
                                 const Extras& extras, const Histogram& report_to_command_ns);

 private:
  void write_failures(std::string& out, const std::vector<WorkerRow>& workers);
  void take_from_loops();

  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::mutex mutex_;  ///< failures, loops
  std::deque<LoopMetrics> loops_;
  std::map<std::string, std::int64_t, std::less<>> failures_;  ///< by URL
  std::int64_t failures_of_gone_ = 0;
};

}  // namespace wattle::gateway
