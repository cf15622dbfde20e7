#pragma once
// Engines that come and go: their phases, from a run's decisions.
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "journal/record.h"

namespace wattle::report {

/// One phase of one engine, from its beginning to its end.
struct PhaseSpan {
  InstanceId instance;
  journal::Phase phase = journal::Phase::Serving;
  double from_s = 0.0;
  double to_s = 0.0;
};

/// Whatever a run's engines went through up to `end_s`, in order of time per engine; Gone takes none. One whose first
/// record ends its service has served from the start, and so has one of `facts` without any. Empty when no engine ever
/// changed.
[[nodiscard]] std::vector<PhaseSpan> phase_spans(std::vector<journal::DecisionRecord> changes,
                                                 const std::vector<journal::Instance>& facts, double end_s);

/// The phase records of decisions.jsonl, read line by line: such files are large. Errors: file and line.
[[nodiscard]] Result<std::vector<journal::DecisionRecord>> read_phases(const std::string& path, bool ended = true);

/// Engines of one size that were never there together share a row, so that a plot is no longer than the fleet was wide.
/// Rows by instance, from 0, smaller engines first.
[[nodiscard]] std::map<InstanceId, std::size_t> lanes(const std::vector<PhaseSpan>& spans,
                                                      const std::vector<journal::Instance>& facts);

}  // namespace wattle::report
