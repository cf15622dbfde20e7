#pragma once
// The measurements of `wattle profile` on one engine, and their file: a CSV with one row per kind of step
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
/// Nothing for a word that names no kind.
[[nodiscard]] std::optional<StepKind> step_kind_from(std::string_view name);

// Bounds of what a file may state; they find Hz or kHz in place of MHz, and mW in place of W.
inline constexpr std::int32_t kLowestClockMhz = 10;
inline constexpr std::int32_t kHighestClockMhz = 10'000;
inline constexpr double kHighestPowerW = 100'000.0;  ///< of an instance

/// Aggregate of steps of one shape at one locked clock.
struct ProfileRow {
  StepKind phase = StepKind::Decode;
  MegaHertz clock;                 ///< locked clock, or the engine's clock if none was locked
  std::int32_t requests = 0;       ///< in the step; 0 when idle
  std::int64_t prompt_tokens = 0;  ///< prefill: computed in the step, all requests together
  /// All requests together. Decode: context tokens read. Prefill: those before this step's tokens, from a prefix cache
  /// or from an earlier chunk.
  std::int64_t kv_tokens = 0;
  std::int64_t steps = 0;            ///< number of steps
  Span step;                         ///< duration of one step; 0 when idle
  std::optional<Milliwatts> power;   ///< mean power of the whole instance meanwhile; none: not measured
  std::optional<MegaHertz> reached;  ///< median clock meanwhile: below `clock` if limited by power
};

struct StepProfile {
  std::vector<std::string> provenance;  ///< lines of "key: value", without line breaks
  std::vector<ProfileRow> rows;         ///< in order of non-decreasing clock
};

/// Parses the file's text; `file` is used in messages. Errors, with line and column: a missing column; a value that is
/// not a number or is out of range (which detects seconds instead of milliseconds, or Hz instead of MHz); a row that
/// does not fit its phase; a clock below that of the previous row; a duplicate step; no rows.
[[nodiscard]] Result<StepProfile> parse_step_profile(std::string_view text, const std::string& file);

/// parse_step_profile returns the same rows (times to the nanosecond).
[[nodiscard]] std::string to_csv(const StepProfile& profile);

/// The "# key: value" lines at the start of a CSV, and the text with those lines emptied, so that a CsvReader's line
/// numbers stay correct.
struct Provenance {
  std::vector<std::string> lines;
  std::string rest;
};
[[nodiscard]] Provenance split_provenance(std::string_view text);
[[nodiscard]] std::string provenance_text(const std::vector<std::string>& lines);

}  // namespace wattle::predict
