#include "reproduce/voltanallm.h"

#include <fmt/core.h>

#include <algorithm>

#include "config/locate.h"
#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

Result<config::LoadedScenario> published_scenario(const PublishedModel& model, const PublishedLengths& lengths,
                                                  std::int64_t rate, const std::vector<std::string>& more) {
  std::vector<std::string> set{
      fmt::format("llm={}", model.llm),
      fmt::format("workload.rate_per_s={}", rate),
      fmt::format("workload.requests={}", static_cast<std::int64_t>(static_cast<double>(rate) * kRunSeconds)),
      fmt::format("workload.prompt_mean={}", lengths.prompt_mean),
      fmt::format("workload.prompt_std={}", lengths.prompt_std),
      fmt::format("workload.output_mean={}", lengths.output_mean),
      fmt::format("workload.output_std={}", lengths.output_std),
      fmt::format("slo.ttft_ms={}", model.ttft_ms),
      fmt::format("slo.itl_ms={}", model.itl_ms),
      fmt::format("slo.tbt_ms={}", model.itl_ms),
      fmt::format("fleet.0.tensor_parallel={}", model.tensor_parallel),
      fmt::format("fleet.1.tensor_parallel={}", model.tensor_parallel),
  };
  set.insert(set.end(), more.begin(), more.end());
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return config::load_scenario("voltanallm-2p2d", *overrides, config::project());
}

Result<config::LoadedRecipe> published_recipe(const char* name) {
  const auto overrides = config::parse_overrides({kMargin, kPrefillRouting});
  if (!overrides) return std::unexpected(overrides.error());
  return config::load_recipe(name, *overrides, config::project());
}

void PublishedEnergy::stretch(const journal::Stretch& stretch) {
  auto& seen = instances_[stretch.instance.value()];
  seen.busy_until = std::max(seen.busy_until, stretch.end);
}

void PublishedEnergy::sample(const journal::Sample& sample) {
  instances_[sample.instance.value()].power = sample.power;
}

double PublishedEnergy::of(const journal::RunSummary& summary) const {
  double joules = summary.energy.total.value();
  for (const auto& [id, seen] : instances_) {
    joules -= to_watts(seen.power).value() * (summary.sim.virtual_s - seen.busy_until.seconds());
  }
  return joules;
}

namespace {

template <const System& Of, Result<Section> (*Make)(const System&, double)>
Result<Section> of(double seconds) {
  auto made = Make(Of, seconds);
  if (made)
    made->note +=
        fmt::format(" EcoFreq aims at {:.0f} % of the objectives, as the published client has it.", 100.0 * kAim);
  return made;
}

/// Analyses of both systems' recipes.
template <const System& Of>
constexpr std::array<SectionMaker, 6> analyses() {
  return {{
      {"ablation", "EcoFreq alone against EcoFreq with EcoRoute, by phase", &of<Of, &ablation>},
      {"slo", "objectives of 400/40, 600/60 and 800/80 ms", &of<Of, &slo_profiles>},
      {"levels", "two against five clocks", &of<Of, &levels>},
      {"window", "a clock at every iteration, or every 0.5 to 5 s", &of<Of, &windows>},
      {"swing", "prefill and decode demand swinging over five minutes", &of<Of, &swing>},
      {"watchdog", "ours: the overrun watchdog's effect", &of<Of, &watchdog>},
  }};
}

/// Where the boosted predictor would change little and cost minutes.
constexpr std::array kMore{
    SectionMaker{"border", "two decode instances around a batch border, with and without EcoRoute",
                 &of<kVoltana, &border>},
    SectionMaker{"gh200", "a second GPU", &of<kVoltana, &gh200>},
    SectionMaker{"routing", "EcoRoute's readings, tile-aware, round-robin", &of<kVoltana, &routings>},
};

constexpr SectionMaker kMain{"main", "energy and attainment of three models against rate", &fixed<&voltanallm_main>};
constexpr SectionMaker kEcoPred{"ecopred", "errors of the latency predictors, offline and online",
                                &fixed<&ecopred_errors>};

template <std::size_t N, std::size_t M>
constexpr std::array<SectionMaker, N + M> joined(const std::array<SectionMaker, N>& a,
                                                 const std::array<SectionMaker, M>& b) {
  std::array<SectionMaker, N + M> all{};
  std::ranges::copy(a, all.begin());
  std::ranges::copy(b, all.begin() + N);
  return all;
}

}  // namespace

Evaluation voltanallm() {
  static constexpr auto kSections = joined(joined(std::array{kMain, kEcoPred}, analyses<kVoltana>()), kMore);
  return {"voltanallm", kSections};
}

Evaluation greenserve() {
  static constexpr auto kSections = joined(std::array{kEcoPred}, analyses<kGreenServe>());
  return {"greenserve", kSections};
}

}  // namespace wattle::reproduce
