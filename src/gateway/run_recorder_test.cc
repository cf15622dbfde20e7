#include "gateway/run_recorder.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "gateway/token_tally.h"
#include "journal/decisions_jsonl.h"
#include "journal/requests_reader_test.h"
#include "journal/timeseries_csv.h"
#include "net/await_test.h"
#include "net/clock.h"

namespace wattle::gateway {
namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("wattle-recorder-test-" + std::to_string(::getpid()));
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string text(const char* name) const { return read_file((path / name).string()).value(); }
};

journal::RunFacts facts() {
  journal::RunFacts f;
  f.scenario = "s";
  f.recipe = "r";
  f.driver = "live";
  f.slo.itl = Span::ms(60);
  f.instances.push_back({InstanceId(0), {}});
  return f;
}

TEST(RunRecorder, WritesASimulatorsFilesInOrderOfTime) {
  const Folder folder;
  auto recorder = RunRecorder::open(folder.path.string(), facts()).value();
  const Instant now = net::steady_now();
  for (const int ms : {30, 10, 20}) {
    recorder->decision({now + Span::ms(ms), journal::DecisionKind::Clock, Mode::Enforce, RequestId{-1}, InstanceId(0),
                        1000 + ms, "because"});
  }
  Outcome o;
  o.request.arrival = now;
  o.dispatched = o.prefill_start = now + Span::ms(1);
  o.first_token = now + Span::ms(100);
  o.left = now + Span::ms(300);
  o.output_tokens = 11;
  o.gaps_within_itl = 8;
  o.energy = Picojoules(Int128{5'000'000'000'000});
  recorder->outcome(o);
  journal::Consumption used;
  used.meters = "emulated";
  used.energy.total = Joules(8.0);
  ASSERT_TRUE(recorder->close(used));

  std::vector<std::int64_t> values;
  ASSERT_TRUE(
      journal::parse_decisions(folder.text("decisions.jsonl"), "d", [&](const auto& r) { values.push_back(r.value); }));
  EXPECT_EQ(values, (std::vector<std::int64_t>{1010, 1020, 1030}));
  int rows = 0;
  journal::for_each_request(folder.text("requests.csv"), [&](const Outcome& read) {
    ++rows;
    EXPECT_EQ(read.energy, o.energy);
    EXPECT_EQ(read.left - read.request.arrival, Span::ms(300));
    EXPECT_LT(read.request.arrival.seconds(), 60.0) << "since the recorder was opened";
  });
  EXPECT_EQ(rows, 1);
  const auto run = journal::read_run(folder.path.string()).value();
  EXPECT_EQ(run.facts.driver, "live");
  EXPECT_EQ(run.summary.requests.finished, 1);
  EXPECT_EQ(run.summary.energy.total.value(), 8.0);
  EXPECT_EQ(run.summary.meters, "emulated");
  EXPECT_NEAR(run.summary.itl.p50_ms, 20.0, 0.2);
  EXPECT_DOUBLE_EQ(run.summary.slo.itl, 0.8);
}

TEST(RunRecorder, AWholeAnswersGapsAreItsTimeByItsTokens) {
  const Folder folder;
  auto recorder = RunRecorder::open(folder.path.string(), facts()).value();
  TokenTally tally;
  Outcome o;
  o.request.arrival = o.dispatched = o.prefill_start = net::steady_now();
  o.left = o.request.arrival + Span::ms(600);
  tally.whole(60, o.request.arrival, o.left);
  const auto served = tally.served();
  o.first_token = served.first_token;
  o.output_tokens = served.output_tokens;
  o.gaps_within_itl = served.gaps_within_itl;
  o.whole_gap = served.whole_gap;
  recorder->outcome(o);
  ASSERT_TRUE(recorder->close({}));
  const auto run = journal::read_run(folder.path.string()).value();
  EXPECT_NEAR(run.summary.itl.p50_ms, 10.0, 0.2);
  EXPECT_EQ(o.tbt(), Span::ms(10));
  EXPECT_FALSE(o.kept({.ttft = {}, .itl = {}, .tbt = Span::ms(9), .e2e = {}}).tbt);
}

TEST(RunRecorder, SamplesOfSeveralAgentsAreInOrderOfTime) {
  const Folder folder;
  auto recorder = RunRecorder::open(folder.path.string(), facts()).value();
  recorder->joined({InstanceId(1), {}});
  const Instant now = net::steady_now();
  const auto sample = [&](int instance, int ms) {
    journal::Sample s;
    s.at = now + Span::ms(ms);
    s.instance = InstanceId(instance);
    recorder->sample(s);
  };
  sample(0, 40);
  std::this_thread::sleep_for(std::chrono::milliseconds(250));  // beyond a turn of the writing thread
  sample(1, 20);
  sample(0, 60);
  ASSERT_TRUE(recorder->close({}));
  std::vector<Instant> times;
  std::vector<std::int32_t> instances;
  const auto read = journal::parse_timeseries(folder.text("timeseries.csv"), "t", [&](const journal::Sample& s) {
    times.push_back(s.at);
    instances.push_back(s.instance.value());
  });
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_EQ(instances, (std::vector<std::int32_t>{1, 0, 0}));
  EXPECT_EQ(recorder->dropped(), 0);
}

TEST(RunRecorder, ASampleThatIsTooLateForItsPlaceIsCounted) {
  const Folder folder;
  auto recorder = RunRecorder::open(folder.path.string(), facts(), {.hold_back_samples = Span()}).value();
  const Instant now = net::steady_now();
  journal::Sample s;
  s.at = now;
  recorder->sample(s);
  await([&] {
    const auto written = journal::read_run(folder.path.string());
    return written && written->summary.clock_mean_mhz == 0.0;
  });
  s.at = now - Span::ms(1);
  recorder->sample(s);
  ASSERT_TRUE(recorder->close({}));
  EXPECT_EQ(recorder->dropped(), 1);
}

TEST(RunRecorder, InstancesThatJoinAreInItsFacts) {
  const Folder folder;
  auto recorder = RunRecorder::open(folder.path.string(), facts()).value();
  InstanceSpec spec;
  spec.tensor_parallel = 4;
  recorder->joined({InstanceId(1), spec});
  ASSERT_TRUE(recorder->close({}));
  const auto run = journal::read_run(folder.path.string()).value();
  ASSERT_EQ(run.facts.instances.size(), 2U);
  EXPECT_EQ(run.facts.instances[1].spec.tensor_parallel, 4);
}

TEST(RunRecorder, WhatWasRecordedCanBeReadWithoutAnEnd) {
  const Folder folder;
  auto recorder = RunRecorder::open(folder.path.string(), facts(), {.checkpoint = Span::ms(1)}).value();
  recorder->ask_consumption([] {
    journal::Consumption used;
    used.energy.total = Joules(8.0);
    return used;
  });
  Outcome o;
  o.request.arrival = o.dispatched = o.prefill_start = net::steady_now();
  o.first_token = o.left = o.request.arrival + Span::ms(100);
  o.output_tokens = 1;
  recorder->outcome(o);
  // The process may be killed at any moment: what is on disk by then is all there is.
  await([&] {
    return journal::read_run(folder.path.string()).value_or(journal::RunFile{}).summary.requests.finished != 0;
  });
  const auto run = journal::read_run(folder.path.string()).value();
  EXPECT_FALSE(run.ended);
  EXPECT_EQ(run.summary.energy.total.value(), 8.0);
  EXPECT_EQ(run.facts.instances.size(), 1U);
  int rows = 0;
  journal::for_each_request(folder.text("requests.csv"), [&](const Outcome&) { ++rows; });
  EXPECT_EQ(rows, 1);
  ASSERT_TRUE(recorder->close({}));
  EXPECT_TRUE(journal::read_run(folder.path.string()).value().ended);
  EXPECT_FALSE(std::filesystem::exists(folder.path / "run.partial.json"));
}

/// Files of this process may not grow beyond `bytes` while this lives.
struct FileSizeLimit {
  rlimit before{};
  void (*handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit low{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &low);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
};

TEST(RunRecorder, AFailedWriteIsSaidWhileTheRunGoesOn) {
  const Folder folder;
  const FileSizeLimit limit(1 << 20);  // the log of this test may be a file, too
  auto recorder = RunRecorder::open(folder.path.string(), facts(), {.checkpoint = Span::ms(1)}).value();
  EXPECT_EQ(recorder->problem(), "");
  while (recorder->problem().empty()) recorder->outcome({});
  EXPECT_NE(recorder->problem().find("is incomplete (File too large)"), std::string::npos) << recorder->problem();
  EXPECT_FALSE(recorder->close({})) << "and again at the end";
}

TEST(RunRecorder, DropsAndCountsWhatDoesNotFit) {
  const Folder folder;
  RunRecorder::Options options;
  options.queue = 0;
  auto recorder = RunRecorder::open(folder.path.string(), facts(), options).value();
  recorder->decision({});
  recorder->outcome({});
  EXPECT_EQ(recorder->dropped(), 2);
  EXPECT_FALSE(RunRecorder::open("/proc/nowhere", facts()));
}

}  // namespace
}  // namespace wattle::gateway
