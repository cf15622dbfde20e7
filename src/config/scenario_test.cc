// Scenarios: which load, which are refused, with which place and remedy.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "config/load.h"
#include "config/service.h"
#include "config/sites.h"
#include "config/test_texts.h"

namespace wattle::config {
namespace {

using testing::edited;
using testing::kScenario;

Result<LoadedScenario> load(const std::string& text, const std::vector<std::string>& set = {}) {
  const auto overrides = parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return scenario_from_text(text, "s.toml", *overrides, testing::project());
}

TEST(ScenarioText, TheStartingPointIsValidAndNamedAfterItsFile) {
  const auto loaded = load(kScenario);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->scenario.name, "s");
  EXPECT_EQ(loaded->scenario.file, "s.toml");
  EXPECT_EQ(loaded->llm.name, "llama-3.1-8b");
  ASSERT_EQ(loaded->gpus.size(), 1U);
  EXPECT_EQ(loaded->gpus[0].name, "a100-80g");
  EXPECT_EQ(loaded->scenario.slo.ttft, Span::ms(600));
}

TEST(ScenarioText, UnitsOfTheTextBecomeUnitsOfTheStruct) {
  const auto loaded = load(kScenario + R"(
[engine]
activation_gb_per_gpu = 3.5
[link]
bandwidth_gb_per_s = 12.5
latency_ms = 0.25
[clock]
call_ms = 8
[carbon]
intensity_g_per_kwh = 250
[cost]
price_usd_per_h = 1.75
[report]
sample_period_s = 0.5
)");
  ASSERT_TRUE(loaded) << loaded.error().message();
  const Scenario& s = loaded->scenario;
  EXPECT_DOUBLE_EQ(s.engine.activation_bytes_per_gpu, 3.5e9);
  EXPECT_DOUBLE_EQ(s.link.bandwidth_bytes_per_s, 12.5e9);
  EXPECT_EQ(s.link.latency, Span::us(250));
  EXPECT_EQ(s.clock_delays.call, Span::ms(8));
  EXPECT_EQ(s.carbon_intensity, GramsPerKwh{250.0});
  EXPECT_EQ(s.gpu_price, UsdPerHour{1.75});
  EXPECT_EQ(s.sample_period, Span::ms(500));
}

TEST(ScenarioText, SitesAreAList) {
  const std::string two = std::string(kScenario) + R"(
[[site]]
name = "north"
intensity_g_per_kwh = 30
gpu_usd_per_h = 1.5
[[site]]
name = "south"
electricity_usd_per_mwh = -5
)";
  const auto loaded = load(two, {"fleet.site=south", "site.1.intensity_g_per_kwh=700"});
  ASSERT_TRUE(loaded) << loaded.error().message();
  ASSERT_EQ(loaded->scenario.sites.size(), 2U);
  EXPECT_EQ(loaded->scenario.sites[0].gpu, UsdPerHour(1.5));
  EXPECT_EQ(loaded->scenario.sites[1].intensity, GramsPerKwh(700.0));
  EXPECT_EQ(site_of(loaded->scenario, loaded->scenario.pools[0]), SiteId(1));
  const auto problem = [&](const std::string& text, const std::vector<std::string>& set) {
    const auto bad = load(text, set);
    return bad ? std::string("accepted") : bad.error().message();
  };
  EXPECT_EQ(problem(two, {"fleet.site=west"}), "--set fleet.0.site: there is no [[site]] of the name \"west\"");
  EXPECT_EQ(problem(two, {"site.name=x"}), "--set site.1.name: there is a site of that name already");
  EXPECT_EQ(problem(two, {"carbon.intensity_g_per_kwh=1"}),
            "--set carbon.intensity_g_per_kwh: carbon.intensity_g_per_kwh has no effect with [[site]]; set it there");
  EXPECT_EQ(problem(kScenario, {"site.gpu_usd_per_h=1"}),
            "--set site.gpu_usd_per_h: the scenario has no [[site]] section");
  EXPECT_EQ(problem(two, {"site.2.gpu_usd_per_h=1"}),
            "--set site.2.gpu_usd_per_h: there is no site 2; the scenario has 2, counted from 0");
}

struct Bad {
  const char* name;
  const char* from;
  const char* to;
  const char* where;
  std::vector<const char*> says;
};

class BadScenario : public ::testing::TestWithParam<Bad> {};

TEST_P(BadScenario, IsRefusedAtItsLineWithARemedy) {
  const Bad& bad = GetParam();
  const auto loaded = load(edited(kScenario, bad.from, bad.to));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::BadInput);
  EXPECT_EQ(loaded.error().where, bad.where) << loaded.error().message();
  for (const char* part : bad.says)
    EXPECT_NE(loaded.error().what.find(part), std::string::npos) << loaded.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadScenario,
    ::testing::Values(
        Bad{"MisspeltKey", "ttft_ms", "tfft_ms", "s.toml:5", {"unknown key slo.tfft_ms", "did you mean slo.ttft_ms?"}},
        Bad{"KeyOfAnotherSection",
            "ttft_ms = 600",
            "rate_scale = 2",
            "s.toml:5",
            {"did you mean workload.rate_scale?"}},
        Bad{"KeyLikeNothing",
            "ttft_ms = 600",
            "colourfulness = 2",
            "s.toml:5",
            {"known here: slo.ttft_ms, slo.itl_ms"}},
        Bad{"MisspeltSection", "[slo]", "[sol]", "s.toml:4", {"unknown section [sol]", "did you mean [slo]?"}},
        Bad{"EmptyUnknownSection", "[slo]", "[zzz]\n[slo]", "s.toml:4", {"unknown section [zzz]", "known sections"}},
        Bad{"MisspeltPoolKey", "gpu =", "gpus =", "s.toml:8", {"unknown key fleet.gpus", "did you mean fleet.gpu?"}},
        Bad{"DottedQuotedKey", "[slo]", "\"slo.itl_ms\" = 3\n[slo]", "s.toml:4", {"without quotes"}},
        Bad{"ValueInPlaceOfSection", "llm =", "link = 3\nllm =", "s.toml:1", {"link is an integer", "section [link]"}},
        Bad{"SectionInPlaceOfValue", "[slo]", "[slo.itl_ms]", "s.toml:4", {"slo.itl_ms is a table", "number"}},
        Bad{"SectionAsList", "[slo]", "[[slo]]", "s.toml:4", {"write [slo], once"}},
        Bad{"TwiceTheSameKey", "ttft_ms = 600", "ttft_ms = 600\nttft_ms = 700", "s.toml:6", {"not valid TOML"}},
        Bad{"Truncated", "role = \"colocated\"\ngpu = \"a100-80g\"", "role = \"colo", "s.toml:7", {"not valid TOML"}},
        Bad{"NoLlm", "llm = \"llama-3.1-8b\"\n", "", "s.toml:1", {"llm is missing", "specs/llms"}},
        Bad{"NoGpu", "gpu = \"a100-80g\"", "", "s.toml:6", {"fleet.gpu is missing", "specs/gpus"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Values, BadScenario,
    ::testing::Values(
        Bad{"TextForNumber", "600", "\"600\"", "s.toml:5", {"slo.ttft_ms is text", "number (ms)"}},
        Bad{"FractionForInteger", "[workload]", "[workload]\nrequests = 10.5", "s.toml:3", {"is a number", "integer"}},
        Bad{"IntegerForText", "\"llama-3.1-8b\"", "8", "s.toml:1", {"llm is an integer", "text"}},
        Bad{"DateForNumber", "600", "2026-01-01", "s.toml:5", {"date"}},
        Bad{"ListForNumber", "600", "[600]", "s.toml:5", {"is a list"}},
        Bad{"NumberForBoolean", "[slo]", "[engine]\nchunked_prefill = 1\n[slo]", "s.toml:5", {"true or false"}},
        Bad{"ZeroSlo", "600", "0", "s.toml:5", {"slo.ttft_ms is 0", ">= 0.001"}},
        Bad{"NegativeSlo", "600", "-5", "s.toml:5", {"is -5", ">= 0.001"}},
        Bad{"NanSlo", "600", "nan", "s.toml:5", {"finite"}}, Bad{"InfiniteSlo", "600", "inf", "s.toml:5", {"finite"}},
        Bad{"ZeroRate", "rate_per_s = 2", "rate_per_s = 0.0", "s.toml:3", {"> 0"}},
        Bad{"NegativeSeed", "[workload]", "seed = -1\n[workload]", "s.toml:2", {"seed is -1", ">= 0"}},
        Bad{"NegativeCount", "role =", "count = -1\nrole =", "s.toml:7", {"fleet.count is -1", ">= 0"}},
        Bad{"NothingToBeginWith",
            "role =",
            "count = 0\nrole =",
            "s.toml:7",
            {"no instance to begin with", "count >= 1"}},
        Bad{"SplitFleetWithoutDecode",
            "role = \"colocated\"\ngpu = \"a100-80g\"",
            "role = \"prefill\"\ngpu = \"a100-80g\"\n[[fleet]]\nrole = \"decode\"\ncount = 0\ngpu = \"a100-80g\"",
            "s.toml:11",
            {"no decode instance", "count >= 1"}},
        Bad{"CountBeyondInt32", "role =", "count = 5000000000\nrole =", "s.toml:7", {"<= 100000"}},
        Bad{"UnknownRole", "colocated", "colocatd", "s.toml:7", {"did you mean \"colocated\"?"}},
        Bad{"UnknownFormat", "rate_per_s", "format = \"csv\"\nrate_per_s", "s.toml:3", {"azure", "mooncake"}},
        Bad{"UnknownFallback", "rate_per_s", "fallback = \"azure\"\nrate_per_s", "s.toml:3", {"azure-conv"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Fleets, BadScenario,
    ::testing::Values(
        Bad{"UnknownGpu", "a100-80g", "a100-80gb", "s.toml:8", {"did you mean \"a100-80g\"?", "h100", "specs/gpus"}},
        Bad{"UnknownLlm", "llama-3.1-8b", "llama-9", "s.toml:1", {"unknown LLM \"llama-9\"", "qwen3-8b"}},
        Bad{"NoPool", "[[fleet]]\nrole = \"colocated\"\ngpu = \"a100-80g\"", "", "s.toml:1", {"add a [[fleet]]"}},
        Bad{"EmptyFleet", "llm =", "fleet = []\nllm =", "s.toml:7", {"not valid TOML"}},
        Bad{"SinglePoolTable", "[[fleet]]", "[fleet]", "s.toml:8", {"[[fleet]]"}},
        Bad{"PowerLimitThatNoDriverTakes",
            "[slo]",
            "[engine]\npower_limit_w = 60\n[slo]",
            "s.toml:5",
            {"from 100 W to its TDP of 400 W"}},
        Bad{"PowerLimitAboveTdp", "[slo]", "[engine]\npower_limit_w = 500\n[slo]", "s.toml:5", {"TDP of 400 W"}},
        Bad{"IdleAtTdp", "[slo]", "[engine]\nidle_gpu_w = 400\n[slo]", "s.toml:5", {"draws less than its TDP"}},
        Bad{"TensorParallelDoesNotDivide",
            "role =",
            "tensor_parallel = 3\nrole =",
            "s.toml:7",
            {"tensor_parallel 3", "32 heads"}},
        Bad{"DataParallelWithoutExperts",
            "role =",
            "data_parallel = 2\nrole =",
            "s.toml:9",
            {"data_parallel shares experts", "count"}},
        Bad{"ExpertParallelDoesNotDivide",
            "role =",
            "expert_parallel = 2\nrole =",
            "s.toml:9",
            {"expert_parallel 2 must divide"}},
        Bad{"MoreStagesThanLayers", "role =", "pipeline_parallel = 33\nrole =", "s.toml:9", {"the 32 layers"}},
        Bad{"WeightsAboveMemory",
            "llama-3.1-8b",
            "llama-3.1-70b",
            "s.toml:6",
            {"impossible fleet", "141.1 GB", "75.3 GB", "smallest tensor_parallel that fits is 2"}},
        Bad{"NoTensorParallelFits",
            "[slo]",
            "[engine]\ngpu_memory_utilization = 0.02\n[slo]",
            "s.toml:8",
            {"impossible fleet", "more memory"}},
        Bad{"NoRoomForOneRequest",
            "[workload]",
            "[workload]\nmax_prompt_tokens = 1000000",
            "s.toml:7",
            {"impossible fleet", "workload.max_prompt_tokens", "smallest tensor_parallel that fits is 2"}},
        Bad{"PrefillWithoutDecode", "colocated", "prefill", "s.toml:7", {"without a decode pool", "role = \"decode\""}},
        Bad{"DecodeWithoutPrefill", "colocated", "decode", "s.toml:7", {"without a prefill pool"}},
        Bad{"ColocatedBesidePrefill",
            "[[fleet]]",
            "[[fleet]]\nrole = \"prefill\"\ngpu = \"h100\"\n[[fleet]]\nrole = \"decode\"\ngpu = \"h100\"\n[[fleet]]",
            "s.toml:6",
            {"count = 0", "scaling.pairs"}},
        Bad{"DuplicatePool",
            "[[fleet]]",
            "[[fleet]]\ngpu = \"a100-80g\"\n[[fleet]]",
            "s.toml:8",
            {"duplicate pool", "s.toml:6", "count"}}),
    [](const auto& test) { return test.param.name; });

TEST(ScenarioSet, OverridesWinOverTheFileAndMayNameOnePoolOrAll) {
  const std::string two = kScenario + "[[fleet]]\nrole = \"colocated\"\ngpu = \"h100\"\n";
  const auto loaded = load(two, {"slo.ttft_ms=250.5", "seed=7", "fleet.count=3", "fleet.1.count=5",
                                 "engine.chunked_prefill=false", "name=other", "workload.trace=a=b.csv"});
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->scenario.slo.ttft, Span::us(250'500));
  EXPECT_EQ(loaded->scenario.seed, 7U);
  EXPECT_EQ(loaded->scenario.pools[0].count, 3);
  EXPECT_EQ(loaded->scenario.pools[1].count, 5);
  EXPECT_FALSE(loaded->scenario.engine.chunked_prefill);
  EXPECT_EQ(loaded->scenario.name, "other");
  EXPECT_EQ(loaded->scenario.workload.trace, "a=b.csv");
}

TEST(ScenarioSet, NoneUnsetsWhatMayBeAbsent) {
  const std::string text = kScenario + "[engine]\nstep_gap_ms = 3\n[workload]\nduration_s = 60\n";
  const auto loaded =
      load(edited(text, "[workload]\nduration_s = 60\n", ""),
           {"slo.ttft_ms=none", "slo.itl_ms=40", "engine.step_gap_ms=none", "workload.duration_s=none"});
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->scenario.slo.ttft, std::nullopt);
  EXPECT_EQ(loaded->scenario.slo.itl, Span::ms(40));
  EXPECT_EQ(loaded->scenario.engine.step_gap, std::nullopt);
  EXPECT_EQ(loaded->scenario.workload.duration, Span::max());
  for (const char* needed : {"seed=none", "fleet.count=none", "engine.max_num_seqs=none", "workload.rate_per_s=none"}) {
    const auto refused = load(kScenario, {needed});
    ASSERT_FALSE(refused) << needed;
    EXPECT_NE(refused.error().what.find("\"none\" is not a"), std::string::npos) << refused.error().message();
  }
}

struct BadSet {
  const char* name;
  const char* set;
  const char* where;
  const char* says;
};

class BadScenarioSet : public ::testing::TestWithParam<BadSet> {};

TEST_P(BadScenarioSet, IsRefusedNamingTheFlag) {
  const auto loaded = load(kScenario, {GetParam().set});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().where, GetParam().where) << loaded.error().message();
  EXPECT_NE(loaded.error().what.find(GetParam().says), std::string::npos) << loaded.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    All, BadScenarioSet,
    ::testing::Values(
        BadSet{"NoEquals", "slo.ttft_ms", "--set slo.ttft_ms", "key=value"},
        BadSet{"NoKey", "=3", "--set =3", "key=value"},
        BadSet{"UnknownKey", "slo.ttft=3", "--set slo.ttft", "did you mean slo.ttft_ms?"},
        BadSet{"NotANumber", "slo.ttft_ms=fast", "--set slo.ttft_ms", "\"fast\" is not a number"},
        BadSet{"TrailingText", "slo.ttft_ms=3ms", "--set slo.ttft_ms", "\"3ms\" is not a number"},
        BadSet{"Empty", "seed=", "--set seed", "\"\" is not an integer"},
        BadSet{"Nan", "slo.ttft_ms=nan", "--set slo.ttft_ms", "finite"},
        BadSet{"Zero", "slo.ttft_ms=0", "--set slo.ttft_ms", ">= 0.001"},
        BadSet{"NotABoolean", "engine.chunked_prefill=1", "--set engine.chunked_prefill", "true or false"},
        BadSet{"NoSuchPool", "fleet.3.count=1", "--set fleet.3.count", "the scenario has 1"},
        BadSet{"PoolTwice", "fleet.0.0.count=1", "--set fleet.0.0.count", "write fleet.N.KEY"},
        BadSet{"NotAPoolKey", "fleet.0.cuont=1", "--set fleet.0.cuont", "did you mean fleet.count?"},
        BadSet{"UnknownGpu", "fleet.gpu=tpu", "--set fleet.0.gpu", "unknown GPU \"tpu\""},
        BadSet{"AcceptanceOfNoDrafts", "engine.acceptance_rate=0.5", "--set engine.acceptance_rate",
               "set engine.speculative_tokens"},
        BadSet{"CertainAcceptance", "engine.acceptance_rate=1", "--set engine.acceptance_rate", "<= 0.999"},
        BadSet{"FewerThanNoDrafts", "engine.speculative_tokens=-1", "--set engine.speculative_tokens", ">= 0"},
        BadSet{"TooLittleMemory", "engine.gpu_memory_utilization=0.1", "--set engine.gpu_memory_utilization",
               "impossible fleet"},
        BadSet{"LongAnswersWithoutRoom", "workload.max_output_tokens=1000000", "--set workload.max_output_tokens",
               "or lower workload.max_output_tokens"},
        BadSet{"ExpertsOfADenseModel", "fleet.expert_parallel=3", "--set fleet.0.expert_parallel", "must divide"},
        BadSet{"SessionsOfNobody", "workload.sessions=9", "--set workload.sessions",
               "does nothing without workload.session_share above 0"},
        BadSet{"ServiceOfATraceWithoutOne", "workload.service=Coding", "--set workload.service",
               "does nothing without workload.format = counts"},
        BadSet{"PrefixesOfNobody", "workload.prefixes=9", "--set workload.prefixes", "workload.prefix_share above 0"},
        BadSet{"HandOverOfColocated", "link.latency_ms=9", "--set link.latency_ms", "prefill and decode instances"},
        BadSet{"PeriodOfNoReading", "measurement.telemetry_period_ms=9", "--set measurement.telemetry_period_ms",
               "streams or gauges"},
        BadSet{"SmallBlock", "engine.block_size=0", "--set engine.block_size", ">= 1"},
        BadSet{"UnknownLlm", "llm=gpt", "--set llm", "unknown LLM \"gpt\""}),
    [](const auto& test) { return test.param.name; });

TEST(ScenarioFiles, AMissingFileSaysSo) {
  const auto by_path = load_scenario("./no/such.toml", {}, testing::project());
  ASSERT_FALSE(by_path);
  EXPECT_NE(by_path.error().what.find("no such file"), std::string::npos);
  const auto folder = load_scenario("/", {}, testing::project());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().what.find("is a directory; name a file"), std::string::npos);
  const auto by_name = load_scenario("azure-conv-9", {}, testing::project());
  ASSERT_FALSE(by_name);
  EXPECT_NE(by_name.error().what.find("did you mean \"azure-conv-"), std::string::npos) << by_name.error().message();
}

TEST(ScenarioFiles, APathInItIsFromItsFolder) {
  const ScratchFolder folder;
  folder.write("model/config.json", R"({"hidden_size":64,"num_attention_heads":2,"num_hidden_layers":3,"vocab_size":9,
                                        "intermediate_size":10})");
  const std::string file = folder.write("s.toml", edited(kScenario, "llama-3.1-8b", "model/config.json"));
  const auto loaded = load_scenario(file, {}, testing::project());
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->llm.layers, 3);
  const auto flag = load_scenario(file, {{"llm", "model/config.json"}}, testing::project());
  ASSERT_FALSE(flag) << "a flag's path is from the working directory";
  EXPECT_EQ(flag.error().where, "--set llm");
}

TEST(Scenario, ClassesTiersTenantsAndPools) {
  const std::string service = std::string(kScenario) + R"(
[classes]
prompt_below = [256, 1024]
output_below = [100, 350]
[[class]]
name = "SS"
ttft_ms = 250
[[tier]]
name = "gold"
[[tier]]
name = "bronze"
factor = 2
e2e_ms = 9000
[[tenant]]
name = "shop"
share = 3
tier = "bronze"
priority = 4
[[tenant]]
name = "lab"
[[pool]]
name = "small"
classes = "SS SM"
[[pool]]
name = "rest"
classes = "SL MS MM ML LS LM LL"
)";
  const auto loaded = load(service, {"tier.1.factor=4", "fleet.0.pool=rest"});
  ASSERT_TRUE(loaded) << loaded.error().message();
  const Service made = make_service(loaded->scenario);
  EXPECT_EQ(made.classes.size(), 9);
  ASSERT_TRUE(made.objectives);
  Request request;
  request.prompt_tokens = 10;
  EXPECT_EQ(made.objectives->of(request, 10).ttft, Span::ms(250));
  EXPECT_EQ(made.objectives->of(request, 200).ttft, Span::ms(600)) << "[slo]";
  ASSERT_EQ(made.tenants.size(), 2U);
  made.tenants[0].apply_to(request);
  EXPECT_EQ(request.tier, TierId(1));
  EXPECT_EQ(request.priority, 4);
  EXPECT_EQ(made.objectives->of(request, 10).ttft, Span::ms(1000));
  EXPECT_EQ(made.objectives->of(request, 10).e2e, Span::ms(9000));
  ASSERT_EQ(made.pools.size(), 2U);
  EXPECT_EQ(made.pools[0].classes.size(), 2U);
  EXPECT_EQ(pool_named(loaded->scenario, loaded->scenario.pools[0].pool), PoolId(1));
  EXPECT_EQ(make_service(loaded->scenario, {{184}, {444}}).classes.size(), 4) << "a recipe sorts otherwise";

  const auto problem = [](const std::string& text, const std::vector<std::string>& set) {
    const auto bad = load(text, set);
    return bad ? std::string("accepted") : bad.error().message();
  };
  EXPECT_EQ(problem(service, {"tenant.0.tier=silver"}),
            "--set tenant.0.tier: there is no [[tier]] of the name \"silver\"");
  EXPECT_EQ(problem(service, {"class.0.name=XX"}),
            "--set class.0.name: there is no class \"XX\"; [classes] makes SS SM SL MS MM ML LS LM LL");
  EXPECT_EQ(problem(service, {"pool.1.classes=SS"}),
            "--set pool.1.classes: class SS has a pool already; a plan may share it out among several");
  EXPECT_EQ(problem(service, {"tier.1.name=gold"}), "--set tier.1.name: there is a tier of that name already");
  EXPECT_NE(problem(service, {"classes.prompt_below=[1024, 256]"}).find("must ascend, each border once"),
            std::string::npos);
  const std::string sites = service + "[[site]]\nname = \"A\"\n[[site]]\nname = \"B C\"\n[[site]]\nname = \"D\"\n";
  const auto kept = load(sites, {"tenant.1.residency=D , B C"});
  ASSERT_TRUE(kept) << kept.error().message();
  make_service(kept->scenario).tenants[1].apply_to(request);
  EXPECT_FALSE(request.residency.allows(SiteId(0)));
  EXPECT_TRUE(request.residency.allows(SiteId(1)) && request.residency.allows(SiteId(2)));
  EXPECT_FALSE(make_service(kept->scenario).tenants[0].residency.stated());
  EXPECT_EQ(problem(sites, {"tenant.1.residency=A, E"}),
            "--set tenant.1.residency: there is no [[site]] of the name \"E\"");
  EXPECT_EQ(problem(sites, {"tenant.1.residency= ,"}),
            "--set tenant.1.residency: names no [[site]]; leave it out where any will do");
  EXPECT_EQ(problem(service, {"tenant.share=0"}), "--set tenant.0.share: some tenant needs a share above 0");
}

TEST(ScenarioSet, WhatIsOfSyntheticRequestsIsRefusedBesideATrace) {
  const std::string text = edited(kScenario, "rate_per_s = 2", "rate_per_s = 2\ntrace = \"t.csv\"");
  const auto idle = load(text);
  ASSERT_FALSE(idle);
  EXPECT_EQ(idle.error().where, "s.toml:3");
  EXPECT_NE(idle.error().what.find("workload.rate_per_s"), std::string::npos) << idle.error().what;
  EXPECT_TRUE(load(kScenario, {"workload.trace=t.csv"})) << "a file may keep it where another's trace is set";
  EXPECT_TRUE(load(text, {"workload.trace="}));
  const auto refused = load(text, {"workload.rate_per_s=3"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "--set workload.rate_per_s");
  EXPECT_TRUE(load(text, {"workload.rate_per_s=3", "workload.trace="}));
  const std::string named = edited(kScenario, "rate_per_s = 2", "synthetic = \"mlperf-openorca\"");
  EXPECT_TRUE(load(named, {"workload.rate_per_s=3"}));
  for (const char* key : {"requests", "prompt_mean"}) {
    EXPECT_EQ(load(named, {fmt::format("workload.{}=7", key)}).error().where, fmt::format("--set workload.{}", key));
  }
  EXPECT_FALSE(load(named, {"workload.rate_per_s=3", "workload.synthetic=azure-conv"}));
}

TEST(ScenarioSet, WhatLacksWhatItNeedsIsRefusedUnlessTheFileHasIt) {
  EXPECT_TRUE(load(edited(kScenario, "rate_per_s = 2", "rate_per_s = 2\nsessions = 9")));
  EXPECT_TRUE(load(kScenario, {"workload.sessions=9", "workload.session_share=0.5"}));
  EXPECT_TRUE(load(kScenario, {"measurement.telemetry_period_ms=9", "measurement.telemetry=gauges"}));
}

}  // namespace
}  // namespace wattle::config
