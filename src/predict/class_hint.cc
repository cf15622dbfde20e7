#include "predict/class_hint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace wattle::predict {

namespace {

constexpr std::size_t kMeasured = 3;
/// Requests by true (rows) and predicted class. A bin of the published counts that lies across a border is shared out
/// by tokens.
constexpr std::array<std::array<double, kMeasured>, kMeasured> kCounts{{
    {35538.7, 7029.4, 215.9},
    {7066.7, 33246.8, 1798.4},
    {39.6, 455.8, 90.7},
}};

}  // namespace

Confusion Confusion::to_neighbours(std::size_t classes, double accuracy) {
  Confusion made;
  made.rows_.assign(classes, std::vector<double>(classes, 0.0));
  for (std::size_t i = 0; i < classes; ++i) {
    auto& row = made.rows_[i];
    const bool lower = i > 0;
    const bool upper = i + 1 < classes;
    row[i] = classes == 1 ? 1.0 : accuracy;
    const double each = (1.0 - row[i]) / (lower && upper ? 2.0 : 1.0);
    if (lower) row[i - 1] = each;
    if (upper) row[i + 1] = each;
  }
  return made;
}

double Confusion::measured_accuracy() {
  double right = 0.0;
  double all = 0.0;
  for (std::size_t i = 0; i < kMeasured; ++i) {
    right += kCounts[i][i];
    for (const double n : kCounts[i]) all += n;
  }
  return right / all;
}

Confusion Confusion::as_measured(double accuracy) {
  Confusion made;
  const double scale = (1.0 - accuracy) / (1.0 - measured_accuracy());
  for (std::size_t i = 0; i < kMeasured; ++i) {
    double all = 0.0;
    for (const double n : kCounts[i]) all += n;
    std::vector<double> row(kMeasured, 0.0);
    const double errs = 1.0 - kCounts[i][i] / all;
    const double wanted = std::min(1.0, errs * scale);
    for (std::size_t j = 0; j < kMeasured; ++j) {
      row[j] = i == j ? 1.0 - wanted : kCounts[i][j] / all / errs * wanted;
    }
    made.rows_.push_back(std::move(row));
  }
  return made;
}

std::size_t Confusion::draw(std::size_t truth, RandomStream& random) const {
  const auto& row = rows_[truth];
  double left = random.uniform();
  std::size_t said = 0;
  while (said + 1 < row.size() && left >= row[said]) left -= row[said++];
  return said;
}

ConfusedClasses::ConfusedClasses(std::vector<std::int32_t> below, Confusion confusion, std::uint64_t seed)
    : below_(std::move(below)), confusion_(std::move(confusion)), random_(seed, "length.confusion") {
  WATTLE_CHECK(confusion_.classes() == below_.size() + 1, "one class more than borders");
  std::int32_t from = 1;
  for (const std::int32_t border : below_) {
    middles_.push_back(std::max(from, from + (border - from) / 2));
    from = border;
  }
  middles_.push_back(below_.empty() ? 1 : from + from / 2);
}

std::int32_t ConfusedClasses::predict(std::int32_t true_tokens, std::int32_t max_tokens) {
  const auto truth = static_cast<std::size_t>(std::ranges::upper_bound(below_, true_tokens) - below_.begin());
  return std::clamp(middles_[confusion_.draw(truth, random_)], 1, std::max(max_tokens, 1));
}

}  // namespace wattle::predict
