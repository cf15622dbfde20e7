#include "node/gpu/amd_smi.h"

#include <cstdlib>

#include "board_fixture.h"
#include "net/await_test.h"
#include "node/actuator.h"
#include "node/gpu/open.h"

namespace wattle::live {
namespace {

using node::GpuStatus;
using virtual_gpu::FaultPoint;

/// By version of the library's structures.
class AmdSmiTest : public BoardFixture, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    BoardFixture::SetUp();
    setenv("WATTLE_FAKE_AMD_SMI_ABI", GetParam(), 1);
    auto opened = node::AmdSmi::open(FAKE_AMD_SMI);
    ASSERT_TRUE(opened) << opened.error().message();
    library_ = *opened;
  }
  void TearDown() override {
    library_.reset();
    unsetenv("WATTLE_FAKE_AMD_SMI_ABI");
    BoardFixture::TearDown();
  }
  std::shared_ptr<const node::AmdSmi> library_;
};

using KnownVersion = AmdSmiTest;
INSTANTIATE_TEST_SUITE_P(Abi, KnownVersion, ::testing::Values("24", "25", "26"));

TEST_P(KnownVersion, DescribesLocksReadsAndResets) {
  ASSERT_TRUE(library_->known());
  EXPECT_TRUE(library_->emulated());
  EXPECT_EQ(library_->count().value(), 2U);
  const node::Gpu g = library_->by_index(1).value();
  EXPECT_EQ("GPU-" + g.uuid(), board().uuid(1));
  EXPECT_EQ(library_->by_uuid(g.uuid()).value().index(), 1U);
  EXPECT_EQ(g.name(), board().name());
  EXPECT_EQ(g.clocks().front(), MegaHertz(210));
  EXPECT_EQ(g.clocks().back(), MegaHertz(1410));
  EXPECT_EQ(g.snap(MegaHertz(1007)).clock, MegaHertz(1007)) << "any whole MHz";

  board().set_activity(1, Milliwatts(321'000), MegaHertz(1410), 97, Span::s(60));
  EXPECT_EQ(g.power().value, Milliwatts(321'000));
  EXPECT_EQ(g.utilization_percent().value, 97U);
  EXPECT_FALSE(g.idle());
  EXPECT_EQ(g.power_limit().value, Milliwatts(400'000));
  EXPECT_EQ(g.least_power_limit().value, Milliwatts(100'000));
  EXPECT_EQ(g.limited().status(), GpuStatus::Absent);
  EXPECT_FALSE(g.partitioned());

  EXPECT_EQ(g.lock_clock(MegaHertz(1005)), GpuStatus::Ok);
  EXPECT_TRUE(board().locked(1));
  EXPECT_TRUE(eventually([&] { return g.sm_clock().value == MegaHertz(1005); }));
  EXPECT_EQ(library_->by_index(1).value().clocks().back(), MegaHertz(1005)) << "its range is what is set";
  EXPECT_EQ(g.lock_clock(MegaHertz(1300)), GpuStatus::Ok) << "and rises again";
  EXPECT_EQ(g.reset_clock(), GpuStatus::Ok);
  EXPECT_FALSE(board().locked(1));
  EXPECT_EQ(g.set_power_limit(Milliwatts(250'000)), GpuStatus::Ok);
  EXPECT_EQ(board().power_limit(1), Milliwatts(250'000));
}

TEST_P(KnownVersion, CountsEnergyInItsOwnUnits) {
  const node::Gpu g = library_->by_index(0).value();
  const Instant start(5'000'000'000'000'000);
  board().set_time(start);
  board().set_activity(0, Milliwatts(300'000), MegaHertz(1410), 100, Span::s(60));
  const auto before = g.energy_counter_mj();
  board().set_time(start + Span::s(10));
  const auto after = g.energy_counter_mj();
  ASSERT_TRUE(before.ok() && after.ok());
  const auto drawn_mj = static_cast<double>(after.value - before.value);
  EXPECT_NEAR(drawn_mj, 3e6, 3e6 * 0.001) << "300 W for 10 s";
}

TEST_P(KnownVersion, SortsFailuresIntoClasses) {
  const node::Gpu g = library_->by_index(0).value();
  for (const auto& [nvml, status] : {std::pair{3, GpuStatus::Absent},
                                     {4, GpuStatus::Forbidden},
                                     {10, GpuStatus::Transient},
                                     {15, GpuStatus::Gone},
                                     {19, GpuStatus::Transient}}) {
    board().inject(0, FaultPoint::Set, nvml, 1);
    EXPECT_EQ(g.lock_clock(MegaHertz(1005)), status) << nvml;
  }
  EXPECT_EQ(g.lock_clock(MegaHertz(9000)), GpuStatus::Refused);
}

TEST_P(KnownVersion, OneThatIsPartitionedIsOnlyObserved) {
  setenv("WATTLE_FAKE_AMD_SMI_PARTITION", "CPX", 1);
  const node::Gpu g = library_->by_index(0).value();
  EXPECT_TRUE(g.partitioned());
  unsetenv("WATTLE_FAKE_AMD_SMI_PARTITION");
}

using UnknownVersion = AmdSmiTest;
INSTANTIATE_TEST_SUITE_P(Abi, UnknownVersion, ::testing::Values("27", "23"));

TEST_P(UnknownVersion, IsOnlyObserved) {
  EXPECT_FALSE(library_->known());
  const node::Gpu g = library_->by_index(0).value();
  EXPECT_EQ(g.lock_clock(MegaHertz(1005)), GpuStatus::Absent);
  EXPECT_EQ(g.reset_clock(), GpuStatus::Absent);
  EXPECT_EQ(g.set_power_limit(Milliwatts(250'000)), GpuStatus::Absent);
  EXPECT_EQ(g.power().status(), GpuStatus::Absent) << "its structure is not known";
  EXPECT_TRUE(g.energy_counter_mj().ok());
  EXPECT_EQ(board().calls(0).sets, 0);
}

TEST(AmdSmi, NoLibraryIsAnErrorNotACrash) {
  EXPECT_EQ(node::open_gpus("amd-smi:libamd_smi-none.so").error().kind, ErrorKind::External);
  EXPECT_EQ(node::open_gpus(std::string("amd-smi:") + FAKE_NVML).error().kind, ErrorKind::External)
      << "a library of another kind";
}

}  // namespace
}  // namespace wattle::live
