// `wattle forecast bench`: every forecaster on held-out real data, compared with persistence and seasonal-naive.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "config/locate.h"
#include "forecast_tasks.h"
#include "neural_module/neural_module.h"
#include "predict/forecast/backtest.h"

namespace wattle::apps {

namespace {
using predict::Forecaster;

struct BenchFlags {
  std::vector<std::string> tasks;
  std::string data;
  OwnSeries own;
  std::size_t updates = 600;
  std::uint64_t seed = 1;
  bool no_neural = false;
  bool json = false;
};

/// A forecaster in the table; the same kind may appear twice.
struct Entrant {
  std::string name;
  std::unique_ptr<Forecaster> forecaster;
};

struct Row {
  std::string name;
  predict::ForecastScore score;
  double fit_s = 0.0;
  double backtest_s = 0.0;
  std::int64_t forecasts = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Steps that a forecaster with this context has to have, so that margins can be taken.
std::size_t past_for(std::size_t context, const ForecastTask& task) {
  const predict::MarginOptions margins;
  const std::size_t measured = task.horizon + margins.least - 1;
  return std::max(context + measured, static_cast<std::size_t>(static_cast<double>(measured) / margins.held_back) + 1);
}

std::vector<Entrant> entrants(const ForecastTask& task, const BenchFlags& flags, MakeForecaster* neural) {
  std::vector<Entrant> out;
  const std::size_t week = 7 * task.day;
  const bool weekly = task.train >= past_for(3 * week, task);  // seasonal-naive looks back on three
  const std::size_t season = weekly ? week : task.day;
  const std::size_t smoothing = task.day > 24 ? 2 : 0;
  out.push_back({"persistence", predict::make_persistence()});
  out.push_back({"seasonal-naive", predict::make_seasonal_naive(task.day)});
  if (weekly) out.push_back({"seasonal-naive, week", predict::make_seasonal_naive(week)});
  out.push_back({weekly ? "template, week" : "template, day",
                 predict::make_template({.period = season, .smoothing = smoothing})});
  out.push_back(
      {"kalman level-trend", predict::make_kalman({.period = season, .smoothing = smoothing, .log1p = task.rates})});
  out.push_back(
      {"ridge on lags",
       predict::make_ridge({.horizon = task.horizon, .lags = 24, .period = task.day, .seasons = weekly ? 7U : 1U})});
  if (neural == nullptr) return out;
  const NeuralTask wanted{.horizon = task.horizon,
                          .window = 48,
                          .period = task.day,
                          .updates = flags.updates,
                          .hidden = 32,
                          .batch = task.values.size() > 1 ? 16U : 64U,
                          .seed = flags.seed};
  for (const char* kind : {"lstm", "gru-graph"}) {
    if (std::string_view(kind) == "gru-graph" && task.values.size() < 2) continue;  // a graph needs other series
    if (Forecaster* made = neural(kind, &wanted)) out.push_back({kind, std::unique_ptr<Forecaster>(made)});
  }
  return out;
}

Result<Row> run(const ForecastTask& task, Entrant entrant) {
  fmt::print(stderr, "wattle: {}: {}\n", task.name, entrant.name);
  Row row;
  row.name = entrant.name;
  const predict::Panel all = task.panel();
  predict::MarginOptions margins{.horizon = task.horizon, .stride = task.stride};
  const std::size_t needed = past_for(entrant.forecaster->context(), task);
  if (task.train < needed) {
    return bad_input(task.what,
                     fmt::format("{} steps are left to learn from; {} needs {}", task.train, row.name, needed));
  }
  // With little history, the origins for calibration have to be closer to each other.
  const auto learned = static_cast<std::size_t>(static_cast<double>(task.train) * (1.0 - margins.held_back));
  const std::size_t used = std::max(learned, entrant.forecaster->context()) + task.horizon;
  const std::size_t room = task.train > used ? task.train - used : 0;
  margins.stride = std::clamp<std::size_t>(room / (margins.least - 1), 1, task.stride);
  const auto start = std::chrono::steady_clock::now();
  const auto fitted =
      predict::QuantileForecaster::fit(std::move(entrant.forecaster), all.window(0, task.train), margins);
  if (!fitted) return std::unexpected(fitted.error());
  row.fit_s = seconds_since(start);
  const auto fitted_at = std::chrono::steady_clock::now();
  auto score = predict::backtest(*fitted, all, {.train = task.train, .horizon = task.horizon, .stride = task.stride});
  if (!score) return std::unexpected(score.error());
  row.backtest_s = seconds_since(fitted_at);
  row.score = std::move(*score);
  row.forecasts = static_cast<std::int64_t>((all.steps() - task.train - task.horizon) / task.stride) + 1;
  return row;
}

const Row& row_named(const std::vector<Row>& rows, std::string_view name) {
  return *std::ranges::find(rows, name, &Row::name);
}

void print_table(const ForecastTask& task, const std::vector<Row>& rows) {
  const double naive = row_named(rows, "seasonal-naive").score.mae;
  fmt::print("{}: {}\n", task.name, task.what);
  fmt::print("  {} series, steps of {:g} min, {} to learn from, {} held out, {} points scored; {}\n",
             task.series.size(), task.step_minutes, task.train, task.values.front().size() - task.train,
             rows.front().score.points, task.unit);
  fmt::print("  {:<22} {:>8} {:>8} {:>8} {:>10} {:>10} {:>9} {:>10} {:>8} {:>8}\n", "forecaster", "MAE", "against",
             "MAPE", "pinball 50", "pinball 90", "cover 90", "R2", "fit s", "ms each");
  for (const Row& row : rows) {
    // Where seasonal-naive is all but exact there is nothing to be better than.
    const bool comparable = naive > 1e-4 * std::abs(row.score.mae);
    const std::string against = comparable ? fmt::format("{:+.1f}%", 100.0 * (row.score.mae / naive - 1.0)) : "-";
    fmt::print("  {:<22} {:>8.3f} {:>8} {:>7.1f}% {:>10.3f} {:>10.3f} {:>8.1f}% {:>10.4f} {:>8.2f} {:>8.3f}\n",
               row.name, row.score.mae, against, 100.0 * row.score.mape, row.score.pinball_50, row.score.pinball_90,
               100.0 * row.score.coverage_90, row.score.r2, row.fit_s,
               1e3 * row.backtest_s / static_cast<double>(row.forecasts));
  }
  const auto best = std::ranges::min_element(rows, {}, [](const Row& r) { return r.score.mae; });
  fmt::print("  best: {}", best->name);
  for (const char* kind : {"lstm", "gru-graph"}) {
    const auto found = std::ranges::find(rows, kind, &Row::name);
    if (found == rows.end()) continue;
    fmt::print("; {} {} seasonal-naive", kind, found->score.mae < naive ? "beats" : "does not beat");
  }
  fmt::print("\n\n");
}

nlohmann::json to_json(const ForecastTask& task, const std::vector<Row>& rows,
                       const std::vector<std::string>& left_out) {
  const double naive = row_named(rows, "seasonal-naive").score.mae;
  const double persistence = row_named(rows, "persistence").score.mae;
  nlohmann::json forecasters = nlohmann::json::array();
  for (const Row& row : rows) {
    const auto& s = row.score;
    forecasters.push_back({{"name", row.name},
                           {"mae", s.mae},
                           {"mape", s.mape},
                           {"r2", s.r2},
                           {"pinball_50", s.pinball_50},
                           {"pinball_90", s.pinball_90},
                           {"coverage_90", s.coverage_90},
                           {"mae_by_lead", s.mae_by_lead},
                           {"beats_seasonal_naive", s.mae < naive},
                           {"beats_persistence", s.mae < persistence},
                           {"fit_s", row.fit_s},
                           {"forecast_ms", 1e3 * row.backtest_s / static_cast<double>(row.forecasts)}});
  }
  return {{"task", task.name},
          {"what", task.what},
          {"unit", task.unit},
          {"series", task.series},
          {"step_minutes", task.step_minutes},
          {"train_steps", task.train},
          {"held_out_steps", task.values.front().size() - task.train},
          {"horizon", task.horizon},
          {"points", rows.front().score.points},
          {"forecasters", std::move(forecasters)},
          {"left_out", left_out}};
}

/// The tasks that were named, each loaded when it is run.
Result<std::vector<std::function<Result<ForecastTask>()>>> tasks_of(const BenchFlags& flags) {
  std::vector<std::function<Result<ForecastTask>()>> tasks;
  if (!flags.own.file.empty()) {
    if (!flags.tasks.empty() || !flags.data.empty()) return bad_input("--file", "is instead of --task and --data");
    tasks.emplace_back([own = flags.own] { return load_own_series(own); });
    return tasks;
  }
  const std::string data = flags.data.empty() ? config::data_dir() : flags.data;
  if (data.empty()) return bad_input("--data", "is needed, or WATTLE_DATA: the folder of the data sets; or --file");
  std::vector<std::string> names = flags.tasks;
  if (names.empty()) {
    for (const auto name : forecast_task_names()) names.emplace_back(name);
  }
  for (const auto& name : names) tasks.emplace_back([name, data] { return load_forecast_task(name, data); });
  return tasks;
}

int bench(const BenchFlags& flags) {
  const auto wanted = tasks_of(flags);
  if (!wanted) return fail(wanted.error());
  MakeForecaster* neural = nullptr;
  if (!flags.no_neural) {
    const auto found = neural_symbol(kMakeForecaster);
    if (found) neural = reinterpret_cast<MakeForecaster*>(*found);
    if (!found) fmt::print(stderr, "wattle: no neural forecasters: {}\n", found.error().message());
  }
  nlohmann::json tasks = nlohmann::json::array();
  for (const auto& load : *wanted) {
    const auto task = load();
    if (!task) return fail(task.error());
    std::vector<Row> rows;
    std::vector<std::string> left_out;
    for (Entrant& entrant : entrants(*task, flags, neural)) {
      const std::string name = entrant.name;
      auto row = run(*task, std::move(entrant));
      if (row) {
        rows.push_back(std::move(*row));
        continue;
      }
      if (rows.size() < 2) return fail(row.error());  // the others are compared with the first two
      fmt::print(stderr, "wattle: {} is left out: {}\n", name, row.error().message());
      left_out.push_back(name);
    }
    if (flags.json) {
      tasks.push_back(to_json(*task, rows, left_out));
    } else {
      print_table(*task, rows);
    }
  }
  if (flags.json) {
    const nlohmann::json object = {{"seed", flags.seed}, {"neural", neural != nullptr}, {"tasks", std::move(tasks)}};
    fmt::print("{}\n", object.dump());
  }
  return 0;
}
}  // namespace

void add_forecast(Command app, int& exit_code) {
  Command command =
      app.add_subcommand("forecast", "Forecasters of traffic, emissions and prices; predictors of output lengths");
  command.require_subcommand();
  Command bench_command =
      command.add_subcommand("bench", "Compare forecasters with persistence and seasonal-naive on held-out data");
  auto flags = std::make_shared<BenchFlags>();
  bench_command.add_option("--task", flags->tasks, "only this task; repeatable");
  bench_command.add_option("--data", flags->data, "folder of the data sets; default: WATTLE_DATA");
  bench_command.add_option("--file", flags->own.file,
                           "your own CSV instead, with rows in equal time steps without gaps and times in UTC");
  bench_command.add_option("--time", flags->own.time, "--file: column of times").capture_default_str();
  bench_command.add_option("--value", flags->own.value, "--file: column of values").capture_default_str();
  bench_command.add_option("--horizon", flags->own.horizon, "--file: number of steps to forecast")
      .capture_default_str();
  bench_command.add_option("--updates", flags->updates, "training steps of the neural forecasters")
      .check(range(0, 1'000'000));
  bench_command.add_option("--seed", flags->seed, "seed of the neural forecasters");
  bench_command.add_flag("--no-neural", flags->no_neural, "leave out the neural forecasters");
  bench_command.add_flag("--json", flags->json, "print one JSON object");
  add_forecast_length(command, exit_code);
  bench_command.callback([flags, &exit_code] { exit_code = bench(*flags); });
}

}  // namespace wattle::apps
