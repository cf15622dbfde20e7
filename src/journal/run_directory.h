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
/// is a run that did not end. Where somebody calls checkpoint(), such a run can be read up to there.
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

  /// Hands all that was recorded to the system, and with it what the run amounts to so far, as run.partial.json.
  /// Errors: the first failed write of any file; what comes after it in that file is lost.
  [[nodiscard]] Result<void> checkpoint(const RunSummary& summary, const RunCurves& curves);
  /// Ends every file. Errors: the first failed write of any of them (then there is no run.json). Call once.
  [[nodiscard]] Result<void> close(const RunSummary& summary, const RunCurves& curves);

 private:
  struct Impl;
  explicit RunWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What run.json says.
struct RunFile {
  RunFacts facts;
  RunFiles files;
  RunSummary summary;
  RunCurves curves;
  bool ended = true;  ///< false: read from the last checkpoint of a run that goes on, or was killed
  /// Of each file beside run.json when that was written, by its name; empty: an older wattle's run.
  std::map<std::string, std::int64_t> bytes = {};
};

/// Makes `directory` and holds it for a live run: two would write over each other's record. Errors: External, another
/// live run has had it for five seconds.
[[nodiscard]] Result<FileLock> lock_run(const std::string& directory);

/// Moves what a live run that never ended has recorded in `directory` out of the next one's way, to
/// `directory`/unended-1, -2, ..., where it can be read as a run. The folder; empty: there is no such run, or it has
/// recorded nothing. Errors: External, where = that folder.
[[nodiscard]] Result<std::string> set_aside_unended(const std::string& directory);

/// Errors: no such directory, no run.json in it, bad JSON (file:line), a missing or wrong key (file, key).
[[nodiscard]] Result<RunFile> read_run(const std::string& directory);
/// Each file of `run`'s that is in `directory` is as long as it was; longer only of a run that has not ended. Errors:
/// one that was cut off (where = file:line) or changed.
[[nodiscard]] Result<void> check_sizes(const std::string& directory, const RunFile& run);
[[nodiscard]] Result<RunFile> parse_run(std::string_view text, const std::string& name);
[[nodiscard]] std::string run_json(const RunFile& run);

}  // namespace wattle::journal
