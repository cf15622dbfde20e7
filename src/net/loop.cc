#include "net/loop.h"

#include <boost/asio/post.hpp>
#include <chrono>

#include "net/faults.h"
#include "net/loop_impl.h"

namespace wattle::net {

namespace {

std::chrono::nanoseconds chrono_of(Span d) { return std::chrono::nanoseconds(d.ns()); }

struct Ticker : std::enable_shared_from_this<Ticker> {
  asio::steady_timer timer;
  Span period;
  std::function<void()> task;
  Ticker(asio::io_context& context, Span p, std::function<void()> t) : timer(context), period(p), task(std::move(t)) {}
  void arm() {
    timer.expires_after(chrono_of(period));
    timer.async_wait([self = shared_from_this()](error_code ec) {
      if (ec) return;
      try {
        self->task();
      } catch (...) {
        count_fault("a timer");
      }
      self->arm();
    });
  }
};

}  // namespace

Loop::Loop() : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([impl = impl_.get()] {
    // A callback that throws is over; those of other connections go on.
    while (!impl->context.stopped()) {
      try {
        impl->context.run();
      } catch (...) {
        count_fault("an event loop");
      }
    }
  });
}

Loop::~Loop() { stop(); }

void Loop::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->context.stop();
  impl_->thread.join();
}

void Loop::post(std::function<void()> task) { asio::post(impl_->context, std::move(task)); }

void Loop::after(Span delay, std::function<void()> task) {
  post([this, delay, run = std::move(task)]() mutable {
    auto timer = std::make_shared<asio::steady_timer>(impl_->context, chrono_of(delay));
    timer->async_wait([timer, done = std::move(run)](error_code ec) {
      if (!ec) done();
    });
  });
}

void Loop::every(Span period, std::function<void()> task) {
  post([this, period, run = std::move(task)]() mutable {
    std::make_shared<Ticker>(impl_->context, period, std::move(run))->arm();
  });
}

bool Loop::in_this_thread() const { return impl_->thread.get_id() == std::this_thread::get_id(); }

LoopPool::LoopPool(int threads) {
  for (int i = 0; i < threads; ++i) loops_.push_back(std::make_unique<Loop>());
}

void LoopPool::stop() {
  for (auto& loop : loops_) loop->stop();
}

}  // namespace wattle::net
