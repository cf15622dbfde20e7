#include "policy/queueing/laxity.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace wattle::policy {
namespace {

Request request(std::int64_t id, Span arrival, std::int32_t tokens) {
  Request r;
  r.id = RequestId(id);
  r.arrival = Instant() + arrival;
  r.predicted_output_tokens = tokens;
  return r;
}

/// One server, one token a second, preemptive: at each second the one with the smallest value runs, the present one
/// between equals. Seconds at which each request is done.
std::vector<int> serve(const std::vector<Request>& all,
                       const std::function<std::int64_t(const Request&, std::int32_t produced, Instant now)>& value) {
  std::vector<std::int32_t> produced(all.size(), 0);
  std::vector<int> done(all.size(), 0);
  std::size_t running = all.size();
  for (int second = 0; std::ranges::count(done, 0) > 0; ++second) {
    const Instant now = Instant() + Span::s(second);
    std::size_t best = all.size();
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (done[i] > 0 || all[i].arrival > now) continue;
      const std::int64_t v = value(all[i], produced[i], now);
      if (v < least || (v == least && i == running)) least = v, best = i;
    }
    if (best == all.size()) continue;
    running = best;
    if (++produced[best] == all[best].predicted_output_tokens) done[best] = second + 1;
  }
  return done;
}

ServiceOptions alone(Span ttft, Span tbt) {
  ServiceOptions options;
  options.ttft = ttft;
  options.tbt = tbt;
  return options;
}

const ServiceOptions kToy = alone(Span(), Span::s(1));
const std::vector<Request> kThree{request(0, Span::s(0), 10), request(1, Span::s(1), 2), request(2, Span::s(2), 1)};

TEST(Laxity, the_papers_toy_example) {
  const auto llf = serve(
      kThree, [](const Request& r, std::int32_t produced, Instant now) { return laxity(kToy, r, produced, now).ns(); });
  EXPECT_EQ(llf, (std::vector{13, 4, 3}));
  EXPECT_DOUBLE_EQ((llf[1] - 1) / 2.0, 1.5) << "s per token of the second request, as published";
  const auto fcfs = serve(kThree, [](const Request& r, std::int32_t, Instant) { return r.arrival.ns(); });
  EXPECT_EQ(fcfs, (std::vector{10, 12, 13}));
  const auto srtf = serve(
      kThree, [](const Request& r, std::int32_t produced, Instant) { return service_latency(kToy, r, produced).ns(); });
  EXPECT_EQ(srtf, (std::vector{13, 3, 4}));
  const auto edf =
      serve(kThree, [](const Request& r, std::int32_t, Instant) { return service_deadline(kToy, r).ns(); });
  EXPECT_EQ(edf, (std::vector{13, 4, 3}));
}

TEST(Laxity, windows) {
  const ServiceOptions options = alone(Span::ms(100), Span::ms(10));
  const Request known = request(1, Span::s(2), 90);
  EXPECT_EQ(service_latency(options, known), Span::s(1));
  EXPECT_EQ(service_latency(options, known, 40), Span::ms(500)) << "its first token came";
  EXPECT_EQ(service_deadline(options, known), Instant() + Span::ms(3400));
  EXPECT_EQ(laxity(options, known, 0, Instant() + Span::s(2)), Span::ms(400)) << "(alpha - 1) Lat as it arrives";
  Request unknown = known;
  unknown.predicted_output_tokens = 0;
  unknown.max_tokens = 190;
  EXPECT_EQ(service_latency(options, unknown), Span::s(2)) << "nothing predicted: the client's cap";
}

TEST(Laxity, who_may_displace_whom) {
  ServiceOptions options;
  options.ttft = Span();
  options.tbt = Span::s(1);
  options.preemptive = true;
  options.margin = Span();
  const Request longer = request(0, Span(), 10);      // W 14 s: laxity 4 s when dispatched
  const Request shorter = request(1, Span::s(1), 2);  // W 2.8 s: laxity 0.8 s on arrival
  const auto displaces = [](QueuePolicy& q, const Request& waiting, const Request& running, Instant now) {
    return q.waiting_rank(q.key(waiting, now), now) < q.running_rank(q.key(running, Instant()), Instant());
  };
  LeastLaxityFirst llf(options);
  EXPECT_TRUE(llf.preempts());
  EXPECT_TRUE(displaces(llf, shorter, longer, Instant() + Span::s(1)));
  EXPECT_FALSE(displaces(llf, longer, longer, Instant())) << "strictly smaller";
  EXPECT_TRUE(displaces(llf, longer, longer, Instant() + Span::ms(1)))
      << "who waits grows more urgent, who runs does not";
  options.margin = Span::s(5);
  LeastLaxityFirst reluctant(options);
  EXPECT_FALSE(displaces(reluctant, shorter, longer, Instant() + Span::s(1)));
  options.margin = Span();
  ShortestRemainingFirst srtf(options);
  EXPECT_TRUE(displaces(srtf, shorter, longer, Instant() + Span::s(1)));
  EXPECT_FALSE(displaces(srtf, shorter, longer, Instant() + Span::s(8)))
      << "2 s of it are left, as many as of the other";
  EarliestDeadlineFirst edf(options);
  EXPECT_TRUE(displaces(edf, shorter, longer, Instant() + Span::s(1)));
  options.preemptive = false;
  EXPECT_FALSE(LeastLaxityFirst(options).preempts());
}

TEST(Laxity, on_congestion_only) {
  ServiceOptions options;
  options.preemptive = true;
  options.congested = Span::ms(500);
  LeastLaxityFirst queue(options);
  const Request urgent = request(0, Span::s(1), 10);
  const Request patient = request(1, Span::ms(900), 1000);
  EXPECT_LT(queue.key(patient, Instant()), queue.key(urgent, Instant())) << "calm: first come, first served";
  EXPECT_FALSE(queue.preempts());
  const InstanceView view;
  const auto start_after = [&](Span wait) {
    for (int i = 0; i < 200; ++i) queue.observe(event::Started{urgent, view}, urgent.arrival + wait);
  };
  start_after(Span::s(1));
  EXPECT_TRUE(queue.preempts());
  EXPECT_LT(queue.key(urgent, Instant()), queue.key(patient, Instant()));
  start_after(Span::ms(300));
  EXPECT_TRUE(queue.active()) << "until half of that";
  start_after(Span::ms(200));
  EXPECT_FALSE(queue.active());
}

TEST(Laxity, the_alpha_and_beta_windows) {
  // Of 100 tokens at 10 ms after 100 ms: Lat 1.1 s. The client's window is 1.4 x, the operator's objective 5 x that.
  ServiceOptions client = alone(Span::ms(100), Span::ms(10));
  ServiceOptions operators = client;
  operators.window = 5.0;
  const Request of = request(1, Span::s(2), 100);
  EXPECT_EQ(service_deadline(client, of), Instant() + Span::ms(2000 + 1540));
  EXPECT_EQ(service_deadline(operators, of), Instant() + Span::ms(2000 + 5500));
  EXPECT_EQ(laxity(client, of, 0, of.arrival), Span::ms(440));
  EXPECT_EQ(laxity(operators, of, 0, of.arrival), Span::ms(4400));
}

RC_GTEST_PROP(Laxity, the_order_of_those_who_wait_never_changes, ()) {
  const auto any = [](std::int64_t id) {
    return request(id, Span::ms(*rc::gen::inRange(0, 10'000)), *rc::gen::inRange(1, 2'000));
  };
  const Request a = any(1);
  const Request b = any(2);
  const Instant now = Instant() + Span::ms(*rc::gen::inRange(10'000, 100'000));
  LeastLaxityFirst queue{ServiceOptions()};
  RC_ASSERT((queue.key(a, a.arrival) < queue.key(b, b.arrival)) == (laxity({}, a, 0, now) < laxity({}, b, 0, now)));
}

}  // namespace
}  // namespace wattle::policy
