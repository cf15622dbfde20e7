#include "fidelity/benchmark_run.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "base/random.h"

namespace wattle::fidelity {
namespace {

struct Live {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t prefilled = 0;
  std::int64_t generated = 0;
  std::int64_t again = 0;  ///< tokens generated before the KV cache ran full, to be computed anew with the prompt
  double arrival = 0.0;
  double seen = 0.0;  ///< by the scheduler
  double first = 0.0;
  double last = 0.0;
  std::int32_t index = 0;

  [[nodiscard]] std::int64_t prompt() const { return input + again; }
  [[nodiscard]] bool prefilling() const { return prefilled < prompt(); }
  /// KV tokens held, a prompt's as soon as it is admitted.
  [[nodiscard]] std::int64_t held() const { return std::max(prompt(), input + generated); }
};

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(p * static_cast<double>(values.size()))) - 1;
  const auto at = values.begin() + std::clamp<std::ptrdiff_t>(rank, 0, static_cast<std::ptrdiff_t>(values.size()) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double v : values) sum += v;
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(values.size());
}

std::int64_t draw_length(RandomStream& random, double mean_tokens, double cv, double shortest, double longest) {
  if (shortest < 1.0) return std::llround(mean_tokens * (shortest + (1.0 - shortest) * random.uniform()));
  if (cv <= 0.0) return std::max<std::int64_t>(1, std::llround(mean_tokens));
  const double sigma2 = std::log(1.0 + cv * cv);
  double tokens = mean_tokens * std::exp(std::sqrt(sigma2) * random.normal() - sigma2 / 2.0);
  if (longest > 0.0) tokens = std::min(tokens, longest);
  return std::max<std::int64_t>(1, std::llround(tokens));
}

}  // namespace

Measured run(const engine::StepModel& model, const Load& load, StepPower rival, const void* context) {
  RandomStream random(11, "serving-test");
  const std::int64_t capacity = model.kv_blocks() * 16;
  const double unit = 1e-9 / static_cast<double>(std::int64_t{1} << engine::kTimeFractionBits);
  const auto skip = static_cast<std::int32_t>(load.warm_up * load.requests);

  std::deque<Live> waiting;
  std::vector<Live> running;
  double now = 0.0;
  double next_arrival = 0.0;
  double front_end_free = 0.0;
  double shown = 0.0;     // when the client sees the tokens of the last step
  double composed = 0.0;  // when the next step was put together
  std::int32_t issued = 0;
  std::int32_t finished = 0;
  const bool grows = load.grows;
  const std::int64_t room = grows ? capacity - capacity / 100 : capacity;
  std::int64_t taken = 0;
  bool window = skip == 0;
  Measured m;
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> gaps;
  double joules = 0.0;
  double rival_joules = 0.0;
  double prefill_s = 0.0;
  double decode_s = 0.0;
  std::int64_t tokens = 0;

  const auto issue = [&](double at) {
    Live r;
    r.input = draw_length(random, load.input_mean, load.input_cv, load.shortest, load.longest_input);
    r.output = draw_length(random, load.output_mean, load.output_cv, load.shortest, load.longest_output);
    r.arrival = at;
    r.index = issued++;
    if (load.concurrency > 0 && load.warm_up > 0.0 && r.index < load.concurrency) {
      // Start the closed loop in its steady state: requests in flight are spread over their lives.
      r.generated = r.output * r.index / load.concurrency;
      if (r.generated > 0) {
        r.prefilled = r.input;
        running.push_back(r);
        return;
      }
    }
    r.seen = front_end_free = std::max(at, front_end_free) + load.front_end_s;
    waiting.push_back(r);
  };
  const auto pump = [&] {
    if (load.concurrency > 0) {
      // A steady loop goes on past the window it is measured in.
      const std::int32_t limit = load.warm_up > 0.0 ? std::numeric_limits<std::int32_t>::max() : load.requests;
      while (issued < limit && static_cast<std::int32_t>(waiting.size() + running.size()) < load.concurrency) {
        issue(std::max(now, shown));
      }
      return;
    }
    while (issued < load.requests && next_arrival <= now) {
      issue(next_arrival);
      next_arrival += random.exponential() / load.rate_per_s;
    }
  };
  const auto spend = [&](double seconds, double watts, double rival_w, bool prefill, bool busy) {
    if (window) {
      m.duration_s += seconds;
      joules += watts * seconds;
      rival_joules += rival_w * seconds;
      if (busy) (prefill ? prefill_s : decode_s) += seconds;
    }
    now += seconds;
  };

  while (finished < load.requests - skip) {
    pump();
    StepShape shape;
    std::vector<std::size_t> prefilling;
    taken = 0;
    for (const Live& r : running) taken += grows ? r.held() + 1 : r.input + r.output;
    while (grows && taken > capacity && running.size() > 1) {
      Live r = running.back();
      running.pop_back();
      taken -= r.held() + 1;
      r.again = r.generated;
      r.prefilled = 0;
      waiting.push_front(r);
    }
    // Whom to admit: first come, first served, as long as the KV cache holds them.
    if (!load.overlapped || running.empty()) composed = now;
    if (running.empty() && !waiting.empty() && waiting.front().seen > composed) {
      const double idle_w = to_watts(model.idle_power(load.clock)).value();
      spend(waiting.front().seen - now, idle_w, rival ? rival(context, shape, 0.0, idle_w) : 0.0, false, false);
      composed = now;
    }
    while (!waiting.empty() && waiting.front().seen <= composed &&
           static_cast<std::int32_t>(running.size()) < load.max_running &&
           (running.empty() ||
            taken + (grows ? waiting.front().held() : waiting.front().input + waiting.front().output) <= room)) {
      Live r = waiting.front();
      if (r.input + r.output > capacity) {
        m.feasible = false;
        return m;
      }
      waiting.pop_front();
      taken += grows ? r.held() + 1 : r.input + r.output;
      if (load.decode_only) {
        r.prefilled = r.input;
        r.generated = 1;
        r.first = now;
        r.last = now;
      }
      running.push_back(r);
    }
    std::int64_t budget = load.max_batched_tokens;
    std::int64_t pending = 0;
    for (const Live& r : running) pending += r.prefilling() ? 1 : 0;
    const bool decodes = load.batching != Batching::PromptsFirst || pending == 0;
    if (decodes) {
      for (const Live& r : running) {
        if (r.prefilling()) continue;
        ++shape.decode_requests;
        shape.decode_kv_tokens += r.input + r.generated;
      }
      budget -= shape.decode_requests;
    }
    std::vector<std::int64_t> chunk(running.size(), 0);
    for (std::size_t i = 0; i < running.size() && budget > 0; ++i) {
      Live& r = running[i];
      if (!r.prefilling()) continue;
      const bool whole = load.batching != Batching::Chunked;
      if (whole && r.prompt() > budget && shape.prefill_tokens > 0) break;
      chunk[i] = std::min(r.prompt() - r.prefilled, whole ? r.prompt() : budget);
      budget -= chunk[i];
      shape.prefill_tokens += chunk[i];
      shape.prefill_context_tokens += chunk[i] * (r.prefilled + chunk[i] / 2);
      if (r.prefilled + chunk[i] == r.prompt()) ++shape.prefill_requests;
    }
    if (shape.idle()) {
      if (load.concurrency > 0 || issued >= load.requests) break;
      const double idle_w = to_watts(model.idle_power(load.clock)).value();
      spend(std::max(1e-9, next_arrival - now), idle_w, rival ? rival(context, shape, 0.0, idle_w) : 0.0, false, false);
      continue;
    }
    composed = now;
    double seconds = 0.0;
    double watts = 0.0;
    if (shape.prefill_tokens == 0) {
      const engine::DecodeLine line = model.decode(shape.decode_requests, shape.decode_kv_tokens, load.clock);
      seconds = static_cast<double>(line.base + line.slope * shape.decode_kv_tokens) * unit;
      watts = to_watts(line.power).value();
    } else {
      const engine::StepCost cost = model.mixed(shape, load.clock);
      seconds = static_cast<double>(cost.duration) * unit;
      watts = to_watts(cost.power).value();
    }
    spend(seconds, watts, rival ? rival(context, shape, seconds, watts) : 0.0, shape.prefill_tokens > 0, true);

    const std::int64_t emitted = shape.decode_requests + shape.prefill_requests;
    shown = now;
    if (load.front_end_token_s > 0.0) {
      shown = front_end_free = std::max(now, front_end_free) + load.front_end_token_s * static_cast<double>(emitted);
    }
    for (std::size_t i = 0; i < running.size(); ++i) {
      Live& r = running[i];
      if (r.prefilling()) {
        r.prefilled += chunk[i];
        if (r.prefilling()) continue;
        if (r.again > 0) {  // goes on where it was
          ++r.generated;
          if (window) ++tokens;
          if (window && r.last > 0.0) gaps.push_back(shown - r.last);
          r.last = shown;
          continue;
        }
        r.generated = 1;
        r.first = shown;
        r.last = shown;
        if (window) {
          ttft.push_back(shown - r.arrival);
          ++tokens;
        }
        continue;
      }
      if (!decodes) continue;
      ++r.generated;
      if (window) {
        ++tokens;
        if (r.last > 0.0) gaps.push_back(shown - r.last);
      }
      r.last = shown;
    }
    std::erase_if(running, [&](const Live& r) {
      const bool done = !r.prefilling() && (r.generated >= r.output || load.prefill_only);
      if (!done) return false;
      ++finished;
      if (window && r.generated > 1 && r.first > 0.0) {
        tpot.push_back((r.last - r.first) / static_cast<double>(r.generated - 1));
      }
      return true;
    });
    if (!window && finished >= skip) window = true;
  }
  m.power_w = joules / m.duration_s;
  m.rival_power_w = rival_joules / m.duration_s;
  m.output_tokens_per_s = static_cast<double>(tokens) / m.duration_s;
  m.ttft_mean_s = mean(ttft);
  m.ttft_p50_s = percentile(ttft, 0.50);
  m.ttft_p99_s = percentile(ttft, 0.99);
  m.tpot_mean_s = mean(tpot);
  m.tpot_p50_s = percentile(tpot, 0.50);
  m.tpot_p99_s = percentile(tpot, 0.99);
  m.itl_p50_s = percentile(gaps, 0.50);
  m.prefill_share = prefill_s / m.duration_s;
  m.decode_share = decode_s / m.duration_s;
  m.idle_share = 1.0 - m.prefill_share - m.decode_share;
  return m;
}

}  // namespace wattle::fidelity
