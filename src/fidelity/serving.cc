#include "fidelity/serving.h"

#include <fmt/format.h>

#include <utility>

#include "fidelity/baselines.h"

namespace wattle::fidelity {

using engine::HardwareProfile;
using engine::StepModel;

Result<StepModel> instance(const Instance& at, const HardwareProfile& profile) {
  return StepModel::make(at.gpu, at.llm, at.shape, profile, at.engine);
}

namespace {

std::vector<double> pick(const Measured& m, const std::vector<Quantity>& quantities) {
  std::vector<double> values;
  for (const Quantity& q : quantities) {
    double v = kNone;
    if (q.name == "power_w") {
      v = m.power_w;
    } else if (q.name == "ttft_p99_ms") {
      v = m.ttft_p99_s * 1e3;
    } else if (q.name == "ttft_mean_ms") {
      v = m.ttft_mean_s * 1e3;
    } else if (q.name == "tpot_p99_ms") {
      v = m.tpot_p99_s * 1e3;
    } else if (q.name == "tpot_mean_ms") {
      v = m.tpot_mean_s * 1e3;
    } else if (q.name == "itl_p50_ms") {
      v = m.itl_p50_s * 1e3;
    } else if (q.name == "energy_per_token_j") {
      v = m.power_w / m.output_tokens_per_s;
    }
    values.push_back(v);
  }
  return values;
}

}  // namespace

std::function<Result<Simulated>(const HardwareProfile&, const Rival&)> serve(Instance at, Load load,
                                                                             std::vector<Quantity> quantities) {
  return [at = std::move(at), load, quantities = std::move(quantities)](const HardwareProfile& profile,
                                                                        const Rival& rival) -> Result<Simulated> {
    const Result<StepModel> model = instance(at, profile);
    if (!model) return std::unexpected(model.error());
    const RivalPower power{rival, at.gpu, at.llm, at.shape.gpus()};
    const Measured m = run(*model, at.engine, load, &power);
    if (!m.feasible) return too_large();
    return Simulated{pick(m, quantities), model->asked()};
  };
}

Result<MegaHertz> lockable_clock(const Table& t, std::size_t row, std::string_view column, const GpuSpec& gpu) {
  const MegaHertz clock(t.whole(row, column));
  if (clock >= gpu.clock_min && clock <= gpu.clock_max) return clock;
  return bad_input(t.where(row), fmt::format("{} is {}; {} can lock {} to {} MHz", column, clock.value(), gpu.name,
                                             gpu.clock_min.value(), gpu.clock_max.value()));
}

}  // namespace wattle::fidelity
