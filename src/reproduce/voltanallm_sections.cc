// The sections of VoltanaLLM's and GreenServe's evaluations, by name.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

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
    SectionMaker{"constants", "ours: constants set by hand at half, twice and nothing", &of<kVoltana, &constants>},
    SectionMaker{"left-out", "ours: each model with CPU times chosen on the others", &of<kVoltana, &left_out>},
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
