#include "workload/counts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/csv.h"
#include "base/timestamp.h"

namespace wattle::workload {

Result<BinCounts> parse_counts(std::string_view text, const std::string& name) {
  constexpr auto kColumns = std::to_array<std::string_view>({"Time", "TIMESTAMP"});
  auto csv = CsvReader::open(text, name, kColumns);
  if (!csv) return std::unexpected(csv.error());
  BinCounts made;
  std::int64_t last = 0;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto at = parse_timestamp(csv->field(0));
    if (!at) return csv->bad_field(0, "it must be a time, like 2024-05-12 00:00:10");
    const auto count = csv->whole(1, 0, 100'000'000);
    if (!count) return std::unexpected(count.error());
    if (made.counts.size() == 1) made.width = Span(*at - last);
    if (!made.counts.empty() && (Span(*at - last) != made.width || made.width <= Span())) {
      return csv->bad_field(0, "bins must be evenly spaced and ascend");
    }
    last = *at;
    made.counts.push_back(static_cast<std::int32_t>(*count));
  }
  if (made.counts.size() < 2) return bad_input(name, "has fewer than two bins");
  return made;
}

namespace {

/// Draws a bin by its share, then evenly within.
class Histogram {
 public:
  struct Bin {
    double low, high, up_to;  ///< share of this and all before
  };
  void add(double low, double high, double share) {
    bins_.push_back({low, high, (bins_.empty() ? 0.0 : bins_.back().up_to) + share});
  }
  [[nodiscard]] double total() const { return bins_.empty() ? 0.0 : bins_.back().up_to; }
  [[nodiscard]] double draw(RandomStream& random) const {
    const double at = random.uniform() * total();
    const auto bin = std::ranges::upper_bound(bins_, at, {}, &Bin::up_to);
    const Bin& found = bin == bins_.end() ? bins_.back() : *bin;
    return found.low + random.uniform() * (found.high - found.low);
  }

 private:
  std::vector<Bin> bins_;
};

class HistogramLengths final : public LengthSource {
 public:
  HistogramLengths(Histogram prompts, Histogram outputs, std::uint64_t seed)
      : prompts_(std::move(prompts)), outputs_(std::move(outputs)), random_(seed, "workload.lengths") {}
  LengthPair draw() override {
    const double prompt = prompts_.draw(random_);
    return {prompt, outputs_.draw(random_)};
  }

 private:
  Histogram prompts_, outputs_;
  RandomStream random_;
};

}  // namespace

Result<std::unique_ptr<LengthSource>> histogram_lengths(std::string_view text, const std::string& name,
                                                        std::string_view service, std::uint64_t seed) {
  constexpr auto kColumns = std::to_array<std::string_view>({"service", "field", "bin_lo", "bin_hi", "share"});
  auto csv = CsvReader::open(text, name, kColumns);
  if (!csv) return std::unexpected(csv.error());
  Histogram prompts, outputs;
  std::string services;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    if (services.find(csv->field(0)) == std::string::npos) {
      services += fmt::format("{}{}", services.empty() ? "" : ", ", csv->field(0));
    }
    std::array<double, 3> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto number = csv->number(2 + i, 0.0, 1e9);
      if (!number) return std::unexpected(number.error());
      numbers[i] = *number;
    }
    if (numbers[1] < numbers[0]) return csv->bad_field(3, "a bin must not end before it begins");
    if (csv->field(0) != service) continue;
    if (csv->field(1) != "ContextTokens" && csv->field(1) != "GeneratedTokens") {
      return csv->bad_field(1, "it must be ContextTokens or GeneratedTokens");
    }
    (csv->field(1) == "ContextTokens" ? prompts : outputs).add(numbers[0], numbers[1], numbers[2]);
  }
  if (!(prompts.total() > 0.0) || !(outputs.total() > 0.0)) {
    return bad_input(name,
                     fmt::format("has no prompt and output lengths of a service '{}'; it has {}", service, services));
  }
  return std::make_unique<HistogramLengths>(std::move(prompts), std::move(outputs), seed);
}

}  // namespace wattle::workload
