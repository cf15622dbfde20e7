#pragma once
// Queries the carbon sources of a live process's sites periodically on a separate thread, so that serving and planning
// never wait for one. A value holds until its step is over, and for the age that the site allows; then the intensity is
// unknown, and the log states that once.
#include <functional>
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

class SourceWatch {
 public:
  /// Each time a source has said something: all that is known from it. One call at a time, from any thread of this.
  using Take = std::function<void(const config::SiteSource& source, const carbon::IntensitySeries& series)>;
  /// `origin_ns`: since 1970 UTC, of the process's Instant 0. `take` may be null.
  SourceWatch(std::vector<config::SiteSource> sources, std::int64_t origin_ns, Take take = nullptr);
  ~SourceWatch() = default;  ///< an open question is given up within a second

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
    std::optional<feeds::Feed> said;  ///< of the querying thread
    carbon::IntensitySeries known;    ///< under mutex_
    Instant next;                     ///< time of the next query
    std::string problem;              ///< of the newest answer; empty: none
    std::optional<bool> was_known;    ///< as the log has it
  };
  void ask(Watched& watched, const std::stop_token& stop);
  /// Queries the sources that are due, in parallel; returns when each has answered or timed out.
  void ask_due(const std::stop_token& stop);
  void look(Watched& watched);
  void run(const std::stop_token& stop);
  [[nodiscard]] Instant now() const;

  std::int64_t origin_ns_;
  Take take_;
  std::mutex taking_;
  mutable std::mutex mutex_;
  std::vector<Watched> all_;
  std::jthread thread_;
};

}  // namespace wattle::apps
