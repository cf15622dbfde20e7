#include "predict/online/linear_refit.h"

#include <utility>

namespace wattle::predict {

LatencyRefit linear_refit(std::vector<StepSample> profile, std::shared_ptr<const LinearLatency> offline,
                          bool published) {
  return [profile = std::move(profile), offline = std::move(offline),
          published](std::span<const StepSample> served) -> Result<std::shared_ptr<const LatencyModel>> {
    auto samples = level_profile(profile, *offline, served);
    samples.insert(samples.end(), served.begin(), served.end());
    LinearFitOptions options;
    options.windowed = offline->coefficients().windowed;
    options.tile_ends = offline->coefficients().tile_ends;
    options.find_tiles = false;
    options.published_prefill = published;
    options.find_host = !published;
    options.prefill_ends = offline->coefficients().prefill_ends;
    auto fit = fit_linear(samples, options);
    if (!fit) return std::unexpected(fit.error());
    return std::make_shared<const LinearLatency>(std::move(fit->model));
  };
}

}  // namespace wattle::predict
