#pragma once
// Profiles for the sharding planner's tests and benchmarks, by formula; none of it is measured.
#include <cmath>
#include <string>

#include "plan/sharding.h"

namespace wattle::plan::testing {

/// A class whose requests weigh `size`, on TP2, 4 and 8 and seven clocks: rate grows with GPUs and clock, power bends.
inline ShardClass formula_class(const std::string& name, double size, double load_per_s) {
  ShardClass one;
  one.name = name;
  one.load_per_s = load_per_s;
  one.limits = {Span::ms(1000), Span::ms(100)};
  for (const int tp : {2, 4, 8}) {
    for (const int mhz : {800, 1000, 1200, 1400, 1600, 1800, 1980}) {
      const double clock = mhz / 1980.0;
      const double most = 1.2 * std::pow(tp, 0.9) * std::pow(clock, 0.7) / size;
      ShardProfile profile{tp, MegaHertz(mhz), {}};
      for (const double share : {0.0, 0.25, 0.5, 0.8, 1.0}) {
        LoadPoint point;
        point.load_per_s = share * most;
        point.power = Watts(tp * (90 + 40 * clock + 430 * std::pow(clock, 2.2) * std::pow(share, 0.7)));
        const double slow = size / std::pow(tp, 0.8) / std::pow(clock, 0.8);
        point.ttft = Span::from_seconds(0.35 * slow * (1 + 3 * share * share));
        point.tbt = Span::from_seconds(0.045 * std::sqrt(slow) * (1 + share));
        profile.points.push_back(point);
      }
      one.profiles.push_back(profile);
    }
  }
  return one;
}

/// DynamoLLM's size: nine classes on 40 servers of eight GPUs.
inline ShardingProblem formula_cluster(int gpus, double load_per_class_per_s, int classes = 9) {
  ShardingProblem problem;
  problem.gpus = gpus;
  problem.unused_gpu = Watts(70);
  const char* names[] = {"SS", "SM", "SL", "MS", "MM", "ML", "LS", "LM", "LL"};
  for (int c = 0; c < classes; ++c) {
    const double size = 0.4 + 0.3 * c;
    problem.classes.push_back(formula_class(names[c], size, load_per_class_per_s / size * (1.0 + 0.13 * c)));
    problem.classes.back().load_in_next = size / (size + 0.3);
  }
  return problem;
}

}  // namespace wattle::plan::testing
