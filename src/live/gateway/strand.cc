#include "live/gateway/strand.h"

#include <algorithm>
#include <future>

#include "live/clock.h"

namespace wattle::live {

ControlStrand::ControlStrand(control::DispatchPolicies policies, std::uint64_t seed, const CoreOptions& options,
                             journal::Sink& sink)
    : core_({}, std::move(policies), seed, options, *this, sink) {}

void ControlStrand::arrive(const Request& request, std::shared_ptr<Passenger> passenger) {
  Event event;
  event.kind = Kind::Arrive;
  event.request = request;
  event.passenger = std::move(passenger);
  post(std::move(event));
}

void ControlStrand::prefill_done(RequestId id) {
  Event event;
  event.kind = Kind::PrefillDone;
  event.id = id;
  post(std::move(event));
}

void ControlStrand::leave(RequestId id, Fate fate, const char* reason, const TokenTally& tally) {
  Event event;
  event.kind = Kind::Leave;
  event.id = id;
  event.fate = fate;
  event.reason = reason;
  event.tally = tally;
  post(std::move(event));
}

void ControlStrand::run(std::function<void(Core&, Instant)> task) {
  Event event;
  event.task = std::move(task);
  post(std::move(event));
}

void ControlStrand::run_and_wait(std::function<void(Core&, Instant)> task) {
  auto done = std::make_shared<std::promise<void>>();
  auto finished = done->get_future();
  run([done, inner = std::move(task)](Core& core, Instant now) {
    inner(core, now);
    done->set_value();
  });
  finished.wait();
}

void ControlStrand::post(Event event) {
  std::vector<Event> batch;
  std::vector<Delivery> deliveries;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(event));
    if (busy_) return;  // whoever is in there takes it along
    busy_ = true;
    batch.swap(queue_);
  }
  for (;;) {
    for (Event& e : batch) handle(e);
    std::ranges::move(outgoing_, std::back_inserter(deliveries));
    outgoing_.clear();
    batch.clear();
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) {
      busy_ = false;
      break;
    }
    batch.swap(queue_);
  }
  // Sending bytes takes far longer than deciding: not while others wait for the strand.
  for (const Delivery& delivery : deliveries) deliver(delivery);
}

void ControlStrand::handle(Event& event) {
  const Instant now = last_now_ = std::max(last_now_, steady_now());
  switch (event.kind) {
    case Kind::Arrive:
      passengers_.emplace(event.request.id.value(), std::move(event.passenger));
      core_.arrive(event.request, now);
      break;
    case Kind::PrefillDone:
      core_.prefill_done(event.id, now);
      break;
    case Kind::Leave:
      passengers_.erase(event.id.value());
      core_.leave(event.id, event.fate, event.reason, event.tally, now);
      break;
    case Kind::Run:
      event.task(core_, now);
      break;
  }
}

void ControlStrand::say(Word word, RequestId id, InstanceId instance, Refusal refusal, const char* reason) {
  const auto found = passengers_.find(id.value());
  if (found == passengers_.end()) return;
  outgoing_.push_back({word, found->second,
                       instance == kNoInstance ? nullptr : workers_[static_cast<std::size_t>(instance.value())],
                       refusal, reason});
  if (word == Word::Refuse) passengers_.erase(found);
}

void ControlStrand::start(RequestId id, InstanceId instance, Instant) {
  say(Word::Start, id, instance, Refusal::Busy, "");
}
void ControlStrand::hand_over(RequestId id, InstanceId, InstanceId decode, Instant) {
  say(Word::HandOver, id, decode, Refusal::Busy, "");
}
void ControlStrand::refuse(RequestId id, Refusal refusal, const char* reason, Instant) {
  say(Word::Refuse, id, kNoInstance, refusal, reason);
}

void ControlStrand::deliver(const Delivery& delivery) {
  const auto speak = [](const Delivery& d) {
    switch (d.word) {
      case Word::Start:
        d.passenger->on_start(d.worker);
        break;
      case Word::HandOver:
        d.passenger->on_hand_over(d.worker);
        break;
      case Word::Refuse:
        d.passenger->on_refuse(d.refusal, d.reason);
        break;
    }
  };
  if (delivery.passenger->loop().in_this_thread()) {
    speak(delivery);
  } else {
    delivery.passenger->loop().post([delivery, speak] { speak(delivery); });
  }
}

}  // namespace wattle::live
