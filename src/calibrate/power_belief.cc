// The control plane's power model of an engine.
#include <map>
#include <mutex>
#include <utility>

#include "base/digest.h"
#include "calibrate/beliefs.h"
#include "predict/linear_power.h"

namespace wattle::calibrate {

namespace {

/// A step's energy where its duration stood, 1 nJ as 1 ns.
predict::StepSample energy_of(predict::StepSample sample, const engine::StepModel& model) {
  const StepShape& shape = sample.shape;
  const Milliwatts power = predict::pure_decode(shape)
                               ? model.decode(shape.decode_requests, shape.decode_kv_tokens, sample.clock).power
                               : model.mixed(shape, sample.clock).power;
  const Int128 nanojoules = Int128{power.value()} * sample.duration.ns() / 1000;
  sample.duration = Span(static_cast<std::int64_t>(nanojoules));
  return sample;
}

Result<std::shared_ptr<const PowerModel>> measured_power(const PredictorOptions& predictor,
                                                         const PredictorContext& context) {
  auto file = load_belief(predictor.file, context.recipe_file);
  if (!file) return std::unexpected(file.error());
  if (file->power.energy.clocks.empty()) {
    return bad_input(predictor.file, context.recipe +
                                         " weighs energy, and no power was measured here; profile the engine where "
                                         "its GPUs' power can be read, or choose without (frequency.pick=lowest, "
                                         "frequency.late_tokens=0)");
  }
  auto time = predict::LinearLatency::make(std::move(file->time));
  if (!time) return std::unexpected(time.error());
  auto made = predict::LinearPower::make(std::move(*time), std::move(file->power));
  if (!made) return std::unexpected(made.error());
  return std::make_shared<const predict::LinearPower>(std::move(*made));
}

}  // namespace

Result<std::shared_ptr<const PowerModel>> believe_power(const PredictorOptions& predictor,
                                                        const PredictorContext& context, const engine::StepModel& model,
                                                        const engine::EngineOptions& options,
                                                        std::span<const MegaHertz> clocks) {
  static std::mutex mutex;
  static std::map<std::uint64_t, std::shared_ptr<const PowerModel>> known;

  if (!predictor.file.empty()) return measured_power(predictor, context);
  const auto times = profile_engine(model, options, clocks);
  const auto time = fit_samples(times, model.llm());
  if (!time) return std::unexpected(time.error());
  std::vector<predict::StepSample> energies;
  energies.reserve(times.size());
  for (const auto& sample : times) energies.push_back(energy_of(sample, model));
  Digest digest;
  digest.add(digest_of(times));
  digest.add(digest_of(energies));
  for (const MegaHertz clock : clocks) digest.add(model.idle_power(clock).value());

  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(digest.value()); found != known.end()) return found->second;
  const predict::LinearCoefficients& lines = (*time)->model.coefficients();
  predict::LinearFitOptions form;
  form.windowed = lines.windowed;
  form.tile_ends = lines.tile_ends;
  form.find_tiles = false;
  form.prefill_ends = lines.prefill_ends;
  auto energy = predict::fit_linear(energies, form);
  if (!energy) return std::unexpected(energy.error());
  predict::PowerCoefficients power{energy->model.coefficients(), {}};
  for (const auto& clock : power.energy.clocks) power.idle.push_back(model.idle_power(clock.clock));
  auto made = predict::LinearPower::make((*time)->model, std::move(power));
  if (!made) return std::unexpected(made.error());
  auto shared = std::make_shared<const predict::LinearPower>(std::move(*made));
  known.emplace(digest.value(), shared);
  return shared;
}

}  // namespace wattle::calibrate
