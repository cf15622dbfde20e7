#include "forecast_tasks.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/even_rows.h"
#include "base/file.h"
#include "feeds/feed.h"
#include "predict/forecast/traffic.h"

namespace wattle::apps {

namespace {
constexpr std::int64_t kNsPerMinute = 60'000'000'000;
constexpr std::int64_t kMondayNs = std::int64_t{4} * 1440 * kNsPerMinute;  ///< 1970 began on a Thursday

/// Place of a time on a grid of steps that begins on a Monday, 00:00 UTC.
std::int64_t step_of(std::int64_t ns, double step_minutes) {
  return (ns - kMondayNs) / (static_cast<std::int64_t>(step_minutes) * kNsPerMinute);
}

/// Held out by steps from the end. Errors: less than four days before them, of which the last is what margins are taken
/// from.
Result<ForecastTask> hold_out(ForecastTask task, std::size_t steps, const std::string& path) {
  const std::size_t all = task.values.front().size();
  if (all < steps + 4 * task.day) {
    return bad_input(path,
                     fmt::format("covers {} steps of {:.0f} min; the last {} are held out, and at least {} more are "
                                 "needed to learn from",
                                 all, task.step_minutes, steps, 4 * task.day));
  }
  task.train = all - steps;
  return task;
}

/// Azure's week of May 2024, requests per 10 s: FREESH's question, the busiest bin of each of the next six 5 minutes.
Result<ForecastTask> traffic(const std::string& data, const char* service) {
  const std::string path = fmt::format("{}/azure-llm-2024-counts/invocations_ten_second_{}.csv", data, service);
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  const auto rows = read_even_rows({"Time", "TIMESTAMP", 0.0, 1e9}, *text, path);
  if (!rows) return std::unexpected(rows.error());
  std::vector<double> bins;
  for (const auto& [time, count] : rows->rows) bins.push_back(count);
  ForecastTask task;
  task.what = "peak rate (10 s bins) of each 5 minutes of the next half hour; the last two days held out";
  task.unit = "requests/s";
  task.rates = true;
  task.series = {service};
  task.values = {predict::peak_rates(bins, Span::s(10), 30)};
  task.step_minutes = 5.0;
  task.first_step = step_of(rows->rows.front().first, task.step_minutes);
  task.day = 288;
  task.horizon = 6;
  task.stride = 6;
  return hold_out(std::move(task), 2 * 288, path);
}

Result<ForecastTask> load_feeds(const std::string& folder, const std::vector<std::string>& files,
                                const feeds::IntensityForm& form) {
  ForecastTask task;
  task.unit = "g/kWh";
  for (const std::string& file : files) {
    const std::string path = folder + "/" + file;
    const auto text = read_file(path);
    if (!text) return std::unexpected(text.error());
    const auto feed = feeds::parse_feed_csv(form, {"file", file, {}, {}}, *text, path);
    if (!feed) return std::unexpected(feed.error());
    const auto steps = static_cast<std::size_t>((feed->end() - feed->begin()).ns() / feed->step().ns());
    std::vector<double> values;
    for (std::size_t i = 0; i < steps; ++i) {
      const auto said = feed->at(feed->begin() + feed->step() * static_cast<std::int64_t>(i));
      values.push_back(said ? said->value.value() : predict::kUnknown);
    }
    task.step_minutes = feed->step().seconds() / 60.0;
    const std::int64_t first = step_of(feed->begin().ns(), task.step_minutes);
    if (!task.values.empty() && (values.size() != task.values.front().size() || first != task.first_step)) {
      return bad_input(path, "covers another time than the files before it");
    }
    task.first_step = first;
    task.series.push_back(file.substr(0, file.find('.')));
    task.values.push_back(std::move(values));
  }
  return task;
}

/// 2024, in the zones that have rows which are not estimated.
Result<ForecastTask> average_emissions(const std::string& data) {
  std::vector<std::string> files;
  for (const char* zone : {"AU-NSW", "AU-VIC", "BR-SP", "CA-ON", "CL-SIC", "DE-LU", "GB", "KR", "SG", "US-CAL-CISO",
                           "US-MIDA-PJM", "US-NY-NYIS", "US-TEX-ERCO", "ZA"}) {
    files.push_back(fmt::format("{}_2024.csv", zone));
  }
  const std::string folder = data + "/carbon-electricitymaps-hourly";
  auto task = load_feeds(folder, files, feeds::electricity_maps_direct());
  if (!task) return task;
  task->what = "average intensity, direct, of the next 24 hours, 14 zones; the last eight weeks of 2024 held out";
  task->day = 24;
  task->horizon = 24;
  task->stride = 12;
  return hold_out(std::move(*task), std::size_t{8} * 7 * 24, folder);
}

Result<ForecastTask> marginal_emissions(const std::string& data) {
  const std::string folder = data + "/carbon-watttime-caiso-5min";
  auto task = load_feeds(folder, {"watttime_example.csv"}, feeds::watttime_grams("Caiso_North"));
  if (!task) return task;
  task->what = "marginal intensity of CAISO North in the next hour by 5 minutes; the last week of a month held out";
  task->day = 288;
  task->horizon = 12;
  task->stride = 12;
  return hold_out(std::move(*task), std::size_t{7} * 288, folder);
}

Result<ForecastTask> price(const std::string& data) {
  const std::string path = data + "/caiso-price-5min/CAISO_20240509_20240521.csv";
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  const auto rows = read_even_rows({"INTERVALSTARTTIME_GMT", "VALUE", -1e4, 1e4}, *text, path);
  if (!rows) return std::unexpected(rows.error());
  ForecastTask task;
  task.what = "CAISO's price in the next hour by 5 minutes; the last three of twelve days held out";
  task.unit = "$/MWh";
  task.series = {"CAISO"};
  task.values.emplace_back();
  for (const auto& [time, value] : rows->rows) task.values.front().push_back(value);
  task.step_minutes = 5.0;
  task.first_step = step_of(rows->rows.front().first, task.step_minutes);
  task.day = 288;
  task.horizon = 12;
  task.stride = 12;
  return hold_out(std::move(task), std::size_t{3} * 288, path);
}

struct Entry {
  std::string_view name;
  Result<ForecastTask> (*load)(const std::string& data);
};
constexpr std::array kTasks = {
    Entry{"traffic-coding", [](const std::string& data) { return traffic(data, "Coding"); }},
    Entry{"traffic-conversation", [](const std::string& data) { return traffic(data, "Conversation"); }},
    Entry{"emissions-average", &average_emissions},
    Entry{"emissions-marginal", &marginal_emissions},
    Entry{"price", &price},
};
}  // namespace

std::vector<std::string_view> forecast_task_names() {
  std::vector<std::string_view> out;
  for (const Entry& entry : kTasks) out.push_back(entry.name);
  return out;
}

Result<ForecastTask> load_forecast_task(std::string_view name, const std::string& data) {
  for (const Entry& entry : kTasks) {
    if (entry.name != name) continue;
    auto task = entry.load(data);
    if (task) task->name = name;
    return task;
  }
  return bad_input("--task",
                   fmt::format("is '{}'; it must be one of {}", name, fmt::join(forecast_task_names(), ", ")));
}

Result<ForecastTask> load_own_series(const OwnSeries& own) {
  const auto text = read_file(own.file);
  if (!text) return std::unexpected(text.error());
  const auto rows = read_even_rows({own.time, own.value, -1e15, 1e15, true}, *text, own.file);
  if (!rows) return std::unexpected(rows.error());
  const std::int64_t step = rows->end_ns - rows->rows.back().first;
  constexpr std::int64_t kDay = 1440 * kNsPerMinute;
  if (step % kNsPerMinute != 0 || kDay % step != 0) {
    return bad_input(own.file, fmt::format("has steps of {:g} s; they must be whole minutes that divide a day",
                                           static_cast<double>(step) * 1e-9));
  }
  ForecastTask task;
  task.name = own.value;
  task.what = fmt::format("{}, the next {} steps; the last quarter held out", own.file, own.horizon);
  task.unit = own.value;
  task.series = {own.value};
  task.values.emplace_back();
  for (const auto& [time, value] : rows->rows) task.values.front().push_back(value);
  const auto unknown = std::ranges::count_if(task.values.front(), [](double v) { return std::isnan(v); });
  if (unknown > 0) task.what += fmt::format("; {} of {} steps unknown", unknown, task.values.front().size());
  task.step_minutes = static_cast<double>(step / kNsPerMinute);
  task.first_step = step_of(rows->rows.front().first, task.step_minutes);
  task.day = static_cast<std::size_t>(kDay / step);
  task.horizon = task.stride = own.horizon;
  const std::size_t held = task.values.front().size() / 4;
  if (own.horizon < 1 || own.horizon > held) {
    return bad_input("--horizon", fmt::format("is {}; {} steps are held out", own.horizon, held));
  }
  return hold_out(std::move(task), held, own.file);
}

}  // namespace wattle::apps
