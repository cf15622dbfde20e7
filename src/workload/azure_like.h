#pragma once
// A stand-in for the Azure LLM inference trace of November 2023 (conversation), for when the data set is not at hand.
#include <cstdint>
#include <memory>

#include "workload/lengths.h"

namespace wattle::workload {

/// What is kept of the trace: summary statistics, no rows. Arrivals are Gamma with this rate and coefficient of
/// variation; prompt and output lengths are independent (their rank correlation in the trace is 0.07) and follow
/// piecewise-linear quantile tables of the published distribution.
struct AzureConversation {
  static constexpr std::int64_t kRequests = 19'366;
  static constexpr double kRatePerSecond = 5.53;  ///< 3,502 s in all
  static constexpr double kArrivalCv = 1.094;
};

[[nodiscard]] std::unique_ptr<LengthSource> azure_conversation_lengths(std::uint64_t seed);

}  // namespace wattle::workload
