#pragma once
// What is said of each request once it is over: a span to an OpenTelemetry collector (OTLP over HTTP, JSON), a line in
// the log. Both are made on a thread of their own, off a bounded queue: a collector or a log that is slow costs what
// does not fit, counted, and never a request.
#include <array>
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
  /// Of requests whose caller does not say whether it records its own span; those that say so are taken at their word.
  double traces_sample = 1.0;
  std::size_t queue = 4096;  ///< requests that wait for a span or a line
  Span flush_period = Span::ms(500);
  Span export_timeout = Span::s(5);
  Span resolve_period = Span::s(5);  ///< between attempts, while its name does not resolve
  [[nodiscard]] bool on() const { return log_requests || !traces_endpoint.empty(); }
};

class RequestObserver {
 public:
  /// Errors: the endpoint is no URL. Resolves nothing.
  static Result<void> check(const ObserverOptions& options);
  /// Errors: the endpoint is no URL. One whose name does not resolve is warned of, and looked up again.
  static Result<std::unique_ptr<RequestObserver>> start(const ObserverOptions& options);
  ~RequestObserver();  ///< stop()
  RequestObserver(const RequestObserver&) = delete;
  RequestObserver& operator=(const RequestObserver&) = delete;

  /// A request that has come, and its place in a trace. Any thread; `random`: the caller's.
  [[nodiscard]] std::shared_ptr<RequestEnd> begin(const net::Exchange& exchange, RequestId id,
                                                  std::mt19937_64& random) const;
  /// Header lines for its engine: whose child the engine's span is. Empty where no spans are made: then the client's
  /// own fields go on as they are.
  [[nodiscard]] std::string trace_lines(const RequestEnd& request) const;
  [[nodiscard]] bool traces() const { return !options_.traces_endpoint.empty(); }
  /// It is over. Any thread; does not wait.
  void over(std::shared_ptr<const RequestEnd> request);

  struct Counts {
    std::int64_t spans_exported = 0;
    std::int64_t spans_dropped = 0;  ///< no room, or the collector did not take them
    std::int64_t lines_dropped = 0;  ///< no room here; the log counts its own
  };
  [[nodiscard]] Counts counts() const { return {exported_, spans_dropped_, lines_dropped_}; }
  /// Hands on what there is, for a second at most.
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
  bool called_ = false;  ///< the loop has been called for a full batch
  std::atomic<std::int64_t> exported_{0};
  std::atomic<std::int64_t> spans_dropped_{0};
  std::atomic<std::int64_t> lines_dropped_{0};
  std::atomic<bool> idle_{true};  ///< nothing waits on the loop
  // On the loop only.
  std::vector<std::shared_ptr<const RequestEnd>> spans_;  ///< that wait for the collector
  bool under_way_ = false;
  std::shared_ptr<const net::Endpoint> endpoint_;  ///< null: not resolved yet
  Instant resolve_at_ = {};                        ///< the next attempt
  std::string target_;
  std::unique_ptr<net::HttpClient> client_;
  bool stopped_ = false;
  net::Loop loop_;  ///< last: its thread sees the rest
};

/// One line of the log.
void log_request(const RequestEnd& request);

}  // namespace wattle::gateway
