#include "predict/linear_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "predict/least_squares.h"
#include "predict/staircase.h"

namespace wattle::predict {

namespace {

struct ClockSamples {
  std::vector<Row> prefill;
  std::vector<std::vector<Row>> decode;  ///< by tile
};

/// Mean absolute error and explained variance, one sample at a time.
class Quality {
 public:
  void add(Span measured, Span predicted) {
    const double y = measured.millis();
    const double e = predicted.millis() - y;
    ++count_;
    absolute_ += std::abs(e);
    squared_ += e * e;
    sum_ += y;
    sum2_ += y * y;
  }
  [[nodiscard]] FitQuality result() const {
    if (count_ == 0) return {};
    const auto n = static_cast<double>(count_);
    const double total = sum2_ - sum_ * sum_ / n;
    return {count_, absolute_ / n, total > 1e-12 * sum2_ ? 1.0 - squared_ / total : 1.0};
  }

 private:
  std::int64_t count_ = 0;
  double absolute_ = 0.0, squared_ = 0.0, sum_ = 0.0, sum2_ = 0.0;
};

bool pure_prefill(const StepShape& s) { return s.prefill_tokens > 0 && s.decode_requests == 0; }
bool pure_decode(const StepShape& s) { return s.decode_requests > 0 && s.prefill_tokens == 0; }
bool usable(const StepSample& s) {
  return s.duration > Span() && s.shape.decode_kv_tokens >= 0 && (pure_prefill(s.shape) || pure_decode(s.shape));
}

std::vector<DecodePlane> fit_tiles(const std::vector<std::vector<Row>>& tiles) {
  std::vector<std::optional<DecodePlane>> fitted(tiles.size());
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    if (tiles[t].empty()) continue;
    const Coefficients c = fit_robust(tiles[t]);
    fitted[t] = DecodePlane{c[0], c[1], c[2]};
  }
  std::vector<DecodePlane> planes(tiles.size());
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    for (std::size_t away = 0; away < tiles.size(); ++away) {
      if (away <= t && fitted[t - away]) {
        planes[t] = *fitted[t - away];
        break;
      }
      if (t + away < tiles.size() && fitted[t + away]) {
        planes[t] = *fitted[t + away];
        break;
      }
    }
  }
  return planes;
}

}  // namespace

Result<LinearFit> fit_linear(std::span<const StepSample> samples, const LinearFitOptions& options) {
  LinearCoefficients c;
  c.tile_ends = options.tile_ends;
  if (c.tile_ends.empty() && options.find_tiles) c.tile_ends = find_tile_ends(samples);
  std::ranges::sort(c.tile_ends);
  const auto repeated = std::ranges::unique(c.tile_ends);
  c.tile_ends.erase(repeated.begin(), repeated.end());

  std::int64_t ignored = 0;
  std::map<MegaHertz, ClockSamples> by_clock;
  for (const StepSample& s : samples) {
    if (!usable(s)) {
      ++ignored;
      continue;
    }
    if (s.clock.value() <= 0)
      return bad_input("profile", fmt::format("clock {} MHz; must be positive", s.clock.value()));
    auto& at = by_clock[s.clock];
    at.decode.resize(c.tile_ends.size() + 1);
    const auto y = static_cast<double>(s.duration.ns());
    if (pure_prefill(s.shape)) {
      at.prefill.push_back({{static_cast<double>(s.shape.prefill_tokens), 1.0, 0.0}, y});
      const bool first = c.prefill_tokens_max == 0;
      c.prefill_tokens_min = first ? s.shape.prefill_tokens : std::min(c.prefill_tokens_min, s.shape.prefill_tokens);
      c.prefill_tokens_max = std::max(c.prefill_tokens_max, s.shape.prefill_tokens);
    } else {
      const auto tile = std::ranges::lower_bound(c.tile_ends, s.shape.decode_requests) - c.tile_ends.begin();
      at.decode[static_cast<std::size_t>(tile)].push_back(
          {{static_cast<double>(s.shape.decode_requests), static_cast<double>(s.shape.decode_kv_tokens), 1.0}, y});
      const bool first = c.decode_requests_max == 0;
      c.decode_requests_min =
          first ? s.shape.decode_requests : std::min(c.decode_requests_min, s.shape.decode_requests);
      c.decode_requests_max = std::max(c.decode_requests_max, s.shape.decode_requests);
      c.decode_kv_tokens_max = std::max(c.decode_kv_tokens_max, s.shape.decode_kv_tokens);
    }
  }
  if (by_clock.empty()) {
    return bad_input("profile", "no usable sample; needs steps of prompts only or decodes only with a duration");
  }
  for (const auto& [clock, rows] : by_clock) {
    const Coefficients prefill = fit_robust(rows.prefill);
    c.clocks.push_back({clock, {prefill[0], prefill[1]}, fit_tiles(rows.decode)});
  }

  auto model = LinearLatency::make(std::move(c));
  if (!model) return std::unexpected(model.error());
  Quality prefill;
  Quality decode;
  for (const StepSample& s : samples) {
    if (!usable(s)) continue;
    (pure_prefill(s.shape) ? prefill : decode).add(s.duration, model->step_time(s.shape, s.clock));
  }
  return LinearFit{std::move(*model), prefill.result(), decode.result(), ignored};
}

}  // namespace wattle::predict
