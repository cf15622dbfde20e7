#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/random.h"
#include "base/scratch_folder.h"
#include "fidelity/benchmark_run.h"
#include "fidelity/cross_validation.h"
#include "fidelity/experiment.h"
#include "fidelity/fit_plan.h"
#include "fidelity/h100_catalog_test.h"
#include "fidelity/least_squares.h"
#include "fidelity/page.h"
#include "fidelity/samples.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

Result<engine::StepModel> llama_8b_on_h100(const Catalog& catalog) {
  return engine::StepModel::make(catalog.gpus.at("h100"), catalog.llms.at("llama-3.1-8b"), 1,
                                 catalog.profiles.at("h100"), benchmark_engine());
}

TEST(Table, ragged_lines_are_refused_with_their_place) {
  const ScratchFolder folder;
  const auto table = Table::read(folder.write("x.csv", "a,b\n1,2\n3\n"));
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().where.find("x.csv:3"), std::string::npos);
  const auto good = Table::read(folder.write("y.csv", "a,b\n1,\"two, too\"\n"));
  ASSERT_TRUE(good);
  EXPECT_EQ(good->text(0, "b"), "two, too");
  EXPECT_TRUE(std::isnan(good->number(0, "b")));
  EXPECT_FALSE(Table::read(folder.file("absent.csv")));
  const std::string file = folder.write("z.csv", "a,b\n1,2\n3,many\n");
  const auto missing = Table::read(file, {"a"}, {measured("c")});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("no column 'c'"), std::string::npos);
  const auto wrong = Table::read(file, {"a"}, {measured("b")});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message().find("z.csv:3"), std::string::npos) << wrong.error().message();
  EXPECT_NE(wrong.error().message().find("many"), std::string::npos);
}

TEST(Table, columns_say_what_their_cells_may_hold) {
  const ScratchFolder folder;
  const std::string file = folder.write("x.csv", "n,x\n44.0,\n");
  const auto table = Table::read(file, {}, {requests("n"), measured("x").or_none(), measured("power").if_there()});
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_EQ(table->whole(0, "n"), 44);
  EXPECT_TRUE(std::isnan(table->number(0, "x")));
  EXPECT_FALSE(table->has("power"));
  EXPECT_FALSE(Table::read(file, {}, {measured("x")})) << "empty";
  EXPECT_FALSE(Table::read(file, {}, {measured("power").or_none()})) << "missing";
  const auto zero = Table::read(folder.write("zero.csv", "x\n0\n"), {}, {measured("x")});
  ASSERT_FALSE(zero);
  EXPECT_NE(zero.error().message().find("above 0"), std::string::npos) << zero.error().message();
}

TEST(LeastSquares, finds_the_parameters_of_a_curve_despite_wild_points) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (int i = 0; i < 40; ++i) {
    const double x = 0.1 * i;
    xs.push_back(x);
    ys.push_back(3.0 * std::exp(-0.7 * x) + (i % 10 == 7 ? 5.0 : 0.0));
  }
  const std::vector<FitParameter> parameters{{1.0, 0.0, 10.0, 1.0, 0.0}, {0.2, 0.0, 3.0, 0.2, 0.0}};
  const auto residuals = [&](const std::vector<double>& p) {
    std::vector<double> r;
    for (std::size_t i = 0; i < xs.size(); ++i) r.push_back(p[0] * std::exp(-p[1] * xs[i]) - ys[i]);
    return r;
  };
  const FitResult fit = fit_least_squares(parameters, residuals, {.scale = 0.01, .iterations = 60});
  EXPECT_LT(fit.cost, fit.cost_before);
  EXPECT_NEAR(fit.values[0], 3.0, 0.15);
  EXPECT_NEAR(fit.values[1], 0.7, 0.07);
}

TEST(LeastSquares, stays_inside_the_bounds_and_where_the_prior_is_when_data_are_silent) {
  const std::vector<FitParameter> parameters{{0.5, 0.0, 1.0, 0.5, 0.1}, {0.3, 0.0, 1.0, 0.3, 0.1}};
  const auto residuals = [](const std::vector<double>& p) { return std::vector<double>{5.0 * (p[0] - 2.0)}; };
  const FitResult fit = fit_least_squares(parameters, residuals, {.scale = 1.0, .iterations = 50});
  EXPECT_NEAR(fit.values[0], 1.0, 0.02);
  EXPECT_NEAR(fit.values[1], 0.3, 1e-9);
}

TEST(Gaps, percentiles_are_those_of_every_gap_written_out) {
  RandomStream random(5, "gaps");
  Gaps gaps;
  std::vector<double> all;
  for (int run = 0; run < 40; ++run) {
    const auto first = static_cast<std::int64_t>(random.below(1000));
    const auto increment = static_cast<std::int64_t>(random.below(4));
    const auto steps = static_cast<std::int64_t>(1 + random.below(30));
    const auto requests = static_cast<std::int64_t>(1 + random.below(5));
    gaps.add(first, increment, steps, requests);
    for (std::int64_t i = 0; i < steps * requests; ++i) {
      all.push_back(static_cast<double>(first + i / requests * increment));
    }
  }
  for (const double p : {0.01, 0.25, 0.5, 0.9, 0.99, 1.0}) {
    EXPECT_EQ(static_cast<double>(gaps.percentile(p)), percentile(all, p)) << p;
  }
}

TEST(BenchmarkRun, a_rival_draws_its_own_power_in_the_same_steps) {
  const Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  const engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.concurrency = load.requests = 8;
  load.clock = MegaHertz(1980);
  const Measured ours = run(*model, engine, load);
  RivalPower rival{
      {PowerLaw::ThreeConstants, 100.0, 500.0, 500.0}, catalog.gpus.at("h100"), catalog.llms.at("llama-3.1-8b"), 1};
  const Measured flat = run(*model, engine, load, &rival);
  EXPECT_NEAR(flat.power_w, 500.0, 0.1) << "never idle";
  EXPECT_NEAR(flat.duration_s, ours.duration_s, 1e-6) << "the same steps, one at a time";
  EXPECT_EQ(flat.tpot_p99_s, ours.tpot_p99_s);
  EXPECT_NE(flat.energy_j, ours.energy_j);
  rival.rival.law = PowerLaw::Ours;
  EXPECT_EQ(run(*model, engine, load, &rival).energy_j, ours.energy_j);
}

TEST(BenchmarkRun, closed_loop_obeys_little_and_power_is_between_idle_and_tdp) {
  const Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  const engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.concurrency = 32;
  load.requests = 200;
  load.input_mean = 100;
  load.output_mean = 200;
  load.warm_up = 0.2;
  load.clock = MegaHertz(1980);
  const Measured m = run(*model, engine, load);
  ASSERT_TRUE(m.feasible);
  // Little: requests in flight = throughput x time per token, up to the share spent on first tokens.
  EXPECT_NEAR(m.output_tokens_per_s * m.itl_p50_s, 32.0, 4.0);
  EXPECT_GT(m.power_w, to_watts(model->idle_power(load.clock)).value());
  EXPECT_LE(m.power_w, 700.0);
  EXPECT_DOUBLE_EQ(m.energy_j, m.power_w * m.duration_s);
}

TEST(BenchmarkRun, what_a_request_passes_before_its_first_step_shows_in_ttft) {
  const Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.rate_per_s = 4.0;
  load.requests = 100;
  load.clock = MegaHertz(1980);
  const double plain = run(*model, engine, load).ttft_mean_s;
  load.front_end_s = 0.010;
  EXPECT_NEAR(run(*model, engine, load).ttft_mean_s, plain + 0.010, 0.004);
  load.front_end_s = 0.0;
  engine.async_scheduling = true;  // about half of these arrive in an idle engine; the others wait up to a step more
  const double overlapped = run(*model, engine, load).ttft_mean_s;
  EXPECT_GT(overlapped, plain);
  EXPECT_LT(overlapped, 2.0 * plain);
}

TEST(BenchmarkRun, more_front_end_processes_shorten_the_queue) {
  const Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  Load load{.concurrency = 40, .requests = 40, .output_mean = 8, .front_end_s = 0.1, .clock = MegaHertz(1980)};
  const double one = run(*model, benchmark_engine(), load).ttft_mean_s;
  load.front_end_processes = 4.0;
  EXPECT_NEAR(one - run(*model, benchmark_engine(), load).ttft_mean_s, 39 * (0.1 - 0.1 / 4) / 2, 0.05);
}

TEST(BenchmarkRun, a_front_end_that_streams_slowly_limits_the_tokens_whatever_the_gpu_does) {
  const Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  const engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.concurrency = 64;
  load.requests = 640;
  load.input_mean = 512;
  load.output_mean = 64;
  load.clock = MegaHertz(1980);
  const Measured free = run(*model, engine, load);
  load.front_end_token_s = 0.001;
  const Measured limited = run(*model, engine, load);
  EXPECT_GT(free.output_tokens_per_s, 1200.0);
  EXPECT_LE(limited.output_tokens_per_s, 1001.0);
  EXPECT_GT(limited.output_tokens_per_s, 900.0);
  EXPECT_GT(limited.ttft_mean_s, free.ttft_mean_s);
}

TEST(BenchmarkRun, one_slot_less_than_requests_makes_each_wait_its_share_of_an_answer) {
  const Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.concurrency = 8;
  load.requests = 320;
  load.input_mean = 128;
  load.output_mean = 400;
  load.clock = MegaHertz(1980);
  engine.max_num_seqs = 7;
  const Measured m = run(*model, engine, load);
  const double share = m.tpot_mean_s * 399.0 / 7.0;
  EXPECT_NEAR(m.ttft_mean_s, share, 0.2 * share);
}

TEST(BenchmarkRun, prompts_sent_before_are_computed_again_only_where_nothing_is_cached) {
  const Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.concurrency = 16;
  load.requests = 160;
  load.input_mean = 4000;
  load.output_mean = 100;
  load.clock = MegaHertz(1980);
  const Measured all = run(*model, engine, load);
  load.distinct_prompts = load.prompts_sent_before = 20;
  const Measured cached = run(*model, engine, load);
  EXPECT_LT(cached.ttft_mean_s, 0.3 * all.ttft_mean_s);
  load.prompts_sent_before = 5;
  const Measured some = run(*model, engine, load);
  EXPECT_GT(some.ttft_mean_s, 1.1 * cached.ttft_mean_s) << "those met for the first time are computed";
  EXPECT_LT(some.ttft_mean_s, 0.7 * all.ttft_mean_s);
  EXPECT_LT(cached.tpot_mean_s, 0.7 * all.tpot_mean_s) << "no prompts between its steps";
  engine.prefix_caching = false;
  EXPECT_NEAR(run(*model, engine, load).tpot_mean_s, all.tpot_mean_s, 1e-3 * all.tpot_mean_s) << "no trace of it";
}

TEST(FitPlan, fits_what_is_wanted_and_what_it_starts_from) {
  Catalog catalog = h100_catalog();
  for (const char* name : {"h200", "a100-80g", "gh200-144g"}) catalog.gpus[name].name = name;
  EXPECT_EQ(fit_order(catalog, {"gh200-144g"}), (std::vector<std::string>{"h100", "h200", "gh200-144g"}));
  EXPECT_EQ(fit_order(catalog).size(), 4U);
}

TEST(BenchmarkRun, a_faster_clock_is_never_slower_and_more_load_never_draws_less) {
  const Catalog catalog = h100_catalog();
  const auto model = engine::StepModel::make(catalog.gpus.at("h100"), catalog.llms.at("llama-3-70b"), 4,
                                             catalog.profiles.at("h100"), benchmark_engine());
  ASSERT_TRUE(model);
  const engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.rate_per_s = 1.0;
  load.requests = 150;
  load.clock = MegaHertz(780);
  const Measured slow = run(*model, engine, load);
  load.clock = MegaHertz(1830);
  const Measured fast = run(*model, engine, load);
  EXPECT_LT(fast.ttft_mean_s, slow.ttft_mean_s);
  EXPECT_LT(fast.tpot_mean_s, slow.tpot_mean_s);
  EXPECT_GT(fast.power_w, slow.power_w);
  load.rate_per_s = 3.0;
  EXPECT_GT(run(*model, engine, load).power_w, fast.power_w);
}

TEST(BenchmarkRun, a_request_larger_than_the_cache_is_infeasible_not_endless) {
  Catalog catalog = h100_catalog();
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  const engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.concurrency = 1;
  load.input_mean = 1e7;
  load.clock = MegaHertz(1980);
  EXPECT_FALSE(run(*model, engine, load).feasible);
}

TEST(BenchmarkRun, an_engine_that_takes_kv_as_requests_grow_holds_more_of_them_and_finishes_those_it_put_back) {
  Catalog catalog = h100_catalog();
  catalog.gpus.at("h100").memory_bytes = 24e9;  // leaves some 27,000 tokens of KV
  const auto model = llama_8b_on_h100(catalog);
  ASSERT_TRUE(model);
  engine::EngineOptions engine = benchmark_engine();
  Load load;
  load.concurrency = 60;
  load.requests = 180;
  load.input_mean = 100;
  load.output_mean = 1000;
  load.warm_up = 1.0 / 3.0;
  load.clock = MegaHertz(1980);
  engine.reserve_output = true;
  const Measured reserved = run(*model, engine, load);
  engine.reserve_output = false;
  const Measured grown = run(*model, engine, load);
  ASSERT_TRUE(reserved.feasible && grown.feasible);
  EXPECT_GT(grown.output_tokens_per_s, 1.15 * reserved.output_tokens_per_s) << "more of the sixty decode at once";
  EXPECT_GT(grown.itl_p50_s, reserved.itl_p50_s) << "in larger batches";
  catalog.gpus.at("h100").memory_bytes = 80e9;
  const auto roomy = llama_8b_on_h100(catalog);
  ASSERT_TRUE(roomy);
  EXPECT_GT(run(*roomy, engine, load).output_tokens_per_s, grown.output_tokens_per_s)
      << "what was put back is computed twice";
}

TEST(Catalog, published_names_find_specs) {
  const Catalog catalog = h100_catalog();
  ASSERT_NE(catalog.llm("meta-llama/Llama-3.1-8B-Instruct"), nullptr);
  EXPECT_EQ(catalog.llm("meta-llama/Llama-3.1-8B-Instruct")->name, "llama-3.1-8b");
  EXPECT_EQ(catalog.llm("nvidia/Llama-3.1-8B-Instruct-FP8")->name, "llama-3.1-8b");
  EXPECT_EQ(catalog.llm("Llama-3.1-70B")->name, "llama-3-70b") << "a generation that shares its shapes";
  EXPECT_EQ(catalog.llm("deepseek-ai/DeepSeek-R1"), nullptr);
}

TEST(HeldOut, is_a_property_of_the_row_and_about_one_in_four) {
  int held = 0;
  for (int i = 0; i < 4000; ++i) held += held_out("set", "row " + std::to_string(i)) ? 1 : 0;
  EXPECT_NEAR(held, 1000, 120);
  EXPECT_EQ(held_out("set", "row 1"), held_out("set", "row 1"));
}

/// Writes a data directory of GEMMs from a made-up profile, each off by a factor of up to 1 +- `noise`.
void write_made_up_card(const ScratchFolder& folder, const Catalog& catalog, double noise) {
  engine::HardwareProfile truth;
  truth.gpu = "h100";
  truth.tensor_efficiency = 0.66;
  truth.memory_efficiency = 0.72;
  truth.kernel_ramp_s = 7e-6;
  std::string csv = "dtype,m,n,k,latency_ms\n";
  std::string placeholder = csv;
  std::vector<std::string> lines;
  for (const int m : {1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096}) {
    for (const int n : {1024, 2048, 4096, 6144, 8192, 14336, 28672}) {
      for (const int k : {1024, 4096, 8192})
        lines.push_back("bfloat16," + std::to_string(m) + "," + std::to_string(n) + "," + std::to_string(k) + ",");
    }
  }
  for (const std::string& line : lines) placeholder += line + "1\n";
  folder.write("aiconfigurator/h100_gemm.csv", placeholder);
  auto blank = collect(folder.path().string(), catalog);
  ASSERT_TRUE(blank) << blank.error().message();
  std::size_t at = 0;
  for (const Experiment& e : blank->experiments) {
    if (e.set != "aiconfigurator/h100-gemm-bf16") continue;
    char text[32];
    const double off = 1.0 + noise * (static_cast<double>(fold_of(e.set, e.row, 1000)) / 499.5 - 1.0);
    std::snprintf(text, sizeof text, "%.9g\n", off * e.simulate(truth, Rival{})->values.front());
    csv += lines[at++] + text;
  }
  ASSERT_EQ(at, lines.size());
  folder.write("aiconfigurator/h100_gemm.csv", csv);
}

TEST(CrossValidation, predicts_rows_it_left_out_as_well_as_their_noise_allows) {
  const ScratchFolder folder;
  const Catalog catalog = h100_catalog();
  write_made_up_card(folder, catalog, 0.2);
  const auto made = collect(folder.path().string(), catalog);
  ASSERT_TRUE(made);
  const std::vector<CrossValidated> table = cross_validate("h100", catalog, made->experiments, 4, 2);
  ASSERT_EQ(table.size(), 1U);
  EXPECT_EQ(table[0].set, "aiconfigurator/h100-gemm-bf16");
  EXPECT_EQ(table[0].quantity, "latency_ms");
  EXPECT_EQ(table[0].rows, static_cast<std::size_t>(std::ranges::count(made->experiments, true, &Experiment::fitted)));
  EXPECT_NEAR(table[0].left_out, 0.10, 0.03) << "the mean of a uniform error of 20 % at most";
  EXPECT_NE(table[0].left_out, table[0].fitted);
  std::vector<Experiment> absurd = made->experiments;
  for (Experiment& e : absurd) {
    if (fold_of(e.set, e.row, 4) == 0) e.quantities[0].measured *= 10.0;  // used by none of the fits under test
  }
  EXPECT_GT(cross_validate("h100", catalog, absurd, 4, 2)[0].left_out, 0.25);
}

/// The fit must find the card without having seen it.
TEST(Fit, recovers_a_made_up_card_from_its_kernel_table) {
  const ScratchFolder folder;
  Catalog catalog = h100_catalog();
  write_made_up_card(folder, catalog, 0.0);
  const auto made = collect(folder.path().string(), catalog);
  ASSERT_TRUE(made);
  catalog.profiles.clear();
  const FitOutcome outcome = fit_gpu("h100", catalog, made->experiments, 1);
  catalog.profiles["h100"] = outcome.profile;
  const Scores scores = score(made->experiments, catalog, 2, false);
  bool compared = false;
  for (const ScoredSet& s : scores.sets) {
    if (s.set != "aiconfigurator/h100-gemm-bf16") continue;
    EXPECT_LT(s.mape, 0.05) << (s.fitted ? "fitted" : "held out");
    compared = compared || !s.fitted;
  }
  EXPECT_TRUE(compared);
  EXPECT_NEAR(outcome.profile.tensor_efficiency, 0.66, 0.05);
  EXPECT_NE(outcome.provenance.find("aiconfigurator"), std::string::npos);
}

TEST(Collect, a_set_without_its_columns_is_refused_by_file_and_column) {
  const ScratchFolder folder;
  folder.write("vllm-fork-Louis-99/h100_idle_power.csv", "tp,freq_mhz\n4,360\n");
  const auto all = collect(folder.path().string(), h100_catalog());
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().message().find("instance_idle_power_w"), std::string::npos) << all.error().message();
}

TEST(Collect, a_run_that_draws_less_with_a_larger_batch_waited_for_its_host) {
  Catalog catalog = h100_catalog();
  const ScratchFolder folder;
  const auto line = [](const char* task, int batch, int watts) {
    return fmt::format("{},meta-llama/Llama-3-70B-Instruct,H100,4,1,1,bfloat16,{},{},{},10,1,300\n", task, batch, batch,
                       watts);
  };
  folder.write(
      "mlenergy/v3_llm_configs.csv",
      "task,model_id,gpu_model,num_gpus,data_parallel,expert_parallel,weight_precision,max_num_seqs,avg_batch_size,"
      "avg_power_watts,median_itl_ms,energy_per_token_joules,avg_output_len\n" +
          line("lm-arena-chat", 8, 2000) + line("lm-arena-chat", 16, 1801) + line("lm-arena-chat", 32, 1799) +
          line("lm-arena-chat", 64, 2100) + line("gpqa", 8, 1500));
  const auto all = collect(folder.path().string(), catalog);
  ASSERT_TRUE(all) << all.error().message();
  std::vector<std::string> sets;
  for (const Experiment& e : all->experiments) {
    if (!e.set.starts_with("mlenergy/")) continue;  // facts of papers need no file
    sets.push_back(e.set);
    EXPECT_EQ(e.model.empty(), e.set.find("waiting") != std::string::npos);
  }
  const std::string busy = "mlenergy/h100-dense (kept busy)", waiting = "mlenergy/h100-dense (waiting for the host)";
  EXPECT_EQ(sets, (std::vector{busy, busy, waiting, busy, waiting}));
}

TEST(LeaveOneModelOut, judges_each_model_by_a_fit_that_saw_the_others_only) {
  const Catalog catalog = h100_catalog();
  // A made-up quantity of the card that a fit recovers: what idling draws, 40 W more by the rows of model `odd`.
  std::vector<Experiment> experiments;
  for (const auto& [model, watts] : {std::pair{"a", 100.0}, {"b", 100.0}, {"odd", 140.0}}) {
    for (int row = 0; row < 3; ++row) {
      Experiment e;
      e.set = "made-up/idle";
      e.row = fmt::format("{} {}", model, row);
      e.gpu = "h100";
      e.model = model;
      e.quantities = {{"power_w", watts}};
      e.simulate = [](const auto& profile, const Rival&) { return Simulated({profile.idle_floor_w}); };
      experiments.push_back(std::move(e));
    }
  }
  const auto table = leave_one_model_out("h100", catalog, experiments, 1);
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(table[2].model, "odd");
  EXPECT_NEAR(table[2].bias, 100.0 / 140.0 - 1.0, 0.03) << "as if all were like the others";
  EXPECT_GT(table[0].bias, 0.03) << "its fit saw the odd one";
  EXPECT_EQ(table[3].model, "all models");
  EXPECT_EQ(table[3].rows, 9U);
  EXPECT_NEAR(table[3].mean, (table[0].mean + table[1].mean + table[2].mean) / 3.0, 1e-12);
}

TEST(Score, does_not_depend_on_the_number_of_threads) {
  Catalog catalog = h100_catalog();
  const ScratchFolder folder;
  folder.write("vllm-fork-Louis-99/h100_idle_power.csv", "tp,freq_mhz,instance_idle_power_w\n4,360,316\n4,1830,618\n");
  const auto all = collect(folder.path().string(), catalog);
  ASSERT_TRUE(all) << all.error().message();
  const Scores one = score(all->experiments, catalog, 1, true);
  const Scores two = score(all->experiments, catalog, 3, true);
  EXPECT_EQ(to_markdown(one, all->absent(), {}), to_markdown(two, all->absent(), {}));
  EXPECT_EQ(std::ranges::count(one.rows, "vllm-fork-Louis-99/idle", &ScoredRow::set), 2);
  EXPECT_NE(std::ranges::find(all->missing, "VoltanaLLM"), all->missing.end()) << "absent sets are listed, not errors";
}

}  // namespace
}  // namespace wattle::fidelity
