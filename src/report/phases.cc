#include "report/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "journal/decisions_jsonl.h"

namespace wattle::report {

using journal::Phase;

std::vector<PhaseSpan> phase_spans(std::vector<journal::DecisionRecord> changes,
                                   const std::vector<journal::Instance>& facts, double end_s) {
  if (changes.empty()) return {};
  std::ranges::stable_sort(changes, {}, &journal::DecisionRecord::at);
  std::map<InstanceId, std::vector<PhaseSpan>> by_instance;
  for (const auto& i : facts) by_instance[i.id];
  for (const auto& change : changes) {
    auto& spans = by_instance[change.instance];
    const auto phase = static_cast<Phase>(change.value);
    const double at = std::clamp(change.at.seconds(), 0.0, end_s);
    const bool served = phase == Phase::Draining || phase == Phase::Gone;
    if (spans.empty() && served) spans.push_back({change.instance, Phase::Serving, 0.0, end_s});
    if (!spans.empty()) spans.back().to_s = at;
    spans.push_back({change.instance, phase, at, end_s});
  }
  std::vector<PhaseSpan> all;
  for (auto& [id, spans] : by_instance) {
    if (spans.empty()) spans.push_back({id, Phase::Serving, 0.0, end_s});
    std::ranges::copy_if(spans, std::back_inserter(all), [](const PhaseSpan& s) { return s.phase != Phase::Gone; });
  }
  return all;
}

Result<std::vector<journal::DecisionRecord>> read_phases(const std::string& path, bool ended) {
  std::ifstream file(path);
  if (!file) return bad_input(path, "cannot be read, although run.json says it is there");
  std::vector<journal::DecisionRecord> changes;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (!ended && file.eof()) break;  // cut off while it was written
    if (line.find("\"kind\":\"phase\"") == std::string::npos) continue;
    bool unknown = false;
    const auto read = journal::parse_decisions(line, path, [&](const journal::DecisionRecord& record) {
      changes.push_back(record);
      changes.back().reason = "";  // valid during the call only
      unknown = record.value < 0 || record.value > static_cast<std::int64_t>(Phase::Gone);
    });
    if (!read) return bad_input(fmt::format("{}:{}", path, number), read.error().what);
    if (unknown)
      return bad_input(fmt::format("{}:{}", path, number), "key value must be the number of a phase, 0 to 4");
  }
  return changes;
}

std::map<InstanceId, std::size_t> lanes(const std::vector<PhaseSpan>& spans,
                                        const std::vector<journal::Instance>& facts) {
  struct Stay {
    std::int32_t gpus = 0;
    double from_s = 0.0;
    InstanceId id;
    double to_s = 0.0;
    bool operator<(const Stay& o) const { return std::tie(gpus, from_s, id) < std::tie(o.gpus, o.from_s, o.id); }
  };
  std::map<InstanceId, Stay> stays;
  for (const PhaseSpan& s : spans) {
    Stay& stay = stays.try_emplace(s.instance, Stay{1, s.from_s, s.instance, s.to_s}).first->second;
    stay.to_s = std::max(stay.to_s, s.to_s);
  }
  for (const auto& i : facts) {
    if (const auto found = stays.find(i.id); found != stays.end()) found->second.gpus = i.spec.tensor_parallel;
  }
  std::set<Stay> order;
  for (const auto& [id, stay] : stays) order.insert(stay);
  std::vector<std::pair<std::int32_t, double>> rows;  // GPUs, and until when
  std::map<InstanceId, std::size_t> result;
  for (const Stay& stay : order) {
    auto row =
        std::ranges::find_if(rows, [&](const auto& r) { return r.first == stay.gpus && r.second <= stay.from_s; });
    if (row == rows.end()) row = rows.insert(rows.end(), {stay.gpus, 0.0});
    row->second = stay.to_s;
    result[stay.id] = static_cast<std::size_t>(row - rows.begin());
  }
  return result;
}

}  // namespace wattle::report
