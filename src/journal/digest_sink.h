#pragma once
// One number that says whether two runs decided and ended alike: `journal_digest`.
#include <cstdint>

#include "base/digest.h"
#include "journal/record.h"

namespace wattle::journal {

/// Folds every decision and outcome (all fields, reasons by their text) in the order they arrive. Samples and stretches
/// are observations at a chosen resolution and are left out. Bounded memory.
class DigestSink final : public Sink {
 public:
  void decision(const DecisionRecord& record) override;
  void plan(const PlanRecord& record) override;
  void outcome(const Outcome& outcome) override;
  [[nodiscard]] std::uint64_t value() const { return digest_.value(); }

 private:
  Digest digest_;
};

}  // namespace wattle::journal
