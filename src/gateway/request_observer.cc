#include "gateway/request_observer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "gateway/otlp.h"
#include "journal/names.h"
#include "net/clock.h"
#include "net/log.h"

namespace wattle::gateway {

namespace {

constexpr std::size_t kBatch = 512;
constexpr Span kLastWords = Span::s(1);
constexpr std::size_t kResponseMax = 64 * 1024;
constexpr const char* kDefaultTarget = "/v1/traces";
constexpr const char* kTracesFlag = "--traces-endpoint";

std::uint64_t any_but_zero(std::mt19937_64& random) {
  std::uint64_t number = 0;
  while (number == 0) number = random();
  return number;
}

/// By the trace alone, so that every gateway that sees it decides alike.
bool chosen(TraceId trace, double share) {
  return static_cast<double>(trace.low >> 11U) < share * static_cast<double>(std::uint64_t{1} << 53U);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

/// One POST to the collector, and what becomes of its spans.
struct RequestObserver::Batch final : net::ResponseHandler {
  RequestObserver& observer;
  std::int64_t spans;
  std::string body;  ///< lent to the client until the last call
  std::string response = {};
  int status = 0;

  Batch(RequestObserver& o, std::int64_t n, std::string text) : observer(o), spans(n), body(std::move(text)) {}
  void on_head(int code, const net::HeaderFields&, std::int64_t) override { status = code; }
  void on_body(std::string_view bytes) override {
    if (response.size() < kResponseMax) response.append(bytes.substr(0, kResponseMax));
  }
  void on_end() override {
    const std::int64_t lost = status / 100 == 2 ? std::min(rejected_spans(response), spans) : spans;
    observer.sent(spans - lost, lost);
  }
  void on_failure(net::CallFailure failure) override {
    if (failure == net::CallFailure::Connect) observer.endpoint_.reset();  // its name may lead elsewhere now
    observer.sent(0, spans);
  }
};

RequestObserver::RequestObserver(const ObserverOptions& options) : options_(options), host_(host_name()) {}

Result<void> RequestObserver::check(const ObserverOptions& options) {
  if (options.traces_endpoint.empty()) return {};
  const auto url = net::normalised_url(options.traces_endpoint, kTracesFlag);
  return url ? Result<void>() : std::unexpected(url.error());
}

Result<std::unique_ptr<RequestObserver>> RequestObserver::start(const ObserverOptions& options) {
  if (auto sound = check(options); !sound) return std::unexpected(sound.error());
  auto made = std::unique_ptr<RequestObserver>(new RequestObserver(options));
  RequestObserver* const self = made.get();
  self->loop_.post([self] {
    self->client_ =
        std::make_unique<net::HttpClient>(self->loop_, net::ClientOptions::within(self->options_.export_timeout));
    if (self->traces()) (void)self->resolves();
  });
  self->loop_.every(options.flush_period, [self] { self->look(); });
  return made;
}

RequestObserver::~RequestObserver() { stop(); }

void RequestObserver::stop() {
  if (std::exchange(stopped_, true)) return;
  const Instant end = net::steady_now() + kLastWords;
  loop_.run([this] { look(); });
  while (!idle_ && net::steady_now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    loop_.run([this] { send(); });
  }
  loop_.run([this] { client_.reset(); });
  loop_.stop();
}

std::shared_ptr<RequestEnd> RequestObserver::begin(const net::Exchange& exchange, RequestId id,
                                                   std::mt19937_64& random) const {
  auto made = std::make_shared<RequestEnd>();
  const net::HeaderFields& fields = exchange.headers();
  made->arrival = net::steady_now();
  made->name = client_name(fields);
  if (made->name.empty()) made->name = request_name(id);
  made->path = exchange.path();
  made->caller = read_traceparent(fields.get("traceparent"));
  if (!traces()) return made;
  if (made->caller) {
    made->tracestate = fields.get("tracestate");
    made->own = {made->caller->trace, any_but_zero(random), made->caller->sampled};
    return made;
  }
  const TraceId trace{any_but_zero(random), random()};
  made->own = {trace, any_but_zero(random), chosen(trace, options_.traces_sample)};
  return made;
}

std::string RequestObserver::trace_lines(const RequestEnd& request) const {
  if (!traces()) return {};
  std::string lines = "traceparent: " + traceparent(request.own) + "\r\n";
  if (!request.tracestate.empty()) lines.append("tracestate: ").append(request.tracestate).append("\r\n");
  return lines;
}

void RequestObserver::over(std::shared_ptr<const RequestEnd> request) {
  const bool traced = traces() && request->own.sampled;
  if (!traced && !options_.log_requests) return;
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    full = queue_.size() >= options_.queue;
    if (!full) queue_.push_back(std::move(request));
    if (queue_.size() >= kBatch && !std::exchange(called_, true)) loop_.post([this] { look(); });
  }
  if (!full) return;
  if (traced) ++spans_dropped_;
  if (options_.log_requests) ++lines_dropped_;
}

void RequestObserver::look() {
  std::vector<std::shared_ptr<const RequestEnd>> fresh;
  {
    const std::lock_guard lock(mutex_);
    fresh.swap(queue_);
    called_ = false;
  }
  for (auto& request : fresh) {
    if (options_.log_requests) log_request(*request);
    if (!traces() || !request->own.sampled) continue;
    if (spans_.size() >= options_.queue) {
      ++spans_dropped_;
    } else {
      spans_.push_back(std::move(request));
    }
  }
  send();
}

/// A name service that does not answer blocks this thread alone.
bool RequestObserver::resolves() {
  if (endpoint_) return true;
  if (net::steady_now() < resolve_at_) return false;
  auto endpoint = net::resolve_endpoint(options_.traces_endpoint, kTracesFlag);
  if (endpoint) {
    // A URL with a path is taken as it is, one without as the base of OTLP's own (OTLP specification, "OTLP/HTTP").
    if (endpoint->prefix.empty()) target_ = kDefaultTarget;
    endpoint_ = std::make_shared<const net::Endpoint>(std::move(*endpoint));
    return true;
  }
  if (resolve_at_ == Instant()) {
    net::log_line(net::LogLevel::Warning, "the collector of spans has no address yet; it is looked up again and again",
                  {{"error", endpoint.error().message()}});
  }
  resolve_at_ = net::steady_now() + options_.resolve_period;
  return false;
}

void RequestObserver::send() {
  idle_ = spans_.empty() && !under_way_;
  if (under_way_ || spans_.empty() || !client_ || !resolves()) return;
  const std::size_t count = std::min(kBatch, spans_.size());
  const std::int64_t zero = net::unix_ns_at_zero();
  auto body = otlp_json(std::span(spans_).first(count), zero, host_);
  spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(count));
  const auto batch = std::make_shared<Batch>(*this, static_cast<std::int64_t>(count), std::move(body));
  under_way_ = true;
  client_->send(endpoint_, "POST", target_, "Content-Type: application/json\r\n", batch->body, batch);
}

/// A batch that was not taken is not sent again: what comes after it is newer, and memory is bounded.
void RequestObserver::sent(std::int64_t taken, std::int64_t dropped) {
  exported_ += taken;
  spans_dropped_ += dropped;
  under_way_ = false;
  idle_ = spans_.empty();
  if (taken > 0 && spans_.size() >= kBatch) loop_.post([this] { send(); });
}

void log_request(const RequestEnd& r) {
  using net::LogField;
  const auto ms = [](Instant from, Instant to) -> decltype(LogField::value) {
    if (to == Instant::never()) return {};
    return (to - from).millis();
  };
  const auto real = [](const std::optional<double>& number) -> decltype(LogField::value) {
    if (!number) return {};
    return *number;
  };
  const auto whole = [](std::int64_t number, bool known) -> decltype(LogField::value) {
    if (!known) return {};
    return number;
  };
  const std::string trace = r.own.span != 0 ? hex(r.own.trace) : r.caller ? hex(r.caller->trace) : "";
  const std::string span = r.own.span != 0 ? hex(r.own.span) : "";
  net::log_line(r.fate == Fate::Failed ? net::LogLevel::Warning : net::LogLevel::Info, "request",
                {{"request_id", r.name},
                 {"trace_id", trace},
                 {"span_id", span},
                 {"tenant", r.tenant},
                 {"path", r.path},
                 {"model", r.model},
                 {"instance", whole(r.instance.value(), r.instance != kNoInstance)},
                 {"engine", r.engine},
                 {"status", std::int64_t{r.status}},
                 {"fate", journal::name_of(r.fate)},
                 {"reason", r.reason},
                 {"stream", r.stream},
                 {"attempts", std::int64_t{r.attempts}},
                 {"prompt_tokens", std::int64_t{r.prompt_tokens}},
                 {"output_tokens", std::int64_t{r.output_tokens}},
                 {"queue_ms", ms(r.arrival, r.started)},
                 {"ttft_ms", ms(r.arrival, r.first_token)},
                 {"duration_ms", ms(r.arrival, r.left)},
                 {"energy_j", real(r.energy_j)},
                 {"carbon_g", real(r.carbon_g)},
                 {"energy_meters", std::string_view(r.meters)}});
}

}  // namespace wattle::gateway
