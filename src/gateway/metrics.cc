#include "gateway/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>

#include "gateway/usage_metrics.h"
#include "net/faults.h"

namespace wattle::gateway {

namespace {
using Buckets = prometheus::Histogram::BucketBoundaries;
Buckets buckets_of(std::span<const double> bounds) { return {bounds.begin(), bounds.end()}; }
const Buckets kSeconds = buckets_of(LoopMetrics::kSeconds);
const Buckets kTokens = buckets_of(LoopMetrics::kTokens);
}  // namespace

struct GatewayMetrics::Impl {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Counter>& responses = prometheus::BuildCounter()
                                                           .Name("wattle_gateway_responses_total")
                                                           .Help("Answers on the API paths by HTTP status")
                                                           .Register(*registry);
  prometheus::Counter& missing = counter("wattle_gateway_pd_missing_transfer_params_total",
                                         "Prefill answers without kv_transfer_params: decode recomputed the prompt");
  prometheus::Counter& retried = counter("wattle_gateway_retries_total",
                                         "Requests sent to another engine because the first refused the connection, or "
                                         "was lost before the client had a byte");
  prometheus::Counter& cached = counter("wattle_gateway_cached_prompt_tokens_total",
                                        "Prompt tokens that engines found in their caches, by their own count");
  prometheus::Counter& reasoning =
      counter("wattle_gateway_reasoning_tokens_total", "Output tokens that were reasoning, by the engines' own count");
  prometheus::Counter& uncounted =
      counter("wattle_gateway_uncounted_requests_total",
              "Requests with tokens whose engine did not say how many they had: theirs are estimates");
  prometheus::Histogram& duration = histogram("wattle_gateway_request_duration_seconds",
                                              "Arrival to last byte, of requests that reached an engine", kSeconds);
  prometheus::Histogram& ttft =
      histogram("wattle_gateway_time_to_first_token_seconds", "Arrival to the first token relayed", kSeconds);
  prometheus::Histogram& itl = histogram("wattle_gateway_inter_token_latency_seconds",
                                         "Gaps between tokens of streamed answers", buckets_of(TokenTally::kGapBounds));
  prometheus::Histogram& input = histogram("wattle_gateway_input_sequence_tokens",
                                           "Prompt tokens per request, of those that no engine refused", kTokens);
  prometheus::Histogram& output =
      histogram("wattle_gateway_output_sequence_tokens", "Output tokens per request", kTokens);
  // The statuses of a healthy day, looked up once.
  prometheus::Counter& ok = responses.Add({{"code", "200"}});

  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry).Add({});
  }
  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry).Add({}, buckets);
  }
};

GatewayMetrics::GatewayMetrics() : impl_(std::make_unique<Impl>()) {}
GatewayMetrics::~GatewayMetrics() = default;

void GatewayMetrics::answered(int status) {
  if (status == 200) return impl_->ok.Increment();
  impl_->responses.Add({{"code", std::to_string(status)}}).Increment();
}

LoopMetrics& GatewayMetrics::of_loop() {
  const std::lock_guard lock(mutex_);
  return loops_.emplace_back();
}

void GatewayMetrics::take_from_loops() {
  const std::lock_guard lock(mutex_);
  std::vector<double> by_bucket;
  const auto histogram = [&](prometheus::Histogram& to, auto& from) {
    const double sum = from.take(by_bucket);
    to.ObserveMultiple(by_bucket, sum);
  };
  for (LoopMetrics& loop : loops_) {
    impl_->ok.Increment(static_cast<double>(loop.ok.take()));
    impl_->cached.Increment(static_cast<double>(loop.cached.take()));
    impl_->reasoning.Increment(static_cast<double>(loop.reasoning.take()));
    impl_->uncounted.Increment(static_cast<double>(loop.uncounted.take()));
    histogram(impl_->duration, loop.duration);
    histogram(impl_->ttft, loop.ttft);
    histogram(impl_->itl, loop.itl);
    histogram(impl_->input, loop.input);
    histogram(impl_->output, loop.output);
  }
}

void GatewayMetrics::worker_failure(std::string_view worker) {
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(worker);
  ++(found != failures_.end() ? found : failures_.emplace(worker, 0).first)->second;
}

void GatewayMetrics::write_failures(std::string& out, const std::vector<WorkerRow>& workers) {
  constexpr const char* kName = "wattle_gateway_worker_failures_total";
  fmt::format_to(
      std::back_inserter(out),
      "# HELP {0} Connections refused by a worker or answers cut off by it; of workers that are gone, the sum\n"
      "# TYPE {0} counter\n",
      kName);
  const std::lock_guard lock(mutex_);
  for (auto at = failures_.begin(); at != failures_.end();) {
    if (std::ranges::find(workers, at->first, &WorkerRow::url) == workers.end()) {
      failures_of_gone_ += at->second;
      at = failures_.erase(at);
    } else {
      fmt::format_to(std::back_inserter(out), "{}{{worker=\"{}\"}} {}\n", kName, escaped_label(at->first), at->second);
      ++at;
    }
  }
  if (failures_of_gone_ > 0) {
    fmt::format_to(std::back_inserter(out), "{}{{worker=\"(gone)\"}} {}\n", kName, failures_of_gone_);
  }
}

void GatewayMetrics::missing_transfer_params() { impl_->missing.Increment(); }

void GatewayMetrics::retried() { impl_->retried.Increment(); }

namespace {

void write_number(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                  std::int64_t value) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
}

void write_observed(std::string& out, const GatewayMetrics::Extras& extras) {
  write_number(out, "wattle_gateway_log_dropped_total", "counter",
               "Lines of the log lost because nobody read stderr, or not as fast as they came", extras.log_dropped);
  if (!extras.observed) return;
  const RequestObserver::Counts& counts = *extras.observed;
  write_number(out, "wattle_gateway_spans_exported_total", "counter", "Spans of requests that the collector has taken",
               counts.spans_exported);
  write_number(out, "wattle_gateway_spans_dropped_total", "counter",
               "Spans lost: the collector did not take them, or was slower than requests came", counts.spans_dropped);
}

void write_lengths(std::string& out, const GatewayMetrics::Extras& extras) {
  write_number(out, "wattle_gateway_length_predictions_total", "counter", "Output lengths asked for",
               extras.lengths.predicted);
  write_number(out, "wattle_gateway_length_fallbacks_total", "counter",
               "Output lengths answered by a constant, because the predictor was no better",
               extras.lengths.fallen_back);
  write_number(out, "wattle_gateway_length_answers_total", "counter",
               "Answers that length trees were given to learn from", extras.length_fits.answers);
  write_number(out, "wattle_gateway_length_fits_total", "counter", "Length trees grown from them",
               extras.length_fits.fits);
}

}  // namespace

std::string GatewayMetrics::text(const journal::RequestCounts& counts, const std::vector<WorkerRow>& workers,
                                 const Extras& extras, const Histogram& report_to_command_ns) {
  take_from_loops();
  std::string out = prometheus::TextSerializer().Serialize(impl_->registry->Collect());
  // The books live on the control strand; they are read there and written here as they are.
  const auto number = [&out](std::string_view name, std::string_view type, std::string_view help, std::int64_t value) {
    write_number(out, name, type, help, value);
  };
  number("wattle_gateway_requests_arrived_total", "counter", "Valid requests that entered", counts.arrived);
  fmt::format_to(std::back_inserter(out),
                 "# HELP wattle_gateway_requests_total Requests that left, by fate\n"
                 "# TYPE wattle_gateway_requests_total counter\n");
  const auto fate = [&out](std::string_view name, std::int64_t value) {
    fmt::format_to(std::back_inserter(out), "wattle_gateway_requests_total{{fate=\"{}\"}} {}\n", name, value);
  };
  fate("finished", counts.finished);
  fate("rejected", counts.rejected);
  fate("failed", counts.failed);
  fate("cancelled", counts.cancelled);
  number("wattle_gateway_resent_total", "counter",
         "Requests sent again, because the kept connection they went out on was closed before the first byte",
         extras.resent);
  number("wattle_gateway_inflight_requests", "gauge", "Requests held or at an engine", counts.in_flight);
  number("wattle_gateway_queued_requests", "gauge", "Requests held by admission", counts.held);
  number("wattle_gateway_prompt_tokens_total", "counter",
         "Prompt tokens of requests that entered: believed, and counted by their engine once they have left",
         extras.tokens.prompt);
  number("wattle_gateway_output_tokens_total", "counter", "Output tokens of requests that left", extras.tokens.output);
  number("wattle_gateway_internal_errors_total", "counter", "Exceptions that ended one request, each a defect of ours",
         net::faults());
  number("wattle_gateway_agents_differ", "gauge",
         "Agents that believe something else of the fleet than the gateway: other recipe, GPU, model, objectives",
         extras.agents_differ);
  if (extras.journal.kept) {
    number("wattle_gateway_journal_failing", "gauge", "1 since a write of the journal failed: it is incomplete",
           extras.journal.failing ? 1 : 0);
    number("wattle_gateway_journal_dropped_total", "counter", "Records lost because the disk was slower",
           extras.journal.dropped);
  }
  write_observed(out, extras);
  number("wattle_gateway_connections", "gauge", "Open client connections", extras.connections);
  const auto per_worker = [&](std::string_view name, std::string_view help, auto value,
                              std::string_view type = "gauge") {
    fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
    for (const auto& w : workers) {
      fmt::format_to(std::back_inserter(out), "{}{{worker=\"{}\",id=\"{}\",role=\"{}\"}} {}\n", name,
                     escaped_label(w.url), w.id.value(), w.role, value(w));
    }
  };
  per_worker("wattle_gateway_worker_up", "1 while the worker accepts requests",
             [](const WorkerRow& w) { return w.up ? 1 : 0; });
  per_worker("wattle_gateway_worker_active_requests", "Requests dispatched to the worker and not yet left",
             [](const WorkerRow& w) { return w.active_requests; });
  per_worker("wattle_gateway_worker_step_reports", "1 while its view comes from step reports, 0 from its streams",
             [](const WorkerRow& w) { return w.source == ViewSource::StepReports ? 1 : 0; });
  per_worker("wattle_gateway_worker_view_age_seconds", "Age of what is known of the worker",
             [](const WorkerRow& w) { return std::max(Span(), w.view_age).seconds(); });
  const auto reports = [&](std::string_view name, std::string_view help, auto value) {
    per_worker(
        name, help, [&](const WorkerRow& w) { return value(w.reports); }, "counter");
  };
  reports("wattle_gateway_worker_reports_total", "Step reports taken",
          [](const control::TelemetryCounts& c) { return c.accepted; });
  reports("wattle_gateway_worker_reports_missed_total", "Sequence numbers skipped",
          [](const control::TelemetryCounts& c) { return c.missed; });
  reports("wattle_gateway_worker_reports_duplicate_total", "Dropped: seen before",
          [](const control::TelemetryCounts& c) { return c.duplicates; });
  reports("wattle_gateway_worker_reports_late_total", "Dropped: out of order",
          [](const control::TelemetryCounts& c) { return c.late; });
  write_failures(out, workers);
  number("wattle_gateway_report_sources", "gauge", "Engines whose step reports are listened to", extras.report_sources);
  number("wattle_gateway_belief_extrapolations_total", "counter",
         "Predictions asked for outside the range that their belief was measured in", extras.extrapolations);
  number("wattle_gateway_predictor_samples_total", "counter",
         "Measured steps that latency predictors here were given, by agents or by clocks decided here",
         extras.learnt.samples);
  number("wattle_gateway_predictor_adopted_total", "counter", "Fits of them put into use", extras.learnt.adopted);
  write_lengths(out, extras);
  const telemetry::FpmDrops& drops = extras.drops;
  number("wattle_gateway_reports_dropped_total", "counter", "Telemetry that could not be read",
         drops.bad_frames + drops.truncated + drops.wrong_shape + drops.other_version + drops.out_of_range);
  fmt::format_to(std::back_inserter(out),
                 "# HELP wattle_gateway_report_to_command_seconds From a step report to the clock it calls for\n"
                 "# TYPE wattle_gateway_report_to_command_seconds summary\n");
  for (const double q : {0.5, 0.99}) {
    fmt::format_to(std::back_inserter(out), "wattle_gateway_report_to_command_seconds{{quantile=\"{}\"}} {}\n", q,
                   static_cast<double>(report_to_command_ns.quantile(q)) * 1e-9);
  }
  fmt::format_to(std::back_inserter(out),
                 "wattle_gateway_report_to_command_seconds_sum {}\nwattle_gateway_report_to_command_seconds_count {}\n",
                 static_cast<double>(report_to_command_ns.sum()) * 1e-9, report_to_command_ns.count());
  number("wattle_gateway_workers_of_other_models", "gauge",
         "Workers that are up, have other models than stated, and get no requests", extras.foreign_workers);
  number("wattle_gateway_unmetered_workers", "gauge",
         "Workers whose energy nobody meters now: no agent, or one that is away", extras.unmetered_workers);
  number("wattle_gateway_unmetered_requests_total", "counter",
         "Requests that left and whose energy nobody metered, or not in full: an agent was away",
         extras.unmetered_requests);
  return out + usage_metrics(extras.used, extras.by_model) + intensity_metrics(extras.intensities);
}

}  // namespace wattle::gateway
