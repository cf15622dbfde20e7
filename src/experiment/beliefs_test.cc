// Beliefs as the simulator gets them: a profile taken wrongly, and what learning on makes of it.
#include "calibrate/beliefs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "experiment/simulate.h"

namespace wattle::calibrate {
namespace {

Result<journal::RunSummary> run(const std::string& recipe, std::vector<std::string> set, bool fast_forward = true) {
  set.insert(set.begin(), {"workload.rate_per_s=40", "workload.requests=2400"});
  const auto split = systems::split_overrides(config::parse_overrides(set).value());
  if (!split) return std::unexpected(split.error());
  const auto scenario = config::load_scenario("voltanallm-2p2d", split->scenario, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  const auto loaded = systems::load_recipe(recipe, split->recipe, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  experiment::SimulateOptions options;
  options.fast_forward = fast_forward;
  return experiment::run_simulation(*scenario, *loaded, options);
}

TEST(Beliefs, AnEngineProfiledTooSlowIsLearnt) {
  const std::vector<std::string> off{"predictor.online=true", "measurement.profile_scale=1.15"};
  const auto learnt = run("voltanallm", off);
  ASSERT_TRUE(learnt) << learnt.error().message();
  for (const auto& phase : {learnt->prediction.prefill, learnt->prediction.decode}) {
    EXPECT_GT(phase.samples, 200);
    EXPECT_GT(phase.offline_ms, 1.0);
    EXPECT_LT(phase.active_ms, 0.75 * phase.offline_ms) << "with the time before the first refit in it";
    EXPECT_LT(std::abs(phase.drift), 0.02);
  }
  EXPECT_GE(learnt->prediction.adopted, 2) << "prefill and decode instances each have a model";
  EXPECT_EQ(run("voltanallm", off)->journal_digest, learnt->journal_digest);
  EXPECT_EQ(run("voltanallm", off, false)->journal_digest, learnt->journal_digest) << "step by step";
}

TEST(Beliefs, NoiseIsInWhatIsMeasuredAlone) {
  // Distributed round-robin, so that the longest answer, which ends the run, comes from the same instance.
  std::vector<std::string> noisy{"predictor.online=true", "predictor.refit=false", "routing.decode.policy=round-robin"};
  const auto without = run("voltanallm", noisy);
  noisy.emplace_back("measurement.sample_noise=0.03");
  const auto with = run("voltanallm", noisy);
  ASSERT_TRUE(with && without);
  // A fit to many noisy samples is nearly the fit to clean ones; the rest is the noise of each step.
  EXPECT_GT(with->prediction.decode.offline_ms, without->prediction.decode.offline_ms + 0.3);
  EXPECT_NEAR(with->energy.total.value(), without->energy.total.value(), 0.01 * without->energy.total.value());
  const std::vector<std::string> learning{"predictor.online=true", "measurement.sample_noise=0.03"};
  EXPECT_EQ(run("voltanallm", learning)->journal_digest, run("voltanallm", learning, false)->journal_digest);
}

TEST(Beliefs, MeasuringAloneChangesNothing) {
  const auto plain = run("voltanallm", {});
  const auto measured = run("voltanallm", {"predictor.online=true", "predictor.refit=false"});
  ASSERT_TRUE(plain && measured);
  EXPECT_EQ(measured->prediction.refits, 0);
  EXPECT_GT(measured->prediction.decode.samples, 200);
  EXPECT_EQ(measured->prediction.decode.offline_ms, measured->prediction.decode.active_ms);
  EXPECT_EQ(plain->energy.total.value(), measured->energy.total.value());
}

TEST(Beliefs, ThePublishedPrefillFormIsTheCoarserOne) {
  const auto error = [](const char* form) {
    const auto made =
        run("voltanallm", {std::string("predictor.form=") + form, "predictor.online=true", "predictor.refit=false"});
    return made->prediction.prefill.offline_ms;
  };
  EXPECT_LT(2.0 * error("linear"), error("linear-published"));
}

/// Step times of an engine, and its profile's predictions relative to them.
class Predicted {
 public:
  explicit Predicted(const std::string& llm, const std::string& gpu = "a100-80g", int gpus = 1,
                     const char* scenario = "synthetic-poisson", std::size_t clocks = 3)
      : scenario_(config::load_scenario(scenario,
                                        config::parse_overrides({"llm=" + llm, "fleet.0.gpu=" + gpu,
                                                                 "fleet.0.tensor_parallel=" + std::to_string(gpus)})
                                            .value(),
                                        config::project())
                      .value()),
        engine_(config::engine_of(scenario_.scenario, scenario_.scenario.pools.front())),
        model_(config::make_step_model(scenario_.gpus.front(), scenario_.llm, gpus, engine_).value()),
        clocks_(spread(supported_clocks(scenario_.gpus.front(), MegaHertz(600)), clocks)),
        believed_(believe_latency({}, {}, model_, engine_, clocks_).value().model) {}

  /// From 600 MHz to the highest.
  [[nodiscard]] const std::vector<MegaHertz>& clocks() const { return clocks_; }
  [[nodiscard]] const engine::EngineOptions& engine() const { return engine_; }
  [[nodiscard]] std::int64_t capacity() const { return model_.kv_blocks() * engine_.block_size; }

  [[nodiscard]] double error(const StepShape& shape, MegaHertz clock) const {
    std::int64_t time = 0;
    if (shape.prefill_tokens > 0) {
      time = model_.mixed(shape, clock).duration;
    } else {
      const auto line = model_.decode(shape.decode_requests, shape.decode_kv_tokens, clock);
      time = line.base + line.slope * shape.decode_kv_tokens;
    }
    return static_cast<double>(believed_->step_time(shape, clock).ns()) /
               static_cast<double>(time >> engine::kTimeFractionBits) -
           1.0;
  }

 private:
  static std::vector<MegaHertz> spread(const std::vector<MegaHertz>& all, std::size_t count) {
    std::vector<MegaHertz> clocks;
    for (std::size_t i = 0; i < count; ++i) clocks.push_back(all[i * (all.size() - 1) / (count - 1)]);
    return clocks;
  }

  config::LoadedScenario scenario_;
  engine::EngineOptions engine_;
  engine::StepModel model_;
  std::vector<MegaHertz> clocks_;
  std::shared_ptr<const LatencyModel> believed_;
};

/// 500 tokens of context each. Steps rise where engines compile and products tile, experts make that steep, windows
/// bend times with the context. With two sizes a tile profiled, dense models were predicted up to 9 % too short between
/// the tiles' borders; with none between 129 and 255, those with experts up to 43 %.
TEST(Beliefs, BatchesArePredictedWhateverTheModelIs) {
  // Beyond 188 requests gpt-oss-20b's products go to the next tile between two borders of ours.
  for (const auto& [llm, most] : {std::pair{"llama-3.1-8b", 256}, {"qwen3-30b-a3b", 256}, {"gpt-oss-20b", 188}}) {
    const Predicted predicted(llm);
    for (const MegaHertz clock : predicted.clocks()) {
      for (std::int32_t batch = 1; batch <= most; ++batch) {
        ASSERT_LT(std::abs(predicted.error({batch, 500 * batch, 0, 0, 0}, clock)), 0.02) << llm << ' ' << batch;
      }
    }
  }
}

/// Alone, as behind a prefix cache, and together with decodes. Profiled from 32 tokens on, they were predicted up to
/// four times too long.
TEST(Beliefs, FewTokensReadFewExperts) {
  for (const std::string llm : {"qwen3-30b-a3b", "llama-3.1-8b"}) {
    const Predicted predicted(llm);
    for (const std::int32_t decodes : {0, 1, 5, 20}) {
      for (std::int64_t tokens = 1; tokens <= 256; ++tokens) {
        const StepShape shape{decodes, 500 * decodes, 1, tokens, tokens * tokens / 2};
        ASSERT_LT(std::abs(predicted.error(shape, MegaHertz(1410))), 0.3) << llm << ' ' << tokens << ' ' << decodes;
      }
    }
  }
}

struct Combination {
  const char *llm, *gpu;
  int gpus;
  double decode = 0.02, prompts = 0.015, mixed = 0.015;  ///< most that errors may be in the mean
};
class BeliefsAtLarge : public testing::TestWithParam<Combination> {};

/// Contexts of 200, 1,000 and 3,000 tokens and batches to 256; prompts of 600 tokens in the median, one to eight a
/// step, alone and together with decodes. The figures of docs/decisions/0030: --gtest_filter='*BeliefsAtLarge*' prints
/// them.
TEST_P(BeliefsAtLarge, AreWithinTwoPercentInTheMean) {
  const auto& [llm, gpu, gpus, most_of_decode, most_of_prompts, most_of_mixed] = GetParam();
  const Predicted predicted(llm, gpu, gpus);
  struct Errors {
    double sum = 0.0, worst = 0.0;
    int count = 0;
    void add(double error) {
      sum += std::abs(error);
      if (std::abs(error) > std::abs(worst)) worst = error;
      ++count;
    }
    [[nodiscard]] double mean() const { return sum / count; }
  };
  Errors decode, prompts, mixed;
  for (const MegaHertz clock : predicted.clocks()) {
    for (const std::int64_t context : {200, 1'000, 3'000}) {
      const std::int64_t most =
          std::min<std::int64_t>({256, predicted.engine().max_num_seqs, predicted.capacity() / context});
      for (std::int32_t batch = 1; batch <= most; ++batch)
        decode.add(predicted.error({batch, batch * context, 0, 0, 0}, clock));
    }
  }
  RandomStream random(7, "steps");
  for (int i = 0; i < 1'500; ++i) {
    StepShape step;
    if (i % 2 == 1) step.decode_requests = 1 + static_cast<std::int32_t>(std::exp(random.uniform() * std::log(200.0)));
    step.decode_kv_tokens = step.decode_requests * static_cast<std::int64_t>(100 + 2'000 * random.uniform());
    if (step.decode_kv_tokens > predicted.capacity()) continue;
    const int wanted = 1 + static_cast<int>(std::exp(random.uniform() * std::log(8.0)) - 0.5);
    for (int r = 0; r < wanted; ++r) {
      const auto drawn = static_cast<std::int64_t>(600.0 * std::exp(1.2 * random.normal()));
      const std::int64_t left = predicted.engine().max_num_batched_tokens - step.decode_requests - step.prefill_tokens;
      const std::int64_t tokens = std::min(std::clamp<std::int64_t>(drawn, 8, 8'192), left);
      if (tokens < 1) break;
      ++step.prefill_requests;
      step.prefill_tokens += tokens;
      step.prefill_context_tokens += tokens * (tokens / 2);
    }
    (i % 2 == 1 ? mixed : prompts).add(predicted.error(step, predicted.clocks()[static_cast<std::size_t>(i % 3)]));
  }
  std::printf("%s, %d x %s: decode %.2f %% (worst %.1f), prompts %.2f (%.1f), mixed %.2f (%.1f)\n", llm, gpus, gpu,
              100 * decode.mean(), 100 * decode.worst, 100 * prompts.mean(), 100 * prompts.worst, 100 * mixed.mean(),
              100 * mixed.worst);
  EXPECT_LT(decode.mean(), most_of_decode);
  EXPECT_LT(prompts.mean(), most_of_prompts);
  EXPECT_LT(mixed.mean(), most_of_mixed);
}

INSTANTIATE_TEST_SUITE_P(
    ModelsAndCards, BeliefsAtLarge,
    testing::Values(Combination{"llama-3.1-8b", "a100-80g", 1}, Combination{"llama-3.2-3b", "a100-80g", 1},
                    Combination{"qwen3-14b", "h100", 1}, Combination{"qwen3-32b", "h100", 2},
                    Combination{"llama-3.1-70b", "h100", 8}, Combination{"llama-2-13b", "a100-80g", 2},
                    Combination{"gemma-2-9b", "l40s", 1}, Combination{"qwen2.5-7b", "a10g", 2},
                    Combination{"phi-4", "rtx-a6000", 2}, Combination{"mistral-7b", "h200", 1},
                    Combination{"llama-3.1-405b", "b200", 8}, Combination{"gpt-oss-20b", "h100", 1},
                    Combination{"qwen3-30b-a3b", "a100-80g", 1}, Combination{"mixtral-8x7b", "h100", 4},
                    Combination{"gemma-3-27b", "h100", 2, 0.045}, Combination{"deepseek-v3", "h200", 8},
                    Combination{"falcon-180b", "h100", 8}, Combination{"starcoder2-3b", "a40", 1},
                    Combination{"llama-3.2-1b", "h100-pcie", 1, 0.02, 0.025, 0.025},
                    Combination{"opt-13b", "a100-40g", 1}),
    [](const auto& info) {
      std::string name = std::string(info.param.llm) + "_" + info.param.gpu;
      std::ranges::replace_if(
          name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return name;
    });

/// On the servers of VoltanaLLM's evaluation the host takes 12 ms a step and 25 us a request. Recipe `wattle` also
/// knows clocks at which the GPU takes longer; with them the host's line was not found, and steps were predicted up to
/// 59 % too short. Those of 257 requests and more were, by up to 10 %, where too few batches had been profiled.
TEST(Beliefs, ShortContextsAndLargeBatchesArePredictedAtAnyClock) {
  for (const auto& [llm, gpu] : {std::pair{"mistral-7b", "h200"},
                                 {"llama-3.2-3b", "l40s"},
                                 {"llama-3.1-8b", "h100-pcie"},
                                 {"llama-3.2-3b", "a100-80g"}}) {
    const Predicted predicted(llm, gpu, 1, "voltanallm-2p2d", 8);
    double sum = 0.0;
    int count = 0;
    for (const MegaHertz clock : predicted.clocks()) {
      for (const std::int64_t context : {150, 300, 600}) {
        for (std::int32_t batch = 1; batch <= 512 && batch * context <= predicted.capacity(); ++batch) {
          const double error = predicted.error({batch, batch * context, 0, 0, 0}, clock);
          ASSERT_LT(std::abs(error), 0.07)
              << llm << ' ' << gpu << ", " << batch << " x " << context << ' ' << clock.value();
          sum += std::abs(error);
          ++count;
        }
      }
    }
    EXPECT_LT(sum / count, 0.015) << llm << ' ' << gpu;
  }
}

/// Steps of a chunk, or behind a cached prefix, read a context longer than any profiled step's. Before the model had a
/// term for the number of prompts, attention's term absorbed part of the time of short prompts, and such steps of small
/// models were predicted up to 55 % too short.
TEST(Beliefs, ChunksBehindALongContextArePredicted) {
  for (const auto& [llm, gpu, gpus] : {std::tuple{"llama-3.2-1b", "l40s", 1},
                                       {"gemma-3-27b", "h100", 2},
                                       {"llama-3.1-8b", "a100-80g", 1},
                                       {"deepseek-v3", "h200", 8}}) {
    const Predicted predicted(llm, gpu, gpus);
    for (const MegaHertz clock : predicted.clocks()) {
      for (const std::int64_t context : {0, 2'000, 15'000, 60'000}) {
        const StepShape chunk{0, 0, 1, 2'000, 2'000 * (context + 1'000)};
        EXPECT_LT(std::abs(predicted.error(chunk, clock)), 0.02)
            << llm << ' ' << gpu << ' ' << clock.value() << " MHz, behind " << context;
      }
    }
  }
}

/// The last chunk of a prompt is small, and so is what follows a cached prefix. When no profiled prompt had a context
/// before it, such steps of dense models were predicted up to six times too long, those of gpt-oss-20b up to 47 times.
TEST(Beliefs, SmallChunksBehindAContextArePredicted) {
  for (const auto& [llm, gpu] : {std::pair{"llama-3.1-8b", "a100-80g"},
                                 {"qwen3-14b", "h100"},
                                 {"gpt-oss-20b", "a100-80g"},
                                 {"gemma-2-9b", "h200"}}) {
    const Predicted predicted(llm, gpu);
    double sum = 0.0;
    int count = 0;
    for (const MegaHertz clock : predicted.clocks()) {
      for (const std::int32_t decodes : {0, 4, 32}) {
        for (const std::int64_t tokens : {32, 200, 500}) {
          for (const std::int64_t context : {500, 4'000, 10'000}) {
            const StepShape chunk{decodes, 1'000 * decodes, 1, tokens, tokens * (context + tokens / 2)};
            const double error = std::abs(predicted.error(chunk, clock));
            EXPECT_LT(error, 0.2) << llm << ' ' << gpu << ", " << decodes << " and " << tokens << " behind " << context;
            sum += error;
            ++count;
          }
        }
      }
    }
    EXPECT_LT(sum / count, 0.05) << llm << ' ' << gpu;
  }
}

TEST(Beliefs, PowerIsNearWhatTheEngineDraws) {
  const auto scenario = config::load_scenario("throttllem-llama2-13b-tp2", {}, config::project()).value();
  const auto& pool = scenario.scenario.pools.front();
  const auto engine = config::engine_of(scenario.scenario, pool);
  const auto model = config::make_step_model(scenario.gpus.front(), scenario.llm, pool.tensor_parallel, engine).value();
  const std::vector<MegaHertz> clocks{MegaHertz{600}, MegaHertz{1005}, MegaHertz{1410}};
  const auto believed = believe_power({}, {}, model, engine, clocks);
  ASSERT_TRUE(believed) << believed.error().message();
  for (const MegaHertz clock : clocks) {
    EXPECT_EQ((*believed)->step_power({}, clock), model.idle_power(clock));
    for (const std::int32_t batch : {1, 4, 12, 32}) {
      const StepShape decode{.decode_requests = batch, .decode_kv_tokens = 1000 * batch};
      const auto drawn = static_cast<double>(model.decode(batch, decode.decode_kv_tokens, clock).power.value());
      EXPECT_NEAR(static_cast<double>((*believed)->step_power(decode, clock).value()), drawn, 0.05 * drawn)
          << batch << " at " << clock.value();
    }
    for (const std::int64_t tokens : {200, 1000, 3000}) {
      const StepShape prompt{
          .prefill_requests = 1, .prefill_tokens = tokens, .prefill_context_tokens = tokens * tokens / 2};
      const auto drawn = static_cast<double>(model.mixed(prompt, clock).power.value());
      EXPECT_NEAR(static_cast<double>((*believed)->step_power(prompt, clock).value()), drawn, 0.08 * drawn)
          << tokens << " at " << clock.value();
    }
  }
}

TEST(Beliefs, WhatWeighsEnergyRefusesABeliefWithoutPower) {
  const std::string file = testing::TempDir() + "timed_only.csv";
  std::ofstream(file) << "phase,clock_mhz,from,to,kv_tokens_to,time_us,time_us_per_request,time_ns_per_token,energy_mj,"
                         "energy_mj_per_request,energy_uj_per_token,idle_w\n"
                         "prefill,1410,1,8192,0,5000,0,60000,,,,\n"
                         "decode,1410,1,64,100000,9000,20,50,,,,\n";
  const auto simulated = [&](std::vector<std::string> set) {
    set.insert(set.end(), {"predictor_file=" + file, "workload.trace=", "workload.synthetic=mlperf-openorca",
                           "workload.rate_per_s=1", "workload.duration_s=20"});
    const auto split = systems::split_overrides(config::parse_overrides(set).value()).value();
    const auto scenario = config::load_scenario("throttllem-llama2-13b-tp2", split.scenario, config::project()).value();
    const auto loaded = systems::load_recipe("throttllem", split.recipe, config::project()).value();
    return experiment::run_simulation(scenario, loaded, {});
  };
  const auto refused = simulated({});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, file);
  EXPECT_NE(refused.error().message().find("frequency.pick=lowest"), std::string::npos) << refused.error().message();
  EXPECT_TRUE(simulated({"frequency.pick=lowest"}));
}

/// Of two clocks, as `wattle profile --clocks 1005,1410` and `wattle fit` have it: by these lines 210 MHz is fast
/// enough, and at that clock nothing is in time.
TEST(Beliefs, ThrottllemKeepsToTheClocksThatWereMeasured) {
  const std::string file = testing::TempDir() + "two_clocks.csv";
  std::ofstream(file) << "phase,clock_mhz,from,to,kv_tokens_to,time_us,time_us_per_request,time_ns_per_token,energy_mj,"
                         "energy_mj_per_request,energy_uj_per_token,idle_w\n"
                         "prefill,1005,64,4096,0,10697,0,86735,,,,\n"
                         "decode,1005,1,64,39713,13220,27.9,88.1,,,,\n"
                         "prefill,1410,64,4096,0,9475,0,67698,,,,\n"
                         "decode,1410,1,64,39713,11486,21.7,78.9,,,,\n";
  const auto split =
      systems::split_overrides(config::parse_overrides({"predictor_file=" + file, "frequency.pick=lowest",
                                                        "slo.tbt_ms=60", "workload.requests=300"})
                                   .value())
          .value();
  const auto scenario = config::load_scenario("synthetic-poisson", split.scenario, config::project()).value();
  const auto loaded = systems::load_recipe("throttllem", split.recipe, config::project()).value();
  const auto kept = experiment::run_simulation(scenario, loaded, {});
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_GT(kept->slo.all, 0.95);
}

TEST(Beliefs, StepsOfBothPhasesArePredictedAsWellAsThoseOfOne) {
  for (const char* name : {"throttllem-llama2-13b-tp2", "h100-llama70b-tp8"}) {
    const auto scenario = config::load_scenario(name, {}, config::project()).value();
    const auto& pool = scenario.scenario.pools.front();
    const auto engine = config::engine_of(scenario.scenario, pool);
    const auto model =
        config::make_step_model(scenario.gpus.front(), scenario.llm, pool.tensor_parallel, engine).value();
    const std::vector<MegaHertz> clocks{MegaHertz{1005}, MegaHertz{1410}};
    const auto lines = fit_latency(model, engine, clocks).value();
    for (const MegaHertz clock : clocks) {
      for (const std::int32_t batch : {2, 12, 24}) {
        for (const std::int64_t tokens : {100, 700, 2500}) {
          const StepShape both{batch, 900 * batch, 1, tokens, tokens * tokens / 2};
          const double took =
              static_cast<double>(model.mixed(both, clock).duration >> engine::kTimeFractionBits) * 1e-6;
          EXPECT_NEAR(lines->model.step_time(both, clock).millis(), took, 0.06 * took)
              << name << ": " << tokens << " tokens beside " << batch << " decodes at " << clock.value();
        }
      }
    }
  }
}

TEST(Beliefs, AWindowBeyondTheRingIsRefused) {
  const auto refused = run("voltanallm", {"predictor.online=true", "predictor.ring=50", "predictor.window=51"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "--set predictor.window");
}

/// Engines with some milliseconds of CPU time for each prompt (SGLang with phases apart). Before the model had a host
/// line for prompts, a 3B model's steps on an H100 were predicted two and a half times too long.
TEST(Beliefs, StepsOfPromptsArePredictedWhereTheHostDecidesSomeOfThem) {
  for (const auto& [llm, gpu] : {std::pair{"llama-3.2-3b", "h100"},
                                 {"ministral-3b", "a100-80g"},
                                 {"llama-3.1-8b", "a100-80g"},
                                 {"qwen3-14b", "h100"},
                                 {"qwen3-8b", "h200"}}) {
    const Predicted predicted(llm, gpu, 1, "voltanallm-2p2d");
    for (const MegaHertz clock : predicted.clocks()) {
      for (const std::int64_t length : {100, 300, 1'500}) {
        for (const std::int32_t prompts : {1, 3, 10}) {
          StepShape shape;
          shape.prefill_requests = prompts;
          shape.prefill_tokens = length * prompts;
          shape.prefill_context_tokens = length * (length / 2) * prompts;
          EXPECT_LT(std::abs(predicted.error(shape, clock)), 0.06)
              << llm << ' ' << gpu << ' ' << clock.value() << " MHz, " << prompts << " of " << length;
        }
      }
    }
  }
}

}  // namespace
}  // namespace wattle::calibrate
