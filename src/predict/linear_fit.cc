#include "predict/linear_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "predict/host_line.h"
#include "predict/least_squares.h"
#include "predict/staircase.h"

namespace wattle::predict {

namespace {

constexpr std::int64_t kRangeEnds[] = {8, 32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr std::int64_t kEnoughForRange = 12;  ///< samples a clock

struct ClockSamples {
  std::vector<Row> prefill;
  std::vector<std::vector<Row>> prefill_ranges;
  std::vector<std::vector<Row>> decode;  ///< by tile
  std::vector<char> hosted;              ///< by tile: the host decides some steps
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

bool usable(const StepSample& s) {
  return s.duration > Span() && s.shape.decode_kv_tokens >= 0 && (pure_prefill(s.shape) || pure_decode(s.shape));
}

bool mixed(const StepSample& s) {
  return s.duration > Span() && s.clock.value() > 0 && s.shape.decode_kv_tokens >= 0 && s.shape.prefill_tokens > 0 &&
         s.shape.decode_requests > 0;
}

/// Of each clock, in order. `lines` have MixedLines of 0. Counts samples that tell nothing in `ignored`.
std::vector<std::optional<MixedLine>> fit_mixed(std::span<const StepSample> samples, const LinearLatency& lines,
                                                const std::map<MegaHertz, ClockSamples>& by_clock,
                                                std::int64_t& ignored) {
  std::map<MegaHertz, std::vector<Row>> rows;
  for (const auto& [clock, phases] : by_clock) rows[clock];
  for (const StepSample& s : samples) {
    if (!mixed(s)) continue;
    const auto at = by_clock.find(s.clock);
    const bool both = at != by_clock.end() && !at->second.prefill.empty() &&
                      std::ranges::any_of(at->second.decode, [](const auto& tile) { return !tile.empty(); });
    if (!both) {
      ++ignored;
      continue;
    }
    const Span beyond = s.duration - lines.step_time(s.shape, s.clock);
    rows[s.clock].push_back(
        {{static_cast<double>(s.shape.decode_requests), 1.0, 0.0}, static_cast<double>(beyond.ns())});
  }
  std::vector<std::optional<MixedLine>> fitted;
  for (const auto& [clock, of_clock] : rows) {
    auto& line = fitted.emplace_back();
    if (of_clock.empty()) continue;
    const Coefficients c = fit_robust(of_clock);
    line = {c[0], c[1]};
  }
  return fitted;
}

bool contexts_differ(const std::vector<Row>& decodes) {
  return std::ranges::any_of(decodes, [&](const Row& row) { return row.x[1] != decodes.front().x[1]; });
}

/// Each group on its own; an empty one takes its nearest neighbour's, the smaller one first.
std::vector<Coefficients> fit_groups(const std::vector<std::vector<Row>>& groups) {
  std::vector<std::optional<Coefficients>> fitted(groups.size());
  for (std::size_t t = 0; t < groups.size(); ++t) {
    if (!groups[t].empty()) fitted[t] = fit_robust(groups[t]);
  }
  std::vector<Coefficients> planes(groups.size());
  for (std::size_t t = 0; t < groups.size(); ++t) {
    for (std::size_t away = 0; away < groups.size(); ++away) {
      if (away <= t && fitted[t - away]) {
        planes[t] = *fitted[t - away];
        break;
      }
      if (t + away < groups.size() && fitted[t + away]) {
        planes[t] = *fitted[t + away];
        break;
      }
    }
  }
  return planes;
}

/// Steps that the host decides are no rows. Where what is left tells nothing of the context, the host's line must do.
std::vector<Coefficients> fit_tiles(const ClockSamples& samples) {
  auto planes = fit_groups(samples.decode);
  for (std::size_t t = 0; t < planes.size(); ++t) {
    if (samples.hosted[t] != 0 && !contexts_differ(samples.decode[t])) planes[t] = {};
  }
  return planes;
}

/// Those of kRangeEnds that leave every range enough samples of a clock on average.
std::vector<std::int64_t> range_ends(std::span<const StepSample> samples, const HostLine& host) {
  std::set<MegaHertz> clocks;
  std::vector<std::int64_t> tokens;
  for (const StepSample& s : samples) {
    if (!usable(s) || !pure_prefill(s.shape) || host_bound(host, s)) continue;
    clocks.insert(s.clock);
    tokens.push_back(s.shape.prefill_tokens);
  }
  std::ranges::sort(tokens);
  const auto enough = kEnoughForRange * static_cast<std::int64_t>(clocks.size());
  const auto up_to = [&](std::int64_t end) { return std::ranges::upper_bound(tokens, end) - tokens.begin(); };
  std::vector<std::int64_t> ends;
  for (const std::int64_t end : kRangeEnds) {
    const auto below = up_to(end);
    const auto before = ends.empty() ? 0 : up_to(ends.back());
    if (below - before >= enough && std::ssize(tokens) - below >= enough) ends.push_back(end);
  }
  return ends;
}

/// The host's lines, and where tiles and ranges end: with these it is decided to which line a sample belongs.
LinearCoefficients boundaries(std::span<const StepSample> samples, const LinearFitOptions& options) {
  LinearCoefficients c;
  c.windowed = options.windowed;
  if (options.find_host) {
    c.host = find_host_line(samples);
    c.prompt_host = find_prompt_host_line(samples);
  }
  c.tile_ends = options.tile_ends;
  if (c.tile_ends.empty() && options.find_tiles) {
    std::vector<StepSample> of_gpu(samples.begin(), samples.end());
    std::erase_if(of_gpu, [&](const StepSample& s) { return host_bound(c.host, s); });
    c.tile_ends = find_tile_ends(of_gpu);
  }
  std::ranges::sort(c.tile_ends);
  const auto repeated = std::ranges::unique(c.tile_ends);
  c.tile_ends.erase(repeated.begin(), repeated.end());

  if (!options.published_prefill) {
    const bool find = options.prefill_ends.empty() && options.find_ranges;
    c.prefill_ends = find ? range_ends(samples, c.prompt_host) : options.prefill_ends;
  }
  return c;
}

/// `most` 0: nothing yet.
template <typename Int>
void widen(Int& least, Int& most, Int value) {
  least = most == 0 ? value : std::min(least, value);
  most = std::max(most, value);
}

template <typename Ends, typename Int>
std::size_t place_in(const Ends& ends, Int value) {
  return static_cast<std::size_t>(std::ranges::lower_bound(ends, value) - ends.begin());
}

void add_prefill(const StepSample& s, const LinearFitOptions& options, LinearCoefficients& c, ClockSamples& to) {
  widen(c.prefill_tokens_min, c.prefill_tokens_max, s.shape.prefill_tokens);
  if (host_bound(c.prompt_host, s)) return;
  const auto tokens = static_cast<double>(s.shape.prefill_tokens);
  const auto y = static_cast<double>(s.duration.ns());
  to.prefill.push_back({{tokens, 1.0, 0.0}, y});
  Row row{{tokens, 0.0, 1.0}, y};
  if (options.prefill_pairs) {
    row.x[1] = static_cast<double>(c.windowed.seen(s.shape.prefill_context_tokens, s.shape.prefill_tokens));
    const bool with_host = c.prompt_host.ns_per_request > 0.0;  // which then has the prompts' time
    row.x[3] = with_host ? 0.0 : s.shape.prefill_requests;
  }
  to.prefill_ranges[place_in(c.prefill_ends, s.shape.prefill_tokens)].push_back(row);
}

void add_decode(const StepSample& s, LinearCoefficients& c, ClockSamples& to) {
  widen(c.decode_requests_min, c.decode_requests_max, s.shape.decode_requests);
  c.decode_kv_tokens_max = std::max(c.decode_kv_tokens_max, s.shape.decode_kv_tokens);
  const std::size_t tile = place_in(c.tile_ends, s.shape.decode_requests);
  if (host_bound(c.host, s)) {
    to.hosted[tile] = 1;
    return;
  }
  to.decode[tile].push_back(
      {{static_cast<double>(s.shape.decode_requests), static_cast<double>(s.shape.decode_kv_tokens), 1.0},
       static_cast<double>(s.duration.ns())});
}

ClockCoefficients fit_clock(MegaHertz clock, const ClockSamples& rows, bool published_prefill) {
  const Coefficients line = fit_robust(rows.prefill);
  ClockCoefficients fitted{clock, {line[0], line[1]}, {}, {}};
  if (!published_prefill) {
    fitted.mixed = MixedLine{};
    for (const Coefficients& plane : fit_groups(rows.prefill_ranges)) {
      fitted.prefill_ranges.push_back({plane[0], plane[1], plane[2], plane[3]});
    }
  }
  for (const Coefficients& plane : fit_tiles(rows)) fitted.decode.push_back({plane[0], plane[1], plane[2]});
  return fitted;
}

}  // namespace

Result<LinearFit> fit_linear(std::span<const StepSample> samples, const LinearFitOptions& options) {
  LinearCoefficients c = boundaries(samples, options);
  std::int64_t ignored = 0;
  std::map<MegaHertz, ClockSamples> by_clock;
  for (const StepSample& s : samples) {
    if (!usable(s)) {
      if (options.published_prefill || !mixed(s)) ++ignored;
      continue;
    }
    if (s.clock.value() <= 0)
      return bad_input("profile", fmt::format("clock {} MHz; must be positive", s.clock.value()));
    auto& at = by_clock[s.clock];
    at.decode.resize(c.tile_ends.size() + 1);
    at.hosted.resize(at.decode.size());
    at.prefill_ranges.resize(c.prefill_ends.size() + 1);
    if (pure_prefill(s.shape)) {
      add_prefill(s, options, c, at);
    } else {
      add_decode(s, c, at);
    }
  }
  if (by_clock.empty()) {
    return bad_input("profile", "no usable sample; needs steps of prompts only or decodes only with a duration");
  }
  for (const auto& [clock, rows] : by_clock) c.clocks.push_back(fit_clock(clock, rows, options.published_prefill));

  auto model = LinearLatency::make(c);
  if (!model) return std::unexpected(model.error());
  if (!options.published_prefill) {
    const auto lines = fit_mixed(samples, *model, by_clock, ignored);
    for (std::size_t i = 0; i < lines.size(); ++i) c.clocks[i].mixed = lines[i];
    model = LinearLatency::make(std::move(c));
    if (!model) return std::unexpected(model.error());
  }
  Quality prefill;
  Quality decode;
  for (const StepSample& s : samples) {
    if (!usable(s)) continue;
    (pure_prefill(s.shape) ? prefill : decode).add(s.duration, model->step_time(s.shape, s.clock));
  }
  return LinearFit{std::move(*model), prefill.result(), decode.result(), ignored};
}

}  // namespace wattle::predict
