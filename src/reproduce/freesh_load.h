#pragma once
// The load of FREESH's testbed in its episodes, reconstructed from its release and the trace behind it.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "plan/pools_csv.h"
#include "workload/options.h"

namespace wattle::reproduce::freesh {

/// How requests are kept apart (Table 4).
struct Cuts {
  std::int64_t prompt = 25, answer = 232;
};
[[nodiscard]] Cuts cuts_of(std::size_t partition);

/// The mean of a Poisson rate whose busiest 5 s of 5 minutes are expected to have this rate. Both requests per second.
[[nodiscard]] double mean_of_peak(double peak_per_s);

/// Requests of these half hours of the released day, one after the other, arrivals from zero on; `scale` times what the
/// testbed got.
///
/// When: the released peaks are those of 12 May 2024 in Azure's conversation trace (its busiest 10 s of every 5 minutes
/// correlate with their sum by 0.98, at no other day or offset as well); its counts of 10 s are thinned by beta,
/// "applied traffic = traffic prediction / beta". Which type: shares of the rates whose busiest 5 s the released peaks
/// are. How long: real prompts and answers of that type (LMSYS with Llama), answers stretched so that their mean is
/// what the release's ratings tell, (E2E - TTFT) / TBT, the median of the A100 modes that can serve the type. Errors:
/// WATTLE_DATA not set, no such file, a type without any real request.
[[nodiscard]] Result<std::vector<workload::TraceRow>> draw_load(const plan::PoolsData& data, std::size_t partition,
                                                                const std::vector<std::size_t>& windows, double scale,
                                                                std::uint64_t seed);

}  // namespace wattle::reproduce::freesh
