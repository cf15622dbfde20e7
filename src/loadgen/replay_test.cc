#include "loadgen/replay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "net/server.h"

namespace wattle::loadgen {
namespace {

/// Answers every second request in full; of the others it sends a token and no end.
class HalfDeaf {
 public:
  HalfDeaf() {
    server_ = std::move(*net::HttpServer::listen(pool_, {}, [this](std::shared_ptr<net::Exchange> e) {
      e->begin(200, "text/event-stream");
      e->write("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
      if (heard_++ % 2 == 0) {
        e->write("data: [DONE]\n\n");
        e->finish();
      } else {
        held_.push_back(std::move(e));
      }
    }));
  }
  ~HalfDeaf() {
    server_.reset();
    pool_.stop();
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  [[nodiscard]] int heard() const { return heard_; }

 private:
  net::LoopPool pool_{1};
  std::atomic<int> heard_{0};
  std::vector<std::shared_ptr<net::Exchange>> held_;  // on the loop only
  std::unique_ptr<net::HttpServer> server_;
};

/// Four rows at once, and one in an hour.
std::function<std::optional<ReplayRow>()> rows() {
  return [n = 0]() mutable -> std::optional<ReplayRow> {
    if (n++ >= 5) return std::nullopt;
    return ReplayRow{.at = n <= 4 ? Instant(n) : Instant() + Span::s(3600)};
  };
}

ReplayOptions to(const HalfDeaf& engine) {
  ReplayOptions options;
  options.url = engine.url();
  options.slo.ttft = Span::s(600);
  return options;
}

void expect_what_was_sent(const Result<ReplayReport>& report) {
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->interrupted);
  EXPECT_EQ(report->sent, Span::ns(5));
  const auto& requests = report->summary.requests;
  EXPECT_EQ(requests.arrived, 4);
  EXPECT_EQ(requests.finished, 2);
  EXPECT_EQ(requests.cancelled, 2);
  EXPECT_EQ(requests.in_flight, 0);
  EXPECT_EQ(report->failures.at("interrupted"), 2);
  EXPECT_DOUBLE_EQ(report->summary.slo.ttft, 0.5);
}

TEST(Replay, KeepsWhatItHasMeasuredWhenItIsEnded) {
  HalfDeaf engine;
  ReplayOptions options = to(engine);
  options.drain = Span();
  std::atomic<bool> half_done{false};
  options.ending = [&half_done] { return half_done ? Ending::Drain : Ending::None; };
  expect_what_was_sent(replay(rows(), options, [&half_done](const ReplayProgress& progress) {
    if (progress.summary.requests.finished == 2) half_done = true;
  }));
}

TEST(Replay, DoesNotWaitForStreamsThatAreToEndAtOnce) {
  HalfDeaf engine;
  ReplayOptions options = to(engine);
  options.drain = Span::s(3600);
  std::atomic<int> asked{0};
  std::atomic<bool> half_done{false};
  options.ending = [&] {
    if (!half_done) return Ending::None;
    return asked++ == 0 ? Ending::Drain : Ending::AtOnce;
  };
  expect_what_was_sent(replay(rows(), options, [&half_done](const ReplayProgress& progress) {
    if (progress.summary.requests.finished == 2) half_done = true;
  }));
  EXPECT_GE(asked, 2);
}

TEST(Replay, ThatNobodyEndsIsNotInterrupted) {
  HalfDeaf engine;
  const auto report =
      replay([n = 0]() mutable { return n++ == 0 ? std::optional(ReplayRow{}) : std::nullopt; }, to(engine), nullptr);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_FALSE(report->interrupted);
  EXPECT_EQ(report->summary.requests.finished, 1);
}

}  // namespace
}  // namespace wattle::loadgen
