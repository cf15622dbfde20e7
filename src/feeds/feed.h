#pragma once
// A carbon source's series for one zone: values with gaps, flags and an age. Where there is no value there is a reason;
// missing data never become zero.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "feeds/intensity.h"

namespace wattle::feeds {

/// The emissions that an average intensity includes.
enum class EmissionScope : std::uint8_t {
  Unstated,
  Direct,     ///< of the plants' operation only
  Lifecycle,  ///< also of building the plants and providing the fuel
};

/// One step of a feed. Instants of feeds are ns since 1970 UTC.
struct Reading {
  Instant from;
  std::optional<GramsPerKwh> value;  ///< none: the source has a row and no number in it
  bool estimated = false;            ///< filled in or imputed by the provider: lower trust
  bool forecast = false;             ///< stated before its time
};

/// Origin of the numbers.
struct FeedLabel {
  std::string source;  ///< "electricity-maps", "watttime", ...
  std::string zone;    ///< the provider's own name
  IntensityKind kind = IntensityKind::Average;
  EmissionScope scope = EmissionScope::Unstated;
};

/// A value to use at an Instant, with its age and flags.
struct Known {
  GramsPerKwh value;
  bool estimated = false;
  bool forecast = false;
  Span age;  ///< since the reading's own step ended; 0 within it
};
/// Why there is no value: a policy that decides by carbon leaves the term out and says so.
struct Unknown {
  std::string reason;
};
using Lookup = std::expected<Known, Unknown>;

class Feed {
 public:
  /// Known where a reading covers t, or the last known one before t is no older than `max_age`.
  [[nodiscard]] Lookup at(Instant t, Span max_age = Span()) const;
  /// With `origin` (ns since 1970 UTC) as Instant 0. It covers t where at(t, max_age) is known.
  [[nodiscard]] IntensitySeries series(Instant origin, Span max_age = Span()) const;
  /// Errors (where = name): t outside the data.
  [[nodiscard]] Result<void> check_holds(Instant t, const std::string& name) const;
  /// Its readings from `from` on, before `to`; none: unbounded. Errors (where = name): none lies there.
  [[nodiscard]] Result<Feed> between(std::optional<Instant> from, std::optional<Instant> to,
                                     const std::string& name) const;
  /// Replaces readings by those of `newer` for the same times; of all others the newest 10,000 are kept.
  void update(const Feed& newer);

  [[nodiscard]] const FeedLabel& label() const { return label_; }
  /// Ascending, no Instant twice; never empty.
  [[nodiscard]] const std::vector<Reading>& readings() const { return readings_; }
  [[nodiscard]] Span step() const { return step_; }
  [[nodiscard]] Instant begin() const { return readings_.front().from; }
  [[nodiscard]] Instant end() const { return readings_.back().from + step_; }
  /// When the source computed a forecast, if stated.
  [[nodiscard]] std::optional<Instant> issued() const { return issued_; }
  /// Repairs and oddities, as text for people.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class FeedBuilder;
  FeedLabel label_;
  std::vector<Reading> readings_;
  Span step_;
  std::optional<Instant> issued_;
  std::vector<std::string> warnings_;
};

/// Rows as they come, put in order: unsorted ones are sorted; of equal ones at one time the first is kept; two values
/// for one time make that time unknown; what is not a finite number is unknown. Each is counted in a warning.
class FeedBuilder {
 public:
  explicit FeedBuilder(FeedLabel label) { feed_.label_ = std::move(label); }
  void add(const Reading& reading) { feed_.readings_.push_back(reading); }
  /// As the source declares it; without, the most frequent distance of two rows. From 1 s to 31 days.
  void declare_step(Span step) { declared_ = step; }
  void issued(Instant when) { feed_.issued_ = when; }
  void warn(std::string what) { feed_.warnings_.push_back(std::move(what)); }
  FeedLabel& label() { return feed_.label_; }
  /// Errors (where = name): no rows; one row and no declared step; a number no grid has (the wrong unit).
  [[nodiscard]] Result<Feed> build(const std::string& name) &&;

 private:
  Result<void> check_values(const std::string& name);
  void put_in_order();
  Result<void> set_step(const std::string& name);

  Feed feed_;
  std::optional<Span> declared_;
};

/// The kind and scope that a caller requires of a feed, and the flags or keys that state them.
struct Wanted {
  std::optional<IntensityKind> kind = std::nullopt;
  std::optional<EmissionScope> scope = std::nullopt;
  std::string kind_name = "--kind";
  std::string scope_name = "--scope";
  std::string of = {};  ///< where it was read, for errors; empty: its zone
};
/// Errors (where = the flag or key): the feed is of the other kind, or counts in another scope. One that does not say
/// its scope is taken as wanted.
[[nodiscard]] Result<void> check_label(const FeedLabel& label, const Wanted& wanted);

[[nodiscard]] const char* text_of(IntensityKind kind);
[[nodiscard]] const char* text_of(EmissionScope scope);

/// A CSV as a feed: as carbon::parse_series reads it, but gaps, blanks and odd order become warnings and unknown steps.
/// Slots count from 1970. Errors: where = "name:line".
[[nodiscard]] Result<Feed> parse_feed_csv(const IntensityForm& form, FeedLabel label, std::string_view text,
                                          const std::string& name);

}  // namespace wattle::feeds
