#include "workload/trace_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/timestamp.h"
#include "workload/trace.h"

namespace wattle::workload {

namespace {
constexpr std::size_t kBlockBytes = 1U << 18U;
constexpr std::int64_t kNsPerS = 1'000'000'000;
constexpr std::int64_t kNsPerMs = 1'000'000;

/// Of Mooncake's blocks, from those of the prompt, which may be smaller. None: blocks that do not fill those.
std::vector<std::uint64_t> hash_ids(const TraceRow& row) {
  std::vector<std::uint64_t> ids;
  if (row.content == nullptr || kMooncakeBlockTokens % row.content->block_tokens != 0) return ids;
  const auto& chain = row.content->chain;
  const auto per_id = static_cast<std::size_t>(kMooncakeBlockTokens / row.content->block_tokens);
  for (std::size_t end = per_id; end <= chain.size(); end += per_id) ids.push_back(chain[end - 1]);
  return ids;
}
}  // namespace

std::string trace_header(TraceFormat format) {
  switch (format) {
    case TraceFormat::Azure:
      return "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    case TraceFormat::Vidur:
      return "arrived_at,num_prefill_tokens,num_decode_tokens\n";
    case TraceFormat::Splitwise:
      return "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n";
    case TraceFormat::BurstGpt:
      return "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
    case TraceFormat::Mooncake:
    case TraceFormat::Counts:
      break;
  }
  return "";
}

void append_row(TraceFormat format, std::int64_t index, const TraceRow& row, std::string& out) {
  const auto to = std::back_inserter(out);
  const std::int64_t ns = row.arrival.ns();
  const std::int64_t s = ns / kNsPerS;
  const std::int64_t fraction = ns % kNsPerS;
  switch (format) {
    case TraceFormat::Azure:
      fmt::format_to(to, "{},{},{}\n", format_timestamp(ns), row.prompt_tokens, row.output_tokens);
      return;
    case TraceFormat::Vidur:
      fmt::format_to(to, "{}.{:09},{},{}\n", s, fraction, row.prompt_tokens, row.output_tokens);
      return;
    case TraceFormat::Splitwise:
      fmt::format_to(to, "{},2,0,{}.{:09},1,{},{}\n", index, s, fraction, row.prompt_tokens, row.output_tokens);
      return;
    case TraceFormat::BurstGpt:
      fmt::format_to(to, "{}.{:09},unknown,{},{},{},API log\n", s, fraction, row.prompt_tokens, row.output_tokens,
                     std::int64_t{row.prompt_tokens} + row.output_tokens);
      return;
    case TraceFormat::Mooncake:
      // Whole milliseconds as Mooncake writes them; a fraction only where it would be lost.
      if (ns % kNsPerMs == 0) {
        fmt::format_to(to, "{{\"timestamp\": {}", ns / kNsPerMs);
      } else {
        fmt::format_to(to, "{{\"timestamp\": {}.{:06}", ns / kNsPerMs, ns % kNsPerMs);
      }
      fmt::format_to(to, ", \"input_length\": {}, \"output_length\": {}, \"hash_ids\": [{}]}}\n", row.prompt_tokens,
                     row.output_tokens, fmt::join(hash_ids(row), ", "));
      return;
    case TraceFormat::Counts:
      return;  // rows have no place there
  }
}

Result<TraceWriter> TraceWriter::create(const std::string& path, TraceFormat format) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return external_failure(path, fmt::format("cannot be written ({}); check the folder", std::strerror(errno)));
  }
  return TraceWriter(path, format, file);
}

Result<void> TraceWriter::add(const TraceRow& row) {
  append_row(format_, rows_++, row, block_);
  return block_.size() < kBlockBytes ? Result<void>() : flush();
}

Result<void> TraceWriter::finish() {
  if (auto ok = flush(); !ok) return ok;
  if (std::fclose(file_.release()) != 0)
    return external_failure(path_, "was not written to its end; is the disk full?");
  return {};
}

Result<void> TraceWriter::flush() {
  if (std::fwrite(block_.data(), 1, block_.size(), file_.get()) != block_.size()) {
    return external_failure(path_, "was not written to its end; is the disk full?");
  }
  block_.clear();
  return {};
}

}  // namespace wattle::workload
