#include "reproduce/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "config/locate.h"

namespace wattle::reproduce {

Result<PublishedFile> published_file(const char* under_data) {
  const std::string data = config::data_dir();
  if (data.empty()) {
    return bad_input("WATTLE_DATA", fmt::format("not set; point it at the folder that holds {}", under_data));
  }
  PublishedFile file{(std::filesystem::path(data) / under_data).string(), {}};
  auto text = read_file(file.path);
  if (!text) return std::unexpected(text.error());
  file.text = std::move(*text);
  return file;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

namespace {

/// Three significant digits at least.
std::string figure(double value, bool sign = false) {
  const int digits = std::abs(value) < 10.0 ? 3 : 1;
  return sign ? fmt::format("{:+.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
}

}  // namespace

void print(const Section& section) {
  fmt::print("{}\n{:<66} {:>10} {:>10} {:>9} {:>8}\n", section.source, "row", "published", "ours", "diff", "rel");
  for (const Row& row : section.rows) {
    const std::string id = row.id + " [" + row.unit + "]";
    if (row.published) {
      fmt::print("{:<66} {:>10} {:>10} {:>9} {:>+7.1f}%\n", id, figure(*row.published), figure(row.ours),
                 figure(row.difference(), true), 100.0 * row.relative());
    } else {
      fmt::print("{:<66} {:>10} {:>10}\n", id, "-", figure(row.ours));
    }
  }
  for (const Target& target : section.targets) {
    fmt::print("{}: {} (target {}): {}\n", target.name, figure(target.value), target.wanted,
               target.met ? "met" : "not met");
  }
  fmt::print("{}\n\n", section.note);
}

void append(const Section& section, nlohmann::ordered_json& object) {
  for (const Row& row : section.rows) {
    nlohmann::ordered_json made{{"id", row.id}, {"source", section.source}, {"unit", row.unit}, {"ours", row.ours}};
    if (row.published) {
      made["published"] = *row.published;
      made["difference"] = row.difference();
      made["relative"] = row.relative();
    }
    object["rows"].push_back(std::move(made));
  }
  for (const Target& target : section.targets) {
    object["marks"].push_back(
        {{"name", target.name}, {"target", target.wanted}, {"value", target.value}, {"met", target.met}});
  }
}

}  // namespace wattle::reproduce
