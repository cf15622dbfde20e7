// DynamoLLM's evaluation (HPCA 2025, sections III and V).
#include "reproduce/dynamollm.h"

#include <array>

namespace wattle::reproduce {

Evaluation dynamollm_evaluation() {
  static constexpr auto kSections = std::to_array<SectionMaker>({
      {"classes", "Table I: energy by class, TP degree and clock", fixed<dynamollm::by_class>},
      {"loads", "Table II: energy by load", fixed<dynamollm::by_load>},
      {"models", "Table III: energy by model", fixed<dynamollm::by_model>},
      {"resharding", "Table VI: weights moved", fixed<dynamollm::resharding>},
      {"hierarchy", "ours: the levels' plan against the whole problem's", fixed<dynamollm::hierarchy>},
      {"hour", "Figures 7 to 9: six systems on an hour of conversations, and fixed clocks beside them",
       fixed<dynamollm::hour>},
      {"constants", "ours: what the paper does not say, at other values", fixed<dynamollm::constants>},
      {"timeline", "Figures 10 and 11: clocks and TP degrees over the hour", fixed<dynamollm::timeline>},
      {"accuracy", "Figure 12: how well output classes are predicted", fixed<dynamollm::accuracy>},
      {"load", "Figure 13: levels of load", fixed<dynamollm::load_levels>},
      {"pools", "Figure 14: numbers of pools", fixed<dynamollm::pool_counts>},
      {"day", "Figure 16: a day of conversations", fixed<dynamollm::day>},
      {"week", "Figures 15 and 17, section V-F: a week of both services, with cost and carbon", dynamollm::week},
  });
  return {"dynamollm", kSections};
}

}  // namespace wattle::reproduce
