#include "node/host_meter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace wattle::node {
namespace {

class HostMeterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = "/dev/shm/wattle-rapl-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    root_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void zone(const std::string& id, const std::string& name, std::uint64_t uj, std::uint64_t range = 1'000'000'000) {
    std::filesystem::create_directories(root_ / id);
    std::ofstream(root_ / id / "name") << name << '\n';
    std::ofstream(root_ / id / "max_energy_range_uj") << range << '\n';
    counts(id, uj);
  }
  void counts(const std::string& id, std::uint64_t uj) { std::ofstream(root_ / id / "energy_uj") << uj << '\n'; }
  std::filesystem::path root_;
};

TEST_F(HostMeterTest, CountsPackagesAndTheirMemoryOnceEach) {
  zone("intel-rapl:0", "package-0", 7'000'000);
  zone("intel-rapl:0:0", "core", 1);
  zone("intel-rapl:0:1", "dram", 100);
  zone("intel-rapl:1", "package-1", 0);
  zone("intel-rapl:2", "psys", 0);
  zone("intel-rapl-mmio:0", "package-0", 7'000'000);
  HostMeter meter(root_);
  ASSERT_EQ(meter.domains().size(), 3U);
  EXPECT_EQ(meter.domains()[1].name, "package-0/dram");
  meter.sample(Instant());
  counts("intel-rapl:0", 27'000'000);
  counts("intel-rapl:0:1", 4'000'100);
  meter.sample(Instant() + Span::ms(500));
  EXPECT_EQ(meter.domains()[0].energy, Picojoules(Int128{20} * 1'000'000'000'000)) << "from the first sample on";
  EXPECT_EQ(meter.domains()[0].power, Milliwatts(40'000));
  EXPECT_EQ(meter.domains()[1].power, Milliwatts(8'000));
  EXPECT_EQ(meter.domains()[2].energy, Picojoules());
}

TEST_F(HostMeterTest, ACounterMayOverflow) {
  zone("intel-rapl:0", "package-0", 999'000'000);
  HostMeter meter(root_);
  meter.sample(Instant());
  counts("intel-rapl:0", 2'000'000);
  meter.sample(Instant() + Span::s(1));
  EXPECT_EQ(meter.domains()[0].power, Milliwatts(3'000));
}

TEST_F(HostMeterTest, WhatCannotBeReadIsNotThere) {
  EXPECT_TRUE(HostMeter((root_ / "none").string()).domains().empty());
  zone("intel-rapl:0", "package-0", 0);
  std::filesystem::remove(root_ / "intel-rapl:0" / "energy_uj");
  EXPECT_TRUE(HostMeter(root_).domains().empty());
}

}  // namespace
}  // namespace wattle::node
