#pragma once
// Shared by the sections on FREESH: its released planner data, a day of plans, and runs of one type of request.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/pools.h"
#include "plan/pools_csv.h"
#include "reproduce/evaluation.h"

namespace wattle::reproduce {

[[nodiscard]] Evaluation freesh_evaluation();

}  // namespace wattle::reproduce

namespace wattle::reproduce::freesh {

inline constexpr std::size_t kSlotsPerWindow = 6;  ///< of five minutes
inline constexpr double kBeta = 2.0;               ///< the release divides its peaks by this
/// Idle power over peak power of a worker, from the paper's Figure 15: about 200 W of 650 to 700 W.
inline constexpr double kIdleShare = 0.3;

/// A file of the release by its name without extension, or the only one that matches `like` (one '*').
[[nodiscard]] Result<PublishedFile> released_file(const char* name, const char* like);
/// The released inputs: two partitions, three sites, four modes. Errors: WATTLE_DATA not set, no such files.
[[nodiscard]] Result<plan::PoolsData> load_data();

/// Plans in turn, each with the one before as its start.
struct Day {
  std::vector<plan::PoolsProblem> problems;
  std::vector<plan::PoolsPlan> plans;
  /// Of windows with a plan.
  [[nodiscard]] Joules energy() const;
  [[nodiscard]] GramsCo2 carbon() const;
  [[nodiscard]] double count(plan::PoolsStatus status) const;
  [[nodiscard]] double shed_per_s() const;  ///< mean demand left unserved, over all windows
  [[nodiscard]] double started() const;
};
using Change = std::function<void(plan::PoolsProblem&)>;
/// Errors: a plan that fails the independent checker.
[[nodiscard]] Result<Day> plan_day(const plan::PoolsData& data, const plan::PoolsOptions& options,
                                   const Change& change = nullptr, double beta = kBeta);
/// Likewise of these windows alone.
[[nodiscard]] Result<Day> plan_windows(const plan::PoolsData& data, const plan::PoolsOptions& options,
                                       const std::vector<std::size_t>& windows, const Change& change = nullptr,
                                       double beta = kBeta);

[[nodiscard]] plan::PoolsOptions published_options(bool carbon = true);
[[nodiscard]] plan::PoolsOptions wattle_options(bool carbon = true);
/// Only partition `s`, from 0.
[[nodiscard]] Change only_partition(std::size_t s);
/// Only these modes, by position.
[[nodiscard]] Change only_modes(std::vector<std::size_t> modes);
/// The load goes to the site with the lowest mean intensity that can carry it with the margin; if there is none, to the
/// cleanest sites that can together. The other sites lose their GPUs.
[[nodiscard]] Change cleanest_site(const plan::PoolsOptions& options);

[[nodiscard]] inline double percent_change(double ours, double baseline) { return 100.0 * (ours / baseline - 1.0); }
void add(Section& section, std::string id, const char* unit, std::optional<double> published, double ours);

[[nodiscard]] Result<Section> day();          ///< Figure 12, Table 3
[[nodiscard]] Result<Section> windows();      ///< every optimum of the release
[[nodiscard]] Result<Section> sensitivity();  ///< Figures 8, 10 and 11
[[nodiscard]] Result<Section> queues();       ///< Table 5, Figures 4, 17 and 18
[[nodiscard]] Result<Section> miad();         ///< Table 10, Figures 16 and 20
[[nodiscard]] Result<Section> snapshots();    ///< Figure 16
[[nodiscard]] Result<Section> hour();         ///< Figure 6
[[nodiscard]] Result<Section> loads();        ///< half, normal and double load
[[nodiscard]] Result<Section> classifier();
[[nodiscard]] Result<Section> overheads();  ///< Table 6

}  // namespace wattle::reproduce::freesh
