#pragma once
// The load profile of one model on one GPU, and its file: class x TP degree x clock x load -> power, TTFT, TBT
// (DynamoLLM, HPCA 2025, section IV-A). There is one profile per model, shared by all controllers and services that use
// it.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/load_profile.h"
#include "plan/shard_profile.h"

namespace wattle::plan {

/// A class of requests. Classes are ordered from smallest to largest; their position is their ClassId.
struct ProfiledClass {
  std::string name;
  double prompt_tokens = 0.0, output_tokens = 0.0;  ///< mean lengths of the requests with which it was profiled
  ShardLimits limits;
  std::vector<ShardProfile> profiles;  ///< by TP, then clock
  double kept_alone = 1.0;  ///< share of its requests that keep their objectives with the best instance to themselves
  bool operator==(const ProfiledClass&) const = default;
};

struct LoadTable {
  std::vector<std::string> provenance;  ///< lines of "key: value", without line breaks
  std::string llm, gpu;
  std::vector<ProfiledClass> classes;
  int tiers = 1;  ///< each class size has this many neighbouring classes, the strictest tier's last
  bool operator==(const LoadTable&) const = default;
};

/// In the file's first line; a reader of one version refuses the others.
inline constexpr int kLoadTableVersion = 2;

/// The file's text: a line with form and version, a checksum of what follows, provenance, and a CSV row per load.
[[nodiscard]] std::string to_text(const LoadTable& table);

/// Inverse of to_text; `file` is its name in errors. Errors, with line: another form or version; a wrong checksum
/// (truncated or changed); a missing column or a number out of range; loads that do not ascend from 0; holes: a clock
/// that one class and TP degree lack while others in the file have it.
[[nodiscard]] Result<LoadTable> parse_load_table(std::string_view text, const std::string& file);

/// Checks that the table is complete. Errors: as parse_load_table's for holes and loads; `where` names the table.
[[nodiscard]] Result<void> check_load_table(const LoadTable& table, const std::string& where);

/// Checks that tables of different TP degrees can be merged. `where` names `more`; loads may differ. Errors: another
/// model, GPU, classes or limits; a TP degree that both have.
[[nodiscard]] Result<void> check_mergeable(const LoadTable& into, const LoadTable& more, const std::string& where);
/// Adds the profiles of a table of other TP degrees, measured elsewhere. Errors: check_mergeable's, check_load_table's.
[[nodiscard]] Result<void> merge(LoadTable& into, const LoadTable& more, const std::string& where);

/// The table for instances of one TP degree. `table` outlives it.
class TableProfile final : public LoadProfile {
 public:
  TableProfile(const LoadTable& table, int tp);
  [[nodiscard]] double max_load_per_s(ClassId request_class, MegaHertz clock) const override;
  /// Beyond the profiled loads: the last one's values.
  [[nodiscard]] wattle::LoadPoint at(ClassId request_class, double load_per_s, MegaHertz clock) const override;
  [[nodiscard]] MegaHertz clock_for(ClassId request_class, double load_per_s, MegaHertz least) const override;

 private:
  struct Entry {
    const ShardProfile* profile;
    double most_load;
  };
  [[nodiscard]] std::span<const Entry> from(ClassId request_class, MegaHertz clock) const;
  [[nodiscard]] const Entry* find(ClassId request_class, MegaHertz clock) const;
  std::vector<std::vector<Entry>> by_class_;  ///< ascending clocks
};

/// Share of the class's requests that may be late if a share `late` may be of those that an instance can serve in time.
[[nodiscard]] inline double may_be_late(const ProfiledClass& one, double late) { return late + 1.0 - one.kept_alone; }
/// The same of each class.
[[nodiscard]] std::vector<double> may_be_late(const LoadTable& table, double late);
/// Requests per second that one instance of this class, TP degree and clock carries within the class's limits; 0: none,
/// or unknown.
[[nodiscard]] double most_load(const ProfiledClass& one, int tp, MegaHertz clock);
/// Requests per second at the highest clock of this TP degree beyond which each further request makes another one miss
/// its limits: the end of its profile.
[[nodiscard]] double most_useful_load(const ProfiledClass& one, int tp);
/// The load of one request of `one` on an instance of `larger`, in requests of that class: both at the highest TP
/// degree and clock that carry them; by prompt tokens if none does.
[[nodiscard]] double load_in(const ProfiledClass& one, const ProfiledClass& larger);
/// The highest profiled clock of a TP degree; 0 MHz: none.
[[nodiscard]] MegaHertz top_clock(const ProfiledClass& one, int tp);

}  // namespace wattle::plan
