#pragma once
// Queries the carbon sources of a live process's sites periodically, each on a thread of its own, so that serving and
// planning never wait for one. A value holds until its step is over, and for the age that the site allows; then the
// intensity is unknown, and the log states that, however often it changes, in a few lines.
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "carbon/series.h"
#include "config/sites.h"

namespace wattle::apps {

/// For config::RunStart.
void log_warning(const std::string& line);

/// How often a state that may change at any time is logged: at once after a quiet time, then 5 s later, and twice that
/// after each further line, up to an hour.
class LinePace {
 public:
  /// Whether a line may be written now; if so, it is taken as written.
  [[nodiscard]] bool take(Instant now);

 private:
  Instant next_ = Instant(std::numeric_limits<std::int64_t>::min());
  Span wait_;
};

class SourceWatch {
 public:
  /// Each time a source has said something: all that is known from it. One call at a time, from that source's thread.
  using Take = std::function<void(const config::SiteSource& source, const carbon::IntensitySeries& series)>;
  /// `origin_ns`: since 1970 UTC, of the process's Instant 0. `take` may be null.
  SourceWatch(std::vector<config::SiteSource> sources, std::int64_t origin_ns, Take take = nullptr);
  ~SourceWatch();  ///< an open question is given up within a second

  /// Queries each source once, all in parallel; blocks for as long as the longest timeout. Before start().
  void ask_all();
  void start();
  /// Is there a source of this site?
  [[nodiscard]] bool watches(SiteId site) const;
  /// None: unknown. From any thread.
  [[nodiscard]] std::optional<GramsPerKwh> at(SiteId site, Instant now) const;

 private:
  struct Watched {
    config::SiteSource source;
    std::optional<feeds::Feed> said{};                                     ///< of the querying thread
    carbon::IntensitySeries known = carbon::IntensitySeries::unknown({});  ///< under mutex_
    Instant next{};                                                        ///< time of the next query
    std::string problem{};                                                 ///< of the newest answer; empty: none
    std::string logged_problem{};
    std::optional<bool> logged_known{};
    LinePace problem_lines{};
    LinePace known_lines{};
  };
  void ask(Watched& watched, const std::stop_token& stop);
  void log_problem(Watched& watched);
  void log_known(Watched& watched);
  void run(Watched& watched, const std::stop_token& stop);
  [[nodiscard]] Instant now() const;

  std::int64_t origin_ns_;
  Take take_;
  std::mutex taking_;
  mutable std::mutex mutex_;
  std::vector<Watched> all_;
  std::vector<std::jthread> threads_;  ///< one for each source: a slow one keeps no other one waiting
};

}  // namespace wattle::apps
