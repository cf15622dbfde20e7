// `wattle forecast length`: compares predictors of output lengths on a file of prompts and answers, trains one for
// later use, and queries it.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "commands.h"
#include "config/project.h"
#include "learn/length_trainer.h"
#include "length_contest.h"
#include "neural_module/neural_module.h"
#include "predict/length_learner.h"
#include "systems/recipe.h"

namespace wattle::apps {

namespace {

constexpr std::size_t kFewestHeld = 20;

struct LengthFlags {
  std::string data;
  std::vector<std::int32_t> below;
  std::string recipe;
  double held_out = 0.25;
  std::string kind = "trees";
  std::string out;
  std::string model;
  double quantile = 0.5;
  int epochs = 5;
  std::uint64_t seed = 1;
  bool no_neural = false;
  bool json = false;
};

/// The borders of classes: those given, else the recipe's, else FREESH's first partition's.
Result<std::vector<std::int32_t>> borders_of(const LengthFlags& flags) {
  if (!flags.below.empty() && !flags.recipe.empty()) return bad_input("--below", "--recipe states the borders, too");
  std::vector<std::int32_t> borders = flags.below;
  if (!flags.recipe.empty()) {
    const auto loaded = systems::load_recipe(flags.recipe, {}, config::project());
    if (!loaded) return std::unexpected(loaded.error());
    borders = loaded->recipe.classes.output_below;
    if (borders.empty()) return bad_input("--recipe", flags.recipe + " sorts by no [classify] output_below");
  } else if (borders.empty()) {
    borders = {neural::LengthNetOptions{}.long_above};
  }
  if (!std::ranges::is_sorted(borders, std::ranges::less_equal{}) || borders.front() < 1) {
    return bad_input("--below", "borders must ascend, each above 0");
  }
  return borders;
}

neural::LengthNetOptions net_options(const LengthFlags& flags, std::int32_t border) {
  neural::LengthNetOptions options;
  options.epochs = flags.epochs;
  options.seed = flags.seed;
  options.long_above = border;
  options.progress = [of = flags.epochs](std::int64_t epoch, double loss) {
    fmt::print(stderr, "wattle: net: epoch {} of {}, loss {:.4f}\n", epoch, of, loss);
  };
  return options;
}

Result<std::unique_ptr<neural::LengthNet>> train_net(const std::vector<neural::LengthExample>& examples,
                                                     const neural::LengthNetOptions& options) {
  const auto train = neural_symbol(kTrainLengths);
  if (!train) return std::unexpected(train.error());
  Result<std::unique_ptr<neural::LengthNet>> net;
  reinterpret_cast<TrainLengths*> (*train)(examples, options, net);
  return net;
}

struct Scored {
  std::string name;
  LengthContestScore score;
};

void print_table(const std::vector<Scored>& all, const std::vector<std::int32_t>& borders) {
  fmt::print("  {:<22} {:>9} {:>8} {:>8} {:>10} {:>10} {:>9} {:>8} {:>9} {:>8} {:>8}\n", "predictor", "MAE", "against",
             "MAPE", "pinball 50", "pinball 90", "cover 90", "R2", "class", "fit s", "us each");
  const auto& median = std::ranges::find(all, "running median", &Scored::name)->score;
  for (const auto& [name, s] : all) {
    fmt::print(
        "  {:<22} {:>9.2f} {:>7.1f}% {:>7.1f}% {:>10.2f} {:>10.2f} {:>8.1f}% {:>8.4f} {:>8.1f}% {:>8.2f} {:>8.2f}\n",
        name, s.mae, 100.0 * (s.mae / std::max(median.mae, 1e-12) - 1.0), 100.0 * s.mape, s.pinball_50, s.pinball_90,
        100.0 * s.coverage_90, s.r2, 100.0 * s.accuracy, s.fit_s, s.ask_us);
  }
  const auto best = std::ranges::min_element(all, {}, [](const Scored& one) { return one.score.mae; });
  fmt::print(
      "  against: MAE against the running median's; class: share of answers put to the right side of {} tokens; best: "
      "{}\n",
      fmt::join(borders, ", "), best->name);
}

nlohmann::json to_json(const Scored& one) {
  const auto& s = one.score;
  return {{"name", one.name},
          {"mae", s.mae},
          {"mape", s.mape},
          {"pinball_50", s.pinball_50},
          {"pinball_90", s.pinball_90},
          {"coverage_90", s.coverage_90},
          {"r2", s.r2},
          {"class_accuracy", s.accuracy},
          {"fit_s", s.fit_s},
          {"predict_us", s.ask_us}};
}

int bench(const LengthFlags& flags) {
  const auto borders = borders_of(flags);
  if (!borders) return fail(borders.error());
  const auto data = read_lengths(flags.data, true);
  if (!data) return fail(data.error());
  const auto& rows = data->rows;
  const auto held = static_cast<std::size_t>(flags.held_out * static_cast<double>(rows.size()));
  const std::size_t learned = rows.size() - held;
  if (held < kFewestHeld || learned < learn::kFewestAnswers) {
    return fail(
        {ErrorKind::BadInput, flags.data,
         fmt::format("has {} rows, of which {} are held out; at least {} have to be, and {} to be left to learn "
                     "from",
                     rows.size(), held, kFewestHeld, learn::kFewestAnswers)});
  }
  std::vector<predict::PromptFeatures> features;
  features.reserve(rows.size());
  for (const LengthRow& row : rows) features.push_back(row.features());
  auto entrants = length_predictors(flags.seed);
  if (!flags.no_neural && data->has_text) {
    entrants.push_back(
        length_net([&](const auto& examples) { return train_net(examples, net_options(flags, borders->front())); }));
  } else if (!flags.no_neural) {
    fmt::print(stderr, "wattle: no prompt has text: the net is left out, the trees have lengths alone\n");
  }
  std::vector<Scored> scores;
  for (const auto& [name, predictor] : entrants) {
    fmt::print(stderr, "wattle: {}\n", name);
    const auto score = contest(*predictor, rows, features, learned, *borders);
    if (!score && name == "net" && score.error().kind == ErrorKind::External) {
      fmt::print(stderr, "wattle: the net is left out: {}\n", score.error().message());
      continue;
    }
    if (!score) return fail(score.error());
    scores.push_back({name, *score});
  }
  if (flags.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Scored& one : scores) all.push_back(to_json(one));
    const nlohmann::json object = {{"data", flags.data},          {"rows", rows.size()}, {"held_out", held},
                                   {"text", data->has_text},      {"below", *borders},   {"seed", flags.seed},
                                   {"predictors", std::move(all)}};
    fmt::print("{}\n", object.dump());
    return 0;
  }
  fmt::print("{}: {} rows{}, the last {} held out; tokens\n", flags.data, rows.size(),
             data->has_text ? "" : " without text", held);
  print_table(scores, *borders);
  return 0;
}

int train(const LengthFlags& flags) {
  if (const auto ok = check_writable(flags.out); !ok) return fail(ok.error());
  const auto borders = borders_of(flags);
  if (!borders) return fail(borders.error());
  const auto data = read_lengths(flags.data, true);
  if (!data) return fail(data.error());
  std::string bytes;
  if (flags.kind == "net") {
    if (!data->has_text) return fail({ErrorKind::BadInput, flags.data, "has no text; a net learns from prompts"});
    std::vector<neural::LengthExample> examples;
    for (const auto& row : data->rows) examples.push_back({row.prompt, row.output_tokens});
    const auto net = train_net(examples, net_options(flags, borders->front()));
    if (!net) return fail(net.error());
    bytes = (*net)->save();
  } else {
    std::vector<predict::LengthAnswer> answers;
    for (const auto& row : data->rows) answers.push_back({row.features(), row.output_tokens});
    auto trees = learn::train_length_trees(answers, {.quantile = flags.quantile, .seed = flags.seed});
    if (!trees) return fail(trees.error());
    bytes = std::move(*trees);
  }
  if (auto written = write_file(flags.out, bytes); !written) return fail(written.error());
  fmt::print("{}: {} trained on {} answers, {} bytes\n", flags.out, flags.kind, data->rows.size(), bytes.size());
  return 0;
}

int ask(const LengthFlags& flags) {
  const auto bytes = read_file(flags.model);
  if (!bytes) return fail(bytes.error());
  const auto data = read_lengths(flags.data, false);
  if (!data) return fail(data.error());
  if (bytes->starts_with("PK")) {  // torch's archives are zips
    const auto load = neural_symbol(kLoadLengths);
    if (!load) return fail(load.error());
    Result<std::unique_ptr<neural::LengthNet>> net;
    reinterpret_cast<LoadLengths*> (*load)(*bytes, net);
    if (!net) return fail({net.error().kind, flags.model, net.error().message()});
    fmt::print("row,tokens,long_probability\n");
    for (std::size_t i = 0; i < data->rows.size(); ++i) {
      const auto guess = (*net)->predict(data->rows[i].prompt);
      fmt::print("{},{:.0f},{:.3f}\n", i + 1, std::max(guess.tokens, 1.0), guess.long_probability);
    }
    return 0;
  }
  const auto trees = predict::LengthTrees::from_xgboost(*bytes);
  if (!trees) return fail({trees.error().kind, flags.model, trees.error().message()});
  fmt::print("row,tokens\n");
  for (std::size_t i = 0; i < data->rows.size(); ++i) {
    fmt::print("{},{}\n", i + 1, predict::LengthLearner::predict(&*trees, data->rows[i].features()));
  }
  return 0;
}

}  // namespace

void add_forecast_length(Command forecast, int& exit_code) {
  Command command =
      forecast.add_subcommand("length", "Predictors of output lengths, from a file of requests and answers");
  command.require_subcommand();
  const auto with_data = [](Command& of, LengthFlags& flags) {
    of.add_option("--data", flags.data,
                  "JSON lines with prompt (or messages), output_tokens and, if known, prompt_tokens, max_tokens, "
                  "tenant and model; a CSV with such columns; or a trace. In order of time")
        .required();
  };
  const auto with_training = [](Command& of, LengthFlags& flags) {
    of.add_option("--below", flags.below, "borders between classes of answers, in tokens; default: 444");
    of.add_option("--recipe", flags.recipe, "recipe whose [classify] output_below to use instead");
    of.add_option("--epochs", flags.epochs, "of the net").check(range(1, 1000)).capture_default_str();
    of.add_option("--seed", flags.seed, "seed of trees and net");
  };
  auto flags = std::make_shared<LengthFlags>();
  Command bench_command = command.add_subcommand(
      "bench", "Compare them with the running mean and median on the last rows, which are held out");
  with_data(bench_command, *flags);
  with_training(bench_command, *flags);
  bench_command.add_option("--held-out", flags->held_out, "share of the rows to hold out")
      .check(range(0.01, 0.99))
      .capture_default_str();
  bench_command.add_flag("--no-neural", flags->no_neural, "leave out the net");
  bench_command.add_flag("--json", flags->json, "print one JSON object");
  bench_command.callback([flags, &exit_code] { exit_code = bench(*flags); });

  Command train_command = command.add_subcommand(
      "train", "Train one on all rows; trees can then be the initial model of a recipe (length.trees)");
  with_data(train_command, *flags);
  with_training(train_command, *flags);
  train_command.add_option("--kind", flags->kind, "trees or net").check(one_of({"trees", "net"})).capture_default_str();
  train_command
      .add_option("--quantile", flags->quantile, "trees: share of answers that should be no longer than predicted")
      .check(range(0.001, 0.999))
      .capture_default_str();
  train_command.add_option("--out", flags->out, "file to write").required();
  train_command.callback([flags, &exit_code] { exit_code = train(*flags); });

  Command predict_command = command.add_subcommand("predict", "Print a trained predictor's prediction for each row");
  with_data(predict_command, *flags);
  predict_command.add_option("--model", flags->model, "file written by `wattle forecast length train`").required();
  predict_command.callback([flags, &exit_code] { exit_code = ask(*flags); });
}

}  // namespace wattle::apps
