#include "neural/sequence.h"

#include <fmt/core.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <sstream>

#include "base/random.h"
#include "neural/long.h"

namespace wattle::neural {

namespace {
using predict::Panel;
using predict::Rows;
using torch::Tensor;

constexpr Long kFeatures = 5;  ///< the value, and its place in the season and in seven of them
constexpr Long kLastValues = 4;
constexpr std::size_t kChecks = 20;  ///< looks at the held-back part during training
constexpr Long kMostCheckOrigins = 64;

/// The network's input for a batch of origins; B origins, S series.
struct Batch {
  Tensor windows;  ///< [B, S, window, kFeatures]; values as distances from the last one
  Tensor skip;  ///< [B, S, 2 horizon + kLastValues + 3]: how the two seasons before went on, what came last, the gaps
  Tensor base;  ///< [B, S, horizon]: the prediction of an untrained network
};

struct NetImpl : torch::nn::Module {
  NetImpl(const SequenceOptions& options, Long series)
      : graph(options.encoder == SequenceOptions::Encoder::GruGraph), hidden(to_long(options.hidden)) {
    if (graph) {
      gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(kFeatures, hidden).batch_first(true)));
      mix = register_module("mix", torch::nn::Linear(hidden, hidden));
    } else {
      lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kFeatures, hidden).batch_first(true)));
    }
    const Long horizon = to_long(options.horizon);
    const Long inputs = (graph ? 2 : 1) * hidden + 2 * horizon + kLastValues + 3;
    head = register_module("head", torch::nn::Linear(inputs, horizon));
    torch::nn::init::zeros_(head->weight);
    torch::nn::init::zeros_(head->bias);
    means = register_buffer("means", torch::zeros({series}, torch::kDouble));
    deviations = register_buffer("deviations", torch::ones({series}, torch::kDouble));
    neighbours = register_buffer("neighbours", torch::eye(series));
    seasonal = register_buffer("seasonal", torch::ones({1}));
  }

  Tensor forward(const Batch& batch) {
    const Long b = batch.windows.size(0);
    const Long s = batch.windows.size(1);
    const Tensor flat = batch.windows.reshape({b * s, batch.windows.size(2), kFeatures});
    const Tensor outputs = graph ? std::get<0>(gru->forward(flat)) : std::get<0>(lstm->forward(flat));
    const Tensor state = outputs.select(1, outputs.size(1) - 1).reshape({b, s, hidden});
    std::vector<Tensor> parts = {state, batch.skip};
    // Kipf & Welling 2017: neighbours' states, averaged by the similarity of their changes, through one linear layer
    if (graph) parts.push_back(torch::relu(mix->forward(torch::matmul(neighbours, state))));
    return batch.base + head->forward(torch::cat(parts, 2));
  }

  bool graph;
  Long hidden;
  torch::nn::LSTM lstm{nullptr};
  torch::nn::GRU gru{nullptr};
  torch::nn::Linear mix{nullptr};
  torch::nn::Linear head{nullptr};
  Tensor means;
  Tensor deviations;
  Tensor neighbours;  ///< [S, S], rows sum to 1
  Tensor seasonal;    ///< 1: the base is the season before; 0: the last value
};
TORCH_MODULE(Net);

/// A past as tensors: values in units of each series' own spread, and which of them are known.
struct Past {
  Tensor values;  ///< [S, T]
  Tensor known;   ///< [S, T], 1 or 0
  Tensor places;  ///< [T, kFeatures - 1]
};

Past past_of(const Panel& panel, const Net& net, std::size_t period) {
  const Long s_count = to_long(panel.series.size());
  const Long t_count = to_long(panel.steps());
  Past past{torch::zeros({s_count, t_count}), torch::zeros({s_count, t_count}), torch::zeros({t_count, kFeatures - 1})};
  auto values = past.values.accessor<float, 2>();
  auto known = past.known.accessor<float, 2>();
  for (Long s = 0; s < s_count; ++s) {
    const auto& raw = panel.series[static_cast<std::size_t>(s)];
    const std::vector<double> full = predict::filled(raw);
    const double mean = net->means[s].item<double>();
    const double deviation = net->deviations[s].item<double>();
    for (Long t = 0; t < t_count; ++t) {
      const auto i = static_cast<std::size_t>(t);
      values[s][t] = static_cast<float>((full[i] - mean) / deviation);
      known[s][t] = std::isnan(raw[i]) ? 0.0F : 1.0F;
    }
  }
  if (period == 0) return past;
  auto places = past.places.accessor<float, 2>();
  for (Long t = 0; t < t_count; ++t) {
    for (Long k = 0; k < 2; ++k) {
      const std::size_t length = period * (k == 0 ? 1 : 7);
      const double turn = 2.0 * std::numbers::pi *
                          static_cast<double>(predict::phase_of(panel.first_step + t, length)) /
                          static_cast<double>(length);
      places[t][2 * k] = static_cast<float>(std::sin(turn));
      places[t][2 * k + 1] = static_cast<float>(std::cos(turn));
    }
  }
  return past;
}

/// `origins`: for each, how many steps are known. [B].
Batch batch_of(const Past& past, const Tensor& origins, const SequenceOptions& options, bool seasonal) {
  const Long window = to_long(options.window);
  const Long horizon = to_long(options.horizon);
  const Long period = to_long(options.period);
  const Long series = past.values.size(0);
  const Long count = origins.size(0);
  // [S, B, n] of the n values from origin + offset on, as [B, S, n]
  const auto cut = [&](Long offset, Long n) {
    return past.values.unfold(1, n, 1).index_select(1, origins + offset).permute({1, 0, 2});
  };
  const Tensor newest = cut(-1, 1);
  const Tensor values = (cut(-window, window) - newest).unsqueeze(3);
  const Tensor places = past.places
                            .unfold(0, window, 1)  // [T - window + 1, features, window]
                            .index_select(0, origins - window)
                            .permute({0, 2, 1})
                            .unsqueeze(1)
                            .expand({count, series, window, kFeatures - 1});
  Batch batch;
  batch.windows = torch::cat({values, places}, 3);
  std::vector<Tensor> skip = {newest, cut(-kLastValues, kLastValues) - newest};
  for (Long k = 1; k <= 2; ++k) {
    const Tensor then = period > 0 ? cut(-k * period - 1, 1) : newest;
    skip.push_back(period > 0 ? cut(-k * period, horizon) - then : torch::zeros({count, series, horizon}));
    skip.push_back(then - newest);
  }
  batch.skip = torch::cat(skip, 2);
  batch.base = seasonal ? cut(-period, horizon) : newest.expand({count, series, horizon});
  return batch;
}

class Sequence final : public SequenceForecaster {
 public:
  explicit Sequence(const SequenceOptions& options) : options_(options) { at::set_num_threads(1); }
  const char* name() const override {
    return options_.encoder == SequenceOptions::Encoder::Lstm ? "lstm" : "gru-graph";
  }
  std::size_t context() const override {
    return std::max({options_.window, 2 * options_.period + 1, static_cast<std::size_t>(kLastValues)});
  }

  Result<void> fit(const Panel& past) override {
    const std::size_t needed = context() + 20 * options_.horizon;
    if (past.steps() < needed) {
      return bad_input("past", fmt::format("has {} steps; the network needs {}", past.steps(), needed));
    }
    if (options_.period > 0 && options_.horizon > options_.period) {
      return bad_input("horizon", "must not be longer than a season");
    }
    for (const auto& one : past.series) {
      if (std::isnan(predict::filled(one).front())) return bad_input("past", "a series has no known value");
    }
    torch::manual_seed(options_.seed);
    net_ = Net(options_, to_long(past.series.size()));
    measure(past);
    train(past_of(past, net_, options_.period));
    return {};
  }

  Rows forecast(const Panel& recent, std::size_t horizon) const override {
    Rows out(recent.series.size(), std::vector<double>(horizon, predict::kUnknown));
    if (!net_ || recent.steps() < context() || to_long(recent.series.size()) != net_->means.size(0)) return out;
    const torch::NoGradGuard no_grad;
    const Panel last = recent.last(context());
    // the unfolds of a batch reach `horizon` beyond the seasons before, never beyond the origin
    const Past past = past_of(last, net_, options_.period);
    const Tensor origins = torch::full({1}, to_long(last.steps()), torch::kLong);
    Net net = net_;
    const Tensor said = net->forward(batch_of(past, origins, options_, seasonal())).squeeze(0).to(torch::kDouble);
    for (std::size_t s = 0; s < out.size(); ++s) {
      const double mean = net_->means[to_long(s)].item<double>();
      const double deviation = net_->deviations[to_long(s)].item<double>();
      for (std::size_t h = 0; h < std::min(horizon, options_.horizon); ++h) {
        out[s][h] = mean + deviation * said[to_long(s)][to_long(h)].item<double>();
      }
    }
    return out;
  }

  Result<std::string> save() const override {
    if (!net_) return bad_input(name(), "has learned nothing to save");
    std::ostringstream out;
    torch::save(net_, out);
    return out.str();
  }

  Result<void> load(std::string_view bytes) override {
    try {
      // the number of series is read before the network is made
      torch::serialize::InputArchive archive;
      std::istringstream in{std::string(bytes)};
      archive.load_from(in);
      Tensor means;
      archive.read("means", means, true);
      Net net(options_, means.size(0));
      net->load(archive);
      const auto fresh = Net(options_, means.size(0))->named_parameters();
      for (const auto& parameter : net->named_parameters()) {
        if (parameter.value().sizes() != fresh[parameter.key()].sizes()) {
          return bad_input("network", fmt::format("{} has another size than the options say", parameter.key()));
        }
      }
      net_ = net;
      return {};
    } catch (const std::exception&) {  // torch's messages are stack traces
      return bad_input("network", "is not a saved network of these options");
    }
  }

 private:
  [[nodiscard]] bool seasonal() const { return net_->seasonal.item<float>() > 0.5F; }

  void measure(const Panel& past) {
    const auto series = past.series.size();
    Rows moves(series);  // each series' changes, in units of its standard deviation
    for (std::size_t s = 0; s < series; ++s) {
      const std::vector<double> full = predict::filled(past.series[s]);
      double mean = 0.0;
      double square = 0.0;
      for (const double v : full) mean += v / static_cast<double>(full.size());
      for (const double v : full) square += (v - mean) * (v - mean) / static_cast<double>(full.size());
      const double deviation = std::max(std::sqrt(square), 1e-9);
      net_->means[to_long(s)] = mean;
      net_->deviations[to_long(s)] = deviation;
      for (std::size_t t = 1; t < full.size(); ++t) moves[s].push_back((full[t] - full[t - 1]) / deviation);
    }
    for (std::size_t a = 0; a < series; ++a) {
      for (std::size_t b = 0; b < series; ++b) {
        double ab = 0.0;
        double aa = 1e-12;
        double bb = 1e-12;
        for (std::size_t t = 0; t < moves[a].size(); ++t) {
          ab += moves[a][t] * moves[b][t];
          aa += moves[a][t] * moves[a][t];
          bb += moves[b][t] * moves[b][t];
        }
        net_->neighbours[to_long(a)][to_long(b)] = a == b ? 1.0 : std::max(ab / std::sqrt(aa * bb), 0.0);
      }
    }
    net_->neighbours.div_(net_->neighbours.sum(1, true));
  }

  /// Mean absolute error over known targets, in units of spread.
  Tensor loss_of(const Past& past, const Tensor& origins) {
    const Long horizon = to_long(options_.horizon);
    const auto ahead = [&](const Tensor& of) {
      return of.unfold(1, horizon, 1).index_select(1, origins).permute({1, 0, 2});
    };
    const Tensor known = ahead(past.known);
    const Tensor error =
        (net_->forward(batch_of(past, origins, options_, seasonal())) - ahead(past.values)).abs() * known;
    return error.sum() / known.sum().clamp_min(1.0);
  }

  /// Origins to measure at, evenly over [begin, end).
  static Tensor spread(Long begin, Long end) {
    const Long count = std::clamp<Long>(end - begin, 1, kMostCheckOrigins);
    Tensor origins = torch::empty({count}, torch::kLong);
    for (Long i = 0; i < count; ++i) origins[i] = begin + i * (end - begin) / count;
    return origins;
  }

  /// Before training the network says its base: the better of the two.
  void choose_base(const Past& past, const Tensor& origins) {
    const torch::NoGradGuard no_grad;
    net_->seasonal.fill_(0.0);
    if (options_.period == 0) return;
    const double last = loss_of(past, origins).item<double>();
    net_->seasonal.fill_(1.0);
    if (last <= loss_of(past, origins).item<double>()) net_->seasonal.fill_(0.0);
  }

  void train(const Past& past) {
    const Long first = to_long(context());
    const Long end = past.values.size(1) - to_long(options_.horizon) + 1;
    const Long held_back = std::max(first + 1, end - (end - first) / 10);
    const Tensor check = spread(held_back, end);
    // targets of the origins learned from end before the first one held back
    const Long learn_until = std::max(first + 1, held_back - to_long(options_.horizon));
    choose_base(past, spread(first, learn_until));
    RandomStream random(options_.seed, "neural.origins");
    torch::optim::Adam adam(net_->parameters(), torch::optim::AdamOptions(options_.learning_rate));
    std::vector<Tensor> best;
    double least = std::numeric_limits<double>::infinity();
    const std::size_t every = std::max<std::size_t>(options_.updates / kChecks, 1);
    for (std::size_t update = 0; update <= options_.updates; ++update) {
      if (update % every == 0) {
        const torch::NoGradGuard no_grad;
        if (const double now = loss_of(past, check).item<double>(); now < least) {
          least = now;
          best.clear();
          for (const Tensor& p : net_->parameters()) best.push_back(p.detach().clone());
        }
      }
      const double done = static_cast<double>(update) / static_cast<double>(options_.updates);
      for (auto& group : adam.param_groups()) {
        group.options().set_lr(options_.learning_rate *
                               (0.05 + 0.95 * 0.5 * (1.0 + std::cos(std::numbers::pi * done))));
      }
      Tensor origins = torch::empty({to_long(options_.batch)}, torch::kLong);
      for (Long i = 0; i < origins.size(0); ++i) {
        origins[i] = first + static_cast<Long>(random.below(static_cast<std::uint64_t>(learn_until - first)));
      }
      adam.zero_grad();
      loss_of(past, origins).backward();
      torch::nn::utils::clip_grad_norm_(net_->parameters(), 1.0);
      adam.step();
    }
    const torch::NoGradGuard no_grad;
    const auto parameters = net_->parameters();
    for (std::size_t i = 0; i < best.size(); ++i) {
      Tensor p = parameters[i];
      p.copy_(best[i]);
    }
  }

  SequenceOptions options_;
  Net net_{nullptr};
};
}  // namespace

std::unique_ptr<SequenceForecaster> make_sequence(const SequenceOptions& options) {
  return std::make_unique<Sequence>(options);
}

}  // namespace wattle::neural
