#include "testbed/mock_engine_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace wattle::testbed {

void BucketHistogram::add(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += value;
  ++count_;
}

void BucketHistogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "# TYPE {} histogram\n", name);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    seen += counts_[i];
    fmt::format_to(to, "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], seen);
  }
  fmt::format_to(to, "{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, count_);
  fmt::format_to(to, "{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_, name, labels, count_);
}

std::string EngineMetrics::text(const std::string& model, const RealTimeEngine::Counts& now, std::int32_t block_size,
                                std::int64_t blocks) const {
  const std::string labels = fmt::format("model_name=\"{}\",engine=\"0\"", model);
  std::string out;
  auto to = std::back_inserter(out);
  const auto one = [&](const char* name, const char* type, auto value, const std::string& more = "") {
    fmt::format_to(to, "# TYPE {} {}\n{}{{{}{}}} {}\n", name, type, name, labels, more, value);
  };
  one("vllm:num_requests_running", "gauge", now.running);
  one("vllm:num_requests_waiting", "gauge", now.waiting);
  one("vllm:kv_cache_usage_perc", "gauge", now.kv_usage);
  one("vllm:cache_config_info", "gauge", 1,
      fmt::format(",block_size=\"{}\",num_gpu_blocks=\"{}\"", block_size, blocks));
  one("vllm:prompt_tokens_total", "counter", prompt_tokens);
  one("vllm:generation_tokens_total", "counter", generation_tokens);
  one("vllm:num_preemptions_total", "counter", now.preemptions);
  fmt::format_to(to, "# TYPE vllm:request_success_total counter\n");
  fmt::format_to(to, "vllm:request_success_total{{{},finished_reason=\"stop\"}} {}\n", labels, finished_stop);
  fmt::format_to(to, "vllm:request_success_total{{{},finished_reason=\"length\"}} {}\n", labels, finished_length);
  fmt::format_to(to, "vllm:request_success_total{{{},finished_reason=\"abort\"}} {}\n", labels, finished_abort);
  one("vllm:admission_rejections_total", "counter", rejected);
  ttft.write(out, "vllm:time_to_first_token_seconds", labels);
  itl.write(out, "vllm:inter_token_latency_seconds", labels);
  e2e.write(out, "vllm:e2e_request_latency_seconds", labels);
  prompt.write(out, "vllm:request_prompt_tokens", labels);
  generation.write(out, "vllm:request_generation_tokens", labels);
  // Our own metrics, which real engines do not have, for tests and demonstrations.
  one("wattle_mock_engine_clock_mhz", "gauge", now.clock.value());
  one("wattle_mock_engine_power_watts", "gauge", to_watts(now.power).value());
  one("wattle_mock_engine_steps_total", "counter", now.steps);
  return out;
}

std::string sglang_metrics(const std::string& model, const RealTimeEngine::Counts& now, std::int64_t kv_capacity) {
  const std::string labels =
      fmt::format("engine_type=\"unified\",model_name=\"{}\",pp_rank=\"0\",tp_rank=\"0\"", model);
  std::string out;
  const auto gauge = [&](const char* name, auto value) {
    fmt::format_to(std::back_inserter(out), "# TYPE sglang:{0} gauge\nsglang:{0}{{{1}}} {2}\n", name, labels, value);
  };
  gauge("num_running_reqs", now.running);
  gauge("num_queue_reqs", now.waiting);
  gauge("token_usage", now.kv_usage);
  gauge("num_used_tokens", static_cast<std::int64_t>(now.kv_usage * static_cast<double>(kv_capacity)));
  gauge("max_total_num_tokens", kv_capacity);
  return out;
}

nlohmann::json sglang_loads(const RealTimeEngine::Counts& now, std::int64_t kv_capacity, bool v1) {
  const auto used = static_cast<std::int64_t>(now.kv_usage * static_cast<double>(kv_capacity));
  if (!v1) {
    return nlohmann::json::array({{{"dp_rank", 0},
                                   {"num_reqs", now.running + now.waiting},
                                   {"num_waiting_reqs", now.waiting},
                                   {"num_tokens", used}}});
  }
  nlohmann::json body;
  body["dp_rank_count"] = 1;
  body["loads"] = nlohmann::json::array({{{"dp_rank", 0},
                                          {"num_running_reqs", now.running},
                                          {"num_waiting_reqs", now.waiting},
                                          {"num_used_tokens", used},
                                          {"max_total_num_tokens", kv_capacity},
                                          {"token_usage", now.kv_usage}}});
  return body;
}

}  // namespace wattle::testbed
