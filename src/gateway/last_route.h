#pragma once
// The reason of the newest routing decision, on its way to the journal: so that the request it is about can say why it
// went where it went.
#include "journal/record.h"

namespace wattle::gateway {

class LastRoute final : public journal::Sink {
 public:
  explicit LastRoute(journal::Sink& next) : next_(next) {}

  /// Static text.
  [[nodiscard]] const char* reason_for(RequestId request) const {
    return request_ == request ? reason_ : "least assigned";  // what is done where no policy is asked
  }

  void joined(const journal::Instance& facts) override { next_.joined(facts); }
  void decision(const journal::DecisionRecord& record) override {
    using enum journal::DecisionKind;
    if ((record.kind == RoutePrefill || record.kind == RouteDecode) && record.mode == Mode::Enforce) {
      request_ = record.request;
      reason_ = record.reason;
    }
    next_.decision(record);
  }
  void plan(const journal::PlanRecord& record) override { next_.plan(record); }
  void outcome(const Outcome& outcome) override { next_.outcome(outcome); }
  void sample(const journal::Sample& sample) override { next_.sample(sample); }
  void stretch(const journal::Stretch& stretch) override { next_.stretch(stretch); }

 private:
  journal::Sink& next_;
  RequestId request_{-1};
  const char* reason_ = "";
};

}  // namespace wattle::gateway
