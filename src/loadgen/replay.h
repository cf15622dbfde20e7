#pragma once
// Open-loop replay of requests against any OpenAI endpoint: each is sent at its time, whatever became of those before.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "journal/statistics.h"
#include "loadgen/completion_body.h"
#include "model/request.h"
#include "units/time.h"

namespace wattle::loadgen {

struct ReplayRow {
  Instant at;  ///< since the replay's start, before `speed`
  std::int32_t prompt_tokens = 1;
  std::int32_t output_tokens = 1;
  std::int32_t predicted_tokens = 0;  ///< sent as X-Wattle-Predicted-Output-Tokens; 0 = not sent
  PromptContent content = nullptr;    ///< prompts that begin alike do so on the wire
};

/// What is wanted of a replay that runs.
enum class Ending : std::uint8_t {
  None,    ///< go on to the last row
  Drain,   ///< send nothing more, and let what was sent end
  AtOnce,  ///< cut it off
};

struct ReplayOptions {
  std::string url;
  std::string model;
  PromptForm form = PromptForm::Chat;
  double speed = 1.0;  ///< 2 = the same arrivals in half the time
  Slo slo;
  /// 0: each row asks for its own output exactly (max_tokens, ignore_eos). Else that is the cap of every request, and
  /// the true length goes in X-Wattle-Output-Tokens, which only the mock engine reads.
  std::int32_t max_tokens = 0;
  Span request_timeout = Span::s(600);  ///< without a byte
  /// Asked ten times a second, on a thread of the replay's; empty: Ending::None.
  std::function<Ending()> ending = nullptr;
  Span drain = Span::s(30);  ///< Ending::Drain: what has not ended by then is cut off
};

struct ReplayProgress {
  Instant now;
  journal::RunSummary summary;  ///< so far; requests on their way count as not attained
};

struct ReplayReport {
  journal::RunCurves curves;
  journal::RunSummary summary;                   ///< requests, tokens, attainment, latencies; energy is not known here
  std::map<std::string, std::int64_t> failures;  ///< by kind: "http 429", "connect", ...; each request once
  double wall_s = 0.0;
  Span latest_start;         ///< worst delay of a send behind its time: above a few ms, this machine was the bottleneck
  bool interrupted = false;  ///< rows were not sent, or requests cut off (Fate::Cancelled), as its end was wanted
  Span sent;                 ///< the rows before this have been sent, in the rows' own time
};

/// Blocks until every request is over, or has been cut off as `ending` says. `rows` yields in order of time; `progress`
/// (may be empty) is called about five times a second.
Result<ReplayReport> replay(const std::function<std::optional<ReplayRow>()>& rows, const ReplayOptions& options,
                            const std::function<void(const ReplayProgress&)>& progress);

}  // namespace wattle::loadgen
