#pragma once
// What a carbon source says about one zone: values with gaps, flags and an age. Where it says nothing there is no value
// but a reason; nothing ever becomes zero for want of data.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "feeds/intensity.h"

namespace wattle::feeds {

/// What is counted in an average intensity.
enum class EmissionScope : std::uint8_t {
  Unstated,
  Direct,     ///< at the stack
  Lifecycle,  ///< with building the plants and bringing the fuel
};

/// One step of a feed. Instants of feeds are ns since 1970 UTC.
struct Reading {
  Instant from;
  std::optional<GramsPerKwh> value;  ///< none: the source has a row and no number in it
  bool estimated = false;            ///< filled in or imputed by the provider: lower trust
  bool forecast = false;             ///< said before its time
};

/// Whose numbers they are.
struct FeedLabel {
  std::string source;  ///< "electricity-maps", "watttime", ...
  std::string zone;    ///< the provider's own name
  IntensityKind kind = IntensityKind::Average;
  EmissionScope scope = EmissionScope::Unstated;
};

/// A value to use at an Instant, with what is to be known about it.
struct Known {
  GramsPerKwh value;
  bool estimated = false;
  bool forecast = false;
  Span age;  ///< since the reading's own step ended; 0 within it
};
/// Why there is none: a policy that decides by carbon leaves it out and says so.
struct Unknown {
  std::string reason;
};
using Lookup = std::expected<Known, Unknown>;

class Feed {
 public:
  /// Known where a reading covers t, or the last known one before t is no older than `max_age`.
  [[nodiscard]] Lookup at(Instant t, Span max_age = Span()) const;
  /// Without gaps, and with `origin` (ns since 1970 UTC) as Instant 0. Errors: a step without value, named; the origin
  /// outside the data.
  [[nodiscard]] Result<IntensitySeries> series(Instant origin) const;

  [[nodiscard]] const FeedLabel& label() const { return label_; }
  /// Ascending, no Instant twice; never empty.
  [[nodiscard]] const std::vector<Reading>& readings() const { return readings_; }
  [[nodiscard]] Span step() const { return step_; }
  [[nodiscard]] Instant begin() const { return readings_.front().from; }
  [[nodiscard]] Instant end() const { return readings_.back().from + step_; }
  /// When the source computed a forecast, if it said.
  [[nodiscard]] std::optional<Instant> issued() const { return issued_; }
  /// What was repaired or looks odd, for a person.
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

/// A feed of a kind checked once, so that a signature can ask for it: decisions take Marginal, books take Average.
template <IntensityKind kKind>
class FeedOf {
 public:
  /// Errors: the feed is of the other kind.
  [[nodiscard]] static Result<FeedOf> of(Feed feed) {
    if (feed.label().kind != kKind) {
      return bad_input(feed.label().source + " " + feed.label().zone,
                       kKind == IntensityKind::Marginal
                           ? "is average intensity where marginal is wanted; the two are never mixed"
                           : "is marginal intensity where average is wanted; the two are never mixed");
    }
    return FeedOf(std::move(feed));
  }
  [[nodiscard]] const Feed& feed() const { return feed_; }

 private:
  explicit FeedOf(Feed feed) : feed_(std::move(feed)) {}
  Feed feed_;
};
using AverageFeed = FeedOf<IntensityKind::Average>;
using MarginalFeed = FeedOf<IntensityKind::Marginal>;

[[nodiscard]] const char* text_of(IntensityKind kind);
[[nodiscard]] const char* text_of(EmissionScope scope);

/// A CSV as a feed: as carbon::parse_series reads it, but gaps, blanks and odd order become warnings and unknown steps.
/// Slots count from 1970. Errors: where = "name:line".
[[nodiscard]] Result<Feed> parse_feed_csv(const IntensityForm& form, FeedLabel label, std::string_view text,
                                          const std::string& name);

}  // namespace wattle::feeds
