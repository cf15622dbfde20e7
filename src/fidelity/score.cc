#include "fidelity/score.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "base/quantile.h"
#include "base/side_by_side.h"
#include "fidelity/samples.h"

namespace wattle::fidelity {
namespace {

bool is_power(const std::string& quantity) {
  return quantity == "power_w" || quantity == "energy_j" || quantity == "energy_per_token_j";
}

/// The three constants a person would put down for a card: measured idle, TDP for prompts, 65 % of it for decode.
Rival rival(PowerLaw law, const GpuSpec& gpu, const engine::HardwareProfile& profile) {
  Rival r;
  r.law = law;
  r.idle_w = profile.idle_floor_w + profile.idle_clock_w;
  r.prefill_w = gpu.tdp.value();
  r.decode_w = 0.65 * gpu.tdp.value();
  return r;
}

}  // namespace

Scores score(const std::vector<Experiment>& experiments, const Catalog& catalog, unsigned threads, bool rivals) {
  std::vector<std::vector<ScoredRow>> rows(experiments.size());
  side_by_side(threads, experiments.size(), [&](std::size_t i) {
    const Experiment& e = experiments[i];
    const auto profile = catalog.profiles.find(e.gpu);
    const GpuSpec* gpu = catalog.gpu(e.gpu);
    if (profile == catalog.profiles.end() || gpu == nullptr) return;
    const Simulated simulated = e.simulate(profile->second, Rival{});
    const std::vector<double>& ours = simulated.values;
    const bool extrapolated = !engine::extrapolations(profile->second, e.tp, simulated.asked).empty();
    const bool power = !e.set.starts_with("facts/") &&
                       std::ranges::any_of(e.quantities, [](const Quantity& q) { return is_power(q.name); });
    std::vector<double> mfu;
    std::vector<double> constants;
    if (rivals && power) {
      mfu = e.simulate(profile->second, rival(PowerLaw::Mfu, *gpu, profile->second)).values;
      constants = e.simulate(profile->second, rival(PowerLaw::ThreeConstants, *gpu, profile->second)).values;
    }
    for (std::size_t q = 0; q < e.quantities.size(); ++q) {
      ScoredRow row{e.set,
                    e.row,
                    e.gpu,
                    e.quantities[q].name,
                    e.quantities[q].measured,
                    ours[q],
                    kNone,
                    kNone,
                    kNone,
                    e.fitted || e.in_view,
                    extrapolated};
      row.error = ours[q] / row.measured - 1.0;
      if (!mfu.empty() && is_power(row.quantity)) {
        row.mfu_error = mfu[q] / row.measured - 1.0;
        row.constants_error = constants[q] / row.measured - 1.0;
      }
      rows[i].push_back(std::move(row));
    }
  });
  std::vector<ScoredRow> all;
  for (auto& some : rows) std::ranges::move(some, std::back_inserter(all));
  return scores_of(std::move(all));
}

Scores scores_of(std::vector<ScoredRow> rows) {
  Scores scores;
  std::erase_if(rows, [&](const ScoredRow& row) {
    if (std::isfinite(row.error)) return false;
    scores.infeasible.push_back(row.set + ": " + row.row + ", " + row.quantity);
    return true;
  });
  scores.rows = std::move(rows);
  std::map<std::tuple<std::string, std::string, bool>, std::vector<const ScoredRow*>> groups;
  for (const ScoredRow& row : scores.rows) groups[{row.set, row.quantity, row.fitted}].push_back(&row);
  for (const auto& [key, members] : groups) {
    ScoredSet s;
    std::tie(s.set, s.quantity, s.fitted) = key;
    s.rows = members.size();
    std::vector<double> absolute;
    std::vector<double> plain;
    std::vector<double> mfu;
    std::vector<double> constants;
    for (const ScoredRow* row : members) {
      s.extrapolated += row->extrapolated ? 1 : 0;
      absolute.push_back(std::abs(row->error));
      plain.push_back(row->error);
      if (std::isfinite(row->mfu_error)) mfu.push_back(std::abs(row->mfu_error));
      if (std::isfinite(row->constants_error)) constants.push_back(std::abs(row->constants_error));
    }
    s.mape = mean_of(absolute);
    s.median = quantile(absolute, 0.5);
    s.p90 = quantile(absolute, 0.9);
    s.bias = mean_of(plain);
    s.mfu_power_law = mean_of(mfu);
    s.three_constants = mean_of(constants);
    scores.sets.push_back(std::move(s));
  }
  return scores;
}

}  // namespace wattle::fidelity
