#pragma once
// What vLLM's /metrics says, under vLLM's names.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/real_time_engine.h"

namespace wattle::testbed {

/// A Prometheus histogram of seconds or tokens.
class BucketHistogram {
 public:
  explicit BucketHistogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::int64_t> counts_;
  double sum_ = 0.0;
  std::int64_t count_ = 0;
};

struct EngineMetrics {
  std::int64_t prompt_tokens = 0;
  std::int64_t generation_tokens = 0;
  std::int64_t finished_stop = 0;
  std::int64_t finished_length = 0;
  std::int64_t finished_abort = 0;
  std::int64_t rejected = 0;
  BucketHistogram ttft{{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}};
  BucketHistogram itl{{.005, .01, .015, .02, .025, .03, .04, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5}};
  BucketHistogram e2e{{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240}};
  BucketHistogram prompt{{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000}};
  BucketHistogram generation{{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}};

  [[nodiscard]] std::string text(const std::string& model, const RealTimeEngine::Counts& now, std::int32_t block_size,
                                 std::int64_t blocks) const;
};

/// SGLang's gauges; `kv_capacity`: tokens.
[[nodiscard]] std::string sglang_metrics(const std::string& model, const RealTimeEngine::Counts& now,
                                         std::int64_t kv_capacity);
/// SGLang's GET /v1/loads?include=core (`v1`) or, of older ones, GET /get_load.
[[nodiscard]] nlohmann::json sglang_loads(const RealTimeEngine::Counts& now, std::int64_t kv_capacity, bool v1);

}  // namespace wattle::testbed
