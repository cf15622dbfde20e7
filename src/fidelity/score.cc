#include "fidelity/score.h"

#include <fmt/format.h>

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

Result<Simulated> simulated(const Experiment& e, const Catalog& catalog, PowerLaw law) {
  const auto profile = catalog.profiles.find(e.gpu);
  const GpuSpec* gpu = catalog.gpu(e.gpu);
  if (profile == catalog.profiles.end() || gpu == nullptr) return bad_input(e.gpu, "has no profile");
  return e.simulate(profile->second, law == PowerLaw::Ours ? Rival{} : rival(law, *gpu, profile->second));
}

/// NaN if there is none.
double value_at(const Result<Simulated>& of, std::size_t quantity) { return of ? of->values[quantity] : kNone; }

std::vector<ScoredRow> scored(const Experiment& e, const Catalog& catalog, bool rivals) {
  const auto ours = simulated(e, catalog, PowerLaw::Ours);
  const bool extrapolated = ours && !engine::extrapolations(catalog.profiles.at(e.gpu), e.tp, ours->asked).empty();
  const bool power = ours && rivals && !e.set.starts_with("facts/") &&
                     std::ranges::any_of(e.quantities, [](const Quantity& q) { return is_power(q.name); });
  const Result<Simulated> none = bad_input({}, "not asked for");
  const auto mfu = power ? simulated(e, catalog, PowerLaw::Mfu) : none;
  const auto constants = power ? simulated(e, catalog, PowerLaw::ThreeConstants) : none;
  std::vector<ScoredRow> rows;
  for (std::size_t q = 0; q < e.quantities.size(); ++q) {
    ScoredRow row{e.set, e.row, e.gpu, e.quantities[q].name, e.quantities[q].measured, value_at(ours, q)};
    row.fitted = e.fitted || e.in_view;
    row.extrapolated = extrapolated;
    row.error = row.simulated / row.measured - 1.0;
    if (is_power(row.quantity)) {
      row.mfu_error = value_at(mfu, q) / row.measured - 1.0;
      row.constants_error = value_at(constants, q) / row.measured - 1.0;
    }
    if (!ours) row.why_none = ours.error().message();
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Scores score(const std::vector<Experiment>& experiments, const Catalog& catalog, unsigned threads, bool rivals) {
  std::vector<std::vector<ScoredRow>> rows(experiments.size());
  side_by_side(threads, experiments.size(), [&](std::size_t i) { rows[i] = scored(experiments[i], catalog, rivals); });
  std::vector<ScoredRow> all;
  for (auto& some : rows) std::ranges::move(some, std::back_inserter(all));
  return scores_of(std::move(all));
}

Scores scores_of(std::vector<ScoredRow> rows) {
  Scores scores;
  std::erase_if(rows, [&](const ScoredRow& row) {
    if (std::isfinite(row.error)) return false;
    const std::string_view why =
        row.why_none.empty() ? "no such value in the run's window" : std::string_view(row.why_none);
    scores.infeasible.push_back(fmt::format("{}: {}, {} ({})", row.set, row.row, row.quantity, why));
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
