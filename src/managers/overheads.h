#pragma once
// The overhead table: what a change of the fleet takes (DynamoLLM, HPCA 2025, section IV-B; table V).
#include "units/time.h"

namespace wattle::managers {

struct Overheads {
  Span vm = Span::s(90);        ///< a new VM of eight GPUs (1 to 2 minutes)
  Span gpus = Span::s(120);     ///< the distributed multi-GPU environment
  Span weights = Span::s(180);  ///< their download
  Span engine = Span::s(18);    ///< setting it up
  Span install = Span::s(15);   ///< weights and KV cache onto the GPUs
  bool snapshot = true;         ///< VMs start from one with libraries, drivers and engine initialised: no gpus, engine
  bool local_cache = true;      ///< weights lie in the cluster: no download

  /// From the command to a node whose instance serves.
  [[nodiscard]] Span start() const {
    return vm + (snapshot ? Span() : gpus + engine) + (local_cache ? Span() : weights) + install;
  }
};

}  // namespace wattle::managers
