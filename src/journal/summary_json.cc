#include "journal/summary_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "journal/digest_sink.h"

namespace wattle::journal {
namespace {

using Json = nlohmann::ordered_json;

/// Two visitors over one list of keys (`visit` below), so that writing and reading cannot drift apart.
class Writer {
 public:
  explicit Writer(Json& into) : into_(into) {}
  void text(const char* key, const std::string& v) { into_[key] = v; }
  void number(const char* key, double v) { into_[key] = v; }
  void count(const char* key, std::int64_t v) { into_[key] = v; }
  void digest(const char* key, std::uint64_t v) { into_[key] = digest_text(v); }
  template <typename Tag>
  void quantity(const char* key, Quantity<Tag> v) {
    into_[key] = v.value();
  }
  template <typename F>
  void group(const char* key, F&& f) {
    Json inner = Json::object();
    Writer writer(inner);
    f(writer);
    into_[key] = std::move(inner);
  }
  void added_number(const char* key, double v) { number(key, v); }
  void added_count(const char* key, std::int64_t v) { count(key, v); }

 private:
  Json& into_;
};

class Reader {
 public:
  Reader(const Json& from, std::string path, std::string& problem)
      : from_(from), path_(std::move(path)), problem_(problem) {}

  void text(const char* key, std::string& v) {
    if (const Json* j = find(key, true))
      j->is_string() ? static_cast<void>(v = j->get<std::string>()) : wrong(key, "a string");
  }
  void number(const char* key, double& v) { number(key, v, true); }
  void count(const char* key, std::int64_t& v) { count(key, v, true); }
  /// Keys added after the first version may be absent from older files.
  void added_number(const char* key, double& v) { number(key, v, false); }
  void added_count(const char* key, std::int64_t& v) { count(key, v, false); }
  void digest(const char* key, std::uint64_t& v) {
    const Json* j = find(key, true);
    if (j == nullptr) return;
    if (!j->is_string()) return wrong(key, "a string of 16 hexadecimal digits");
    const auto& s = j->get_ref<const std::string&>();
    const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v, 16);
    if (s.size() != 16 || code != std::errc() || end != s.data() + s.size()) {
      wrong(key, "a string of 16 hexadecimal digits");
    }
  }
  template <typename Tag>
  void quantity(const char* key, Quantity<Tag>& v) {
    double raw = v.value();
    number(key, raw);
    v = Quantity<Tag>(raw);
  }
  template <typename F>
  void group(const char* key, F&& f) {
    const Json* j = find(key, true);
    if (j == nullptr) return;
    if (!j->is_object()) return wrong(key, "an object");
    Reader reader(*j, path_ + key + ".", problem_);
    f(reader);
  }

 private:
  const Json* find(const char* key, bool required) {
    const auto it = from_.find(key);
    if (it != from_.end()) return &*it;
    if (required && problem_.empty()) problem_ = fmt::format("key {}{} is missing", path_, key);
    return nullptr;
  }
  void number(const char* key, double& v, bool required) {
    const Json* j = find(key, required);
    if (j == nullptr) return;
    if (!j->is_number()) return wrong(key, "a number");
    v = j->get<double>();
    if (!std::isfinite(v)) wrong(key, "a finite number");
  }
  void count(const char* key, std::int64_t& v, bool required) {
    const Json* j = find(key, required);
    if (j == nullptr) return;
    if (!j->is_number_integer() || (j->is_number_unsigned() && j->get<std::uint64_t>() > (std::uint64_t{1} << 62U)) ||
        (v = j->get<std::int64_t>()) < 0) {
      wrong(key, "a whole number >= 0");
    }
  }
  void wrong(const char* key, const char* right) {
    if (problem_.empty()) problem_ = fmt::format("key {}{} must be {}", path_, key, right);
  }

  const Json& from_;
  std::string path_;
  std::string& problem_;
};

template <typename V, typename D>
void visit_distribution(V& v, const char* key, D& d) {
  v.group(key, [&](auto& g) {
    g.number("mean", d.mean_ms);
    g.number("p50", d.p50_ms);
    g.number("p90", d.p90_ms);
    g.number("p99", d.p99_ms);
    g.added_number("p95", d.p95_ms);
    g.added_number("max", d.max_ms);
    g.added_count("count", d.count);
  });
}

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
  });
  v.group("tokens", [&](auto& g) {
    g.count("prompt", s.tokens.prompt);
    g.count("output", s.tokens.output);
  });
  v.group("energy_j", [&](auto& g) {
    g.quantity("total", s.energy.total);
    g.quantity("busy", s.energy.busy);
    g.quantity("idle", s.energy.idle);
    g.quantity("prefill", s.energy.prefill);
    g.quantity("decode", s.energy.decode);
  });
  v.quantity("carbon_g", s.carbon);
  v.quantity("cost_usd", s.cost);
  v.number("tokens_per_joule", s.tokens_per_joule);
  v.quantity("mean_power_w", s.mean_power);
  v.number("mean_gpus", s.mean_gpus);
  v.group("slo", [&](auto& g) {
    g.number("ttft_attainment", s.slo.ttft);
    g.number("itl_attainment", s.slo.itl);
    g.number("tbt_attainment", s.slo.tbt);
    g.number("e2e_attainment", s.slo.e2e);
    g.number("attainment", s.slo.all);
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
  v.number("fairness_jain", s.fairness_jain);
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

Json to_json(const RunSummary& summary) {
  Json json = Json::object();
  Writer writer(json);
  visit(writer, summary);
  return json;
}

Result<RunSummary> summary_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) return bad_input(where, "the run's summary must be an object");
  RunSummary summary;
  std::string problem;
  Reader reader(json, "", problem);
  visit(reader, summary);
  if (!problem.empty()) return bad_input(where, problem);
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
