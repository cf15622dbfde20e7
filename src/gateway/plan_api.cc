#include "gateway/plan_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

namespace wattle::gateway {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kHighestMhz = 100'000;
constexpr double kRounding = 1e-6;
constexpr std::size_t kLongestName = 128;

std::unexpected<net::ApiError> wrong(const char* param, std::string message) {
  return std::unexpected(net::ApiError{400, std::move(message), "invalid_request_error", param, ""});
}

/// A whole number in [least, most].
std::optional<std::int32_t> number_in(const Json& item, const char* key, std::int64_t least, std::int64_t most) {
  const auto found = item.is_object() ? item.find(key) : item.end();
  if (found == item.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(most)) {
    return std::nullopt;
  }
  const auto value = found->get<std::int64_t>();
  if (value < least || value > most) return std::nullopt;
  return static_cast<std::int32_t>(value);
}

std::expected<std::vector<PoolWeight>, net::ApiError> read_weights(const Json& list, std::int32_t classes) {
  std::vector<PoolWeight> weights;
  std::map<std::int32_t, double> sums;
  for (const Json& item : list) {
    const auto request_class = number_in(item, "class", 0, kMostPools - 1);
    const auto pool = number_in(item, "pool", 0, kMostPools - 1);
    const auto share = item.is_object() ? item.find("weight") : item.end();
    if (!request_class || !pool || share == item.end() || !share->is_number()) {
      return wrong("weights", R"(each of weights must be {"class": ID, "pool": ID, "weight": SHARE}, ids from 0)");
    }
    if (*request_class >= classes) {
      return wrong("weights", fmt::format("there is no class {}: this gateway sorts requests into {} (--scenario says "
                                          "by which borders)",
                                          *request_class, classes));
    }
    const auto weight = share->get<double>();
    if (!std::isfinite(weight) || weight < 0.0 || (sums[*request_class] += weight) > 1.0 + kRounding) {
      return wrong("weights", fmt::format("the weights of class {} must be shares that add up to at most 1: what they "
                                          "lack of 1 is not served",
                                          *request_class));
    }
    weights.push_back({ClassId(*request_class), PoolId(*pool), weight});
  }
  return weights;
}

std::expected<std::vector<ClockRange>, net::ApiError> read_ranges(const Json& list) {
  std::vector<ClockRange> ranges;
  std::set<std::int32_t> seen;
  for (const Json& item : list) {
    const auto pool = number_in(item, "pool", 0, kMostPools - 1);
    const auto least = number_in(item, "least_mhz", 1, kHighestMhz);
    const auto most = number_in(item, "most_mhz", 1, kHighestMhz);
    if (!pool || !least || !most || *least > *most) {
      return wrong("clocks",
                   R"(each of clocks must be {"pool": ID, "least_mhz": MHZ, "most_mhz": MHZ}, least <= most)");
    }
    if (!seen.insert(*pool).second) return wrong("clocks", fmt::format("pool {} has two clock ranges", *pool));
    ranges.push_back({PoolId(*pool), MegaHertz(*least), MegaHertz(*most)});
  }
  return ranges;
}

}  // namespace

std::expected<PutPlan, net::ApiError> read_plan(std::string_view body, std::int32_t classes) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return wrong("", "the body must be a JSON object with \"weights\" and \"clocks\"");
  const auto list = [&](const char* key) -> const Json* {
    const auto found = json.find(key);
    return found == json.end() || !found->is_array() ? nullptr : &*found;
  };
  // Both, so that a key that is misspelt does not lift what is in force.
  const Json* weights = list("weights");
  if (weights == nullptr) return wrong("weights", "weights must be an array; empty: any pool is for all");
  const Json* clocks = list("clocks");
  if (clocks == nullptr) return wrong("clocks", "clocks must be an array; empty: no bounds");
  PutPlan plan;
  auto shares = read_weights(*weights, classes);
  if (!shares) return std::unexpected(shares.error());
  plan.weights = std::move(*shares);
  auto ranges = read_ranges(*clocks);
  if (!ranges) return std::unexpected(ranges.error());
  plan.clocks = std::move(*ranges);
  const auto lease = number_in(json, "lease_ms", 1, kLongestPlanLease.ns() / 1'000'000);
  if (!lease && (json.contains("lease_ms") || !plan.clocks.empty())) {
    return wrong("lease_ms", fmt::format("lease_ms, for how long the clock ranges hold, must be a whole number from 1 "
                                         "to {:.0f}",
                                         kLongestPlanLease.millis()));
  }
  plan.lease = Span::ms(lease.value_or(0));
  if (const auto name = json.find("planner"); name != json.end()) {
    if (!name->is_string() || name->get_ref<const std::string&>().size() > kLongestName) {
      return wrong("planner", fmt::format("planner must be a text of at most {} bytes", kLongestName));
    }
    plan.planner = name->get<std::string>();
  }
  return plan;
}

bool NewestPlanner::takes(const PutPlan& plan, Instant now) {
  if (plan.planner.empty()) return true;
  if (now >= until_) replaced_.clear();
  if (std::ranges::find(replaced_, plan.planner) != replaced_.end()) return false;
  if (plan.planner != newest_ && now < until_) {
    replaced_.push_back(newest_);
    if (replaced_.size() > kReplacedKept) replaced_.pop_front();
  }
  newest_ = plan.planner;
  until_ = now + plan.lease;
  return true;
}

}  // namespace wattle::gateway
