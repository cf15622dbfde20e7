#pragma once
// Requests in order of arrival, whatever they come from.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "workload/options.h"

namespace wattle::workload {

/// What was read and what was changed on the way; nothing is clamped or left out without being counted here.
struct WorkloadStats {
  std::int64_t rows_read = 0;        ///< data rows of the file, or requests drawn
  std::int64_t skipped_failed = 0;   ///< rows without an answer (Trace::skipped_failed)
  std::int64_t outside_slice = 0;    ///< rows before `start` or at or after `start + duration`
  std::int64_t thinned = 0;          ///< rows left out to reach trough_rate_per_s
  std::int64_t rows_yielded = 0;     ///< rows handed to the driver so far
  std::int64_t clamped_prompts = 0;  ///< rows yielded whose prompt was longer than max_prompt_tokens
  std::int64_t clamped_outputs = 0;  ///< rows yielded whose output was longer than max_output_tokens
  std::int64_t raised_to_one = 0;    ///< synthetic lengths that were drawn below one token
  Instant last_read;                 ///< when the last row read comes, in the trace's own time
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

}  // namespace wattle::workload
