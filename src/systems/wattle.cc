// Ours: routing by the energy of decode steps.
#include <memory>

#include "policy/routing/best_batch.h"
#include "systems/registry.h"
#include "systems/voltanallm.h"

namespace wattle::systems {

void register_wattle(Registry& to) {
  using config::option;
  using Options = policy::BestBatchOptions;
  to.add<Options>(SlotKind::Routing, "best-batch",
                  "Ours: fills decode or colocated instances one after the other, each up to the batch of least energy "
                  "per token; spreads prompts over prefill instances, as least-prompts does",
                  {option("overload_margin", &Options::overload_margin, "share", {0, 0.99},
                          "Share of slo.itl_ms and slo.ttft_ms kept in reserve when an instance's largest batch is "
                          "computed. eco-freq's margin applies if it is larger"),
                   option("late_handovers", &Options::late_handovers, "", {0, 0.5},
                          "Share of first tokens that may miss slo.ttft_ms because they wait for a step of the decode "
                          "engine. It limits step times, and with them batches, based on the most recent first tokens. "
                          "0: these waits are ignored"),
                   option("late_gaps", &Options::late_gaps, "", {0, 0.5},
                          "Colocated instances: share of gaps that may be late because of prompts computed between "
                          "them, beyond those that would be late with requests spread evenly")})
      .needs({.latency = true})
      .weighs_power([](const Options&, Role) { return true; })
      .makes([](const Options& o, const Making& making) -> Result<std::shared_ptr<policy::BestBatch>> {
        return std::make_shared<policy::BestBatch>(o, clocks_of_decodes(making.recipe));
      });
}

}  // namespace wattle::systems
