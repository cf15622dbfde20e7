// The ABI as a stranger sees it: dlopen, NVML's real names, raw C types.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "virtual_gpu/virtual_gpu.h"

namespace wattle::virtual_gpu {
namespace {

constexpr Instant kStart(5'000'000'000'000'000);  // later than any uptime, and on an edge of the energy counter

/// A board of its own with stopped time, and the library opened against it.
class FakeNvml : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = "/dev/shm/wattle-fake-nvml-test-" + std::to_string(getpid());
    spec_ = path_ + ",count=2,call_ms=0";
    setenv(kBoardVariable, spec_.c_str(), 1);
    board_.emplace_back(Board::open(*parse_board_spec(spec_)).value());
    board().set_time(kStart);
    library_ = dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void TearDown() override {
    while (call("nvmlShutdown") == 0) {
    }
    dlclose(library_);
    unlink(path_.c_str());
  }
  Board& board() { return board_.front(); }

  template <typename... Args>
  int call(const char* name, Args... args) {
    using Function = int (*)(Args...);
    auto function = reinterpret_cast<Function>(dlsym(library_, name));
    EXPECT_NE(function, nullptr) << name;
    return function == nullptr ? -1 : function(args...);
  }
  void* device(unsigned index) {
    void* handle = nullptr;
    EXPECT_EQ(call("nvmlDeviceGetHandleByIndex_v2", index, &handle), 0);
    return handle;
  }

  std::string path_, spec_;
  std::vector<Board> board_;
  void* library_ = nullptr;
};

TEST_F(FakeNvml, NeedsInitialisation) {
  unsigned count = 0;
  EXPECT_EQ(call("nvmlDeviceGetCount_v2", &count), 1) << "UNINITIALIZED";
  ASSERT_EQ(call("nvmlInit_v2"), 0);
  EXPECT_EQ(call("nvmlDeviceGetCount_v2", &count), 0);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(call("nvmlShutdown"), 0);
  EXPECT_EQ(call("nvmlDeviceGetCount_v2", &count), 1);
}

TEST_F(FakeNvml, FindsDevicesByIndexAndUuid) {
  ASSERT_EQ(call("nvmlInit_v2"), 0);
  char uuid[96] = {};
  ASSERT_EQ(call("nvmlDeviceGetUUID", device(1), static_cast<char*>(uuid), 96U), 0);
  EXPECT_EQ(board().uuid(1), uuid);
  void* found = nullptr;
  ASSERT_EQ(call("nvmlDeviceGetHandleByUUID", static_cast<const char*>(uuid), &found), 0);
  EXPECT_EQ(found, device(1));
  EXPECT_EQ(call("nvmlDeviceGetUUID", device(1), static_cast<char*>(uuid), 8U), 7) << "INSUFFICIENT_SIZE";
  EXPECT_EQ(call("nvmlDeviceGetHandleByUUID", static_cast<const char*>("GPU-none"), &found), 6) << "NOT_FOUND";
  void* none = nullptr;
  EXPECT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 2U, &none), 2) << "INVALID_ARGUMENT";
}

TEST_F(FakeNvml, ListsClocksDescendingByFifteen) {
  ASSERT_EQ(call("nvmlInit_v2"), 0);
  unsigned count = 0;
  EXPECT_EQ(call("nvmlDeviceGetSupportedMemoryClocks", device(0), &count, static_cast<unsigned*>(nullptr)), 7);
  unsigned memory = 0;
  ASSERT_EQ(call("nvmlDeviceGetSupportedMemoryClocks", device(0), &count, &memory), 0);
  EXPECT_EQ(memory, 1593U);
  count = 0;
  ASSERT_EQ(call("nvmlDeviceGetSupportedGraphicsClocks", device(0), memory, &count, static_cast<unsigned*>(nullptr)),
            7);
  ASSERT_EQ(count, 81U);
  std::vector<unsigned> clocks(count);
  ASSERT_EQ(call("nvmlDeviceGetSupportedGraphicsClocks", device(0), memory, &count, clocks.data()), 0);
  EXPECT_EQ(clocks.front(), 1410U);
  EXPECT_EQ(clocks[1], 1395U);
  EXPECT_EQ(clocks.back(), 210U);
}

TEST_F(FakeNvml, LockTakesEffectAfterTheTransition) {
  ASSERT_EQ(call("nvmlInit_v2"), 0);
  const Instant start = board().now();
  ASSERT_EQ(call("nvmlDeviceSetGpuLockedClocks", device(0), 1005U, 1005U), 0);
  EXPECT_EQ(board().clock(0).ceiling, MegaHertz(1410));
  board().set_time(start + Span::ms(20) - Span(1));
  EXPECT_EQ(board().clock(0).ceiling, MegaHertz(1410));
  board().set_time(start + Span::ms(20));
  EXPECT_EQ(board().clock(0).ceiling, MegaHertz(1005));
  EXPECT_EQ(board().clock(1).ceiling, MegaHertz(1410)) << "the neighbour is left alone";
  unsigned mhz = 0;
  ASSERT_EQ(call("nvmlDeviceGetClockInfo", device(0), 1, &mhz), 0);
  EXPECT_EQ(mhz, 1005U);
  ASSERT_EQ(call("nvmlDeviceResetGpuLockedClocks", device(0)), 0);
  EXPECT_FALSE(board().locked(0));
  EXPECT_EQ(call("nvmlDeviceSetGpuLockedClocks", device(0), 1005U, 900U), 2) << "min above max";
}

TEST_F(FakeNvml, PowerAndEnergyAgree) {
  ASSERT_EQ(call("nvmlInit_v2"), 0);
  const Instant start = kStart;
  board().set_activity(0, Milliwatts(300'000), MegaHertz(1410), 100, Span::s(10));
  unsigned long long before = 0, after = 0;
  ASSERT_EQ(call("nvmlDeviceGetTotalEnergyConsumption", device(0), &before), 0);
  board().set_time(start + Span::s(2));
  ASSERT_EQ(call("nvmlDeviceGetTotalEnergyConsumption", device(0), &after), 0);
  EXPECT_EQ(after - before, 600'000ULL) << "300 W for 2 s, both ends on a refresh edge";
  board().set_time(start + Span::ms(2099));
  ASSERT_EQ(call("nvmlDeviceGetTotalEnergyConsumption", device(0), &after), 0);
  EXPECT_EQ(after - before, 600'000ULL) << "between two refreshes the counter stands still";

  struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, result;
    union {
      double d;
      unsigned u;
      unsigned long long ull;
    } value;
  } fields[2] = {};
  fields[0].id = 186;
  fields[1].id = 185;
  board().set_activity(0, Milliwatts(100'000), MegaHertz(1410), 100, Span::s(10));
  board().set_time(start + Span::ms(2599));
  ASSERT_EQ(call("nvmlDeviceGetFieldValues", device(0), 2, &fields[0]), 0);
  EXPECT_EQ(fields[0].value.u, 100'000U) << "instant";
  EXPECT_EQ(fields[1].value.u, 200'000U) << "mean of half a second at 300 W and half at 100 W";
  EXPECT_EQ(fields[1].result, 0);
}

TEST_F(FakeNvml, InjectedFaultsAnswerAsTheDriverWould) {
  ASSERT_EQ(call("nvmlInit_v2"), 0);
  for (const int code : {3, 4, 10, 15}) {
    board().inject(0, FaultPoint::Set, code, 1);
    EXPECT_EQ(call("nvmlDeviceSetGpuLockedClocks", device(0), 1005U, 1005U), code);
    EXPECT_FALSE(board().locked(0));
  }
  EXPECT_EQ(call("nvmlDeviceSetGpuLockedClocks", device(0), 1005U, 1005U), 0) << "counted faults run out";
  unsigned power = 0;
  board().inject(0, FaultPoint::Get, 15);
  EXPECT_EQ(call("nvmlDeviceGetPowerUsage", device(0), &power), 15);
  EXPECT_EQ(call("nvmlDeviceGetPowerUsage", device(1), &power), 0);
}

TEST(OldDriver, LacksTheNewerSymbols) {
  void* library = dlopen(FAKE_NVML_OLD_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(dlsym(library, "nvmlInit_v2"), nullptr);
  EXPECT_EQ(dlsym(library, "nvmlDeviceSetGpuLockedClocks"), nullptr);
  EXPECT_EQ(dlsym(library, "nvmlDeviceGetTotalEnergyConsumption"), nullptr);
  dlclose(library);
}

}  // namespace
}  // namespace wattle::virtual_gpu
