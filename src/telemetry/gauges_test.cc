#include "telemetry/gauges.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace wattle::telemetry {
namespace {

TEST(MetricsPage, VllmAsItComes) {
  const auto gauges = read_metrics_page(
      "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 3.0\n"
      "vllm:num_requests_running{engine=\"1\",model_name=\"tiny\"} 2.0\n"
      "vllm:num_requests_waiting{engine=\"0\",model_name=\"tiny\"} 7.0\n"
      "vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"tiny\",reason=\"capacity\"} 7.0\n"
      "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a } b\"} 0.25\n"
      "vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"tiny\"} 0.5\n");
  ASSERT_TRUE(gauges);
  EXPECT_EQ(*gauges, (LoadGauges{5, 7, std::nullopt, 0.5})) << "counts are summed over ranks, shares are the highest";
}

TEST(MetricsPage, SglangWithEitherPrefixAndLlamaCpp) {
  for (const std::string prefix : {"sglang:", "sglang_"}) {
    const auto gauges = read_metrics_page(prefix + "num_running_reqs{tp_rank=\"0\"} 4.0\n" + prefix +
                                          "num_queue_reqs{tp_rank=\"0\"} 1.0\n" + prefix + "num_used_tokens 1200\n" +
                                          prefix + "token_usage{tp_rank=\"0\"} 0.03\n");
    ASSERT_TRUE(gauges) << prefix;
    EXPECT_EQ(*gauges, (LoadGauges{4, 1, 1200, 0.03}));
  }
  const auto llama = read_metrics_page("llamacpp:requests_processing 2\nllamacpp:requests_deferred 0\n");
  ASSERT_TRUE(llama);
  EXPECT_EQ(*llama, (LoadGauges{2, 0, std::nullopt, std::nullopt}));
}

TEST(MetricsPage, WhatIsNoCountIsNotTaken) {
  EXPECT_FALSE(read_metrics_page(""));
  EXPECT_FALSE(read_metrics_page("up 1\nvllm:num_requests_running NaN\nvllm:num_requests_waiting -3\n"));
  EXPECT_FALSE(read_metrics_page("vllm:kv_cache_usage_perc 55\nvllm:num_requests_running{\n")) << "a share is 0 to 1";
}

TEST(MetricsPage, NoCountIsSoLargeThatASumOverflows) {
  std::string page = "vllm:num_requests_running 2147483647\n";
  for (int i = 0; i < 1'000; ++i) page += "vllm:num_requests_waiting 1e12\n";
  const auto gauges = read_metrics_page(page);
  ASSERT_TRUE(gauges);
  EXPECT_EQ(*gauges, (LoadGauges{1 << 20, 1 << 20, std::nullopt, std::nullopt}));
}

TEST(Models, NamesInAListAndNothingElse) {
  EXPECT_EQ(read_models(R"({"object":"list","data":[{"id":"a","object":"model"},{"id":7},5,{"id":"b/c"}]})"),
            (std::vector<std::string>{"a", "b/c"}));
  for (const char* other : {"", "[]", "{", R"({"data":{"id":"a"}})", R"({"models":[{"id":"a"}]})", R"({"data":[]})"}) {
    EXPECT_TRUE(read_models(other).empty()) << other;
  }
}

TEST(Loads, BothOfSglangsForms) {
  const auto v1 = read_loads(
      R"({"timestamp":"t","version":"0.5","dp_rank_count":2,"loads":[
          {"dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":1,"num_used_tokens":900,"token_usage":0.1},
          {"dp_rank":1,"num_running_reqs":2,"num_waiting_reqs":0,"num_used_tokens":100,"token_usage":0.4}]})");
  ASSERT_TRUE(v1);
  EXPECT_EQ(*v1, (LoadGauges{5, 1, 1000, 0.4}));
  const auto old = read_loads(R"([{"dp_rank":0,"num_reqs":4,"num_waiting_reqs":1,"num_tokens":77}])");
  ASSERT_TRUE(old);
  EXPECT_EQ(*old, (LoadGauges{3, 1, 77, std::nullopt}));
  for (const char* wrong : {"", "[", "{}", "[1,2]", R"({"loads":{"num_reqs":"x"}})", R"({"server_load":3})"}) {
    EXPECT_FALSE(read_loads(wrong)) << wrong;
  }
}

TEST(Orca, TextAndJson) {
  const LoadGauges said{std::nullopt, 2, std::nullopt, 0.4};
  const auto text = read_orca("TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=2.0");
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, said);
  const auto json = read_orca(R"(JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 2.0}})");
  ASSERT_TRUE(json);
  EXPECT_EQ(*json, said);
  for (const char* wrong :
       {"", "TEXT", "TEXT cpu=0.3", "JSON {", "JSON 5", "BIN x", "TEXT named_metrics.kv_cache_usage_perc="}) {
    EXPECT_FALSE(read_orca(wrong)) << wrong;
  }
}

RC_GTEST_PROP(Gauges, AreTotalOnAnyText, (const std::string& text)) {
  for (const auto& gauges :
       {read_metrics_page(text), read_loads(text), read_orca("TEXT " + text), read_orca("JSON " + text)}) {
    if (!gauges) continue;
    RC_ASSERT(!gauges->empty());
    RC_ASSERT(gauges->running.value_or(0) >= 0 && gauges->waiting.value_or(0) >= 0);
  }
}

}  // namespace
}  // namespace wattle::telemetry
