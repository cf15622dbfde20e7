#pragma once
// Requests at hand, with Poisson arrivals instead of their own.
#include <cstdint>
#include <span>
#include <string_view>

#include "base/random.h"
#include "workload/source.h"

namespace wattle::workload {

/// So many of the rows, Poisson arrivals instead of their own: the same lengths and the same pattern at every rate, so
/// that latency grows with the rate. Taken evenly from all rows, as lengths drift; too few come again and again.
class PoissonRows final : public RequestSource {
 public:
  /// `rows` is not empty and outlives this; `stream` names the random stream of the gaps.
  PoissonRows(std::span<const TraceRow> rows, std::int64_t requests, double rate_per_s, std::uint64_t seed,
              std::string_view stream)
      : rows_(rows), requests_(requests), rate_per_s_(rate_per_s), gaps_(seed, stream) {}
  std::optional<TraceRow> next() override {
    if (given_ == requests_) return std::nullopt;
    const auto total = static_cast<std::int64_t>(rows_.size());
    const std::int64_t at = total > requests_ ? given_ * total / requests_ : given_ % total;
    TraceRow row = rows_[static_cast<std::size_t>(at)];
    now_ += Span::from_seconds(gaps_.exponential() / rate_per_s_);
    row.arrival = now_;
    row.content = salted(row.content, static_cast<std::uint64_t>(total > requests_ ? 0 : given_ / total));
    ++given_;
    return row;
  }
  [[nodiscard]] WorkloadStats stats() const override { return {}; }

 private:
  std::span<const TraceRow> rows_;
  std::int64_t requests_;
  double rate_per_s_;
  RandomStream gaps_;
  std::int64_t given_ = 0;
  Instant now_;
};

}  // namespace wattle::workload
