#include "calibrate/live/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "net/clock.h"
#include "node/gpu/open.h"

namespace wattle::calibrate {

namespace {
constexpr Span kLockPatience = Span::s(10);
}  // namespace

void pause(Span span) { std::this_thread::sleep_for(std::chrono::nanoseconds(span.ns())); }

Result<std::unique_ptr<Hardware>> Hardware::open(const HardwareOptions& options) {
  auto self = std::make_unique<Hardware>();
  self->settle_ = options.settle;
  if (options.gpus.empty()) return self;
  auto library = node::open_gpus(options.keeper.library);
  if (!library) return std::unexpected(library.error());
  std::vector<node::Gpu> gpus;
  for (const auto& name : options.gpus) {
    auto gpu = (*library)->find(name);
    if (!gpu) return std::unexpected(gpu.error());
    for (const MegaHertz clock : options.clocks) {
      if (const auto snapped = gpu->snap(clock); !gpu->clocks().empty() && snapped.clock != clock) {
        return bad_input(
            fmt::format("--clocks {}", clock.value()),
            fmt::format("{} does not offer it; the nearest below is {}", gpu->name(), snapped.clock.value()));
      }
    }
    auto& offered = self->offered_;
    if (gpus.empty()) {
      offered.assign(gpu->clocks().begin(), gpu->clocks().end());
    } else {
      std::erase_if(offered, [&](MegaHertz clock) { return gpu->snap(clock).clock != clock; });
    }
    self->facts_.push_back(fmt::format("gpu: {} ({})", gpu->name(), gpu->uuid()));
    gpus.push_back(std::move(*gpu));
  }
  std::ranges::sort(self->offered_);
  self->facts_.push_back("driver: " + (*library)->driver_version());
  self->library_ = *library;
  self->power_ = std::make_unique<PowerLog>(gpus);
  if (!options.locks) return self;
  auto keeper = node::LockKeeper::start(options.keeper, *library);
  if (!keeper) return std::unexpected(keeper.error());
  self->keeper_ = std::move(*keeper);
  self->actuator_ = std::make_unique<node::Actuator>(
      std::vector<node::Actuator::Target>{{InstanceId(0), std::move(gpus)}}, self->keeper_);
  return self;
}

Result<void> Hardware::lock(MegaHertz clock, const std::atomic<bool>& stop) {
  keeper_->check();
  actuator_->command(InstanceId(0), clock, net::steady_now());
  const Instant end = net::steady_now() + kLockPatience;
  while (!stop) {
    bool all = true;
    for (const auto& gpu : actuator_->stats()) {
      if (gpu.state != node::GpuState::Controlled) {
        return external_failure(gpu.uuid, "its clock cannot be locked here; run without --clocks");
      }
      all = all && gpu.applied == clock;
    }
    if (all) break;
    if (net::steady_now() > end) {
      return external_failure(fmt::format("{} MHz", clock.value()), "the driver does not answer");
    }
    pause(kLook);
  }
  pause(settle_);
  return {};
}

std::vector<std::string> Hardware::release() {
  return actuator_ ? actuator_->release_all(Span::s(5)) : std::vector<std::string>();
}

}  // namespace wattle::calibrate
