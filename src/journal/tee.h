#pragma once
// Several readers of one stream of records.
#include <utility>
#include <vector>

#include "journal/record.h"

namespace wattle::journal {

/// Hands every record to each sink in order. Does not own them.
class Tee final : public Sink {
 public:
  explicit Tee(std::vector<Sink*> sinks) : sinks_(std::move(sinks)) {}
  void add(Sink* sink) { sinks_.push_back(sink); }

  void joined(const Instance& facts) override {
    for (Sink* sink : sinks_) sink->joined(facts);
  }
  void decision(const DecisionRecord& record) override {
    for (Sink* sink : sinks_) sink->decision(record);
  }
  void plan(const PlanRecord& record) override {
    for (Sink* sink : sinks_) sink->plan(record);
  }
  void outcome(const Outcome& outcome) override {
    for (Sink* sink : sinks_) sink->outcome(outcome);
  }
  void left_behind(const Outcome& so_far) override {
    for (Sink* sink : sinks_) sink->left_behind(so_far);
  }
  void sample(const Sample& sample) override {
    for (Sink* sink : sinks_) sink->sample(sample);
  }
  void stretch(const Stretch& stretch) override {
    for (Sink* sink : sinks_) sink->stretch(stretch);
  }

 private:
  std::vector<Sink*> sinks_;
};

}  // namespace wattle::journal
