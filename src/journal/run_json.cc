// run.json, both ways.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/text_line.h"
#include "journal/json_keys.h"
#include "journal/names.h"
#include "journal/run_directory.h"
#include "journal/slo_keys.h"
#include "journal/summary_json.h"

namespace wattle::journal {
namespace {

constexpr std::int64_t kVersion = 1;

template <typename V, typename F>
void visit_facts(V& v, F& facts) {
  v.text("scenario", facts.scenario);
  v.text("recipe", facts.recipe);
  v.text("driver", facts.driver);
  v.seed("seed", facts.seed);
  v.group("slo", [&](auto& g) { visit_slo(g, facts.slo); });
}

Json sizes_json(const Classifier& sizes) {
  Json json{{"prompt_below", sizes.prompt_below()}, {"output_below", sizes.output_below()}};
  if (sizes.tiers() > 1) {
    json["tiers"] = sizes.tier_names();
    json["tier_rank"] = sizes.tier_ranks();
  }
  return json;
}

/// Nothing where there is one class and all are held to the same.
void add_service(Json& facts, const Service& service) {
  if (service.classes.size() > 1) facts["classes"] = sizes_json(service.classes);
  if (!service.objectives) return;
  const Objectives& o = *service.objectives;
  Json sizes = Json::array();
  for (const Slo& slo : o.by_size()) sizes.push_back(slo_json(slo));
  Json tiers = Json::array();
  for (const Tier& tier : o.tiers()) {
    tiers.push_back(Json{{"name", tier.name}, {"factor", tier.factor}, {"slo", slo_json(tier.slo)}});
  }
  facts["objectives"] = Json{{"sizes", sizes_json(o.sizes())}, {"by_size", sizes}, {"tiers", tiers}};
}

/// Throws what nlohmann says is wrong.
Classifier sizes_from(const Json& json) {
  const Classifier sizes(json.at("prompt_below").get<std::vector<std::int32_t>>(),
                         json.at("output_below").get<std::vector<std::int32_t>>());
  if (!json.contains("tiers")) return sizes;
  const auto names = json.at("tiers").get<std::vector<std::string>>();
  auto rank = json.at("tier_rank").get<std::vector<std::int32_t>>();
  for (std::int32_t& r : rank) r = std::clamp(r, 0, std::max(0, static_cast<std::int32_t>(names.size()) - 1));
  return sizes.by_tier(names, std::move(rank));
}

Slo slo_from(const Json& json, std::string& problem) {
  Slo slo;
  JsonReader reader(json, "facts.objectives.", problem);
  visit_slo(reader, slo);
  return slo;
}

Result<Service> service_from(const Json& facts, const Slo& fleet, const std::string& name) {
  Service service;
  std::string problem;
  try {
    if (const auto classes = facts.find("classes"); classes != facts.end()) service.classes = sizes_from(*classes);
    const auto said = facts.find("objectives");
    if (said == facts.end()) return service;
    std::vector<Slo> by_size;
    for (const Json& slo : said->at("by_size")) by_size.push_back(slo_from(slo, problem));
    std::vector<Tier> tiers;
    for (const Json& tier : said->at("tiers")) {
      tiers.push_back(
          {tier.at("name").get<std::string>(), slo_from(tier.at("slo"), problem), tier.at("factor").get<double>()});
    }
    service.objectives = Objectives(fleet, sizes_from(said->at("sizes")), std::move(by_size), std::move(tiers));
  } catch (const Json::exception& error) {
    return bad_input(name, fmt::format("key facts.classes or facts.objectives: {}", error.what()));
  }
  if (!problem.empty()) return bad_input(name, problem);
  return service;
}

/// Absent where nothing is known; an older file says nothing either.
Json fairness_json(const FairnessBasis& basis) {
  return Json{{"ttft_ms", basis.service.ttft.millis()},
              {"tbt_ms", basis.service.tbt.millis()},
              {"window", basis.window},
              {"limit", basis.limit}};
}

std::optional<FairnessBasis> fairness_from(const Json& facts, std::string& problem) {
  const auto said = facts.find("fairness");
  if (said == facts.end()) return std::nullopt;
  if (!said->is_object()) {
    problem = "key facts.fairness must be an object";
    return std::nullopt;
  }
  FairnessBasis basis;
  double ttft = 0.0;
  double tbt = 0.0;
  JsonReader reader(*said, "facts.fairness.", problem);
  reader.number("ttft_ms", ttft);
  reader.number("tbt_ms", tbt);
  reader.number("window", basis.window);
  reader.number("limit", basis.limit);
  basis.service = {Span::from_seconds(ttft * 1e-3), Span::from_seconds(tbt * 1e-3)};
  return basis;
}

Json sites_json(const std::vector<SiteFacts>& sites) {
  Json all = Json::array();
  for (const SiteFacts& s : sites)
    all.push_back(Json{{"name", s.name}, {"books_by", s.books}, {"decisions_by", s.decisions}});
  return all;
}

/// An older file says nothing of them.
std::vector<SiteFacts> sites_from(const Json& facts, std::string& problem) {
  std::vector<SiteFacts> all;
  const auto list = facts.find("sites");
  if (list == facts.end()) return all;
  if (!list->is_array()) problem = "key facts.sites must be an array";
  for (std::size_t n = 0; problem.empty() && n < list->size(); ++n) {
    JsonReader reader((*list)[n], fmt::format("facts.sites[{}].", n), problem);
    SiteFacts& site = all.emplace_back();
    reader.added_text("name", site.name);
    reader.added_text("books_by", site.books);
    reader.added_text("decisions_by", site.decisions);
  }
  return all;
}

Json instances_json(const std::vector<Instance>& instances) {
  Json all = Json::array();
  for (const Instance& i : instances) {
    all.push_back(Json{{"id", i.id.value()},
                       {"role", name_of(i.spec.role)},
                       {"gpu", i.spec.gpu.name},
                       {"llm", i.spec.llm.name},
                       {"tensor_parallel", i.spec.tensor_parallel},
                       {"clock_max_mhz", i.spec.gpu.clock_max.value()},
                       {"site", i.spec.site.value()},
                       {"pool", i.spec.pool.value()},
                       {"node", i.spec.node.value()}});
  }
  return all;
}

Result<std::vector<Instance>> instances_from(const Json& facts, const std::string& name) {
  const auto list = facts.find("instances");
  if (list == facts.end() || !list->is_array()) return bad_input(name, "key facts.instances must be an array");
  std::vector<Instance> all;
  for (const Json& json : *list) {
    const std::string path = fmt::format("facts.instances[{}].", all.size());
    if (!json.is_object()) return bad_input(name, fmt::format("key {} must be an object", path));
    std::string problem;
    std::string role;
    std::int64_t id = 0;
    std::int64_t tensor_parallel = 0;
    std::int64_t clock = 0;
    std::int64_t site = 0;
    std::int64_t pool = 0;
    std::int64_t node = 0;
    Instance i;
    JsonReader reader(json, path, problem);
    reader.count("id", id);
    reader.text("role", role);
    reader.text("gpu", i.spec.gpu.name);
    reader.text("llm", i.spec.llm.name);
    reader.count("tensor_parallel", tensor_parallel);
    reader.count("clock_max_mhz", clock);
    reader.added_count("site", site);
    reader.added_count("pool", pool);
    reader.added_count("node", node);
    const auto known = role_from(role);
    if (problem.empty() && !known) problem = fmt::format("key {}role must be colocated, prefill or decode", path);
    if (problem.empty() && std::max({id, tensor_parallel, clock, site, pool, node}) > INT32_MAX) {
      problem = fmt::format("key {}: numbers must be below 2^31", path);
    }
    if (!problem.empty()) return bad_input(name, problem);
    i.id = InstanceId(static_cast<std::int32_t>(id));
    i.spec.role = *known;
    i.spec.tensor_parallel = static_cast<std::int32_t>(tensor_parallel);
    i.spec.gpu.clock_max = MegaHertz(static_cast<std::int32_t>(clock));
    i.spec.site = SiteId(static_cast<std::int32_t>(site));
    i.spec.pool = PoolId(static_cast<std::int32_t>(pool));
    i.spec.node = NodeId(static_cast<std::int32_t>(node));
    all.push_back(std::move(i));
  }
  return all;
}

}  // namespace

std::string run_json(const RunFile& run) {
  Json json = Json::object();
  json["format"] = "wattle-run";
  json["version"] = kVersion;
  Json facts = Json::object();
  JsonWriter writer(facts);
  visit_facts(writer, run.facts);
  add_service(facts, run.facts.service);
  if (run.facts.fairness) facts["fairness"] = fairness_json(*run.facts.fairness);
  facts["instances"] = instances_json(run.facts.instances);
  if (!run.facts.sites.empty()) facts["sites"] = sites_json(run.facts.sites);
  json["facts"] = std::move(facts);
  json["files"] = Json{{"decisions", run.files.decisions},
                       {"requests", run.files.requests},
                       {"timeseries", run.files.timeseries},
                       {"trace", run.files.trace}};
  if (!run.bytes.empty()) json["bytes"] = run.bytes;
  json["summary"] = to_json(run.summary);
  json["curves"] = to_json(run.curves);
  // Names come from users; bytes that are not UTF-8 must not make the file unreadable.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<RunFile> parse_run(std::string_view text, const std::string& name) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const auto line = line_at(text, error.byte);
    const bool ends = error.byte > text.size();
    return bad_input(fmt::format("{}:{}", name, line),
                     ends ? "the JSON is cut off here; write the run again" : "this is not JSON; write the run again");
  } catch (const Json::exception&) {  // a number beyond double's range
    return bad_input(name, "a number is out of range; write the run again");
  }
  if (!json.is_object() || json.value("format", Json()) != "wattle-run") {
    return bad_input(name, "key format must be \"wattle-run\": is this a run directory's run.json?");
  }
  if (json.value("version", Json()) != kVersion) {
    return bad_input(name, fmt::format("key version must be {}; write the run again with this wattle", kVersion));
  }
  RunFile run;
  std::string problem;
  JsonReader reader(json, "", problem);
  reader.group("facts", [&](JsonReader& facts) { visit_facts(facts, run.facts); });
  reader.group("files", [&](JsonReader& files) {
    files.flag("decisions", run.files.decisions);
    files.flag("requests", run.files.requests);
    files.flag("timeseries", run.files.timeseries);
    files.flag("trace", run.files.trace);
  });
  if (!problem.empty()) return bad_input(name, problem);
  auto instances = instances_from(json["facts"], name);
  if (!instances) return std::unexpected(instances.error());
  run.facts.instances = std::move(*instances);
  auto service = service_from(json["facts"], run.facts.slo, name);
  if (!service) return std::unexpected(service.error());
  run.facts.service = std::move(*service);
  run.facts.fairness = fairness_from(json["facts"], problem);
  if (problem.empty()) run.facts.sites = sites_from(json["facts"], problem);
  if (!problem.empty()) return bad_input(name, problem);
  if (const auto bytes = json.find("bytes"); bytes != json.end()) {
    if (!bytes->is_object()) return bad_input(name, "key bytes must be an object");
    for (const auto& [file, size] : bytes->items()) {
      if (!size.is_number_integer()) return bad_input(name, fmt::format("key bytes.{} must be a whole number", file));
      run.bytes[file] = size.get<std::int64_t>();
    }
  }
  for (const char* key : {"summary", "curves"}) {
    if (!json.contains(key)) return bad_input(name, fmt::format("key {} is missing", key));
  }
  auto summary = summary_from_json(json["summary"], name + " (summary)");
  if (!summary) return std::unexpected(summary.error());
  run.summary = std::move(*summary);
  // Older files have attainment 1 for objectives that are not stated.
  run.summary.slo = run.summary.slo.of_stated(run.facts.service.judged(run.facts.slo).strictest());
  auto curves = curves_from_json(json["curves"], name);
  if (!curves) return std::unexpected(curves.error());
  run.curves = std::move(*curves);
  return run;
}

Result<RunFile> read_run(const std::string& directory) {
  std::error_code code;
  if (!std::filesystem::is_directory(directory, code)) {
    return bad_input(directory, "no such directory; give one written by `wattle sim --out`");
  }
  const std::string path = (std::filesystem::path(directory) / "run.json").string();
  const std::string partial = (std::filesystem::path(directory) / "run.partial.json").string();
  const bool ended = std::filesystem::exists(path, code);
  if (!ended && !std::filesystem::exists(partial, code)) {
    return bad_input(path, "missing: the directory is not a run, or the run did not end");
  }
  auto text = read_file(ended ? path : partial);
  if (!text) return std::unexpected(text.error());
  auto run = parse_run(*text, ended ? path : partial);
  if (run) run->ended = ended;
  return run;
}

}  // namespace wattle::journal
