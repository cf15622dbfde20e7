// The shipped profiles and docs/validation.md are reproduced by the commands that write them. Needs the data sets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "config/locate.h"
#include "fidelity/fit_plan.h"
#include "reproduce/catalog.h"
#include "reproduce/validation.h"

namespace wattle::reproduce {
namespace {

template <typename T>
T must(Result<T> made) {
  if (!made) throw std::runtime_error(made.error().message());
  return std::move(*made);
}

/// What `wattle validate` and `wattle fit` start from, read once a process: each experiment points into the catalog.
struct Inputs {
  fidelity::Catalog catalog = must(load_catalog(config::project()));
  fidelity::SeenRows seen = must(load_seen_rows(config::project()));
  fidelity::Collection all = must(fidelity::collect(config::data_dir(), catalog));
};
const Inputs& inputs() {
  static const Inputs made;
  return made;
}

/// Once a process: it takes a minute.
const Validation& of_all_data() {
  static const Validation made = must(validation(config::data_dir(), inputs().catalog, inputs().seen, 2));
  return made;
}

class ValidationOfData : public testing::Test {
 protected:
  void SetUp() override {
    if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  }
};

TEST_F(ValidationOfData, the_page_is_what_the_data_say) {
  const auto& all = of_all_data();
  std::stringstream page;
  page << std::ifstream(WATTLE_SOURCE_DIR "/docs/validation.md").rdbuf();
  EXPECT_EQ(page.str(), fidelity::to_markdown(all.scores, all.absent, all.of_runs))
      << "run: wattle validate --out docs/validation.md";
}

TEST_F(ValidationOfData, every_row_that_a_fit_may_see_is_on_the_list_of_those_seen) {
  const auto of_runs = must(whole_runs_in_view(config::data_dir()));
  EXPECT_GT(of_runs.size(), 150U);
  std::size_t fitted = 0;
  std::size_t others_seen = 0;
  for (const auto* experiments : {&inputs().all.experiments, &of_runs}) {
    for (const fidelity::Experiment& e : *experiments) {
      if (e.fitted || e.in_view) {
        ++fitted;
        EXPECT_TRUE(inputs().seen.contains(e)) << e.set << ' ' << e.row << ": run wattle fit --seen-only";
      } else {
        others_seen += inputs().seen.contains(e) ? 1U : 0U;
      }
    }
  }
  EXPECT_GT(fitted, 5000U);
  EXPECT_LT(others_seen, 30U) << "but for repeats of a row, what was held out is not on it";
}

/// Mean over the sets of the mean absolute logarithm of simulated over measured, on the GPU's fitted rows.
double mean_log_error(const std::vector<fidelity::Experiment>& experiments, std::string_view gpu,
                      const engine::HardwareProfile& profile) {
  std::map<std::string, std::pair<double, double>> sets;  // sum, count
  for (const fidelity::Experiment& e : experiments) {
    if (e.gpu != gpu || !e.fitted) continue;
    const auto ours = must(e.simulate(profile, fidelity::Rival{})).values;
    for (std::size_t q = 0; q < ours.size(); ++q) {
      if (!(ours[q] > 0.0) || !(e.quantities[q].measured > 0.0)) continue;
      auto& [sum, count] = sets[e.set];
      sum += std::abs(std::log(ours[q] / e.quantities[q].measured));
      count += 1.0;
    }
  }
  double total = 0.0;
  for (const auto& [set, mean] : sets) total += mean.first / mean.second;
  return total / static_cast<double>(sets.size());
}

/// The costs have flat valleys, in which a fit's end depends on rounding. So the error is compared, not the constants:
/// a new fit must not be much better. Of the A40, whose fit takes a tenth of a second; the A100's takes 40.
TEST_F(ValidationOfData, a_new_fit_is_no_better_than_the_shipped_profile) {
  const auto& experiments = inputs().all.experiments;
  fidelity::Catalog catalog = inputs().catalog;
  const auto shipped = catalog.profiles.at("a40");
  catalog.profiles.erase("a40");
  const auto outcome = fidelity::fit_gpu("a40", catalog, experiments, 2);
  const double refitted = mean_log_error(experiments, "a40", outcome.profile);
  EXPECT_LT(mean_log_error(experiments, "a40", shipped), refitted * 1.03);
  EXPECT_GT(mean_log_error(experiments, "a40", catalog.profiles.at("a100-80g")), refitted * 1.03)
      << "it shows what fits";
}

/// A profile that was fitted before the model or its rows changed states costs that are no longer its own.
TEST_F(ValidationOfData, the_shipped_profiles_fit_as_well_as_they_say) {
  std::size_t compared = 0;
  for (const auto& [gpu, profile] : inputs().catalog.profiles) {
    const auto file = config::project().find(config::Project::Kind::Profile, gpu, "");
    ASSERT_TRUE(file) << file.error().message();
    const auto text = read_file(*file);
    ASSERT_TRUE(text) << text.error().message();
    for (const auto& [stage, cost] : fidelity::stage_costs(profile, inputs().all.experiments, 2)) {
      const std::string note = fmt::format("# {}: robust cost {:.3f} after all stages\n", stage, cost);
      EXPECT_NE(text->find(note), std::string::npos) << gpu << ": " << note << "is not what it says: run wattle fit";
      ++compared;
    }
  }
  EXPECT_GE(compared, 20U);
}

/// The fit sees the experiment that `wattle reproduce` and `wattle sim` run: the same engines, the same lengths.
TEST_F(ValidationOfData, voltanallms_experiment_is_one) {
  const auto& runs = of_all_data().whole_runs;
  const auto whole = runs.find("VoltanaLLM/whole-runs");
  ASSERT_NE(whole, runs.end());
  int compared = 0;
  for (const fidelity::Experiment& e : inputs().all.experiments) {
    if (e.set != "VoltanaLLM/fixed-clocks") continue;
    const double ours = must(e.simulate(inputs().catalog.profiles.at(e.gpu), {})).values.front();
    for (const Row& row : whole->second.rows) {
      // "fig13/llama-3.1-8b/lmsys/rps75/sglang_1410/energy" is "Llama-3.1-8B LMSYS rps=75 mhz=1410".
      if (row.unit != "J" || row.published != e.quantities.front().measured || !row.id.contains("sglang")) continue;
      EXPECT_NEAR(ours / row.ours, 1.0, 0.06) << e.row << ", " << row.id;
      ++compared;
    }
  }
  EXPECT_GE(compared, 40);
}

TEST(Catalog, every_shipped_gpu_has_a_profile_and_serves_a_model) {
  const auto catalog = must(load_catalog(config::project()));
  for (const auto& [name, gpu] : catalog.gpus) {
    const auto profile = catalog.profiles.find(name);
    ASSERT_NE(profile, catalog.profiles.end()) << name;
    const auto model = engine::StepModel::make(gpu, catalog.llms.at("llama-3.1-8b"), 1, profile->second, {});
    ASSERT_TRUE(model) << model.error().message();
    const auto line = model->decode(8, 4000, gpu.clock_max);
    const double ms = static_cast<double>(line.base + line.slope * 4000) * 1e-6 / (1 << 20);
    // Streaming 16 GB of weights at the card's bandwidth bounds a step from below; ten times that is absurd.
    const double floor_ms = 15.0e9 / gpu.memory_bandwidth_bytes_per_s * 1e3;
    EXPECT_GT(ms, floor_ms) << name;
    EXPECT_LT(ms, 10 * floor_ms) << name;
    EXPECT_LE(line.power, to_milliwatts(gpu.tdp)) << name;
  }
}

}  // namespace
}  // namespace wattle::reproduce
