// run.json, both ways.
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "journal/json_keys.h"
#include "journal/names.h"
#include "journal/run_directory.h"
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
  v.group("slo", [&](auto& g) {
    g.objective("ttft_ms", facts.slo.ttft);
    g.objective("itl_ms", facts.slo.itl);
    g.objective("tbt_ms", facts.slo.tbt);
    g.objective("e2e_ms", facts.slo.e2e);
  });
}

Json instances_json(const std::vector<InstanceFacts>& instances) {
  Json all = Json::array();
  for (const InstanceFacts& i : instances) {
    all.push_back(Json{{"id", i.id.value()},
                       {"role", name_of(i.role)},
                       {"gpu", i.gpu},
                       {"llm", i.llm},
                       {"tensor_parallel", i.tensor_parallel},
                       {"clock_max_mhz", i.clock_max.value()},
                       {"site", i.site.value()}});
  }
  return all;
}

Result<std::vector<InstanceFacts>> instances_from(const Json& facts, const std::string& name) {
  const auto list = facts.find("instances");
  if (list == facts.end() || !list->is_array()) return bad_input(name, "key facts.instances must be an array");
  std::vector<InstanceFacts> all;
  for (const Json& json : *list) {
    const std::string path = fmt::format("facts.instances[{}].", all.size());
    if (!json.is_object()) return bad_input(name, fmt::format("key {} must be an object", path));
    std::string problem;
    std::string role;
    std::int64_t id = 0;
    std::int64_t tensor_parallel = 0;
    std::int64_t clock = 0;
    std::int64_t site = 0;
    InstanceFacts i;
    JsonReader reader(json, path, problem);
    reader.count("id", id);
    reader.text("role", role);
    reader.text("gpu", i.gpu);
    reader.text("llm", i.llm);
    reader.count("tensor_parallel", tensor_parallel);
    reader.count("clock_max_mhz", clock);
    reader.added_count("site", site);
    const auto known = role_from(role);
    if (problem.empty() && !known) problem = fmt::format("key {}role must be colocated, prefill or decode", path);
    if (problem.empty() && std::max({id, tensor_parallel, clock, site}) > INT32_MAX) {
      problem = fmt::format("key {}: numbers must be below 2^31", path);
    }
    if (!problem.empty()) return bad_input(name, problem);
    i.id = InstanceId(static_cast<std::int32_t>(id));
    i.role = *known;
    i.tensor_parallel = static_cast<std::int32_t>(tensor_parallel);
    i.clock_max = MegaHertz(static_cast<std::int32_t>(clock));
    i.site = SiteId(static_cast<std::int32_t>(site));
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
  facts["instances"] = instances_json(run.facts.instances);
  json["facts"] = std::move(facts);
  json["files"] = Json{{"decisions", run.files.decisions},
                       {"requests", run.files.requests},
                       {"timeseries", run.files.timeseries},
                       {"trace", run.files.trace}};
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
    const auto upto = static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    const auto line = 1 + std::count(text.begin(), text.begin() + upto, '\n');
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
  for (const char* key : {"summary", "curves"}) {
    if (!json.contains(key)) return bad_input(name, fmt::format("key {} is missing", key));
  }
  auto summary = summary_from_json(json["summary"], name + " (summary)");
  if (!summary) return std::unexpected(summary.error());
  run.summary = std::move(*summary);
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
