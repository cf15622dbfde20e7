#pragma once
// The overhead table: how long changes of the fleet take (DynamoLLM, HPCA 2025, section IV-B; table V).
#include "units/time.h"

namespace wattle::managers {

struct Overheads {
  Span vm = Span::s(90);        ///< a new VM of eight GPUs (1 to 2 minutes)
  Span gpus = Span::s(120);     ///< setting up the distributed multi-GPU environment
  Span weights = Span::s(180);  ///< downloading them
  Span engine = Span::s(18);    ///< setting up the engine
  Span install = Span::s(15);   ///< loading weights and KV cache onto the GPUs
  bool snapshot = true;     ///< VMs start from a snapshot with libraries, drivers and initialised engine: `gpus` and
                            ///< `engine` are saved
  bool local_cache = true;  ///< weights are cached in the cluster: no download

  /// From the command until the node's instance serves.
  [[nodiscard]] Span start() const {
    return vm + (snapshot ? Span() : gpus + engine) + (local_cache ? Span() : weights) + install;
  }
};

}  // namespace wattle::managers
