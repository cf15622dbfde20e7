// The service of DynamoLLM's evaluation: requests, what is believed of them, and what is known of the engines.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "experiment/load_profile.h"
#include "predict/class_hint.h"
#include "reproduce/dynamollm_fleet.h"
#include "workload/copies.h"
#include "workload/source.h"

namespace wattle::reproduce::dynamollm {

namespace {

constexpr Span kMinute = Span::s(60);

/// The class that the predictor says, by the true lengths.
std::vector<ClassId> believed_classes(const Service& service, double accuracy) {
  const Classifier& classes = service.classes;
  const auto confusion = predict::Confusion::to_neighbours(static_cast<std::size_t>(classes.outputs()), accuracy);
  RandomStream random(service.scenario.scenario.seed, "length.classes");
  std::vector<ClassId> said;
  for (const auto& row : service.rows) {
    const std::int32_t truth = classes.of(row.prompt_tokens, row.output_tokens).value();
    const auto output = static_cast<std::size_t>(truth % classes.outputs());
    const auto drawn = static_cast<std::int32_t>(confusion.draw(output, random));
    said.emplace_back(truth / classes.outputs() * classes.outputs() + drawn);
  }
  return said;
}

/// A pool is profiled with the requests that come to it: those that the predictor takes for its class.
Result<std::shared_ptr<const plan::LoadTable>> profile_believed(const Service& service) {
  const Classifier& classes = service.classes;
  const auto limits = limits_of(classes);
  std::vector<calibrate::ClassRequests> requests(static_cast<std::size_t>(classes.size()));
  for (std::size_t i = 0; i < service.rows.size(); ++i) {
    auto& lengths = requests[static_cast<std::size_t>(service.believed[i].value())].lengths;
    lengths.emplace_back(service.rows[i].prompt_tokens, service.rows[i].output_tokens);
  }
  for (std::size_t c = 0; c < requests.size(); ++c) {
    requests[c].name = classes.name(ClassId(static_cast<std::int32_t>(c)));
    requests[c].limits = limits[c];
  }
  experiment::LoadProfileRequest request;
  request.progress = [](const std::string& line) { fmt::print(stderr, "profile: {}\n", line); };
  return experiment::load_profile(service.scenario, requests, request);
}

}  // namespace

std::vector<std::vector<double>> rates_by_minute(const Service& service, const std::vector<ClassId>& believed) {
  const auto minutes = static_cast<std::size_t>(std::ceil(service.length.seconds() / 60.0));
  std::vector<std::vector<double>> rates(minutes,
                                         std::vector<double>(static_cast<std::size_t>(service.classes.size()), 0.0));
  for (std::size_t i = 0; i < service.rows.size(); ++i) {
    const std::size_t minute = static_cast<std::size_t>(service.rows[i].arrival.ns() / kMinute.ns());
    if (minute < minutes) rates[minute][static_cast<std::size_t>(believed[i].value())] += 1.0 / kMinute.seconds();
  }
  return rates;
}

Result<Service> make_service(double copies, const Classifier& classes, double accuracy) {
  auto scenario = hour_scenario({});
  if (!scenario) return std::unexpected(scenario.error());
  Service made{*scenario, classes, nullptr, {}, {}, {}, Span(), {}};
  for (const int tp : {8, 4, 2}) {
    auto model = config::make_step_model(scenario->gpus.front(), scenario->llm, tp, scenario->scenario.engine);
    if (!model) return std::unexpected(model.error());
    made.models.emplace(tp, std::make_unique<engine::StepModel>(std::move(*model)));
  }
  const auto workload = config::locate_workload(scenario->scenario, config::data_dir());
  if (!workload) return std::unexpected(workload.error());
  auto once = workload::make_source(*workload, config::data_dir(), config::base_dir(scenario->scenario),
                                    scenario->scenario.seed);
  if (!once) return std::unexpected(once.error());
  const auto source = workload::with_copies(std::move(*once), copies, kMinute, scenario->scenario.seed);
  while (const auto row = source->next()) made.rows.push_back(*row);
  made.believed = believed_classes(made, accuracy);
  auto table = profile_believed(made);
  if (!table) return std::unexpected(table.error());
  made.table = std::move(*table);
  if (made.rows.empty()) return bad_input(scenario->scenario.file, "its workload has no requests");
  const auto minutes = made.rows.back().arrival.ns() / kMinute.ns() + 1;
  made.length = kMinute * minutes;
  made.peak_per_s.assign(static_cast<std::size_t>(classes.size()), 0.0);
  for (const auto& minute : rates_by_minute(made, made.believed)) {
    for (std::size_t c = 0; c < minute.size(); ++c) made.peak_per_s[c] = std::max(made.peak_per_s[c], minute[c]);
  }
  return made;
}

}  // namespace wattle::reproduce::dynamollm
