#include "policy/throttllem/throttllem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

namespace {

/// Enough for the largest batches in use; more only costs an allocation.
constexpr std::size_t kReservedRequests = 1024;

std::int64_t prompts_to_compute(const Scoreboard& board, std::int32_t& requests) {
  std::int64_t tokens = 0;
  for (const auto& p : board.requests()) {
    if (p.start != board.next()) continue;
    tokens += p.prompt_tokens;
    ++requests;
  }
  return tokens;
}

std::int64_t capacity_blocks(const InstanceSpec& spec) {
  return spec.kv_capacity_tokens > 0 ? spec.kv_capacity_tokens / spec.kv_block_tokens
                                     : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

Throttllem::Throttllem(const ThrottllemOptions& options, ThrottllemClockOptions clock,
                       std::shared_ptr<const LengthModel> length)
    : options_(options), clock_(std::move(clock)), length_(std::move(length)) {
  WATTLE_CHECK(options_.margin >= 0.0 && options_.margin < 1.0, "throttLL'eM's margin is a share below 1");
  WATTLE_CHECK(options_.inflation >= 0.0, "throttLL'eM's inflation is not negative");
  WATTLE_CHECK(clock_.margin >= 0.0 && clock_.margin < 1.0, "throttLL'eM's clock margin is a share below 1");
}

// --- the instances ---

Throttllem::Instance* Throttllem::find(InstanceId id) {
  const auto found = instances_.find(id);
  return found == instances_.end() ? nullptr : &found->second;
}

const Scoreboard* Throttllem::board(InstanceId id) const {
  const auto found = instances_.find(id);
  return found == instances_.end() ? nullptr : &found->second.board;
}

void Throttllem::observe(const Event& event, Instant now) {
  if (const auto* joined = std::get_if<event::Joined>(&event)) {
    this->joined(joined->instance);
  } else if (const auto* gone = std::get_if<event::Gone>(&event)) {
    instances_.erase(gone->instance.id);
  } else if (const auto* started = std::get_if<event::Started>(&event)) {
    this->started(started->request, started->instance, now);
  } else if (const auto* token = std::get_if<event::FirstToken>(&event)) {
    auto* instance = find(token->instance.id);
    if (instance == nullptr) return;
    instance->board.advance(token->instance.step.sequence + 1);
    instance->board.restart(token->request.id, token->instance.step.sequence);
  } else if (const auto* left = std::get_if<event::Left>(&event)) {
    this->left(left->outcome);
  }
}

void Throttllem::joined(const InstanceView& view) {
  const InstanceSpec& spec = *view.spec;
  if (spec.role != Role::Colocated) return;
  Instance made{.spec = &spec, .board = Scoreboard(spec.kv_block_tokens, options_.grace)};
  made.board.reserve(kReservedRequests);
  made.forecaster.reserve(kReservedRequests);
  made.clocks = clocks_to_choose(clock_.clocks, clock_.lowest_clock, spec);
  WATTLE_CHECK(!made.clocks.empty() && std::ranges::is_sorted(made.clocks), "throttLL'eM's clocks ascend");
  made.tbt = reserve(spec.slo.tbt, options_.margin);
  made.e2e = reserve(spec.slo.e2e, options_.margin);
  if (spec.slo.e2e) made.reserve = Span::from_seconds(spec.slo.e2e->seconds() * clock_.margin);
  if (spec.slo.tbt) made.clock_tbt = Span::from_seconds(made.tbt.seconds() * (1.0 - clock_.margin));
  made.current = {made.clocks.back(), "no request yet: maximum", Hold::forever()};
  instances_.insert_or_assign(view.id, std::move(made));
}

// --- admission ---

/// The projection begins at the end of the step in progress; if telemetry is older than that, now.
ForecastBasis Throttllem::between_steps(const Instance& instance, const InstanceView& view, Instant now) const {
  ForecastBasis basis;
  basis.begin = now;
  basis.tbt = instance.tbt;
  if (!view.step.shape.idle()) {
    const Span step = instance.latency()->step_time(view.step.shape, instance.clocks.back());
    basis.begin = std::max(now, view.step.start + step);
  }
  if (!options_.count_prefill) return basis;
  basis.prefill_requests = view.step.waiting_requests;
  basis.prefill_tokens = prompts_to_compute(instance.board, basis.prefill_requests) + view.step.waiting_prompt_tokens;
  return basis;
}

Projected Throttllem::project(const Instance& instance, const Request& request) const {
  const InstanceSpec& spec = *instance.spec;
  Projected p;
  p.id = request.id;
  p.start = instance.board.next();
  p.prompt_tokens = std::max(request.prompt_tokens, 0);
  // It cannot grow beyond the cache either.
  std::int64_t limit = std::max(request.max_tokens, 1);
  if (spec.kv_capacity_tokens > 0) {
    const std::int64_t held = capacity_blocks(spec) * spec.kv_block_tokens;
    limit = std::clamp<std::int64_t>(held - p.prompt_tokens + 1, 1, limit);
  }
  p.limit_tokens = static_cast<std::int32_t>(limit);
  const double wanted = std::ceil(request.predicted_output_tokens * (1.0 + options_.inflation));
  const bool predicted = request.predicted_output_tokens > 0 && wanted < static_cast<double>(limit);
  p.predicted_tokens = predicted ? static_cast<std::int32_t>(wanted) : p.limit_tokens;
  if (options_.outlived == Outlived::Residual && length_ && predicted) {
    p.second_tokens = length_->expected_tokens(request, p.predicted_tokens + options_.grace);
  }
  p.deadline = instance.deadline(request);
  return p;
}

Throttllem::Verdict Throttllem::examine(Instance& instance, const InstanceView& view, const Request& request,
                                        Instant now) {
  auto& board = instance.board;
  const LatencyModel* latency = instance.latency();
  const std::int64_t capacity = capacity_blocks(*instance.spec);
  const std::int64_t block_size = instance.spec->kv_block_tokens;
  if ((request.prompt_tokens + block_size - 1) / block_size > capacity) {
    return {Admission::Reject, "the prompt can never fit in the KV cache", false};
  }
  board.advance(view.step.sequence + 1);
  const bool alone = board.empty();
  board.add_virtually(project(instance, request));
  Verdict verdict{Admission::Admit, "all objectives hold at the highest clock", false};
  if (board.peak_blocks() > capacity && !alone) {
    verdict = {Admission::Hold, "the KV cache would overflow", false};
  } else if (latency == nullptr) {
    verdict.reason = "no latency predictor: KV alone";
  } else {
    auto basis = between_steps(instance, view, now);
    basis.own_deadline = request.id;
    auto& forecaster = instance.forecaster;
    forecaster.read(board, basis);
    Forecast f = forecaster.at(*latency, instance.clocks.back());
    if (f.obstacle == Obstacle::Deadline) {
      // A request would be late. Requests that are late without the newcomer, too, are lost and do not count.
      const Projected newcomer = project(instance, request);
      board.roll_back();
      forecaster.read(board, between_steps(instance, view, now));
      const auto hopeless = forecaster.give_up_hopeless(board, *latency, instance.clocks.back());
      board.add_virtually(newcomer);
      if (hopeless > 0) {
        ++instance.admissions;
        forecaster.read(board, basis);
        f = forecaster.at(*latency, instance.clocks.back());
      }
    }
    if (f.obstacle == Obstacle::Disbelieved) {
      verdict.reason = "predictor out of range: KV alone";
    } else if (f.obstacle != Obstacle::None && !alone) {
      verdict = f.obstacle == Obstacle::Tbt ? Verdict{Admission::Hold, "the mean iteration would be too long", false}
                                            : Verdict{Admission::Hold, "a running request would end too late", false};
    } else if (f.obstacle != Obstacle::None || f.own_deadline_missed) {
      verdict = {Admission::Admit, "lost: misses its own objective, delays nobody", true};
    }
  }
  board.roll_back();
  return verdict;
}

AdmissionDecision Throttllem::admit(const Request& request, const FleetSnapshot& fleet) {
  order_.clear();
  bool any = false;
  for (const auto& view : fleet.instances) {
    if (view.spec->role != Role::Colocated) continue;
    any = true;
    if (view.accepting && find(view.id) != nullptr) order_.push_back(&view);
  }
  if (!any) return {Admission::Reject, "no instance runs under throttLL'eM"};
  if (order_.empty()) return {Admission::Hold, "no instance accepts requests"};
  std::ranges::stable_sort(order_, {}, &InstanceView::assigned_requests);
  std::optional<AdmissionDecision> answer;
  for (const auto* view : order_) {
    auto& instance = *find(view->id);
    const Verdict verdict = examine(instance, *view, request, fleet.now);
    const bool holding = verdict.admission == Admission::Hold;
    if (holding != instance.holding) ++instance.turns;
    instance.holding = holding;
    if (verdict.admission == Admission::Admit) {
      admitted_ = request.id;
      admitted_at_ = view->id;
      admitted_lost_ = verdict.lost;
      return {Admission::Admit, verdict.reason, view->id};
    }
    // Reject only if every instance rejects; otherwise the first reason to hold.
    if (!answer || (answer->verdict == Admission::Reject && verdict.admission == Admission::Hold)) {
      answer = AdmissionDecision{verdict.admission, verdict.reason};
    }
  }
  return *answer;
}

void Throttllem::started(const Request& request, const InstanceView& view, Instant now) {
  auto* instance = find(view.id);
  if (instance == nullptr || instance->board.contains(request.id)) return;
  const bool examined = admitted_ == request.id && admitted_at_ == view.id;
  const bool lost = examined ? admitted_lost_ : examine(*instance, view, request, now).lost;
  instance->board.advance(view.step.sequence + 1);
  Projected p = project(*instance, request);
  p.lost = lost;
  instance->board.add(p);
  ++instance->admissions;
}

void Throttllem::left(const Outcome& outcome) {
  for (auto& [id, instance] : instances_) {
    const auto lost = instance.board.lost();
    if (!instance.board.remove(outcome.request.id)) continue;
    if (lost > 0 && instance.board.lost() == 0) ++instance.admissions;
    return;
  }
}

// --- clock ---

ClockDecision Throttllem::choose(const InstanceView& view, Instant now) {
  auto* found = find(view.id);
  if (found == nullptr) return {view.spec->gpu.clock_max, "not of the fleet: maximum", Hold{}};
  Instance& instance = *found;
  if (view.telemetry == Telemetry::Lost) {
    instance.decided_for = -1;
    return {instance.clocks.back(), "telemetry lost: maximum", Hold{}};
  }
  if (has_no_work(view)) {
    if (!clock_.park_idle) return {instance.current.clock, "idle: clock kept", Hold::forever()};
    instance.decided_for = -1;
    return {clock_.idle_clock.on(*instance.spec), "idle", Hold::forever()};
  }
  // The step that now starts is the first of the projection.
  instance.board.advance(view.step.sequence);
  const std::int64_t calls = instance.admissions + (clock_.max_while_held ? instance.turns : 0);
  if (clock_.on_leave || instance.decided_for != calls) {
    instance.decided_for = calls;
    choose_again(instance, view, now);
  }
  return instance.current;
}

void Throttllem::choose_again(Instance& instance, const InstanceView& view, Instant now) {
  auto& board = instance.board;
  auto& current = instance.current;
  const LatencyModel* latency = instance.latency();
  current = {instance.clocks.back(), "", Hold::forever()};
  if (board.lost() > 0) {
    current.reason = "a lost request runs: maximum";
  } else if (clock_.max_while_held && instance.holding) {
    current.reason = "requests are held: maximum";
  } else if (latency == nullptr) {
    current.reason = "no latency predictor: maximum";
  } else {
    ForecastBasis basis;
    basis.begin = now;
    basis.tbt = instance.clock_tbt;
    basis.reserve = instance.reserve;
    basis.prefill_tokens = view.step.shape.prefill_tokens + view.step.waiting_prompt_tokens;
    basis.prefill_requests = view.step.shape.prefill_requests + view.step.waiting_requests;
    Obstacle at_top{};
    instance.forecaster.read(board, basis);
    current.clock = instance.forecaster.lowest_clock(*latency, instance.clocks, at_top);
    const PowerModel* power = instance.spec->beliefs.power;
    const bool weigh = clock_.pick == ClockPick::LeastEnergy && power != nullptr && at_top == Obstacle::None;
    if (weigh) {
      const std::span<const MegaHertz> passing(std::ranges::find(instance.clocks, current.clock),
                                               instance.clocks.end());
      current.clock = instance.forecaster.least_energy_clock(*latency, *power, passing);
    }
    current.reason = weigh                             ? "least energy of the clocks that meet all objectives"
                     : at_top == Obstacle::None        ? "lowest clock that meets all objectives"
                     : at_top == Obstacle::Disbelieved ? "predictor out of range: maximum"
                                                       : "no clock meets all objectives: maximum";
    const std::int64_t overrun = board.first_overrun();
    if (clock_.on_leave && overrun != std::numeric_limits<std::int64_t>::max()) {
      // Without a report, the step that finds a request overdue has read at least this many tokens more.
      const StepShape& shape = view.step.shape;
      current.hold.kv_tokens_max =
          shape.decode_kv_tokens + shape.decode_requests * std::max<std::int64_t>(overrun - board.next(), 1) - 1;
    }
  }
}

}  // namespace wattle::policy
