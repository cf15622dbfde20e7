#pragma once
// The newest decisions of a process. Thread-safe.
#include "journal/record.h"
#include "node/newest.h"

namespace wattle::node {

class DecisionRing final : public journal::Sink {
 public:
  using Batch = Newest<journal::DecisionRecord>::Batch;
  explicit DecisionRing(std::size_t capacity = 4096) : newest_(capacity) {}

  void decision(const journal::DecisionRecord& record) override { newest_.add(record); }
  [[nodiscard]] Batch since(std::int64_t from) const { return newest_.since(from); }

 private:
  Newest<journal::DecisionRecord> newest_;
};

}  // namespace wattle::node
