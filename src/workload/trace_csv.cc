// Azure, Vidur, splitwise-sim and BurstGPT traces: three columns of a CSV, and what its time column means.
#include <fmt/core.h>

#include <array>
#include <limits>

#include "base/csv.h"
#include "base/file.h"
#include "base/timestamp.h"
#include "workload/trace.h"

namespace wattle::workload {

namespace {
enum class TimeForm : std::uint8_t { WallClock, Seconds };

struct CsvForm {
  TimeForm time_form;
  std::array<std::string_view, 3> columns;  ///< time, prompt, output
};

/// Column names as the data sets publish them.
constexpr CsvForm kAzure{TimeForm::WallClock, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}};
constexpr CsvForm kVidur{TimeForm::Seconds, {"arrived_at", "num_prefill_tokens", "num_decode_tokens"}};
constexpr CsvForm kSplitwise{TimeForm::Seconds, {"arrival_timestamp", "prompt_size", "token_size"}};
constexpr CsvForm kBurstGpt{TimeForm::Seconds, {"Timestamp", "Request tokens", "Response tokens"}};

const CsvForm& form_of(TraceFormat format) {
  switch (format) {
    case TraceFormat::Vidur:
      return kVidur;
    case TraceFormat::Splitwise:
      return kSplitwise;
    case TraceFormat::BurstGpt:
      return kBurstGpt;
    case TraceFormat::Azure:
    case TraceFormat::Mooncake:
    case TraceFormat::Counts:
      break;
  }
  return kAzure;
}

Result<std::int64_t> time_of(const CsvReader& csv, TimeForm form) {
  if (form == TimeForm::WallClock) {
    if (const auto ns = parse_timestamp(csv.field(0))) return *ns;
    return csv.bad_field(0, "it must be a time like 2023-11-16 18:15:46.6805900");
  }
  const auto seconds = csv.number(0, 0.0, kMaxTraceSeconds);
  if (!seconds) return std::unexpected(seconds.error());
  return Span::from_seconds(*seconds).ns();
}

Result<Trace> parse_csv(const CsvForm& form, std::string_view text, const std::string& name) {
  auto opened = CsvReader::open(text, name, form.columns);
  if (!opened) return std::unexpected(opened.error());
  CsvReader& csv = *opened;
  Trace trace;
  trace.rows.reserve(text.size() / 32);
  std::int64_t origin = 0;
  std::int64_t before = std::numeric_limits<std::int64_t>::min();
  while (true) {
    const auto more = csv.next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto time = time_of(csv, form.time_form);
    if (!time) return std::unexpected(time.error());
    if (*time < before) {
      return csv.bad_field(0, fmt::format("it lies before the row above; sort the rows by {}", csv.column(0)));
    }
    before = *time;
    const auto output = csv.whole(2, 0, kMaxTokens);
    if (!output) return std::unexpected(output.error());
    // A request without an answer may report no prompt either; of the others a prompt is required.
    const auto prompt = csv.whole(1, *output == 0 ? 0 : 1, kMaxTokens);
    if (!prompt) return std::unexpected(prompt.error());
    if (*output == 0) {
      ++trace.skipped_failed;
      continue;
    }
    if (trace.rows.empty()) origin = *time;
    trace.rows.push_back(
        {Instant(*time - origin), static_cast<std::int32_t>(*prompt), static_cast<std::int32_t>(*output)});
  }
  if (trace.rows.empty()) {
    return bad_input(csv.where(), trace.skipped_failed > 0 ? "has only requests without an answer (0 tokens)"
                                                           : "has a header but no rows");
  }
  trace.rows.shrink_to_fit();
  return trace;
}
}  // namespace

Result<Trace> parse_trace(TraceFormat format, std::string_view text, const std::string& name) {
  return format == TraceFormat::Mooncake ? parse_mooncake(text, name) : parse_csv(form_of(format), text, name);
}

Result<Trace> load_trace(std::optional<TraceFormat> format, const std::string& path) {
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  if (format) return parse_trace(*format, *text, path);
  const auto detected = detect_format(*text, path);
  if (!detected) return std::unexpected(detected.error());
  return parse_trace(*detected, *text, path);
}

}  // namespace wattle::workload
