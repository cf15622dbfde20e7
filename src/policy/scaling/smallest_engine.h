#pragma once
#include <optional>
#include <vector>

#include "policy/scaling/scaling.h"

namespace wattle::policy {

struct SmallestEngineOptions {
  std::vector<Shape> shapes;  ///< gpus and max_load_per_s both ascend; not empty
  double margin = 0.0;        ///< share of each maximum load kept free, in [0, 1); the paper has none
  std::optional<Span> grace;  ///< none: the shape's own spawn time (paper)
};

/// throttLL'eM's autoscaler (Section IV-D): one engine, the smallest whose maximum load covers the observed rate; the
/// largest if none does. An engine that is starting, or that has served for less than its grace period, is replaced
/// only by a larger one. The period begins when the engine begins to serve, and again whenever the rate is in its range
/// (above the next smaller engine's maximum load, at most its own). So two switches to a smaller engine are at least
/// one grace period apart, and between them there are at most as many switches up as larger shapes.
class SmallestEngine final : public ScalingPolicy {
 public:
  explicit SmallestEngine(SmallestEngineOptions options);
  Plan plan(const ScalingView& view) override;

 private:
  [[nodiscard]] std::size_t smallest_for(double rate_per_s) const;
  [[nodiscard]] Span grace(std::size_t shape) const;
  [[nodiscard]] Plan keep(const char* reason) const;
  Plan switch_to(std::size_t shape, Instant now, const char* reason);

  SmallestEngineOptions options_;
  std::optional<std::size_t> current_;  ///< the shape wanted last
  Instant switched_at_;
  Instant grace_until_;
};

}  // namespace wattle::policy
