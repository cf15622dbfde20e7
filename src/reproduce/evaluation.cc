#include "reproduce/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file.h"
#include "config/locate.h"

namespace wattle::reproduce {

double Row::relative() const {
  if (!published) return std::numeric_limits<double>::quiet_NaN();
  if (*published == 0.0) return ours == 0.0 ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  return difference() / *published;
}

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

std::vector<std::string> published_names(const char* under_data) {
  const std::filesystem::path pattern(under_data);
  const std::string name = pattern.filename().string();
  const std::string begin = name.substr(0, name.find('*')), end = name.substr(name.find('*') + 1);
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(config::data_dir()) / pattern.parent_path(), none)) {
    const std::string at = entry.path().filename().string();
    if (at.size() >= begin.size() + end.size() && at.starts_with(begin) && at.ends_with(end)) {
      found.push_back((pattern.parent_path() / at).string());
    }
  }
  std::ranges::sort(found);
  return found;
}

namespace {

/// Three significant digits at least; "-": no value.
std::string figure(double value, bool sign = false) {
  if (std::isnan(value)) return "-";
  const int digits = std::abs(value) < 10.0 ? 3 : 1;
  return sign ? fmt::format("{:+.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
}

}  // namespace

void print(const Section& section) {
  fmt::print("{}\n{:<66} {:>10} {:>10} {:>9} {:>8}\n", section.source, "row", "published", "ours", "diff", "rel");
  for (const Row& row : section.rows) {
    const std::string id = row.id + " [" + row.unit + "]";
    if (row.published) {
      const double relative = row.relative();
      fmt::print("{:<66} {:>10} {:>10} {:>9} {:>8}\n", id, figure(*row.published), figure(row.ours),
                 figure(row.difference(), true),
                 std::isnan(relative) ? "-" : fmt::format("{:+.1f}%", 100.0 * relative));
    } else {
      fmt::print("{:<66} {:>10} {:>10}\n", id, "-", figure(row.ours));
    }
  }
  for (const Target& target : section.targets) {
    fmt::print("{}: {} (target {}): {}\n", target.name, figure(target.value), target.wanted,
               target.met ? "met" : "not met");
  }
  for (const auto& [reason, lines] : section.left_out) fmt::print("left out: {} ({} lines)\n", reason, lines);
  fmt::print("{}\n\n", section.note);
}

void append(const Section& section, nlohmann::ordered_json& object) {
  const auto known = [](double value) {
    return std::isnan(value) ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
  };
  for (const Row& row : section.rows) {
    nlohmann::ordered_json made{
        {"id", row.id}, {"source", section.source}, {"unit", row.unit}, {"ours", known(row.ours)}};
    if (row.published) {
      made["published"] = *row.published;
      made["difference"] = known(row.difference());
      made["relative"] = known(row.relative());
    }
    object["rows"].push_back(std::move(made));
  }
  for (const Target& target : section.targets) {
    object["marks"].push_back(
        {{"name", target.name}, {"target", target.wanted}, {"value", target.value}, {"met", target.met}});
  }
  for (const auto& [reason, lines] : section.left_out) {
    object["left_out"].push_back({{"reason", reason}, {"lines", lines}});
  }
}

}  // namespace wattle::reproduce
