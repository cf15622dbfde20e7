#pragma once
// Token timing of one streamed response. Time is an argument; no allocation.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "control/ports.h"
#include "units/time.h"

namespace wattle::gateway {

class TokenTally {
 public:
  /// Upper bounds of the gap histogram, seconds; the last bucket is open.
  static constexpr std::array<double, 12> kGapBounds{0.001, 0.0025, 0.005, 0.01, 0.02, 0.03,
                                                     0.05,  0.075,  0.1,   0.2,  0.5,  1.0};

  /// Without limits for gaps.
  TokenTally() = default;
  /// `itl_limits`: possible limits, ascending; must outlive it. Allocates if there are several.
  explicit TokenTally(const std::vector<Span>& itl_limits)
      : limits_(&itl_limits),
        beyond_(itl_limits.size() > 1 ? std::make_unique<std::int32_t[]>(itl_limits.size() - 1) : nullptr) {}

  void token(Instant now) {
    if (count_ == 0) {
      first_ = now;
    } else {
      const Span gap = now - last_;
      saw(gap, 1);
      const auto bucket = std::ranges::lower_bound(kGapBounds, gap.seconds()) - kGapBounds.begin();
      ++gap_counts_[static_cast<std::size_t>(bucket)];
      gap_sum_ += gap;
      longest_gap_ = std::max(longest_gap_, gap);
    }
    last_ = now;
    ++count_;
  }
  /// Several tokens that arrived at once.
  void tokens(std::int32_t many, Instant now) {
    if (many <= 0) return;
    token(now);
    const std::int32_t more = many - 1;
    gaps_within_ += more;
    gap_counts_[0] += more;
    count_ += more;
  }
  /// An answer that was not streamed: `tokens` in total, all seen at `now`. Its gaps are not observable; each is taken
  /// as their mean over the whole time since `start`.
  void whole(std::int32_t tokens, Instant start, Instant now) {
    count_ = tokens;
    first_ = last_ = now;
    if (tokens <= 1) return;
    whole_gap_ = (now - start) / tokens;
    saw(whole_gap_, tokens - 1);
  }
  /// The engine's own count from its usage block (several tokens may share one event).
  void correct(std::int32_t tokens) {
    if (tokens > count_ && count_ > 0) {
      gaps_within_ += tokens - count_;  // tokens that share an event are no time apart
      count_ = tokens;
    }
  }

  /// The engine's own counts; below 0: unknown.
  struct Counted {
    std::int32_t prompt = -1;     ///< 0: it refused the request and computed nothing
    std::int32_t cached = -1;     ///< of the prompt, not computed again
    std::int32_t reasoning = -1;  ///< of the output
    std::int32_t output = -1;
  };
  void counted(const Counted& more) {
    const auto newer = [](std::int32_t& count, std::int32_t by) { count = by >= 0 ? by : count; };
    newer(counted_.prompt, more.prompt);
    newer(counted_.cached, more.cached);
    newer(counted_.reasoning, more.reasoning);
    newer(counted_.output, more.output);
  }
  [[nodiscard]] const Counted& counted() const { return counted_; }

  /// `itl`: the limit for its gaps, one of the limits.
  [[nodiscard]] control::Served served(Span itl = Span::max()) const {
    control::Served served;
    served.prompt_tokens = counted_.prompt;
    served.output_tokens = count_;
    served.first_token = first_;
    served.gaps_within_itl = gaps_within(itl);
    served.longest_gap = longest_gap_;
    served.cached_prompt_tokens = std::max(counted_.cached, 0);
    if (whole_gap_ > Span()) served.whole_gap = whole_gap_;
    return served;
  }
  [[nodiscard]] std::int32_t count() const { return count_; }
  [[nodiscard]] Instant first() const { return first_; }
  [[nodiscard]] Instant last() const { return last_; }
  [[nodiscard]] std::int64_t gaps_within(Span itl = Span::max()) const {
    std::int64_t within = gaps_within_;
    for (std::size_t i = 1; beyond_ && i < limits_->size() && (*limits_)[i] <= itl; ++i) within += beyond_[i - 1];
    return within;
  }
  [[nodiscard]] const std::array<std::int32_t, kGapBounds.size() + 1>& gap_counts() const { return gap_counts_; }
  [[nodiscard]] Span gap_sum() const { return gap_sum_; }

 private:
  void saw(Span gap, std::int32_t count) {
    const auto first = limits_ == nullptr ? std::size_t{0} : rank_of(gap);
    if (first == 0) {
      gaps_within_ += count;
    } else if (first < limits_->size()) {
      beyond_[first - 1] += count;
    }
  }
  /// Index of the first limit that the gap is within.
  [[nodiscard]] std::size_t rank_of(Span gap) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(*limits_, gap) - limits_->begin());
  }

  // As small as possible: each relay has one (relay.h).
  const std::vector<Span>* limits_ = nullptr;
  std::unique_ptr<std::int32_t[]> beyond_;  ///< number of gaps within each limit but the first, and not the previous
  std::int32_t count_ = 0;
  Counted counted_;
  std::int64_t gaps_within_ = 0;  ///< number within the first limit
  Instant first_ = Instant::never();
  Instant last_;
  Span gap_sum_;
  Span longest_gap_;
  Span whole_gap_;  ///< zero: streamed
  std::array<std::int32_t, kGapBounds.size() + 1> gap_counts_{};
};

}  // namespace wattle::gateway
