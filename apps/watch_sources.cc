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
constexpr Span kLongestWait = Span::s(3600);  ///< whatever a source asks for
constexpr Span kFirstPace = Span::s(5);
constexpr Span kLastPace = Span::s(3600);

feeds::Query question(feeds::Query query, Instant wall) {
  if (query.source != feeds::Source::Pjm) return query;
  query.wish = feeds::Wish::History;
  query.from = wall - kHistory;
  query.to = wall;
  return query;
}
}  // namespace

void log_warning(const std::string& line) { net::log_line(net::LogLevel::Warning, line); }

bool LinePace::take(Instant now) {
  if (now < next_) return false;
  const bool quiet = next_ == Instant(std::numeric_limits<std::int64_t>::min()) || now - next_ > wait_;
  wait_ = quiet ? kFirstPace : std::min(wait_ * 2, kLastPace);
  next_ = now + wait_;
  return true;
}

SourceWatch::SourceWatch(std::vector<config::SiteSource> sources, std::int64_t origin_ns, Take take)
    : origin_ns_(origin_ns), take_(std::move(take)) {
  for (auto& source : sources) all_.push_back({.source = std::move(source)});
}

SourceWatch::~SourceWatch() {
  for (auto& thread : threads_) thread.request_stop();  // all, before the first is waited for
}

Instant SourceWatch::now() const {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return Instant(std::chrono::nanoseconds(wall).count() - origin_ns_);
}

void SourceWatch::ask(Watched& watched, const std::stop_token& stop) {
  const auto& source = watched.source;
  const Instant asked = net::steady_now();  // steady, so setting the time of day has no effect
  auto [feed, wait] =
      ask_source(question(source.query, now() + Span(origin_ns_)), source.key_file, source.timeout, stop);
  if (stop.stop_requested()) return;
  watched.next = asked + std::max(source.refresh, std::min(wait, kLongestWait));
  if (feed) {
    if (auto ok = feeds::check_label(feed->label(), source.wanted); !ok) feed = std::unexpected(ok.error());
  }
  watched.problem = feed ? "" : feed.error().message();
  log_problem(watched);
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

void SourceWatch::log_problem(Watched& watched) {
  if (watched.problem == watched.logged_problem || !watched.problem_lines.take(net::steady_now())) return;
  watched.logged_problem = watched.problem;
  const std::string_view name(watched.source.name);
  if (watched.problem.empty())
    return net::log_line(net::LogLevel::Info, "a carbon source answers again", {{"source", name}});
  net::log_line(net::LogLevel::Warning, "a carbon source has no answer",
                {{"source", name}, {"what", std::string_view(watched.problem)}});
}

/// Says when knowledge begins and ends: a value grows too old without any answer.
void SourceWatch::log_known(Watched& watched) {
  const bool known = watched.known.covers(now());
  if (watched.logged_known == known || !watched.known_lines.take(net::steady_now())) return;
  watched.logged_known = known;
  const std::string_view name(watched.source.name);
  if (known) return net::log_line(net::LogLevel::Info, "a site's carbon intensity is known", {{"source", name}});
  std::string why = watched.problem;
  if (why.empty() && watched.said) {  // it answers, and of another time
    const auto at = watched.said->at(now() + Span(origin_ns_), watched.source.max_age);
    if (!at) why = at.error().reason;
  }
  net::log_line(net::LogLevel::Warning,
                "a site's carbon intensity is unknown: plans leave carbon out, and the books say so",
                {{"source", name}, {"what", std::string_view(why)}});
}

void SourceWatch::ask_all() {
  {
    std::vector<std::jthread> asking;
    for (Watched& watched : all_) asking.emplace_back([this, &watched] { ask(watched, {}); });
  }
  for (Watched& watched : all_) log_known(watched);
}

void SourceWatch::start() {
  for (Watched& watched : all_) {
    threads_.emplace_back([this, &watched](const std::stop_token& stop) { run(watched, stop); });
  }
}

void SourceWatch::run(Watched& watched, const std::stop_token& stop) {
  constexpr auto kTurn = std::chrono::milliseconds(100);
  std::mutex idle;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    if (net::steady_now() >= watched.next) ask(watched, stop);
    log_known(watched);
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
