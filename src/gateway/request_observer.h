#pragma once
// Output for each finished request: a span to an OpenTelemetry collector (OTLP over HTTP, JSON) and a log line. Both
// are made on a separate thread from a bounded queue: if a collector or the log is slow, records are dropped and
// counted; requests are never delayed.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "gateway/request_end.h"
#include "net/client.h"
#include "net/exchange.h"
#include "net/loop.h"

namespace wattle::gateway {

struct ObserverOptions {
  bool log_requests = false;
  std::string traces_endpoint;  ///< URL of a collector, http://HOST:4318; empty: no spans
  /// Share of requests without a sampling decision by their caller; callers' decisions are respected.
  double traces_sample = 1.0;
  std::size_t queue = 4096;  ///< requests waiting for a span or a line
  Span flush_period = Span::ms(500);
  Span export_timeout = Span::s(5);
  Span resolve_period = Span::s(5);  ///< between attempts, while its name does not resolve
  [[nodiscard]] bool on() const { return log_requests || !traces_endpoint.empty(); }
};

class RequestObserver {
 public:
  /// Errors: the endpoint is not a URL. Resolves no names.
  static Result<void> check(const ObserverOptions& options);
  /// Errors: the endpoint is not a URL. If its name does not resolve, a warning is logged and it is looked up again.
  static Result<std::unique_ptr<RequestObserver>> start(const ObserverOptions& options);
  ~RequestObserver();  ///< stop()
  RequestObserver(const RequestObserver&) = delete;
  RequestObserver& operator=(const RequestObserver&) = delete;

  /// Registers a new request and its place in a trace. Any thread; `random`: the caller's.
  [[nodiscard]] std::shared_ptr<RequestEnd> begin(const net::Exchange& exchange, RequestId id,
                                                  std::mt19937_64& random) const;
  /// Header lines for its engine: the parent of the engine's span. Empty if no spans are made: then the client's own
  /// fields are passed on.
  [[nodiscard]] std::string trace_lines(const RequestEnd& request) const;
  [[nodiscard]] bool traces() const { return !options_.traces_endpoint.empty(); }
  /// The request is over. Any thread; does not wait.
  void over(std::shared_ptr<const RequestEnd> request);

  struct Counts {
    std::int64_t spans_exported = 0;
    std::int64_t spans_dropped = 0;  ///< no room, or not accepted by the collector
    std::int64_t lines_dropped = 0;  ///< no room here; the log counts its own drops
  };
  [[nodiscard]] Counts counts() const { return {exported_, spans_dropped_, lines_dropped_}; }
  /// Sends what is queued, for at most a second.
  void stop();

 private:
  struct Batch;
  explicit RequestObserver(const ObserverOptions& options);
  void look();
  void send();
  bool resolves();
  void sent(std::int64_t taken, std::int64_t dropped);

  ObserverOptions options_;
  std::string host_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const RequestEnd>> queue_;
  bool called_ = false;  ///< the loop has been woken for a full batch
  std::atomic<std::int64_t> exported_{0};
  std::atomic<std::int64_t> spans_dropped_{0};
  std::atomic<std::int64_t> lines_dropped_{0};
  std::atomic<bool> idle_{true};  ///< nothing is queued on the loop
  // On the loop only.
  std::vector<std::shared_ptr<const RequestEnd>> spans_;  ///< waiting for the collector
  bool under_way_ = false;
  std::shared_ptr<const net::Endpoint> endpoint_;  ///< null: not resolved yet
  Instant resolve_at_ = {};                        ///< the next attempt
  std::string target_;
  std::unique_ptr<net::HttpClient> client_;
  bool stopped_ = false;
  net::Loop loop_;  ///< last: its thread uses the members above
};

/// One line of the log.
void log_request(const RequestEnd& request);

}  // namespace wattle::gateway
