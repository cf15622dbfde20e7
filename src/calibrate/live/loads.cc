#include "calibrate/live/loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "calibrate/live/hardware.h"
#include "calibrate/live/streams.h"
#include "net/clock.h"

namespace wattle::calibrate {

namespace {

constexpr Span kIdleWindow = Span::ms(1200);
constexpr std::int64_t kMostLone = 200;
constexpr std::int32_t kStreamed = 4;  ///< tokens that an engine does not send in one event, if it streams

/// The engine that is profiled. The first error ends the measurement (failure()).
class LiveBench final : public LoadBench {
 public:
  LiveBench(const LiveLoadOptions& options, StreamLoad& load, Hardware& hardware, const std::atomic<bool>& stop,
            const std::function<void(const std::string&)>& say)
      : options_(options), load_(load), hardware_(hardware), stop_(stop), say_(say) {}

  [[nodiscard]] int tp() const override { return options_.tp; }
  /// The rate of sequential requests, a lower bound: batches carry more.
  [[nodiscard]] double first_guess(const ClassRequests& of) override {
    const auto found = lone_.find({of.name, options_.search.clocks.back()});
    if (found == lone_.end()) return 1.0;
    Span sum;
    for (const StreamRecord& r : found->second) sum += r.tokens.back() - r.sent;
    return static_cast<double>(found->second.size()) / sum.seconds();
  }
  [[nodiscard]] std::optional<Watts> idle_power(MegaHertz clock) override {
    if (!at_clock(clock)) return std::nullopt;
    const Instant begin = net::steady_now();
    pause(kIdleWindow);
    return drawn(begin, net::steady_now() - Span::ms(20));
  }
  [[nodiscard]] std::optional<MeasuredLoad> lone(const ClassRequests& of, MegaHertz clock, const HeldQuantiles& held,
                                                 bool /*few*/) override {
    auto found = lone_.find({of.name, clock});
    if (found == lone_.end()) {
      if (!at_clock(clock)) return std::nullopt;
      auto records = one_by_one(of);
      if (failure()) return std::nullopt;
      found = lone_.emplace(std::pair(of.name, clock), std::move(records)).first;
    }
    return measured(of, found->second, 0, 0.0, Watts(), held);
  }
  [[nodiscard]] std::optional<MeasuredLoad> measure(const ClassRequests& of, MegaHertz clock, const HeldQuantiles& held,
                                                    double load_per_s) override {
    if (!at_clock(clock)) return std::nullopt;
    std::vector<StreamPlan> plans;
    for (const auto& row : arrivals_for(of, load_per_s)) {
      plans.push_back({row.arrival - Instant(), row.prompt_tokens, row.output_tokens});
    }
    say_(fmt::format("{} at {} MHz: {} requests, {:.3g} a second", of.name, clock.value(), plans.size(), load_per_s));
    const auto records = load_.run(plans, stop_);
    if (stop_) return fail(interrupted());
    if (std::ranges::any_of(records, [](const auto& r) { return !r.failure.empty() || r.tokens.empty(); })) {
      (void)answer_alone(of.lengths.front());  // too much for it, or is it gone?
      return std::nullopt;
    }
    const std::size_t first = records.size() / 5;
    const auto power = drawn(records[first].sent, records.back().sent);
    if (!power) return std::nullopt;
    return measured(of, records, first, load_per_s, *power, held);
  }
  [[nodiscard]] std::optional<Error> failure() const override { return failure_; }

 private:
  static Error interrupted() { return {ErrorKind::Failed, "wattle profile", "interrupted; nothing is written"}; }
  std::nullopt_t fail(Error why) {
    if (!failure_) failure_ = std::move(why);
    return std::nullopt;
  }

  /// Locks it where it is not.
  bool at_clock(MegaHertz clock) {
    if (stop_) fail(interrupted());
    if (failure_) return false;
    if (clock_ == clock) return true;
    if (auto ok = hardware_.lock(clock, stop_); !ok) fail(ok.error());
    clock_ = clock;
    return !failure_;
  }

  std::optional<Watts> drawn(Instant begin, Instant end) {
    if (const auto power = hardware_.power()->mean_power(begin, end)) return to_watts(power.value());
    return fail({ErrorKind::External, "NVML",
                 fmt::format("no mean power over {:.2f} s: it takes a second and GPUs that can be read; measure each "
                             "load longer (--load-s)",
                             (end - begin).seconds())});
  }

  /// A single request on an idle engine.
  std::optional<StreamRecord> answer_alone(std::pair<std::int32_t, std::int32_t> tokens) {
    const StreamPlan plan{Span(), tokens.first, tokens.second};
    StreamRecord record = std::move(load_.run({&plan, 1}, stop_).front());
    if (stop_) return fail(interrupted());
    if (!record.failure.empty() || record.tokens.empty()) {
      return fail({ErrorKind::External, options_.url,
                   fmt::format("does not answer a lone request of {} + {} tokens in a stream: {}", tokens.first,
                               tokens.second, record.failure.empty() ? "no token came" : record.failure)});
    }
    if (tokens.second >= kStreamed && record.tokens.size() == 1) {
      return fail({ErrorKind::External, options_.url,
                   fmt::format("sent {} tokens in one event: without a stream of them TTFT and TBT are not known",
                               tokens.second)});
    }
    return record;
  }

  /// The first request connects; its duration determines how many fit into the time.
  std::vector<StreamRecord> one_by_one(const ClassRequests& of) {
    std::vector<StreamRecord> records;
    const Instant begin = net::steady_now();
    if (!answer_alone(of.lengths.front())) return records;
    const double each = (net::steady_now() - begin).seconds();
    const auto count =
        std::clamp(static_cast<std::int64_t>(options_.load_time.seconds() / each), kLeastRequests / 2, kMostLone);
    say_(fmt::format("{} at {} MHz: {} requests, one by one", of.name, clock_.value(), count));
    for (const auto& row : arrivals_of(of, count, 1.0)) {
      auto record = answer_alone({row.prompt_tokens, row.output_tokens});
      if (!record) break;
      records.push_back(std::move(*record));
    }
    return records;
  }

  /// Enough requests for the counted ones to arrive over four fifths of the stated time: with few, their random rate
  /// could be too high.
  [[nodiscard]] std::vector<workload::TraceRow> arrivals_for(const ClassRequests& of, double load_per_s) const {
    const double wanted = load_per_s * options_.load_time.seconds();
    for (auto count = std::max(static_cast<std::int64_t>(std::ceil(wanted)), kLeastRequests);;
         count += (count + 9) / 10) {
      auto rows = arrivals_of(of, count, load_per_s);
      if (rows.back().arrival - rows[rows.size() / 5].arrival >= options_.load_time * 4 / 5) return rows;
    }
  }

  static MeasuredLoad measured(const ClassRequests& of, const std::vector<StreamRecord>& records, std::size_t first,
                               double load_per_s, Watts power, const HeldQuantiles& held) {
    LatencyTally tally(of, records[first].sent);
    for (const StreamRecord& r : records) {
      const std::int64_t tokens = std::max(r.completion_tokens, std::ssize(r.tokens));
      const auto size =
          of.held_to.sizes().of(static_cast<std::int32_t>(r.prompt_tokens), static_cast<std::int32_t>(tokens));
      const Span gap = tokens < 2 ? Span() : (r.tokens.back() - r.tokens.front()) / (tokens - 1);
      tally.add(of.held_to.of(TierId(0), size), r.sent, r.tokens.front() - r.sent, gap, r.tokens.back() - r.sent);
    }
    return tally.measured(load_per_s, power, held);
  }

  const LiveLoadOptions& options_;
  StreamLoad& load_;
  Hardware& hardware_;
  const std::atomic<bool>& stop_;
  const std::function<void(const std::string&)>& say_;
  MegaHertz clock_{0};  ///< locked
  std::optional<Error> failure_;
  std::map<std::pair<std::string, MegaHertz>, std::vector<StreamRecord>> lone_;  ///< by class and clock
};

/// Errors: requests that the engine does not take. `context_tokens`: 0 = not known.
Result<void> check_lengths(const std::vector<ClassRequests>& classes, std::int64_t context_tokens,
                           const std::string& url) {
  for (const ClassRequests& of : classes) {
    for (const auto& [prompt, output] : of.lengths) {
      if (context_tokens == 0 || std::int64_t{prompt} + output <= context_tokens) continue;
      return bad_input(url, fmt::format("takes {} tokens of prompt and output, and class {} has a request of {}; state "
                                        "workload.max_prompt_tokens or max_output_tokens",
                                        context_tokens, of.name, prompt + output));
    }
  }
  return {};
}

}  // namespace

Result<LiveLoads> profile_live_loads(const std::vector<ClassRequests>& classes, const LiveLoadOptions& stated,
                                     const std::atomic<bool>& stop,
                                     const std::function<void(const std::string&)>& say) {
  LiveLoadOptions options = stated;
  if (options.gpus.empty()) return bad_input("--gpu", "name the engine's GPUs: loads are profiled with their power");
  const int gpus = static_cast<int>(options.gpus.size());
  if (options.tp == 0) options.tp = gpus;
  if (options.tp != gpus) {
    return bad_input("--tp", fmt::format("is {}, and --gpu names {}: a table has instances of one GPU per rank of "
                                         "tensor parallelism",
                                         options.tp, gpus));
  }
  options.search.least_load = static_cast<double>(kLeastRequests) / (4.0 * options.load_time.seconds());
  auto load = StreamLoad::make(options.url, options.form, options.serial);
  if (!load) return std::unexpected(load.error());
  const auto served = (*load)->served();
  if (!served && (options.model.empty() || served.error().what.starts_with("no answer"))) {
    return std::unexpected(served.error());
  }
  const std::string model = options.model.empty() ? served->model : options.model;
  (*load)->use_model(model);
  if (auto ok = check_lengths(classes, served ? served->context_tokens : 0, options.url); !ok) {
    return std::unexpected(ok.error());
  }
  auto hardware = Hardware::open({options.gpus, options.keeper, options.search.clocks, true, options.settle});
  if (!hardware) return std::unexpected(hardware.error());

  LiveLoads made;
  auto& lines = made.table.provenance;
  lines = {"made by: wattle profile, of a live engine", "engine: " + options.url, "model: " + model};
  for (const auto& fact : (*hardware)->facts()) lines.push_back("NVML " + fact);  // "gpu: " is the table's own
  lines.push_back(
      fmt::format("latencies: p{:g} of about {:g} s a load, at least {} requests, the most load within {:g} %",
                  options.search.quantile * 100, options.load_time.seconds(), kLeastRequests,
                  (options.search.tolerance - 1) * 100));
  LiveBench bench(options, **load, **hardware, stop, say);
  LoadBench* const benches[] = {&bench};
  const auto done = search_loads(made.table, benches, classes, options.search, say);
  made.stuck = (*hardware)->release();
  if (!done) return std::unexpected(done.error());
  return made;
}

}  // namespace wattle::calibrate
