#include "report/timeline.h"

#include <algorithm>
#include <limits>

#include "base/file.h"
#include "journal/timeseries_csv.h"

namespace wattle::report {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void Timeline::add(const journal::Sample& sample) {
  auto index = static_cast<std::size_t>(sample.at.ns() / interval_ns_);
  while (index >= max_intervals_) {
    merge_pairs();
    index = static_cast<std::size_t>(sample.at.ns() / interval_ns_);
  }
  Track& track = tracks_[sample.instance.value()];
  auto& cells = track.cells;
  if (!cells.empty() && sample.at > track.newest) gaps_.add((sample.at - track.newest).ns());
  track.newest = std::max(track.newest, sample.at);
  if (index >= cells.size()) cells.resize(index + 1);
  intervals_ = std::max(intervals_, index + 1);
  Cell& cell = cells[index];
  ++cell.samples;
  cell.sum[static_cast<std::size_t>(Signal::Power)] += to_watts(sample.power).value();
  cell.sum[static_cast<std::size_t>(Signal::Clock)] += sample.clock.value();
  cell.sum[static_cast<std::size_t>(Signal::Batch)] += sample.decode_requests;
  cell.sum[static_cast<std::size_t>(Signal::Prefill)] += static_cast<double>(sample.prefill_tokens);
  cell.sum[static_cast<std::size_t>(Signal::Waiting)] += sample.waiting_requests;
}

void Timeline::settle() {
  const std::int64_t period = gaps_.quantile(0.5);
  while (intervals_ > 1 && interval_ns_ < period) merge_pairs();
  for (auto& [id, track] : tracks_) {
    auto& cells = track.cells;
    for (std::size_t i = 1; i + 1 < cells.size(); ++i) {
      if (cells[i].samples == 0 && cells[i - 1].samples > 0 && cells[i + 1].samples > 0) cells[i] = cells[i - 1];
    }
  }
}

void Timeline::merge_pairs() {
  interval_ns_ *= 2;
  intervals_ = (intervals_ + 1) / 2;
  for (auto& [id, track] : tracks_) {
    auto& cells = track.cells;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Cell cell = cells[i];
      if (i % 2 == 0) {
        cells[i / 2] = cell;
        continue;
      }
      Cell& into = cells[i / 2];
      into.samples += cell.samples;
      for (std::size_t k = 0; k < kSignals; ++k) into.sum[k] += cell.sum[k];
    }
    cells.resize((cells.size() + 1) / 2);
  }
}

double Timeline::end_s() const {
  Instant newest;
  for (const auto& [id, track] : tracks_) newest = std::max(newest, track.newest);
  return newest.seconds();
}

std::vector<InstanceId> Timeline::instances() const {
  std::vector<InstanceId> ids;
  for (const auto& [id, track] : tracks_) ids.emplace_back(id);
  return ids;
}

Series Timeline::series(InstanceId instance, Signal signal) const {
  Series out(intervals_, kNone);
  const auto found = tracks_.find(instance.value());
  if (found == tracks_.end()) return out;
  const auto& cells = found->second.cells;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    if (cell.samples > 0) out[i] = cell.sum[static_cast<std::size_t>(signal)] / static_cast<double>(cell.samples);
  }
  return out;
}

Series Timeline::fleet(Signal signal) const {
  Series out(intervals_, kNone);
  std::vector<int> seen(intervals_, 0);
  for (const auto& [id, track] : tracks_) {
    const Series one = series(InstanceId(id), signal);
    for (std::size_t i = 0; i < intervals_; ++i) {
      if (one[i] != one[i]) continue;
      out[i] = seen[i]++ == 0 ? one[i] : out[i] + one[i];
    }
  }
  if (signal == Signal::Clock) {
    for (std::size_t i = 0; i < intervals_; ++i) out[i] /= seen[i];
  }
  return out;
}

Result<Timeline> read_timeline(const std::string& path, std::size_t max_intervals, bool ended) {
  auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  if (!ended) text->resize(text->rfind('\n') + 1);  // the last row may have been cut off while it was written
  Timeline timeline(max_intervals);
  auto read = journal::parse_timeseries(*text, path, [&](const journal::Sample& s) { timeline.add(s); });
  if (!read) return std::unexpected(read.error());
  timeline.settle();
  return timeline;
}

}  // namespace wattle::report
