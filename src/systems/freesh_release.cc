#include "systems/freesh_release.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>

#include "base/csv.h"
#include "base/file.h"
#include "config/locate.h"
#include "workload/source.h"

namespace wattle::systems {

namespace {

/// A row of the release's file of what workers carry and draw.
struct ReleasedWorker {
  std::string type, gpu;
  int tensor_parallel = 1;
  double max_per_s = 0.0;  ///< 0: it cannot serve that type
  double power_w = 0.0, e2e_s = 0.0, ttft_ms = 0.0, tbt_ms = 0.0;
};

/// Those of one partition, in the file's order.
Result<std::vector<ReleasedWorker>> read_released(const std::string& name, const std::string& partition) {
  const auto path = workload::find_file(name, config::data_dir(), ".");
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  constexpr std::array<std::string_view, 9> kColumns{
      "partition",      "request_type",       "tp",           "gpu",        "max_qps",
      "worker_power_w", "mean_e2e_latency_s", "mean_ttft_ms", "mean_tbt_ms"};
  auto csv = CsvReader::open(*text, *path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<ReleasedWorker> all;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return all;
    if (csv->field(0) != partition) continue;
    ReleasedWorker worker;
    worker.type = csv->field(1);
    worker.gpu = csv->field(3);
    const std::string_view tp = csv->field(2);
    const char* const end = tp.data() + tp.size();
    if (!tp.starts_with("TP") || std::from_chars(tp.data() + 2, end, worker.tensor_parallel).ptr != end) {
      return bad_input(*path, fmt::format("tp: \"{}\" is no TP degree, such as TP2", tp));
    }
    double* const values[] = {&worker.max_per_s, &worker.power_w, &worker.e2e_s, &worker.ttft_ms, &worker.tbt_ms};
    for (std::size_t i = 0; i < std::size(values); ++i) {
      const auto value = csv->number(i + 4, 0.0, 1e9);
      if (!value) return std::unexpected(value.error());
      *values[i] = *value;
    }
    all.push_back(std::move(worker));
  }
}

}  // namespace

Result<std::map<std::string, plan::WorkerRating>> read_ratings(const std::string& file, const std::string& partition) {
  constexpr double kIdleShare = 0.3;  // of the peak: about 200 W of 650 to 700 W (Figure 15)
  const auto released = read_released(file, partition);
  if (!released) return std::unexpected(released.error());
  std::map<std::string, plan::WorkerRating> all;
  for (const ReleasedWorker& worker : *released) {
    plan::WorkerRating rating;
    rating.max_per_s = worker.max_per_s;
    rating.peak = Watts(worker.power_w);
    rating.idle = Watts(worker.power_w * kIdleShare);
    rating.ttft = Span::from_seconds(worker.ttft_ms * 1e-3);
    rating.tbt = Span::from_seconds(worker.tbt_ms * 1e-3);
    all[fmt::format("{} {} TP{}", worker.type, worker.gpu, worker.tensor_parallel)] = rating;
  }
  return all;
}

Result<std::vector<policy::InFlightBound>> read_bounds(const std::string& file, const std::string& partition) {
  const auto released = read_released(file, partition);
  if (!released) return std::unexpected(released.error());
  std::vector<std::string> types;
  std::vector<policy::InFlightBound> bounds;
  for (const ReleasedWorker& worker : *released) {
    auto type = std::ranges::find(types, worker.type);
    if (type == types.end()) type = types.insert(types.end(), worker.type);
    std::string gpu = worker.gpu;
    std::ranges::transform(gpu, gpu.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto requests = static_cast<std::int32_t>(std::lround(worker.max_per_s * worker.e2e_s));
    if (requests == 0) continue;
    bounds.push_back({PoolId(static_cast<std::int32_t>(type - types.begin())), worker.tensor_parallel, gpu, requests});
  }
  return bounds;
}

Result<std::vector<std::vector<double>>> read_demand(const std::string& file, std::int32_t from, std::size_t types) {
  const auto path = workload::find_file(file, config::data_dir(), ".");
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  constexpr std::array<std::string_view, 4> kColumns{"ss_qps", "sl_qps", "ls_qps", "ll_qps"};
  auto csv = CsvReader::open(*text, *path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  if (types != 1 && types != kColumns.size()) {
    return bad_input(*path,
                     fmt::format("has {} types of requests; the recipe sorts them into {}", kColumns.size(), types));
  }
  std::vector<std::vector<double>> expected(types);
  for (std::int32_t row = 0;; ++row) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    if (row < from) continue;
    for (auto& series : expected) series.push_back(0.0);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto value = csv->number(i, 0.0, 1e9);
      if (!value) return std::unexpected(value.error());
      expected[types == 1 ? 0 : i].back() += *value;
    }
  }
  if (expected.front().empty()) return bad_input(*path, fmt::format("has no row {}", from));
  return expected;
}

std::string released_kind(const std::string& gpu) {
  std::string kind = gpu.substr(0, gpu.find('-'));
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return kind;
}

}  // namespace wattle::systems
