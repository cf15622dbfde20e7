#include "feeds/feed.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/timestamp.h"

namespace wattle::feeds {

namespace {
/// No grid's average is above its worst plant (lignite: about 1,200 g/kWh); a coal grid in lbs/MWh is.
constexpr double kHighestAverage = 1500.0;
/// No plant's life cycle is below (nuclear: about 5); any grid's in kg/kWh is, and what stands for "no data" is 0.
constexpr double kLowestLifecycle = 2.0;
/// Congestion multiplies a locational marginal rate; FREESH's data reach -3,800 g/kWh.
constexpr double kHighestMarginal = 10'000.0;
constexpr Span kShortestStep = Span::s(1);
constexpr Span kLongestStep = Span::s(31 * 86'400);

std::string minutes(Span span) { return fmt::format("{:g} min", span.seconds() / 60.0); }
}  // namespace

const char* text_of(IntensityKind kind) { return kind == IntensityKind::Average ? "average" : "marginal"; }

const char* text_of(EmissionScope scope) {
  switch (scope) {
    case EmissionScope::Direct:
      return "direct";
    case EmissionScope::Lifecycle:
      return "lifecycle";
    case EmissionScope::Unstated:
      break;
  }
  return "unstated";
}

Result<void> check_label(const FeedLabel& label, const Wanted& wanted) {
  const auto differs = [&](const std::string& where, const char* is, const char* asked) {
    return bad_input(where, fmt::format("is {}, and what {} says of '{}' is {}; the two are never mixed", asked,
                                        label.source, wanted.of.empty() ? label.zone : wanted.of, is));
  };
  if (wanted.kind && *wanted.kind != label.kind) {
    return differs(wanted.kind_name, text_of(label.kind), text_of(*wanted.kind));
  }
  if (wanted.scope && label.scope != EmissionScope::Unstated && *wanted.scope != label.scope) {
    return differs(wanted.scope_name, text_of(label.scope), text_of(*wanted.scope));
  }
  return {};
}

Lookup Feed::at(Instant t, Span max_age) const {
  auto reading = std::ranges::upper_bound(readings_, t, {}, &Reading::from);
  if (reading == readings_.begin()) {
    return std::unexpected(
        Unknown{fmt::format("{} {} begins at {}", label_.source, label_.zone, format_timestamp(begin().ns()))});
  }
  const Reading& current = *(reading - 1);
  while (reading != readings_.begin() && !(reading - 1)->value) --reading;
  const auto silent = [&](const char* what) {
    return std::unexpected(Unknown{fmt::format("{} {} {} at {}", label_.source, label_.zone, what,
                                               format_timestamp(std::max<std::int64_t>(t.ns(), 0)))});
  };
  if (reading == readings_.begin()) return silent("has had no value yet");
  const Reading& last = *(reading - 1);
  const Instant until = last.from + step_;
  const Span age = t < until ? Span() : t - until;
  // a later row without a value ends the reading before it
  const bool covered = &last == &current && t < until;
  if (covered) return Known{*last.value, last.estimated, last.forecast, Span()};
  if (max_age > Span() && age <= max_age) return Known{*last.value, last.estimated, last.forecast, age};
  if (t >= end()) return silent(fmt::format("ended {} ago and has no value", minutes(t - end())).c_str());
  return silent(&last == &current ? "has a gap" : "has a row without a value");
}

Result<void> Feed::check_holds(Instant t, const std::string& name) const {
  if (t >= begin() && t < end()) return {};
  return bad_input(name, fmt::format("covers {} to {} UTC, which does not hold the start {}; choose a start within",
                                     format_timestamp(begin().ns()), format_timestamp(end().ns()),
                                     format_timestamp(std::max<std::int64_t>(t.ns(), 0))));
}

IntensitySeries Feed::series(Instant origin, Span max_age) const {
  const auto since = [origin](Instant t) { return Instant() + (t - origin); };
  std::vector<IntensitySeries::Point> points;
  points.reserve(readings_.size());
  Instant silent = readings_.front().from;  // from here on nothing is known, as far as the rows before say
  for (std::size_t i = 0; i < readings_.size(); ++i) {
    const Reading& reading = readings_[i];
    if (!reading.value) continue;
    if (silent < reading.from) {
      points.push_back({since(silent), points.empty() ? *reading.value : points.back().value, false});
    }
    points.push_back({since(reading.from), *reading.value});
    silent = reading.from + step_ + max_age;
    // a later row without a value ends the one before it, unless that may be held
    if (max_age == Span() && i + 1 < readings_.size()) silent = std::min(silent, readings_[i + 1].from);
  }
  auto made = IntensitySeries::from_points(std::move(points), since(silent));
  return made ? std::move(*made) : IntensitySeries::unknown(GramsPerKwh());
}

Result<Feed> Feed::between(std::optional<Instant> from, std::optional<Instant> to, const std::string& name) const {
  Feed part = *this;
  std::erase_if(part.readings_,
                [&](const Reading& reading) { return (from && reading.from < *from) || (to && reading.from >= *to); });
  if (!part.readings_.empty()) return part;
  return bad_input(name, fmt::format("covers {} to {} UTC, and nothing of what is asked for",
                                     format_timestamp(begin().ns()), format_timestamp(end().ns())));
}

void Feed::update(const Feed& newer) {
  std::vector<Reading> all;
  std::ranges::set_union(newer.readings_, readings_, std::back_inserter(all), {}, &Reading::from, &Reading::from);
  constexpr std::size_t kMost = 10'000;
  if (all.size() > kMost) all.erase(all.begin(), all.end() - kMost);
  readings_ = std::move(all);
  label_ = newer.label_;
  step_ = newer.step_;
  issued_ = newer.issued_;
  warnings_ = newer.warnings_;
}

Result<void> FeedBuilder::check_values(const std::string& name) {
  const bool average = feed_.label_.kind == IntensityKind::Average;
  const bool lifecycle = feed_.label_.scope == EmissionScope::Lifecycle;
  const double low = !average ? -kHighestMarginal : lifecycle ? kLowestLifecycle : 0.0;
  const double high = average ? kHighestAverage : kHighestMarginal;
  std::int64_t not_numbers = 0;
  for (Reading& reading : feed_.readings_) {
    if (!reading.value) continue;
    const double v = reading.value->value();
    if (!std::isfinite(v)) {
      reading.value.reset();
      ++not_numbers;
    } else if (v < low || v > high) {
      return bad_input(name,
                       fmt::format("has {:g} g/kWh at {}; {} intensity lies within {:g} and {:g} (are these "
                                   "lbs/MWh, kg/kWh, or another unit?)",
                                   v, format_timestamp(reading.from.ns()), text_of(feed_.label_.kind), low, high));
    }
  }
  if (not_numbers > 0) warn(fmt::format("{} values are not finite numbers: unknown there", not_numbers));
  return {};
}

void FeedBuilder::put_in_order() {
  auto& readings = feed_.readings_;
  if (!std::ranges::is_sorted(readings, {}, &Reading::from)) {
    warn("rows are not in the order of time: sorted");
    std::ranges::stable_sort(readings, {}, &Reading::from);
  }
  std::int64_t repeated = 0;
  std::int64_t contradictory = 0;
  std::vector<Reading> kept;
  kept.reserve(readings.size());
  for (const Reading& reading : readings) {
    if (kept.empty() || kept.back().from != reading.from) {
      kept.push_back(reading);
      continue;
    }
    if (kept.back().value == reading.value) {
      ++repeated;
    } else {
      ++contradictory;
      kept.back().value.reset();
    }
  }
  if (repeated > 0) warn(fmt::format("{} rows repeat another row of that time: left out", repeated));
  if (contradictory > 0) warn(fmt::format("{} rows contradict another row of that time: unknown there", contradictory));
  readings = std::move(kept);
}

Result<void> FeedBuilder::set_step(const std::string& name) {
  const auto& readings = feed_.readings_;
  if (declared_) {
    feed_.step_ = *declared_;
  } else {
    std::map<std::int64_t, std::int64_t> seen;
    for (std::size_t i = 1; i < readings.size(); ++i) ++seen[(readings[i].from - readings[i - 1].from).ns()];
    if (seen.empty()) return bad_input(name, "has fewer than two rows, so the length of a step is unknown");
    feed_.step_ = Span(std::ranges::max_element(seen, {}, [](const auto& entry) { return entry.second; })->first);
  }
  if (feed_.step_ < kShortestStep || feed_.step_ > kLongestStep) {
    return bad_input(name, fmt::format("steps by {:g} s; a step lies within 1 s and 31 days", feed_.step_.seconds()));
  }
  std::int64_t gaps = 0;
  for (std::size_t i = 1; i < readings.size(); ++i)
    gaps += readings[i].from - readings[i - 1].from > feed_.step_ ? 1 : 0;
  if (gaps > 0) warn(fmt::format("{} gaps between rows: unknown there", gaps));
  return {};
}

Result<Feed> FeedBuilder::build(const std::string& name) && {
  if (feed_.readings_.empty()) return bad_input(name, "has no rows");
  if (auto ok = check_values(name); !ok) return std::unexpected(ok.error());
  put_in_order();
  if (auto ok = set_step(name); !ok) return std::unexpected(ok.error());
  const auto& readings = feed_.readings_;
  const auto silent = std::ranges::count_if(readings, [](const Reading& r) { return !r.value; });
  if (silent == std::ssize(readings)) return bad_input(name, "has no value in any row");
  if (silent > 0) warn(fmt::format("{} of {} rows without a value", silent, readings.size()));
  const auto estimated = std::ranges::count_if(readings, &Reading::estimated);
  if (estimated > 0) warn(fmt::format("{} of {} rows estimated by the provider", estimated, readings.size()));
  return std::move(feed_);
}

}  // namespace wattle::feeds
