#include "workload/lengths.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/csv.h"
#include "workload/trace.h"

namespace wattle::workload {

namespace {
class LogNormal {
 public:
  LogNormal(double mean, double std) {
    const double ratio = std / mean;
    const double variance = std::log1p(ratio * ratio);
    sigma_ = std::sqrt(variance);
    mu_ = std::log(mean) - variance / 2.0;
  }
  double draw(RandomStream& random) const { return std::exp(mu_ + sigma_ * random.normal()); }

 private:
  double mu_ = 0.0;
  double sigma_ = 0.0;
};

class LogNormalLengths final : public LengthSource {
 public:
  LogNormalLengths(const WorkloadOptions& o, std::uint64_t seed)
      : prompt_(o.prompt_mean, o.prompt_std),
        output_(o.output_mean, o.output_std),
        prompt_random_(seed, "workload.prompt-lengths"),
        output_random_(seed, "workload.output-lengths") {}
  LengthPair draw() override { return {prompt_.draw(prompt_random_), output_.draw(output_random_)}; }

 private:
  LogNormal prompt_;
  LogNormal output_;
  RandomStream prompt_random_;
  RandomStream output_random_;
};

class EmpiricalLengths final : public LengthSource {
 public:
  EmpiricalLengths(std::vector<TokenPair> pairs, std::uint64_t seed)
      : pairs_(std::move(pairs)), random_(seed, "workload.length-pairs") {}
  LengthPair draw() override {
    const TokenPair pair = pairs_[random_.below(pairs_.size())];
    return {static_cast<double>(pair.prompt), static_cast<double>(pair.output)};
  }

 private:
  std::vector<TokenPair> pairs_;
  RandomStream random_;
};

class QuantileLengths final : public LengthSource {
 public:
  QuantileLengths(QuantileTable prompts, QuantileTable outputs, std::uint64_t seed)
      : prompts_(std::move(prompts)),
        outputs_(std::move(outputs)),
        prompt_random_(seed, "workload.prompt-lengths"),
        output_random_(seed, "workload.output-lengths") {}
  LengthPair draw() override { return {prompts_.at(prompt_random_.uniform()), outputs_.at(output_random_.uniform())}; }

 private:
  QuantileTable prompts_;
  QuantileTable outputs_;
  RandomStream prompt_random_;
  RandomStream output_random_;
};
}  // namespace

std::unique_ptr<LengthSource> lognormal_lengths(const WorkloadOptions& options, std::uint64_t seed) {
  return std::make_unique<LogNormalLengths>(options, seed);
}

std::unique_ptr<LengthSource> empirical_lengths(std::vector<TokenPair> pairs, std::uint64_t seed) {
  return std::make_unique<EmpiricalLengths>(std::move(pairs), seed);
}

std::unique_ptr<LengthSource> quantile_lengths(QuantileTable prompts, QuantileTable outputs, std::uint64_t seed) {
  return std::make_unique<QuantileLengths>(std::move(prompts), std::move(outputs), seed);
}

Result<std::vector<TokenPair>> parse_pairs(std::string_view text, const std::string& name) {
  static constexpr std::array<std::string_view, 2> kColumns = {
      "prompt_tokens|input_tokens|ContextTokens|num_prefill_tokens|prompt_size|input_length|Request tokens",
      "output_tokens|GeneratedTokens|num_decode_tokens|token_size|output_length|Response tokens"};
  auto csv = CsvReader::open(text, name, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<TokenPair> pairs;
  while (true) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto prompt = csv->whole(0, 1, kMaxTokens);
    if (!prompt) return std::unexpected(prompt.error());
    const auto output = csv->whole(1, 1, kMaxTokens);
    if (!output) return std::unexpected(output.error());
    pairs.push_back({static_cast<std::int32_t>(*prompt), static_cast<std::int32_t>(*output)});
  }
  if (pairs.empty()) return bad_input(csv->where(), "has a header but no rows");
  pairs.shrink_to_fit();
  return pairs;
}

double QuantileTable::at(double probability) const {
  const auto after = std::ranges::upper_bound(points_, probability, {}, &Point::probability);
  if (after == points_.begin()) return points_.front().value;
  if (after == points_.end()) return points_.back().value;
  const Point& low = *(after - 1);
  const double share = (probability - low.probability) / (after->probability - low.probability);
  return low.value + share * (after->value - low.value);
}

double QuantileTable::mean() const {
  double sum = 0.0;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    sum += (points_[i].probability - points_[i - 1].probability) * (points_[i].value + points_[i - 1].value) / 2.0;
  }
  return sum;
}

}  // namespace wattle::workload
