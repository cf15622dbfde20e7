#include "systems/freesh_modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace wattle::systems {

namespace {

bool alike(const SiteFleet::Shape& a, const SiteFleet::Shape& b) {
  return a.kind == b.kind && a.tensor_parallel == b.tensor_parallel;
}

constexpr const char* kEveryPair = "all";

bool is_named(const SiteFleet& fleet, const PairShape& pair, const std::string& name) {
  const auto gpu = [&](std::size_t shape) { return fleet.kinds[fleet.shapes[shape].kind].gpu; };
  return name == kEveryPair || name == gpu(pair.prefill) + "+" + gpu(pair.decode);
}

/// The index of the mode, which is added unless an equal one exists.
std::size_t number_of(const SiteFleet& fleet, PoolMode made, std::vector<PoolMode>& modes,
                      managers::SitePoolsSetup& setup) {
  const auto like = [&](const PoolMode& mode) {
    if (!alike(mode.of, made.of) || mode.decode.has_value() != made.decode.has_value()) return false;
    return !made.decode || alike(*mode.decode, *made.decode);
  };
  const auto found = std::ranges::find_if(modes, like);
  if (found != modes.end()) return static_cast<std::size_t>(found - modes.begin());
  plan::WorkerMode mode;
  for (const auto* half : {&made.of, made.decode ? &*made.decode : nullptr}) {
    if (half == nullptr) continue;
    auto& gpus = mode.engines.emplace_back(fleet.kinds.size(), 0);
    gpus[half->kind] = half->tensor_parallel;
    mode.gpus.resize(gpus.size(), 0);
    mode.gpus[half->kind] += half->tensor_parallel;
    mode.name +=
        fmt::format("{}TP{} {}", mode.name.empty() ? "" : " + ", half->tensor_parallel, fleet.kinds[half->kind].gpu);
  }
  setup.problem.modes.push_back(std::move(mode));
  modes.push_back(std::move(made));
  for (auto& at : setup.shapes) at.resize(modes.size());
  return modes.size() - 1;
}

/// What one worker carries and draws at this clock; none: nothing was measured.
std::optional<plan::WorkerRating> rating_of(const plan::ProfiledClass& of, int tp, MegaHertz clock) {
  const auto found = std::ranges::find_if(of.profiles, [&](const auto& p) { return p.tp == tp && p.clock == clock; });
  if (found == of.profiles.end()) return std::nullopt;
  plan::WorkerRating rating;
  rating.max_per_s = plan::most_load(of, tp, clock);
  const auto idle = plan::at_load(*found, 0.0);
  const auto full = plan::at_load(*found, rating.max_per_s);
  if (!idle || !full) return std::nullopt;
  rating.idle = idle->power;
  rating.peak = full->power;
  rating.ttft = full->ttft;
  rating.tbt = full->tbt;
  return rating;
}

}  // namespace

Result<std::vector<PoolMode>> add_modes(const WantedModes& wanted, const Making& making,
                                        managers::SitePoolsSetup& setup) {
  const SiteFleet& fleet = *making.scaling.sites;
  const auto right_degree = [&](const SiteFleet::Shape& shape) {
    return wanted.tensor_parallel == 0 || shape.tensor_parallel == wanted.tensor_parallel;
  };
  std::vector<PoolMode> modes;
  setup.shapes.resize(fleet.sites.size());
  for (std::size_t s = 0; s < fleet.shapes.size(); ++s) {
    const auto& shape = fleet.shapes[s];
    if (shape.role != Role::Colocated || !right_degree(shape)) continue;
    const std::size_t m = number_of(fleet, {shape, std::nullopt, fleet.kinds[shape.kind].loads}, modes, setup);
    setup.shapes[shape.site][m] = s;
  }
  for (const std::string& name : wanted.pairs) {
    const auto is_it = [&](const PairShape& pair) { return is_named(fleet, pair, name); };
    if (name == kEveryPair || std::ranges::any_of(fleet.pairs, is_it)) continue;
    return making.refuse("pairs",
                         fmt::format("has {}, and no site has such [[fleet]]s of roles prefill and decode", name));
  }
  for (std::size_t p = 0; p < fleet.pairs.size(); ++p) {
    const PairShape& pair = fleet.pairs[p];
    const auto& prefill = fleet.shapes[pair.prefill];
    const auto& decode = fleet.shapes[pair.decode];
    const auto names_it = [&](const std::string& name) { return is_named(fleet, pair, name); };
    if (std::ranges::none_of(wanted.pairs, names_it)) continue;
    if (!right_degree(prefill) || !right_degree(decode)) continue;
    const std::size_t m = number_of(fleet, {prefill, decode, nullptr}, modes, setup);
    setup.shapes[prefill.site][m] = fleet.shapes.size() + p;
    if (modes[m].loads != nullptr) continue;
    auto loads = fleet.rate_pair(pair, wanted.sweet);
    if (!loads) return std::unexpected(loads.error());
    modes[m].loads = std::move(*loads);
  }
  return modes;
}

const plan::LoadTable& any_loads(const SiteFleet& fleet) {
  const auto found = std::ranges::find_if(fleet.kinds, [](const auto& kind) { return kind.loads != nullptr; });
  WATTLE_CHECK(found != fleet.kinds.end(), "some instance of the fleet is colocated");
  return *found->loads;
}

void keep(const SiteFleet& fleet, plan::PoolType& type) {
  for (const auto& kept : fleet.kept) {
    auto& at = type.kept.emplace_back();
    at.share = kept.share;
    for (std::size_t n = 0; n < fleet.sites.size(); ++n) {
      at.sites.push_back(kept.sites.allows(SiteId(static_cast<std::int32_t>(n))));
    }
  }
}

std::vector<plan::PoolType> measured_types(const SiteFleet& fleet, const std::vector<PoolMode>& modes, bool sweet) {
  std::vector<plan::PoolType> types;
  const auto& classes = any_loads(fleet).classes;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    plan::PoolType& type = types.emplace_back();
    type.name = classes[c].name;
    for (const auto& mode : modes) {
      type.ratings.push_back(
          rating_of(mode.loads->classes[c], mode.of.tensor_parallel, sweet ? mode.of.sweet : mode.of.top));
    }
    keep(fleet, type);
  }
  return types;
}

std::vector<double> may_be_late(const std::vector<PoolMode>& modes, double late) {
  std::vector<double> least;
  for (const auto& mode : modes) {
    const auto shares = plan::may_be_late(*mode.loads, late);
    least.resize(shares.size(), 1.0 + late);
    for (std::size_t c = 0; c < shares.size(); ++c) least[c] = std::min(least[c], shares[c]);
  }
  return least;
}

}  // namespace wattle::systems
