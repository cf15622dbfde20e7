#pragma once
// The points of VoltanaLLM's Figure 13 next to ours, and the error of a group of them.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reproduce/voltanallm.h"

namespace wattle::reproduce {

/// Names of systems in the figure.
inline constexpr std::string_view kMaximum = "sglang_1410";
inline constexpr std::string_view kControlled = "voltana";

struct PublishedSystem {
  std::string_view name;
  const char* recipe;
  const char* clocks;  ///< the figure's, whatever the model's own energy optimum is
};

/// One line of the digitised figure; empty cells were hidden behind another marker.
struct Point {
  const PublishedModel* model = nullptr;
  const PublishedLengths* lengths = nullptr;
  const PublishedSystem* system = nullptr;
  std::int64_t rate = 0;  ///< requests/s
  std::optional<double> energy_j;
  std::optional<double> ttft_percent;
  std::optional<double> itl_percent;
};

/// Of every panel that is at hand.
struct PublishedPoints {
  std::vector<Point> points;
  std::map<std::string, std::size_t> left_out;  ///< lines by reason: models, datasets and systems that are not ours
};
/// Errors: there is no panel, or one is malformed.
[[nodiscard]] Result<PublishedPoints> published_points();

/// Means over draws of lengths and arrivals.
struct SimulatedPoint {
  double energy_j = 0.0;
  double ttft_percent = 0.0;
  double itl_percent = 0.0;
};

struct PointRuns {
  int draws = 6;  ///< near an instance's capacity draws differ much
  double seconds = kRunSeconds;
  std::vector<std::string> scenario = {};  ///< overrides, key=value
  std::vector<std::string> recipe = {};
};
[[nodiscard]] Result<SimulatedPoint> simulate_point(const Point& point, const PointRuns& runs);
[[nodiscard]] Result<std::vector<SimulatedPoint>> simulate_points(const std::vector<Point>& points,
                                                                  const PointRuns& runs);

/// How far one group of points is off.
struct PointErrors {
  std::vector<double> energies;             ///< relative
  std::vector<double> controlled_energies;  ///< of these, those of the controlled system
  std::vector<double> savings;              ///< points
  std::vector<double> attainments;          ///< points, where published above 90 %
  double best_saving = 0.0;                 ///< of ours

  void merge(const PointErrors& other);
};
[[nodiscard]] double mean_size(const std::vector<double>& errors);
[[nodiscard]] double worst_size(const std::vector<double>& errors);

/// By model. Savings of the controlled system against the maximum clock, where both are among the points.
[[nodiscard]] std::map<std::string_view, PointErrors> errors_of(const std::vector<Point>& points,
                                                                const std::vector<SimulatedPoint>& ours);

/// The model whose panels the A100's power was fitted on, and that were in view when constants were chosen.
inline constexpr std::string_view kFittedModel = "llama-3.1-8b";

/// engine.decode_attention_efficiency of the A100's profile, as fitted on TensorRT-LLM's kernels.
inline constexpr double kKernelAttention = 0.779343;

}  // namespace wattle::reproduce
