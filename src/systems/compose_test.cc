#include "systems/compose.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "calibrate/beliefs.h"
#include "config/load.h"
#include "config/test_texts.h"
#include "engine/hardware_profile.h"
#include "learn/length_trainer.h"
#include "policy/throttllem/throttllem.h"

namespace wattle::systems {
namespace {

Recipe recipe(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto loaded = recipe_from_text(text, "r.toml", config::parse_overrides(overrides).value());
  EXPECT_TRUE(loaded) << loaded.error().message();
  return loaded ? loaded->recipe : Recipe{};
}

const char* const kEco = "[frequency]\npolicy = \"eco-freq\"\nclocks_mhz = [1005, 1410]\n";
const char* const kForecast = "[frequency]\npolicy = \"throttllem\"\n[admission]\npolicy = \"throttllem\"\n";

Slo both() {
  Slo slo;
  slo.ttft = Span::ms(600);
  slo.itl = Span::ms(60);
  return slo;
}

InstanceSpec spec(Role role, const Slo& slo, const LatencyModel* latency = nullptr) {
  InstanceSpec made;
  made.role = role;
  made.slo = slo;
  made.clocks = supported_clocks(made.gpu);
  made.beliefs.latency = latency;
  return made;
}

std::string clock_error(const Recipe& recipe, const InstanceSpec& spec) {
  const auto dispatch = make_dispatch_policies(recipe);
  if (!dispatch) return dispatch.error().message();
  const auto made = make_clock_policy(recipe, spec, dispatch->admission.policy);
  return made ? std::string() : made.error().message();
}

TEST(Compose, MakesEveryKnownPolicy) {
  for (const char* routing : {"round-robin", "least-loaded", "power-of-two", "weighted-round-robin", "tile-aware"}) {
    for (const char* admission : {"always", "bounded"}) {
      const auto made =
          make_dispatch_policies(recipe("", {std::string("routing.policy=") + routing,
                                             std::string("admission.policy=") + admission, "admission.mode=shadow"}));
      ASSERT_TRUE(made) << made.error().message();
      EXPECT_TRUE(made->admission.policy && made->queueing.policy && made->route_prefill.policy &&
                  made->route_decode.policy);
      EXPECT_EQ(made->admission.mode, Mode::Shadow);
      EXPECT_EQ(made->queueing.mode, Mode::Enforce);
    }
  }
  for (const char* frequency : {"static", "idle-parking", "eco-freq"}) {
    const bool eco = std::string_view(frequency) == "eco-freq";
    const auto with = eco ? recipe(kEco) : recipe(std::string("[frequency]\npolicy = \"") + frequency + "\"");
    EXPECT_EQ(clock_error(with, spec(Role::Decode, both())), "") << frequency;
    EXPECT_EQ(needs_latency(with, Role::Decode), eco);
  }
}

TEST(Compose, LengthTreesAreMadeOfAFileAndNothingElseIs) {
  EXPECT_EQ(make_length_learner(recipe("[length]\nsource = \"learned\"")).value(), nullptr);
  const auto plain = make_length_learner(recipe("[length]\nsource = \"trees\""));
  ASSERT_TRUE(plain && *plain);
  EXPECT_EQ((*plain)->trees(), nullptr);
  const auto belief = make_length_belief(recipe("[length]\nsource = \"trees\"")).value();
  Request hinted;
  hinted.max_tokens = 100;
  hinted.predicted_output_tokens = 33;
  EXPECT_EQ(belief->predict(hinted), 33) << "what the trees say is a hint";

  const std::filesystem::path file = temporary_folder() / ("wattle-trees-" + std::to_string(::getpid()));
  const auto with = [&] {
    return make_length_learner(recipe("", {"length.source=trees", "length.trees=" + file.string()}));
  };
  const auto absent = with();
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message().find(file.string()), std::string::npos);
  ASSERT_TRUE(write_file(file.string(), "no trees"));
  const auto wrong = with();
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find(file.string()), std::string::npos);
  std::vector<predict::LengthAnswer> answers(50, {predict::features_of({10}), 20});
  ASSERT_TRUE(write_file(file.string(), learn::train_length_trees(answers).value()));
  const auto begun = with();
  ASSERT_TRUE(begun) << begun.error().message();
  EXPECT_EQ((*begun)->predict(predict::features_of({10})), 20);
  std::filesystem::remove(file);
}

TEST(Compose, ThePrimalDualClockNeedsTimesAndPowerOfTheClocksItMayChoose) {
  const auto with = recipe("[frequency]\npolicy = \"primal-dual\"");
  EXPECT_TRUE(needs_latency(with, Role::Colocated) && needs_power(with, Role::Colocated));
  const InstanceSpec instance = spec(Role::Colocated, both());
  const auto clocks = clocks_to_predict(with, instance);
  EXPECT_GE(clocks.front(), MegaHertz{300});
  EXPECT_EQ(clocks.back(), instance.clocks.back());
  EXPECT_LE(clocks.size(), 16U);
  EXPECT_EQ(clock_error(with, instance), "");
  EXPECT_NE(clock_error(recipe("[frequency]\npolicy = \"primal-dual\"\nfloor_mhz = 9000"), instance).find("floor_mhz"),
            std::string::npos);
}

TEST(Compose, ARouterThatWeighsStepsNeedsBeliefsOfInstancesWithDecodesWhateverTheClocks) {
  const auto with = recipe("[routing.decode]\npolicy = \"best-batch\"");
  EXPECT_TRUE(needs_latency(with, Role::Decode) && needs_power(with, Role::Decode));
  EXPECT_FALSE(needs_latency(with, Role::Prefill) || needs_power(with, Role::Prefill));
  EXPECT_FALSE(needs_latency(with, Role::Colocated) || needs_power(with, Role::Colocated));
  InstanceSpec instance = spec(Role::Decode, both());
  instance.clocks = {MegaHertz(1005), MegaHertz(1410)};
  using Clocks = std::vector<MegaHertz>;
  EXPECT_EQ(clocks_to_predict(with, instance), (Clocks{instance.gpu.clock_min, instance.gpu.clock_max}));
  const auto miad = recipe("[routing.decode]\npolicy = \"best-batch\"\n[frequency]\npolicy = \"miad\"");
  EXPECT_EQ(clocks_to_predict(miad, instance), instance.clocks) << "any of them";
  const auto off = recipe("[routing.decode]\npolicy = \"best-batch\"\nmode = \"off\"");
  EXPECT_FALSE(needs_latency(off, Role::Decode) || needs_power(off, Role::Decode));
  const auto all = recipe("[routing]\npolicy = \"best-batch\"");
  EXPECT_TRUE(make_dispatch_policies(all));
  EXPECT_TRUE(needs_latency(all, Role::Colocated) && needs_power(all, Role::Colocated));
  EXPECT_FALSE(needs_latency(all, Role::Prefill) || needs_power(all, Role::Prefill)) << "it only spreads prompts";
}

TEST(Compose, WithoutClocksTheGpusOwnLimitsHold) {
  const auto made = make_clock_policy(recipe("[frequency]\npolicy = \"idle-parking\""), spec(Role::Decode, {}));
  ASSERT_TRUE(made);
  InstanceView view;
  EXPECT_EQ(made->policy->choose(view, Instant{}).clock, GpuSpec{}.clock_min);
  view.telemetry = Telemetry::Fresh;
  view.step.shape.decode_requests = 1;
  EXPECT_EQ(made->policy->choose(view, Instant{}).clock, GpuSpec{}.clock_max);
}

TEST(Compose, RefusesWhatCannotWork) {
  const auto message = [&](Role role, const Slo& slo, const std::vector<std::string>& overrides = {}) {
    return clock_error(recipe(kEco, overrides), spec(role, slo));
  };
  Slo only_ttft;
  only_ttft.ttft = Span::ms(600);
  EXPECT_EQ(message(Role::Prefill, only_ttft), "");
  EXPECT_NE(message(Role::Decode, only_ttft).find("slo.itl"), std::string::npos);
  EXPECT_NE(message(Role::Colocated, only_ttft).find("slo.itl"), std::string::npos);
  Slo mean_gap = only_ttft;
  mean_gap.tbt = Span::ms(60);
  EXPECT_EQ(message(Role::Colocated, mean_gap), "") << "each gap is held to it";
  EXPECT_NE(message(Role::Prefill, {}).find("slo.ttft"), std::string::npos);
  EXPECT_NE(message(Role::Decode, both(), {"frequency.clocks_mhz=1005,1980"}).find("1980 MHz is outside"),
            std::string::npos);
  EXPECT_NE(message(Role::Decode, both(), {"frequency.clocks_mhz=1003,1410"}).find("nearest: 990 and 1005"),
            std::string::npos);
}

TEST(Compose, NoClockIsChosenThatWasNotMeasured) {
  Slo slo = both();
  slo.tbt = Span::ms(60);
  InstanceSpec instance = spec(Role::Colocated, slo);
  const auto forecast = recipe(kForecast, {"predictor_file=belief.csv"});
  EXPECT_EQ(clocks_to_predict(forecast, instance), instance.clocks) << "simulated engines are measured at any";
  instance.beliefs.clocks = {MegaHertz{1005}, MegaHertz{1395}};
  const auto chosen = clocks_to_predict(forecast, instance);
  ASSERT_FALSE(chosen.empty());
  EXPECT_EQ(chosen.front(), MegaHertz{1005});
  EXPECT_EQ(chosen.back(), MegaHertz{1395});
  EXPECT_EQ(clock_error(forecast, instance), "");
  const auto refused = [&](const Recipe& with, const char* key, const char* why) {
    const std::string error = clock_error(with, instance);
    EXPECT_NE(error.find(key), std::string::npos) << error;
    EXPECT_NE(error.find(why), std::string::npos) << error;
    EXPECT_NE(error.find("belief.csv"), std::string::npos) << error;
  };
  const char* const kEitherClock = "frequency.clocks_mhz=1005,1410";
  for (const char* text : {kForecast, kEco}) {
    refused(recipe(text, {"predictor_file=belief.csv", kEitherClock}), "frequency.clocks_mhz",
            "1410 MHz is outside the 1005 to 1395 MHz");
    EXPECT_EQ(clock_error(recipe(text, {"predictor_file=belief.csv", "frequency.clocks_mhz=1005,1200"}), instance), "");
  }
  EXPECT_FALSE(check_admission(recipe(kEco, {"predictor_file=belief.csv"}), instance)) << "a router asks, too";
  instance.sweet_clock = MegaHertz{1050};
  const char* const kBelow = "frequency.clocks_mhz=[\"sweet-30%\", \"sweet\", 1395]";
  EXPECT_EQ(clock_error(recipe(kEco, {"predictor_file=belief.csv", kBelow}), instance), "") << "1005 and no lower";
  EXPECT_EQ(clock_error(recipe("[frequency]\npolicy = \"static\"\nclock_mhz = 1410\n"), instance), "")
      << "chosen without a belief";
  instance.beliefs.clocks = {MegaHertz{1001}, MegaHertz{1004}};
  refused(forecast, "lowest_clock_mhz", "1001 to 1004 MHz");
}

TEST(Compose, MorePoolsThanClassesAreRefusedBeforeAnyClockIsChosen) {
  const auto loads = std::make_shared<plan::LoadTable>();
  loads->classes.resize(2);
  const auto message = [&](const char* pools) {
    const auto of = recipe("[frequency]\npolicy = \"dynamollm\"\n", {std::string("frequency.pools=") + pools});
    const auto made = make_clock_policy(of, spec(Role::Colocated, both()), nullptr, loads);
    return made ? std::string() : made.error().message();
  };
  EXPECT_EQ(message("2"), "");
  EXPECT_TRUE(message("3").starts_with("--set frequency.pools: is 3; the scenario has 2 classes")) << message("3");
  loads->classes.resize(1);
  EXPECT_NE(message("2").find("pools: is 2; the scenario has 1 class;"), std::string::npos) << message("2");
}

TEST(Compose, BothManagersOfDynamoLlmShareClassesOutOverTheSamePools) {
  const auto loads = std::make_shared<plan::LoadTable>();
  loads->classes.resize(4);
  const auto message = [&](const char* planned, const char* own) {
    const auto of = recipe("[frequency]\npolicy = \"dynamollm\"\n[scaling]\npolicy = \"dynamollm\"\n",
                           {std::string("scaling.pools=") + planned, std::string("frequency.pools=") + own});
    const auto made = make_clock_policy(of, spec(Role::Colocated, both()), nullptr, loads);
    return made ? std::string() : made.error().message();
  };
  EXPECT_EQ(message("3", "3"), "");
  EXPECT_EQ(message("3", "0"), "") << "what [scaling] says";
  EXPECT_NE(message("3", "2").find("is 2, and scaling.pools is 3"), std::string::npos) << message("3", "2");
  EXPECT_NE(message("5", "0").find("is 5; the scenario has 4 classes"), std::string::npos) << message("5", "0");
}

TEST(BeliefsTest, FitExplainsTheEngineItWasProfiledOn) {
  const engine::EngineOptions options;
  const auto model = engine::StepModel::make(GpuSpec{}, LlmSpec{}, 1, engine::HardwareProfile{}, options);
  ASSERT_TRUE(model);
  const auto clocks = clocks_to_predict(recipe(kEco), InstanceSpec{});
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
  calibrate::PredictorOptions predictor;
  predictor.file = "belief.csv";
  const auto ask = [&] {  // found next to the recipe
    return calibrate::believe_latency(predictor, {"measured", (folder / "measured.toml").string(), {}}, *model, {},
                                      clocks_to_predict(recipe(kEco), InstanceSpec{}));
  };
  const std::vector beliefs{ask().value().model};
  StepShape shape;
  shape.decode_requests = 10;
  shape.decode_kv_tokens = 10'000;
  EXPECT_EQ(beliefs[0]->step_time(shape, MegaHertz{1005}), Span::us(7'600));
  EXPECT_EQ(calibrate::extrapolations(beliefs), 0);
  shape.decode_requests = 65;
  (void)beliefs[0]->step_time(shape, MegaHertz{1005});
  EXPECT_EQ(calibrate::extrapolations(beliefs), 1);

  predictor.form = "ips";
  const auto rates = ask();
  ASSERT_TRUE(rates) << rates.error().message();
  shape.decode_requests = 10;
  const double said = rates->model->step_time(shape, MegaHertz{1005}).millis();
  EXPECT_NEAR(said, 7.6, 0.76) << "throttLL'eM's M, of rates that an engine of these lines would have";
  predictor.form = "linear";
  predictor.online = true;
  const auto learning = ask().value();
  ASSERT_NE(learning.learner, nullptr);
  shape.decode_requests = 10;
  EXPECT_EQ(learning.model->step_time(shape, MegaHertz{1005}), Span::us(7'600)) << "it begins with what was measured";
  predictor.online = false;
  ASSERT_TRUE(write_file((folder / "belief.csv").string(), text + "decode,1410,1,x,100000,6000,10,50,,,,\n"));
  EXPECT_NE(ask().error().message().find("belief.csv:4: to is 'x'"), std::string::npos) << ask().error().message();
  predictor.file = "absent.csv";
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
  const InstanceSpec decode = spec(Role::Decode, both(), &model);
  std::vector<InstanceView> views(2);
  for (std::int32_t i = 0; i < 2; ++i) {
    auto& view = views[static_cast<std::size_t>(i)];
    view.id = InstanceId{i};
    view.spec = &decode;
    view.telemetry = Telemetry::Fresh;
    view.clock_commanded = MegaHertz{1410};
    view.assigned_requests = view.step.shape.decode_requests = i == 0 ? 256 : 280;
  }
  const std::vector<const InstanceView*> candidates{&views[0], &views[1]};
  const auto reason = [&](const std::vector<std::string>& overrides) {
    const auto made =
        make_dispatch_policies(recipe(std::string(kEco) + "[routing.decode]\npolicy = \"eco-route\"\n", overrides));
    EXPECT_TRUE(made) << made.error().message();
    for (const auto& view : views) made->route_decode.policy->observe(event::Joined{view}, Instant{});
    RandomStream random(1, "test");
    return std::string(made->route_decode.policy->route({}, candidates, Instant{}, random).reason);
  };
  EXPECT_EQ(reason({}), "2a: some rise: lowest clock that stays");
  EXPECT_EQ(reason({"routing.decode.max_spread_mhz=100"}), "2a: some rise: lowest clock that stays")
      << "both would be at 1410 then";
  EXPECT_EQ(reason({"frequency.decode.mode=shadow"}), "1a: all clocks equal: its turn") << "clocks stay where they are";
}

/// Where requests go, and that they go on at once.
class Places final : public control::RequestPort {
 public:
  void start(const Request& request, control::Tag, const RouteDecision&, Instant now) override {
    loop->prefill_done(request.id, now);
  }
  void hand_over(const Request&, control::Tag, InstanceId, const RouteDecision& decode, Instant) override {
    ++decodes[decode.instance];
  }
  control::Served refuse(const Request&, control::Tag, control::Refusal, const char*, Instant) override { return {}; }
  control::FleetLoop* loop = nullptr;
  std::map<InstanceId, int> decodes;
};

TEST(Compose, ADecodeInstanceThatJoinsLateGetsRequestsUnderEcoRoute) {
  // 8 requests meet 60 ms at the low clock; more need the high one.
  class Border final : public LatencyModel {
   public:
    [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
      return Span::ms(shape.decode_requests > 8 && clock < MegaHertz{1410} ? 61 : 40);
    }
  } model;
  const auto shipped = load_recipe("voltanallm", config::parse_overrides({"frequency.clocks_mhz=1005,1410"}).value(),
                                   config::testing::project());
  ASSERT_TRUE(shipped) << shipped.error().message();
  auto policies = make_dispatch_policies(shipped->recipe);
  ASSERT_TRUE(policies) << policies.error().message();
  const InstanceSpec prefill = spec(Role::Prefill, both(), &model);
  const InstanceSpec decode = spec(Role::Decode, both(), &model);
  std::vector<InstanceView> views(2);
  views[1].id = InstanceId{1};
  views[0].spec = &prefill;
  views[1].spec = &decode;
  Places places;
  journal::Sink sink;
  control::FleetLoop loop(views, std::move(*policies), 1, {}, places, sink);
  places.loop = &loop;
  std::int64_t next = 0;
  const auto arrive = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Request request;
      request.id = RequestId{next++};
      request.prompt_tokens = 100;
      loop.arrive(request, 0, Instant(next));
    }
  };
  arrive(8);
  InstanceView late;
  late.spec = &decode;
  late.clock_commanded = MegaHertz{1980};  // as an engine starts
  const InstanceId joined = loop.add_instance(late, Instant(next));
  arrive(8);
  EXPECT_EQ(places.decodes[InstanceId{1}], 8) << "one more would raise its clock";
  EXPECT_EQ(places.decodes[joined], 8);
}

TEST(Compose, EcoRouteIsForTheDecodeLeg) {
  const auto prefill = make_dispatch_policies(recipe("[routing.prefill]\npolicy = \"eco-route\"\n"));
  ASSERT_FALSE(prefill);
  EXPECT_EQ(prefill.error().where, "r.toml:2: routing.prefill.policy");
}

TEST(Compose, OneObjectAdmitsAndChoosesClocks) {
  const auto with = recipe(kForecast);
  Slo slo;
  slo.e2e = Span::s(30);
  const InstanceSpec colocated = spec(Role::Colocated, slo);
  EXPECT_TRUE(needs_latency(with, Role::Colocated));
  EXPECT_TRUE(needs_step_reports(with));
  const auto dispatch = make_dispatch_policies(with);
  ASSERT_TRUE(dispatch);
  const auto& admission = dispatch->admission.policy;
  const auto clock = make_clock_policy(with, colocated, admission);
  ASSERT_TRUE(clock);
  EXPECT_EQ(dynamic_cast<policy::Policy*>(clock->policy.get()), dynamic_cast<policy::Policy*>(admission.get()));
  EXPECT_EQ(clocks_to_predict(with, colocated).size(), 81U) << "210 to 1410 MHz by 15";
  InstanceSpec fine = colocated;
  fine.gpu.clock_step = MegaHertz(1);
  fine.clocks = supported_clocks(fine.gpu);
  EXPECT_EQ(fine.clocks.size(), 1201U);
  EXPECT_EQ(clocks_to_predict(with, fine), colocated.clocks) << "no nearer to each other, and from the highest down";
  EXPECT_FALSE(make_clock_policy(with, colocated)) << "admission is in another process";
}

TEST(Compose, NoClockBelowTheLowestAllowed) {
  Slo slo;
  slo.e2e = Span::s(30);
  const auto with = recipe(kForecast, {"frequency.lowest_clock_mhz=1005"});
  const auto clocks = clocks_to_predict(with, spec(Role::Colocated, slo));
  EXPECT_EQ(clocks.front(), MegaHertz{1005});
  EXPECT_EQ(clocks.size(), 28U) << "1005 to 1410 MHz by 15";
  const auto beyond =
      check_instance(recipe(kForecast, {"frequency.lowest_clock_mhz=1500"}), spec(Role::Colocated, slo));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().where, "--set frequency.lowest_clock_mhz");
}

TEST(Compose, AdmissionByForecastSaysWhatItLacks) {
  const auto with = recipe(kForecast);
  Slo slo;
  const auto aimless = check_instance(with, spec(Role::Colocated, slo));
  ASSERT_FALSE(aimless);
  EXPECT_EQ(aimless.error().message(),
            "r.toml:4: admission.policy: throttllem bounds slo.tbt_ms (mean iteration) and slo.e2e_ms (each request); "
            "state one of them");
  slo.tbt = Span::ms(200);
  EXPECT_TRUE(check_instance(with, spec(Role::Colocated, slo)));
  EXPECT_FALSE(check_instance(with, spec(Role::Prefill, slo)));
  EXPECT_FALSE(check_instance(recipe(kForecast, {"frequency.clocks_mhz=900,1500"}), spec(Role::Colocated, slo)));
}

TEST(Compose, ClocksThatDoNotAscendOnAGpuAreNamed) {
  const auto with = recipe("[frequency]\npolicy = \"eco-freq\"\nclocks_mhz = [\"sweet\", 1200, \"max\"]\n");
  InstanceSpec there = spec(Role::Colocated, both());
  there.sweet_clock = MegaHertz(1305);
  const auto falls = check_instance(with, there);
  ASSERT_FALSE(falls);
  EXPECT_NE(falls.error().what.find("they are 1305, 1200, 1410 MHz"), std::string::npos) << falls.error().message();
}

TEST(Compose, ScalingTakesShapesThatAscend) {
  const auto none = make_scaling_policy(recipe(""), {.shapes = {{1, 1.0, Span()}}});
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  const auto with = recipe("[scaling]\npolicy = \"smallest-engine\"\n");
  EXPECT_TRUE(make_scaling_policy(with, {.shapes = {{1, 1.0, Span()}, {2, 3.0, Span()}}}));
  const auto wrong = make_scaling_policy(with, {.shapes = {{1, 3.0, Span()}, {2, 3.0, Span()}}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("r.toml:2: scaling.policy"), std::string::npos);
  EXPECT_NE(wrong.error().message().find("in order of size"), std::string::npos);
}

}  // namespace
}  // namespace wattle::systems
