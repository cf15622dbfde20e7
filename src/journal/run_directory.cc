#include "journal/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/check.h"
#include "base/file.h"
#include "journal/chrome_trace.h"
#include "journal/decisions_jsonl.h"
#include "journal/output_file.h"
#include "journal/requests_csv.h"
#include "journal/timeseries_csv.h"

namespace wattle::journal {

namespace {
namespace fs = std::filesystem;
constexpr const char* kPartial = "run.partial.json";
constexpr std::array kFiles = {"decisions.jsonl", "requests.csv", "timeseries.csv",
                               "trace.json"};  ///< next to run.json
}  // namespace

Result<FileLock> lock_run(const std::string& directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) return external_failure(directory, "cannot be made a folder: " + failed.message());
  return FileLock::take((fs::path(directory) / ".lock").string(), "another gateway records its run there", 5);
}

Result<std::string> set_aside_unended(const std::string& directory) {
  const fs::path from(directory);
  std::error_code code;
  if (!fs::exists(from / kPartial, code) || fs::exists(from / "run.json", code)) return std::string();
  const auto holds_more = [&](const char* name, std::size_t header) {
    const auto size = fs::file_size(from / name, code);
    return !code && size > header;
  };
  if (!holds_more("decisions.jsonl", 0) && !holds_more("requests.csv", requests_csv_header().size()) &&
      !holds_more("timeseries.csv", timeseries_csv_header().size())) {
    return std::string();
  }
  fs::path to;
  for (int number = 1; to.empty() || fs::exists(to / kPartial, code); ++number) {
    to = from / ("unended-" + std::to_string(number));
  }
  code.clear();
  fs::create_directories(to, code);
  for (const char* name : kFiles) {
    std::error_code absent;
    if (!code && fs::exists(from / name, absent)) fs::rename(from / name, to / name, code);
  }
  if (!code) fs::rename(from / kPartial, to / kPartial, code);  // last: until then it is still to be moved
  if (code) {
    return external_failure(to.string(), "the record of a run that did not end cannot be moved there (" +
                                             code.message() + "); name another directory, or move it yourself");
  }
  return to.string();
}

Result<void> check_sizes(const std::string& directory, const RunFile& run) {
  for (const char* name : kFiles) {
    const auto wrote = run.bytes.find(name);
    if (wrote == run.bytes.end()) continue;
    const std::string path = (fs::path(directory) / name).string();
    std::error_code absent;  // its reader says so
    const auto size = static_cast<std::int64_t>(fs::file_size(path, absent));
    if (absent || size == wrote->second || (size > wrote->second && !run.ended)) continue;
    if (size > wrote->second) {
      return bad_input(path, fmt::format("holds {} bytes where the run wrote {}: it was changed since; write the run "
                                         "again",
                                         size, wrote->second));
    }
    const auto text = read_file(path);
    if (!text) return std::unexpected(text.error());
    return bad_input(fmt::format("{}:{}", path, 1 + std::ranges::count(*text, '\n')),
                     fmt::format("the file is cut off here: it holds {} of the {} bytes that the run wrote; copy it "
                                 "again, or write the run again",
                                 size, wrote->second));
  }
  return {};
}

struct RunWriter::Impl {
  std::string directory;
  RunFacts facts;
  RunFiles wanted;
  std::optional<OutputFile> decisions;
  std::optional<OutputFile> requests;
  std::optional<OutputFile> timeseries;
  std::optional<OutputFile> trace;

  [[nodiscard]] std::string path(const char* name) const { return (fs::path(directory) / name).string(); }
  [[nodiscard]] std::string run_text(const RunSummary& summary, const RunCurves& curves) const {
    RunFile run{.facts = facts, .files = wanted, .summary = summary, .curves = curves};
    const std::optional<OutputFile>* const files[] = {&decisions, &requests, &timeseries, &trace};
    for (std::size_t i = 0; i < kFiles.size(); ++i) {
      if (*files[i]) run.bytes[kFiles[i]] = (*files[i])->bytes();
    }
    return run_json(run);
  }
};

RunWriter::RunWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunWriter::~RunWriter() = default;

Result<std::unique_ptr<RunWriter>> RunWriter::open(const std::string& directory, RunFacts facts, RunFiles files) {
  std::error_code code;
  fs::create_directories(directory, code);
  if (code || !fs::is_directory(directory, code)) {
    return external_failure(directory,
                            "cannot be made a directory (" + code.message() + "); name one you may write to");
  }
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->facts = std::move(facts);
  impl->wanted = files;
  // Files of an older run would contradict this one's until it ends.
  for (const char* name : {"run.json", kPartial}) fs::remove(fs::path(directory) / name, code);
  for (const char* name : kFiles) fs::remove(fs::path(directory) / name, code);
  struct Wanted {
    bool wanted;
    const char* name;
    std::optional<OutputFile>& file;
  };
  const std::array<Wanted, 4> all = {Wanted{files.decisions, "decisions.jsonl", impl->decisions},
                                     Wanted{files.requests, "requests.csv", impl->requests},
                                     Wanted{files.timeseries, "timeseries.csv", impl->timeseries},
                                     Wanted{files.trace, "trace.json", impl->trace}};
  for (const Wanted& one : all) {
    if (!one.wanted) continue;
    auto file = OutputFile::create((fs::path(directory) / one.name).string());
    if (!file) return std::unexpected(file.error());
    one.file.emplace(std::move(*file));
  }
  if (impl->requests) impl->requests->buffer() += requests_csv_header();
  if (impl->timeseries) impl->timeseries->buffer() += timeseries_csv_header();
  if (impl->trace) append_trace_begin(impl->trace->buffer(), impl->facts);
  return std::unique_ptr<RunWriter>(new RunWriter(std::move(impl)));
}

void RunWriter::joined(const Instance& facts) {
  impl_->facts.instances.push_back(facts);
  if (!impl_->trace) return;
  append_trace_instance(impl_->trace->buffer(), facts);
  impl_->trace->written();
}

void RunWriter::plan(const PlanRecord& record) {
  if (!impl_->decisions) return;
  append_plan_line(impl_->decisions->buffer(), record);
  impl_->decisions->written();
}

void RunWriter::decision(const DecisionRecord& record) {
  if (!impl_->decisions) return;
  append_decision_line(impl_->decisions->buffer(), record);
  impl_->decisions->written();
}

void RunWriter::outcome(const Outcome& outcome) {
  if (!impl_->requests) return;
  append_request_row(impl_->requests->buffer(), outcome);
  impl_->requests->written();
}

void RunWriter::sample(const Sample& sample) {
  if (impl_->timeseries) {
    append_sample_row(impl_->timeseries->buffer(), sample);
    impl_->timeseries->written();
  }
  if (impl_->trace) {
    append_trace_sample(impl_->trace->buffer(), sample);
    impl_->trace->written();
  }
}

void RunWriter::stretch(const Stretch& stretch) {
  if (!impl_->trace) return;
  append_trace_stretch(impl_->trace->buffer(), stretch);
  impl_->trace->written();
}

Result<void> RunWriter::checkpoint(const RunSummary& summary, const RunCurves& curves) {
  Result<void> first;
  for (auto* file : {&impl_->decisions, &impl_->requests, &impl_->timeseries, &impl_->trace}) {
    if (!*file) continue;
    auto flushed = (*file)->flush();
    if (!flushed && first) first = std::move(flushed);
  }
  if (!first) return first;
  return replace_file(impl_->path(kPartial), impl_->run_text(summary, curves));
}

Result<void> RunWriter::close(const RunSummary& summary, const RunCurves& curves) {
  WATTLE_CHECK(impl_ != nullptr, "a run is closed once");
  const auto impl = std::move(impl_);
  if (impl->trace) append_trace_end(impl->trace->buffer());
  Result<void> first;
  for (auto* file : {&impl->decisions, &impl->requests, &impl->timeseries, &impl->trace}) {
    if (!*file) continue;
    auto closed = (*file)->close();
    if (!closed && first) first = std::move(closed);
  }
  if (!first) return first;
  if (auto written = replace_file(impl->path("run.json"), impl->run_text(summary, curves)); !written) return written;
  std::error_code ignored;  // absent unless checkpoint() was called
  fs::remove(impl->path(kPartial), ignored);
  return {};
}

}  // namespace wattle::journal
