#include "policy/retail/retail.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace wattle::policy {

RetailFleet::RetailFleet(RetailOptions options) : options_(options) {
  WATTLE_CHECK(options_.margin >= 0.0 && options_.margin < 1.0, "ReTail's margin is a share below 1");
}

void RetailFleet::add(InstanceId id, const RetailModel& model, std::vector<MegaHertz> clocks) {
  WATTLE_CHECK(id.value() >= 0, "an instance id");
  WATTLE_CHECK(!clocks.empty() && std::ranges::is_sorted(clocks), "ReTail's clocks ascend");
  const auto index = static_cast<std::size_t>(id.value());
  if (desks_.size() <= index) desks_.resize(index + 1);
  desks_[index] = std::make_unique<RetailDesk>(RetailDesk{model, std::move(clocks), {}, 0});
}

RetailDesk* RetailFleet::desk(InstanceId id) {
  const auto index = static_cast<std::size_t>(id.value());
  return id.value() >= 0 && index < desks_.size() ? desks_[index].get() : nullptr;
}

void RetailAdmission::started(const Request& request, const InstanceView& instance, Instant now) {
  auto* desk = fleet_->desk(instance.id);
  if (desk == nullptr) return;
  const auto cap = static_cast<double>(std::max(request.max_tokens, 1));
  const double wanted = std::ceil(request.predicted_output_tokens * (1.0 + fleet_->options().inflation));
  const double tokens = request.predicted_output_tokens > 0 ? std::min(wanted, cap) : cap;
  desk->queue[request.id.value()] = {request.arrival, now, std::max(request.prompt_tokens, 0),
                                     static_cast<std::int32_t>(tokens)};
  ++desk->arrivals;
}

void RetailAdmission::observe(const Outcome& outcome, Instant) {
  for (auto& desk : fleet_->desks()) {
    if (desk && desk->queue.erase(outcome.request.id.value()) > 0) return;
  }
}

RetailClock::RetailClock(std::shared_ptr<RetailFleet> fleet, InstanceId instance)
    : fleet_(std::move(fleet)),
      desk_([&]() -> RetailDesk& {
        auto* desk = fleet_->desk(instance);
        WATTLE_CHECK(desk != nullptr, "ReTail's clock belongs to a desk");
        return *desk;
      }()),
      current_{desk_.clocks.back(), "no request yet: maximum", Hold::forever()} {}

ClockDecision RetailClock::choose(const InstanceView& view, const Beliefs&, Instant) {
  if (view.telemetry == Telemetry::Lost) {
    decided_for_ = -1;
    return {desk_.clocks.back(), "telemetry lost: maximum", Hold{}};
  }
  if (has_no_work(view)) return {current_.clock, "idle: clock kept", Hold::forever()};
  if (decided_for_ == desk_.arrivals) return current_;
  decided_for_ = desk_.arrivals;
  const StepShape& shape = view.step.shape;
  // The regression separates: only the requests' own terms differ between them, so the neediest stands for all.
  double neediest = 0.0;
  for (const auto& [id, job] : desk_.queue) {
    neediest =
        std::max(neediest, (job.dispatched - job.arrival).seconds() + desk_.model.weights[4] * job.prompt_tokens +
                               desk_.model.weights[5] * job.output_tokens);
  }
  const auto fails = [&](MegaHertz clock) {
    const double common = desk_.model.seconds(clock, shape.decode_requests + shape.prefill_requests,
                                              static_cast<double>(view.step.kv_tokens), 0.0, 0.0);
    return !(common + neediest <= fleet_->budget_seconds());
  };
  const auto lowest = std::ranges::find_if_not(desk_.clocks, fails);
  const bool none = lowest == desk_.clocks.end();
  current_ = {none ? desk_.clocks.back() : *lowest,
              none ? "no clock suits every queued request: maximum" : "lowest clock that suits every queued request",
              Hold::forever()};
  return current_;
}

}  // namespace wattle::policy
