#pragma once
// The profile of one model on one GPU: class x TP degree x clock x load -> power, TTFT, TBT (DynamoLLM, HPCA 2025,
// section IV-A), and its file. One profile per model, shared by all controllers and by all services that use the model.
#include <cstdint>
#include <memory>
#include <optional>
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
  double prompt_tokens = 0.0, output_tokens = 0.0;  ///< mean lengths of the requests it was profiled with
  ShardLimits limits;
  std::vector<ShardProfile> profiles;  ///< by TP, then clock
  double kept_alone = 1.0;  ///< share of its requests that keep their objectives with the best instance to themselves
  bool operator==(const ProfiledClass&) const = default;
};

struct LoadTable {
  std::vector<std::string> provenance;  ///< lines of "key: value", without line breaks
  std::string llm, gpu;
  std::vector<ProfiledClass> classes;
  int tiers = 1;  ///< classes of one size are so many neighbours, the strictest tier's last
  bool operator==(const LoadTable&) const = default;
};

/// What the file's first line says; a reader of one version refuses another.
inline constexpr int kLoadTableVersion = 2;

/// The file: a line with its form and version, a checksum of all that follows, provenance, a CSV row for each load.
[[nodiscard]] std::string to_text(const LoadTable& table);

/// Reads it back exactly; `file` only names it. Errors, with line: another form or version, a checksum that is not the
/// text's (cut off or changed), a column missing or a number out of range, loads that do not ascend from 0, and holes:
/// a clock that a class and TP degree lack while others of the file have it.
[[nodiscard]] Result<LoadTable> parse_load_table(std::string_view text, const std::string& file);

/// Is the table whole? Errors as parse_load_table's of holes and loads; `where` names it.
[[nodiscard]] Result<void> check_load_table(const LoadTable& table, const std::string& where);

/// Can tables of different TP degrees be one? `where` names `more`; loads do not matter. Errors: another model, GPU,
/// classes or limits; a TP degree that both have.
[[nodiscard]] Result<void> check_mergeable(const LoadTable& into, const LoadTable& more, const std::string& where);
/// Adds the profiles of a table of other TP degrees, measured elsewhere. Errors: check_mergeable's, check_load_table's.
[[nodiscard]] Result<void> merge(LoadTable& into, const LoadTable& more, const std::string& where);

/// The table as it holds for instances of one TP degree. `table` outlives it.
class TableProfile final : public LoadProfile {
 public:
  TableProfile(const LoadTable& table, int tp);
  [[nodiscard]] double max_load_per_s(ClassId request_class, MegaHertz clock) const override;
  /// Beyond the loads profiled: at the last of them.
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

/// Share of the class's requests that may be late where `late` of those may that an instance can serve in time.
[[nodiscard]] inline double may_be_late(const ProfiledClass& one, double late) { return late + 1.0 - one.kept_alone; }
/// What one instance of this class, TP degree and clock carries within the class's limits; 0: nothing, or unknown.
[[nodiscard]] double most_load(const ProfiledClass& one, int tp, MegaHertz clock);
/// What an instance of this TP degree carries at its highest clock before each further request costs another its
/// limits: the end of its profile.
[[nodiscard]] double most_useful_load(const ProfiledClass& one, int tp);
/// The load that one request of `one` is to an instance of `larger`, in that class's requests: both at the highest
/// TP degree and clock that carry them, by prompt tokens where nothing does.
[[nodiscard]] double load_in(const ProfiledClass& one, const ProfiledClass& larger);
/// The highest clock profiled of a TP degree; 0 MHz: none.
[[nodiscard]] MegaHertz top_clock(const ProfiledClass& one, int tp);

}  // namespace wattle::plan
