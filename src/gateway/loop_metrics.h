#pragma once
// Statistics of one loop's finished requests, in counters to which only that loop adds while a scrape reads them: a
// request takes no lock.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gateway/token_tally.h"
#include "model/request.h"

namespace wattle::gateway {

/// A sum to which one thread adds.
template <typename Number>
class OwnSum {
 public:
  void add(Number more) { sum_.store(sum_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed); }
  /// The increase since the last call; one caller at a time.
  [[nodiscard]] Number take() {
    const Number now = sum_.load(std::memory_order_relaxed);
    const Number more = now - taken_;
    taken_ = now;
    return more;
  }

 private:
  std::atomic<Number> sum_{};
  Number taken_{};
};

/// A histogram to which one thread adds. A value belongs to the first bound that it does not exceed, as in Prometheus.
template <const auto& kBounds>
class OwnHistogram {
 public:
  void observe(double value) {
    const auto bucket = std::ranges::lower_bound(kBounds, value) - kBounds.begin();
    counts_[static_cast<std::size_t>(bucket)].add(1);
    sum_.add(value);
  }
  void observe_many(std::span<const std::int32_t> by_bucket, double sum) {
    for (std::size_t i = 0; i < by_bucket.size(); ++i) counts_[i].add(by_bucket[i]);
    sum_.add(sum);
  }
  /// Like OwnSum::take(), by bucket; returns the sum of the values.
  [[nodiscard]] double take(std::vector<double>& by_bucket) {
    by_bucket.clear();
    for (auto& count : counts_) by_bucket.push_back(static_cast<double>(count.take()));
    return sum_.take();
  }

 private:
  std::array<OwnSum<std::int64_t>, kBounds.size() + 1> counts_;
  OwnSum<double> sum_;
};

struct LoopMetrics {
  static constexpr std::array kSeconds{0.005, 0.01, 0.025, 0.05, 0.1,  0.25,  0.5,  1.0,
                                       2.5,   5.0,  10.0,  30.0, 60.0, 120.0, 300.0};
  static constexpr std::array kTokens{1.0,    8.0,    32.0,   64.0,   128.0,   256.0,   512.0,
                                      1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 131072.0};

  OwnSum<std::int64_t> ok;  ///< answers with status 200
  OwnSum<std::int64_t> cached, reasoning, uncounted;
  OwnHistogram<kSeconds> duration, ttft;
  OwnHistogram<TokenTally::kGapBounds> itl;
  OwnHistogram<kTokens> input, output;

  /// A request that reached an engine is over.
  void request_over(const Request& request, const TokenTally& tally, Instant now) {
    duration.observe((now - request.arrival).seconds());
    const TokenTally::Counted& counted = tally.counted();
    if (counted.prompt != 0) input.observe(counted.prompt > 0 ? counted.prompt : request.prompt_tokens);
    if (counted.cached > 0) cached.add(counted.cached);
    if (counted.reasoning > 0) reasoning.add(counted.reasoning);
    if (tally.count() == 0) return;
    if (counted.prompt < 0) uncounted.add(1);
    ttft.observe((tally.first() - request.arrival).seconds());
    output.observe(tally.count());
    if (tally.gap_sum() > Span()) itl.observe_many(tally.gap_counts(), tally.gap_sum().seconds());
  }
};

}  // namespace wattle::gateway
