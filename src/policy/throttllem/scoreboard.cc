#include "policy/throttllem/scoreboard.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace wattle::policy {

Scoreboard::Scoreboard(std::int32_t block_size, std::int32_t grace) : block_size_(block_size), grace_(grace) {
  WATTLE_CHECK(block_size > 0 && grace >= 0, "a block holds tokens, and grace is not negative");
  const auto size = static_cast<std::uint32_t>(block_size);
  if (std::has_single_bit(size)) shift_ = std::countr_zero(size);
}

void Scoreboard::reserve(std::size_t requests) {
  ends_.reserve(requests);
  peaks_.reserve(requests);
  entries_.reserve(requests);
  overdue_.reserve(requests);
}

/// A function of the request and next_ alone, so that the board does not depend on when it was looked at.
std::int64_t Scoreboard::end_of(const Projected& p) const {
  const std::int64_t predicted = p.start + p.predicted_tokens;
  if (predicted > next_) return predicted;
  const std::int64_t limit = p.start + p.limit_tokens;
  if (limit <= next_ || next_ - predicted < grace_) return next_ + 1;  // any moment now
  if (p.second_tokens > p.predicted_tokens + grace_ && p.second_tokens < p.limit_tokens) {
    const std::int64_t second = p.start + p.second_tokens;
    if (second > next_) return second;
    if (next_ - second < grace_) return next_ + 1;
  }
  return limit;
}

void Scoreboard::advance(std::int64_t next) {
  if (entries_.empty()) {
    next_ = next;
    return;
  }
  if (next <= next_) return;
  next_ = next;
  std::size_t count = 0;
  while (count < ends_.size() && ends_[count] <= next) ++count;
  // Those within their grace were expected to end "in the next iteration", which moves along; they sit in front too, as
  // their ends are the earliest possible. None of these is in a later peak, so they are cut off without touching any.
  if (count == 0) return;
  const auto end = static_cast<std::ptrdiff_t>(count);
  overdue_.assign(entries_.begin(), entries_.begin() + end);
  for (const auto& p : overdue_) offset_sum_ -= offset_of(p);
  ends_.erase(ends_.begin(), ends_.begin() + end);
  peaks_.erase(peaks_.begin(), peaks_.begin() + end);
  entries_.erase(entries_.begin(), entries_.begin() + end);
  for (const auto& p : overdue_) insert(p);
}

void Scoreboard::add_blocks(std::size_t count, const Projected& request, std::int64_t sign) {
  // In the iteration before the end at ends_[i] the request holds this many tokens.
  const std::int64_t tokens = offset_of(request) - 1;
  if (shift_ >= 0) {
    const std::int64_t rounded = tokens + block_size_ - 1;
    for (std::size_t i = 0; i < count; ++i) peaks_[i] += sign * ((ends_[i] + rounded) >> shift_);
  } else {
    for (std::size_t i = 0; i < count; ++i) peaks_[i] += sign * blocks_for(ends_[i] + tokens);
  }
}

void Scoreboard::insert(const Projected& request) {
  const std::int64_t end = end_of(request);
  const auto place = std::ranges::upper_bound(ends_, end) - ends_.begin();
  const auto index = static_cast<std::size_t>(place);
  std::int64_t peak = 0;  // of requests that last longer; its own share and that of equal ones follow in add_blocks
  if (index > 0 && ends_[index - 1] == end) {
    peak = peaks_[index - 1];
  } else {
    for (std::size_t i = index; i < entries_.size(); ++i) peak += blocks_for(end - 1 + offset_of(entries_[i]));
  }
  ends_.insert(ends_.begin() + place, end);
  peaks_.insert(peaks_.begin() + place, peak);
  entries_.insert(entries_.begin() + place, request);
  offset_sum_ += offset_of(request);
  add_blocks(index + 1, request, +1);
}

void Scoreboard::erase(std::size_t index) {
  const Projected& request = entries_[index];
  // Its equals behind it count it too.
  std::size_t count = index + 1;
  while (count < ends_.size() && ends_[count] == ends_[index]) ++count;
  add_blocks(count, request, -1);
  offset_sum_ -= offset_of(request);
  const auto place = static_cast<std::ptrdiff_t>(index);
  ends_.erase(ends_.begin() + place);
  peaks_.erase(peaks_.begin() + place);
  entries_.erase(entries_.begin() + place);
}

void Scoreboard::add(Projected request) {
  request.prompt_tokens = std::max(request.prompt_tokens, 0);
  request.limit_tokens = std::max(request.limit_tokens, 1);
  request.predicted_tokens = std::clamp(request.predicted_tokens, 1, request.limit_tokens);
  request.start = std::min(request.start, next_);
  WATTLE_CHECK(trial_ < 0, "one trial at a time");
  insert(request);
  if (request.lost) ++lost_;
}

void Scoreboard::add_virtually(const Projected& request) {
  add(request);
  trial_ = find(request.id);
}

void Scoreboard::roll_back() {
  WATTLE_CHECK(trial_ >= 0, "something is on trial");
  const auto index = static_cast<std::size_t>(trial_);
  if (entries_[index].lost) --lost_;
  erase(index);
  trial_ = -1;
}

std::ptrdiff_t Scoreboard::find(RequestId id) const {
  const auto found = std::ranges::find(entries_, id, &Projected::id);
  return found == entries_.end() ? -1 : found - entries_.begin();
}

bool Scoreboard::remove(RequestId id) {
  const auto index = find(id);
  if (index < 0) return false;
  if (entries_[static_cast<std::size_t>(index)].lost) --lost_;
  erase(static_cast<std::size_t>(index));
  return true;
}

bool Scoreboard::restart(RequestId id, std::int64_t start) {
  const auto index = find(id);
  if (index < 0) return false;
  Projected request = entries_[static_cast<std::size_t>(index)];
  if (request.start == start) return true;
  erase(static_cast<std::size_t>(index));
  request.start = std::min(start, next_);
  insert(request);
  return true;
}

void Scoreboard::set_lost(std::size_t index) {
  if (!entries_[index].lost) ++lost_;
  entries_[index].lost = true;
}

std::int64_t Scoreboard::peak_blocks() const { return peaks_.empty() ? 0 : *std::ranges::max_element(peaks_); }

std::int64_t Scoreboard::first_overrun() const {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const auto& p : entries_) {
    for (const std::int64_t tokens : {p.predicted_tokens, std::max(p.second_tokens, p.predicted_tokens)}) {
      const std::int64_t at = p.start + tokens + grace_;
      if (at > next_) first = std::min(first, at);
    }
  }
  return first;
}

}  // namespace wattle::policy
