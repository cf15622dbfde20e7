// What the fleet loop lets policies observe.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "control/fleet_loop.h"

namespace wattle::control::fleet_loop_events_test {
namespace {

class Driver final : public RequestPort {
 public:
  void start(const Request&, Tag, const RouteDecision& at, Instant) override { started_at = at.instance; }
  void hand_over(const Request&, Tag, InstanceId, const RouteDecision&, Instant) override {}
  Served refuse(const Request&, Tag, Refusal, const char*, Instant) override { return {}; }
  InstanceId started_at = kNoInstance;
};

std::vector<InstanceView> fleet(std::size_t count) {
  std::vector<InstanceView> views(count);
  for (std::size_t i = 0; i < count; ++i) views[i].id = InstanceId{static_cast<std::int32_t>(i)};
  return views;
}

Request request(std::int64_t id) {
  Request r;
  r.id = RequestId{id};
  return r;
}

/// Binds every request to one instance and records the events.
class Binding final : public policy::AdmissionPolicy {
 public:
  explicit Binding(InstanceId to, std::vector<std::string>& seen) : to_(to), seen_(seen) {}
  AdmissionDecision admit(const Request&, const FleetSnapshot&) override { return {Admission::Admit, "bound", to_}; }
  [[nodiscard]] EventKinds observes() const override {
    return EventKinds::of<event::Joined, event::Gone, event::Started, event::FirstToken, event::Left>();
  }
  void observe(const Event& event, Instant) override {
    if (const auto* joined = std::get_if<event::Joined>(&event)) tell("joined", {}, joined->instance.id);
    if (const auto* gone = std::get_if<event::Gone>(&event)) tell("gone", {}, gone->instance.id);
    if (const auto* started = std::get_if<event::Started>(&event))
      tell("started", started->request, started->instance.id);
    if (const auto* token = std::get_if<event::FirstToken>(&event)) {
      tell("first token", token->request, token->instance.id);
    }
    if (const auto* left = std::get_if<event::Left>(&event)) tell("left", left->outcome.request, kNoInstance);
  }

 private:
  void tell(const std::string& what, const Request& r, InstanceId at) {
    seen_.push_back(what + " " + std::to_string(r.id.value()) + " " + std::to_string(at.value()));
  }
  InstanceId to_;
  std::vector<std::string>& seen_;
};

TEST(FleetLoop, AdmissionBindsWhenEnforcedAndObservesEitherWay) {
  for (const Mode mode : {Mode::Enforce, Mode::Shadow, Mode::Off}) {
    journal::Sink journal;
    Driver driver;
    std::vector<std::string> seen;
    DispatchPolicies policies;
    const auto binding = std::make_shared<Binding>(InstanceId{1}, seen);
    policies.admission = {binding, mode};
    FleetLoop loop(fleet(2), std::move(policies), 1, {}, driver, journal);
    loop.first_token(RequestId{5}, Instant());  // unknown: ignored
    loop.arrive(request(5), 0, Instant());
    loop.first_token(RequestId{5}, Instant());
    loop.leave(RequestId{5}, Fate::Finished, "", {}, Instant());
    loop.remove_instance(loop.add_instance({}, Instant()), Instant());
    loop.set_accepting(InstanceId{2}, true, Instant());  // has no effect after the removal
    const InstanceId at = driver.started_at;
    EXPECT_EQ(at, InstanceId{mode == Mode::Enforce ? 1 : 0});
    const std::string where = std::to_string(at.value());
    const std::vector<std::string> all{
        "joined 0 0", "joined 0 1", "started 5 " + where, "first token 5 " + where, "left 5 -1",
        "joined 0 2", "gone 0 2"};
    EXPECT_EQ(seen, mode == Mode::Off ? std::vector<std::string>{} : all);
  }
}

TEST(FleetLoop, AnObjectInTwoSlotsHearsOfAnEventOnce) {
  class Both final : public policy::AdmissionPolicy, public policy::QueuePolicy {
   public:
    [[nodiscard]] EventKinds observes() const override { return EventKinds::of<event::Arrived>(); }
    void observe(const Event&, Instant) override { ++heard; }
    AdmissionDecision admit(const Request&, const FleetSnapshot&) override { return {}; }
    [[nodiscard]] std::int64_t key(const Request&, Instant) override { return 0; }
    int heard = 0;
  };
  journal::Sink journal;
  Driver driver;
  const auto both = std::make_shared<Both>();
  DispatchPolicies policies;
  policies.admission = {both, Mode::Enforce};
  policies.queueing = {both, Mode::Shadow};
  FleetLoop loop(fleet(1), std::move(policies), 1, {}, driver, journal);
  loop.arrive(request(1), 0, Instant());
  EXPECT_EQ(both->heard, 1);
}

TEST(FleetLoop, ShowsTheClockOfAReportAndKeepsItWhereNoneIsReported) {
  journal::Sink journal;
  Driver driver;
  auto views = fleet(2);
  views[1].clock_commanded = MegaHertz{1410};
  FleetLoop loop(std::move(views), {}, 1, {}, driver, journal);
  StepReport report;
  report.instance = InstanceId{1};
  loop.report(report, {});
  EXPECT_EQ(loop.instances()[1].clock_commanded, MegaHertz{1410});
  report.clock = MegaHertz{1005};
  loop.report(report, {});
  EXPECT_EQ(loop.instances()[1].clock_commanded, MegaHertz{1005});
  EXPECT_EQ(loop.instances()[0].clock_commanded, MegaHertz{0});
}

}  // namespace
}  // namespace wattle::control::fleet_loop_events_test
