#pragma once
// EcoRoute (VoltanaLLM, GreenServe; Algorithm 2): a request goes where it does not push a decode instance to a higher
// clock.
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

/// What makes a request costly where it is placed.
enum class Borders : std::uint8_t {
  Clocks,  ///< as published: it raises the instance's clock
  Tiles,   ///< ours: that, or it begins a tile of the batch (see EcoRoute)
};

struct EcoRouteOptions {
  MegaHertz max_spread{500};  ///< delta
  BeyondSpread beyond_spread = BeyondSpread::LowestResulting;
  Borders borders = Borders::Clocks;
  /// Ours: an instance that the request would push beyond what even max(F) can do within its slo.itl less
  /// overload_margin, whatever EcoFreq's margin, or beyond its KV cache, is no candidate while another is; requests
  /// that wait there count. By the papers' rules such an instance no longer rises, so it attracts everything.
  bool spare_overloaded = true;
  double overload_margin = 0.2;  ///< share, in [0, 1)
};

/// Batch sizes up to 1024 at which a tile ends, ascending: one more request lengthens the step by more than its share,
/// so that every token costs more, and by more than 2 %, so that a predictor's own steps are none. Asked at `clock`
/// with 256 tokens of context per request.
[[nodiscard]] std::vector<std::int32_t> tile_ends(const LatencyModel& latency, MegaHertz clock);

/// F: each candidate's clock now; F': its clock after hypothetically adding the request to it. Both are what EcoFreq's
/// own rule picks for the instance's decodes, without its dwell, which says nothing of the state.
///   1. nothing rises: (a) all F equal: round-robin; (b) otherwise the lowest F.
///   2. some rise: (a) max F' - min F' <= max_spread: the lowest F among those that do not rise;
///                 (b) otherwise the lowest F' or the lowest F, by `beyond_spread`.
///   3. all rise: the lowest F'.
/// Between equals, round-robin.
///
/// With Borders::Tiles: first those whose clock does not rise, of these those that do not stand at a tile's end, then
/// the fewest tiles begun, then the most requests, then the lowest id. So the lower tile is kept full while the rest
/// gathers where it costs a clock already, and of two equal ones one empties into the next lower tile. Where, sparing
/// the overloaded, any candidate is beyond its limit, it comes last and neither clocks nor tiles count: the fleet
/// needs its fast ones, and the fewest requests win. In the first tile, beyond the last, and where none is known, the
/// fewest requests win. The cases, max_spread and beyond_spread play no part.
///
/// An instance's state is its reported batch and KV tokens plus the requests the
/// dispatcher has bound to it that have not arrived there yet (at the mean prompt length of what is bound to it), so a
/// burst of finished prefills does not pile up on one instance. An empty instance counts as at min(F), wherever it is
/// parked. An instance is known from the time it joins, by its spec. O(candidates x clocks); allocates only when the
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
    bool over = false;          ///< then: no clock is within the limit
    std::int32_t requests = 0;  ///< here or under way, those that wait included
    [[nodiscard]] bool rises() const { return then > now; }
  };
  /// Of one instance. Without a rule (no clocks) its clock is taken to stay as commanded.
  struct Known {
    ClockRule rule;
    const LatencyModel* latency = nullptr;
    Span itl_limit = Span::max();         ///< a step at max(F) beyond it is beyond the objective
    std::vector<std::int32_t> tile_ends;  ///< ascending; Borders::Tiles alone asks for them
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
    std::shared_ptr<const Known> known;  ///< instances alike share one
  };
  std::vector<Member> members_;  ///< those with a rule, by id
  std::vector<WhatIf> futures_;  ///< scratch, by position among the candidates
  InstanceId next_{0};           ///< whose turn it is between equals
};

}  // namespace wattle::policy
