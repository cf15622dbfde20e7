#include "calibrate/live/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

#include "base/random.h"
#include "calibrate/live/hardware.h"
#include "calibrate/live/rate_collector.h"
#include "calibrate/live/steps.h"
#include "calibrate/live/streams.h"
#include "calibrate/live/telemetry_tap.h"
#include "net/clock.h"

namespace wattle::calibrate {

namespace {

using predict::ProfileRow;
using predict::StepKind;

constexpr Span kIdleTime = Span::ms(1200);
constexpr std::int64_t kParts = 4;       ///< measurements per decode cell, at growing KV
constexpr std::int64_t kLeastSteps = 8;  ///< in each
constexpr double kTogether = 0.9;
constexpr std::size_t kLeastPrompts = 5;
constexpr double kCached = 0.75;          ///< of a whole prompt's time: less means that its context was cached
constexpr double kShareGptSpread = 1.34;  ///< standard deviation of prompt lengths / their mean (376 / 280)

std::string describe(const Cell& cell) {
  if (cell.phase == StepKind::Decode) {
    return fmt::format("decode, {} streams, {} + {} tokens", cell.concurrency, cell.prompt_tokens, cell.output_tokens);
  }
  if (cell.rate_per_s > 0) return fmt::format("prefill, {:g} requests/s", cell.rate_per_s);
  if (cell.context_tokens > 0)
    return fmt::format("prefill, {} tokens behind {}", cell.prompt_tokens, cell.context_tokens);
  return fmt::format("prefill, {} tokens", cell.prompt_tokens);
}

/// One pass over the cells at one clock.
class Pass {
 public:
  Pass(const ProfileOptions& options, StreamLoad& load, const PowerLog* power, const TelemetryTap* tap,
       const std::atomic<bool>& stop)
      : options_(options), load_(load), power_(power), tap_(tap), stop_(stop) {}

  void idle() {
    if (power_ == nullptr) return;
    const Instant begin = net::steady_now();
    pause(kIdleTime);
    const auto drawn = power_->mean_power(begin, net::steady_now() - Span::ms(20));
    if (!drawn) return;
    idle_ = *drawn;
    add(StepKind::Idle, begin, net::steady_now(), {});
    rows.back().power = drawn;
  }

  /// Empty, or why the cell gave nothing.
  std::string visit(const Cell& cell) { return cell.phase == StepKind::Decode ? decode(cell) : prefill(cell); }

  std::vector<ProfileRow> rows;

 private:
  void add(StepKind phase, Instant begin, Instant end, ProfileRow row) {
    row.phase = phase;
    if (power_ != nullptr) row.reached = power_->median_clock(begin, end);
    rows.push_back(row);
  }

  /// Why these records are no measurement of steps; empty: they are.
  static std::string problem(const std::vector<StreamRecord>& records, bool needs_events) {
    for (const auto& r : records) {
      if (!r.failure.empty()) return r.failure;
      if (needs_events && r.completion_tokens > 0 && std::ssize(r.tokens) * 50 < r.completion_tokens * 49) {
        return fmt::format("{} tokens came in {} events, so steps cannot be distinguished; give --telemetry",
                           r.completion_tokens, r.tokens.size());
      }
    }
    return "";
  }

  std::string decode(const Cell& cell) {
    const std::vector<StreamPlan> plans(static_cast<std::size_t>(cell.concurrency),
                                        {Span(), cell.prompt_tokens, cell.output_tokens});
    const Instant sent = net::steady_now();
    const auto records = load_.run(plans, stop_);
    const Instant over = net::steady_now();
    if (stop_) return "";
    if (auto why = problem(records, tap_ == nullptr); !why.empty()) return why;
    if (tap_ != nullptr) pause(Span::ms(60));  // its last messages
    const auto run = tap_ != nullptr ? tap_->lockstep(sent, over, cell.concurrency) : find_lockstep(records);
    if (!run) return fmt::format("no step had all {} streams in it", cell.concurrency);
    if (run->together < kTogether) {
      return fmt::format("only {:.0f} % of tokens came with the others of their step", 100 * run->together);
    }
    if (std::ssize(run->at) - 1 < kLeastSteps) {
      return fmt::format("only {} steps had all {} streams in them; ask for more output", run->at.size() - 1,
                         cell.concurrency);
    }
    const auto drawn = power_ != nullptr ? power_->mean_power(run->at.front(), run->at.back()) : std::nullopt;
    for (const Stretch& s : stretches(*run, kParts, kLeastSteps)) {
      ProfileRow row;
      row.requests = run->requests;
      row.kv_tokens = s.kv_tokens;
      row.steps = s.steps;
      row.step = s.step;
      row.power = drawn;
      add(StepKind::Decode, s.begin, s.end, row);
    }
    return power_ != nullptr && !drawn ? "its power is not known: under a second, or the GPU was not read" : "";
  }

  std::string prefill(const Cell& cell) {
    // Refusals between the prompts, not before them: both suffer from whatever else this machine does.
    std::vector<Span> refusals;
    const std::int32_t whole = cell.context_tokens + cell.prompt_tokens;
    const auto refuse = [&] {
      if (const auto took = load_.refusal(whole)) refusals.push_back(*took);
    };
    refuse();  // connects
    refusals.clear();
    const StreamPlan plan{Span(), whole, 1, cell.context_tokens > 0 ? load_.context(cell.context_tokens) : nullptr};
    std::vector<StreamRecord> uncached;
    if (cell.context_tokens > 0) uncached = load_.run({&plan, 1}, stop_);
    std::vector<StreamRecord> records;
    const Instant begin = net::steady_now();
    if (cell.rate_per_s > 0) {
      for (std::size_t i = 0; i < kLeastPrompts; ++i) refuse();
      records = load_.run(arrivals(cell), stop_);
    } else {
      while (!stop_ && (records.size() < kLeastPrompts || net::steady_now() - begin < options_.prefill_time)) {
        auto one = load_.run({&plan, 1}, stop_);
        records.push_back(std::move(one.front()));
        refuse();
      }
    }
    if (stop_) return "";
    if (auto why = problem(records, tap_ == nullptr); !why.empty()) return why;
    if (cell.context_tokens > 0) {
      if (auto why = assume_cached(cell, uncached, records); !why.empty()) return why;
    }
    std::ranges::sort(refusals);
    const Span overhead = refusals.empty() ? Span() : refusals[refusals.size() / 2];
    if (tap_ != nullptr) pause(Span::ms(60));
    const auto steps = tap_ != nullptr ? tap_->prompt_steps(begin, net::steady_now()) : prompt_steps(records, overhead);
    if (steps.empty()) return "no step of prompts was seen";
    return add_prompts(begin, steps);
  }

  /// Sets how many tokens of each prompt were cached, where the engine does not report it: its context, if the cache
  /// made it faster. Empty, or that the cache did not have it.
  static std::string assume_cached(const Cell& cell, const std::vector<StreamRecord>& uncached,
                                   std::vector<StreamRecord>& records) {
    if (auto why = problem(uncached, false); !why.empty()) return why;
    std::vector<Span> times;
    for (auto& r : records) {
      if (r.tokens.empty() || uncached.front().tokens.empty()) return "an answer had no token";
      if (r.cached_tokens >= 0) {
        if (r.cached_tokens >= cell.context_tokens / kLeastContext) continue;
        return fmt::format("only {} of the {} tokens were in the engine's prefix cache", r.cached_tokens,
                           cell.context_tokens);
      }
      r.cached_tokens = cell.context_tokens / kTextBlockTokens * kTextBlockTokens;
      times.push_back(r.tokens.front() - r.sent);
    }
    if (times.empty()) return "";
    std::ranges::sort(times);
    const Span whole = uncached.front().tokens.front() - uncached.front().sent;
    if (times[times.size() / 2].seconds() < kCached * whole.seconds()) return "";
    return fmt::format("no faster than the whole prompt ({:.1f} ms): the engine has no prefix cache", whole.millis());
  }

  /// A row for each kind of step.
  std::string add_prompts(Instant begin, const std::vector<PromptStep>& steps) {
    const Instant end = steps.back().end;
    Span busy;
    for (const auto& s : steps) busy += s.end - s.begin;
    // The engine idles between prompts; that power is not counted.
    std::optional<Milliwatts> drawn;
    const auto mean = power_ != nullptr ? power_->mean_power(begin, end) : std::nullopt;
    if (mean && idle_ && busy > Span()) {
      const Int128 all =
          Int128{mean->value()} * (end - begin).ns() - Int128{idle_->value()} * (end - begin - busy).ns();
      drawn = Milliwatts(std::max<std::int64_t>(0, static_cast<std::int64_t>(all / busy.ns())));
    }
    // Steps of about as many tokens make one row; with one prompt length that is all of them.
    std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, std::vector<PromptStep>> alike;
    // A cache may hold a token or two more of one prompt than of the next.
    const auto about = [](std::int64_t tokens) { return (tokens + 32) / 64; };
    for (const auto& s : steps) alike[{s.requests, about(s.tokens), about(s.context_tokens)}].push_back(s);
    for (auto& [key, group] : alike) {
      std::ranges::sort(group, {}, [](const PromptStep& s) { return s.end - s.begin; });
      const PromptStep& middle = group[group.size() / 2];
      ProfileRow row;
      row.requests = middle.requests;
      row.prompt_tokens = middle.tokens;
      row.kv_tokens = middle.context_tokens;
      row.steps = std::ssize(group);
      row.step = middle.end - middle.begin;
      row.power = drawn;
      add(StepKind::Prefill, begin, end, row);
    }
    return power_ != nullptr && !drawn ? "its power is not known: under a second, or the GPU was not read" : "";
  }

  /// Poisson arrivals of one-token requests, lengths spread as ShareGPT's.
  [[nodiscard]] std::vector<StreamPlan> arrivals(const Cell& cell) const {
    RandomStream random(1, fmt::format("profile.rate.{}", cell.rate_per_s));
    const double sigma = std::sqrt(std::log(1.0 + kShareGptSpread * kShareGptSpread));
    const double mu = std::log(cell.prompt_tokens) - sigma * sigma / 2;
    std::vector<StreamPlan> plans;
    for (double at = 0.0; at < options_.rate_time.seconds(); at += random.exponential() / cell.rate_per_s) {
      const double tokens =
          std::clamp(std::exp(mu + sigma * random.normal()), 1.0, static_cast<double>(options_.longest_prompt));
      plans.push_back({Span::from_seconds(at), static_cast<std::int32_t>(tokens), 1});
    }
    return plans;
  }

  const ProfileOptions& options_;
  StreamLoad& load_;
  const PowerLog* power_;
  const TelemetryTap* tap_;
  const std::atomic<bool>& stop_;
  std::optional<Milliwatts> idle_;
};

/// Two cells may meet in one shape: the row that saw more steps stays.
void sort_and_merge(std::vector<ProfileRow>& rows) {
  const auto key = [](const ProfileRow& r) {
    return std::tuple(r.clock, r.phase, r.requests, r.prompt_tokens, r.kv_tokens);
  };
  std::ranges::sort(rows, [&](const ProfileRow& a, const ProfileRow& b) {
    return key(a) != key(b) ? key(a) < key(b) : a.steps > b.steps;
  });
  const auto repeated = std::ranges::unique(rows, {}, key);
  rows.erase(repeated.begin(), repeated.end());
}

/// Leaves out and reports what the engine would refuse. `context_tokens`: 0 = unknown.
void keep_within(std::int64_t context_tokens, ProfileOptions& options, std::vector<std::string>& notes) {
  if (context_tokens == 0) return;
  options.longest_prompt = std::clamp<std::int64_t>(context_tokens - 1, 1, options.longest_prompt);
  std::erase_if(options.grid.cells, [&](const Cell& cell) {
    if (std::int64_t{cell.context_tokens} + cell.prompt_tokens + cell.output_tokens <= context_tokens) return false;
    notes.push_back(
        fmt::format("{}: left out, the engine takes {} tokens of prompt and output", describe(cell), context_tokens));
    return true;
  });
}

/// Every cell at every clock.
Result<void> visit_grid(const ProfileOptions& options, StreamLoad& load, Hardware& hardware, const TelemetryTap* tap,
                        const std::atomic<bool>& stop, const std::function<void(const std::string&)>& say,
                        ProfileOutcome& outcome) {
  std::vector<MegaHertz> clocks = options.grid.clocks;
  const bool locked = !clocks.empty();
  if (!locked) clocks.push_back(options.stated_clock);
  for (std::size_t c = 0; c < clocks.size() && !stop; ++c) {
    if (locked) {
      if (auto ok = hardware.lock(clocks[c], stop); !ok) return ok;
    }
    const Instant begin = net::steady_now();
    Pass pass(options, load, hardware.power(), tap, stop);
    pass.idle();
    for (std::size_t i = 0; i < options.grid.cells.size() && !stop; ++i) {
      const Cell& cell = options.grid.cells[i];
      const std::string where =
          fmt::format("{}{}", locked ? fmt::format("{} MHz, ", clocks[c].value()) : "", describe(cell));
      say(fmt::format("[{}/{}] {}", c * options.grid.cells.size() + i + 1, clocks.size() * options.grid.cells.size(),
                      where));
      const std::size_t rows = pass.rows.size();
      std::string why = pass.visit(cell);
      // This process may have been kept from reading for longer than the whole answer took.
      if (!why.empty() && pass.rows.size() == rows && cell.phase == StepKind::Decode && !stop) why = pass.visit(cell);
      if (!why.empty()) outcome.notes.push_back(where + ": " + why);
    }
    MegaHertz clock = clocks[c];
    if (clock == MegaHertz(0)) {
      clock = hardware.power()->median_clock(begin, net::steady_now()).value_or(MegaHertz(0));
      if (clock == MegaHertz(0)) return external_failure("NVML", "shows no clock; state it with --clock-mhz");
    }
    for (ProfileRow& row : pass.rows) row.clock = clock;
    outcome.profile.rows.insert(outcome.profile.rows.end(), pass.rows.begin(), pass.rows.end());
  }
  return {};
}

/// Every cell once, at clocks drawn on the way.
Result<void> visit_rates(const ProfileOptions& options, StreamLoad& load, Hardware& hardware, const TelemetryTap* tap,
                         const std::atomic<bool>& stop, const std::function<void(const std::string&)>& say,
                         ProfileOutcome& outcome) {
  const auto& cells = options.grid.cells;
  auto clocks = options.grid.clocks.empty() ? hardware.offered() : options.grid.clocks;
  if (clocks.empty()) return bad_input("--clocks", "the driver does not report its clocks; name some");
  RateCollector collector({std::move(clocks), options.window}, load, hardware, tap, stop);
  for (std::size_t i = 0; i < cells.size() && !stop; ++i) {
    say(fmt::format("[{}/{}] {}", i + 1, cells.size(), describe(cells[i])));
    const auto why = collector.visit(cells[i]);
    if (!why) return std::unexpected(why.error());
    if (!why->empty()) outcome.notes.push_back(fmt::format("{}: {}", describe(cells[i]), *why));
  }
  outcome.profile.rows = collector.rows();
  return {};
}

}  // namespace

Result<std::int64_t> kv_capacity_tokens(const std::string& url) {
  auto load = StreamLoad::make(url, loadgen::PromptForm::TokenIds, 0);
  if (!load) return std::unexpected(load.error());
  const auto page = (*load)->page("/metrics");
  if (!page) return std::unexpected(page.error());
  const auto line = page->find("vllm:cache_config_info{");
  const std::string_view info = line == std::string::npos
                                    ? std::string_view()
                                    : std::string_view(*page).substr(line, page->find('\n', line) - line);
  const auto label = [&](std::string_view name) -> std::int64_t {
    const std::string begin = fmt::format("{}=\"", name);
    const auto at = info.find(begin);
    std::int64_t value = 0;
    if (at == std::string_view::npos) return 0;
    const auto text = info.substr(at + begin.size());
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  const std::int64_t tokens = label("num_gpu_blocks") * label("block_size");
  if (tokens <= 0) return external_failure(url + "/metrics", "does not report its KV cache's size; set --kv-tokens");
  return tokens;
}

Result<ProfileOutcome> profile_engine(const ProfileOptions& stated, const std::atomic<bool>& stop,
                                      const std::function<void(const std::string&)>& say) {
  ProfileOptions options = stated;
  auto load = StreamLoad::make(options.url, options.form, options.serial);
  if (!load) return std::unexpected(load.error());
  const auto served = (*load)->served();  // called even if the name is known, to check that an engine answers
  if (!served && (options.model.empty() || served.error().what.starts_with("no answer"))) {
    return std::unexpected(served.error());
  }
  const std::string model = options.model.empty() ? served->model : options.model;
  (*load)->use_model(model);
  const bool locked = !options.grid.clocks.empty() || options.grid.draws_clocks;
  if (options.gpus.empty() && locked) return bad_input("--clocks", "name the engine's GPUs with --gpu, too");
  if (options.gpus.empty() && options.stated_clock == MegaHertz(0)) {
    return bad_input("--gpu", "name the engine's GPUs, or state the clock it runs at with --clock-mhz");
  }
  auto hardware = Hardware::open({options.gpus, options.keeper, options.grid.clocks, locked, options.settle});
  if (!hardware) return std::unexpected(hardware.error());
  std::unique_ptr<TelemetryTap> tap;
  if (!options.telemetry.empty()) {
    auto started = TelemetryTap::start(options.telemetry);
    if (!started) return std::unexpected(started.error());
    tap = std::move(*started);
  }

  ProfileOutcome outcome;
  if (served) keep_within(served->context_tokens, options, outcome.notes);
  outcome.profile.provenance = {"engine: " + options.url, "model: " + model};
  for (const auto& fact : (*hardware)->facts()) outcome.profile.provenance.push_back(fact);
  outcome.profile.provenance.push_back(locked                 ? "clocks: locked through NVML"
                                       : options.gpus.empty() ? "clocks: stated, not measured"
                                                              : "clocks: not locked; median of what NVML showed");
  outcome.profile.provenance.push_back(tap ? "steps: from the engine's forward-pass metrics"
                                           : "steps: from token streams, less the time of a refused request");

  const auto visit = options.grid.draws_clocks ? visit_rates : visit_grid;
  const auto visited = visit(options, **load, **hardware, tap.get(), stop, say, outcome);
  outcome.stuck = (*hardware)->release();
  if (!visited) return std::unexpected(visited.error());
  outcome.interrupted = stop;
  if (stop) outcome.profile.provenance.emplace_back("interrupted: before all cells were visited");
  if (tap && tap->received() == 0) outcome.notes.emplace_back("--telemetry: nothing came from " + options.telemetry);
  sort_and_merge(outcome.profile.rows);
  return outcome;
}

}  // namespace wattle::calibrate
