#include "virtual_gpu/virtual_gpu.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace wattle::virtual_gpu {
namespace {

BoardSpec spec_for(const char* test) {
  BoardSpec spec;
  spec.path = std::string("/dev/shm/wattle-board-") + test + "-" + std::to_string(getpid());
  spec.count = 2;
  return spec;
}

TEST(BoardSpecText, ReadsKeysAndRefusesUnknownOnes) {
  const auto spec = parse_board_spec("/dev/shm/x,name=NVIDIA H100,count=8,clock_max=1980,idle_w=75,transition_ms=5");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->name, "NVIDIA H100");
  EXPECT_EQ(spec->count, 8);
  EXPECT_EQ(spec->clock_max, MegaHertz(1980));
  EXPECT_EQ(spec->idle_power, Milliwatts(75'000));
  EXPECT_EQ(spec->transition_delay, Span::ms(5));
  for (const char* wrong :
       {"", "/x,cuont=2", "/x,count=0", "/x,count=513", "/x,count=two", "/x,clock_max=1400", "/x,name="}) {
    EXPECT_FALSE(parse_board_spec(wrong)) << wrong;
  }
}

TEST(Board, RefusesAFileOfAnotherKind) {
  auto spec = spec_for("not");
  FILE* file = fopen(spec.path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs("precious", file);
  fclose(file);
  EXPECT_FALSE(Board::open(spec));
  unlink(spec.path.c_str());
}

TEST(Board, EnergyIsTheIntegralOfPower) {
  const auto spec = spec_for("integral");
  Board board = Board::open(spec).value();
  const Instant t0(5'000'000'000'000'000);
  board.set_time(t0);
  const Picojoules e0 = board.energy(0);
  Int128 expected = 0;
  Instant t = t0;
  for (int i = 1; i <= 10'000; ++i) {  // more points than the ring holds
    const Milliwatts p(50'000 + i % 977 * 100);
    const Span d = Span::us(i % 31 * 100 + 1);
    board.set_activity(0, p, MegaHertz(1005), 100, Span::s(1));
    t += d;
    expected += Int128{p.value()} * d.ns();
    board.set_time(t);
  }
  EXPECT_EQ(board.energy(0) - e0, Picojoules(expected));
  EXPECT_EQ(board.energy(1) - board.energy(1), Picojoules(0));
  unlink(spec.path.c_str());
}

TEST(Board, AnEngineThatStopsReportingFallsBackToIdleDraw) {
  const auto spec = spec_for("lease");
  Board board = Board::open(spec).value();
  const Instant t0(5'000'000'000'000'000);
  board.set_time(t0);
  const Picojoules e0 = board.energy(0);
  board.set_activity(0, Milliwatts(400'000), MegaHertz(1410), 100, Span::ms(500));
  board.set_time(t0 + Span::ms(499));
  EXPECT_EQ(board.power(0), Milliwatts(400'000));
  board.set_time(t0 + Span::s(2));
  EXPECT_EQ(board.power(0), spec.idle_power);
  EXPECT_EQ(board.engine_pid(0), 0);
  EXPECT_EQ(board.energy(0) - e0, Picojoules(Int128{400'000} * 500'000'000 + Int128{52'000} * 1'500'000'000));
  unlink(spec.path.c_str());
}

TEST(Board, LastOfTwoQuickCommandsWins) {
  const auto spec = spec_for("newest");
  Board board = Board::open(spec).value();
  const Instant t0(5'000'000'000'000'000);
  board.set_time(t0);
  board.lock_clocks(0, MegaHertz(1005), MegaHertz(1005));
  board.set_time(t0 + Span::ms(10));
  board.lock_clocks(0, MegaHertz(1200), MegaHertz(1207));
  EXPECT_EQ(board.clock(0).ceiling, MegaHertz(1410)) << "the first never got there";
  board.set_time(t0 + Span::ms(30));
  EXPECT_EQ(board.clock(0).ceiling, MegaHertz(1200)) << "and 1207 is no step: the one below holds";
  unlink(spec.path.c_str());
}

TEST(Board, SurvivesWritersKilledAtAnyMoment) {
  const auto spec = spec_for("kill");
  Board board = Board::open(spec).value();
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      Board mine = Board::open(spec).value();
      for (;;) mine.set_activity(0, Milliwatts(300'000), MegaHertz(1410), 100, Span::ms(50));
    }
    usleep(static_cast<useconds_t>(1000 + 137 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const Picojoules before = board.energy(0);  // would hang for ever on a mutex that is not robust
    EXPECT_LE(before, board.energy(0));
  }
  unlink(spec.path.c_str());
}

TEST(Board, ManyThreadsShareIt) {
  const auto spec = spec_for("threads");
  Board board = Board::open(spec).value();
  std::thread engine([&] {
    for (int i = 0; i < 2000; ++i) board.set_activity(0, Milliwatts(200'000 + i), MegaHertz(1410), 50, Span::s(1));
  });
  std::thread driver([&] {
    for (int i = 0; i < 2000; ++i) board.lock_clocks(0, MegaHertz(1005), MegaHertz(1005 + 15 * (i % 20)));
  });
  Picojoules last = board.energy(0);
  for (int i = 0; i < 2000; ++i) {
    const Picojoules now = board.energy(0);
    EXPECT_LE(last, now);
    last = now;
    EXPECT_GE(board.energy(0), board.energy_counter(0));
  }
  engine.join();
  driver.join();
  EXPECT_EQ(board.calls(0).sets, 2000);
  unlink(spec.path.c_str());
}

}  // namespace
}  // namespace wattle::virtual_gpu
