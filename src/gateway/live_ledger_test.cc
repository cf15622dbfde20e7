#include "gateway/live_ledger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.h"
#include "gateway/charged_answer.h"

namespace wattle::gateway {
namespace {

constexpr InstanceId kA{0};
constexpr InstanceId kB{1};

Instant at(std::int64_t ms) { return Instant() + Span::ms(ms); }

struct BookedOutcomes final : journal::Sink {
  void joined(const journal::Instance& facts) override { newcomer = facts.id; }
  InstanceId newcomer = kNoInstance;
  void outcome(const Outcome& o) override { all[o.request.id.value()] = o; }
  std::map<std::int64_t, Outcome> all;
};

struct Books {
  static std::vector<carbon::SiteRates> sites() {
    carbon::SiteRates rates;
    rates.intensity = carbon::IntensitySeries::constant(GramsPerKwh(360.0));
    rates.gpu_price = UsdPerHour(3.6);
    return {rates};
  }
  BookedOutcomes sink;
  LiveLedger ledger{sites(), sink};
  std::int64_t counter_mj[2] = {5000, 70};
  std::int64_t agent_started = 1;

  Books() {
    ledger.add_instance(2, SiteId{0}, at(0));
    ledger.add_instance(2, SiteId{0}, at(0));
  }
  /// The meter has moved by so much.
  void meter(InstanceId instance, std::int64_t mj, std::int64_t ms) {
    auto& counter = counter_mj[instance.value()];
    counter += mj;
    ledger.reading({instance, Picojoules(Int128{counter} * 1'000'000'000), {}, {}, {}, at(ms), false, agent_started});
  }
  void start(std::int64_t id, InstanceId instance, std::int64_t ms, std::int32_t prompt = 100) {
    Request request;
    request.id = RequestId(id);
    request.prompt_tokens = prompt;
    ledger.started(request, instance, at(ms));
  }
  /// At A, which hands it over to B.
  void computed(std::int64_t id, std::int64_t from_ms, std::int64_t to_ms) {
    start(id, kA, from_ms);
    ledger.step(kA, 100, at(from_ms));
    ledger.prefilled(RequestId(id), at(to_ms));
    ledger.step(kA, 0, at(to_ms));
    ledger.handed_over(RequestId(id), kB);
  }
  void leave(std::int64_t id, std::int64_t ms) {
    Outcome o;
    o.request.id = RequestId(id);
    o.left = at(ms);
    ledger.outcome(o);
  }
  [[nodiscard]] double joules(std::int64_t id) const { return sink.all.at(id).energy.joules().value(); }
  /// total = requests + idle + residue = metered, but for what is less than a milliwatt over an interval.
  void expect_conserved(std::int64_t longest_interval_ms) {
    const auto totals = ledger.totals();
    EXPECT_EQ(totals.total.energy, (totals.prefill + totals.decode + totals.idle + totals.residue).energy);
    Picojoules requests;
    for (const auto& [id, o] : sink.all) requests += o.energy;
    EXPECT_EQ(requests, (totals.prefill + totals.decode).energy);
    EXPECT_EQ(requests, ledger.ledger().usage().booked.energy);
    const Int128 off = (ledger.counts().metered - totals.total.energy).value();
    EXPECT_GE(off, 0);
    EXPECT_LT(off, 2 * Int128{longest_interval_ms} * 1'000'000) << "a milliwatt over an interval, of two instances";
  }
};

TEST(LiveLedger, AnInstanceThatIsGoneOwesNothingMore) {
  Books books;
  books.ledger.joined({kB, {}});
  EXPECT_EQ(books.sink.newcomer, kB) << "handed on";
  books.meter(kA, 0, 0);
  books.start(1, kA, 10);
  books.ledger.first_token(RequestId(1), at(20));
  books.meter(kA, 100, 50);
  books.leave(1, 60);
  EXPECT_TRUE(books.sink.all.empty()) << "its last reading is to come";
  books.ledger.gone(kA, at(70));
  EXPECT_EQ(books.sink.all.size(), 1U);
  const Span unmetered = books.ledger.totals().unmetered;
  books.ledger.tick(at(100'000));
  EXPECT_EQ(books.ledger.totals().unmetered, unmetered) << "nobody expects a reading of it";
  books.expect_conserved(50);
}

TEST(LiveLedger, BooksWhatTheMeterSaysToWhoWasThere) {
  Books books;
  books.meter(kA, 0, 0);
  books.meter(kA, 1000, 100);  // nobody: idle
  books.start(1, kA, 100);
  books.ledger.step(kA, 100, at(100));
  books.ledger.first_token(RequestId(1), at(150));
  books.ledger.step(kA, 0, at(150));
  books.start(2, kA, 150);
  EXPECT_TRUE(books.sink.all.empty());
  books.leave(1, 200);
  EXPECT_TRUE(books.sink.all.empty()) << "what it cost is not known yet";
  books.meter(kA, 20'000, 200);
  EXPECT_DOUBLE_EQ(books.joules(1), 20.0) << "prompt and tokens: it was alone";
  EXPECT_DOUBLE_EQ(books.sink.all.at(1).carbon.value(), 20.0 / 3.6e6 * 360.0);
  books.ledger.step(kA, 100, at(200));
  books.ledger.first_token(RequestId(2), at(220));
  books.ledger.step(kA, 0, at(220));
  books.leave(2, 260);
  books.meter(kA, 10'000, 300);
  EXPECT_NEAR(books.joules(2), 6.0, 1e-9) << "60 of 100 ms; the rest was idle";
  EXPECT_NEAR(books.ledger.totals().idle.energy.joules().value(), 1.0 + 4.0, 1e-9);
  books.expect_conserved(100);
}

TEST(LiveLedger, WithoutAMeterEnergyIsUnknownAndCostIsTheGpus) {
  Books books;
  books.start(1, kA, 0);
  books.ledger.first_token(RequestId(1), at(100));
  books.leave(1, 500);
  EXPECT_FALSE(books.sink.all.at(1).metered);
  EXPECT_NEAR(books.sink.all.at(1).cost.value(), 2 * 0.5 * 0.001, 1e-9) << "two GPUs for half a second";
  books.ledger.close(at(1000));
  const auto used = books.ledger.consumption(nullptr);
  EXPECT_EQ(used.meters, "none");
  EXPECT_TRUE(std::isnan(used.energy.total.value()));
  EXPECT_TRUE(std::isnan(used.carbon.value()));
  EXPECT_NEAR(used.cost.value(), 4 * 0.001, 1e-12) << "the price of electricity is within the GPUs'";
  EXPECT_DOUBLE_EQ(used.unmetered_s, 2.0);
  EXPECT_EQ(used.by_tenant.at(0).unmetered_requests, 1);
}

TEST(LiveLedger, WhatItsEngineRefusedPaysNothing) {
  for (const bool streamed : {false, true}) {
    Books books;
    books.meter(kA, 0, 0);
    books.meter(kA, 1000, 100);
    books.start(1, kA, 110);
    if (!streamed) books.ledger.unseen(RequestId(1), at(110));
    books.ledger.leaving(RequestId(1), {.counted = {.prompt = 0}});
    books.leave(1, 115);
    books.meter(kA, 10'000, 150);
    ASSERT_EQ(books.sink.all.size(), 1U) << "it holds nobody up";
    EXPECT_EQ(books.joules(1), 0.0);
    EXPECT_GT(books.ledger.totals().residue.energy, Picojoules()) << "the instance was not idle while it looked at it";
    books.expect_conserved(100);
  }
}

TEST(LiveLedger, WithoutAPriceACostIsUnknown) {
  BookedOutcomes sink;
  LiveLedger priceless({carbon::SiteRates()}, sink);
  Outcome refused;
  priceless.outcome(refused);
  EXPECT_TRUE(std::isnan(sink.all.at(refused.request.id.value()).cost.value())) << "as in requests.csv";
  const auto& recent = priceless.recent(0).outcome;
  EXPECT_TRUE(std::isnan(recent.cost.value())) << "as GET /usage says it";
  EXPECT_TRUE(recent.metered);
  Books priced;
  priced.ledger.outcome(refused);
  EXPECT_EQ(priced.sink.all.at(refused.request.id.value()).cost, Usd()) << "it took no GPU's time";
}

TEST(LiveLedger, RequestsForTwoModelsAreApart) {
  Books books;
  books.meter(kA, 0, 0);
  books.ledger.asked_for(RequestId(1), carbon::ModelId(1));
  for (const int id : {1, 2}) books.start(id, kA, 0);
  for (const int id : {1, 2}) books.ledger.first_token(RequestId(id), at(10));
  books.leave(1, 55);
  books.leave(2, 100);
  books.meter(kA, 10'000, 100);
  const std::vector<std::string> names = {"m", "n"};
  const auto used = books.ledger.consumption(nullptr);
  const auto models = books.ledger.by_model(names, nullptr);
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].all.name, "m");
  EXPECT_NEAR(models[0].all.energy.value(), books.joules(2), 1e-9);
  EXPECT_NEAR(models[1].all.energy.value(), books.joules(1), 1e-9);
  EXPECT_GT(books.joules(2), 2.0 * books.joules(1)) << "twice as long, and half of that alone";
  EXPECT_NEAR(models[0].all.energy.value() + models[1].all.energy.value(), used.all_requests.energy.value(), 1e-9);
  EXPECT_EQ(models[1].by_tenant.at(0).requests, 1) << "the same tenant";
  EXPECT_EQ(models[1].by_class.at(0).requests, 1);
  EXPECT_EQ(used.by_tenant.at(0).requests, 2) << "over both";
}

TEST(LiveLedger, SaysWhenTheMetersAreEmulated) {
  Books books;
  books.meter(kA, 0, 0);
  books.meter(kA, 0, 10);
  EXPECT_STREQ(books.ledger.meters(), "measured");
  books.ledger.reading({kB, Picojoules(), {}, {}, {}, at(20), true});
  EXPECT_STREQ(books.ledger.meters(), "emulated");
}

TEST(LiveLedger, DecodersShareEquallyAndPromptsByLength) {
  Books books;
  books.meter(kA, 0, 0);
  for (std::int64_t id = 1; id <= 2; ++id) books.start(id, kA, 0, id == 1 ? 300 : 100);
  books.ledger.step(kA, 400, at(0));
  books.ledger.first_token(RequestId(1), at(100));
  books.ledger.first_token(RequestId(2), at(100));
  books.ledger.step(kA, 0, at(100));
  books.leave(1, 200);
  books.leave(2, 300);
  books.meter(kA, 3000, 300);  // 10 W: 1 J prompts, 1 J both decode, 1 J the second alone
  EXPECT_NEAR(books.joules(1), 0.75 + 0.5, 1e-9);
  EXPECT_NEAR(books.joules(2), 0.25 + 0.5 + 1.0, 1e-9);
  books.expect_conserved(300);
}

TEST(LiveLedger, ARequestServedWhileNobodyKnowsTheIntensityHasNoCarbonButEnergyAndCost) {
  Books books;
  books.ledger.set_intensity(SiteId{0}, *carbon::IntensitySeries::from_points({{at(0), GramsPerKwh(360.0)}}, at(100)));
  books.meter(kA, 0, 0);
  books.meter(kB, 0, 0);
  books.start(1, kA, 0);
  books.ledger.first_token(RequestId(1), at(0));
  books.leave(1, 50);
  books.computed(2, 50, 60);
  books.ledger.first_token(RequestId(2), at(110));
  books.leave(2, 150);
  books.meter(kA, 1000, 150);
  books.meter(kB, 1000, 150);
  EXPECT_GT(books.sink.all.at(1).carbon.value(), 0.0);
  const Outcome& late = books.sink.all.at(2);
  EXPECT_TRUE(late.metered && late.energy > Picojoules() && late.cost.value() > 0.0);
  EXPECT_TRUE(std::isnan(late.carbon.value())) << "of one of its two instances";
  const EnergySaid said = EnergySaid::of(late, "measured");
  EXPECT_TRUE(said.joules && !said.grams) << "and its client is not sent NaN";
  books.ledger.close(at(200));
  const auto used = books.ledger.consumption(nullptr);
  EXPECT_EQ(used.all_requests.unknown_carbon_requests, 1);
  EXPECT_GT(used.all_requests.carbon.value(), 0.0);
}

TEST(LiveLedger, TwoLegsPayAtBothInstances) {
  Books books;
  books.meter(kA, 0, 0);
  books.meter(kB, 0, 0);
  books.computed(1, 0, 50);
  books.ledger.first_token(RequestId(1), at(60));
  books.leave(1, 100);
  books.meter(kB, 100, 100);
  EXPECT_TRUE(books.sink.all.empty()) << "one meter has yet to speak";
  books.meter(kA, 1000, 100);
  EXPECT_NEAR(books.joules(1), 0.5 + 0.04, 1e-9);
  books.expect_conserved(100);
}

TEST(LiveLedger, AnAttemptThatIsLostPaysWhereItWasAndTheNextOneWhereItIs) {
  Books books;
  books.meter(kA, 0, 0);
  books.meter(kB, 0, 0);
  books.start(1, kA, 0);
  books.ledger.unseen(RequestId(1), at(0));  // an answer that comes as a whole: it shares with those that decode
  books.ledger.lost(RequestId(1), at(50));
  books.start(1, kB, 50);
  books.ledger.unseen(RequestId(1), at(50));
  books.leave(1, 100);
  books.meter(kB, 2000, 100);
  EXPECT_TRUE(books.sink.all.empty()) << "the first engine's meter has yet to speak";
  books.meter(kA, 1000, 100);
  EXPECT_NEAR(books.joules(1), 0.5 + 1.0, 1e-9) << "half of either's time";
  EXPECT_EQ(books.ledger.ledger().usage().requests, 1);
  books.expect_conserved(100);
}

/// The core books a refusal before the thread that has the request learns of it.
TEST(LiveLedger, ARefusalAfterALostAttemptSaysWhatTheAttemptDrew) {
  for (const bool read_before : {false, true}) {
    Books books;
    books.meter(kA, 0, 0);
    books.start(1, kA, 0);
    books.ledger.unseen(RequestId(1), at(0));
    books.ledger.lost(RequestId(1), at(50));
    books.leave(1, 60);
    double said = -1.0;
    const auto leaves = [&] {
      books.ledger.leaving(
          RequestId(1),
          {.counted = {},
           .name = "abc",
           .charged = [&](const Outcome& o, const char*) { said = o.metered ? o.energy.joules().value() : -2.0; },
           .booked = true});
    };
    if (!read_before) leaves();
    EXPECT_EQ(said, -1.0) << "its meter has yet to speak";
    books.meter(kA, 1000, 100);
    if (read_before) leaves();
    EXPECT_NEAR(said, 0.5, 1e-9);
    EXPECT_DOUBLE_EQ(said, books.joules(1)) << "as in the journal";
    EXPECT_EQ(books.ledger.recent(0).name, "abc");
    books.expect_conserved(100);
  }
}

TEST(LiveLedger, ARequestsEndIsReportedAsInTheJournal) {
  for (const bool booked : {false, true}) {  // the client leaves: as it waits, or as the core refuses it
    Books books;
    std::vector<Outcome> reported;
    Outcome outcome;
    outcome.request.id = RequestId(7);
    outcome.fate = booked ? Fate::Rejected : Fate::Cancelled;
    if (booked) books.ledger.outcome(outcome);
    books.ledger.leaving(
        RequestId(7),
        {.counted = {}, .charged = [&](const Outcome& o, const char*) { reported.push_back(o); }, .booked = booked});
    if (!booked) books.ledger.outcome(outcome);
    ASSERT_EQ(reported.size(), 1U) << booked;
    EXPECT_EQ(reported[0].request.id, RequestId(7)) << booked;
    EXPECT_EQ(reported[0].fate, outcome.fate);
    EXPECT_TRUE(reported[0].metered) << "it was at no engine";
    EXPECT_EQ(reported[0].energy, books.sink.all.at(7).energy);
  }
}

TEST(LiveLedger, ALostAttemptWhoseMeterIsCutOffToIsUnknown) {
  Books books;
  books.meter(kA, 0, 0);
  books.meter(kB, 0, 0);
  books.start(1, kA, 0);
  books.ledger.first_token(RequestId(1), at(0));
  books.ledger.lost(RequestId(1), at(50));
  books.start(1, kB, 50);
  books.ledger.withdrawn(RequestId(1), at(60));  // it never began there
  books.leave(1, 70);
  EXPECT_TRUE(books.sink.all.empty());
  books.meter(kB, 0, 6000);
  books.ledger.tick(at(6000));
  EXPECT_FALSE(books.sink.all.at(1).metered);
  books.expect_conserved(6000);
}

TEST(LiveLedger, SilentMetersHoldNobodyUpForEver) {
  Books books;
  books.start(1, kA, 0);
  books.leave(1, 10);
  EXPECT_FALSE(books.sink.all.at(1).metered) << "no meter has ever spoken: unknown, not 0";
  books.meter(kA, 0, 20);
  books.start(2, kA, 30);
  books.ledger.first_token(RequestId(2), at(40));
  books.leave(2, 50);
  books.ledger.tick(at(1000));
  EXPECT_FALSE(books.sink.all.contains(2));
  books.ledger.tick(at(6000));
  EXPECT_FALSE(books.sink.all.at(2).metered);
  EXPECT_EQ(books.ledger.totals().unmetered, Span::ms(20 + 5980));
  books.start(3, kA, 6100);
  books.ledger.first_token(RequestId(3), at(6200));
  books.meter(kA, 7000, 7000);  // it comes back, and what it has counted is not lost
  books.expect_conserved(1000);
  books.meter(kA, 100, 7100);
  books.leave(3, 7100);
  books.meter(kA, 0, 7200);
  EXPECT_FALSE(books.sink.all.at(3).metered) << "who draws what of it nobody knows";
  EXPECT_NEAR(books.joules(3), 0.1, 1e-3) << "what has been metered of it since";
  EXPECT_NEAR(books.ledger.totals().idle.energy.joules().value(), 7.0, 1e-9);
  books.counter_mj[0] = 0;  // a new agent
  books.meter(kA, 1, 8000);
  EXPECT_EQ(books.ledger.counts().meter_resets, 1);
  books.meter(kA, 1000, 9000);
  books.expect_conserved(1000);
  // Another new one, whose counter is above the last one's before anybody asks it.
  const auto metered = books.ledger.counts().metered;
  books.agent_started = 2;
  books.meter(kA, 50'000, 10'000);
  EXPECT_EQ(books.ledger.counts().meter_resets, 2);
  EXPECT_EQ(books.ledger.counts().metered, metered);
  books.meter(kA, 1000, 11'000);
  EXPECT_EQ(books.ledger.counts().metered, metered + Picojoules(Int128{1000} * 1'000'000'000));
  books.expect_conserved(1000);
}

TEST(LiveLedger, OneRefusedOnArrivalPassesThrough) {
  Books books;
  books.meter(kA, 0, 0);
  books.leave(9, 5);
  EXPECT_EQ(books.joules(9), 0.0);
  EXPECT_TRUE(books.sink.all.at(9).metered) << "it has used nothing, and that is known";
}

TEST(LiveLedger, ConservesEnergyWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Books books;
    RandomStream random(seed, "ledger");
    books.meter(kA, 0, 0);
    books.meter(kB, 0, 0);
    std::vector<std::int64_t> here;
    std::int64_t next = 0;
    std::int64_t ms = 0;
    for (int i = 0; i < 400; ++i) {
      ms += static_cast<std::int64_t>(random.below(7));
      const auto who = here.empty() ? 0 : here[random.below(here.size())];
      switch (random.below(9)) {
        case 0:
        case 1:
          books.start(next, random.below(2) == 0 ? kA : kB, ms, static_cast<std::int32_t>(random.below(500)));
          here.push_back(next++);
          break;
        case 2:
          books.ledger.prefilled(RequestId(who), at(ms));
          books.ledger.handed_over(RequestId(who), kB);
          break;
        case 3:
          random.below(4) == 0 ? books.ledger.unseen(RequestId(who), at(ms))
                               : books.ledger.first_token(RequestId(who), at(ms));
          break;
        case 4:
          if (!here.empty()) {
            books.leave(who, ms);
            std::erase(here, who);
          }
          break;
        case 5:
          if (!here.empty() && random.below(2) == 0) {
            books.ledger.lost(RequestId(who), at(ms));
            if (random.below(4) != 0) books.start(who, random.below(2) == 0 ? kA : kB, ms);
          }
          break;
        case 6:
          books.meter(random.below(2) == 0 ? kA : kB, static_cast<std::int64_t>(random.below(9000)), ms);
          break;
        default:
          books.ledger.step(random.below(2) == 0 ? kA : kB, static_cast<std::int64_t>(random.below(3) * 100), at(ms));
      }
    }
    for (const auto id : here) books.leave(id, ms);
    books.meter(kA, 1234, ms + 50);
    books.meter(kB, 4321, ms + 50);
    ASSERT_EQ(books.sink.all.size(), static_cast<std::size_t>(next)) << "seed " << seed;
    books.expect_conserved(ms + 50);
  }
}

}  // namespace
}  // namespace wattle::gateway
