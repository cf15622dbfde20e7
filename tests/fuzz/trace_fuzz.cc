// Every trace format, recognised by its first line as `wattle trace summary` does.
#include <fmt/core.h>

#include <ranges>

#include "fuzz.h"
#include "workload/trace.h"
#include "workload/trace_writer.h"

namespace wattle::fuzz {

namespace {
using workload::Trace;
using workload::TraceFormat;

/// Lines that hold more than blanks, without the header of a CSV: each must be a row, or a row counted as failed.
std::size_t rows_in(TraceFormat format, std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::size_t lines = 0;
  for (const auto line : std::views::split(text, '\n')) {
    lines += std::string_view(line.begin(), line.end()).find_first_not_of(" \t\r") == std::string_view::npos ? 0U : 1U;
  }
  return format == TraceFormat::Mooncake ? lines : lines - 1;
}

std::string broken_rule(TraceFormat format, std::string_view text, const Trace& trace) {
  if (trace.rows.empty()) return "a trace without rows was accepted";
  if (trace.rows.front().arrival != Instant()) return "the first arrival is not 0";
  const std::size_t rows = trace.rows.size() + static_cast<std::size_t>(trace.skipped_failed);
  if (rows != rows_in(format, text)) return fmt::format("{} rows from {} lines", rows, rows_in(format, text));
  Instant before;
  for (const auto& row : trace.rows) {
    if (row.arrival < before) return "arrivals out of order were accepted";
    if (row.prompt_tokens < 1 || row.output_tokens < 1) return "a length below one token was accepted";
    before = row.arrival;
  }
  std::string written = workload::trace_header(format);
  for (std::size_t i = 0; i < trace.rows.size(); ++i) {
    workload::append_row(format, static_cast<std::int64_t>(i), trace.rows[i], written);
  }
  const auto again = workload::parse_trace(format, written, "again");
  if (!again) return "what was accepted, written out again, is rejected: " + again.error().message();
  if (again->rows.size() != trace.rows.size()) return "what was accepted, written out again, has other rows";
  return "";
}
}  // namespace

std::vector<std::string> seeds() {
  return {
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
      "2023-11-16 18:15:50.9951690,396,109\r\n2023-11-16 18:15:51.2224670,879,55",
      "\xef\xbb\xbf\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\n"
      "\"2024-05-10 00:00:00.009930+00:00\",\"2162\",5\n2024-05-10 00:00:00.017335+00:00,\"2399\",6\n",
      "arrived_at,num_prefill_tokens,num_decode_tokens\n0.25,100,10\n1.5,200,20\n1e1,300,30\n",
      "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
      "0,2,0,0.0,1,374,44\n1,2,0,4.314579,1,396,109\n2,2,0,4.54,1,879,55\n",
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
      "45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,\"API log\"\n",
      "{\"timestamp\": 27482, \"input_length\": 1500, \"output_length\": 52, \"hash_ids\": [46, 47, 48]}\n"
      "{\"timestamp\": 30535, \"input_length\": 472, \"output_length\": 26, \"hash_ids\": [46]}\n"
      "{\"timestamp\": 30535.5, \"input_length\": 1, \"output_length\": 1}\n",
  };
}

Verdict parse(std::string_view input) {
  const auto format = workload::detect_format(input, "fuzz");
  if (!format) return rejected(format.error(), "fuzz");
  const auto trace = workload::parse_trace(*format, input, "fuzz");
  if (!trace) return rejected(trace.error(), "fuzz");
  return {true, broken_rule(*format, input, *trace)};
}

}  // namespace wattle::fuzz
