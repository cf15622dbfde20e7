#pragma once
// EcoPred, the linear form (VoltanaLLM): T_P = a N_tok + c per clock, T_D = a N_req + b N_kv + c per clock and tile.
// Ours adds the prompts' attention and number to T_P, and ranges of N_tok: T_P = a N_tok + b N_ctx + d N_prompts + c
// per clock and range.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/beliefs.h"

namespace wattle::predict {

/// T_P = ns_per_token x N_tok + ns.
struct PrefillLine {
  double ns_per_token = 0.0;
  double ns = 0.0;
};

/// Layers of which no token sees more than a window of its context.
struct WindowedLayers {
  std::int32_t window = 0;  ///< tokens
  double share = 0.0;       ///< of all layers, in [0, 1]

  /// Of StepShape::prefill_context_tokens of a step with so many prompt tokens: those seen by the mean layer.
  [[nodiscard]] std::int64_t seen(std::int64_t context_tokens, std::int64_t tokens) const {
    const std::int64_t beyond = std::max<std::int64_t>(0, context_tokens - tokens * window);
    return share > 0.0 ? context_tokens - std::llround(share * static_cast<double>(beyond)) : context_tokens;
  }
};

/// T_P = ns_per_token x N_tok + ns_per_pair x N_ctx + ns_per_prompt x N_prompts + ns, N_prompts =
/// StepShape::prefill_requests and N_ctx = StepShape::prefill_context_tokens as far as it is seen.
struct PrefillPlane {
  double ns_per_token = 0.0;
  double ns_per_pair = 0.0;
  double ns = 0.0;
  double ns_per_prompt = 0.0;
};

/// T_D = ns_per_request x N_req + ns_per_kv_token x N_kv + ns.
struct DecodePlane {
  double ns_per_request = 0.0;
  double ns_per_kv_token = 0.0;
  double ns = 0.0;
};

/// Additional time of a step with both phases beyond its pass over the weights and its KV term, such as launching both
/// kinds of attention: ns_per_request x N_req + ns.
struct MixedLine {
  double ns_per_request = 0.0;
  double ns = 0.0;
};

/// Host CPU time of a step at any clock: ns_per_request x requests + ns. Zeros: the GPU is always slower.
struct HostLine {
  double ns_per_request = 0.0;
  double ns = 0.0;
};

struct ClockCoefficients {
  MegaHertz clock;
  PrefillLine prefill;                            ///< the published form
  std::vector<DecodePlane> decode;                ///< one per tile
  std::vector<PrefillPlane> prefill_ranges = {};  ///< one per range; empty: `prefill` applies to all
  std::optional<MixedLine> mixed = {};            ///< none: no step with both phases was measured
};

/// The fitted coefficients, also the content of a belief file. All are >= 0. A phase that was never measured has zeros,
/// so its prediction is 0, which no policy believes.
struct LinearCoefficients {
  /// Largest batch of each tile but the last, ascending: tile i is (tile_ends[i-1], tile_ends[i]].
  std::vector<std::int32_t> tile_ends;
  /// The same for the ranges of N_tok.
  std::vector<std::int64_t> prefill_ends;
  std::vector<ClockCoefficients> clocks;  ///< ascending clock
  HostLine host;                          ///< ours: lower bound of T_D at any clock
  HostLine prompt_host;                   ///< ours: lower bound of T_P, by StepShape::prefill_requests
  WindowedLayers windowed;                ///< ours, of the model: for PrefillPlane
  // The measured range; beyond it predictions are extrapolated.
  std::int64_t prefill_tokens_min = 0;
  std::int64_t prefill_tokens_max = 0;
  std::int32_t decode_requests_min = 0;
  std::int32_t decode_requests_max = 0;
  std::int64_t decode_kv_tokens_max = 0;
};

/// Between fitted clocks times are interpolated linearly in 1/clock (to which compute time is proportional); outside
/// they are extrapolated from the nearest two, never below 0. A step with both phases takes T_P(N_tok + N_req) plus the
/// KV term and its MixedLine. Without a MixedLine: T_D plus the additional time of its pass over the weights, T_P(N_tok
/// + N_req) - T_P(N_req), but at least T_P(N_tok + N_req) plus the KV term. Immutable and thread-safe; no allocation;
/// fixed-point arithmetic (2^-20 ns), so kv_tokens_within is exact to the token.
class LinearLatency final : public LatencyModel {
 public:
  /// Errors: no clock, clocks, tiles or ranges not ascending, plane count not tile (range) count, a coefficient
  /// negative or not finite, a share of windowed layers that is none.
  [[nodiscard]] static Result<LinearLatency> make(LinearCoefficients coefficients);

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override;
  void decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens, MegaHertz clock,
                    std::span<Span> out) const override;
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override;

  /// duration(N_kv) = max(base + slope x N_kv, floor) / 2^kFractionBits ns, rounded down, all >= 0: this shape's time
  /// at this clock for any number of KV tokens. For models that add to it before rounding.
  struct Line {
    std::int64_t base = 0;
    std::int64_t slope = 0;
    std::int64_t floor = 0;

    [[nodiscard]] Span time(std::int64_t kv_tokens) const;
  };
  static constexpr int kFractionBits = 20;
  /// Upper bound of sums of fixed-point times: about 73 minutes, longer than any plausible step, and two of them fit
  /// into 64 bits.
  static constexpr std::int64_t kLongest = std::int64_t{1} << 62;
  [[nodiscard]] Line line(const StepShape& shape, MegaHertz clock) const;

  /// True if the clock, batch, KV tokens or prompt tokens are outside the measured range.
  [[nodiscard]] bool extrapolates(const StepShape& shape, MegaHertz clock) const;
  [[nodiscard]] const LinearCoefficients& coefficients() const { return coefficients_; }

 private:
  struct FixedPlane {
    std::int64_t per_request = 0;
    std::int64_t per_kv_token = 0;
    std::int64_t constant = 0;
  };
  struct FixedPrompt {
    std::int64_t per_token = 0;
    std::int64_t per_pair = 0;
    std::int64_t per_prompt = 0;
    std::int64_t constant = 0;
  };

  explicit LinearLatency(LinearCoefficients coefficients);
  [[nodiscard]] std::size_t tile_of(std::int32_t requests) const;
  [[nodiscard]] std::int64_t prompt_time(std::int64_t tokens, std::int64_t pairs, std::int32_t prompts,
                                         std::size_t clock_index) const;
  [[nodiscard]] Line line_at(const StepShape& shape, std::size_t clock_index, std::size_t tile) const;

  LinearCoefficients coefficients_;
  std::vector<std::int32_t> mhz_;
  std::vector<FixedPrompt> prompts_;  ///< [clock][range]
  std::vector<FixedPlane> planes_;    ///< [clock][tile]
  FixedPlane host_;
  FixedPlane prompt_host_;
  std::vector<std::optional<FixedPlane>> mixed_;  ///< [clock]
  std::size_t tiles_ = 0;
  std::size_t ranges_ = 1;
};

}  // namespace wattle::predict
