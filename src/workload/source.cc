#include "workload/source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <queue>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/random.h"
#include "workload/azure_like.h"
#include "workload/copies.h"
#include "workload/counts.h"
#include "workload/lengths.h"
#include "workload/mlperf_openorca.h"
#include "workload/reshape.h"
#include "workload/shared_prefixes.h"
#include "workload/some_requests.h"
#include "workload/trace.h"

namespace wattle::workload {

namespace {
/// Slice, rate scale and clamps: what every source does to its rows on the way out.
class Shaper {
 public:
  explicit Shaper(const WorkloadOptions& o)
      : rate_scale_(o.rate_scale),
        start_(o.start.ns()),
        // An open end: subtracting instead of adding keeps start + duration from overflowing.
        duration_(o.duration.ns()),
        max_prompt_(o.max_prompt_tokens),
        max_output_(o.max_output_tokens) {}

  [[nodiscard]] bool before_slice(Instant arrival) const { return arrival.ns() < start_; }
  [[nodiscard]] bool after_slice(Instant arrival) const { return arrival.ns() - start_ >= duration_; }

  TraceRow shape(TraceRow row) {
    const std::int64_t ns = row.arrival.ns() - start_;
    row.arrival = Instant(rate_scale_ == 1.0 ? ns : std::llround(static_cast<double>(ns) / rate_scale_));
    if (row.prompt_tokens > max_prompt_) {
      row.prompt_tokens = max_prompt_;
      ++stats.clamped_prompts;
    }
    if (row.output_tokens > max_output_) {
      row.output_tokens = max_output_;
      ++stats.clamped_outputs;
    }
    ++stats.rows_yielded;
    return row;
  }

  WorkloadStats stats;

 private:
  double rate_scale_;
  std::int64_t start_;
  std::int64_t duration_;
  std::int32_t max_prompt_;
  std::int32_t max_output_;
};

class TraceSource final : public RequestSource {
 public:
  TraceSource(Trace trace, const WorkloadOptions& options) : rows_(std::move(trace.rows)), shaper_(options) {
    const auto total = static_cast<std::int64_t>(rows_.size());
    shaper_.stats.rows_read = total + trace.skipped_failed;
    shaper_.stats.skipped_failed = trace.skipped_failed;
    shaper_.stats.last_read = rows_.back().arrival;
    const auto first =
        std::ranges::find_if_not(rows_, [&](const TraceRow& r) { return shaper_.before_slice(r.arrival); });
    const auto last =
        std::find_if(first, rows_.end(), [&](const TraceRow& r) { return shaper_.after_slice(r.arrival); });
    at_ = static_cast<std::size_t>(first - rows_.begin());
    end_ = static_cast<std::size_t>(last - rows_.begin());
    shaper_.stats.outside_slice = total - static_cast<std::int64_t>(end_ - at_);
  }
  std::optional<TraceRow> next() override {
    if (at_ == end_) return std::nullopt;
    return shaper_.shape(rows_[at_++]);
  }
  WorkloadStats stats() const override { return shaper_.stats; }

 private:
  std::vector<TraceRow> rows_;
  Shaper shaper_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

std::int32_t tokens(double drawn, WorkloadStats& stats) {
  const double rounded = std::round(drawn);
  if (rounded < 1.0) {
    ++stats.raised_to_one;
    return 1;
  }
  return static_cast<std::int32_t>(std::min(rounded, static_cast<double>(kMaxTokens)));  // shape() counts the clamp
}

/// Gamma inter-arrivals: shape 1/cv^2, mean 1/rate. A cv of 1 is a Poisson process, of 0 an even spacing.
class SyntheticSource final : public RequestSource {
 public:
  SyntheticSource(std::int64_t requests, double rate_per_s, double cv, std::unique_ptr<LengthSource> lengths,
                  const WorkloadOptions& options, std::uint64_t seed)
      : left_(requests),
        mean_gap_ns_(1e9 / rate_per_s),
        cv_(cv),
        lengths_(std::move(lengths)),
        arrivals_(seed, "workload.arrivals"),
        shaper_(options) {}
  std::optional<TraceRow> next() override {
    while (left_ > 0) {
      --left_;
      ++shaper_.stats.rows_read;
      now_ += Span(std::llround(gap() * mean_gap_ns_));
      shaper_.stats.last_read = now_;
      const LengthPair pair = lengths_->draw();
      if (shaper_.before_slice(now_)) {
        ++shaper_.stats.outside_slice;
        continue;
      }
      if (shaper_.after_slice(now_)) {  // arrivals ascend, so no later one is in the slice
        ++shaper_.stats.outside_slice;
        left_ = 0;
        break;
      }
      return shaper_.shape({now_, tokens(pair.prompt, shaper_.stats), tokens(pair.output, shaper_.stats)});
    }
    return std::nullopt;
  }
  WorkloadStats stats() const override { return shaper_.stats; }

 private:
  double gap() {
    if (cv_ == 0.0) return 1.0;
    if (cv_ == 1.0) return arrivals_.exponential();
    const double variance = cv_ * cv_;
    return arrivals_.gamma(1.0 / variance) * variance;
  }

  std::int64_t left_;
  double mean_gap_ns_;
  double cv_;
  std::unique_ptr<LengthSource> lengths_;
  RandomStream arrivals_;
  Instant now_;
  Shaper shaper_;
};

/// The requests of each bin arrive at any time within it, one as likely as another. Keeps one bin's arrivals.
class CountsSource final : public RequestSource {
 public:
  CountsSource(BinCounts bins, std::unique_ptr<LengthSource> lengths, const WorkloadOptions& options,
               std::uint64_t seed)
      : bins_(std::move(bins)), lengths_(std::move(lengths)), arrivals_(seed, "workload.arrivals"), shaper_(options) {}
  std::optional<TraceRow> next() override {
    while (at_ == waiting_.size()) {
      if (bin_ == bins_.counts.size()) return std::nullopt;
      fill();
    }
    const LengthPair pair = lengths_->draw();
    return shaper_.shape({waiting_[at_++], tokens(pair.prompt, shaper_.stats), tokens(pair.output, shaper_.stats)});
  }
  WorkloadStats stats() const override { return shaper_.stats; }

 private:
  void fill() {
    const Instant begin = Instant() + bins_.width * static_cast<std::int64_t>(bin_);
    const std::int32_t count = bins_.counts[bin_++];
    if (count > 0) shaper_.stats.last_read = begin + bins_.width;  // at the latest
    waiting_.clear();
    at_ = 0;
    shaper_.stats.rows_read += count;
    const bool outside = shaper_.before_slice(begin + bins_.width - Span(1)) || shaper_.after_slice(begin);
    for (std::int32_t i = 0; !outside && i < count; ++i) {
      const Instant at = begin + Span::from_seconds(arrivals_.uniform() * bins_.width.seconds());
      if (!shaper_.before_slice(at) && !shaper_.after_slice(at)) waiting_.push_back(at);
    }
    shaper_.stats.outside_slice += count - std::ssize(waiting_);
    std::ranges::sort(waiting_);
  }

  BinCounts bins_;
  std::unique_ptr<LengthSource> lengths_;
  RandomStream arrivals_;
  Shaper shaper_;
  std::vector<Instant> waiting_;
  std::size_t bin_ = 0, at_ = 0;
};

class Copies final : public RequestSource {
 public:
  Copies(std::unique_ptr<RequestSource> from, double copies, Span spread, std::uint64_t seed)
      : from_(std::move(from)), copies_(copies), spread_(spread), random_(seed, "workload.copies") {}

  std::optional<TraceRow> next() override {
    // No row that is still to be read can arrive before the last one read.
    while (!ended_ && (waiting_.empty() || waiting_.top().row.arrival > read_)) read();
    if (waiting_.empty()) return std::nullopt;
    const TraceRow row = waiting_.top().row;
    waiting_.pop();
    ++yielded_;
    return row;
  }
  [[nodiscard]] WorkloadStats stats() const override {
    WorkloadStats stats = from_->stats();
    stats.rows_yielded = yielded_;
    stats.thinned += thinned_;
    return stats;
  }

 private:
  struct Waiting {
    TraceRow row;
    std::int64_t order = 0;
    bool operator<(const Waiting& o) const { return std::tie(o.row.arrival, o.order) < std::tie(row.arrival, order); }
  };

  void read() {
    const auto row = from_->next();
    if (!row) {
      ended_ = true;
      return;
    }
    read_ = row->arrival;
    const double whole = std::floor(copies_);
    const auto count = static_cast<std::int64_t>(whole) + (random_.uniform() < copies_ - whole ? 1 : 0);
    thinned_ += count == 0 ? 1 : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      TraceRow copy = *row;
      if (i > 0) {
        copy.arrival += Span::from_seconds(random_.uniform() * spread_.seconds());
        copy.content = salted(copy.content, static_cast<std::uint64_t>(i));  // as if from another client
      }
      waiting_.push({copy, order_++});
    }
  }

  std::unique_ptr<RequestSource> from_;
  double copies_;
  Span spread_;
  RandomStream random_;
  std::priority_queue<Waiting> waiting_;
  Instant read_;
  std::int64_t order_ = 0, yielded_ = 0, thinned_ = 0;
  bool ended_ = false;
};

class Prefixed final : public RequestSource {
 public:
  Prefixed(std::unique_ptr<RequestSource> from, const PrefixOptions& options, std::uint64_t seed)
      : from_(std::move(from)), prefixes_(options, seed) {}
  std::optional<TraceRow> next() override {
    auto row = from_->next();
    if (row && row->content == nullptr) row->content = prefixes_.draw(row->prompt_tokens);
    return row;
  }
  [[nodiscard]] WorkloadStats stats() const override { return from_->stats(); }

 private:
  std::unique_ptr<RequestSource> from_;
  SharedPrefixes prefixes_;
};

std::unexpected<Error> bad_option(const char* key, double value, const char* remedy) {
  return bad_input(fmt::format("workload.{}", key), fmt::format("is {}; {}", value, remedy));
}

bool positive(double v) { return std::isfinite(v) && v > 0.0; }
bool not_negative(double v) { return std::isfinite(v) && v >= 0.0; }

Result<void> check_shaping(const WorkloadOptions& o) {
  if (!positive(o.rate_scale) || o.rate_scale < 1e-6 || o.rate_scale > 1e9) {
    return bad_option("rate_scale", o.rate_scale, "it must be a number from 1e-6 to 1e9");
  }
  if (o.start.ns() < 0) return bad_option("start_s", o.start.seconds(), "it must be 0 s or later");
  if (o.duration.ns() <= 0) return bad_option("duration_s", o.duration.seconds(), "it must be longer than 0 s");
  if (o.max_prompt_tokens < 1) return bad_option("max_prompt_tokens", o.max_prompt_tokens, "it must be at least 1");
  if (o.max_output_tokens < 1) return bad_option("max_output_tokens", o.max_output_tokens, "it must be at least 1");
  return {};
}

Result<void> check_synthetic(const WorkloadOptions& o) {
  if (!positive(o.rate_per_s)) return bad_option("rate_per_s", o.rate_per_s, "it must be above 0");
  if (!not_negative(o.arrival_cv) || o.arrival_cv > 100.0) {
    return bad_option("arrival_cv", o.arrival_cv, "it must be from 0 (even spacing) over 1 (Poisson) to 100");
  }
  if (o.requests < 1) return bad_option("requests", static_cast<double>(o.requests), "it must be at least 1");
  if (o.lengths.empty()) {
    if (!positive(o.prompt_mean)) return bad_option("prompt_mean", o.prompt_mean, "it must be above 0");
    if (!not_negative(o.prompt_std)) return bad_option("prompt_std", o.prompt_std, "it must be 0 or more");
    if (!positive(o.output_mean)) return bad_option("output_mean", o.output_mean, "it must be above 0");
    if (!not_negative(o.output_std)) return bad_option("output_std", o.output_std, "it must be 0 or more");
  }
  return {};
}

/// Refuses what would run past the 64-bit nanosecond clock: the mean end, 40 standard deviations of the sum and the
/// Gamma's exponential tail (100 scale lengths) stay below kMaxTraceSeconds, before and after rate scaling.
Result<void> check_length(double requests, double rate, double cv, double rate_scale) {
  const double latest = (requests + 40.0 * cv * std::sqrt(requests) + 100.0 * cv * cv) / rate;
  if (latest > kMaxTraceSeconds || latest / rate_scale > kMaxTraceSeconds) {
    return bad_input("workload.rate_per_s",
                     fmt::format("{} requests at {} /s would last {:.3g} s; the clock ends at "
                                 "{:.0g} s: raise the rate or lower requests",
                                 requests, rate * rate_scale, latest / rate_scale, kMaxTraceSeconds));
  }
  return {};
}

Result<std::unique_ptr<RequestSource>> make_trace_source(const WorkloadOptions& options, const std::string& data_dir,
                                                         const std::string& base_dir) {
  const auto path = find_file(options.trace, data_dir, base_dir);
  if (!path) return std::unexpected(path.error());
  auto trace = load_trace(options.format, *path);
  if (!trace) return std::unexpected(trace.error());
  const double length = trace->rows.back().arrival.seconds();
  if (length / options.rate_scale > kMaxTraceSeconds) {
    return bad_option("rate_scale", options.rate_scale,
                      "the trace would outlast the 64-bit nanosecond clock; raise it");
  }
  return std::make_unique<TraceSource>(std::move(*trace), options);
}

Result<std::unique_ptr<RequestSource>> make_counts_source(const WorkloadOptions& options, const std::string& data_dir,
                                                          const std::string& base_dir, std::uint64_t seed) {
  const auto text_of = [&](const std::string& file) -> Result<std::pair<std::string, std::string>> {
    auto path = find_file(file, data_dir, base_dir);
    if (!path) return std::unexpected(path.error());
    auto text = read_file(*path);
    if (!text) return std::unexpected(text.error());
    return std::pair(std::move(*path), std::move(*text));
  };
  if (options.lengths.empty()) {
    return bad_input("workload.lengths", "is missing; counts of requests need a file of length histograms");
  }
  const auto counts = text_of(options.trace);
  if (!counts) return std::unexpected(counts.error());
  auto bins = parse_counts(counts->second, counts->first);
  if (!bins) return std::unexpected(bins.error());
  const auto histograms = text_of(options.lengths);
  if (!histograms) return std::unexpected(histograms.error());
  auto lengths = histogram_lengths(histograms->second, histograms->first, options.service, seed);
  if (!lengths) return std::unexpected(lengths.error());
  return std::make_unique<CountsSource>(std::move(*bins), std::move(*lengths), options, seed);
}

Result<std::unique_ptr<LengthSource>> make_lengths(const WorkloadOptions& options, const std::string& data_dir,
                                                   const std::string& base_dir, std::uint64_t seed) {
  if (options.lengths.empty()) return lognormal_lengths(options, seed);
  const auto path = find_file(options.lengths, data_dir, base_dir);
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  auto pairs = parse_pairs(*text, *path);
  if (!pairs) return std::unexpected(pairs.error());
  return empirical_lengths(std::move(*pairs), seed);
}
}  // namespace

Result<std::string> find_file(const std::string& path, const std::string& data_dir, const std::string& base_dir) {
  namespace fs = std::filesystem;
  const fs::path wanted(path);
  std::vector<fs::path> candidates;
  if (wanted.is_absolute()) {
    candidates.push_back(wanted);
  } else {
    if (!data_dir.empty()) candidates.push_back(fs::path(data_dir) / wanted);
    if (!base_dir.empty()) candidates.push_back(fs::path(base_dir) / wanted);
    if (candidates.empty()) candidates.push_back(wanted);
  }
  std::string looked;
  std::error_code ignored;
  for (const auto& candidate : candidates) {
    if (fs::exists(candidate, ignored)) return candidate.string();
    looked += (looked.empty() ? "" : ", ") + candidate.string();
  }
  return bad_input(path, fmt::format("no such file (looked for {}); check the path{}", looked,
                                     data_dir.empty() ? ", or set WATTLE_DATA to the data directory" : ""));
}

namespace {

Result<void> check_reshaping(const WorkloadOptions& o) {
  if (!positive(o.peak_rate_per_s)) return bad_option("peak_rate_per_s", o.peak_rate_per_s, "it must be above 0");
  if (!not_negative(o.trough_rate_per_s) || o.trough_rate_per_s > o.peak_rate_per_s) {
    return bad_option("trough_rate_per_s", o.trough_rate_per_s, "it must be from 0 to peak_rate_per_s");
  }
  if (o.rate_window <= Span())
    return bad_option("rate_window_s", o.rate_window.seconds(), "it must be longer than 0 s");
  return {};
}

}  // namespace

static Result<std::unique_ptr<RequestSource>> make_plain_source(const WorkloadOptions& options,
                                                                const std::string& data_dir,
                                                                const std::string& base_dir, std::uint64_t seed) {
  if (auto ok = check_shaping(options); !ok) return std::unexpected(ok.error());
  if (!options.trace.empty()) {
    if (!options.synthetic.empty()) {
      return bad_input("workload.synthetic", "is set together with workload.trace; keep one of the two");
    }
    if (options.format == TraceFormat::Counts) return make_counts_source(options, data_dir, base_dir, seed);
    return make_trace_source(options, data_dir, base_dir);
  }
  std::unique_ptr<LengthSource> lengths;
  std::int64_t requests = options.requests;
  double rate = options.rate_per_s;
  double cv = options.arrival_cv;
  if (options.synthetic == "azure-conv") {
    requests = AzureConversation::kRequests;
    rate = AzureConversation::kRatePerSecond;
    cv = AzureConversation::kArrivalCv;
    lengths = azure_conversation_lengths(seed);
  } else if (options.synthetic == "mlperf-openorca") {
    requests = MlperfOpenOrca::kRequests;
    lengths = mlperf_openorca_lengths(seed);
  } else if (!options.synthetic.empty()) {
    return bad_input("workload.synthetic",
                     fmt::format("is '{}'; it must be 'azure-conv', 'mlperf-openorca' or absent", options.synthetic));
  } else {
    if (auto ok = check_synthetic(options); !ok) return std::unexpected(ok.error());
    auto made = make_lengths(options, data_dir, base_dir, seed);
    if (!made) return std::unexpected(made.error());
    lengths = std::move(*made);
  }
  if (auto ok = check_length(static_cast<double>(requests), rate, cv, options.rate_scale); !ok) {
    return std::unexpected(ok.error());
  }
  return std::make_unique<SyntheticSource>(requests, rate, cv, std::move(lengths), options, seed);
}

std::unique_ptr<RequestSource> with_copies(std::unique_ptr<RequestSource> from, double copies, Span spread,
                                           std::uint64_t seed) {
  return std::make_unique<Copies>(std::move(from), copies, spread, seed);
}

std::unique_ptr<RequestSource> with_prefixes(std::unique_ptr<RequestSource> from, const PrefixOptions& options,
                                             std::uint64_t seed) {
  return std::make_unique<Prefixed>(std::move(from), options, seed);
}

static Result<std::unique_ptr<RequestSource>> make_shaped_source(const WorkloadOptions& options,
                                                                 const std::string& data_dir,
                                                                 const std::string& base_dir, std::uint64_t seed) {
  auto source = make_plain_source(options, data_dir, base_dir, seed);
  if (!source || (options.peak_rate_per_s == 0.0 && options.trough_rate_per_s == 0.0)) return source;
  if (auto ok = check_reshaping(options); !ok) return std::unexpected(ok.error());
  std::vector<TraceRow> rows;
  while (const auto row = (*source)->next()) rows.push_back(*row);
  if (rows.empty()) return std::unexpected(no_requests(options, (*source)->stats()));
  auto shaped = reshape(std::move(rows), options);
  if (!shaped) return std::unexpected(shaped.error());
  WorkloadStats stats = (*source)->stats();
  stats.thinned = stats.rows_yielded - static_cast<std::int64_t>(shaped->size());
  return std::make_unique<ListSource>(std::move(*shaped), stats);
}

Result<std::unique_ptr<RequestSource>> make_source(const WorkloadOptions& options, const std::string& data_dir,
                                                   const std::string& base_dir, std::uint64_t seed) {
  if (!positive(options.copies)) return bad_option("copies", options.copies, "it must be above 0");
  auto source = make_shaped_source(options, data_dir, base_dir, seed);
  if (source && options.copies != 1.0) {
    source = with_copies(std::move(*source), options.copies, options.copies_spread, seed);
  }
  if (source && options.prefix.any()) source = with_prefixes(std::move(*source), options.prefix, seed);
  return source ? with_some(std::move(*source), options) : std::move(source);
}

}  // namespace wattle::workload
