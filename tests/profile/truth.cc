// Compares a belief file with the step model of the mock engine at points that were not profiled. The only place that
// uses both: the profile was measured over HTTP.
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "calibrate/beliefs.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "predict/linear_power.h"

namespace {

using namespace wattle;

struct Errors {
  double worst = 0.0;
  double sum = 0.0;
  int count = 0;
  std::string where;
};

struct Truth {
  double seconds = 0.0;
  double watts = 0.0;
};

Truth truth_of(const engine::StepModel& model, const StepShape& shape, MegaHertz clock) {
  const double unit = 1e-9 / static_cast<double>(std::int64_t{1} << engine::kTimeFractionBits);
  if (shape.decode_requests > 0) {
    const auto line = model.decode(shape.decode_requests, shape.decode_kv_tokens, clock);
    return {static_cast<double>(line.base + line.slope * shape.decode_kv_tokens) * unit, to_watts(line.power).value()};
  }
  const auto cost = model.mixed(shape, clock);
  return {static_cast<double>(cost.duration) * unit, to_watts(cost.power).value()};
}

int run(const std::string& file, double limit, const std::vector<MegaHertz>& clocks) {
  const auto home = config::project();
  const auto gpu = config::load_gpu(home.find(config::Project::Kind::Gpu, "a100-80g", "gpu").value()).value();
  const auto llm = config::load_llm(home.find(config::Project::Kind::Llm, "llama-3.1-8b", "llm").value()).value();
  const auto model = config::make_step_model(gpu, llm, 1, engine::EngineOptions{}).value();
  const auto belief = calibrate::load_belief(file, "");
  if (!belief) return fmt::print(stderr, "{}\n", belief.error().message()), 2;
  const auto time = predict::LinearLatency::make(belief->time).value();
  const auto power = predict::LinearPower::make(time, belief->power);
  if (!power) return fmt::print(stderr, "no power: {}\n", power.error().message()), 2;

  std::vector<StepShape> shapes;
  for (const std::int32_t n : {2, 4, 12, 16, 24, 48, 60}) {
    for (const std::int64_t each : {90, 300, 450, 590}) {
      StepShape s;
      s.decode_requests = n;
      s.decode_kv_tokens = n * each;
      shapes.push_back(s);
    }
  }
  for (const std::int64_t tokens : {600, 640, 896, 1536, 3072, 3584}) {
    StepShape s;
    s.prefill_requests = 1;
    s.prefill_tokens = tokens;
    s.prefill_context_tokens = tokens * tokens / 2;
    shapes.push_back(s);
  }
  for (const std::int64_t tokens : {600, 900, 1800}) {
    for (const std::int64_t context : {3000, 6000, 12'000}) {
      StepShape s;
      s.prefill_requests = 1;
      s.prefill_tokens = tokens;
      s.prefill_context_tokens = tokens * (context + tokens / 2);
      shapes.push_back(s);
    }
  }
  std::map<std::string, Errors> all;
  bool good = true;
  const auto note = [&](const std::string& what, const StepShape& s, MegaHertz clock, double believed, double truth) {
    const double error = std::abs(believed / truth - 1.0);
    Errors& e = all[what];
    ++e.count;
    e.sum += error;
    if (error > e.worst) {
      e.worst = error;
      e.where = fmt::format("{} requests, {} KV, {} prompt tokens, {} MHz: {:.5g} for {:.5g}", s.decode_requests,
                            s.decode_kv_tokens, s.prefill_tokens, clock.value(), believed, truth);
    }
    good = good && error <= limit;
  };
  for (const MegaHertz clock : clocks) {
    for (const StepShape& s : shapes) {
      const Truth t = truth_of(model, s, clock);
      const bool behind = s.prefill_context_tokens > s.prefill_tokens * s.prefill_tokens;
      const std::string phase = s.decode_requests > 0 ? "decode" : behind ? "behind a context:" : "prefill";
      note(phase + " time, s", s, clock, time.step_time(s, clock).seconds(), t.seconds);
      note(phase + " power, W", s, clock, to_watts(power->step_power(s, clock)).value(), t.watts);
      note(phase + " energy, J", s, clock, power->step_energy(s, clock).joules().value(), t.seconds * t.watts);
    }
    note("idle power, W", {}, clock, to_watts(power->step_power({}, clock)).value(),
         to_watts(model.idle_power(clock)).value());
  }
  for (const auto& [what, e] : all) {
    fmt::print("{:<18} {:>3} points never profiled, mean error {:.2f} %, worst {:.2f} % ({})\n", what, e.count,
               100 * e.sum / e.count, 100 * e.worst, e.where);
  }
  return good ? 0 : 1;
}

}  // namespace

/// FILE LIMIT MHZ...: 0 when every error is within LIMIT.
int main(int argc, char** argv) {
  if (argc < 4) return 2;
  std::vector<wattle::MegaHertz> clocks;
  for (int i = 3; i < argc; ++i) clocks.emplace_back(std::atoi(argv[i]));
  return run(argv[1], std::atof(argv[2]), clocks);
}
