#pragma once
// Tasks of the forecast bench: real series, the part used for training, and the horizon to predict.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "predict/forecast/panel.h"

namespace wattle::apps {

struct ForecastTask {
  std::string name;
  std::string what;  ///< the question, in a sentence
  std::string unit;
  std::vector<std::string> series;
  predict::Rows values;         ///< by series and step
  std::int64_t first_step = 0;  ///< steps since a Monday, 00:00 UTC
  double step_minutes = 0.0;
  std::size_t day = 0;    ///< steps of a day
  std::size_t train = 0;  ///< steps at the start to learn from; the rest is held out
  std::size_t horizon = 0;
  std::size_t stride = 0;  ///< steps between two forecasts of the held-out part
  bool rates = false;      ///< of arrivals: their errors are in proportion

  [[nodiscard]] predict::Panel panel() const {
    predict::Panel out{{}, first_step};
    for (const auto& one : values) out.series.emplace_back(one);
    return out;
  }
};

/// Names of all tasks, in order.
[[nodiscard]] std::vector<std::string_view> forecast_task_names();
/// Errors: no such task; a missing or malformed file under `data`.
[[nodiscard]] Result<ForecastTask> load_forecast_task(std::string_view name, const std::string& data);

/// A user's series: two columns of a CSV with ascending rows at equal steps that divide a day; its last quarter is held
/// out.
struct OwnSeries {
  std::string file;
  std::string time = "time";
  std::string value = "value";
  std::size_t horizon = 12;  ///< steps
};
/// Errors: with file and line; less than four days of training data; a horizon of no step, or beyond the held-out part.
[[nodiscard]] Result<ForecastTask> load_own_series(const OwnSeries& own);

}  // namespace wattle::apps
