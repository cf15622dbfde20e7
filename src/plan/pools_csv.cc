#include "plan/pools_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/check.h"
#include "base/csv.h"

namespace wattle::plan {

namespace {

constexpr double kLargest = 1e9;  ///< of any watts, rates and latencies; larger numbers are the wrong unit

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::vector<std::string_view> split_plus(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto plus = text.find('+');
    parts.push_back(text.substr(0, plus));
    if (plus == std::string_view::npos) return parts;
    text.remove_prefix(plus + 1);
  }
}

template <typename Named>
std::size_t find_or_add(std::vector<Named>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Named::name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  all.emplace_back().name = name;
  return all.size() - 1;
}

std::size_t find_or_add(std::vector<std::string>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  all.emplace_back(name);
  return all.size() - 1;
}

std::vector<std::string_view> views(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

/// Names of the header, whatever they are.
Result<std::vector<std::string>> header_of(const NamedText& text) {
  const auto csv = CsvReader::open(text.text, text.name, {});
  if (!csv) return std::unexpected(csv.error());
  return std::vector<std::string>(csv->header().begin(), csv->header().end());
}

/// A series of every column but `slot_5min`, from that slot on.
struct Series {
  std::size_t first = 0;
  std::vector<std::vector<double>> of;
};

/// The rows of a series: `slot_5min` counts up by one, and one number in every other column.
Result<Series> read_series(const NamedText& text, const std::vector<std::string>& columns, double low, double high,
                           std::vector<std::string>* spelled) {
  std::vector<std::string> wanted = {"slot_5min"};
  wanted.insert(wanted.end(), columns.begin(), columns.end());
  const auto wanted_views = views(wanted);
  auto csv = CsvReader::open(text.text, text.name, wanted_views);
  if (!csv) return std::unexpected(csv.error());
  Series series;
  series.of.resize(columns.size());
  if (spelled != nullptr) {
    for (std::size_t i = 0; i < columns.size(); ++i) spelled->emplace_back(csv->column(i + 1));
  }
  for (std::int64_t slot = -1;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto number = csv->whole(0, 0, std::int64_t{1} << 40);
    if (!number) return std::unexpected(number.error());
    if (slot < 0) series.first = static_cast<std::size_t>(*number);
    if (slot >= 0 && *number != slot) {
      return csv->bad_field(0, fmt::format("slots count up by one without gaps: {} is next", slot));
    }
    slot = *number + 1;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto value = csv->number(i + 1, low, high);
      if (!value) return std::unexpected(value.error());
      series.of[i].push_back(*value);
    }
  }
  if (columns.empty() || series.of[0].empty()) return bad_input(text.name, "has no rows; it needs one for each slot");
  return series;
}

/// Fills `whole` step by step.
class Reader {
 public:
  Reader(const PoolsTexts& texts, double idle_share) : texts_(texts), idle_share_(idle_share) {}

  Result<PoolsProblem> run() {
    if (auto ok = profile(); !ok) return std::unexpected(ok.error());
    if (auto ok = slo(); !ok) return std::unexpected(ok.error());
    if (auto ok = capacity(); !ok) return std::unexpected(ok.error());
    if (auto ok = demand(); !ok) return std::unexpected(ok.error());
    if (auto ok = emissions(); !ok) return std::unexpected(ok.error());
    if (auto ok = prices(); !ok) return std::unexpected(ok.error());
    return std::move(whole_);
  }
  [[nodiscard]] std::size_t first_slot() const { return first_; }

 private:
  struct Row {
    std::size_t partition, type, mode;
    WorkerRating rating;
  };

  Result<void> profile() {
    const auto header = header_of(texts_.profile);
    if (!header) return std::unexpected(header.error());
    const bool has_idle = std::ranges::find(*header, "idle_power_w") != header->end();
    std::vector<std::string_view> columns = {"partition",    "request_type",    "mode",           "tp",
                                             "gpu",          "gpus_per_worker", "worker_power_w", "max_qps",
                                             "mean_ttft_ms", "mean_tbt_ms"};
    if (has_idle) columns.emplace_back("idle_power_w");
    auto csv = CsvReader::open(texts_.profile.text, texts_.profile.name, columns);
    if (!csv) return std::unexpected(csv.error());
    std::vector<Row> rows;
    for (;;) {
      const auto more = csv->next();
      if (!more) return std::unexpected(more.error());
      if (!*more) break;
      if (auto ok = profile_row(*csv, has_idle, rows); !ok) return ok;
    }
    if (rows.empty()) return bad_input(texts_.profile.name, "has no rows");
    for (WorkerMode& mode : whole_.modes) mode.gpus.resize(whole_.kinds.size(), 0);
    for (RequestPartition& partition : whole_.partitions) {
      for (PoolType& type : partition.types) type.ratings.resize(whole_.modes.size());
    }
    for (const Row& row : rows) whole_.partitions[row.partition].types[row.type].ratings[row.mode] = row.rating;
    return {};
  }

  Result<void> profile_row(const CsvReader& csv, bool has_idle, std::vector<Row>& rows) {
    const auto mode = mode_of(csv);
    if (!mode) return std::unexpected(mode.error());
    std::array<double, 5> numbers{};  // power, rate, TTFT, TBT, idle
    for (std::size_t i = 0; i < (has_idle ? 5U : 4U); ++i) {
      const auto value = csv.number(6 + i, 0.0, kLargest);
      if (!value) return std::unexpected(value.error());
      numbers[i] = *value;
    }
    const auto& [power, rate, ttft_ms, tbt_ms, idle] = numbers;
    if (rate > 0.0 && power <= 0.0) return csv.bad_field(6, "a worker that serves draws power");
    for (const std::size_t name : {0U, 1U}) {
      if (csv.field(name).empty()) return csv.bad_field(name, "it needs a name");
    }
    if (has_idle && idle > power) return csv.bad_field(10, "idle power is at most worker_power_w");
    Row row;
    row.partition = find_or_add(whole_.partitions, csv.field(0));
    row.type = find_or_add(whole_.partitions[row.partition].types, csv.field(1));
    row.mode = *mode;
    const auto twice = [&](const Row& r) {
      return r.partition == row.partition && r.type == row.type && r.mode == row.mode;
    };
    if (std::ranges::any_of(rows, twice)) return csv.bad_field(2, "this partition, type and mode already have a row");
    row.rating = {.peak = Watts(power),
                  .idle = Watts(has_idle ? idle : idle_share_ * power),
                  .max_per_s = rate,
                  .ttft = Span::from_seconds(ttft_ms * 1e-3),
                  .tbt = Span::from_seconds(tbt_ms * 1e-3)};
    rows.push_back(row);
    return {};
  }

  Result<std::size_t> mode_of(const CsvReader& csv) {
    WorkerMode mode;
    mode.name = fmt::format("{}:{}-{}", csv.field(2), csv.field(3), csv.field(4));
    const auto kinds = split_plus(csv.field(4)), counts = split_plus(csv.field(5));
    if (kinds.size() != counts.size()) return csv.bad_field(5, "one count for each kind in the gpu column, as in 2+4");
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      int count = 0;
      const auto end = counts[i].data() + counts[i].size();
      const auto [at, error] = std::from_chars(counts[i].data(), end, count);
      constexpr int kMostGpus = 1024;
      if (error != std::errc() || at != end || count < 1 || count > kMostGpus) {
        return csv.bad_field(5, "a count of GPUs is a whole number from 1 to 1024");
      }
      const std::size_t kind = find_or_add(whole_.kinds, kinds[i]);
      mode.gpus.resize(std::max(mode.gpus.size(), kind + 1), 0);
      mode.gpus[kind] += count;
    }
    const std::string id(csv.field(2));
    const auto known = modes_.find(id);
    if (known == modes_.end()) {
      modes_[id] = whole_.modes.size();
      whole_.modes.push_back(mode);
      return whole_.modes.size() - 1;
    }
    const WorkerMode& before = whole_.modes[known->second];
    if (before.name != mode.name || before.gpus != mode.gpus) {
      return csv.bad_field(2, fmt::format("mode {} was {} in a row before", id, before.name));
    }
    return known->second;
  }

  Result<void> slo() {
    constexpr std::array<std::string_view, 3> kColumns = {"request_type", "ttft_ms", "tbt_ms"};
    auto csv = CsvReader::open(texts_.slo.text, texts_.slo.name, kColumns);
    if (!csv) return std::unexpected(csv.error());
    std::map<std::string, bool, std::less<>> seen;
    for (;;) {
      const auto more = csv->next();
      if (!more) return std::unexpected(more.error());
      if (!*more) break;
      const auto ttft = csv->number(1, 1e-3, kLargest), tbt = csv->number(2, 1e-3, kLargest);
      if (!ttft) return std::unexpected(ttft.error());
      if (!tbt) return std::unexpected(tbt.error());
      if (!seen.emplace(csv->field(0), true).second) return csv->bad_field(0, "this type already has limits");
      for (RequestPartition& partition : whole_.partitions) {
        for (PoolType& type : partition.types) {
          if (type.name != csv->field(0)) continue;
          type.ttft_limit = Span::from_seconds(*ttft * 1e-3);
          type.tbt_limit = Span::from_seconds(*tbt * 1e-3);
        }
      }
    }
    for (const RequestPartition& partition : whole_.partitions) {
      for (const PoolType& type : partition.types) {
        if (!seen.contains(type.name)) return bad_input(texts_.slo.name, "has no limits for type " + type.name);
      }
    }
    return {};
  }

  Result<void> capacity() {
    std::vector<std::string> columns = {"site"};
    for (const std::string& kind : whole_.kinds) columns.push_back(lower(kind));
    const auto column_views = views(columns);
    auto csv = CsvReader::open(texts_.capacity.text, texts_.capacity.name, column_views);
    if (!csv) return std::unexpected(csv.error());
    for (;;) {
      const auto more = csv->next();
      if (!more) return std::unexpected(more.error());
      if (!*more) break;
      if (csv->field(0).empty()) return csv->bad_field(0, "it needs a name");
      const auto known = std::ranges::find(whole_.sites, csv->field(0), &PoolSite::name);
      if (known != whole_.sites.end()) return csv->bad_field(0, "this site already has a row");
      PoolSite& site = whole_.sites.emplace_back();
      site.name = csv->field(0);
      for (std::size_t c = 0; c < whole_.kinds.size(); ++c) {
        const auto gpus = csv->whole(c + 1, 0, 1'000'000);
        if (!gpus) return std::unexpected(gpus.error());
        site.gpus.push_back(static_cast<int>(*gpus));
      }
    }
    if (whole_.sites.empty()) return bad_input(texts_.capacity.name, "has no rows; it needs one for each site");
    return {};
  }

  Result<void> demand() {
    if (texts_.demand.size() != whole_.partitions.size()) {
      return bad_input("demand", fmt::format("{} given; {} has {} partition(s), and each needs its own",
                                             texts_.demand.size(), texts_.profile.name, whole_.partitions.size()));
    }
    for (std::size_t s = 0; s < whole_.partitions.size(); ++s) {
      std::vector<std::string> columns;
      for (const PoolType& type : whole_.partitions[s].types) columns.push_back(lower(type.name) + "_qps");
      const auto header = header_of(texts_.demand[s]);
      if (!header) return std::unexpected(header.error());
      for (const std::string& name : *header) {
        if (!name.ends_with("_qps") || std::ranges::find(columns, name) != columns.end()) continue;
        return bad_input(texts_.demand[s].name,
                         fmt::format("has column '{}'; {} rates no worker for it in partition {}", name,
                                     texts_.profile.name, whole_.partitions[s].name));
      }
      auto series = read_series(texts_.demand[s], columns, 0.0, PoolType::kMostPerSecond, nullptr);
      if (!series) return std::unexpected(series.error());
      if (s == 0) {
        first_ = series->first;
      } else if (auto ok = same_slots(texts_.demand[s], *series); !ok) {
        return ok;
      }
      for (std::size_t r = 0; r < series->of.size(); ++r)
        whole_.partitions[s].types[r].demand_per_s = std::move(series->of[r]);
    }
    return {};
  }

  Result<void> emissions() {
    std::vector<std::string> columns, spelled;
    for (const PoolSite& site : whole_.sites) {
      columns.push_back(fmt::format("site{0}_lb_co2_per_mwh|site{0}_g_co2_per_kwh", site.name));
    }
    constexpr double kMostIntensity = 1e5;  // of marginal rates: data holds -8353 and 9067 lb/MWh
    auto series = read_series(texts_.emissions, columns, -kMostIntensity, kMostIntensity, &spelled);
    if (!series) return std::unexpected(series.error());
    if (auto ok = same_slots(texts_.emissions, *series); !ok) return ok;
    for (std::size_t n = 0; n < series->of.size(); ++n) {
      const double unit = spelled[n].ends_with("_lb_co2_per_mwh") ? kGramsPerKwhInLbsPerMwh : 1.0;
      for (const double value : series->of[n]) whole_.sites[n].intensity.emplace_back(value * unit);
    }
    return {};
  }

  Result<void> prices() {
    if (texts_.prices.name.empty()) return {};
    std::vector<std::string> columns;
    for (const PoolSite& site : whole_.sites) columns.push_back(fmt::format("site{}_usd_per_mwh", site.name));
    constexpr double kMostPrice = 1e6;
    auto series = read_series(texts_.prices, columns, -kMostPrice, kMostPrice, nullptr);
    if (!series) return std::unexpected(series.error());
    if (auto ok = same_slots(texts_.prices, *series); !ok) return ok;
    for (std::size_t n = 0; n < series->of.size(); ++n) {
      for (const double value : series->of[n]) whole_.sites[n].price_usd_per_kwh.push_back(value * 1e-3);
    }
    return {};
  }

  /// As the first demand has them.
  Result<void> same_slots(const NamedText& text, const Series& series) const {
    const std::size_t slots = series.of[0].size(), demand = whole_.partitions[0].types[0].demand_per_s.size();
    const std::string& first = texts_.demand[0].name;
    if (slots != demand) return bad_input(text.name, fmt::format("has {} slots, {} has {}", slots, first, demand));
    if (series.first != first_) {
      return bad_input(text.name, fmt::format("begins at slot {}, {} at slot {}", series.first, first, first_));
    }
    return {};
  }

  const PoolsTexts& texts_;
  double idle_share_;
  PoolsProblem whole_;
  std::size_t first_ = 0;
  std::map<std::string, std::size_t> modes_;  ///< by the mode column
};

}  // namespace

Result<PoolsData> PoolsData::parse(const PoolsTexts& texts, double idle_share) {
  Reader reader(texts, idle_share);
  auto whole = reader.run();
  if (!whole) return std::unexpected(whole.error());
  PoolsData data;
  data.whole_ = std::move(*whole);
  data.first_ = reader.first_slot();
  data.slots_ = data.whole_.sites[0].intensity.size();
  return data;
}

PoolsProblem PoolsData::window(std::size_t first, std::size_t count, double beta) const {
  WATTLE_CHECK(count > 0 && first >= first_ && first + count <= end_slot(), "a window must lie within the data");
  PoolsProblem problem = whole_;
  const auto cut = [&](auto& series) {
    if (series.empty()) return;
    const auto begin = series.begin() + static_cast<std::ptrdiff_t>(first - first_);
    series = {begin, begin + static_cast<std::ptrdiff_t>(count)};
  };
  for (PoolSite& site : problem.sites) {
    cut(site.intensity);
    cut(site.price_usd_per_kwh);
  }
  for (RequestPartition& partition : problem.partitions) {
    for (PoolType& type : partition.types) {
      cut(type.demand_per_s);
      for (double& demand : type.demand_per_s) demand /= beta;
    }
  }
  return problem;
}

}  // namespace wattle::plan
