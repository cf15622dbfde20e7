#pragma once
// A run on disk: run.json (facts, summary, curves) beside decisions.jsonl, requests.csv, timeseries.csv and trace.json.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file_lock.h"
#include "journal/record.h"
#include "journal/summary.h"

namespace wattle::journal {

/// Which of the files beside run.json to write.
struct RunFiles {
  bool decisions = true;
  bool requests = true;
  bool timeseries = true;
  bool trace = true;
};

/// Writes a run directory as the run goes, with one 64 KiB buffer per file. run.json comes last: a directory without it
/// is a run that did not end. If checkpoint() has been called, such a run can be read up to that point.
class RunWriter final : public Sink {
 public:
  /// Creates the directory (and its parents) and empties the files. Errors: External, where = path.
  [[nodiscard]] static Result<std::unique_ptr<RunWriter>> open(const std::string& directory, RunFacts facts,
                                                               RunFiles files = {});
  ~RunWriter() override;

  void joined(const Instance& facts) override;
  void decision(const DecisionRecord& record) override;
  void plan(const PlanRecord& record) override;
  void outcome(const Outcome& outcome) override;
  void left_behind(const Outcome& so_far) override { outcome(so_far); }
  void sample(const Sample& sample) override;
  void stretch(const Stretch& stretch) override;

  /// Passes all records so far to the operating system, and the summary so far as run.partial.json. Errors: the first
  /// failed write of any file; later records of that file are lost.
  [[nodiscard]] Result<void> checkpoint(const RunSummary& summary, const RunCurves& curves);
  /// Completes every file. Errors: the first failed write of any of them (then there is no run.json). Call once.
  [[nodiscard]] Result<void> close(const RunSummary& summary, const RunCurves& curves);

 private:
  struct Impl;
  explicit RunWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The contents of run.json.
struct RunFile {
  RunFacts facts;
  RunFiles files;
  RunSummary summary;
  RunCurves curves;
  bool ended = true;  ///< false: read from the last checkpoint of a run that is still running or was killed
  /// Size of each file beside run.json when that was written, by name; empty: a run of an older version.
  std::map<std::string, std::int64_t> bytes = {};
};

/// Creates `directory` and locks it for a live run, because two would overwrite each other's records. Errors: External,
/// another live run still has it after five seconds.
[[nodiscard]] Result<FileLock> lock_run(const std::string& directory);

/// Moves the records of a live run in `directory` that did not end to `directory`/unended-1, -2, ..., where they can be
/// read as a run, so that the next run can use `directory`. Returns that folder; empty: there is no such run, or it has
/// recorded nothing. Errors: External, where = that folder.
[[nodiscard]] Result<std::string> set_aside_unended(const std::string& directory);

/// Errors: no such directory, no run.json in it, bad JSON (file:line), a missing or wrong key (file, key).
[[nodiscard]] Result<RunFile> read_run(const std::string& directory);
/// Checks that each file of `run` that is in `directory` has its recorded length (or is longer, if the run has not
/// ended). Errors: a file that was cut off (where = file:line) or changed.
[[nodiscard]] Result<void> check_sizes(const std::string& directory, const RunFile& run);
[[nodiscard]] Result<RunFile> parse_run(std::string_view text, const std::string& name);
[[nodiscard]] std::string run_json(const RunFile& run);

}  // namespace wattle::journal
