#include "node/actuator.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "board_fixture.h"
#include "net/await_test.h"
#include "net/clock.h"
#include "node/claim.h"
#include "node/power_cap.h"

namespace wattle::live {
namespace {

using virtual_gpu::FaultPoint;

class ActuatorTest : public BoardFixture {
 protected:
  void SetUp() override {
    BoardFixture::SetUp();
    nvml_ = node::Nvml::open(FAKE_NVML).value();
    node::KeeperOptions options;
    options.library = FAKE_NVML;
    options.state_file = path_ + ".state";
    options.guardian_command = {AGENT_HELPER, "agent-guardian"};
    keeper_ = node::LockKeeper::start(options, nvml_).value();
  }
  void TearDown() override {
    keeper_.reset();
    const std::weak_ptr<const node::Nvml> library = nvml_;
    nvml_.reset();
    // A thread that was left behind in the driver still holds it, and while anybody does the library stays at this
    // board.
    await([&] { return library.expired(); });
    unlink((path_ + ".state").c_str());
    unlink((path_ + ".state.lock").c_str());
    BoardFixture::TearDown();
  }
  [[nodiscard]] node::Actuator::Target target(std::int32_t id, std::initializer_list<std::uint32_t> gpus) const {
    node::Actuator::Target t{InstanceId(id), {}};
    for (const auto g : gpus) t.gpus.push_back(nvml_->by_index(g).value());
    return t;
  }
  std::shared_ptr<const node::Nvml> nvml_;
  std::shared_ptr<node::LockKeeper> keeper_;
};

TEST_F(ActuatorTest, LocksEveryGpuOfTheInstanceAndUnlocksAtTheEnd) {
  {
    node::Actuator actuator({target(3, {0, 1})}, keeper_);
    actuator.command(InstanceId(3), MegaHertz(1010), Instant());
    actuator.command(InstanceId(4), MegaHertz(300), Instant());
    EXPECT_TRUE(eventually([&] { return board().locked(0) && board().locked(1); }));
    EXPECT_TRUE(eventually([&] { return board().clock(1).ceiling == MegaHertz(1005); })) << "snapped down to a step";
    EXPECT_TRUE(actuator.release_all(Span::s(20)).empty());
    EXPECT_FALSE(board().locked(0));
    EXPECT_FALSE(board().locked(1));
    EXPECT_TRUE(node::StateFile(path_ + ".state").read()->empty());
  }
  EXPECT_EQ(board().calls(0).resets, 1);
}

TEST_F(ActuatorTest, AClockThatSomebodyElseSetIsSetAgainAndThreeTimesIsAnAlarm) {
  node::Actuator actuator({target(0, {0})}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  ASSERT_TRUE(eventually([&] { return actuator.stats()[0].calls == 1; }));
  const auto free = [] { return false; };
  Instant now = net::steady_now() + Span::s(2);
  for (int times = 1; times <= 3; ++times) {
    EXPECT_FALSE(actuator.stats()[0].second_writer);
    actuator.saw(0, MegaHertz(times == 2 ? 1410 : 210), free, now);
    EXPECT_EQ(actuator.stats()[0].mismatches, times - 1) << "a moment is none";
    actuator.saw(0, MegaHertz(times == 2 ? 1410 : 210), free, now + Span::ms(600));
    EXPECT_EQ(actuator.stats()[0].mismatches, times);
    EXPECT_TRUE(eventually([&] { return actuator.stats()[0].calls == 1 + times; })) << "it is locked again";
    now = now + Span::s(5);
  }
  EXPECT_TRUE(actuator.stats()[0].second_writer);
  for (const Span later : {Span(), Span::s(1), Span::s(2)}) {
    actuator.saw(
        0, MegaHertz(210), [] { return true; }, now + later);  // it idles, or is capped
    actuator.saw(0, MegaHertz(1020), free, now + later);       // a step of the device
  }
  EXPECT_EQ(actuator.stats()[0].mismatches, 3);
  actuator.saw(0, MegaHertz(1005), free, now + Span::s(90));
  EXPECT_FALSE(actuator.stats()[0].second_writer) << "it has been quiet for a minute";
}

TEST_F(ActuatorTest, DropsWhatIsAlreadyThereAndCountsClamps) {
  node::Actuator actuator({target(0, {0})}, keeper_);
  for (int i = 0; i < 5; ++i) actuator.command(InstanceId(0), MegaHertz(1980), Instant());
  EXPECT_TRUE(eventually([&] { return board().calls(0).sets == 1; }));
  actuator.command(InstanceId(0), MegaHertz(1410), Instant());  // the same step of this device
  actuator.command(InstanceId(0), MegaHertz(100), Instant());
  EXPECT_TRUE(eventually([&] { return board().calls(0).sets == 2; }));
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].calls == 2; }));
  const auto stats = actuator.stats()[0];
  EXPECT_EQ(stats.commands, 7);
  EXPECT_EQ(stats.clamped_down, 1);
  EXPECT_EQ(stats.clamped_up, 1);
  EXPECT_EQ(stats.same + stats.coalesced, 5);
  EXPECT_EQ(stats.command_to_applied_ns.count(), 2);
}

TEST_F(ActuatorTest, TellsWorkFromWaiting) {
  node::Actuator actuator({target(0, {0})}, keeper_);
  const auto applied = [&](std::int64_t calls) {
    return eventually([&] { return actuator.stats()[0].calls == calls; });
  };
  actuator.command(InstanceId(0), MegaHertz(600), net::steady_now());
  ASSERT_TRUE(applied(1));
  const auto before = actuator.stats()[0];
  EXPECT_EQ(before.report_to_applied_cpu_ns.count(), 1);

  // A report whose decision waits: late by wall time, hardly any CPU time.
  constexpr Span kLong = Span::ms(400);
  Instant arrived = net::steady_now();
  actuator.begins();
  std::this_thread::sleep_for(std::chrono::nanoseconds(kLong.ns()));
  actuator.command(InstanceId(0), MegaHertz(900), arrived);
  ASSERT_TRUE(applied(2));
  const auto waited = actuator.stats()[0];
  EXPECT_EQ(waited.own_over_target, before.own_over_target + 1);
  EXPECT_LT(waited.report_to_applied_cpu_ns.max(), kLong.ns() / 2);

  // One that is worked on for as long.
  arrived = net::steady_now();
  actuator.begins();
  for (const Span begin = net::thread_cpu(); net::thread_cpu() - begin < kLong;) {
  }
  actuator.command(InstanceId(0), MegaHertz(1200), arrived);
  ASSERT_TRUE(applied(3));
  const auto worked = actuator.stats()[0];
  EXPECT_EQ(worked.cpu_over_target, waited.cpu_over_target + 1);
  EXPECT_GE(worked.report_to_applied_cpu_ns.max(), kLong.ns());
}

TEST_F(ActuatorTest, ASlowCallBlocksNobodyAndTheNewestCommandWins) {
  node::Actuator actuator({target(0, {0}), target(1, {1})}, keeper_);
  board().hang(0, Span::s(600));
  actuator.command(InstanceId(0), MegaHertz(600), Instant());
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].in_call > Span(); }));
  for (int mhz = 615; mhz <= 1005; mhz += 15) actuator.command(InstanceId(0), MegaHertz(mhz), Instant());
  actuator.command(InstanceId(1), MegaHertz(1200), Instant());
  EXPECT_TRUE(eventually([&] { return board().locked(1); }));
  EXPECT_EQ(board().calls(0).sets, 0) << "the neighbour did not wait for the slow one";
  board().hang(0, Span());
  EXPECT_TRUE(eventually([&] { return board().clock(0).ceiling == MegaHertz(1005); }));
  EXPECT_LE(board().calls(0).sets, 2);
  EXPECT_GE(actuator.stats()[0].coalesced, 25);
}

TEST_F(ActuatorTest, ForbiddenIsReportedOnceAndNeverRetried) {
  board().inject(0, FaultPoint::Set, node::nvml::kNoPermission, 1);
  node::Actuator actuator({target(0, {0})}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].state == node::GpuState::ReadOnly; }));
  actuator.command(InstanceId(0), MegaHertz(1200), Instant());
  EXPECT_EQ(actuator.stats()[0].failures[static_cast<std::size_t>(node::GpuStatus::Forbidden)], 1);
  actuator.release_all(Span::s(20));
  EXPECT_EQ(board().calls(0).sets, 0) << "although the driver would have allowed the second one";
}

/// For a locked GPU: whatever the driver answers to the next clock, the old lock must not remain.
TEST_F(ActuatorTest, ALockThatCannotBeChangedAnyMoreIsTakenOff) {
  for (const auto& [code, limits_power] : {std::pair{node::nvml::kNoPermission, false},
                                           {node::nvml::kNoPermission, true},
                                           {node::nvml::kNotSupported, false},
                                           {node::nvml::kInvalidArgument, false}}) {
    const bool refused = code == node::nvml::kInvalidArgument;
    node::Actuator actuator({target(0, {0})}, keeper_, limits_power);
    actuator.command(InstanceId(0), MegaHertz(600), Instant());
    ASSERT_TRUE(eventually([&] { return actuator.stats()[0].applied == MegaHertz(600); }));
    board().inject(0, FaultPoint::Set, code, refused ? 1 : virtual_gpu::kFaultForever);
    actuator.command(InstanceId(0), MegaHertz(1200), Instant());
    EXPECT_TRUE(eventually([&] { return !board().locked(0) && actuator.stats()[0].applied == MegaHertz(0); })) << code;
    EXPECT_TRUE(eventually([&] { return node::StateFile(path_ + ".state").read()->empty(); })) << code;
    board().inject(0, FaultPoint::Set, 0);
    actuator.command(InstanceId(0), MegaHertz(900), Instant());
    if (refused) {
      EXPECT_TRUE(eventually([&] { return board().clock(0).ceiling == MegaHertz(900); })) << "the next one is taken";
    }
    EXPECT_TRUE(actuator.release_all(Span::s(20)).empty());
    EXPECT_FALSE(board().locked(0));
    EXPECT_EQ(board().power_limit(0), board().power_limit_default());
  }
}

TEST_F(ActuatorTest, ALockStaysOnRecordWhereTheDriverKnowsNoResetAnyMore) {
  node::Actuator actuator({target(0, {0})}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  ASSERT_TRUE(eventually([&] { return actuator.stats()[0].calls == 1; }));
  board().inject(0, FaultPoint::Reset, node::nvml::kNotSupported);
  EXPECT_EQ(actuator.release_all(Span::s(20)), std::vector<std::string>{board().uuid(0)});
  EXPECT_EQ(node::StateFile(path_ + ".state").read()->count(board().uuid(0)), 1U);
  board().inject(0, FaultPoint::Reset, 0);
}

TEST_F(ActuatorTest, ALockStaysOnRecordWhereTheDriverHasLostTheGpu) {
  node::Actuator actuator({target(0, {0})}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  ASSERT_TRUE(eventually([&] { return actuator.stats()[0].calls == 1; }));
  board().inject(0, FaultPoint::Reset, node::nvml::kGpuIsLost);
  EXPECT_EQ(actuator.release_all(Span::s(20)), std::vector<std::string>{board().uuid(0)});
  EXPECT_EQ(node::StateFile(path_ + ".state").read()->count(board().uuid(0)), 1U);
  board().inject(0, FaultPoint::Reset, 0);
}

TEST_F(ActuatorTest, TransientFailuresAreRetriedWithTheNewestWish) {
  board().inject(0, FaultPoint::Set, node::nvml::kInUse, 3);
  node::Actuator actuator({target(0, {0})}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].retries >= 1; }));
  actuator.command(InstanceId(0), MegaHertz(1200), Instant());
  EXPECT_TRUE(eventually([&] { return board().clock(0).ceiling == MegaHertz(1200); }));
  EXPECT_EQ(actuator.stats()[0].failures[static_cast<std::size_t>(node::GpuStatus::Transient)], 3);
}

TEST_F(ActuatorTest, ALostGpuHoldsUpNoOtherAndGetsItsClockWhenItIsBack) {
  node::Actuator actuator({target(0, {0, 1})}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  EXPECT_TRUE(eventually([&] { return board().locked(0) && board().locked(1); }));
  board().inject(0, FaultPoint::Set, node::nvml::kGpuIsLost);
  actuator.command(InstanceId(0), MegaHertz(1200), Instant());
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].state == node::GpuState::Gone; }));
  EXPECT_TRUE(eventually([&] { return board().clock(1).ceiling == MegaHertz(1200); }));
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());  // the lock that stood when it was lost
  EXPECT_TRUE(eventually([&] { return board().clock(1).ceiling == MegaHertz(1005); }));
  EXPECT_EQ(board().calls(0).sets, 1);
  board().reset_clocks(0);  // as a driver does that is loaded again
  board().inject(0, FaultPoint::Set, 0);
  EXPECT_TRUE(eventually([&] { return board().clock(0).ceiling == MegaHertz(1005); }));
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].state == node::GpuState::Controlled; }));
}

TEST_F(ActuatorTest, ADriverThatHangsIsNoticedAndLeftToTheGuardian) {
  node::Actuator actuator({target(0, {0})}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  EXPECT_TRUE(eventually([&] { return board().locked(0); }));
  EXPECT_TRUE(eventually([&] { return actuator.responsive(Span::s(20)); }));
  board().hang(0, Span::s(600));
  actuator.command(InstanceId(0), MegaHertz(1200), Instant());
  EXPECT_TRUE(eventually([&] { return !actuator.responsive(Span::ms(50)); }));
  EXPECT_EQ(actuator.release_all(Span::ms(50)), std::vector<std::string>{board().uuid(0)});
  board().hang(0, Span());
  EXPECT_TRUE(eventually([&] { return !board().locked(0); })) << "its thread finishes when the driver lets it";
}

TEST_F(ActuatorTest, AnOldDriverIsOnlyObserved) {
  auto old = node::Nvml::open(FAKE_NVML_OLD_DRIVER).value();
  node::Actuator actuator({{InstanceId(0), {old->by_index(0).value()}}}, keeper_);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].state == node::GpuState::ReadOnly; }));
  actuator.release_all(Span::s(20));
  EXPECT_EQ(board().power_limit(0), board().power_limit_default());
}

TEST_F(ActuatorTest, WhereClocksCannotBeLockedPowerIsLimitedAndTheLimitBeforeComesBack) {
  auto old = node::Nvml::open(FAKE_NVML_OLD_DRIVER).value();
  board().set_power_limit(0, Milliwatts(300'000));  // an operator's
  {
    node::Actuator actuator({{InstanceId(0), {old->by_index(0).value()}}}, keeper_, true);
    actuator.command(InstanceId(0), MegaHertz(board().clock_max().value() / 2), Instant());
    const Milliwatts half((board().power_limit_min().value() + 300'000) / 2);
    EXPECT_TRUE(eventually([&] { return board().power_limit(0) == half; })) << board().power_limit(0).value();
    const auto stats = actuator.stats()[0];
    EXPECT_EQ(stats.state, node::GpuState::Controlled);
    EXPECT_EQ(stats.applied, MegaHertz(0)) << "no clock is locked";
    EXPECT_EQ(*node::StateFile(path_ + ".state").read(),
              std::set<std::string>{node::claim_of_power(board().uuid(0), Milliwatts(300'000))});
    actuator.command(InstanceId(0), board().clock_max(), Instant());
    EXPECT_TRUE(eventually([&] { return board().power_limit(0) == Milliwatts(300'000); }));
    actuator.command(InstanceId(0), board().clock_min(), Instant());
    EXPECT_TRUE(eventually([&] { return board().power_limit(0) < half; }));
    EXPECT_TRUE(actuator.release_all(Span::s(20)).empty());
  }
  EXPECT_EQ(board().power_limit(0), Milliwatts(300'000));
  EXPECT_TRUE(node::StateFile(path_ + ".state").read()->empty());
}

TEST_F(ActuatorTest, APowerLimitThatIsForbiddenTooLeavesTheGpuReadOnly) {
  board().inject(0, FaultPoint::Set, node::nvml::kNoPermission);
  node::Actuator actuator({target(0, {0})}, keeper_, true);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  EXPECT_TRUE(eventually([&] { return actuator.stats()[0].state == node::GpuState::ReadOnly; }));
  EXPECT_EQ(board().power_limit(0), board().power_limit_default());
  EXPECT_TRUE(actuator.release_all(Span::s(20)).empty()) << "what may not be set was not set";
  EXPECT_TRUE(node::StateFile(path_ + ".state").read()->empty());
}

TEST_F(ActuatorTest, APartitionedGpuIsOnlyObserved) {
  nvml_.reset();
  keeper_.reset();
  setenv(virtual_gpu::kFaultVariable, "mig=1", 1);
  auto partitioned = node::Nvml::open(FAKE_NVML).value();
  unsetenv(virtual_gpu::kFaultVariable);
  node::Actuator actuator({{InstanceId(0), {partitioned->by_index(0).value()}}}, nullptr);
  EXPECT_EQ(actuator.stats()[0].state, node::GpuState::ReadOnly);
  actuator.command(InstanceId(0), MegaHertz(1005), Instant());
  actuator.release_all(Span::s(20));
  EXPECT_EQ(board().calls(0).sets, 0);
}

TEST(PowerCap, IsTheLineBetweenTheLeastLimitAndTheOneBefore) {
  const auto cap = [](std::int32_t mhz) {
    return node::power_cap(MegaHertz(mhz), MegaHertz(210), MegaHertz(1410), Milliwatts(100'000), Milliwatts(400'000));
  };
  EXPECT_EQ(cap(1410), Milliwatts(400'000));
  EXPECT_EQ(cap(1500), Milliwatts(400'000));
  EXPECT_EQ(cap(810), Milliwatts(250'000));
  EXPECT_EQ(cap(100), Milliwatts(100'000));
  EXPECT_EQ(node::power_cap(MegaHertz(810), MegaHertz(210), MegaHertz(1410), Milliwatts(100'000), Milliwatts(90'000)),
            Milliwatts(90'000))
      << "never above what stood before";
}

}  // namespace
}  // namespace wattle::live
