#pragma once
// The result of `wattle reproduce`: a paper's evaluation in sections, each published value next to ours.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace wattle::reproduce {

/// One value. `published` is absent where the paper shows none and ours only accompanies its neighbours; ours is NaN
/// where we have none.
struct Row {
  std::string id;
  std::string unit;
  std::optional<double> published;
  double ours = 0.0;
  [[nodiscard]] double difference() const { return ours - published.value_or(ours); }
  /// NaN where there is none: nothing is published, ours is no value, or it is not the 0 that is published.
  [[nodiscard]] double relative() const;
};

/// A target of the project and whether ours meets it.
struct Target {
  std::string name;
  std::string wanted;  ///< as a person reads it: "36.3±4 %"
  double value = 0.0;
  bool met = false;
};

/// Lines over a common axis; drawn on the HTML page only.
struct Plot {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< ascending x
  };
  std::string title;
  std::string x_unit;
  std::string y_unit;
  std::vector<Line> lines;
};

/// One figure or table of a paper.
struct Section {
  std::string source;  ///< as the paper names it: "Figure 13, digitised"
  std::string note;    ///< how ours was made; a sentence or two
  std::vector<Row> rows;
  std::vector<Target> targets;
  std::vector<Plot> plots;
  std::map<std::string, std::size_t> left_out = {};  ///< published lines that were not run, by reason
};

/// A section's name on the command line, and what makes it. Errors: missing or malformed published data.
struct SectionMaker {
  std::string_view name;
  std::string_view what;
  /// Of runs in which requests arrive for `seconds`; sections of fixed length leave it aside (`fixed`).
  Result<Section> (*make)(double seconds);
};

/// A section whose runs have a fixed length.
template <Result<Section> (*Make)()>
Result<Section> fixed(double) {
  return Make();
}

/// Requests arrive for this long unless the command line says otherwise.
inline constexpr double kRunSeconds = 120.0;

/// The evaluation of one system; each is defined in its own file.
struct Evaluation {
  std::string_view system;
  std::span<const SectionMaker> sections;
};
[[nodiscard]] Evaluation voltanallm();
[[nodiscard]] Evaluation throttllem_evaluation();
[[nodiscard]] Evaluation greenserve();
[[nodiscard]] Evaluation dynamollm_evaluation();

/// A file of published values. Errors: WATTLE_DATA not set, no such file.
struct PublishedFile {
  std::string path;
  std::string text;
};
[[nodiscard]] Result<PublishedFile> published_file(const char* under_data);
/// Names under the data folder that match `under_data`, which has one '*', in order: other models, sites or windows of
/// the same kind. Empty: none, or WATTLE_DATA not set.
[[nodiscard]] std::vector<std::string> published_names(const char* under_data);

void print(const Section& section);
/// All sections as one self-contained page.
[[nodiscard]] std::string html(std::string_view system, std::span<const Section> sections);
/// Appends the section's rows and targets to the arrays "rows" and "marks" (the name its readers know) of `object`;
/// what was left out, if anything was, to "left_out".
void append(const Section& section, nlohmann::ordered_json& object);

}  // namespace wattle::reproduce
