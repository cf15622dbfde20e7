#pragma once
// Rows to trace files, a block at a time: memory does not grow with the trace.
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"
#include "workload/options.h"

namespace wattle::workload {

/// The header line of a format, with its newline; empty for JSON Lines.
[[nodiscard]] std::string trace_header(TraceFormat format);

/// Appends one row with its newline. Arrivals keep every nanosecond; wall-clock forms count from 1970-01-01. What a
/// format wants and a row does not know is filled in: splitwise-sim request type 2 (LLM inference), application 0,
/// batch size 1; BurstGPT model "unknown". Hash ids are the hashes, not the numbers of the file they came from.
void append_row(TraceFormat format, std::int64_t index, const TraceRow& row, std::string& out);

/// Writes a trace file. parse_trace reads back equal rows (arrivals relative to the first).
class TraceWriter {
 public:
  /// Errors: External when the file cannot be created.
  [[nodiscard]] static Result<TraceWriter> create(const std::string& path, TraceFormat format);
  [[nodiscard]] Result<void> add(const TraceRow& row);
  /// Must be called last: only then is the file whole. Errors: External when the disk refused it.
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  TraceWriter(std::string path, TraceFormat format, std::FILE* file)
      : path_(std::move(path)), format_(format), file_(file), block_(trace_header(format)) {}
  Result<void> flush();

  std::string path_;
  TraceFormat format_;
  std::unique_ptr<std::FILE, Close> file_;
  std::string block_;
  std::int64_t rows_ = 0;
};

}  // namespace wattle::workload
