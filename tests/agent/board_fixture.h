#pragma once
// A board of virtual GPUs per test, and the environment that leads the fake NVML to it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "fake_nvml/virtual_gpu.h"

namespace wattle {

class BoardFixture : public ::testing::Test {
 protected:
  /// More of the board's spec, e.g. ",count=4".
  [[nodiscard]] virtual std::string spec_suffix() const { return ",count=2,call_ms=0"; }
  void SetUp() override {
    static int serial = 0;
    path_ = "/dev/shm/wattle-agent-test-" + std::to_string(getpid()) + "-" + std::to_string(serial++);
    spec_ = path_ + spec_suffix();
    setenv(fake::kBoardVariable, spec_.c_str(), 1);
    auto opened = fake::Board::open(fake::parse_board_spec(spec_).value());
    ASSERT_TRUE(opened) << opened.error().message();
    board_.emplace(std::move(*opened));
  }
  void TearDown() override {
    board_.reset();
    unlink(path_.c_str());
  }
  fake::Board& board() { return *board_; }

  std::string path_, spec_;
  std::optional<fake::Board> board_;
};

}  // namespace wattle
