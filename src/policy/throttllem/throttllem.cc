#include "policy/throttllem/throttllem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace wattle::policy {

namespace {

/// Enough for the largest batches in use; more only costs an allocation.
constexpr std::size_t kReservedRequests = 1024;

Span reserve(std::optional<Span> objective, double margin) {
  return objective ? Span::from_seconds(objective->seconds() * (1.0 - margin)) : Span::max();
}

std::int64_t prompts_to_compute(const Scoreboard& board, std::int32_t& requests) {
  std::int64_t tokens = 0;
  for (const auto& p : board.requests()) {
    if (p.start != board.next()) continue;
    tokens += p.prompt_tokens;
    ++requests;
  }
  return tokens;
}

/// The future begins when the step in progress ends; telemetry may be too old for that to be still to come.
ForecastBasis basis_between_steps(const ThrottllemDesk& desk, const InstanceView& view, const ThrottllemFleet& fleet,
                                  Instant now) {
  ForecastBasis basis;
  basis.begin = now;
  basis.tbt = fleet.tbt();
  if (!view.step.shape.idle()) {
    basis.begin = std::max(now, view.step.start + desk.latency->step_time(view.step.shape, desk.clocks.back()));
  }
  if (!fleet.options().count_prefill) return basis;
  basis.prefill_requests = view.step.waiting_requests;
  basis.prefill_tokens = prompts_to_compute(desk.board, basis.prefill_requests) + view.step.waiting_prompt_tokens;
  return basis;
}

std::int64_t capacity_blocks(const InstanceView& view, std::int32_t block_size) {
  return view.kv_capacity_tokens > 0 ? view.kv_capacity_tokens / block_size : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

// --- fleet ---

ThrottllemFleet::ThrottllemFleet(ThrottllemOptions options) : options_(options) {
  WATTLE_CHECK(options_.margin >= 0.0 && options_.margin < 1.0, "throttLL'eM's margin is a share below 1");
  WATTLE_CHECK(options_.inflation >= 0.0, "throttLL'eM's inflation is not negative");
  tbt_ = reserve(options_.slo.tbt, options_.margin);
  e2e_ = reserve(options_.slo.e2e, options_.margin);
}

void ThrottllemFleet::add(InstanceId id, std::vector<MegaHertz> clocks, const LatencyModel* latency) {
  WATTLE_CHECK(id.value() >= 0, "an instance id");
  WATTLE_CHECK(!clocks.empty() && std::ranges::is_sorted(clocks), "throttLL'eM's clocks ascend");
  const auto index = static_cast<std::size_t>(id.value());
  if (desks_.size() <= index) desks_.resize(index + 1);
  desks_[index] = std::make_unique<ThrottllemDesk>(
      ThrottllemDesk{Scoreboard(options_.block_size, options_.grace), {}, std::move(clocks), latency, false, 0, 0});
  desks_[index]->board.reserve(kReservedRequests);
  desks_[index]->forecaster.reserve(kReservedRequests);
}

ThrottllemDesk* ThrottllemFleet::desk(InstanceId id) {
  const auto index = static_cast<std::size_t>(id.value());
  return id.value() >= 0 && index < desks_.size() ? desks_[index].get() : nullptr;
}

Instant ThrottllemFleet::deadline(const Request& request) const {
  return e2e_ == Span::max() ? Instant::never() : request.arrival + e2e_;
}

// --- admission ---

Projected ThrottllemAdmission::project(const ThrottllemDesk& desk, const InstanceView& view,
                                       const Request& request) const {
  const auto& o = fleet_->options();
  Projected p;
  p.id = request.id;
  p.start = desk.board.next();
  p.prompt_tokens = std::max(request.prompt_tokens, 0);
  // It cannot grow beyond the cache either.
  std::int64_t limit = std::max(request.max_tokens, 1);
  if (view.kv_capacity_tokens > 0) {
    const std::int64_t held = capacity_blocks(view, o.block_size) * o.block_size;
    limit = std::clamp<std::int64_t>(held - p.prompt_tokens + 1, 1, limit);
  }
  p.limit_tokens = static_cast<std::int32_t>(limit);
  const double wanted = std::ceil(request.predicted_output_tokens * (1.0 + o.inflation));
  const bool predicted = request.predicted_output_tokens > 0 && wanted < static_cast<double>(limit);
  p.predicted_tokens = predicted ? static_cast<std::int32_t>(wanted) : p.limit_tokens;
  if (o.residual && predicted) p.second_tokens = o.residual->expected_tokens(request, p.predicted_tokens + o.grace);
  p.deadline = fleet_->deadline(request);
  return p;
}

ThrottllemAdmission::Verdict ThrottllemAdmission::examine(ThrottllemDesk& desk, const InstanceView& view,
                                                          const Request& request, Instant now) {
  auto& board = desk.board;
  const std::int64_t capacity = capacity_blocks(view, fleet_->options().block_size);
  const std::int64_t block_size = fleet_->options().block_size;
  if ((request.prompt_tokens + block_size - 1) / block_size > capacity) {
    return {Admission::Reject, "the prompt can never fit in the KV cache", false};
  }
  board.advance(view.step.sequence + 1);
  const bool alone = board.empty();
  board.add_virtually(project(desk, view, request));
  Verdict verdict{Admission::Admit, "all objectives hold at the highest clock", false};
  if (board.peak_blocks() > capacity && !alone) {
    verdict = {Admission::Hold, "the KV cache would overflow", false};
  } else if (desk.latency == nullptr) {
    verdict.reason = "no latency predictor: KV alone";
  } else {
    auto basis = basis_between_steps(desk, view, *fleet_, now);
    basis.own_deadline = request.id;
    auto& forecaster = desk.forecaster;
    forecaster.read(board, basis);
    Forecast f = forecaster.at(*desk.latency, desk.clocks.back());
    if (f.obstacle == Obstacle::Deadline) {
      // Somebody would be late. Those who are late without the newcomer too are lost, and do not count.
      const Projected newcomer = project(desk, view, request);
      board.roll_back();
      forecaster.read(board, basis_between_steps(desk, view, *fleet_, now));
      const auto hopeless = forecaster.mark_hopeless(board, *desk.latency, desk.clocks.back());
      board.add_virtually(newcomer);
      if (hopeless > 0) {
        ++desk.admissions;
        forecaster.read(board, basis);
        f = forecaster.at(*desk.latency, desk.clocks.back());
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

AdmissionDecision ThrottllemAdmission::admit(const Request& request, const QueueView&, const FleetSnapshot& fleet) {
  order_.clear();
  bool any = false;
  for (const auto& view : fleet.instances) {
    if (view.role != Role::Colocated || fleet_->desk(view.id) == nullptr) continue;
    any = true;
    if (view.accepting) order_.push_back(&view);
  }
  if (!any) return {Admission::Reject, "no instance runs under throttLL'eM"};
  if (order_.empty()) return {Admission::Hold, "no instance accepts requests"};
  std::ranges::stable_sort(order_, {}, &InstanceView::assigned_requests);
  std::optional<AdmissionDecision> answer;
  for (const auto* view : order_) {
    auto& desk = *fleet_->desk(view->id);
    const Verdict verdict = examine(desk, *view, request, fleet.now);
    const bool holding = verdict.admission == Admission::Hold;
    if (holding != desk.holding) ++desk.turns;
    desk.holding = holding;
    if (verdict.admission == Admission::Admit) {
      admitted_ = request.id;
      admitted_at_ = view->id;
      admitted_lost_ = verdict.lost;
      return {Admission::Admit, verdict.reason, view->id};
    }
    // Rejected only where every instance rejects; else the first one's reason to hold.
    if (!answer || (answer->verdict == Admission::Reject && verdict.admission == Admission::Hold)) {
      answer = AdmissionDecision{verdict.admission, verdict.reason};
    }
  }
  return *answer;
}

void ThrottllemAdmission::started(const Request& request, const InstanceView& view, Instant now) {
  auto* desk = fleet_->desk(view.id);
  if (desk == nullptr || desk->board.contains(request.id)) return;
  const bool examined = admitted_ == request.id && admitted_at_ == view.id;
  const bool lost = examined ? admitted_lost_ : examine(*desk, view, request, now).lost;
  desk->board.advance(view.step.sequence + 1);
  Projected p = project(*desk, view, request);
  p.lost = lost;
  desk->board.add(p);
  ++desk->admissions;
}

void ThrottllemAdmission::first_token(const Request& request, const InstanceView& view, Instant) {
  auto* desk = fleet_->desk(view.id);
  if (desk == nullptr) return;
  desk->board.advance(view.step.sequence + 1);
  desk->board.restart(request.id, view.step.sequence);
}

void ThrottllemAdmission::observe(const Outcome& outcome, Instant) {
  for (std::size_t i = 0; i < fleet_->size(); ++i) {
    auto* desk = fleet_->desk(InstanceId(static_cast<std::int32_t>(i)));
    if (desk == nullptr) continue;
    const auto lost = desk->board.lost();
    if (!desk->board.remove(outcome.request.id)) continue;
    if (lost > 0 && desk->board.lost() == 0) ++desk->admissions;
    return;
  }
}

// --- clock ---

ThrottllemClock::ThrottllemClock(std::shared_ptr<ThrottllemFleet> fleet, InstanceId instance,
                                 ThrottllemClockOptions options)
    : fleet_(std::move(fleet)),
      desk_([&]() -> ThrottllemDesk& {
        auto* desk = fleet_->desk(instance);
        WATTLE_CHECK(desk != nullptr, "throttLL'eM's clock belongs to a desk");
        return *desk;
      }()),
      options_(options),
      current_{desk_.clocks.back(), "no request yet: maximum", Hold::forever()} {
  WATTLE_CHECK(options_.margin >= 0.0 && options_.margin < 1.0, "throttLL'eM's clock margin is a share below 1");
  const auto& slo = fleet_->options().slo;
  if (slo.e2e) reserve_ = Span::from_seconds(slo.e2e->seconds() * options_.margin);
  if (slo.tbt) tbt_ = Span::from_seconds(fleet_->tbt().seconds() * (1.0 - options_.margin));
}

ClockDecision ThrottllemClock::choose(const InstanceView& view, const Beliefs&, Instant now) {
  const MegaHertz top = desk_.clocks.back();
  auto& board = desk_.board;
  if (view.telemetry == Telemetry::Lost) {
    decided_for_ = -1;
    return {top, "telemetry lost: maximum", Hold{}};
  }
  if (has_no_work(view)) {
    if (!options_.idle_clock) return {current_.clock, "idle: clock kept", Hold::forever()};
    decided_for_ = -1;
    return {*options_.idle_clock, "idle", Hold::forever()};
  }
  // The step that now starts is the first to come.
  board.advance(view.step.sequence);
  const std::int64_t calls = desk_.admissions + (options_.max_while_held ? desk_.turns : 0);
  if (!options_.on_leave && decided_for_ == calls) return current_;
  decided_for_ = calls;
  current_.hold = Hold::forever();
  if (board.lost() > 0) {
    current_.clock = top;
    current_.reason = "a lost request runs: maximum";
  } else if (options_.max_while_held && desk_.holding) {
    current_.clock = top;
    current_.reason = "requests are held: maximum";
  } else if (desk_.latency == nullptr) {
    current_.clock = top;
    current_.reason = "no latency predictor: maximum";
  } else {
    ForecastBasis basis;
    basis.begin = now;
    basis.tbt = tbt_;
    basis.reserve = reserve_;
    basis.prefill_tokens = view.step.shape.prefill_tokens + view.step.waiting_prompt_tokens;
    basis.prefill_requests = view.step.shape.prefill_requests + view.step.waiting_requests;
    Obstacle at_top{};
    desk_.forecaster.read(board, basis);
    current_.clock = desk_.forecaster.lowest_clock(*desk_.latency, desk_.clocks, at_top);
    current_.reason = at_top == Obstacle::None          ? "lowest clock that meets all objectives"
                      : at_top == Obstacle::Disbelieved ? "predictor out of range: maximum"
                                                        : "no clock meets all objectives: maximum";
    const std::int64_t overrun = board.first_overrun();
    if (options_.on_leave && overrun != std::numeric_limits<std::int64_t>::max()) {
      // Without news the step that finds somebody overdue has read at least this many tokens more.
      const StepShape& shape = view.step.shape;
      current_.hold.kv_tokens_max =
          shape.decode_kv_tokens + shape.decode_requests * std::max<std::int64_t>(overrun - board.next(), 1) - 1;
    }
  }
  return current_;
}

}  // namespace wattle::policy
