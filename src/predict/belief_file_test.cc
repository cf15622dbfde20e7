#include "predict/belief_file.h"

#include <gtest/gtest.h>

#include "predict/shapes_test.h"
#include "predict/watched_latency.h"

namespace wattle::predict {
namespace {

/// 8 ms (10 ms from 65 requests on) + 10 us a request + 0.05 us a KV token; a prompt 5 ms + 90 us a token; 100 W while
/// idle, 4 J and more a step; everything half as fast again at 1500 MHz as at 1000.
Span time_of(const StepShape& s, double scale) {
  const double us = s.prefill_tokens > 0 ? 5'000.0 + 90.0 * static_cast<double>(s.prefill_tokens)
                                         : (s.decode_requests > 64 ? 10'000.0 : 8'000.0) + 10.0 * s.decode_requests +
                                               0.05 * static_cast<double>(s.decode_kv_tokens);
  return Span::from_seconds(us * 1e-6 * scale);
}
double joules_of(const StepShape& s) {
  return s.prefill_tokens > 0 ? 1.0 + 0.03 * static_cast<double>(s.prefill_tokens)
                              : 2.0 + 0.01 * s.decode_requests + 5e-6 * static_cast<double>(s.decode_kv_tokens);
}

StepProfile profile(bool powered = true) {
  StepProfile p;
  p.provenance = {"made: by the test"};
  for (const auto& [mhz, scale] : {std::pair{1000, 1.0}, std::pair{1500, 2.0 / 3.0}}) {
    ProfileRow row{StepKind::Idle, MegaHertz(mhz), 0, 0, 0, 0, Span(), Milliwatts(mhz * 100), {}};
    if (powered) p.rows.push_back(row);
    const auto add = [&, mhz = mhz, scale = scale](StepKind kind, const StepShape& s) {
      ProfileRow r{kind,
                   MegaHertz(mhz),
                   s.decode_requests + s.prefill_requests,
                   s.prefill_tokens,
                   s.decode_kv_tokens,
                   50,
                   time_of(s, scale),
                   {},
                   {}};
      if (powered) r.power = to_milliwatts(Watts(joules_of(s) / r.step.seconds()));
      p.rows.push_back(r);
    };
    for (const std::int64_t tokens : {64, 256, 1024, 4096}) add(StepKind::Prefill, prompts(tokens));
    for (const std::int32_t n : {1, 8, 32, 64, 65, 96, 128}) {
      for (const std::int64_t each : {100, 700, 1500}) add(StepKind::Decode, decodes(n, n * each));
    }
  }
  return p;
}

TEST(BeliefFile, AFitPredictsTimeAndPowerBetweenTheMeasuredPoints) {
  const auto fit = fit_belief(profile());
  ASSERT_TRUE(fit) << fit.error().message();
  EXPECT_EQ(fit->belief.time.tile_ends, std::vector<std::int32_t>{64});
  const auto time = LinearLatency::make(fit->belief.time).value();
  const auto power = LinearPower::make(time, fit->belief.power).value();
  const auto near = [](double value, double truth) { EXPECT_NEAR(value / truth, 1.0, 0.002) << value; };
  for (const auto& [mhz, scale] : {std::pair{1000, 1.0}, std::pair{1500, 2.0 / 3.0}}) {
    for (const StepShape& s : {decodes(20, 9'000), decodes(80, 90'000), prompts(700)}) {
      const double seconds = time_of(s, scale).seconds();
      near(time.step_time(s, MegaHertz(mhz)).seconds(), seconds);
      near(to_watts(power.step_power(s, MegaHertz(mhz))).value(), joules_of(s) / seconds);
      near(power.step_energy(s, MegaHertz(mhz)).joules().value(), joules_of(s));
    }
  }
  EXPECT_EQ(power.step_power({}, MegaHertz(1000)), Milliwatts(100'000));
  EXPECT_EQ(power.step_power({}, MegaHertz(1250)), Milliwatts(125'000));
  EXPECT_EQ(power.step_power({}, MegaHertz(2000)), Milliwatts(150'000)) << "not extrapolated";
}

TEST(BeliefFile, PowerThatWasNotMeasuredForAllIsLeftOut) {
  EXPECT_TRUE(fit_belief(profile(false))->belief.power.energy.clocks.empty());
  StepProfile partly = profile();
  std::erase_if(partly.rows, [](const ProfileRow& r) { return r.phase == StepKind::Idle && r.clock.value() == 1500; });
  EXPECT_TRUE(fit_belief(partly)->belief.power.energy.clocks.empty());
}

TEST(BeliefFile, ReadsWhatItWrites) {
  for (const bool powered : {true, false}) {
    const auto fit = fit_belief(profile(powered));
    ASSERT_TRUE(fit);
    const std::string text = to_csv(fit->belief);
    const auto again = parse_belief(text, "b.csv");
    ASSERT_TRUE(again) << again.error().message() << "\n" << text;
    EXPECT_EQ(to_csv(*again), text);
    EXPECT_EQ(again->provenance, fit->belief.provenance);
    EXPECT_EQ(again->time.tile_ends, fit->belief.time.tile_ends);
    EXPECT_EQ(again->time.decode_requests_min, 1);
    EXPECT_EQ(again->time.decode_requests_max, 128);
    EXPECT_EQ(again->time.decode_kv_tokens_max, 128 * 1500);
    EXPECT_EQ(again->time.prefill_tokens_min, 64);
    EXPECT_EQ(again->power.energy.clocks.size(), powered ? 2U : 0U);
    const auto a = LinearLatency::make(fit->belief.time).value();
    const auto b = LinearLatency::make(again->time).value();
    EXPECT_NEAR(a.step_time(decodes(100, 50'000), MegaHertz(1200)).millis(),
                b.step_time(decodes(100, 50'000), MegaHertz(1200)).millis(), 1e-5);
  }
}

TEST(BeliefFile, WhatTheHostTakesIsARowOfItsOwn) {
  StepProfile hosted = profile();
  const auto host = [](std::int32_t requests) { return Span::us(11'000 + 20 * requests); };
  for (ProfileRow& row : hosted.rows) {
    if (row.phase == StepKind::Decode) row.step = std::max(row.step, host(row.requests));
  }
  const auto fit = fit_belief(hosted);
  ASSERT_TRUE(fit) << fit.error().message();
  const std::string text = to_csv(fit->belief);
  EXPECT_NE(text.find("\nhost,0,1,128,0,11000,20,0,,,,,,\nidle,1000"), std::string::npos) << text;
  const auto again = parse_belief(text, "b.csv");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(to_csv(*again), text);
  const auto time = LinearLatency::make(again->time).value();
  EXPECT_NEAR(time.step_time(decodes(20, 2'000), MegaHertz(1500)).millis(), 11.4, 0.001);
  EXPECT_NEAR(time.step_time(decodes(128, 192'000), MegaHertz(1000)).millis(), 20.88, 0.05) << "the GPU takes longer";

  const std::string row = "host,0,1,128,0,11000,20,0,,,,,,\n";
  const auto refused = [&](const std::string& rows, const char* part) {
    std::string changed = text;
    changed.replace(changed.find(row), row.size(), rows);
    const auto belief = parse_belief(changed, "b.csv");
    ASSERT_FALSE(belief) << rows;
    EXPECT_NE(belief.error().message().find(part), std::string::npos) << belief.error().message();
  };
  refused(row + row, "b.csv:4: phase is 'host'");
  const std::string prompts = "prefill-host,0,0,0,0,12000,5000,0,,,,,,\n";
  refused(row + prompts + prompts, "b.csv:5: phase is 'prefill-host'");
  std::string both = text;
  both.insert(both.find(row) + row.size(), prompts);
  const auto known = parse_belief(both, "b.csv");
  ASSERT_TRUE(known) << known.error().message();
  EXPECT_EQ(to_csv(*known), both);
  StepShape three;
  three.prefill_requests = 3;
  three.prefill_tokens = 64;
  EXPECT_EQ(LinearLatency::make(known->time).value().step_time(three, MegaHertz(1200)), Span::ms(27));
  refused("host,1000,1,128,0,11000,20,0,,,,,,\n", "clock_mhz");
  refused("host,0,1,128,0,11000,20,3,,,,,,\n", "time_ns_per_token");
  refused("host,0,1,128,0,11000,20,0,5,0,0,,,\n", "energy_mj");
  refused("host,0,1,128,0,,20,0,,,,,,\n", "time_us");
}

TEST(BeliefFile, ShortPromptsHaveALineOfTheirOwnWhereOneMissesThem) {
  // Weights are read up to 512 tokens whatever their number, computing decides beyond.
  StepProfile p;
  const auto time = [](std::int64_t tokens) {
    return Span::from_seconds(tokens <= 512 ? 10e-3 + 2e-6 * static_cast<double>(tokens)
                                            : 1e-3 + 40e-6 * static_cast<double>(tokens));
  };
  for (const std::int64_t tokens : {64, 128, 256, 512, 1024, 2048, 4096}) {
    p.rows.push_back({StepKind::Prefill, MegaHertz(1000), 1, tokens, 0, 50, time(tokens), {}, {}});
  }
  const auto fit = fit_belief(p);
  ASSERT_TRUE(fit) << fit.error().message();
  EXPECT_EQ(fit->belief.time.prefill_ends, std::vector<std::int64_t>{512});
  const std::string text = to_csv(fit->belief);
  const auto again = parse_belief(text, "b.csv");
  ASSERT_TRUE(again) << again.error().message() << "\n" << text;
  EXPECT_EQ(to_csv(*again), text);
  const auto model = LinearLatency::make(again->time).value();
  for (const std::int64_t tokens : {64, 300, 512, 700, 3000}) {
    const double ours = model.step_time(prompts(tokens), MegaHertz(1000)).seconds();
    EXPECT_NEAR(ours / time(tokens).seconds(), 1.0, 0.005) << tokens;
  }
  std::string gap = text;
  gap.replace(gap.find("prefill,1000,513"), 16, "prefill,1000,600");
  const auto refused = parse_belief(gap, "b.csv");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("513"), std::string::npos) << refused.error().message();
}

TEST(BeliefFile, PromptsBehindContextsHaveTermsForAttentionAndNumber) {
  // 2 ms + 30 us a token + 4 ns a pair of a token and one that it sees + 500 us a prompt; 0.5 mJ a token and 60 nJ a
  // pair.
  const auto time = [](const StepShape& s) {
    return Span(2'000'000 + 30'000 * s.prefill_tokens + 4 * s.prefill_context_tokens + 500'000 * s.prefill_requests);
  };
  const auto joules = [](const StepShape& s) {
    return 5e-4 * static_cast<double>(s.prefill_tokens) + 6e-8 * static_cast<double>(s.prefill_context_tokens);
  };
  const auto shape = [](std::int32_t n, std::int64_t each, std::int64_t context) {
    return StepShape{0, 0, n, n * each, n * each * (context + each / 2)};
  };
  StepProfile p;
  p.rows.push_back({StepKind::Idle, MegaHertz(1000), 0, 0, 0, 0, Span(), Milliwatts(90'000), {}});
  const auto add = [&](std::int32_t n, std::int64_t each, std::int64_t context) {
    const StepShape s = shape(n, each, context);
    const Milliwatts power = to_milliwatts(Watts(joules(s) / time(s).seconds()));
    p.rows.push_back({StepKind::Prefill, MegaHertz(1000), n, n * each, n * context, 50, time(s), power, {}});
  };
  for (const std::int64_t tokens : {64, 256, 1024, 4096}) add(1, tokens, 0);
  add(4, 64, 0);
  for (const std::int64_t tokens : {64, 256, 1024}) add(1, tokens, 4096);
  const auto fit = fit_belief(p);
  ASSERT_TRUE(fit) << fit.error().message();
  const std::string text = to_csv(fit->belief);
  EXPECT_NE(text.find("\nprefill,1000,64,4096,0,"), std::string::npos) << text;
  const auto again = parse_belief(text, "b.csv");
  ASSERT_TRUE(again) << again.error().message() << "\n" << text;
  EXPECT_EQ(to_csv(*again), text);
  const auto model = LinearLatency::make(again->time).value();
  const auto power = LinearPower::make(model, again->power);
  ASSERT_TRUE(power);
  for (const StepShape& s : {shape(1, 512, 16'384), shape(3, 100, 2'000), shape(1, 2'000, 0)}) {
    EXPECT_NEAR(model.step_time(s, MegaHertz(1000)).seconds() / time(s).seconds(), 1.0, 0.002);
    EXPECT_NEAR(power->step_energy(s, MegaHertz(1000)).joules().value() / joules(s), 1.0, 0.01);
  }
  std::string decode = text;
  decode.insert(decode.size(), "decode,1000,1,8,1000,5,0,0,1,0,0,,7,\n");
  const auto refused = parse_belief(decode, "b.csv");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("time_ns_per_pair is '7'"), std::string::npos) << refused.error().message();

  // One behind a context of a few tokens, such as a chat template's, says nothing of attention.
  std::erase_if(p.rows, [](const ProfileRow& r) { return r.kv_tokens > 0; });
  add(1, 512, 32);
  EXPECT_NE(to_csv(fit_belief(p)->belief).find(",0,0\n"), std::string::npos) << "no time and no energy per pair";
}

TEST(BeliefFile, FilesWithoutTermsForAttentionAreRead) {
  const std::string old =
      "phase,clock_mhz,from,to,kv_tokens_to,time_us,time_us_per_request,time_ns_per_token,energy_mj,"
      "energy_mj_per_request,energy_uj_per_token,idle_w\nprefill,1410,64,4096,0,4000,0,60000,,,,\n"
      "decode,1410,1,64,192000,7000,8,40,,,,\n";
  const auto belief = parse_belief(old, "b.csv");
  ASSERT_TRUE(belief) << belief.error().message();
  EXPECT_EQ(LinearLatency::make(belief->time).value().step_time(prompts(1000, 9'000'000), MegaHertz(1410)),
            Span::ms(64));
}

TEST(BeliefFile, WhatIsWrongIsRefusedByRowAndColumn) {
  const std::string good = to_csv(fit_belief(profile())->belief);
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " is not in\n" << good;
    text.replace(at, from.size(), to);
    const auto belief = parse_belief(text, "b.csv");
    return belief ? "accepted" : belief.error().message();
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal("time_us,", "time,"), "no column 'time_us'");
  has(refusal("decode,1000,1,64", "decode,1000,1,63"), "b.csv:6: from is '65'");
  has(refusal("decode,1500,65,128", "decode,1500,65,129"), "b.csv:10: phase is 'decode'");
  has(refusal("idle,1500", "idle,900"), "b.csv:7: clock_mhz is '900'");
  has(refusal("prefill,1000,64", "prefill,1000,nan"), "b.csv:4: from is 'nan'");
  has(refusal("prefill,1500", "idle,1500"), "b.csv:8");
  has(refusal("decode,1500,1,64", "prefill,1500,64,4096"), "b.csv:9");
  const auto last = good.rfind("decode,1500");
  const auto cut = parse_belief(good.substr(0, last), "b.csv");
  ASSERT_FALSE(cut);
  has(cut.error().message(), "1500 MHz has 3 rows");
  EXPECT_FALSE(parse_belief(good.substr(0, good.find("idle,1000")), "b.csv"));
  EXPECT_FALSE(parse_belief("", "b.csv"));
}

TEST(WatchedLatency, CountsQuestionsFromOutsideWhatWasMeasured) {
  const WatchedLatency belief(LinearLatency::make(fit_belief(profile())->belief.time).value());
  (void)belief.step_time(decodes(128, 1'000), MegaHertz(1000));
  (void)belief.step_time(prompts(64), MegaHertz(1250));
  EXPECT_EQ(belief.outside(), 0);
  (void)belief.step_time(decodes(129, 1'000), MegaHertz(1000));
  (void)belief.step_time(decodes(8, 200'000), MegaHertz(1000));
  (void)belief.step_time(decodes(8, 8'000), MegaHertz(990));
  (void)belief.step_time(prompts(63), MegaHertz(1000));
  EXPECT_EQ(belief.outside(), 4);
  EXPECT_EQ(belief.asked(), 6);
}

TEST(WatchedLatency, ADecisionMayNotStandBeyondWhatWasMeasured) {
  const WatchedLatency belief(LinearLatency::make(fit_belief(profile())->belief.time).value());
  EXPECT_EQ(belief.kv_tokens_within(decodes(8, 8'000), MegaHertz(1000), Span::s(10)), 128 * 1500);
  EXPECT_GT(belief.kv_tokens_within(decodes(8, 300'000), MegaHertz(1000), Span::s(10)), 300'000);
  const Span tight = belief.inside().step_time(decodes(8, 9'000), MegaHertz(1000));
  EXPECT_EQ(belief.kv_tokens_within(decodes(8, 8'000), MegaHertz(1000), tight),
            belief.inside().kv_tokens_within(decodes(8, 8'000), MegaHertz(1000), tight));
}

}  // namespace
}  // namespace wattle::predict
