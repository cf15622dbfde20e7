#include "experiment/reference_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "config/locate.h"
#include "experiment/simulate.h"
#include "journal/run_directory.h"
#include "journal/tee.h"
#include "report/saving.h"
#include "workload/first_part.h"

namespace wattle::experiment {

namespace {

constexpr Span kSamplePeriod = Span::ms(50);

/// Energy of a simulated run against time, by its ledger.
class EnergyBySecond final : public journal::Sink {
 public:
  void sample(const journal::Sample& s) override {
    const auto second = static_cast<std::size_t>((s.at.ns() - 1) / 1'000'000'000);
    const auto instance = static_cast<std::size_t>(s.instance.value());
    if (booked_.size() <= instance) booked_.resize(instance + 1);
    total_ += s.energy - std::exchange(booked_[instance], s.energy);
    energy_j_.resize(std::max(energy_j_.size(), second + 1));
    energy_j_[second] = total_.joules().value();
  }
  /// Cumulative, at the end of each second.
  [[nodiscard]] const std::vector<double>& cumulative() const { return energy_j_; }

 private:
  std::vector<Picojoules> booked_;  ///< by instance, so far
  Picojoules total_;
  std::vector<double> energy_j_;
};

}  // namespace

double ReferenceRun::energy_until(double seconds) const {
  const auto whole = static_cast<std::size_t>(seconds);
  if (seconds >= summary.sim.virtual_s || whole >= energy_j.size())
    return report::energy_until(summary, seconds).value();
  const double before = whole == 0 ? 0.0 : energy_j[whole - 1];
  return before + (seconds - static_cast<double>(whole)) * (energy_j[whole] - before);
}

Result<ReferenceRun> reference_run(const config::LoadedScenario& scenario, const std::string& recipe_name,
                                   const systems::SplitOverrides& overrides, Span length, const std::string& out) {
  const auto recipe = systems::load_recipe(recipe_name, overrides.recipe, config::project(), systems::Unfit::Ignored);
  if (!recipe) return std::unexpected(recipe.error());
  auto run = prepare_run(scenario, *recipe, config::data_dir());
  if (!run) return std::unexpected(run.error());
  run->source = std::make_unique<workload::FirstPart>(std::move(run->source), length);
  run->setup.source = run->source.get();
  EnergyBySecond energy;
  run->setup.sample_period = kSamplePeriod;
  journal::Tee sinks({&energy});
  std::unique_ptr<journal::RunWriter> writer;
  if (!out.empty()) {
    auto opened = journal::RunWriter::open(out, run->facts);
    if (!opened) return std::unexpected(opened.error());
    writer = std::move(*opened);
    sinks.add(writer.get());
  }
  run->setup.sink = &sinks;
  ReferenceRun reference;
  auto result = simulate_prepared(*run, recipe_name);
  reference.summary = std::move(result.summary);
  reference.energy_j = energy.cumulative();
  if (writer) {
    if (auto closed = writer->close(reference.summary, result.curves); !closed) return std::unexpected(closed.error());
  }
  return reference;
}

}  // namespace wattle::experiment
