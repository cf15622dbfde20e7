#include "journal/summary_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "journal/json_keys.h"

namespace wattle::journal {
namespace {

template <typename V, typename D>
void visit_distribution(V& v, const char* key, D& d) {
  v.group(key, [&](auto& g) {
    g.of_some("mean", d.mean_ms, d.count);
    g.of_some("p50", d.p50_ms, d.count);
    g.of_some("p90", d.p90_ms, d.count);
    g.of_some("p99", d.p99_ms, d.count);
    g.added_of_some("p95", d.p95_ms, d.count);
    g.added_of_some("max", d.max_ms, d.count);
    g.added_count("count", d.count);
  });
}

template <typename V, typename E>
void visit_error(V& v, const char* key, E& e) {
  v.added_group(key, [&](auto& g) {
    g.added_count("samples", e.samples);
    g.added_number("offline_mae_ms", e.offline_ms);
    g.added_number("active_mae_ms", e.active_ms);
    g.added_number("drift", e.drift);
  });
}

/// A row's name is its key.
template <typename V, typename R>
void visit_usage(V& v, R& row, bool of_requests) {
  if (of_requests) {
    v.added_count("requests", row.requests);
    v.added_count("unmetered_requests", row.unmetered_requests);
    v.added_count("unknown_carbon_requests", row.unknown_carbon_requests);
    v.added_count("unknown_price_requests", row.unknown_price_requests);
    v.added_count("prompt_tokens", row.prompt_tokens);
    v.added_count("output_tokens", row.output_tokens);
  }
  v.added_quantity("energy_j", row.energy);
  v.added_quantity("carbon_g", row.carbon);
  v.added_quantity("cost_usd", row.cost);
  if (of_requests) return;
  v.added_quantity("unknown_carbon_j", row.unknown_carbon);
  v.added_quantity("unknown_price_j", row.unknown_price);
}

template <typename V, typename R>
void visit_service(V& v, R& row) {
  v.count("left", row.left);
  v.count("finished", row.finished);
  v.count("rejected", row.rejected);
  v.count("failed", row.failed);
  v.count("cancelled", row.cancelled);
  v.ratio("attainment", row.attainment);
  visit_distribution(v, "ttft_ms", row.ttft);
  visit_distribution(v, "tbt_ms", row.tbt);
  visit_distribution(v, "e2e_ms", row.e2e);
}

struct ServiceTable {
  const char* key;
  std::vector<ServiceRow> RunSummary::*rows;
};
constexpr ServiceTable kService[] = {{"service_by_class", &RunSummary::service_by_class},
                                     {"service_by_tier", &RunSummary::service_by_tier}};

struct UsageTable {
  const char* key;
  std::vector<UsageRow> Consumption::*rows;
  bool of_requests;
};
constexpr UsageTable kUsage[] = {{"by_tenant", &Consumption::by_tenant, true},
                                 {"by_class", &Consumption::by_class, true},
                                 {"by_instance", &Consumption::by_instance, false},
                                 {"by_site", &Consumption::by_site, false}};

template <typename V, typename S>
void visit(V& v, S& s) {
  v.text("recipe", s.recipe);
  v.group("requests", [&](auto& g) {
    g.count("arrived", s.requests.arrived);
    g.count("finished", s.requests.finished);
    g.count("rejected", s.requests.rejected);
    g.count("failed", s.requests.failed);
    g.count("in_flight", s.requests.in_flight);
    g.count("preempted", s.requests.preempted);
    g.added_count("cancelled", s.requests.cancelled);
    g.added_count("preemptions", s.requests.preemptions);
    g.added_count("clamped_prompts", s.requests.clamped_prompts);
    g.added_count("clamped_outputs", s.requests.clamped_outputs);
    g.added_count("skipped_failed", s.requests.skipped_failed);
  });
  v.group("tokens", [&](auto& g) {
    g.count("prompt", s.tokens.prompt);
    g.count("output", s.tokens.output);
    g.added_count("cached_prompt", s.tokens.cached_prompt);
  });
  v.group("energy_j", [&](auto& g) {
    g.quantity("total", s.energy.total);
    g.quantity("busy", s.energy.busy);
    g.quantity("idle", s.energy.idle);
    g.quantity("prefill", s.energy.prefill);
    g.quantity("decode", s.energy.decode);
    g.added_quantity("residue", s.energy.residue);
    g.added_quantity("idle_tail", s.energy.idle_tail);
    g.added_quantity("unknown_carbon", s.energy.unknown_carbon);
    g.added_quantity("unknown_price", s.energy.unknown_price);
  });
  v.quantity("carbon_g", s.carbon);
  v.quantity("cost_usd", s.cost);
  v.added_group("cost_split_usd", [&](auto& g) {
    g.added_quantity("gpus", s.cost_split.gpus);
    g.added_quantity("electricity", s.cost_split.electricity);
  });
  v.added_text("meters", s.meters);
  v.added_number("unmetered_s", s.unmetered_s);
  v.added_number("gpu_s", s.gpu_s);
  v.ratio("tokens_per_joule", s.tokens_per_joule);
  v.quantity("mean_power_w", s.mean_power);
  v.added_quantity("idle_power_w", s.idle_power);
  v.number("mean_gpus", s.mean_gpus);
  v.group("slo", [&](auto& g) {
    g.ratio("ttft_attainment", s.slo.ttft);
    g.ratio("itl_attainment", s.slo.itl);
    g.ratio("tbt_attainment", s.slo.tbt);
    g.ratio("e2e_attainment", s.slo.e2e);
    g.ratio("attainment", s.slo.all);
  });
  visit_distribution(v, "ttft_ms", s.ttft);
  visit_distribution(v, "itl_ms", s.itl);
  visit_distribution(v, "tbt_ms", s.tbt);
  visit_distribution(v, "e2e_ms", s.e2e);
  visit_distribution(v, "queue_ms", s.queue);
  v.group("clock_mhz", [&](auto& g) {
    g.number("mean", s.clock_mean_mhz);
    g.count("changes", s.clock_changes);
  });
  v.added_count("overruns", s.overruns);
  v.added_group("prediction", [&](auto& g) {
    visit_error(g, "prefill", s.prediction.prefill);
    visit_error(g, "decode", s.prediction.decode);
    g.added_count("refits", s.prediction.refits);
    g.added_count("adopted", s.prediction.adopted);
    g.added_count("rejected", s.prediction.rejected);
    g.added_count("failed", s.prediction.failed);
    g.added_count("rolled_back", s.prediction.rolled_back);
  });
  v.ratio("fairness_jain", s.fairness_jain);
  v.added_group("fairness", [&](auto& g) {
    g.ratio("jain", s.fairness.jain);
    g.ratio("violation_rate", s.fairness.violation_rate);
    visit_distribution(g, "max_waiting_ms", s.fairness.waiting);
  });
  v.added_count("extrapolations", s.extrapolations);
  v.added_count("misclassified", s.misclassified);
  v.added_group("emergency", [&](auto& g) {
    g.added_count("reordered", s.emergency.reordered);
    g.added_count("boosted", s.emergency.boosted);
    g.added_count("resteered", s.emergency.resteered);
    g.added_count("squashed", s.emergency.squashed);
    g.added_count("shed", s.emergency.shed);
  });
  v.group("sim", [&](auto& g) {
    g.number("virtual_s", s.sim.virtual_s);
    g.number("wall_s", s.sim.wall_s);
    g.count("iterations", s.sim.iterations);
    g.count("events", s.sim.events);
    g.count("peak_rss_bytes", s.sim.peak_rss_bytes);
  });
  v.digest("journal_digest", s.journal_digest);
}

Json curve_json(const Curve& curve) {
  Json points = Json::array();
  for (const auto& [ms, share] : curve) points.push_back(Json::array({ms, share}));
  return points;
}

Result<Curve> curve_from(const Json& json, const char* key, const std::string& where) {
  const auto it = json.find(key);
  if (it == json.end()) return Curve{};
  const auto wrong = [&] {
    return bad_input(where,
                     fmt::format("key curves.{} must be an array of ascending [milliseconds, share] pairs", key));
  };
  if (!it->is_array()) return wrong();
  Curve curve;
  curve.reserve(it->size());
  for (const Json& point : *it) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) return wrong();
    const double ms = point[0].get<double>();
    const double share = point[1].get<double>();
    if (!std::isfinite(ms) || !(share >= 0.0 && share <= 1.0)) return wrong();
    if (!curve.empty() && (ms < curve.back().first || share < curve.back().second)) return wrong();
    curve.emplace_back(ms, share);
  }
  return curve;
}

}  // namespace

Json to_json(const UsageRow& row, bool of_requests) {
  Json json = Json::object();
  JsonWriter writer(json);
  visit_usage(writer, row, of_requests);
  return json;
}

Json to_json(const RunSummary& summary) {
  Json json = Json::object();
  JsonWriter writer(json);
  visit(writer, summary);
  for (const auto& [key, rows, of_requests] : kUsage) {
    Json table = Json::object();
    for (const UsageRow& row : summary.*rows) {
      Json one = Json::object();
      JsonWriter to(one);
      visit_usage(to, row, of_requests);
      table[row.name] = std::move(one);
    }
    json[key] = std::move(table);
  }
  for (const auto& [key, rows] : kService) {
    if ((summary.*rows).empty()) continue;
    Json table = Json::object();
    for (const ServiceRow& row : summary.*rows) {
      Json one = Json::object();
      JsonWriter to(one);
      visit_service(to, row);
      table[row.name] = std::move(one);
    }
    json[key] = std::move(table);
  }
  if (!summary.extrapolated.empty()) json["extrapolated"] = summary.extrapolated;
  return json;
}

Result<RunSummary> summary_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) return bad_input(where, "the run's summary must be an object");
  RunSummary summary;
  std::string problem;
  JsonReader reader(json, "", problem);
  visit(reader, summary);
  for (const auto& [key, rows, of_requests] : kUsage) {
    const auto table = json.find(key);
    if (table == json.end()) continue;
    if (!table->is_object()) return bad_input(where, fmt::format("key {} must be an object", key));
    for (const auto& [name, one] : table->items()) {
      if (!one.is_object()) return bad_input(where, fmt::format("key {}.{} must be an object", key, name));
      UsageRow row;
      row.name = name;
      JsonReader from(one, fmt::format("{}.{}.", key, name), problem);
      visit_usage(from, row, of_requests);
      (summary.*rows).push_back(std::move(row));
    }
  }
  for (const auto& [key, rows] : kService) {
    const auto table = json.find(key);
    if (table == json.end()) continue;
    if (!table->is_object()) return bad_input(where, fmt::format("key {} must be an object", key));
    for (const auto& [name, one] : table->items()) {
      if (!one.is_object()) return bad_input(where, fmt::format("key {}.{} must be an object", key, name));
      ServiceRow row;
      row.name = name;
      JsonReader from(one, fmt::format("{}.{}.", key, name), problem);
      visit_service(from, row);
      (summary.*rows).push_back(std::move(row));
    }
  }
  if (!problem.empty()) return bad_input(where, problem);
  if (const auto said = json.find("extrapolated"); said != json.end()) {
    if (!said->is_array()) return bad_input(where, "key extrapolated must be an array of strings");
    for (const Json& sentence : *said) {
      if (!sentence.is_string()) return bad_input(where, "key extrapolated must be an array of strings");
      summary.extrapolated.push_back(sentence.get<std::string>());
    }
  }
  return summary;
}

Json to_json(const RunCurves& curves) {
  return Json{{"ttft_ms", curve_json(curves.ttft)},
              {"itl_ms", curve_json(curves.itl)},
              {"tbt_ms", curve_json(curves.tbt)},
              {"e2e_ms", curve_json(curves.e2e)}};
}

Result<RunCurves> curves_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) return bad_input(where, "key curves must be an object");
  RunCurves curves;
  const std::pair<const char*, Curve*> keys[] = {
      {"ttft_ms", &curves.ttft}, {"itl_ms", &curves.itl}, {"tbt_ms", &curves.tbt}, {"e2e_ms", &curves.e2e}};
  for (const auto& [key, curve] : keys) {
    auto read = curve_from(json, key, where);
    if (!read) return std::unexpected(read.error());
    *curve = std::move(*read);
  }
  return curves;
}

}  // namespace wattle::journal
