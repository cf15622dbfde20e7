#pragma once
// A workload cut off after so much of its own time.
#include <memory>
#include <utility>

#include "units/time.h"
#include "workload/source.h"

namespace wattle::workload {

/// What arrives within `length` (Span::max(): all of it) of the run's own time.
class FirstPart final : public RequestSource {
 public:
  FirstPart(std::unique_ptr<RequestSource> whole, Span length) : whole_(std::move(whole)), length_(length) {}
  std::optional<TraceRow> next() override {
    auto row = over_ ? std::nullopt : whole_->next();
    over_ = !row || (length_ != Span::max() && row->arrival >= Instant() + length_);
    return over_ ? std::nullopt : row;
  }
  [[nodiscard]] WorkloadStats stats() const override { return whole_->stats(); }

 private:
  std::unique_ptr<RequestSource> whole_;
  Span length_;
  bool over_ = false;
};

}  // namespace wattle::workload
