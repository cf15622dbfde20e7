#pragma once
// The rare events to come, in order.
#include <cstdint>
#include <queue>
#include <vector>

#include "sim/event.h"

namespace wattle::sim {

class Agenda {
 public:
  /// Of events of one class at one instant the one pushed first comes first: `sequence` is set here.
  void push(Event event) {
    event.sequence = sequence_++;
    events_.push(event);
  }
  /// never() when nothing is to come.
  [[nodiscard]] Instant next() const { return events_.empty() ? Instant::never() : events_.top().at; }
  Event pop() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }
  [[nodiscard]] std::size_t size() const { return events_.size(); }

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t sequence_ = 0;
};

}  // namespace wattle::sim
