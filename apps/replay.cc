#include "loadgen/replay.h"

#include <fmt/core.h>
#include <unistd.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/file.h"
#include "commands.h"
#include "config/locate.h"
#include "figures.h"
#include "replay_ending.h"
#include "workload/source.h"
#include "workload/trace.h"

namespace wattle::apps {

namespace {

struct ReplayFlags {
  std::string trace;
  std::string url;
  std::string model = "default";
  std::string form = "chat";
  double speed = 1.0;
  std::int64_t max_requests = 0;
  std::int32_t max_prompt_tokens = 8192;
  std::int32_t max_output_tokens = 4096;
  double ttft_slo_ms = 0, itl_slo_ms = 0, tbt_slo_ms = 0, e2e_slo_ms = 0;
  double drain_s = 30;
  bool json = false;
};

std::optional<Span> slo_of(double ms) { return ms > 0 ? std::optional(Span::from_seconds(ms * 1e-3)) : std::nullopt; }

nlohmann::ordered_json to_json(const journal::Distribution& d) {
  const auto of_some = [&](double ms) { return d.count == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(ms); };
  return {
      {"mean", of_some(d.mean_ms)}, {"p50", of_some(d.p50_ms)}, {"p90", of_some(d.p90_ms)}, {"p99", of_some(d.p99_ms)}};
}

void print_json(const loadgen::ReplayReport& report, const ReplayFlags& flags, const workload::WorkloadStats& read) {
  const auto& s = report.summary;
  nlohmann::ordered_json out{{"trace", flags.trace},
                             {"url", flags.url},
                             {"speed", flags.speed},
                             {"requests",
                              {{"arrived", s.requests.arrived},
                               {"finished", s.requests.finished},
                               {"rejected", s.requests.rejected},
                               {"failed", s.requests.failed},
                               {"cancelled", s.requests.cancelled}}},
                             {"interrupted", report.interrupted},
                             {"failures", report.failures},
                             {"clamped", {{"prompts", read.clamped_prompts}, {"outputs", read.clamped_outputs}}},
                             {"skipped_failed", read.skipped_failed},
                             {"tokens", {{"prompt", s.tokens.prompt}, {"output", s.tokens.output}}},
                             {"slo",
                              {{"ttft_attainment", s.slo.ttft},
                               {"itl_attainment", s.slo.itl},
                               {"tbt_attainment", s.slo.tbt},
                               {"e2e_attainment", s.slo.e2e},
                               {"attainment", s.slo.all}}},
                             {"ttft_ms", to_json(s.ttft)},
                             {"itl_ms", to_json(s.itl)},
                             {"tbt_ms", to_json(s.tbt)},
                             {"e2e_ms", to_json(s.e2e)},
                             {"wall_s", report.wall_s},
                             {"latest_start_ms", report.latest_start.millis()}};
  fmt::print("{}\n", out.dump());
}

void print_table(const loadgen::ReplayReport& report) {
  const auto& s = report.summary;
  fmt::print("requests  arrived {}  finished {}  rejected {}  failed {}{}   in {:.1f} s\n", s.requests.arrived,
             s.requests.finished, s.requests.rejected, s.requests.failed,
             report.interrupted ? fmt::format("  cancelled {}", s.requests.cancelled) : "", report.wall_s);
  for (const auto& [kind, count] : report.failures) fmt::print("  {:<12} {}\n", kind, count);
  fmt::print("{:<8}{:>10}{:>10}{:>10}{:>10}{:>14}\n", "ms", "mean", "p50", "p90", "p99", "attainment");
  const auto row = [](const char* name, const journal::Distribution& d, double share) {
    if (d.count == 0) {
      fmt::print("{:<8}{:>10}{:>10}{:>10}{:>10}{:>14}\n", name, "-", "-", "-", "-", "-");
      return;
    }
    fmt::print("{:<8}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>14}\n", name, d.mean_ms, d.p50_ms, d.p90_ms, d.p99_ms,
               percent(share));
  };
  row("TTFT", s.ttft, s.slo.ttft);
  row("ITL", s.itl, s.slo.itl);
  row("TBT", s.tbt, s.slo.tbt);
  row("E2E", s.e2e, s.slo.e2e);
  fmt::print("all stated objectives met: {} of arrived requests\n", percent(s.slo.all));
  print_interrupted(report);
  if (report.latest_start > Span::ms(50)) {
    fmt::print("note: requests left up to {:.0f} ms late; this machine was busy\n", report.latest_start.millis());
  }
}

Result<int> run_replay(const ReplayFlags& flags) {
  const auto path = workload::find_file(flags.trace, config::data_dir(), ".");
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  const auto format = workload::detect_format(*text, *path);
  if (!format) return std::unexpected(format.error());
  workload::WorkloadOptions wanted;
  wanted.trace = *path;
  wanted.format = *format;
  wanted.max_prompt_tokens = flags.max_prompt_tokens;
  wanted.max_output_tokens = flags.max_output_tokens;
  auto source = workload::make_source(wanted, config::data_dir(), ".", 1);
  if (!source) return std::unexpected(source.error());

  loadgen::ReplayOptions options;
  options.url = flags.url;
  options.model = flags.model;
  options.speed = flags.speed;
  options.form = flags.form == "chat"   ? loadgen::PromptForm::Chat
                 : flags.form == "text" ? loadgen::PromptForm::Text
                                        : loadgen::PromptForm::TokenIds;
  options.slo = {slo_of(flags.ttft_slo_ms), slo_of(flags.itl_slo_ms), slo_of(flags.tbt_slo_ms),
                 slo_of(flags.e2e_slo_ms)};
  options.ending = replay_ending;
  options.drain = Span::from_seconds(flags.drain_s);
  std::int64_t left = flags.max_requests > 0 ? flags.max_requests : std::numeric_limits<std::int64_t>::max();
  const auto rows = [&]() -> std::optional<loadgen::ReplayRow> {
    if (left-- <= 0) return std::nullopt;
    const auto row = (*source)->next();
    if (!row) return std::nullopt;
    return loadgen::ReplayRow{row->arrival, row->prompt_tokens, row->output_tokens, 0, row->content};
  };
  std::function<void(const loadgen::ReplayProgress&)> progress;
  if (::isatty(STDERR_FILENO) != 0) {
    progress = [](const loadgen::ReplayProgress& p) {
      fmt::print(stderr, "\r{:>8.1f} s   sent {:>7}   over {:>7}   in flight {:>6}   failed {:>5} ", p.now.seconds(),
                 p.summary.requests.arrived, p.summary.requests.left(), p.summary.requests.in_flight,
                 p.summary.requests.left() - p.summary.requests.finished);
    };
  }
  handle_end_signals(SecondSignal::IsReported);
  const auto report = loadgen::replay(rows, options, progress);
  if (progress) fmt::print(stderr, "\n");
  if (!report) return std::unexpected(report.error());
  const workload::WorkloadStats read = (*source)->stats();
  flags.json ? print_json(*report, flags, read) : print_table(*report);
  if (!flags.json) {
    print_changed(read.clamped_prompts, read.clamped_outputs, read.skipped_failed,
                  "--max-prompt-tokens and --max-output-tokens");
  }
  const auto& requests = report->summary.requests;
  if (requests.arrived == requests.cancelled || requests.finished > 0) return 0;
  // The outside failed, not a request or two.
  const auto connect = report->failures.find("connect");
  if (connect != report->failures.end() && connect->second == requests.arrived) {
    return external_failure(flags.url, "no request could connect; is the endpoint running?");
  }
  std::string kinds;
  for (const auto& [kind, count] : report->failures)
    kinds += fmt::format("{}{} x {}", kinds.empty() ? "" : ", ", count, kind);
  return external_failure(flags.url, fmt::format("not one of {} requests finished: {}", requests.arrived, kinds));
}

}  // namespace

void add_replay(Command app, int& exit_code) {
  Command command = app.add_subcommand("replay", "Replay a trace against an OpenAI endpoint and measure it");
  auto flags = std::make_shared<ReplayFlags>();
  command.add_option("trace", flags->trace, "a trace file (azure, vidur, splitwise, mooncake, burstgpt)").required();
  command.add_option("--url", flags->url, "the endpoint, like http://127.0.0.1:8000").required();
  command.add_option("--model", flags->model, "the model to ask for").capture_default_str();
  command.add_option("--speed", flags->speed, "2 = the same arrivals in half the time")
      .check(positive())
      .capture_default_str();
  command.add_option("--max-requests", flags->max_requests, "stop after this many requests; 0: the whole trace")
      .check(non_negative());
  command.add_option("--prompt", flags->form, "chat, text, or ids (token ids: exact lengths on any tokenizer)")
      .check(one_of({"chat", "text", "ids"}))
      .capture_default_str();
  command.add_option("--max-prompt-tokens", flags->max_prompt_tokens, "longer prompts are cut to this")
      .check(positive())
      .capture_default_str();
  command.add_option("--max-output-tokens", flags->max_output_tokens, "longer outputs are cut to this")
      .check(positive())
      .capture_default_str();
  const auto objective = [&](const char* name, double& ms, const char* what) {
    command.add_option(name, ms, fmt::format("{}; 0 = not judged", what)).check(non_negative_time());
  };
  objective("--ttft-slo-ms,--ttft-ms", flags->ttft_slo_ms, "time to first token");
  objective("--itl-slo-ms,--itl-ms", flags->itl_slo_ms, "every gap between tokens");
  objective("--tbt-slo-ms,--tbt-ms", flags->tbt_slo_ms, "a request's mean gap");
  objective("--e2e-slo-ms,--e2e-ms", flags->e2e_slo_ms, "arrival to last token");
  add_drain_flag(command, flags->drain_s);
  command.add_flag("--json", flags->json, "one JSON object on stdout");
  command.callback([flags, &exit_code] {
    const auto result = run_replay(*flags);
    exit_code = result ? *result : fail(result.error());
  });
}

}  // namespace wattle::apps
