#include "policy/frequency/time_price.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

namespace {

/// Long enough to contain hundreds of late gaps if 1 % are late, short enough to follow the load of a day. 60 to 1,200
/// s make no difference on the hour of the Azure trace.
constexpr Span kBucket = Span::s(60);
constexpr Span kBetweenPrices = Span::s(1);
/// Lower limit of waits, so that divisions are safe.
constexpr Span kShortest = Span::us(1);
constexpr std::size_t kAnswers = 128;
constexpr std::size_t kFirstTokens = 512;
/// Share of an answer's mean length over which mean gaps are taken: short answers are the ones that are late.
constexpr double kShort = 0.5;
/// Mean gaps over fewer tokens are nearly single gaps; over more they hardly vary.
constexpr double kFewestTokens = 8.0;
constexpr double kMostTokens = 256.0;
/// Share of the objective for mean gaps. Between 0.5 and 1: the lower, the fewer objectives are missed in a crowd of
/// ten times the load (1 to 7 points), and the more energy fleets over sites use (up to a quarter;
/// docs/decisions/0029).
constexpr double kBehind = 0.75;
/// An instance with a higher load than this, at its highest clock, counts as full.
constexpr double kFull = 0.95;

/// Objectives that follow from one for whole answers: the permitted share of what is late for them is so many times
/// late_tokens, up to this share (docs/decisions/0057).
constexpr double kLateOfAnswers = 10.0;
constexpr double kMostLateOfAnswers = 0.1;

/// Part of the permitted share of late gaps that is always left to the price.
constexpr double kPricesPart = 1e-3;

/// Price as a share of the instance's full power, by its place among all prices, in [0, 1]: 1/4096 to 11. Steps of 2 %,
/// as batches that differ by one request change their clocks at prices that differ so little.
double share(double place) { return std::exp2(15.5 * place - 12.0); }

template <typename Count>
Count scaled(Count count, double factor) {
  return static_cast<Count>(static_cast<double>(count) * factor);
}

bool mean_of_answers(const Slo& slo) { return slo.tbt_of_answers && slo.mean_gap() == slo.tbt; }

}  // namespace

double late_share(double late_tokens, bool of_answers) {
  return of_answers ? std::max(late_tokens, std::min(kLateOfAnswers * late_tokens, kMostLateOfAnswers)) : late_tokens;
}

TimePrice::TimePrice(std::span<const MegaHertz> clocks, double late_tokens, const InstanceSpec& spec, Span clock_delay)
    : clocks_(clocks.begin(), clocks.end()),
      late_tokens_(late_tokens),
      itl_(spec.slo.itl.value_or(Span::max())),
      mean_gap_(spec.slo.mean_gap().value_or(Span::max())),
      mean_of_answers_(mean_of_answers(spec.slo)),
      ttft_(spec.slo.ttft.value_or(Span::max())),
      first_of_answers_(spec.slo.ttft_of_answers),
      clock_delay_(clock_delay),
      latency_(spec.beliefs.latency),
      power_(spec.beliefs.power),
      borne_(kAnswers),
      first_borne_(kFirstTokens),
      choices_(clocks.size()),
      full_choices_(clocks.size()) {
  WATTLE_CHECK(!clocks_.empty() && latency_ != nullptr && power_ != nullptr, "a price needs clocks, times and powers");
  for (std::size_t p = 0; p < kPrices; ++p) {
    watts_[p] = spec.gpu.tdp.value() * spec.tensor_parallel * share(static_cast<double>(p) / (kPrices - 1));
  }
  for (Costs* costs : {&step_, &full_, &lightest_}) {
    for (auto* of : {&costs->seconds, &costs->efforts, &costs->costs}) of->resize(clocks_.size());
  }
  for (Work* work : {&recent_, &older_}) work->raised_late.resize(clocks_.size());
  StepShape lightest;
  lightest.decode_requests = 1;
  weigh(lightest, lightest_);
}

double TimePrice::effort(const StepShape& shape, std::size_t clock, double seconds) const {
  return seconds * 1e-3 * static_cast<double>(power_->step_power(shape, clocks_[clock]).value());
}

TimePrice::Halved TimePrice::half_of(const StepShape& shape) {
  Halved half{shape, 2.0};
  if (shape.decode_requests > 1) {
    half.shape.decode_requests /= 2;
    half.halves = static_cast<double>(shape.decode_requests) / (shape.decode_requests - half.shape.decode_requests);
  }
  const double stays = 1.0 - 1.0 / half.halves;
  if (shape.decode_requests > 1) half.shape.decode_kv_tokens = scaled(shape.decode_kv_tokens, stays);
  half.shape.prefill_tokens = scaled(shape.prefill_tokens, stays);
  half.shape.prefill_context_tokens = scaled(shape.prefill_context_tokens, stays);
  return half;
}

void TimePrice::hold_mean_gap_to(const Slo& slo) {
  const Span gap = slo.mean_gap().value();
  borne_.scale(gap.seconds() / mean_gap_.seconds());
  mean_gap_ = gap;
  mean_of_answers_ = mean_of_answers(slo);
}

void TimePrice::weigh(const StepShape& shape, Costs& costs) const {
  for (std::size_t c = 0; c < clocks_.size(); ++c) {
    const double seconds = believed_seconds(*latency_, shape, clocks_[c]);
    costs.seconds[c] = seconds;
    costs.efforts[c] = effort(shape, c, seconds);
    costs.costs[c] = cost(costs, c);
  }
}

TimePrice::Choice TimePrice::choose(const Next& next, Instant now) {
  const StepShape& shape = next.shape;
  note(now);
  if (now - priced_at_ >= kBetweenPrices) set_price(now);
  const bool follows = running_ && beside_ > 0;
  weigh(shape, step_);
  halved_ = half_of(shape);
  running_ = true;
  since_ = now;
  decodes_ = shape.decode_requests;
  if (decodes_ > 0) beside_ = decodes_;
  requests_ = beside_ + shape.prefill_requests + next.waiting;
  const double least_s = step_.seconds.back();
  within_ = itl_ == Span::max() ? itl_ : std::max(itl_ - next.before - next.after, Span());
  const bool late = beside_ > 0 && least_s > within_.seconds();
  late_ = late && !std::exchange(counted_, decodes_ == 0 && (late || counted_));
  if (follows && !late) note_raise();
  recent_.prompts += shape.prefill_requests;
  if (least_s > next.prompts.seconds()) recent_.late_prompts += 1.0;
  if (next.full && decodes_ > 0 && least_s > recent_.fullest_s) {
    recent_.fullest_s = least_s;
    recent_.fullest = shape;
    recent_.fullest_requests = requests_;
  }
  choose_by_price(step_, requests_, choices_);
  unraised_ = choices_.at(price_);
  clock_ = std::max(unraised_, floor_);
  while (unraised_ + 1 < clocks_.size() && step_.seconds[unraised_] > within_.seconds()) ++unraised_;
  if (shape.prefill_requests > 0 && ttft_ < Span::max()) {
    // The prompt's own step is limited by its budget, not by the price.
    const double at_max_s = std::max(next.waited, kShortest).seconds() / more_;
    first_borne_.add(Span::from_seconds(std::clamp((ttft_.seconds() - least_s) / at_max_s, 0.0, 1e3)));
  }
  return {clocks_[clock_], late || (itl_ == Span::max() && shape.prefill_tokens > 0 && !behind())};
}

void TimePrice::note_raise() {
  if (clock_delay_ <= Span() || step_.seconds.front() <= within_.seconds()) return;
  const Span raised = Span::from_seconds(step_.seconds.back());
  for (std::size_t c = 0; c < clocks_.size(); ++c) {
    const Span present = Span::from_seconds(step_.seconds[std::max(c, unraised_)]);
    if (present <= within_ || raised_time(present, raised, clock_delay_) <= within_) return;  // nor from higher clocks
    recent_.raised_late[c] += decodes_;
  }
}

bool TimePrice::behind() const { return gap_s_ > kBehind * mean_gap_.seconds(); }

// Cost is linear in the price, so the clocks of least cost are the corners of a lower envelope: after each clock comes
// the one that overtakes it at the lowest price. A higher price never yields a lower clock.
void TimePrice::choose_by_price(const Costs& costs, std::int32_t requests, Choices& choices) const {
  const auto& cost = costs.costs;
  auto best = static_cast<std::size_t>(std::ranges::min_element(cost) - cost.begin());
  choices.clear();
  for (std::size_t p = 0; p < kPrices;) {
    std::size_t next = best;
    double from = std::numeric_limits<double>::infinity();
    for (std::size_t c = best + 1; c < clocks_.size(); ++c) {
      const double saved_s = (costs.seconds[best] - costs.seconds[c]) * requests;
      if (saved_s <= 0.0 || cost[c] - cost[best] >= from * saved_s) continue;
      from = (cost[c] - cost[best]) / saved_s;
      next = c;
    }
    const auto overtaken = static_cast<std::size_t>(std::ranges::upper_bound(watts_, from) - watts_.begin());
    if (overtaken > p) choices.add({p, best});
    p = std::max(p, overtaken);
    best = next;
  }
}

std::size_t TimePrice::Choices::at(std::size_t price) const {
  const auto next = std::ranges::upper_bound(corners_, price, {}, &Corner::price);
  return std::prev(next)->clock;
}

void TimePrice::runs_at(MegaHertz clock, Instant now) {
  if (clock == clocks_[clock_]) return;
  note(now);
  clock_ = place_of(clocks_, clock);
}

void TimePrice::pause(Instant now) {
  note(now);
  answer_steps_ = answer_at_max_s_ = since_token_s_ = token_at_max_s_ = gap_s_ = gap_at_max_s_ = 0.0;
  beside_ = 0;
  counted_ = false;
  running_ = false;
}

void TimePrice::note(Instant now) {
  if (now - recent_since_ >= kBucket) {
    recent_.lasted = now - recent_since_;
    std::swap(older_, recent_);
    auto zeros = std::move(recent_.raised_late);
    std::ranges::fill(zeros, 0.0);
    recent_ = {};
    recent_.raised_late = std::move(zeros);
    recent_since_ = now;
  }
  if (!running_ || now <= since_) return;
  const double steps = (now - since_).seconds() / step_.seconds[clock_];
  const double weight = steps * requests_;
  recent_.gaps += steps * decodes_;
  recent_.busy_s += (now - since_).seconds();
  if (late_) recent_.late += steps * beside_;
  if (beside_ > 0) {
    note_answer(decodes_ > 0 ? steps : 0.0, (now - since_).seconds(), steps * step_.seconds.back());
  }
  recent_.took += weight * step_.seconds[clock_];
  recent_.at_max += weight * step_.seconds.back();
  const std::size_t top = clocks_.size() - 1;
  const Part fixed_at_top = fixed_part(top);
  recent_.load_at_max += steps * (step_.seconds[top] - fixed_at_top.seconds);
  if (requests_ > 1) {
    const Part fixed = clock_ == top ? fixed_at_top : fixed_part(clock_);
    recent_.shared_s += steps * fixed.seconds;
    recent_.shared_ws += steps * fixed.effort;
  }
  note_prices(weight);
  since_ = now;
}

// What a step takes longer than one with half its work, as often as that half is in it, is the part that grows.
TimePrice::Part TimePrice::fixed_part(std::size_t clock) const {
  const double half_s = believed_seconds(*latency_, halved_.shape, clocks_[clock]);
  const auto fixed = [&](double whole, double half, double lightest) {
    return std::min(std::max(whole - halved_.halves * (whole - half), lightest), whole);
  };
  return {fixed(step_.seconds[clock], half_s, lightest_.seconds[clock]),
          fixed(step_.efforts[clock], effort(halved_.shape, clock, half_s), lightest_.efforts[clock])};
}

void TimePrice::note_prices(double weight) {
  double before_s = 0.0;
  for (const Choices::Corner& corner : choices_.corners()) {
    const double seconds = step_.seconds[std::max(corner.clock, floor_)];
    recent_.at[corner.price] += weight * (seconds - before_s);
    before_s = seconds;
  }
}

void TimePrice::note_answer(double steps, double seconds, double at_max_s) {
  since_token_s_ += seconds;
  token_at_max_s_ += at_max_s;
  if (steps > 0.0) {
    const double kept = std::exp(-steps / answer_tokens_);
    const auto follow = [&](double& mean, double& since_token) {
      const double gap = std::exchange(since_token, 0.0) / steps;
      mean = gap + (mean - gap) * kept;
    };
    follow(gap_s_, since_token_s_);
    follow(gap_at_max_s_, token_at_max_s_);
  }
  answer_steps_ += steps;
  answer_at_max_s_ += at_max_s;
  if (answer_steps_ < answer_tokens_) return;
  const double gap_at_max = answer_at_max_s_ / answer_steps_ / grown_;
  borne_.add(Span::from_seconds(std::min(mean_gap_.seconds() / gap_at_max, 1e3)));
  answer_steps_ = answer_at_max_s_ = 0.0;
}

bool TimePrice::full_within_mean(const StepShape& fullest, std::size_t price, double more) const {
  StepShape shape = fullest;
  const double grown = std::max(more, 1.0);
  shape.decode_requests = scaled(shape.decode_requests, grown);
  shape.decode_kv_tokens = scaled(shape.decode_kv_tokens, grown);
  return latency_->step_time(shape, clocks_[full_choices_.at(price)]) <= mean_gap_;
}

double TimePrice::set_floor(double gaps) {
  const auto late = [&](std::size_t c) {
    return (recent_.raised_late[c] + older_.raised_late[c]) / std::max(gaps, 1.0);
  };
  floor_ = 0;
  while (floor_ + 1 < clocks_.size() && late(floor_) > late_tokens_) ++floor_;
  return std::max(late_tokens_ - late(floor_), kPricesPart * late_tokens_);
}

bool TimePrice::newest_within_mean(std::size_t price) const {
  const double gap_s = gap_at_max_s_ * step_.seconds[std::max(choices_.at(price), floor_)] / step_.seconds.back();
  return gap_s <= mean_gap_.seconds() || gap_at_max_s_ > mean_gap_.seconds();
}

// Let s be the mean step time relative to the highest clock and r the share of time that the load takes there. Then
// s (1 - r) / (1 - r s) times as many requests are running, and as many times more gaps are late: a request's steps are
// s times longer, and with more requests running each step is longer again. Mean gaps grow by the same factor.
void TimePrice::set_price(Instant now) {
  const double gaps = recent_.gaps + older_.gaps;
  const double at_max = recent_.at_max + older_.at_max;
  if (at_max <= 0.0) return;
  priced_at_ = now;
  const double time = (now - recent_since_ + older_.lasted).seconds();
  const double load = std::min((recent_.load_at_max + older_.load_at_max) / time, kFull);
  const double slowed = std::max((recent_.took + older_.took) / at_max, 1.0);
  const double more = slowed * (1.0 - load) / std::max(1.0 - load * slowed, 1.0 - kFull);
  const double idle_s = std::max(time - recent_.busy_s - older_.busy_s, 0.0);
  const double idle_w = 1e-3 * static_cast<double>(power_->step_power(StepShape{}, clocks_.front()).value());
  const double prompts = recent_.prompts + older_.prompts;
  if (prompts > 0.0) answer_tokens_ = std::clamp(kShort * gaps / prompts, kFewestTokens, kMostTokens);
  more_ = std::max(more, 1.0);
  grown_ = std::max(more / slowed, 1.0);
  const double base_s = idle_s + recent_.shared_s + older_.shared_s;
  const double base_ws = idle_s * idle_w + recent_.shared_ws + older_.shared_ws;
  spared_w_ = base_s > 0.0 ? base_ws / base_s : idle_w;
  const auto slower = [&](double late, double all, double may_be) {
    const double late_at_max = late / std::max(all, 1.0) / more;
    return (late_at_max + may_be) / (late_at_max + load * may_be);
  };
  // Before the first gap, one is assumed to be late. Answers of one token have no gaps, so that would stay for ever.
  const double unknown = gaps > 0.0 || older_.prompts <= 0.0 ? 1.0 : 0.0;
  // For times that grow with the number of requests and may be this factor longer than at the highest clock.
  const auto grown_to = [&](const RecentSpans& borne, double late) {
    const double longer = borne.most_beyond(late, Span::s(1)).seconds();
    return longer / (1.0 - load + load * longer);
  };
  const double by_gaps = slower(recent_.late + older_.late + unknown, gaps + unknown, set_floor(gaps));
  const double by_prompts = slower(recent_.late_prompts + older_.late_prompts, prompts, late_tokens_);
  const double by_means = grown_to(borne_, late_share(late_tokens_, mean_of_answers_));
  const double by_first_tokens = grown_to(first_borne_, late_share(late_tokens_, first_of_answers_));
  const Work& fuller = recent_.fullest_s >= older_.fullest_s ? recent_ : older_;
  if (fuller.fullest_s > 0.0) {
    weigh(fuller.fullest, full_);
    choose_by_price(full_, fuller.fullest_requests, full_choices_);
  }
  // The new spared power moves the prices at which clocks change; recent steps have had others.
  for (std::size_t c = 0; c < clocks_.size(); ++c) {
    step_.costs[c] = cost(step_, c);
  }
  choose_by_price(step_, requests_, choices_);
  double took = 0.0;
  for (std::size_t p = 0; p < kPrices; ++p) took_[p] = took += recent_.at[p] + older_.at[p];
  const auto keeps = [&](std::size_t p) {
    const double slower_by = took_[p] / at_max;
    if (slower_by > std::min({by_gaps, by_prompts, by_first_tokens})) return false;
    return (slower_by <= by_means && newest_within_mean(p)) ||
           (fuller.fullest_s > 0.0 && load * slower_by < kFull &&
            full_within_mean(fuller.fullest, p, slower_by * (1.0 - load) / (1.0 - load * slower_by) / more_));
  };
  price_ = kPrices - 1;
  while (price_ > least_price_ && keeps(price_ - 1)) --price_;
}

}  // namespace wattle::policy
