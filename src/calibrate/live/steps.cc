#include "calibrate/live/steps.h"

#include <algorithm>
#include <limits>

namespace wattle::calibrate {

namespace {

constexpr Span kSameBurst = Span::ms(2);

template <typename T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Span distance(Instant a, Instant b) { return a < b ? b - a : a - b; }

/// Typical distance of stream tokens, from its place `from` on, to those of the reference.
Span apart(const std::vector<Instant>& tokens, std::size_t from, const std::vector<Instant>& reference) {
  std::vector<Span> distances;
  for (std::size_t j = 0; j < reference.size() && from + j < tokens.size(); ++j) {
    distances.push_back(distance(tokens[from + j], reference[j]));
  }
  return distances.size() < 2 ? Span::max() : median(std::move(distances));
}

}  // namespace

std::optional<Lockstep> find_lockstep(std::span<const StreamRecord> streams) {
  if (streams.empty()) return std::nullopt;
  for (const auto& s : streams) {
    if (s.tokens.size() < 2) return std::nullopt;
  }
  const auto& last = *std::ranges::max_element(streams, {}, [](const StreamRecord& s) { return s.tokens.front(); });
  std::vector<Span> gaps;
  for (std::size_t j = 1; j < last.tokens.size(); ++j) gaps.push_back(last.tokens[j] - last.tokens[j - 1]);
  const Span half_step = median(std::move(gaps)) / 2;

  Lockstep run;
  run.requests = static_cast<std::int32_t>(streams.size());
  std::vector<std::size_t> from;
  std::size_t common = std::numeric_limits<std::size_t>::max();
  for (const auto& s : streams) {
    // The token of the step in which the last stream began, give or take one that was read late.
    const auto later = std::ranges::upper_bound(s.tokens, last.tokens.front() + half_step);
    const auto guess = std::max<std::ptrdiff_t>(1, later - s.tokens.begin()) - 1;
    std::size_t best = 0;
    Span closest = Span::max();
    for (std::ptrdiff_t d = std::max<std::ptrdiff_t>(0, guess - 1); d <= guess + 1; ++d) {
      const Span distance = apart(s.tokens, static_cast<std::size_t>(d), last.tokens);
      if (distance < closest) {
        closest = distance;
        best = static_cast<std::size_t>(d);
      }
    }
    if (closest > half_step * 2) return std::nullopt;  // the stream had ended, or is not in lockstep
    from.push_back(best);
    run.kv_first += s.prompt_tokens + static_cast<std::int64_t>(best);
    common = std::min(common, s.tokens.size() - best);
  }
  if (common < 2) return std::nullopt;

  std::int64_t together = 0;
  std::vector<Instant> arrivals(streams.size());
  for (std::size_t k = 0; k < common; ++k) {
    for (std::size_t i = 0; i < streams.size(); ++i) arrivals[i] = streams[i].tokens[from[i] + k];
    const Instant end = median(arrivals);
    for (const Instant a : arrivals) together += distance(a, end) <= half_step ? 1 : 0;
    run.at.push_back(end);
  }
  run.together = static_cast<double>(together) / static_cast<double>(common * streams.size());
  return run;
}

std::vector<Stretch> stretches(const Lockstep& run, std::int64_t parts, std::int64_t least) {
  std::vector<Stretch> all;
  const std::int64_t steps = std::ssize(run.at) - 1;
  if (steps < 1) return all;
  parts = std::clamp<std::int64_t>(steps / std::max<std::int64_t>(least, 1), 1, parts);
  for (std::int64_t p = 0; p < parts; ++p) {
    const auto first = static_cast<std::size_t>(steps * p / parts);
    const auto end = static_cast<std::size_t>(steps * (p + 1) / parts);
    const std::size_t reach = std::max<std::size_t>(1, (end - first) / 2);
    std::vector<Span> slopes;
    for (std::size_t k = first; k + reach <= end; ++k) {
      slopes.push_back((run.at[k + reach] - run.at[k]) / static_cast<std::int64_t>(reach));
    }
    Stretch s;
    s.begin = run.at[first];
    s.end = run.at[end];
    s.steps = static_cast<std::int64_t>(end - first);
    s.step = median(std::move(slopes));
    s.kv_tokens = run.kv_first + run.requests * static_cast<std::int64_t>(first + end - 1) / 2;
    all.push_back(s);
  }
  return all;
}

std::vector<PromptStep> prompt_steps(std::span<const StreamRecord> streams, Span overhead) {
  std::vector<const StreamRecord*> order;
  for (const auto& s : streams) {
    if (!s.tokens.empty()) order.push_back(&s);
  }
  std::ranges::sort(order, {}, [](const StreamRecord* s) { return s->tokens.front(); });
  std::vector<PromptStep> steps;
  for (std::size_t i = 0; i < order.size();) {
    PromptStep step;
    Instant earliest = Instant::never();
    Instant previous = order[i]->tokens.front();
    std::size_t j = i;
    for (; j < order.size() && order[j]->tokens.front() - previous < kSameBurst; ++j) {
      previous = order[j]->tokens.front();
      earliest = std::min(earliest, order[j]->sent);
      ++step.requests;
      const std::int64_t cached = std::max<std::int64_t>(0, order[j]->cached_tokens);
      step.tokens += order[j]->prompt_tokens - cached;
      step.context_tokens += cached;
    }
    step.end = order[i + (j - i) / 2]->tokens.front();
    step.begin = earliest + overhead;
    if (!steps.empty()) step.begin = std::max(step.begin, steps.back().end);
    if (step.begin < step.end) steps.push_back(step);
    i = j;
  }
  return steps;
}

}  // namespace wattle::calibrate
