#include "calibrate/beliefs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>

#include "base/digest.h"
#include "base/file.h"
#include "base/random.h"
#include "calibrate/model_cache.h"
#include "calibrate/rate_profile.h"
#include "config/cache_dir.h"
#include "learn/gbdt_trainer.h"
#include "predict/online/linear_refit.h"
#include "predict/phase_latency.h"
#include "predict/watched_latency.h"

namespace wattle::calibrate {

namespace {

constexpr double kFillLevels[] = {0.02, 0.10, 0.25, 0.50, 0.75, 0.95};
constexpr std::int64_t kShortContexts[] = {128, 512};
constexpr std::int64_t kLongContext = 4096;
constexpr std::int64_t kPromptLengths[] = {256, 64};
/// Before a chunk of a prompt, or cached.
constexpr std::int64_t kContexts[] = {2'048, 16'384};
constexpr std::int32_t kMixedBatches[] = {1, 8, 16, 32, 64, 128, 256};
constexpr std::int64_t kMixedPrompts[] = {64, 256, 1024, 4096};
constexpr double kMixedFill = 0.25;

Span to_span(std::int64_t fixed_point) { return Span(fixed_point >> engine::kTimeFractionBits); }

/// Where padding a small batch to the size that was compiled reads more experts, and where some layers see but the end
/// of a context, decode times rise by steps with the batch and bend with the context.
bool bends(const LlmSpec& llm) { return llm.experts > 1 || llm.windowed_layers > 0; }
/// No request of these is profiled with a longer context; one that has is extrapolated. A wide window ends where most
/// contexts do: the line within it counts.
std::int64_t longest_context(const LlmSpec& llm) {
  constexpr std::int64_t kLongest = 32'768;
  constexpr std::int32_t kWide = 4'096;
  return llm.sliding_window >= kWide ? llm.sliding_window : kLongest;
}

std::vector<std::int32_t> decode_batches(std::int32_t most, bool small_steps) {
  std::vector<std::int32_t> batches{1};
  if (small_steps) batches.insert(batches.end(), {2, 3});
  batches.insert(batches.end(), {4, 5});
  const std::int32_t fine = small_steps ? 256 : 128;
  const auto add_every = [&](std::int32_t stride, std::int32_t from, std::int32_t to) {
    for (std::int32_t k = from; k < to; k += stride) batches.insert(batches.end(), {k, k + 1, k + stride / 2});
  };
  add_every(8, 8, fine);
  add_every(32, fine, 256);
  add_every(64, 256, 1025);
  std::erase_if(batches, [most](std::int32_t b) { return b > most; });
  return batches;
}

/// Few tokens read few experts.
std::vector<std::int64_t> prompt_tokens(std::int64_t most, const LlmSpec& llm) {
  std::vector<std::int64_t> tokens;
  if (llm.experts > 1) tokens = {1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56};
  std::erase_if(tokens, [most](std::int64_t t) { return t >= most; });
  for (std::int64_t t = tokens.empty() ? 32 : 64; t < most; t += std::max<std::int64_t>(32, t / 16))
    tokens.push_back(t);
  tokens.push_back(most);
  return tokens;
}

/// A step of `tokens` prompt tokens in whole prompts of `length` (the last one shorter).
StepShape prefill_shape(std::int64_t tokens, std::int64_t length) {
  StepShape shape;
  shape.prefill_tokens = tokens;
  for (std::int64_t left = tokens; left > 0; left -= length) {
    const std::int64_t chunk = std::min(left, length);
    ++shape.prefill_requests;
    shape.prefill_context_tokens += chunk * (chunk / 2);
  }
  return shape;
}

}  // namespace

std::uint64_t digest_of(std::span<const predict::StepSample> samples) {
  Digest digest;
  for (const auto& s : samples) {
    digest.add(s.clock.value());
    digest.add(s.shape.decode_requests);
    digest.add(s.shape.decode_kv_tokens);
    digest.add(s.shape.prefill_tokens);
    digest.add(s.shape.prefill_context_tokens);
    digest.add(s.duration.ns());
  }
  return digest.value();
}

std::vector<predict::StepSample> profile_engine(const engine::StepModel& model, const engine::EngineOptions& options,
                                                std::span<const MegaHertz> clocks, bool behind_contexts) {
  const std::int64_t capacity = model.kv_blocks() * options.block_size;
  const bool small_steps = bends(model.llm());
  const auto batches = decode_batches(options.max_num_seqs, small_steps);
  const auto prompts = prompt_tokens(options.max_num_batched_tokens, model.llm());
  std::vector<predict::StepSample> samples;
  samples.reserve(clocks.size() * (batches.size() * (std::size(kFillLevels) + std::size(kShortContexts)) +
                                   prompts.size() * (3 + std::size(kContexts))));
  for (const MegaHertz clock : clocks) {
    for (const std::int32_t batch : batches) {
      const std::int64_t most = small_steps ? std::min(capacity, batch * longest_context(model.llm())) : capacity;
      const auto add = [&](std::int64_t kv_tokens) {
        StepShape shape;
        shape.decode_requests = batch;
        shape.decode_kv_tokens = kv_tokens;
        if (kv_tokens < batch || kv_tokens > most) return;  // every request has at least one token of context
        const engine::DecodeLine line = model.decode(batch, shape.decode_kv_tokens, clock);
        samples.push_back({clock, shape, to_span(line.base + line.slope * kv_tokens)});
      };
      for (const std::int64_t context : kShortContexts) add(batch * context);
      for (const double fill : kFillLevels) add(static_cast<std::int64_t>(static_cast<double>(most) * fill));
    }
    for (const std::int64_t tokens : prompts) {
      for (const std::int64_t length : {tokens, kPromptLengths[0], kPromptLengths[1]}) {
        const StepShape shape = prefill_shape(tokens, length);
        samples.push_back({clock, shape, to_span(model.mixed(shape, clock).duration)});
      }
      for (const std::int64_t context : kContexts) {
        if (!behind_contexts) break;
        StepShape shape = prefill_shape(tokens, tokens);
        shape.prefill_context_tokens += tokens * context;
        samples.push_back({clock, shape, to_span(model.mixed(shape, clock).duration)});
      }
    }
    for (const std::int32_t batch : kMixedBatches) {
      for (const std::int64_t tokens : kMixedPrompts) {
        if (batch > options.max_num_seqs || tokens + batch > options.max_num_batched_tokens) continue;
        StepShape shape = prefill_shape(tokens, tokens);
        shape.decode_requests = batch;
        shape.decode_kv_tokens = static_cast<std::int64_t>(static_cast<double>(capacity) * kMixedFill);
        samples.push_back({clock, shape, to_span(model.mixed(shape, clock).duration)});
      }
    }
  }
  return samples;
}

Result<std::shared_ptr<const predict::LinearFit>> fit_samples(const std::vector<predict::StepSample>& samples,
                                                              const LlmSpec& llm, bool published) {
  static std::mutex mutex;
  static std::map<std::pair<std::uint64_t, bool>, std::shared_ptr<const predict::LinearFit>> known;
  const predict::WindowedLayers windowed{llm.sliding_window, static_cast<double>(llm.windowed_layers) / llm.layers};

  // Profiling costs far less than fitting, and a profile says all that the fit depends on.
  Digest digest;
  digest.add(digest_of(samples));
  digest.add(windowed.window);
  digest.add(llm.windowed_layers);
  const std::pair key{digest.value(), published};
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  predict::LinearFitOptions options;
  options.windowed = windowed;
  options.published_prefill = published;
  options.find_host = !published;
  auto fitted = predict::fit_linear(samples, options);
  if (!fitted) return std::unexpected(fitted.error());
  auto shared = std::make_shared<const predict::LinearFit>(std::move(*fitted));
  known.emplace(key, shared);
  return shared;
}

Result<std::shared_ptr<const predict::LinearFit>> fit_latency(const engine::StepModel& model,
                                                              const engine::EngineOptions& options,
                                                              std::span<const MegaHertz> clocks) {
  return fit_samples(profile_engine(model, options, clocks), model.llm());
}

std::vector<predict::StepSample> sample_engine(const engine::StepModel& model, const engine::EngineOptions& options,
                                               std::span<const MegaHertz> clocks) {
  constexpr int kDecodes = 1'500;
  constexpr int kPrefills = 1'500;
  const std::int64_t capacity = model.kv_blocks() * options.block_size;
  RandomStream random(1, "profile.uniform");
  // From 1 to `most`; log-uniform when `small`.
  const auto draw = [&](std::int64_t most, bool small) {
    const double u = random.uniform();
    const auto m = static_cast<double>(std::max<std::int64_t>(1, most));
    return 1 + std::min(most - 1, static_cast<std::int64_t>(small ? std::exp(u * std::log(m)) - 1.0 : u * m));
  };
  std::vector<predict::StepSample> samples;
  for (const MegaHertz clock : clocks) {
    for (int i = 0; i < kDecodes; ++i) {
      const bool small = i % 2 == 0;
      StepShape shape;
      shape.decode_requests =
          static_cast<std::int32_t>(draw(std::min<std::int64_t>(options.max_num_seqs, capacity), small));
      // A request rarely holds more than some thousand tokens, however much would fit.
      const std::int64_t most = small ? std::min(capacity, kLongContext * shape.decode_requests) : capacity;
      shape.decode_kv_tokens =
          shape.decode_requests + draw(std::max<std::int64_t>(1, most - shape.decode_requests), small) - 1;
      const engine::DecodeLine line = model.decode(shape.decode_requests, shape.decode_kv_tokens, clock);
      samples.push_back({clock, shape, to_span(line.base + line.slope * shape.decode_kv_tokens)});
    }
    for (int i = 0; i < kPrefills; ++i) {
      const std::int64_t tokens = draw(options.max_num_batched_tokens, i % 2 == 0);
      const StepShape shape = prefill_shape(tokens, draw(tokens, i % 4 < 2));
      samples.push_back({clock, shape, to_span(model.mixed(shape, clock).duration)});
    }
  }
  return samples;
}

namespace {

using Samples = std::shared_ptr<const std::vector<predict::StepSample>>;

struct Boosted {
  learn::GbdtModels models;
  std::shared_ptr<const LatencyModel> latency;
};

/// The models trained on these samples, from the cache where an earlier process left them; how well they explain what
/// was held out is not kept.
Result<learn::GbdtModels> models_of(const std::vector<predict::StepSample>& samples,
                                    const learn::GbdtTraining& training) {
  Digest key;
  key.add(learn::training_digest(training));
  key.add(digest_of(samples));
  if (training.lines != nullptr) {
    for (const auto& s : samples) key.add(training.lines->step_time(s.shape, s.clock).ns());
  }
  const ModelCache cache(config::cache_dir());
  if (auto kept = cache.find(key.value()); kept && kept->size() == 2) {
    return learn::GbdtModels{std::move((*kept)[0]), std::move((*kept)[1]), {}, {}};
  }
  auto models = learn::train_gbdt(samples, training);
  if (models) cache.keep(key.value(), std::vector{models->prefill_model, models->decode_model});
  return models;
}

/// The same for throttLL'eM's M.
Result<std::string> rates_of(const std::vector<predict::StepSample>& samples, std::int32_t tensor_parallel) {
  Digest key;
  key.add(learn::training_digest(learn::RateTraining{}));
  key.add(digest_of(samples));
  key.add(tensor_parallel);
  const ModelCache cache(config::cache_dir());
  if (auto kept = cache.find(key.value()); kept && kept->size() == 1) return std::move(kept->front());
  std::vector<learn::EngineStep> steps;
  for (const auto& sample : samples) steps.push_back({tensor_parallel, sample});
  auto rates = learn::train_rates(steps);
  if (rates) cache.keep(key.value(), std::vector{*rates});
  return rates;
}

/// Trained on once in this process.
Result<std::shared_ptr<const Boosted>> train(const std::vector<predict::StepSample>& samples,
                                             const learn::GbdtTraining& training) {
  static std::mutex mutex;
  static std::map<std::tuple<std::uint64_t, bool, bool>, std::shared_ptr<const Boosted>> known;

  // Equal samples come from equal engines, which have the same lines.
  const std::tuple key{digest_of(samples), training.prefill_trees, training.lines != nullptr};
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  auto models = models_of(samples, training);
  if (!models) return std::unexpected(models.error());
  auto loaded = learn::load_latency(*models, training.lines);
  if (!loaded) return std::unexpected(loaded.error());
  auto made = std::make_shared<const Boosted>(Boosted{std::move(*models), std::move(*loaded)});
  known.emplace(key, made);
  return made;
}

void scale(std::vector<predict::StepSample>& samples, double factor) {
  if (factor == 1.0) return;
  for (auto& s : samples) s.duration = Span::from_seconds(s.duration.seconds() * factor);
}

void scatter(std::vector<predict::StepSample>& samples, double noise) {
  if (noise == 0.0) return;
  RandomStream random(1, "profile.noise");
  for (auto& s : samples) {
    s.duration = Span::from_seconds(s.duration.seconds() * std::max(0.0, 1.0 + noise * random.normal()));
  }
}

/// A profile as the engine these lines were measured on would have given it, as far as they say.
void time_by(const predict::LinearLatency& lines, std::vector<predict::StepSample>& samples) {
  for (auto& s : samples) s.duration = lines.step_time(s.shape, s.clock);
  std::erase_if(samples, [](const auto& s) { return s.duration <= Span() || s.duration > Span::s(600); });
}

}  // namespace

Result<std::shared_ptr<const LatencyModel>> train_rates(const engine::StepModel& model,
                                                        const engine::EngineOptions& options,
                                                        std::span<const MegaHertz> clocks,
                                                        const std::shared_ptr<const predict::LinearLatency>& measured) {
  static std::mutex mutex;
  static std::map<std::uint64_t, std::shared_ptr<const LatencyModel>> known;

  if (clocks.empty()) return bad_input("clocks", "none to collect at");
  auto samples = collect_rates(model, options, clocks);
  if (measured) time_by(*measured, samples);
  if (samples.empty()) return bad_input("predictor_file", "has no decodes at this recipe's clocks");
  const std::uint64_t key = digest_of(samples);
  const std::scoped_lock lock(mutex);
  // What lines say of prompts is not in the samples.
  if (const auto found = known.find(key); !measured && found != known.end()) return found->second;
  const auto rates = rates_of(samples, model.gpus());
  if (!rates) return std::unexpected(rates.error());
  std::shared_ptr<const LatencyModel> prompts = measured;
  if (!prompts) {
    const auto lines = fit_latency(model, options, clocks);
    if (!lines) return std::unexpected(lines.error());
    prompts = std::shared_ptr<const LatencyModel>(*lines, &(*lines)->model);
  }
  auto loaded = learn::load_rates(*rates, model.gpus());
  if (!loaded) return std::unexpected(loaded.error());
  auto shared = std::make_shared<const predict::PhaseLatency>(
      std::make_shared<const predict::GbdtLatency>(std::move(*loaded)), std::move(prompts));
  if (!measured) known.emplace(key, shared);
  return shared;
}

Result<LatencyBelief> believe_latency(const PredictorOptions& o, const PredictorContext& context,
                                      const engine::StepModel& model, const engine::EngineOptions& options,
                                      std::span<const MegaHertz> clocks) {
  if (o.window > o.ring) {
    return bad_input(
        "predictor.window",
        fmt::format("{} judge of the {} samples of predictor.ring; at most all of them", o.window, o.ring));
  }
  std::shared_ptr<const predict::LinearLatency> measured;  // null: the simulated engine is profiled
  if (!o.file.empty()) {
    const auto file = load_belief(o.file, context.recipe_file);
    if (!file) return std::unexpected(file.error());
    auto lines = predict::LinearLatency::make(file->time);
    if (!lines) return std::unexpected(lines.error());
    if (o.form == "linear" && !o.online) {
      return LatencyBelief{std::make_shared<const predict::WatchedLatency>(std::move(*lines)), nullptr};
    }
    measured = std::make_shared<const predict::LinearLatency>(std::move(*lines));
  }
  if (o.form == "ips") {
    if (o.online) return bad_input("predictor.online", "throttLL'eM's M does not learn on; linear and gbdt do");
    auto trained = train_rates(model, options, clocks, measured);
    if (!trained) return std::unexpected(trained.error());
    return LatencyBelief{std::move(*trained), nullptr};
  }
  const bool boosted = o.form.starts_with("gbdt");
  const bool published = o.form.ends_with("published");
  auto samples = boosted ? sample_engine(model, options, clocks) : profile_engine(model, options, clocks, !published);
  scale(samples, context.measurement.profile_scale);
  scatter(samples, context.measurement.sample_noise);
  if (measured) time_by(*measured, samples);
  LatencyBelief belief;
  predict::LatencyRefit refit;
  if (boosted) {
    learn::GbdtTraining training;
    training.prefill_trees = !published;
    if (o.form == "gbdt-residual" && measured) {
      training.lines = measured;
    } else if (o.form == "gbdt-residual") {
      auto profile = profile_engine(model, options, clocks);
      scale(profile, context.measurement.profile_scale);
      scatter(profile, context.measurement.sample_noise);
      const auto fit = fit_samples(profile, model.llm());
      if (!fit) return std::unexpected(fit.error());
      training.lines = std::shared_ptr<const predict::LinearLatency>(*fit, &(*fit)->model);
    }
    const auto trained = train(samples, training);
    if (!trained) return std::unexpected(trained.error());
    belief.model = (*trained)->latency;
    refit = learn::gbdt_refit((*trained)->models, (*trained)->latency, std::move(samples), training);
  } else {
    auto line = measured;
    if (!line) {
      const auto fit = fit_samples(samples, model.llm(), published);
      if (!fit) return std::unexpected(fit.error());
      line = std::shared_ptr<const predict::LinearLatency>(*fit, &(*fit)->model);
    }
    belief.model = line;
    refit = predict::linear_refit(std::move(samples), line, published);
  }
  if (o.online) {
    predict::OnlineOptions online;
    online.refit_every = o.refit_every;
    online.ring = o.ring;
    online.window = o.window;
    online.refit = o.refit;
    auto learner = std::make_shared<predict::OnlineLatency>(belief.model, std::move(refit), online);
    belief.learner = learner.get();
    belief.model = std::move(learner);
  }
  return belief;
}

Result<predict::LinearBelief> load_belief(const std::string& file, const std::string& recipe_file) {
  const std::filesystem::path beside = std::filesystem::path(recipe_file).parent_path() / file;
  std::error_code ignored;
  const std::string path =
      !std::filesystem::exists(file, ignored) && std::filesystem::exists(beside, ignored) ? beside.string() : file;
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  return predict::parse_belief(*text, path);
}

Result<MeasuredClocks> clocks_believed(const PredictorOptions& predictor, const std::string& recipe_file) {
  if (predictor.file.empty()) return MeasuredClocks{};
  const auto file = load_belief(predictor.file, recipe_file);
  if (!file) return std::unexpected(file.error());
  const auto& clocks = file->time.clocks;  // ascending, not empty
  return MeasuredClocks{clocks.front().clock, clocks.back().clock};
}

std::int64_t extrapolations(std::span<const std::shared_ptr<const LatencyModel>> beliefs) {
  std::int64_t sum = 0;
  for (const auto& belief : beliefs) {
    if (const auto* watched = dynamic_cast<const predict::WatchedLatency*>(belief.get())) sum += watched->outside();
  }
  return sum;
}

}  // namespace wattle::calibrate
