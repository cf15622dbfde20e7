// Bounded, deterministic fuzzing: for any text, a loader returns a valid value or an error with a place and a remedy.
// Under the sanitizers it also shows that nothing is read or recursed out of bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "config/load.h"
#include "config/reference.h"
#include "config/test_texts.h"

namespace wattle::config {
namespace {

std::vector<std::string> seeds() {
  const Project project = testing::project();
  std::vector<std::string> texts{testing::kScenario, testing::kRecipe};
  const auto add = [&](Project::Kind kind, const char* name) {
    texts.push_back(read_file(project.find(kind, name, "fuzz").value()).value());
  };
  add(Project::Kind::Scenario, "azure-conv-2p2d");
  add(Project::Kind::Recipe, "eco-freq");
  add(Project::Kind::Gpu, "a100-80g");
  add(Project::Kind::Llm, "mixtral-8x7b");
  return texts;
}

const std::vector<std::string> kTokens{"nan",
                                       "-inf",
                                       "0",
                                       "-1",
                                       "9223372036854775807",
                                       "1e308",
                                       "[",
                                       "]",
                                       "[[fleet]]\n",
                                       "[fleet]\n",
                                       "fleet.0.gpu = 1\n",
                                       "\"",
                                       "\"\"\"",
                                       "'",
                                       "=",
                                       ".",
                                       "\n",
                                       "#",
                                       "{",
                                       "}",
                                       ",",
                                       "true",
                                       "2026-01-01",
                                       "\\u0000",
                                       "\xff\xfe",
                                       "[slo]\n",
                                       "a.b.c.d = 1\n",
                                       "tensor_parallel = 7\n",
                                       "count = 100000\n",
                                       "clocks_mhz = []\n",
                                       "\"slo.ttft_ms\" = 1\n"};

std::string mutated(std::string text, const std::string& other, RandomStream& random) {
  const std::uint64_t edits = 1 + random.below(4);
  for (std::uint64_t i = 0; i < edits; ++i) {
    const auto at = static_cast<std::size_t>(random.below(text.size() + 1));
    switch (random.below(6)) {
      case 0:  // truncate
        text.resize(at);
        break;
      case 1:  // drop some
        text.erase(at, static_cast<std::size_t>(random.below(12)));
        break;
      case 2:  // any byte
        text.insert(at, 1, static_cast<char>(random.below(256)));
        break;
      case 3:  // what means something
        text.insert(at, kTokens[static_cast<std::size_t>(random.below(kTokens.size()))]);
        break;
      case 4:  // repeat a piece
        text.insert(at, text.substr(at, static_cast<std::size_t>(random.below(40))));
        break;
      default:  // a piece of another kind of file
        text.insert(at, other.substr(static_cast<std::size_t>(random.below(other.size())), 40));
        break;
    }
  }
  return text;
}

void expect_good(const Error& error, const std::string& text) {
  EXPECT_EQ(error.kind, ErrorKind::BadInput) << text;
  EXPECT_TRUE(error.where.starts_with("fuzz.toml:")) << error.message() << "\n" << text;
  EXPECT_FALSE(error.what.empty()) << text;
}

struct Tally {
  int loaded = 0;
  int refused = 0;
};

void check(const std::string& text, Tally& tally) {
  const Project project = testing::project();
  if (const auto s = scenario_from_text(text, "fuzz.toml", {}, project)) {
    ++tally.loaded;
    EXPECT_EQ(s->gpus.size(), s->scenario.pools.size());
    for (const PoolOptions& pool : s->scenario.pools) {
      EXPECT_GE(pool.count, 1);
      EXPECT_EQ(s->llm.heads % pool.tensor_parallel, 0);
    }
    for (const auto& slo : {s->scenario.slo.ttft, s->scenario.slo.itl, s->scenario.slo.tbt, s->scenario.slo.e2e}) {
      EXPECT_TRUE(!slo || slo->ns() > 0) << text;
    }
    EXPECT_TRUE(std::isfinite(s->scenario.workload.rate_scale) && s->scenario.workload.rate_scale > 0);
    const auto again = scenario_from_text(effective_text(*s), "fuzz.toml", {}, project);
    EXPECT_TRUE(again) << again.error().message() << "\n" << text;
  } else {
    ++tally.refused;
    expect_good(s.error(), text);
  }
  if (const auto gpu = gpu_from_text(text, "fuzz.toml")) {
    ++tally.loaded;
    EXPECT_GE(gpu->clock_max, gpu->clock_min);
  } else {
    ++tally.refused;
    expect_good(gpu.error(), text);
  }
  if (const auto llm = llm_from_text(text, "fuzz.toml")) {
    ++tally.loaded;
    EXPECT_GT(llm->parameters(), 0.0);
  } else {
    ++tally.refused;
    expect_good(llm.error(), text);
  }
}

TEST(Fuzz, EveryMutationLoadsSoundlyOrIsRefusedWithItsPlace) {
  RandomStream random(1, "config.fuzz");
  const std::vector<std::string> texts = seeds();
  Tally tally;
  for (int i = 0; i < 4000 && !::testing::Test::HasFailure(); ++i) {
    const std::string& text = texts[static_cast<std::size_t>(random.below(texts.size()))];
    const std::string& other = texts[static_cast<std::size_t>(random.below(texts.size()))];
    check(mutated(text, other, random), tally);
  }
  // Both ways must be taken, or the mutations test nothing.
  EXPECT_GT(tally.loaded, 100);
  EXPECT_GT(tally.refused, 1000);
}

TEST(Fuzz, DeepNestingIsRefusedNotRecursedInto) {
  std::string dotted = "a";
  for (int i = 0; i < 100'000; ++i) dotted += ".a";
  for (const std::string& text :
       {dotted + " = 1", "[" + dotted + "]", "x = " + std::string(100'000, '['), "x = " + std::string(4'000, '[')}) {
    const auto gpu = gpu_from_text(text, "fuzz.toml");
    ASSERT_FALSE(gpu);
    EXPECT_EQ(gpu.error().where, "fuzz.toml:1");
  }
}

}  // namespace
}  // namespace wattle::config
