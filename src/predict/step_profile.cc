#include "predict/step_profile.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "base/csv.h"
#include "base/text_line.h"
#include "base/trimmed.h"

namespace wattle::predict {

namespace {

enum ProfileColumn : std::size_t {
  kPhase,
  kClock,
  kRequests,
  kPromptTokens,
  kKvTokens,
  kSteps,
  kStep,
  kPower,
  kReached
};
constexpr std::array<std::string_view, 9> kColumns = {"phase", "clock_mhz", "requests", "prompt_tokens", "kv_tokens",
                                                      "steps", "step_ms",   "power_w",  "reached_mhz"};
constexpr std::int64_t kMostTokens = 1'000'000'000;
constexpr std::int64_t kMostRequests = 1'000'000;
constexpr double kShortestStepMs = 0.01;  ///< no forward pass is shorter; milliseconds given in seconds are
constexpr double kLongestStepMs = 600'000.0;

/// Every field of a row, each checked on its own.
Result<ProfileRow> fields_of(const CsvReader& csv) {
  ProfileRow row;
  const auto phase = step_kind_from(csv.field(kPhase));
  if (!phase) return csv.bad_field(kPhase, "it must be idle, prefill or decode");
  row.phase = *phase;
  const bool idle = row.phase == StepKind::Idle;
  const auto clock = csv.whole(kClock, kLowestClockMhz, kHighestClockMhz);
  if (!clock) return std::unexpected(clock.error());
  row.clock = MegaHertz(static_cast<std::int32_t>(*clock));
  const std::int64_t some = idle ? 0 : 1;
  const auto requests = csv.whole(kRequests, some, idle ? 0 : kMostRequests);
  if (!requests) return std::unexpected(requests.error());
  row.requests = static_cast<std::int32_t>(*requests);
  // Every request computes a token at least; every decode reads one at least.
  const bool prefill = row.phase == StepKind::Prefill;
  const bool decode = row.phase == StepKind::Decode;
  const auto prompt = csv.whole(kPromptTokens, prefill ? *requests : 0, prefill ? kMostTokens : 0);
  if (!prompt) return std::unexpected(prompt.error());
  row.prompt_tokens = *prompt;
  const auto kv = csv.whole(kKvTokens, decode ? *requests : 0, idle ? 0 : kMostTokens);
  if (!kv) return std::unexpected(kv.error());
  row.kv_tokens = *kv;
  const auto steps = csv.whole(kSteps, some, idle ? 0 : kMostTokens);
  if (!steps) return std::unexpected(steps.error());
  row.steps = *steps;
  const auto step = csv.number(kStep, idle ? 0.0 : kShortestStepMs, idle ? 0.0 : kLongestStepMs);
  if (!step) return std::unexpected(step.error());
  row.step = Span(std::llround(*step * 1e6));
  if (!csv.field(kPower).empty() || idle) {
    const auto power = csv.number(kPower, 0.0, kHighestPowerW);
    if (!power) return std::unexpected(power.error());
    row.power = to_milliwatts(Watts(*power));
  }
  if (!csv.field(kReached).empty()) {
    const auto reached = csv.whole(kReached, kLowestClockMhz, kHighestClockMhz);
    if (!reached) return std::unexpected(reached.error());
    row.reached = MegaHertz(static_cast<std::int32_t>(*reached));
  }
  return row;
}

}  // namespace

const char* name_of(StepKind kind) {
  switch (kind) {
    case StepKind::Idle:
      return "idle";
    case StepKind::Prefill:
      return "prefill";
    case StepKind::Decode:
      return "decode";
  }
  return "";
}

std::optional<StepKind> step_kind_from(std::string_view name) {
  for (const StepKind kind : {StepKind::Idle, StepKind::Prefill, StepKind::Decode}) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

Provenance split_provenance(std::string_view text) {
  Provenance split;
  while (text.starts_with('#')) {
    const std::string_view line = trimmed(take_line(text).substr(1));
    if (!line.empty()) split.lines.emplace_back(line);
    split.rest += '\n';
  }
  split.rest += text;
  return split;
}

std::string provenance_text(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += "# " + line + "\n";
  return text;
}

Result<StepProfile> parse_step_profile(std::string_view text, const std::string& file) {
  Provenance split = split_provenance(text);
  StepProfile profile;
  profile.provenance = std::move(split.lines);
  auto csv = CsvReader::open(split.rest, file, kColumns);
  if (!csv) return std::unexpected(csv.error());
  using Key = std::tuple<StepKind, MegaHertz, std::int32_t, std::int64_t, std::int64_t>;
  std::map<Key, std::int64_t> seen;
  while (true) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto row = fields_of(*csv);
    if (!row) return std::unexpected(row.error());
    if (!profile.rows.empty() && row->clock < profile.rows.back().clock) {
      return csv->bad_field(
          kClock, fmt::format("clocks may not fall from row to row and the one before has {}; sort the rows by it",
                              profile.rows.back().clock.value()));
    }
    const auto [at, fresh] =
        seen.try_emplace({row->phase, row->clock, row->requests, row->prompt_tokens, row->kv_tokens}, csv->line());
    if (!fresh) {
      return csv->bad_field(
          kPhase, fmt::format("the same step (clock_mhz, requests, prompt_tokens, kv_tokens) is in line {}; keep one",
                              at->second));
    }
    profile.rows.push_back(*row);
  }
  if (profile.rows.empty()) return bad_input(file, "has a header and no rows; a profile needs at least one");
  return profile;
}

std::string to_csv(const StepProfile& profile) {
  std::string text = provenance_text(profile.provenance);
  text += fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const ProfileRow& row : profile.rows) {
    text +=
        fmt::format("{},{},{},{},{},{},{}.{:06},", name_of(row.phase), row.clock.value(), row.requests,
                    row.prompt_tokens, row.kv_tokens, row.steps, row.step.ns() / 1'000'000, row.step.ns() % 1'000'000);
    if (row.power) text += fmt::format("{}.{:03}", row.power->value() / 1000, row.power->value() % 1000);
    text += ",";
    if (row.reached) text += fmt::format("{}", row.reached->value());
    text += "\n";
  }
  return text;
}

}  // namespace wattle::predict
