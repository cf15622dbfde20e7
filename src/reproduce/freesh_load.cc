#include "reproduce/freesh_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>

#include "base/csv.h"
#include "base/random.h"
#include "reproduce/freesh.h"

namespace wattle::reproduce::freesh {

namespace {

constexpr double kSlotLength_s = 300.0, kBin_s = 10.0, kPeakBin_s = 5.0;
constexpr auto kBins = static_cast<std::size_t>(kSlotLength_s / kBin_s);

struct Pair {
  std::int32_t prompt, answer;
};

Result<std::vector<Pair>> real_lengths() {
  const auto file = published_file("length-stats/apex_llama_lmsys_05.csv");
  if (!file) return std::unexpected(file.error());
  constexpr std::array<std::string_view, 2> kColumns{"input_tokens", "output_tokens"};
  auto csv = CsvReader::open(file->text, file->path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<Pair> pairs;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return pairs;
    const auto prompt = csv->whole(0, 0, 1'000'000);
    const auto answer = csv->whole(1, 0, 1'000'000);
    if (!prompt) return std::unexpected(prompt.error());
    if (!answer) return std::unexpected(answer.error());
    if (*prompt > 0 && *answer > 0) {
      pairs.push_back({static_cast<std::int32_t>(*prompt), static_cast<std::int32_t>(*answer)});
    }
  }
}

/// Requests of every 10 s of the day.
Result<std::vector<std::int64_t>> counts_of_day() {
  const auto file = published_file("azure-llm-2024-counts/invocations_ten_second_Conversation.csv");
  if (!file) return std::unexpected(file.error());
  constexpr std::array<std::string_view, 2> kColumns{"Time", "TIMESTAMP"};
  auto csv = CsvReader::open(file->text, file->path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<std::int64_t> counts;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more || !csv->field(0).starts_with("2024-05-12")) return counts;
    const auto count = csv->whole(1, 0, 1'000'000);
    if (!count) return std::unexpected(count.error());
    counts.push_back(*count);
  }
}

/// Tokens of a mean answer of this type, by the release's ratings.
Result<double> rated_answer(std::size_t partition, const std::string& type) {
  const auto file = published_file("LLM_Serving_FREESH/pool_profile_llama3_70b.csv");
  if (!file) return std::unexpected(file.error());
  constexpr std::array<std::string_view, 7> kColumns{"partition",          "request_type", "gpu",        "max_qps",
                                                     "mean_e2e_latency_s", "mean_ttft_ms", "mean_tbt_ms"};
  auto csv = CsvReader::open(file->text, file->path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<double> tokens;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    if (csv->field(0) != std::to_string(partition + 1) || csv->field(1) != type || csv->field(2) != "A100") continue;
    std::array<double, 4> values{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = csv->number(i + 3, 0.0, 1e9);
      if (!value) return std::unexpected(value.error());
      values[i] = *value;
    }
    const auto [rate, e2e_s, ttft_ms, tbt_ms] = values;
    if (rate > 0.0 && tbt_ms > 0.0) tokens.push_back((1e3 * e2e_s - ttft_ms) / tbt_ms);
  }
  if (tokens.empty()) return bad_input(file->path, fmt::format("no A100 mode serves type {}", type));
  std::ranges::sort(tokens);
  const std::size_t n = tokens.size();
  return 0.5 * (tokens[(n - 1) / 2] + tokens[n / 2]);
}

/// "SL": a short prompt, a long answer.
bool is_long(const std::string& type, std::size_t letter) { return type.size() > letter && type[letter] == 'L'; }

/// Real requests of a type, with answers as long in the mean as those the release rates workers with.
Result<std::vector<Pair>> requests_of(const std::vector<Pair>& lengths, std::size_t partition,
                                      const std::string& type) {
  const Cuts cuts = cuts_of(partition);
  std::vector<Pair> fitting;
  double sum = 0.0;
  for (const Pair& pair : lengths) {
    if ((pair.prompt >= cuts.prompt) != is_long(type, 0) || (pair.answer >= cuts.answer) != is_long(type, 1)) continue;
    fitting.push_back(pair);
    sum += pair.answer;
  }
  if (fitting.empty()) return bad_input(type, "no real prompt and answer of this type");
  const auto rated = rated_answer(partition, type);
  if (!rated) return std::unexpected(rated.error());
  const double stretch = *rated * static_cast<double>(fitting.size()) / sum;
  for (Pair& pair : fitting) {
    const auto answer = std::llround(stretch * pair.answer);
    const auto cut = static_cast<std::int64_t>(cuts.answer);
    pair.answer = static_cast<std::int32_t>(is_long(type, 1) ? std::max<std::int64_t>(answer, cut)
                                                             : std::clamp<std::int64_t>(answer, 1, cut - 1));
  }
  return fitting;
}

/// The expected maximum of so many Poisson numbers of this mean.
double mean_of_largest(int numbers, double mean) {
  double sum = 0.0, below = 0.0, term = std::exp(-mean);
  for (int k = 0; k < 100'000; ++k) {
    below = std::min(1.0, below + term);
    const double largest_beyond = 1.0 - std::pow(below, numbers);
    sum += largest_beyond;
    if (k > mean && largest_beyond < 1e-9) break;
    term *= mean / (k + 1.0);
  }
  return sum;
}

}  // namespace

Cuts cuts_of(std::size_t partition) { return partition == 0 ? Cuts{184, 444} : Cuts{25, 232}; }

double mean_of_peak(double peak_per_s) {
  constexpr int kPeakBins = static_cast<int>(kSlotLength_s / kPeakBin_s);
  double low = 0.0, high = peak_per_s * kPeakBin_s;
  for (int i = 0; i < 50; ++i) {
    const double middle = 0.5 * (low + high);
    (mean_of_largest(kPeakBins, middle) < peak_per_s * kPeakBin_s ? low : high) = middle;
  }
  return low / kPeakBin_s;
}

Result<std::vector<workload::TraceRow>> draw_load(const plan::PoolsData& data, std::size_t partition,
                                                  const std::vector<std::size_t>& windows, double scale,
                                                  std::uint64_t seed) {
  const auto lengths = real_lengths();
  if (!lengths) return std::unexpected(lengths.error());
  const auto counts = counts_of_day();
  if (!counts) return std::unexpected(counts.error());
  RandomStream random(seed, "freesh.load");
  std::vector<workload::TraceRow> rows;
  double begin = 0.0;
  for (const std::size_t w : windows) {
    const auto problem = data.window(w * kSlotsPerWindow, kSlotsPerWindow, 1.0);
    const auto& types = problem.partitions[partition].types;
    std::vector<std::vector<Pair>> of;
    for (const auto& type : types) {
      auto fitting = requests_of(*lengths, partition, type.name);
      if (!fitting) return std::unexpected(fitting.error());
      of.push_back(std::move(*fitting));
    }
    for (std::size_t s = 0; s < kSlotsPerWindow; ++s) {
      std::vector<double> upto;
      for (const auto& type : types) upto.push_back(mean_of_peak(type.demand_per_s[s]));
      std::partial_sum(upto.begin(), upto.end(), upto.begin());
      for (std::size_t b = 0; b < kBins; ++b, begin += kBin_s) {
        const std::size_t bin = (w * kSlotsPerWindow + s) * kBins + b;
        if (bin >= counts->size()) return bad_input("windows", fmt::format("the trace's day has no window {}", w));
        const double wanted = static_cast<double>((*counts)[bin]) * scale / kBeta;
        const double whole = std::floor(wanted);
        const auto many = static_cast<std::int64_t>(whole) + (random.uniform() < wanted - whole ? 1 : 0);
        for (std::int64_t i = 0; i < many; ++i) {
          const double draw = random.uniform() * upto.back();
          const auto last = static_cast<std::ptrdiff_t>(upto.size()) - 1;
          const auto r = static_cast<std::size_t>(std::min(std::ranges::upper_bound(upto, draw) - upto.begin(), last));
          const Pair& pair = of[r][random.below(of[r].size())];
          const double at = begin + kBin_s * random.uniform();
          rows.push_back({Instant() + Span::from_seconds(at), pair.prompt, pair.answer});
        }
      }
    }
  }
  std::ranges::stable_sort(rows, {}, &workload::TraceRow::arrival);
  return rows;
}

}  // namespace wattle::reproduce::freesh
