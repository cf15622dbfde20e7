#include "systems/compose.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "calibrate/beliefs.h"
#include "engine/hardware_profile.h"

namespace wattle::systems {
namespace {

config::Recipe eco_recipe() {
  config::Recipe recipe;
  recipe.file = "eco.toml";
  for (auto* options : {&recipe.prefill_frequency, &recipe.decode_frequency}) {
    options->policy = "eco-freq";
    options->clocks = {MegaHertz{1005}, MegaHertz{1410}};
  }
  return recipe;
}

Slo both() {
  Slo slo;
  slo.ttft = Span::ms(600);
  slo.itl = Span::ms(60);
  return slo;
}

TEST(Compose, MakesEveryKnownPolicy) {
  config::Recipe recipe;
  for (const char* routing : {"round-robin", "least-loaded", "power-of-two", "weighted-round-robin", "tile-aware"}) {
    for (const char* admission : {"always", "bounded"}) {
      recipe.route_prefill.policy = recipe.route_decode.policy = routing;
      recipe.admission.policy = admission;
      recipe.admission.mode = Mode::Shadow;
      const auto made = make_dispatch_policies(recipe);
      ASSERT_TRUE(made) << made.error().message();
      EXPECT_TRUE(made->admission.policy && made->queueing.policy && made->route_prefill.policy &&
                  made->route_decode.policy);
      EXPECT_EQ(made->admission.mode, Mode::Shadow);
      EXPECT_EQ(made->queueing.mode, Mode::Enforce);
    }
  }
  for (const char* frequency : {"static", "idle-parking", "eco-freq"}) {
    recipe = eco_recipe();
    recipe.decode_frequency.policy = frequency;
    EXPECT_TRUE(make_frequency_policy(recipe, Role::Decode, GpuSpec{}, both())) << frequency;
    EXPECT_EQ(needs_latency(recipe, Role::Decode), std::string_view(frequency) == "eco-freq");
  }
}

TEST(Compose, UnknownNamesListTheKnownOnes) {
  config::Recipe recipe;
  recipe.file = "r.toml";
  recipe.route_decode.policy = "fortune";
  const auto routing = make_dispatch_policies(recipe);
  ASSERT_FALSE(routing);
  EXPECT_EQ(routing.error().message(),
            "r.toml: routing.decode.policy: unknown policy 'fortune'; known: round-robin, least-loaded, power-of-two, "
            "random, "
            "weighted-round-robin, eco-route, tile-aware");
  recipe.prefill_frequency.policy = "turbo";
  const auto frequency = make_frequency_policy(recipe, Role::Prefill, GpuSpec{}, both());
  ASSERT_FALSE(frequency);
  EXPECT_EQ(frequency.error().message(),
            "r.toml: frequency.prefill.policy: unknown policy 'turbo'; known: static, idle-parking, eco-freq, "
            "throttllem, retail");
}

TEST(Compose, ZeroClocksMeanTheGpusOwnLimits) {
  config::Recipe recipe;
  recipe.decode_frequency.policy = "idle-parking";
  auto policy = make_frequency_policy(recipe, Role::Decode, GpuSpec{}, {});
  ASSERT_TRUE(policy);
  InstanceView view;
  EXPECT_EQ((*policy)->choose(view, {}, Instant{}).clock, GpuSpec{}.clock_min);
  view.telemetry = Telemetry::Fresh;
  view.step.shape.decode_requests = 1;
  EXPECT_EQ((*policy)->choose(view, {}, Instant{}).clock, GpuSpec{}.clock_max);
}

TEST(Compose, RefusesWhatCannotWork) {
  auto recipe = eco_recipe();
  const auto message = [&](Role role, const Slo& slo) {
    const auto made = make_frequency_policy(recipe, role, GpuSpec{}, slo);
    return made ? std::string() : made.error().message();
  };
  Slo only_ttft;
  only_ttft.ttft = Span::ms(600);
  EXPECT_EQ(message(Role::Prefill, only_ttft), "");
  EXPECT_NE(message(Role::Decode, only_ttft).find("slo.itl"), std::string::npos);
  EXPECT_NE(message(Role::Colocated, only_ttft).find("slo.itl"), std::string::npos);
  EXPECT_NE(message(Role::Prefill, {}).find("slo.ttft"), std::string::npos);
  recipe.decode_frequency.clocks = {MegaHertz{1005}, MegaHertz{1980}};
  EXPECT_NE(message(Role::Decode, both()).find("1980 MHz is outside"), std::string::npos);
  recipe.decode_frequency.clocks = {MegaHertz{1410}, MegaHertz{1005}};
  EXPECT_NE(message(Role::Decode, both()).find("ascending"), std::string::npos);
  recipe.decode_frequency.clocks.clear();
  EXPECT_NE(message(Role::Decode, both()).find("eco.toml: frequency.decode.clocks_mhz"), std::string::npos);
  recipe = eco_recipe();
  recipe.decode_frequency.margin = 1.0;
  EXPECT_NE(message(Role::Decode, both()).find("frequency.decode.margin"), std::string::npos);
}

TEST(BeliefsTest, FitExplainsTheEngineItWasProfiledOn) {
  const engine::EngineOptions options;
  const auto model = engine::StepModel::make(GpuSpec{}, LlmSpec{}, 1, engine::HardwareProfile{}, options);
  ASSERT_TRUE(model);
  const auto clocks = calibrate::clocks_to_profile(eco_recipe());
  ASSERT_EQ(clocks.size(), 2U);
  const auto fit = calibrate::fit_latency(*model, options, clocks);
  ASSERT_TRUE(fit) << fit.error().message();
  const auto& f = **fit;
  RecordProperty("decode_mae_us", static_cast<int>(f.decode.mae_ms * 1e3));
  RecordProperty("prefill_mae_us", static_cast<int>(f.prefill.mae_ms * 1e3));
  EXPECT_GT(f.decode.r2, 0.99);
  EXPECT_GT(f.prefill.r2, 0.97);
  EXPECT_EQ(f.ignored, 0);
  // Batches inside the grid, never profiled themselves.
  for (const std::int32_t batch : {12, 77, 100, 200, 300}) {
    for (const std::int64_t kv : {20'000, 120'000}) {
      StepShape shape;
      shape.decode_requests = batch;
      shape.decode_kv_tokens = kv;
      const auto line = model->decode(batch, kv, MegaHertz{1005});
      const double truth = static_cast<double>(line.base + line.slope * kv) /
                           static_cast<double>(std::int64_t{1} << engine::kTimeFractionBits);
      const double belief = static_cast<double>(f.model.step_time(shape, MegaHertz{1005}).ns());
      EXPECT_NEAR(belief / truth, 1.0, 0.05) << batch << " requests, " << kv << " KV tokens";
    }
  }
  EXPECT_EQ(calibrate::fit_latency(*model, options, clocks)->get(), fit->get()) << "equal profiles are fitted once";
}

TEST(BeliefsTest, AFileTakesThePlaceOfProfilingTheSimulatedEngineAndCountsWhatLiesOutsideIt) {
  const auto model =
      engine::StepModel::make(GpuSpec{}, LlmSpec{}, 1, engine::HardwareProfile{}, engine::EngineOptions{});
  ASSERT_TRUE(model);
  const auto folder = std::filesystem::temp_directory_path() / ("wattle-belief-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string text =
      "phase,clock_mhz,from,to,kv_tokens_to,time_us,time_us_per_request,time_ns_per_token,energy_mj,"
      "energy_mj_per_request,energy_uj_per_token,idle_w\n"
      "decode,1005,1,64,100000,7000,10,50,,,,\ndecode,1410,1,64,100000,6000,10,50,,,,\n";
  ASSERT_TRUE(write_file((folder / "belief.csv").string(), text));
  config::Recipe recipe = eco_recipe();
  recipe.name = "measured";
  recipe.file = (folder / "measured.toml").string();  // found beside it
  recipe.predictor_file = "belief.csv";
  const auto ask = [&] { return calibrate::believe_latency(recipe, *model, {}, calibrate::clocks_to_profile(recipe)); };
  const std::vector beliefs{ask().value().model};
  StepShape shape;
  shape.decode_requests = 10;
  shape.decode_kv_tokens = 10'000;
  EXPECT_EQ(beliefs[0]->step_time(shape, MegaHertz{1005}), Span::us(7'600));
  EXPECT_EQ(calibrate::extrapolations(beliefs), 0);
  shape.decode_requests = 65;
  (void)beliefs[0]->step_time(shape, MegaHertz{1005});
  EXPECT_EQ(calibrate::extrapolations(beliefs), 1);

  recipe.predictor.form = "gbdt";
  EXPECT_NE(ask().error().message().find("predictor_file"), std::string::npos);
  recipe.predictor.form = "linear";
  ASSERT_TRUE(write_file((folder / "belief.csv").string(), text + "decode,1410,1,x,100000,6000,10,50,,,,\n"));
  EXPECT_NE(ask().error().message().find("belief.csv:4: to is 'x'"), std::string::npos) << ask().error().message();
  recipe.predictor_file = "absent.csv";
  EXPECT_NE(ask().error().message().find("absent.csv"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Compose, EcoRouteAsksWhatEachInstancesOwnPolicyWouldDo) {
  // 256 requests meet 60 ms at 1005 MHz, 257 do not.
  class Border final : public LatencyModel {
   public:
    [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
      return Span::ms(shape.decode_requests > 256 && clock < MegaHertz{1410} ? 61 : 40);
    }
  } model;
  auto recipe = eco_recipe();
  recipe.route_decode.policy = "eco-route";
  std::vector<RoutedInstance> fleet(2, {Role::Decode, both(), {&model, nullptr}});
  std::vector<InstanceView> views(2);
  for (std::int32_t i = 0; i < 2; ++i) {
    auto& view = views[static_cast<std::size_t>(i)];
    view.id = InstanceId{i};
    view.telemetry = Telemetry::Fresh;
    view.clock_commanded = MegaHertz{1410};
    view.assigned_requests = view.step.shape.decode_requests = i == 0 ? 256 : 280;
  }
  const std::vector<const InstanceView*> candidates{&views[0], &views[1]};
  const auto reason = [&] {
    auto made = make_dispatch_policies(recipe, fleet);
    EXPECT_TRUE(made) << made.error().message();
    RandomStream random(1, "test");
    return std::string(made->route_decode.policy->route({}, candidates, Instant{}, random).reason);
  };
  EXPECT_EQ(reason(), "2a: some rise: lowest clock that stays");
  recipe.route_decode.max_spread = MegaHertz{100};
  EXPECT_EQ(reason(), "2a: some rise: lowest clock that stays") << "both would be at 1410 then";
  recipe.decode_frequency.mode = Mode::Shadow;  // clocks stay where they are
  EXPECT_EQ(reason(), "1a: all clocks equal: its turn");
}

TEST(Compose, EcoRouteNeedsAFleetAndTheDecodeLeg) {
  auto recipe = eco_recipe();
  recipe.file = "r.toml";
  recipe.route_decode.policy = "eco-route";
  const auto blind = make_dispatch_policies(recipe);
  ASSERT_FALSE(blind);
  EXPECT_EQ(blind.error().message(),
            "r.toml: routing.decode.policy: eco-route asks each instance's predictor, and here there are none");
  const std::vector<RoutedInstance> fleet(2, {Role::Decode, both(), {}});
  recipe.route_decode.beyond_spread = "highest";
  const auto wide = make_dispatch_policies(recipe, fleet);
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().where, "r.toml: routing.decode.beyond_spread");
  recipe.route_decode.beyond_spread = "lowest-current";
  EXPECT_TRUE(make_dispatch_policies(recipe, fleet));
  recipe.route_prefill.policy = "eco-route";
  const auto prefill = make_dispatch_policies(recipe, fleet);
  ASSERT_FALSE(prefill);
  EXPECT_EQ(prefill.error().where, "r.toml: routing.prefill.policy");
}

config::Recipe throttllem_recipe() {
  config::Recipe recipe;
  recipe.file = "t.toml";
  recipe.admission.policy = recipe.decode_frequency.policy = "throttllem";
  return recipe;
}

TEST(Compose, ThrottllemSharesOneProjection) {
  const auto recipe = throttllem_recipe();
  Slo slo;
  slo.e2e = Span::s(30);
  const GpuSpec gpu;
  EXPECT_TRUE(needs_latency(recipe, Role::Colocated));
  const auto fleet = make_throttllem(recipe, slo, 16);
  ASSERT_TRUE(fleet && *fleet);
  ASSERT_TRUE(take_desk(*fleet, recipe, InstanceId{0}, Role::Colocated, gpu, nullptr));
  const auto& clocks = (*fleet)->desk(InstanceId{0})->clocks;
  EXPECT_EQ(clocks.front(), gpu.clock_min);
  EXPECT_EQ(clocks.back(), gpu.clock_max);
  EXPECT_EQ(clocks.size(), 81U) << "210 to 1410 MHz by 15";
  EXPECT_TRUE(make_frequency_policy(recipe, Role::Colocated, gpu, slo, *fleet, InstanceId{0}));
  EXPECT_TRUE(make_dispatch_policies(recipe, {}, *fleet));
}

TEST(Compose, NoClockBelowTheLowestAllowed) {
  auto recipe = throttllem_recipe();
  recipe.decode_frequency.lowest_clock = MegaHertz{1005};
  EXPECT_EQ(clocks_on(recipe.decode_frequency, GpuSpec{}).front(), MegaHertz{1005});
  EXPECT_EQ(clocks_on(recipe.decode_frequency, GpuSpec{}).size(), 28U) << "1005 to 1410 MHz by 15";
  Slo slo;
  slo.e2e = Span::s(30);
  const auto fleet = make_throttllem(recipe, slo, 16);
  ASSERT_TRUE(fleet && *fleet);
  ASSERT_TRUE(take_desk(*fleet, recipe, InstanceId{0}, Role::Colocated, GpuSpec{}, nullptr));
  EXPECT_EQ((*fleet)->desk(InstanceId{0})->clocks.front(), MegaHertz{1005});
  for (const std::int32_t beyond : {100, 1500}) {
    recipe.decode_frequency.lowest_clock = MegaHertz{beyond};
    const auto refused = take_desk(*fleet, recipe, InstanceId{0}, Role::Colocated, GpuSpec{}, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().where, "t.toml: frequency.decode.lowest_clock_mhz");
  }
}

TEST(Compose, ThrottllemSaysWhatItLacks) {
  const auto recipe = throttllem_recipe();
  Slo slo;
  const auto aimless = make_throttllem(recipe, slo, 16);
  ASSERT_FALSE(aimless);
  EXPECT_EQ(aimless.error().message(),
            "t.toml: admission.policy: throttllem bounds slo.tbt_ms (mean iteration) and slo.e2e_ms (each request); "
            "state one of them");
  slo.tbt = Span::ms(200);
  const auto fleet = make_throttllem(recipe, slo, 16);
  ASSERT_TRUE(fleet && *fleet);
  EXPECT_FALSE(take_desk(*fleet, recipe, InstanceId{0}, Role::Prefill, GpuSpec{}, nullptr));
  EXPECT_FALSE(make_frequency_policy(recipe, Role::Colocated, GpuSpec{}, slo, *fleet, InstanceId{0})) << "no desk";
  EXPECT_FALSE(make_frequency_policy(recipe, Role::Colocated, GpuSpec{}, slo)) << "another process";
  EXPECT_FALSE(make_dispatch_policies(recipe));
  auto clocks = recipe;
  clocks.decode_frequency.clocks = {MegaHertz{900}, MegaHertz{900}};
  EXPECT_FALSE(take_desk(*fleet, clocks, InstanceId{0}, Role::Colocated, GpuSpec{}, nullptr));
  clocks.decode_frequency.clocks = {MegaHertz{900}, MegaHertz{1500}};
  EXPECT_FALSE(take_desk(*fleet, clocks, InstanceId{0}, Role::Colocated, GpuSpec{}, nullptr));
}

TEST(Compose, OtherRecipesTakeNoDesk) {
  const auto fleet = make_throttllem(eco_recipe(), both(), 16);
  ASSERT_TRUE(fleet);
  EXPECT_EQ(*fleet, nullptr);
  EXPECT_TRUE(take_desk(*fleet, eco_recipe(), InstanceId{0}, Role::Prefill, GpuSpec{}, nullptr));
}

TEST(Compose, ScalingTakesShapesThatAscend) {
  config::Recipe recipe;
  recipe.file = "r.toml";
  const auto none = make_scaling_policy(recipe, {{1, 1.0, Span()}});
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  recipe.scaling.policy = "smallest-engine";
  EXPECT_TRUE(make_scaling_policy(recipe, {{1, 1.0, Span()}, {2, 3.0, Span()}}));
  const auto wrong = make_scaling_policy(recipe, {{1, 3.0, Span()}, {2, 3.0, Span()}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("r.toml: scaling.policy"), std::string::npos);
  EXPECT_NE(wrong.error().message().find("in order of size"), std::string::npos);
  recipe.scaling.policy = "largest";
  EXPECT_FALSE(make_scaling_policy(recipe, {{1, 1.0, Span()}}));
}

}  // namespace
}  // namespace wattle::systems
