#include "predict/gbdt/kv_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "predict/gbdt/tree_table.h"

namespace wattle::predict {

namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLongest = LinearLatency::kLongest;

/// The smallest whole number of each cell, the first from `least` on.
template <typename Int>
std::vector<Int> firsts_of(const std::vector<float>& thresholds, Int least) {
  constexpr auto kMost = static_cast<float>(1 << 30);  // no step has more requests or KV tokens
  std::vector<Int> firsts{least};
  for (const float t : thresholds) {
    if (t > static_cast<float>(least) && t < kMost) firsts.push_back(static_cast<Int>(std::ceil(t)));
  }
  return firsts;
}

template <typename Int>
void sort_each_once(std::vector<Int>& values) {
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
}

/// Beyond, nothing is distinguished any more (LinearLatency::kLongest).
std::int64_t clamped(Int128 fixed) { return static_cast<std::int64_t>(std::clamp<Int128>(fixed, -kLongest, kLongest)); }

std::int64_t rest_of(std::int64_t ns) { return clamped(Int128{ns} << LinearLatency::kFractionBits); }

std::int64_t quotient(Int128 a, std::int64_t b) { return a / b > kAny ? kAny : static_cast<std::int64_t>(a / b); }

/// Twice the middle of the running maximum and minimum where the sum is `sum`.
Int128 both(const KvSteps::Cell& cell, Int128 sum) {
  return std::max<Int128>(sum, cell.highest_before) + std::min<Int128>(sum, cell.lowest_after);
}

/// The largest sum for which both() <= most.
Int128 largest_sum(const KvSteps::Cell& cell, Int128 most) {
  const Int128 before = cell.highest_before;
  const Int128 after = cell.lowest_after;
  if (most < before + std::min(before, after)) return most - before;
  if (most >= after + std::max(before, after)) return most - after;
  return most >> 1;
}

/// Completes a row of which the trees' parts are known.
void find_envelopes(std::span<KvSteps::Cell> row, std::span<const std::int64_t> first_kv, std::int64_t slope) {
  const auto sum = [&](std::size_t i, std::int64_t kv) { return Int128{slope} * kv + row[i].rest; };
  Int128 highest = -kLongest;
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i].highest_before = clamped(highest);
    if (i + 1 < row.size()) highest = std::max(highest, sum(i, first_kv[i + 1] - 1));
  }
  Int128 lowest = kLongest;
  for (std::size_t i = row.size(); i-- > 0;) {
    row[i].lowest_after = clamped(lowest);
    lowest = std::min(lowest, sum(i, first_kv[i]));
  }
}

}  // namespace

Result<KvSteps> KvSteps::make(const LinearLatency& lines, const GbdtTrees& trees) {
  const auto table = TreeTable::make(trees, false);
  if (!table) return std::unexpected(table.error());
  KvSteps made;
  for (const auto& clock : lines.coefficients().clocks) made.clocks_.push_back(clock.clock.value());
  // Within one row neither the trees' answers nor the lines' slope change with the requests.
  made.first_requests_ = firsts_of<std::int32_t>(table->second_thresholds(), 1);
  for (const std::int32_t end : lines.coefficients().tile_ends) made.first_requests_.push_back(end + 1);
  sort_each_once(made.first_requests_);
  made.first_kv_ = firsts_of<std::int64_t>(table->thresholds(), 0);
  sort_each_once(made.first_kv_);

  made.cells_.reserve(made.clocks_.size() * made.first_requests_.size() * made.first_kv_.size());
  for (const std::int32_t mhz : made.clocks_) {
    for (const std::int32_t requests : made.first_requests_) {
      const std::size_t from = made.cells_.size();
      for (const std::int64_t kv : made.first_kv_) {
        made.cells_.push_back(
            {rest_of(table->at(static_cast<float>(mhz), static_cast<float>(requests), static_cast<float>(kv))), 0, 0});
      }
      StepShape shape;
      shape.decode_requests = requests;
      find_envelopes(std::span(made.cells_).subspan(from), made.first_kv_, lines.line(shape, MegaHertz{mhz}).slope);
    }
  }
  return made;
}

KvSteps::Row KvSteps::row(MegaHertz clock, std::int32_t requests) const {
  const auto known = std::ranges::lower_bound(clocks_, clock.value());
  if (known == clocks_.end() || *known != clock.value()) return nullptr;
  const auto above = std::ranges::upper_bound(first_requests_, std::max(1, requests));
  const auto at = (known - clocks_.begin()) * std::ssize(first_requests_) + (above - first_requests_.begin()) - 1;
  return cells_.data() + at * std::ssize(first_kv_);
}

Int128 KvSteps::time(const LinearLatency::Line& line, Row row, std::int64_t kv_tokens) const {
  const Int128 risen = Int128{line.slope} * kv_tokens;
  if (row == nullptr) return line.base + risen;
  const auto above = std::ranges::upper_bound(first_kv_, std::max<std::int64_t>(0, kv_tokens));
  const Cell& cell = row[above - first_kv_.begin() - 1];
  return line.base + (both(cell, risen + cell.rest) >> 1);
}

std::int64_t KvSteps::within(const LinearLatency::Line& line, Row row, Int128 limit) const {
  const Int128 left = limit - line.base;
  if (row == nullptr) return line.slope == 0 ? kAny : quotient(left, line.slope);
  const Int128 most = 2 * left + 1;  // time()'s shift exactly undone
  std::size_t at = 0;                // the last cell whose first tokens are within
  for (std::size_t beyond = first_kv_.size(); at + 1 < beyond;) {
    const std::size_t middle = at + (beyond - at) / 2;
    (both(row[middle], Int128{line.slope} * first_kv_[middle] + row[middle].rest) <= most ? at : beyond) = middle;
  }
  const std::int64_t last = at + 1 < first_kv_.size() ? first_kv_[at + 1] - 1 : kAny;
  if (line.slope == 0) return last;
  return std::min(last, quotient(largest_sum(row[at], most) - row[at].rest, line.slope));
}

}  // namespace wattle::predict
