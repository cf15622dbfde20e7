#pragma once
// A board of virtual GPUs per test, and the environment that leads the fake NVML to it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "virtual_gpu/virtual_gpu.h"

namespace wattle {

class BoardFixture : public ::testing::Test {
 protected:
  /// More of the board's spec, e.g. ",count=4".
  [[nodiscard]] virtual std::string spec_suffix() const { return ",count=2,call_ms=0"; }
  void SetUp() override {
    std::string folder = "/dev/shm/wattle-agent-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder + "/board";
    spec_ = path_ + spec_suffix();
    setenv(virtual_gpu::kBoardVariable, spec_.c_str(), 1);
    auto opened = virtual_gpu::Board::open(virtual_gpu::parse_board_spec(spec_).value());
    ASSERT_TRUE(opened) << opened.error().message();
    board_.emplace(std::move(*opened));
  }
  void TearDown() override {
    board_.reset();
    // The whole folder: a guardian that is only now starting must not create a board of its own.
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  virtual_gpu::Board& board() { return *board_; }

  std::string folder_, path_, spec_;
  std::optional<virtual_gpu::Board> board_;
};

}  // namespace wattle
