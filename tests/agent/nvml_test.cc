#include "node/gpu/nvml.h"

#include "board_fixture.h"

namespace wattle::live {
namespace {

using virtual_gpu::FaultPoint;

class NvmlWrapper : public BoardFixture {
 protected:
  void SetUp() override {
    BoardFixture::SetUp();
    auto opened = node::Nvml::open(FAKE_NVML);
    ASSERT_TRUE(opened) << opened.error().message();
    nvml_ = *opened;
  }
  [[nodiscard]] node::Gpu gpu(std::uint32_t index) const { return nvml_->by_index(index).value(); }
  std::shared_ptr<const node::Nvml> nvml_;
};

TEST_F(NvmlWrapper, DescribesDevices) {
  EXPECT_EQ(nvml_->count().value(), 2U);
  const node::Gpu second = gpu(1);
  EXPECT_EQ(second.uuid(), board().uuid(1));
  EXPECT_EQ(second.name(), board().name());
  EXPECT_EQ(second.index(), 1U);
  EXPECT_EQ(nvml_->find(second.uuid())->index(), 1U);
  EXPECT_EQ(nvml_->find("1")->uuid(), second.uuid());
  EXPECT_EQ(nvml_->find("2").error().kind, ErrorKind::BadInput);
  EXPECT_EQ(nvml_->find("GPU-none").error().kind, ErrorKind::BadInput);
  EXPECT_FALSE(nvml_->driver_version().empty());
  EXPECT_TRUE(nvml_->emulated()) << "nobody may take it for a GPU's";
}

TEST_F(NvmlWrapper, SnapsToSupportedClocksAndSaysWhichWayItClamped) {
  const node::Gpu g = gpu(0);
  ASSERT_EQ(g.clocks().size(), 81U);
  EXPECT_EQ(g.snap(MegaHertz(1005)).clock, MegaHertz(1005));
  EXPECT_EQ(g.snap(MegaHertz(1019)).clock, MegaHertz(1005));
  EXPECT_EQ(g.snap(MegaHertz(1019)).clamp, node::Clamp::None);
  EXPECT_EQ(g.snap(MegaHertz(5)).clock, MegaHertz(210));
  EXPECT_EQ(g.snap(MegaHertz(5)).clamp, node::Clamp::Up);
  EXPECT_EQ(g.snap(MegaHertz(1980)).clock, MegaHertz(1410));
  EXPECT_EQ(g.snap(MegaHertz(1980)).clamp, node::Clamp::Down);
}

TEST_F(NvmlWrapper, LocksReadsAndResets) {
  const node::Gpu g = gpu(0);
  board().set_activity(0, Milliwatts(321'000), MegaHertz(1410), 97, Span::s(60));
  EXPECT_EQ(g.lock_clock(MegaHertz(1005)), node::GpuStatus::Ok);
  EXPECT_TRUE(board().locked(0));
  EXPECT_EQ(g.power().value, Milliwatts(321'000));
  EXPECT_EQ(g.utilization_percent().value, 97U);
  EXPECT_EQ(g.compute_processes().value, 1U);
  EXPECT_FALSE(g.idle());
  EXPECT_TRUE(gpu(1).idle());
  EXPECT_EQ(g.max_sm_clock().value, MegaHertz(1410));
  EXPECT_EQ(g.enforced_power_limit().value, Milliwatts(400'000));
  EXPECT_EQ(g.reset_clock(), node::GpuStatus::Ok);
  EXPECT_FALSE(board().locked(0));
}

TEST_F(NvmlWrapper, SortsFailuresIntoClasses) {
  const node::Gpu g = gpu(0);
  const std::pair<int, node::GpuStatus> expected[] = {
      {3, node::GpuStatus::Absent},     {12, node::GpuStatus::Absent},     {13, node::GpuStatus::Absent},
      {4, node::GpuStatus::Forbidden},  {17, node::GpuStatus::Forbidden},  {10, node::GpuStatus::Transient},
      {19, node::GpuStatus::Transient}, {999, node::GpuStatus::Transient}, {15, node::GpuStatus::Gone},
      {16, node::GpuStatus::Gone},      {9, node::GpuStatus::Gone},        {18, node::GpuStatus::Gone},
      {2, node::GpuStatus::Refused},    {24, node::GpuStatus::Refused},    {20, node::GpuStatus::Transient},
      {23, node::GpuStatus::Transient}};
  for (const auto& [code, status] : expected) {
    board().inject(0, FaultPoint::Set, code, 1);
    EXPECT_EQ(g.lock_clock(MegaHertz(1005)), status) << code;
  }
  EXPECT_EQ(g.lock_clock(MegaHertz(1005)), node::GpuStatus::Ok);
}

TEST_F(NvmlWrapper, AnOldDriverIsReadOnly) {
  const auto old = node::Nvml::open(FAKE_NVML_OLD_DRIVER);
  ASSERT_TRUE(old) << old.error().message();
  const node::Gpu g = (*old)->by_index(0).value();
  EXPECT_EQ(g.lock_clock(MegaHertz(1005)), node::GpuStatus::Absent);
  EXPECT_EQ(g.energy_counter_mj().status(), node::GpuStatus::Absent);
  EXPECT_TRUE(g.power().ok()) << "the old call still serves";
  EXPECT_TRUE(g.clocks().empty());
  EXPECT_EQ(g.snap(MegaHertz(1234)).clock, MegaHertz(1234));
}

TEST_F(NvmlWrapper, NoLibraryAndNoDriverAreErrorsNotCrashes) {
  EXPECT_EQ(node::Nvml::open("libnvidia-ml-none.so.1").error().kind, ErrorKind::External);
  nvml_.reset();
  setenv(virtual_gpu::kBoardVariable, "", 1);
  EXPECT_EQ(node::Nvml::open(FAKE_NVML).error().kind, ErrorKind::External);
}

}  // namespace
}  // namespace wattle::live
