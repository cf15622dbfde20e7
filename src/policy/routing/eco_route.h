#pragma once
// EcoRoute (VoltanaLLM, GreenServe; Algorithm 2): routes a request to a decode instance whose clock does not have to
// rise for it.
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/frequency/clock_choice.h"
#include "policy/routing/routing.h"

namespace wattle::policy {

/// Case 2(b), where the papers differ.
enum class BeyondSpread : std::uint8_t {
  LowestResulting,  ///< GreenServe
  LowestCurrent,    ///< VoltanaLLM
};

/// What makes a placement costly.
enum class Borders : std::uint8_t {
  Clocks,  ///< the request raises the instance's clock (as published)
  Tiles,   ///< that, or it starts a new tile of the batch (ours; see EcoRoute)
};

struct EcoRouteOptions {
  MegaHertz max_spread{500};  ///< delta
  BeyondSpread beyond_spread = BeyondSpread::LowestResulting;
  Borders borders = Borders::Clocks;
  /// Ours: an instance is not a candidate, while another is, if the request would make it miss slo.itl less
  /// overload_margin even at max(F) (independent of EcoFreq's margin), or exceed its KV cache; waiting requests count.
  /// By the papers' rules the clock of such an instance cannot rise any more, so it would attract all requests.
  bool spare_overloaded = true;
  double overload_margin = 0.2;  ///< share, in [0, 1)
};

/// Batch sizes up to 1024 at which a tile ends, ascending: one more request lengthens the step by more than its share,
/// so that every token takes more energy, and by more than 2 %, so that a predictor's own steps are not taken for
/// tiles. Evaluated at `clock` with 256 tokens of context per request.
[[nodiscard]] std::vector<std::int32_t> tile_ends(const LatencyModel& latency, MegaHertz clock);

/// F: each candidate's present clock. F': its clock if the request were added to it. Both are what EcoFreq's rule
/// chooses for the instance's decodes, without its dwell time.
///   1. No clock rises: (a) all F are equal: round-robin; (b) otherwise the lowest F.
///   2. Some rise: (a) max F' - min F' <= max_spread: the lowest F among those that do not rise; (b) otherwise the
///   lowest F' or the lowest F, by `beyond_spread`.
///   3. All rise: the lowest F'.
/// Ties: round-robin.
///
/// With Borders::Tiles: first candidates whose clock does not rise, among these those that are not at the end of a
/// tile, then the fewest tiles started, then the most requests, then the lowest id. So the lower tile stays full while
/// the rest of the load gathers where the clock is higher already, and of two equal instances one drains into the next
/// lower tile. With spare_overloaded, if any candidate is beyond its limit, it comes last and clocks and tiles are
/// ignored: the fleet then needs its fast instances, and the fewest requests decide. The same holds in the first tile,
/// beyond the last, and if no tiles are known. The cases above, max_spread and beyond_spread have no effect.
///
/// An instance's state is its reported batch and KV tokens plus the requests bound to it that have not arrived there
/// yet (at the mean prompt length of its requests), so that a burst of finished prefills does not go to one instance.
/// An empty instance counts as at min(F), whatever its parked clock. O(candidates x clocks); allocates only when the
/// fleet grows. Never declines.
class EcoRoute final : public RoutingPolicy {
 public:
  EcoRoute(const EcoRouteOptions& options, ClocksOfInstances clocks);
  [[nodiscard]] EventKinds observes() const override { return EventKinds::of<event::Joined, event::Gone>(); }
  void observe(const Event& event, Instant now) override;
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;

 private:
  struct WhatIf {
    MegaHertz now;
    MegaHertz then;
    bool over = false;          ///< no clock meets the limit with the request
    std::int32_t requests = 0;  ///< present or on their way, including waiting ones
    [[nodiscard]] bool rises() const { return then > now; }
  };
  /// One instance's rule and limits. Without a rule (no clocks) its clock is assumed to stay as commanded.
  struct Known {
    ClockRule rule;
    const LatencyModel* latency = nullptr;
    Span itl_limit = Span::max();         ///< a longer step at max(F) misses the objective
    std::vector<std::int32_t> tile_ends;  ///< ascending; used by Borders::Tiles only
  };
  void joined(const InstanceView& view);
  [[nodiscard]] const Known* known(InstanceId id) const;
  [[nodiscard]] WhatIf what_if(const InstanceView& view, const Request& request) const;
  RouteDecision by_cases(std::span<const InstanceView* const> candidates, std::size_t over);
  [[nodiscard]] RouteDecision by_tiles(std::span<const InstanceView* const> candidates, std::size_t over) const;

  EcoRouteOptions options_;
  ClocksOfInstances clocks_;
  struct Member {
    InstanceId id;
    const InstanceSpec* spec = nullptr;
    std::shared_ptr<const Known> known;  ///< shared by instances of the same kind
  };
  std::vector<Member> members_;  ///< instances with a rule, by id
  std::vector<WhatIf> futures_;  ///< scratch, by candidate
  InstanceId next_{0};           ///< for round-robin on ties
};

}  // namespace wattle::policy
