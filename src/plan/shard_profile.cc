#include "plan/shard_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace wattle::plan {

namespace {

/// Where lo + (hi - lo) x share stays within `limit` for share in [0, 1]: narrows [first, last].
void narrow(Span lo, Span hi, Span limit, double& first, double& last) {
  if (lo <= limit && hi <= limit) return;
  if (lo > limit && hi > limit) {
    last = -1.0;
    return;
  }
  const double share = static_cast<double>((limit - lo).ns()) / static_cast<double>((hi - lo).ns());
  if (lo <= limit) {
    last = std::min(last, share);
  } else {
    first = std::max(first, share);
  }
}

/// The part of each measured stretch that keeps the limits.
std::vector<PowerSegment> within(const ShardProfile& profile, const ShardLimits& limits) {
  std::vector<PowerSegment> pieces;
  for (std::size_t i = 0; i + 1 < profile.points.size(); ++i) {
    const LoadPoint& a = profile.points[i];
    const LoadPoint& b = profile.points[i + 1];
    double first = 0.0, last = 1.0;
    narrow(a.ttft, b.ttft, limits.ttft, first, last);
    narrow(a.tbt, b.tbt, limits.tbt, first, last);
    if (first > last) continue;
    const double width = b.load_per_s - a.load_per_s;
    const double slope = (b.power - a.power).value() / width;
    pieces.push_back({.tp = profile.tp,
                      .clock = profile.clock,
                      .from_per_s = a.load_per_s + first * width,
                      .to_per_s = a.load_per_s + last * width,
                      .fixed_w = a.power.value() - slope * a.load_per_s,
                      .w_per_load = slope});
  }
  return pieces;
}

double power_at(const PowerSegment& piece, double load) { return piece.fixed_w + piece.w_per_load * load; }

void add_envelope(const std::vector<PowerSegment>& pieces, std::vector<PowerSegment>& out) {
  std::vector<double> cuts;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    cuts.push_back(pieces[i].from_per_s);
    cuts.push_back(pieces[i].to_per_s);
    for (std::size_t k = 0; k < i; ++k) {
      const double slopes = pieces[i].w_per_load - pieces[k].w_per_load;
      if (slopes == 0.0) continue;
      const double cross = (pieces[k].fixed_w - pieces[i].fixed_w) / slopes;
      const double from = std::max(pieces[i].from_per_s, pieces[k].from_per_s);
      const double to = std::min(pieces[i].to_per_s, pieces[k].to_per_s);
      if (from < cross && cross < to) cuts.push_back(cross);
    }
  }
  std::ranges::sort(cuts);
  const PowerSegment* last = nullptr;
  constexpr double kNarrow = 1e-9;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i + 1] - cuts[i] <= kNarrow * std::max(1.0, cuts[i + 1])) continue;
    const double middle = (cuts[i] + cuts[i + 1]) / 2.0;
    const PowerSegment* best = nullptr;
    for (const PowerSegment& piece : pieces) {
      if (piece.from_per_s > middle || piece.to_per_s < middle) continue;
      if (best == nullptr || power_at(piece, middle) < power_at(*best, middle)) best = &piece;
    }
    if (best != nullptr && best == last) {
      out.back().to_per_s = cuts[i + 1];
    } else if (best != nullptr) {
      out.push_back(*best);
      out.back().from_per_s = cuts[i];
      out.back().to_per_s = cuts[i + 1];
    }
    last = best;
  }
}

}  // namespace

std::optional<LoadPoint> at_load(const ShardProfile& profile, double load_per_s) {
  const auto& points = profile.points;
  if (load_per_s < 0.0 || load_per_s > points.back().load_per_s) return std::nullopt;
  const auto after = std::ranges::upper_bound(points, load_per_s, {}, &LoadPoint::load_per_s);
  if (after == points.end()) return points.back();
  const LoadPoint& a = *(after - 1);
  const double share = (load_per_s - a.load_per_s) / (after->load_per_s - a.load_per_s);
  const auto between = [&](Span x, Span y) {
    return x + Span(std::llround(share * static_cast<double>((y - x).ns())));
  };
  return LoadPoint{.load_per_s = load_per_s,
                   .power = a.power + (after->power - a.power) * share,
                   .ttft = between(a.ttft, after->ttft),
                   .tbt = between(a.tbt, after->tbt)};
}

std::optional<double> most_load(const ShardProfile& profile, const ShardLimits& limits) {
  const auto pieces = within(profile, limits);
  if (pieces.empty()) return std::nullopt;
  return pieces.back().to_per_s;
}

ShardProfile keep_free(ShardProfile profile, const ShardLimits& limits, double share) {
  const auto most = most_load(profile, limits);
  if (!most || !(*most > 0.0) || share <= 0.0) return profile;
  LoadPoint last = *at_load(profile, *most * (1.0 - share));
  std::erase_if(profile.points, [&](const LoadPoint& p) { return p.load_per_s >= last.load_per_s; });
  profile.points.push_back(last);
  return profile;
}

std::vector<PowerSegment> least_power(const std::vector<ShardProfile>& profiles, const ShardLimits& limits,
                                      bool top_clock_only) {
  std::vector<int> degrees;
  for (const ShardProfile& profile : profiles) degrees.push_back(profile.tp);
  std::ranges::sort(degrees);
  degrees.erase(std::ranges::unique(degrees).begin(), degrees.end());
  std::vector<PowerSegment> segments;
  for (const int tp : degrees) {
    MegaHertz top;
    for (const ShardProfile& profile : profiles) {
      if (profile.tp == tp) top = std::max(top, profile.clock);
    }
    std::vector<PowerSegment> pieces;
    for (const ShardProfile& profile : profiles) {
      if (profile.tp != tp || (top_clock_only && profile.clock != top)) continue;
      const auto more = within(profile, limits);
      pieces.insert(pieces.end(), more.begin(), more.end());
    }
    add_envelope(pieces, segments);
  }
  return segments;
}

Result<void> check_profile(const ShardProfile& profile, const std::string& where) {
  if (profile.tp < 1) return bad_input(where, "its TP degree must be at least 1");
  if (profile.points.size() < 2) return bad_input(where, "it needs at least two loads");
  if (profile.points[0].load_per_s != 0.0) return bad_input(where, "its first load must be 0");
  for (std::size_t i = 0; i < profile.points.size(); ++i) {
    const LoadPoint& point = profile.points[i];
    if (!std::isfinite(point.load_per_s) || !std::isfinite(point.power.value()) || point.power < Watts()) {
      return bad_input(where, fmt::format("load {}: load and power must be finite, power at least 0", i));
    }
    if (i > 0 && point.load_per_s <= profile.points[i - 1].load_per_s) {
      return bad_input(where, fmt::format("load {} does not lie above the one before", i));
    }
  }
  return {};
}

namespace {

/// The profile that misses the limits least where it carries nothing, and by which of them it does.
struct Nearest {
  const ShardProfile* profile = nullptr;
  bool ttft = false;  ///< else TBT
};

Nearest nearest(const std::vector<ShardProfile>& profiles, const ShardLimits& limits) {
  Nearest found;
  double best = 0.0;
  for (const ShardProfile& profile : profiles) {
    const double ttft = profile.points[0].ttft.seconds() / limits.ttft.seconds();
    const double tbt = profile.points[0].tbt.seconds() / limits.tbt.seconds();
    if (found.profile != nullptr && std::max(ttft, tbt) >= best) continue;
    found = {&profile, ttft >= tbt};
    best = std::max(ttft, tbt);
  }
  return found;
}

}  // namespace

ShardLimits reachable_limits(const std::vector<ShardProfile>& profiles, const ShardLimits& limits) {
  ShardLimits kept = limits;
  while (!profiles.empty() && least_power(profiles, kept, false).empty()) {
    (nearest(profiles, kept).ttft ? kept.ttft : kept.tbt) = Span::max();
    if (kept == ShardLimits()) break;
  }
  return kept;
}

std::string nearest_profile(const std::vector<ShardProfile>& profiles, const ShardLimits& limits) {
  const auto [profile, ttft] = nearest(profiles, limits);
  if (profile == nullptr) return "there are no profiles";
  const LoadPoint& idle = profile->points[0];
  return fmt::format("nearest is TP{} at {} MHz with {} {:.4g} ms, limit {:.4g} ms", profile->tp,
                     profile->clock.value(), ttft ? "TTFT" : "TBT", ttft ? idle.ttft.millis() : idle.tbt.millis(),
                     ttft ? limits.ttft.millis() : limits.tbt.millis());
}

}  // namespace wattle::plan
