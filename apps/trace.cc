// `wattle trace`: look at, convert and make traces.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "commands.h"
#include "config/locate.h"
#include "workload/source.h"
#include "workload/summary.h"
#include "workload/trace.h"
#include "workload/trace_writer.h"

namespace wattle::apps {

namespace {
using workload::TraceFormat;

constexpr const char* kFormats = "azure, vidur, splitwise, mooncake or burstgpt";

Result<TraceFormat> named_format(const std::string& flag, const std::string& name) {
  if (const auto format = workload::format_from_name(name)) return *format;
  return bad_input(flag, fmt::format("is '{}'; it must be {}", name, kFormats));
}

struct Loaded {
  std::string path;
  TraceFormat format = TraceFormat::Azure;
  workload::Trace trace;
};

/// Finds and reads a trace; without a format name, the format follows from the first line.
Result<Loaded> load(const std::string& file, const std::string& flag, const std::string& format_name) {
  Loaded loaded;
  const auto path = workload::find_file(file, config::data_dir(), ".");
  if (!path) return std::unexpected(path.error());
  loaded.path = *path;
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  const auto format = format_name.empty() ? workload::detect_format(*text, *path) : named_format(flag, format_name);
  if (!format) return std::unexpected(format.error());
  loaded.format = *format;
  auto trace = workload::parse_trace(*format, *text, *path);
  if (!trace) return std::unexpected(trace.error());
  loaded.trace = std::move(*trace);
  return loaded;
}

nlohmann::json to_json(const workload::LengthSummary& s) {
  return {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p99", s.p99}, {"max", s.max}};
}

void print_summary(const Loaded& loaded, const workload::TraceSummary& s, bool json) {
  if (json) {
    const nlohmann::json object = {{"file", loaded.path},
                                   {"format", workload::format_name(loaded.format)},
                                   {"rows", s.rows},
                                   {"skipped_failed", loaded.trace.skipped_failed},
                                   {"span_s", s.span.seconds()},
                                   {"rate_per_s", s.rate_per_s},
                                   {"arrival_cv", s.arrival_cv},
                                   {"peak_rate_10s_per_s", s.peak_rate_10s_per_s},
                                   {"prompt_tokens", to_json(s.prompt)},
                                   {"output_tokens", to_json(s.output)}};
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("{} ({})\n", loaded.path, workload::format_name(loaded.format));
  fmt::print("  requests        {}", s.rows);
  if (loaded.trace.skipped_failed > 0) fmt::print(" ({} rows without an answer skipped)", loaded.trace.skipped_failed);
  fmt::print("\n  span            {:.1f} s\n", s.span.seconds());
  if (s.span > Span()) {
    fmt::print("  rate            {:.2f} /s mean, {:.1f} /s in the busiest 10 s\n", s.rate_per_s,
               s.peak_rate_10s_per_s);
    fmt::print("  inter-arrival   CV {:.2f}\n", s.arrival_cv);
  } else {
    fmt::print("  rate            none: all at one time\n");
  }
  fmt::print("  tokens        {:>8} {:>8} {:>8} {:>8} {:>8}\n", "mean", "p50", "p90", "p99", "max");
  const auto row = [](const char* name, const workload::LengthSummary& l) {
    fmt::print("    {:<12}{:>8.1f} {:>8} {:>8} {:>8} {:>8}\n", name, l.mean, l.p50, l.p90, l.p99, l.max);
  };
  row("prompt", s.prompt);
  row("output", s.output);
}

void add_summary(Command trace, int& exit_code) {
  struct Flags {
    std::string file, format;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  Command command = trace.add_subcommand("summary", "Rate, burstiness and lengths of a trace");
  command.add_option("FILE", flags->file, "Trace file; relative paths are looked up in WATTLE_DATA, then here")
      .required();
  command.add_option("--format", flags->format, fmt::format("{} (default: by the first line)", kFormats));
  command.add_flag("--json", flags->json, "Print one JSON object");
  command.callback([flags, &exit_code] {
    const auto loaded = load(flags->file, "--format", flags->format);
    if (!loaded) {
      exit_code = fail(loaded.error());
      return;
    }
    print_summary(*loaded, workload::summarize(loaded->trace.rows), flags->json);
  });
}

Result<std::int64_t> convert(const std::string& in, const std::string& from, const std::string& out,
                             const std::string& to) {
  const auto format = named_format("--to", to);
  if (!format) return std::unexpected(format.error());
  const auto loaded = load(in, "--from", from);
  if (!loaded) return std::unexpected(loaded.error());
  std::error_code none;
  if (std::filesystem::equivalent(loaded->path, out, none)) {
    return bad_input(out, "is the trace to convert; name another file to write");
  }
  auto writer = workload::TraceWriter::create(out, *format);
  if (!writer) return std::unexpected(writer.error());
  for (const auto& row : loaded->trace.rows) {
    if (auto ok = writer->add(row); !ok) return std::unexpected(ok.error());
  }
  if (auto ok = writer->finish(); !ok) return std::unexpected(ok.error());
  if (loaded->trace.skipped_failed > 0) {
    fmt::print(stderr, "wattle: {}: {} rows without an answer (0 tokens) were left out\n", loaded->path,
               loaded->trace.skipped_failed);
  }
  const auto with_content =
      std::ranges::count_if(loaded->trace.rows, [](const auto& row) { return row.content != nullptr; });
  if (with_content > 0 && *format != TraceFormat::Mooncake) {
    fmt::print(stderr, "wattle: {}: what {} prompts consist of was left out: only mooncake says it\n", loaded->path,
               with_content);
  }
  return writer->rows();
}

void add_convert(Command trace, int& exit_code) {
  struct Flags {
    std::string in, out, from, to;
  };
  auto flags = std::make_shared<Flags>();
  Command command = trace.add_subcommand("convert", "Rewrite a trace in another format");
  command.add_option("IN", flags->in, "Trace file to read").required();
  command.add_option("OUT", flags->out, "Trace file to write").required();
  command.add_option("--from", flags->from, fmt::format("{} (default: by the first line)", kFormats));
  command.add_option("--to", flags->to, kFormats).required();
  command.callback([flags, &exit_code] {
    const auto rows = convert(flags->in, flags->from, flags->out, flags->to);
    if (!rows) {
      exit_code = fail(rows.error());
      return;
    }
    fmt::print("{}: {} requests\n", flags->out, *rows);
  });
}

struct SynthFlags {
  std::string out;
  std::string format = "azure";
  std::uint64_t seed = 1;
  double duration_s = std::numeric_limits<double>::infinity();  ///< never
  workload::WorkloadOptions options;
  std::map<std::string, std::string> flag_of;  ///< of the workload's key
};

Result<workload::WorkloadStats> synthesize(const SynthFlags& flags) {
  const auto format = named_format("--format", flags.format);
  if (!format) return std::unexpected(format.error());
  workload::WorkloadOptions options = flags.options;
  if (!std::isinf(flags.duration_s)) {
    if (!(flags.duration_s > 0.0) || flags.duration_s > workload::kMaxTraceSeconds) {
      return bad_input("--duration", fmt::format("is {}; it must be a number of seconds above 0", flags.duration_s));
    }
    options.duration = Span::from_seconds(flags.duration_s);
  }
  auto source = workload::make_source(options, config::data_dir(), ".", flags.seed);
  if (!source) {
    auto error = source.error();
    if (const auto flag = flags.flag_of.find(error.where); flag != flags.flag_of.end()) error.where = flag->second;
    return std::unexpected(std::move(error));
  }
  auto writer = workload::TraceWriter::create(flags.out, *format);
  if (!writer) return std::unexpected(writer.error());
  while (const auto row = (*source)->next()) {
    if (auto ok = writer->add(*row); !ok) return std::unexpected(ok.error());
  }
  if (auto ok = writer->finish(); !ok) return std::unexpected(ok.error());
  return (*source)->stats();
}

void add_synth(Command trace, int& exit_code) {
  auto flags = std::make_shared<SynthFlags>();
  auto& o = flags->options;
  Command command = trace.add_subcommand("synth", "Generate a trace from a random process");
  command.add_option("OUT", flags->out, "Trace file to write").required();
  command.add_option("--format", flags->format, kFormats).capture_default_str();
  command.add_option("--seed", flags->seed, "Same seed, same trace").capture_default_str();
  const auto stands_for = [&](const char* key, const char* flag, auto& value, const char* text) {
    flags->flag_of[fmt::format("workload.{}", key)] = flag;
    return command.add_option(flag, value, text);
  };
  const Flag like = stands_for("synthetic", "--like", o.synthetic,
                               "azure-conv: the Azure 2023 conversation trace's rate, burstiness and lengths");
  const auto own = [&](const char* key, const char* flag, auto& value, const char* text) {
    stands_for(key, flag, value, text).capture_default_str().excludes(like);
  };
  own("requests", "--requests", o.requests, "How many");
  own("rate_per_s", "--rate", o.rate_per_s, "Arrivals per second");
  own("arrival_cv", "--cv", o.arrival_cv,
      "Coefficient of variation of the times between arrivals: 0 evenly spaced, 1 Poisson, else Gamma");
  own("lengths", "--lengths", o.lengths,
      "CSV of (prompt, output) token pairs to draw from, instead of lognormal lengths");
  own("prompt_mean", "--prompt-mean", o.prompt_mean, "Tokens");
  own("prompt_std", "--prompt-std", o.prompt_std, "Tokens");
  own("output_mean", "--output-mean", o.output_mean, "Tokens");
  own("output_std", "--output-std", o.output_std, "Tokens");
  stands_for("duration_s", "--duration", flags->duration_s,
             "Stop after this many seconds of arrivals, before --rate-scale applies (default: never)");
  stands_for("rate_scale", "--rate-scale", o.rate_scale, "2 = the same arrivals in half the time")
      .capture_default_str();
  stands_for("max_prompt_tokens", "--max-prompt", o.max_prompt_tokens, "Longer prompts are truncated, and counted")
      .capture_default_str();
  stands_for("max_output_tokens", "--max-output", o.max_output_tokens, "Longer outputs are truncated, and counted")
      .capture_default_str();
  command.callback([flags, &exit_code] {
    const auto stats = synthesize(*flags);
    if (!stats) {
      exit_code = fail(stats.error());
      return;
    }
    fmt::print("{}: {} requests; {} prompts and {} outputs clamped, {} lengths raised to one token\n", flags->out,
               stats->rows_yielded, stats->clamped_prompts, stats->clamped_outputs, stats->raised_to_one);
  });
}
}  // namespace

void add_trace(Command app, int& exit_code) {
  Command trace = app.add_subcommand("trace", "Inspect, convert and generate traces");
  trace.require_subcommand();
  add_summary(trace, exit_code);
  add_convert(trace, exit_code);
  add_synth(trace, exit_code);
}

}  // namespace wattle::apps
