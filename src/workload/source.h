#pragma once
// Where a driver pulls its requests from: a trace file or a synthetic process behind one interface.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "workload/options.h"

namespace wattle::workload {

/// What was read and what was changed on the way; nothing is clamped or left out without being counted here.
struct WorkloadStats {
  std::int64_t rows_read = 0;        ///< data rows of the file, or requests drawn
  std::int64_t skipped_failed = 0;   ///< rows that record a failed request (BurstGPT: no response tokens)
  std::int64_t outside_slice = 0;    ///< rows before `start` or at or after `start + duration`
  std::int64_t thinned = 0;          ///< rows left out to reach trough_rate_per_s
  std::int64_t rows_yielded = 0;     ///< rows handed to the driver so far
  std::int64_t clamped_prompts = 0;  ///< rows yielded whose prompt was longer than max_prompt_tokens
  std::int64_t clamped_outputs = 0;  ///< rows yielded whose output was longer than max_output_tokens
  std::int64_t raised_to_one = 0;    ///< synthetic lengths that were drawn below one token
};

/// Yields requests in order of arrival. Instant 0 is the slice's start.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// The next request, or nothing when there are no more (and from then on). Never fails: files are checked when the
  /// source is made.
  [[nodiscard]] virtual std::optional<TraceRow> next() = 0;
  /// Counts so far; complete once next() has returned nothing.
  [[nodiscard]] virtual WorkloadStats stats() const = 0;
};

/// Yields the rows given, which are in order of arrival.
class ListSource final : public RequestSource {
 public:
  /// `stats`: counts from where the rows come from.
  explicit ListSource(std::vector<TraceRow> rows, const WorkloadStats& stats = {})
      : rows_(std::move(rows)), stats_(stats) {
    stats_.rows_yielded = 0;
  }
  std::optional<TraceRow> next() override {
    const auto at = static_cast<std::size_t>(stats_.rows_yielded);
    if (at == rows_.size()) return std::nullopt;
    ++stats_.rows_yielded;
    return rows_[at];
  }
  [[nodiscard]] WorkloadStats stats() const override { return stats_; }

 private:
  std::vector<TraceRow> rows_;
  WorkloadStats stats_;
};

/// Builds the source the options name. A trace is read and checked whole (32 bytes a row are kept, and its hashes); a
/// synthetic source needs the same memory for any number of requests. The same seed yields the same requests on every
/// machine. `data_dir` is the data directory (apps: WATTLE_DATA; may be empty), `base_dir` the scenario file's folder.
/// Errors: BadInput with "file:line" for files, "workload.KEY" for options.
[[nodiscard]] Result<std::unique_ptr<RequestSource>> make_source(const WorkloadOptions& options,
                                                                 const std::string& data_dir,
                                                                 const std::string& base_dir, std::uint64_t seed);

/// Where a relative path leads: absolute paths as they are, else in data_dir, else in base_dir, else (neither given)
/// the working directory. Errors: not found, naming every place looked at.
[[nodiscard]] Result<std::string> find_file(const std::string& path, const std::string& data_dir,
                                            const std::string& base_dir);

}  // namespace wattle::workload
