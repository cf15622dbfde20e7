#pragma once
// What `wattle profile` measured of one engine, and its file: a CSV with a row for each kind of step
// (docs/profiling.md).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "predict/step_sample.h"

namespace wattle::predict {

enum class StepKind : std::uint8_t { Idle, Prefill, Decode };
[[nodiscard]] const char* name_of(StepKind kind);

/// Steps of one shape at one locked clock, taken together.
struct ProfileRow {
  StepKind phase = StepKind::Decode;
  MegaHertz clock;                   ///< locked, or what the engine ran at where nothing was locked
  std::int32_t requests = 0;         ///< in the step; 0 when idle
  std::int64_t prompt_tokens = 0;    ///< prefill: computed in the step, all requests together
  std::int64_t kv_tokens = 0;        ///< decode: context tokens read, all requests together
  std::int64_t steps = 0;            ///< how many were seen
  Span step;                         ///< how long one takes; 0 when idle
  std::optional<Milliwatts> power;   ///< mean of the whole instance while they ran; none: not measured
  std::optional<MegaHertz> reached;  ///< median clock while they ran: below `clock` where power clips it
};

struct StepProfile {
  std::vector<std::string> provenance;  ///< lines of "key: value", without line breaks
  std::vector<ProfileRow> rows;         ///< clocks never fall from one row to the next
};

/// Reads the file's text; `file` only names it. Refused with line and column: a column missing, a value that is no
/// number or outside its range (so that seconds for milliseconds or Hz for MHz are seen), a row that does not fit its
/// phase, a clock below that of the row before, the same step twice, no rows.
[[nodiscard]] Result<StepProfile> parse_step_profile(std::string_view text, const std::string& file);

/// parse_step_profile reads it back to the same rows (times to the nanosecond).
[[nodiscard]] std::string to_csv(const StepProfile& profile);

/// Provenance lines of a CSV that begins with "# key: value" lines, and the text with those lines emptied, so that a
/// CsvReader still counts lines as an editor does.
struct Provenance {
  std::vector<std::string> lines;
  std::string rest;
};
[[nodiscard]] Provenance split_provenance(std::string_view text);
[[nodiscard]] std::string provenance_text(const std::vector<std::string>& lines);

}  // namespace wattle::predict
