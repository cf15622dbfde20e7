#include "watch_sources.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>

#include "ask_source.h"
#include "net/clock.h"
#include "net/log.h"

namespace wattle::apps {

namespace {
/// PJM publishes its values hours later.
constexpr Span kHistory = Span::s(6 * 3600);

feeds::Query question(feeds::Query query, Instant wall) {
  if (query.source != feeds::Source::Pjm) return query;
  query.wish = feeds::Wish::History;
  query.from = wall - kHistory;
  query.to = wall;
  return query;
}
}  // namespace

void log_warning(const std::string& line) { net::log_line(net::LogLevel::Warning, line); }

SourceWatch::SourceWatch(std::vector<config::SiteSource> sources, std::int64_t origin_ns, Take take)
    : origin_ns_(origin_ns), take_(std::move(take)) {
  for (auto& source : sources) {
    all_.push_back(
        {std::move(source), std::nullopt, carbon::IntensitySeries::unknown(GramsPerKwh()), Instant(), "", {}});
  }
}

Instant SourceWatch::now() const {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return Instant(std::chrono::nanoseconds(wall).count() - origin_ns_);
}

void SourceWatch::ask(Watched& watched, const std::stop_token& stop) {
  const auto& source = watched.source;
  watched.next = net::steady_now() + source.refresh;  // steady clock, so setting the time of day has no effect
  auto feed = ask_source(question(source.query, now() + Span(origin_ns_)), source.key_file, source.timeout, stop);
  if (feed) {
    if (auto ok = feeds::check_label(feed->label(), source.wanted); !ok) feed = std::unexpected(ok.error());
  }
  if (stop.stop_requested()) return;
  const std::string problem = feed ? "" : feed.error().message();
  if (!problem.empty() && problem != watched.problem) {
    net::log_line(net::LogLevel::Warning, "a carbon source has no answer",
                  {{"source", std::string_view(source.name)}, {"what", std::string_view(problem)}});
  }
  watched.problem = problem;
  if (!feed) return;
  if (watched.said) {
    watched.said->update(*feed);
  } else {
    watched.said = std::move(*feed);
  }
  auto series = watched.said->series(Instant(origin_ns_), source.max_age);
  if (take_) {
    const std::lock_guard lock(taking_);
    take_(source, series);
  }
  const std::lock_guard lock(mutex_);
  watched.known = std::move(series);
}

/// Says when knowledge begins and ends: a value grows too old without any answer.
void SourceWatch::look(Watched& watched) {
  const bool known = watched.known.covers(now());
  if (watched.was_known == known) return;
  watched.was_known = known;
  const std::string_view name(watched.source.name);
  if (known) return net::log_line(net::LogLevel::Info, "a site's carbon intensity is known", {{"source", name}});
  net::log_line(net::LogLevel::Warning,
                "a site's carbon intensity is unknown: plans leave carbon out, and the books say so",
                {{"source", name}, {"what", std::string_view(watched.problem)}});
}

void SourceWatch::ask_due(const std::stop_token& stop) {
  {
    std::vector<std::jthread> asking;  // a source that is slow keeps no other one waiting
    for (Watched& watched : all_) {
      if (net::steady_now() >= watched.next) asking.emplace_back([this, &watched, &stop] { ask(watched, stop); });
    }
  }
  for (Watched& watched : all_) look(watched);
}

void SourceWatch::ask_all() {
  for (Watched& watched : all_) watched.next = Instant(std::numeric_limits<std::int64_t>::min());
  ask_due({});
}

void SourceWatch::start() {
  if (all_.empty()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void SourceWatch::run(const std::stop_token& stop) {
  constexpr auto kTurn = std::chrono::milliseconds(100);
  std::mutex idle;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    ask_due(stop);
    std::unique_lock lock(idle);
    wake.wait_for(lock, stop, kTurn, [] { return false; });
  }
}

bool SourceWatch::watches(SiteId site) const {
  return std::ranges::any_of(all_, [&](const Watched& watched) { return watched.source.site == site; });
}

std::optional<GramsPerKwh> SourceWatch::at(SiteId site, Instant now) const {
  const std::lock_guard lock(mutex_);
  for (const Watched& watched : all_) {
    if (watched.source.site == site && watched.known.covers(now)) return watched.known.at(now);
  }
  return std::nullopt;
}

}  // namespace wattle::apps
