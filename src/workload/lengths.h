#pragma once
// Where synthetic requests get their prompt and output lengths.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "workload/options.h"

namespace wattle::workload {

struct LengthPair {
  double prompt = 0.0;  ///< tokens, not yet rounded or clamped
  double output = 0.0;
};

class LengthSource {
 public:
  virtual ~LengthSource() = default;
  [[nodiscard]] virtual LengthPair draw() = 0;
};

/// Independent lognormals whose mean and standard deviation are the given ones (moment-matched):
/// sigma^2 = ln(1 + (std/mean)^2), mu = ln(mean) - sigma^2/2. A std of 0 gives the mean each time.
[[nodiscard]] std::unique_ptr<LengthSource> lognormal_lengths(const WorkloadOptions& options, std::uint64_t seed);

/// Pairs drawn with replacement, so a long prompt keeps its own output. 8 bytes a pair are kept.
struct TokenPair {
  std::int32_t prompt = 0;
  std::int32_t output = 0;
};
[[nodiscard]] std::unique_ptr<LengthSource> empirical_lengths(std::vector<TokenPair> pairs, std::uint64_t seed);

/// Reads pairs from any CSV with a prompt and an output column under one of the names traces use
/// (input_tokens/output_tokens, ContextTokens/GeneratedTokens, ...). Errors as for traces.
[[nodiscard]] Result<std::vector<TokenPair>> parse_pairs(std::string_view text, const std::string& name);

/// A distribution given by its quantiles: (probability, value) points from probability 0 to 1, straight lines between.
class QuantileTable {
 public:
  struct Point {
    double probability;
    double value;
  };
  explicit QuantileTable(std::vector<Point> points) : points_(std::move(points)) {}
  [[nodiscard]] double at(double probability) const;
  [[nodiscard]] double mean() const;

 private:
  std::vector<Point> points_;
};

/// Prompt and output drawn independently, each from its table.
[[nodiscard]] std::unique_ptr<LengthSource> quantile_lengths(QuantileTable prompts, QuantileTable outputs,
                                                             std::uint64_t seed);

}  // namespace wattle::workload
