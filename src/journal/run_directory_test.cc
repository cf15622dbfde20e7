#include "journal/run_directory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/random.h"
#include "journal/chrome_trace.h"
#include "journal/decimal.h"
#include "journal/decisions_jsonl.h"
#include "journal/output_file.h"
#include "journal/requests_csv.h"
#include "journal/requests_reader_test.h"
#include "journal/statistics.h"
#include "journal/summary_json.h"
#include "journal/timeseries_csv.h"

namespace wattle::journal {
namespace {

namespace fs = std::filesystem;

class RunDirectory : public testing::Test {
 protected:
  RunDirectory()
      : directory_(fs::path(testing::TempDir()) / (std::string("wattle_run_") + std::to_string(::getpid()) + "_" +
                                                   testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~RunDirectory() override { fs::remove_all(directory_); }
  [[nodiscard]] std::string path(const char* name) const { return (directory_ / name).string(); }
  [[nodiscard]] std::string text(const char* name) const {
    auto read = read_file(path(name));
    EXPECT_TRUE(read) << name;
    return read.value_or("");
  }

  fs::path directory_;
};

RunFacts facts() {
  RunFacts f;
  f.scenario = "two \"pools\", <one> & more\n";
  f.recipe = "eco-freq";
  f.driver = "sim";
  f.seed = 0xffff'ffff'ffff'fff1;
  f.slo.ttft = Span::ms(600);
  f.slo.itl = Span(60'000'001);
  f.instances.resize(2);
  f.instances[0].spec.role = Role::Prefill;
  f.instances[1].id = InstanceId(1);
  f.instances[1].spec.role = Role::Decode;
  f.instances[1].spec.tensor_parallel = 2;
  f.instances[1].spec.pool = PoolId(3);
  f.sites = {{"north", "average, electricity-maps DE", "marginal, watttime X"}};
  return f;
}

struct Records {
  std::vector<Outcome> outcomes;
  std::vector<Sample> samples;
  std::vector<Stretch> stretches;
  std::vector<DecisionRecord> decisions;
};

Records records() {
  Records r;
  RandomStream random(3, "records");
  constexpr const char* kReasons[] = {"", "stop", "queue full, 12 ahead", "said \"no\"", "d\xC3\xA9j\xC3\xA0 vu"};
  for (int i = 0; i < 200; ++i) {
    Outcome o;
    o.request.id = RequestId(i);
    o.request.arrival = Instant(static_cast<std::int64_t>(random.below(1'000'000'000'000)));
    o.request.prompt_tokens = static_cast<std::int32_t>(random.below(8000));
    o.request.max_tokens = static_cast<std::int32_t>(random.below(8000));
    o.request.predicted_output_tokens = static_cast<std::int32_t>(random.below(800));
    o.request.tenant = TenantId(static_cast<std::int32_t>(random.below(5)));
    o.fate = static_cast<Fate>(random.below(4));
    o.reason = kReasons[random.below(5)];
    o.dispatched = o.request.arrival + Span(static_cast<std::int64_t>(random.below(1000)));
    o.prefill_start = o.dispatched + Span(1);
    if (random.below(4) > 0) o.first_token = o.prefill_start + Span(123'456'789);
    o.left = o.request.arrival + Span::s(4);
    o.output_tokens = static_cast<std::int32_t>(random.below(500));
    o.preemptions = static_cast<std::int32_t>(random.below(3));
    if (random.below(2) > 0) o.prefill_instance = InstanceId(0);
    if (random.below(2) > 0) o.decode_instance = InstanceId(1);
    o.energy = Picojoules(static_cast<std::int64_t>(random.below(1ULL << 62)));
    o.carbon = GramsCo2(static_cast<double>(random.below(1'000'000'000)) * 1e-9);
    o.cost = Usd(i % 5 == 2 ? std::nan("") : static_cast<double>(random.below(1'000'000'000)) * 1e-12);
    o.metered = i % 7 != 3;
    o.gaps_within_itl = static_cast<std::int64_t>(random.below(500));
    o.cached_prompt_tokens = i % 3 == 0 ? i : 0;
    r.outcomes.push_back(o);
    Sample s;
    s.at = Instant(i * 500'000'001LL);
    s.instance = InstanceId(i % 2);
    s.power = Milliwatts(static_cast<std::int64_t>(random.below(400'000)));
    s.clock = MegaHertz(1005);
    s.decode_requests = i;
    s.prefill_tokens = 17;
    s.waiting_requests = 3;
    s.kv_tokens = 12345678901;
    r.samples.push_back(s);
    Stretch stretch;
    stretch.instance = InstanceId(i % 2);
    stretch.begin = Instant(i * 77'777'777LL);
    stretch.end = stretch.begin + Span(20'000'003);
    stretch.shape.decode_requests = i;
    stretch.shape.decode_kv_tokens = i * 100;
    stretch.shape.prefill_tokens = i % 3;
    stretch.shape.prefill_requests = i % 3;
    stretch.shape.prefill_context_tokens = i * 7;
    stretch.steps = i + 1;
    stretch.clock = MegaHertz(1410);
    r.stretches.push_back(stretch);

    DecisionRecord d;
    d.at = Instant(i * 1'000'003LL);
    d.kind = static_cast<DecisionKind>(random.below(5));
    d.mode = static_cast<Mode>(random.below(3));
    d.request = RequestId(i - 1);
    d.instance = InstanceId(i % 3 - 1);
    d.value = i == 0 ? INT64_MIN : 1410;
    d.reason = kReasons[random.below(5)];
    r.decisions.push_back(d);
  }
  return r;
}

void feed(Sink& sink, const Records& r) {
  for (const auto& d : r.decisions) sink.decision(d);
  for (const auto& o : r.outcomes) sink.outcome(o);
  for (const auto& s : r.samples) sink.sample(s);
  for (const auto& s : r.stretches) sink.stretch(s);
}

RunSummary a_summary() {
  RunSummary s;
  s.recipe = "eco-freq";
  s.requests.arrived = 7;
  s.energy.total = Joules(12.5);
  s.slo = s.slo.of_stated(facts().slo);
  return s;
}

TEST_F(RunDirectory, EverythingWrittenIsReadBack) {
  const Records in = records();
  auto writer = RunWriter::open(directory_.string(), facts());
  ASSERT_TRUE(writer) << writer.error().message();
  feed(**writer, in);
  RunCurves curves;
  curves.itl = {{1.0, 0.5}, {2.5, 1.0}};
  ASSERT_TRUE((*writer)->close(a_summary(), curves));
  const auto run = read_run(directory_.string());
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->facts.scenario, facts().scenario);
  EXPECT_EQ(run->facts.seed, facts().seed);
  EXPECT_EQ(run->facts.slo.ttft, facts().slo.ttft);
  EXPECT_EQ(run->facts.slo.itl, facts().slo.itl);
  EXPECT_FALSE(run->facts.slo.e2e);
  ASSERT_EQ(run->facts.instances.size(), 2U);
  EXPECT_EQ(run->facts.instances[1].spec.role, Role::Decode);
  EXPECT_EQ(run->facts.instances[1].spec.tensor_parallel, 2);
  EXPECT_EQ(run->facts.instances[1].spec.pool, PoolId(3));
  ASSERT_EQ(run->facts.sites.size(), 1U);
  EXPECT_EQ(run->facts.sites[0].books, "average, electricity-maps DE");
  EXPECT_EQ(run->facts.sites[0].decisions, "marginal, watttime X");
  EXPECT_EQ(run->curves.itl, curves.itl);
  EXPECT_EQ(to_json(run->summary), to_json(a_summary()));
  EXPECT_TRUE(run->files.trace);

  // Rows are compared through their own text: equal text from a re-read row means nothing was lost.
  std::string again;
  std::size_t n = 0;
  for_each_request(text("requests.csv"), [&](const Outcome& o) {
    const Outcome& want = in.outcomes[n++];
    EXPECT_EQ(o.metered, want.metered);
    EXPECT_EQ(o.energy, want.metered ? want.energy : Picojoules()) << "unknown energy is written as nothing";
    EXPECT_EQ(std::isnan(o.cost.value()), std::isnan(want.cost.value()));
    EXPECT_STREQ(o.reason, want.reason);
    EXPECT_EQ(o.first_token, want.first_token);
    EXPECT_EQ(o.decode_instance, want.decode_instance);
    append_request_row(again, o);
  });
  EXPECT_EQ(std::string(requests_csv_header()) + again, text("requests.csv"));
  EXPECT_EQ(n, in.outcomes.size());

  again = timeseries_csv_header();
  ASSERT_TRUE(parse_timeseries(text("timeseries.csv"), "t", [&](const Sample& s) { append_sample_row(again, s); }));
  EXPECT_EQ(again, text("timeseries.csv"));

  again.clear();
  ASSERT_TRUE(
      parse_decisions(text("decisions.jsonl"), "d", [&](const DecisionRecord& d) { append_decision_line(again, d); }));
  EXPECT_EQ(again, text("decisions.jsonl"));

  n = 0;
  ASSERT_TRUE(parse_trace(text("trace.json"), "c", [&](const Stretch& s) {
    const Stretch& want = in.stretches[n++];
    EXPECT_EQ(s.begin, want.begin);
    EXPECT_EQ(s.end, want.end);
    EXPECT_EQ(s.shape, want.shape);
    EXPECT_EQ(s.steps, want.steps);
  }));
  EXPECT_EQ(n, in.stretches.size());
}

TEST_F(RunDirectory, TheTraceIsWhatViewersExpect) {
  auto writer = RunWriter::open(directory_.string(), facts());
  ASSERT_TRUE(writer);
  feed(**writer, records());
  ASSERT_TRUE((*writer)->close(a_summary(), {}));
  const auto trace = nlohmann::json::parse(text("trace.json"));
  std::size_t slices = 0;
  std::size_t counters = 0;
  std::size_t names = 0;
  for (const auto& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    slices += phase == "X" ? 1U : 0U;
    counters += phase == "C" ? 1U : 0U;
    names += phase == "M" && event["name"] == "process_name" ? 1U : 0U;
    if (phase == "X") {
      EXPECT_TRUE(event["dur"].is_number() && event["ts"].is_number() && event.contains("tid"));
    }
  }
  EXPECT_EQ(slices, 200U);
  EXPECT_EQ(counters, 600U);
  EXPECT_EQ(names, 2U);
}

TEST_F(RunDirectory, FilesNotWantedAreNotThere) {
  fs::create_directories(directory_);
  ASSERT_TRUE(write_file(path("trace.json"), "left over from an older run"));
  auto writer = RunWriter::open(directory_.string(), facts(), {.decisions = false, .trace = false});
  ASSERT_TRUE(writer);
  feed(**writer, records());
  EXPECT_FALSE(fs::exists(path("run.json"))) << "an unfinished run must not look finished";
  ASSERT_TRUE((*writer)->close(a_summary(), {}));
  EXPECT_TRUE(fs::exists(path("run.json")));
  EXPECT_FALSE(fs::exists(path("trace.json")));
  EXPECT_FALSE(fs::exists(path("decisions.jsonl")));
  EXPECT_FALSE(read_run(directory_.string())->files.trace);
}

TEST_F(RunDirectory, AnUnusableDirectoryIsAnOutsideFailure) {
  ASSERT_TRUE(write_file(directory_.string(), "a file where the directory should be"));
  const auto writer = RunWriter::open(directory_.string(), facts());
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().kind, ErrorKind::External);
  EXPECT_EQ(writer.error().where, directory_.string());
}

TEST(OutputFile, AFullDiskIsReportedAtClose) {
  auto file = OutputFile::create("/dev/full");
  if (!file) GTEST_SKIP() << "no /dev/full here";
  for (int i = 0; i < 3; ++i) {
    file->buffer().append(100'000, 'x');
    file->written();
    EXPECT_TRUE(file->buffer().empty()) << "memory stays bounded after an error";
  }
  const auto closed = file->close();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().kind, ErrorKind::External);
  EXPECT_NE(closed.error().what.find("No space left"), std::string::npos) << closed.error().what;
}

TEST_F(RunDirectory, MissingAndTruncatedRunsSayWhatIsWrong) {
  EXPECT_EQ(read_run(directory_.string()).error().message(),
            directory_.string() + ": no such directory; give one written by `wattle sim --out`");
  fs::create_directories(directory_);
  EXPECT_EQ(read_run(directory_.string()).error().message(),
            path("run.json") + ": missing: the directory is not a run, or the run did not end");

  const std::string whole = run_json({facts(), {}, a_summary(), {}});
  ASSERT_TRUE(parse_run(whole, "run.json"));
  EXPECT_EQ(parse_run("{\n \"format\": \"wattle-run\",\n \"ver", "run.json").error().message(),
            "run.json:3: the JSON is cut off here; write the run again");
  EXPECT_EQ(parse_run("{\n \"format\": oops", "run.json").error().where, "run.json:2");
  EXPECT_EQ(parse_run("{}", "run.json").error().what,
            "key format must be \"wattle-run\": is this a run directory's run.json?");
  for (std::size_t cut = 0; cut + 2 < whole.size(); cut += 41) {
    const auto read = parse_run(std::string_view(whole).substr(0, cut), "run.json");
    ASSERT_FALSE(read) << cut;
    EXPECT_EQ(read.error().kind, ErrorKind::BadInput);
    EXPECT_TRUE(read.error().where.starts_with("run.json:")) << read.error().where;
  }
}

TEST_F(RunDirectory, WrongKeysOfRunJsonAreNamed) {
  const auto json = nlohmann::ordered_json::parse(run_json({facts(), {}, a_summary(), {}}));
  const auto problem = [](const nlohmann::ordered_json& j) {
    const auto read = parse_run(j.dump(), "run.json");
    return read ? std::string("accepted") : read.error().message();
  };
  auto changed = json;
  changed["version"] = 2;
  EXPECT_EQ(problem(changed), "run.json: key version must be 1; write the run again with this wattle");
  changed = json;
  changed["facts"]["slo"]["ttft_ms"] = 0;
  EXPECT_EQ(problem(changed), "run.json: key facts.slo.ttft_ms must be milliseconds in (0, 1e12]");
  changed = json;
  changed["facts"]["instances"][1]["role"] = "decoder";
  EXPECT_EQ(problem(changed), "run.json: key facts.instances[1].role must be colocated, prefill or decode");
  changed = json;
  changed["facts"].erase("seed");
  EXPECT_EQ(problem(changed), "run.json: key facts.seed is missing");
  changed = json;
  changed["curves"]["ttft_ms"] = {{2.0, 0.5}, {1.0, 1.0}};
  EXPECT_EQ(problem(changed), "run.json: key curves.ttft_ms must be an array of ascending [milliseconds, share] pairs");
  changed = json;
  changed.erase("summary");
  EXPECT_EQ(problem(changed), "run.json: key summary is missing");
  changed = json;
  changed["note"] = "added by hand";
  EXPECT_EQ(problem(changed), "accepted");
}

std::string timeseries_problem(const std::string& text) {
  const auto read = parse_timeseries(text, "timeseries.csv", [](const Sample&) {});
  return read ? "accepted" : read.error().message();
}

TEST(Timeseries, BadCellsNameFileLineAndRemedy) {
  const std::string header(timeseries_csv_header());
  EXPECT_EQ(timeseries_problem(header + "1.5,0,300.125,1410,4,0,0,1\n1,1,3,1,4,0,0,1\n"), "accepted");
  EXPECT_EQ(timeseries_problem(header + "1.5,0,300,1410,4,0,0,100\n2.5,0,hot,1410,4,0,0,100\n"),
            "timeseries.csv:3: power_w is 'hot'; give watts >= 0 such as 312.5");
  EXPECT_EQ(timeseries_problem(header + "2,0,300,1410,4,0,0,100\n1,0,300,1410,4,0,0,100\n"),
            "timeseries.csv:3: time_s is '1'; an instance's rows must be in time order; sort the file by time_s");
  const std::string clock = timeseries_problem(header + "2,0,300,nan,4,0,0,100\n");
  EXPECT_TRUE(clock.starts_with("timeseries.csv:2: clock_mhz is 'nan'")) << clock;
  const std::string missing = timeseries_problem("time_s,instance_id,power_w\n");
  EXPECT_TRUE(missing.starts_with("timeseries.csv:1: ")) << missing;
  EXPECT_NE(missing.find("clock_mhz"), std::string::npos) << missing;
  // Columns by name, in any order, unknown ones ignored.
  EXPECT_EQ(
      timeseries_problem("note,kv_tokens,waiting_requests,prefill_tokens,decode_requests,clock_mhz,power_w,instance_id,"
                         "time_s\nhello,1,2,3,4,5,6,7,8\n"),
      "accepted");
}

TEST(Decisions, BadLinesNameFileLineAndKey) {
  const auto problem = [](const std::string& text) {
    const auto read = parse_decisions(text, "decisions.jsonl", [](const DecisionRecord&) {});
    return read ? std::string("accepted") : read.error().message();
  };
  std::string line;
  append_decision_line(line, {});
  EXPECT_EQ(problem(line + "\n" + line), "accepted");
  EXPECT_EQ(problem(line + line.substr(0, 20)), "decisions.jsonl:2: each line must be one complete JSON object");
  std::string bad = line;
  bad.replace(bad.find("enforce"), 7, "enforced");
  EXPECT_EQ(problem(bad), "decisions.jsonl:1: key mode must be enforce, shadow or off");
  bad = line;
  bad.replace(bad.find("\"at_ns\":0"), 9, "\"at_ns\":1.5");
  EXPECT_TRUE(problem(bad).starts_with("decisions.jsonl:1: key at_ns must be a whole number")) << problem(bad);
}

TEST(JsonText, EscapesAndRepairs) {
  const auto quoted = [](std::string_view s) {
    std::string out;
    append_json_text(out, s);
    return out;
  };
  EXPECT_EQ(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(quoted("\xC3\xA9"), "\"\xC3\xA9\"");
  EXPECT_EQ(quoted("\xC3"), "\"\xEF\xBF\xBD\"");
}

RC_GTEST_PROP(JsonText, AnyBytesBecomeAValidString, (const std::string& bytes)) {
  std::string out;
  append_json_text(out, bytes);
  RC_ASSERT(nlohmann::json::parse(out, nullptr, false).is_string());
}

RC_GTEST_PROP(Decimal, RoundTrips, ()) {
  const auto high = *rc::gen::arbitrary<std::int64_t>();
  const auto low = *rc::gen::arbitrary<std::int64_t>();
  const auto shift = *rc::gen::inRange(0, 60);
  const int decimals = *rc::gen::inRange(1, 19);
  const Int128 value = ((Int128{high} << 34) ^ low) >> shift;
  std::string text;
  append_decimal(text, value, decimals);
  const auto back = parse_decimal(text, decimals);
  RC_ASSERT(back.has_value());
  RC_ASSERT(static_cast<bool>(*back == value));
}

TEST(Decimal, KnownValues) {
  const auto text = [](Int128 v, int d) {
    std::string out;
    append_decimal(out, v, d);
    return out;
  };
  EXPECT_EQ(text(-5, 3), "-0.005");
  EXPECT_EQ(text(1'500'000'000, 9), "1.500000000");
  EXPECT_EQ(text(Int128{1'000'000'000'000'000'000} * 1'000'000'000, 3), "1000000000000000000000000.000");
  EXPECT_TRUE(parse_decimal("0.1236", 3) == Int128{124});
  EXPECT_TRUE(parse_decimal("-7", 1) == Int128{-70});
  EXPECT_TRUE(parse_decimal(".5", 1) == Int128{5});
  for (const char* bad : {"", "-", ".", "1e3", "1.2.3", " 1", "nan", "1,5", "99999999999999999999999999999999999"}) {
    EXPECT_FALSE(parse_decimal(bad, 3)) << bad;
  }
}

/// One to four edits: a byte changed, a stretch cut out, a stretch doubled, the end cut off.
std::string mutate(std::string text, RandomStream& random) {
  constexpr std::string_view kBytes = "0123456789-+.eE,\"\\{}[]:\n\r\t \xC3\xFFnul";
  for (std::uint64_t edits = 1 + random.below(4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = random.below(text.size());
    const std::size_t n = std::min<std::size_t>(1 + random.below(30), text.size() - at);
    switch (random.below(4)) {
      case 0:
        text[at] = kBytes[random.below(kBytes.size())];
        break;
      case 1:
        text.erase(at, n);
        break;
      case 2:
        text.insert(at, text.substr(at, n));
        break;
      default:
        if (random.below(4) == 0) text.resize(at);
        break;
    }
  }
  return text;
}

TEST(Readers, MutatedFilesAreReadOrRefusedWithAPlace) {
  Records r = records();
  r.outcomes.resize(4);
  r.samples.resize(4);
  r.stretches.resize(4);
  r.decisions.resize(4);
  std::string timeseries(timeseries_csv_header());
  std::string decisions;
  std::string trace;
  for (const auto& s : r.samples) append_sample_row(timeseries, s);
  for (const auto& d : r.decisions) append_decision_line(decisions, d);
  append_trace_begin(trace, facts());
  for (const auto& s : r.stretches) append_trace_stretch(trace, s);
  append_trace_end(trace);
  RunCurves curves;
  curves.ttft = {{1, 0.5}, {2, 1}};
  const std::string run = run_json({facts(), {}, a_summary(), curves});

  RandomStream random(11, "mutations");
  int refused = 0;
  const auto check = [&](const auto& result, const std::string& text) {
    if (result) return;
    ++refused;
    ASSERT_EQ(result.error().kind, ErrorKind::BadInput) << text;
    ASSERT_TRUE(result.error().where.starts_with("F")) << result.error().where << "\n" << text;
    ASSERT_FALSE(result.error().what.empty()) << text;
  };
  constexpr int kRounds = 1500;
  for (int i = 0; i < kRounds; ++i) {
    std::string text = mutate(run, random);
    check(parse_run(text, "F"), text);
    check(parse_timeseries(text = mutate(timeseries, random), "F", [](const Sample&) {}), text);
    check(parse_decisions(text = mutate(decisions, random), "F", [](const DecisionRecord&) {}), text);
    check(parse_trace(text = mutate(trace, random), "F", [](const Stretch&) {}), text);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refused, kRounds) << "the mutations hardly broke anything";
  EXPECT_LT(refused, 4 * kRounds) << "nothing was accepted: is the unmutated text valid at all?";
}

}  // namespace
}  // namespace wattle::journal
