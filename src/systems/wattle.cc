// Ours: routing of the decode leg by the energy of its steps.
#include <memory>

#include "policy/routing/best_batch.h"
#include "systems/registry.h"
#include "systems/voltanallm.h"

namespace wattle::systems {

void register_wattle(Registry& to) {
  using config::option;
  using Options = policy::BestBatchOptions;
  to.add<Options>(
        SlotKind::Routing, "best-batch",
        "Ours, for the decode leg: fills instances one after the other, each up to the batch at which a token "
        "takes least energy",
        {option("overload_margin", &Options::overload_margin, "share", {0, 0.99},
                "Share of slo.itl_ms and slo.ttft_ms kept in reserve by the batch that an instance is filled to, or "
                "eco-freq's margin where that is more"),
         option("late_handovers", &Options::late_handovers, "", {0, 0.5},
                "Share of first tokens that may be late as they wait for the decode engine, by the newest of "
                "them: no batch whose steps are too long for the others; 0: not looked at")})
      .needs({.latency = true})
      .weighs_power([](const Options&, Role) { return true; })
      .makes([](const Options& o, const Making& making) -> Result<std::shared_ptr<policy::BestBatch>> {
        if (making.section != "routing.decode") {
          return making.refuse("policy", "best-batch weighs decode batches; use it for routing.decode");
        }
        return std::make_shared<policy::BestBatch>(o, clocks_of_decodes(making.recipe));
      });
}

}  // namespace wattle::systems
