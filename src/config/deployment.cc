#include "config/deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/engine_arguments.h"
#include "config/records.h"
#include "config/repeated.h"
#include "net/client.h"

namespace wattle::config {

const std::vector<Option<DeploymentFleet>>& deployment_fleet_options() {
  using F = DeploymentFleet;
  static const std::vector<Option<F>> options{
      option("fleet.recipe", &F::recipe, "Recipe to run, by name or file").must(),
      option("fleet.gpu", &F::gpu, "GPU on which the engines run: a file in specs/gpus, without .toml").must(),
      option("fleet.llm", &F::llm, "Served model: a file in specs/llms (without .toml), or the path of a config.json")
          .must(),
      option("fleet.scenario", &F::scenario,
             "Scenario of a similar load; it defines the classes, tiers, tenants and pools of the service"),
      option("fleet.set", &F::set, "Overrides of keys of the recipe and the scenario, each as key=value"),
      option("fleet.models", &F::models, "Model names that clients may request").must(),
  };
  return options;
}

const std::vector<Option<DeploymentSlo>>& deployment_slo_options() {
  using S = DeploymentSlo;
  constexpr Bounds kAny{0, 1e9};
  static const std::vector<Option<S>> options{
      option("slo.ttft_ms", &S::ttft_ms, "ms", kAny, "TTFT objective. 0: none"),
      option("slo.itl_ms", &S::itl_ms, "ms", kAny, "ITL objective: gap between two tokens. 0: none"),
      option("slo.tbt_ms", &S::tbt_ms, "ms", kAny,
             "TBT (TPOT) objective: mean gap between a request's tokens. 0: none"),
      option("slo.e2e_ms", &S::e2e_ms, "ms", kAny, "E2E objective: arrival to last token. 0: none"),
  };
  return options;
}

const std::vector<Option<DeploymentNode>>& deployment_node_options() {
  using N = DeploymentNode;
  static const std::vector<Option<N>> options{
      option("node.name", &N::name, "Name used by workers and by `wattle agent --node`").must(),
      option("node.agent", &N::agent, "HOST:PORT of the admin API of its agent").must(),
      option("node.watt_budget_w", &N::watt_budget_w, "W", {0, 1e6},
             "Power that the GPUs of its engines may draw together, enforced by upper bounds on their clocks. 0: no "
             "limit"),
  };
  return options;
}

const std::vector<Option<DeploymentWorker>>& deployment_worker_options() {
  using W = DeploymentWorker;
  static const std::vector<Option<W>> options{
      option("worker.url", &W::url, "URL of the engine's API").must(),
      choice("worker.role", &W::role, {"prefill", "decode", "colocated"},
             "Phases that the engine serves: both, or one of prefill and decode"),
      option("worker.node", &W::node, "Name of the [[node]] of its GPUs. May be left out if there is only one"),
      option("worker.gpus", &W::gpus, "GPUs on that node, by index or UUID, as many as the tensor-parallel degree")
          .must(),
      option("worker.step_reports", &W::step_reports,
             "ZeroMQ endpoint of the engine's forward-pass metrics. Empty: its clock is decided from the responses "
             "that the gateway relays"),
      choice("worker.load", &W::load, {"", "orca"},
             "How the load is learned without step reports. orca: requested with each request by a header (vLLM); "
             "empty: from the engine's metrics"),
      option("worker.bootstrap_port", &W::bootstrap_port, "", {0, 65535},
             "Bootstrap port of a prefill worker. Needed with pd_contract sglang"),
      option("worker.site", &W::site, "Name of a [[site]] in the gateway's sites file"),
      option("worker.pool", &W::pool, "Name of a [[pool]] of the scenario"),
  };
  return options;
}

namespace {

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  std::ranges::replace(flag, '.', '-');  // of a table: traces.sample is --traces-sample
  return flag;
}

/// A value as an argument; a list is one argument each.
Result<std::vector<std::string>> arguments_of(const Entry& entry) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&entry.value)) return *texts;
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&entry.value)) {
    std::vector<std::string> texts;
    for (const std::int64_t number : *numbers) texts.push_back(fmt::format("{}", number));
    return texts;
  }
  if (std::holds_alternative<std::monostate>(entry.value)) {
    return bad_input(entry.where, fmt::format("{} is {}; it takes text, a number, true or false, or a list of those",
                                              entry.key, entry.kind));
  }
  return std::vector{flag_text(entry.value)};
}

template <typename S>
Result<void> section(const Part& part, const char* name, const std::vector<Option<S>>& options, S& to,
                     const std::string& file) {
  Part mine;
  const std::string prefix = std::string(name) + ".";
  for (const Entry& entry : part.entries) {
    if (entry.key.starts_with(prefix) || entry.key == name) mine.entries.push_back(entry);
  }
  for (const TableEntry& table : part.tables) {
    if (table.key == name || table.key.starts_with(prefix)) mine.tables.push_back(table);
  }
  if (auto ok = check_keys(specs_of(options), mine.entries, mine.tables, file + ":1"); !ok) return ok;
  return fill(options, mine.entries, to);
}

/// Refuses keys outside the known sections.
Result<void> check_sections(const Part& part) {
  constexpr std::array kKnown{"fleet", "slo", "engine", "gateway", "agent", "planner", "node", "worker"};
  const auto check = [&](const std::string& key, const std::string& where) -> Result<void> {
    const std::string first = key.substr(0, key.find('.'));
    if (std::ranges::find(kKnown, first) != kKnown.end()) return {};
    const std::string near = nearest(first, {kKnown.begin(), kKnown.end()});
    return bad_input(where, fmt::format("unknown section [{}]; {}", first,
                                        near.empty() ? fmt::format("known: {}", fmt::join(kKnown, ", "))
                                                     : fmt::format("did you mean [{}]?", near)));
  };
  for (const TableEntry& table : part.tables) {
    if (auto ok = check(table.key, table.where); !ok) return ok;
  }
  for (const Entry& entry : part.entries) {
    if (entry.key.find('.') == std::string::npos) {
      return bad_input(entry.where, fmt::format("{} is in no section; begin with [fleet]", entry.key));
    }
  }
  return {};
}

Result<std::vector<FlagText>> flags_of(const Part& part, const std::string& process) {
  std::vector<FlagText> flags;
  for (const Entry& entry : part.entries) {
    if (!entry.key.starts_with(process + ".")) continue;
    const auto values = arguments_of(entry);
    if (!values) return std::unexpected(values.error());
    for (const std::string& value : *values) {
      flags.push_back({flag_of(entry.key.substr(process.size() + 1)), value, entry.where});
    }
  }
  return flags;
}

/// Checked here, so that errors name the line.
Result<std::vector<FlagText>> engine_flags(const Part& part) {
  std::vector<FlagText> flags;
  engine::EngineOptions scratch;
  for (const Entry& entry : part.entries) {
    if (!entry.key.starts_with("engine.")) continue;
    const std::string key = entry.key.substr(7);
    const auto& all = engine_options();
    const auto found = std::ranges::find(all, key, [](const auto& o) { return o.key; });
    if (found == all.end()) return std::unexpected(unknown_key(key, entry.where, specs_of(all)));
    const auto value = checked(*found, entry);
    if (!value) return std::unexpected(value.error());
    found->set(scratch, *value);
    flags.push_back({engine_flag(*found), flag_text(found->get(scratch)), entry.where});
  }
  return flags;
}

/// Quoted so that a shell takes it as one word.
std::string in_quotes(std::string_view value) {
  std::string text = "'";
  for (const char c : value) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

void append_to(std::vector<FlagText>& all, const std::vector<FlagText>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

Result<Deployment> Deployment::load(const std::string& file) {
  const auto text = read_text(file);
  if (!text) return std::unexpected(text.error());
  return from_text(*text, file);
}

Result<Deployment> Deployment::from_text(std::string_view text, const std::string& file) {
  const auto document = parse_toml(text, file);
  if (!document) return std::unexpected(document.error());
  Deployment made;
  made.file_ = file;
  made.origins_ = Origins(*document);
  Part outside;
  std::vector<List> lists{{"node", "node", specs_of(deployment_node_options())},
                          {"worker", "worker", specs_of(deployment_worker_options())}};
  split(*document, outside, lists);
  if (auto ok = check_sections(outside); !ok) return std::unexpected(ok.error());
  if (auto ok = section(outside, "fleet", deployment_fleet_options(), made.fleet_, file); !ok) {
    return std::unexpected(ok.error());
  }
  if (auto ok = section(outside, "slo", deployment_slo_options(), made.slo_, file); !ok) {
    return std::unexpected(ok.error());
  }
  auto engine = engine_flags(outside);
  if (!engine) return std::unexpected(engine.error());
  made.engine_ = std::move(*engine);
  for (const auto& [name, to] :
       {std::pair{"gateway", &made.gateway_}, {"agent", &made.agent_}, {"planner", &made.planner_}}) {
    auto flags = flags_of(outside, name);
    if (!flags) return std::unexpected(flags.error());
    *to = std::move(*flags);
  }
  for (std::size_t i = 0; i < lists[0].parts.size(); ++i) {
    auto node = element(lists[0], i, deployment_node_options());
    if (!node) return std::unexpected(node.error());
    if (std::ranges::find(made.nodes_, node->name, &DeploymentNode::name) != made.nodes_.end()) {
      return bad_input(lists[0].parts[i].where, fmt::format("node \"{}\" is listed twice", node->name));
    }
    if (!node->agent.ends_with(":0") &&
        std::ranges::find(made.nodes_, node->agent, &DeploymentNode::agent) != made.nodes_.end()) {
      return bad_input(lists[0].parts[i].where, fmt::format("another node's agent is at {}, too", node->agent));
    }
    made.nodes_.push_back(std::move(*node));
    made.node_wheres_.push_back(lists[0].parts[i].where);
  }
  for (std::size_t i = 0; i < lists[1].parts.size(); ++i) {
    auto worker = element(lists[1], i, deployment_worker_options());
    if (!worker) return std::unexpected(worker.error());
    const std::string& where = lists[1].parts[i].where;
    auto name = net::engine_name(worker->step_reports, worker->url, where);
    if (!name) return std::unexpected(name.error());
    made.worker_names_.push_back(std::move(*name));
    if (worker->gpus.empty()) return bad_input(where, "gpus of this [[worker]] is empty; name at least one");
    const auto node = made.node_of(worker->node, where);
    if (!node) return std::unexpected(node.error());
    // Otherwise all power would be booked to one engine, and requests of the other would seem to take none.
    for (auto gpu = worker->gpus.begin(); gpu != worker->gpus.end(); ++gpu) {
      bool taken = std::find(worker->gpus.begin(), gpu, *gpu) != gpu;
      for (std::size_t w = 0; w < i; ++w) {
        taken = taken || (made.worker_nodes_[w] == *node &&
                          std::ranges::find(made.workers_[w].gpus, *gpu) != made.workers_[w].gpus.end());
      }
      if (taken) return bad_input(where, fmt::format("GPU {} is listed twice on its node", *gpu));
    }
    made.workers_.push_back(std::move(*worker));
    made.worker_nodes_.push_back(*node);
    made.worker_wheres_.push_back(where);
  }
  return made;
}

Result<std::size_t> Deployment::node_of(const std::string& name, const std::string& where) const {
  std::vector<std::string> names;
  for (const auto& node : nodes_) names.push_back(node.name);
  if (names.empty()) return bad_input(where, "there is no [[node]]: say on which machine the GPUs are");
  if (name.empty() && names.size() == 1) return 0;
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  return bad_input(where, name.empty()
                              ? fmt::format("node is needed; one of {}", fmt::join(names, ", "))
                              : fmt::format("there is no node \"{}\"; there are {}", name, fmt::join(names, ", ")));
}

void Deployment::add_fleet(std::vector<FlagText>& to, const std::string& key, const std::string& value) const {
  if (!value.empty()) to.push_back({flag_of(key), value, origins_.of("fleet." + key)});
}

void Deployment::add_engine(std::vector<FlagText>& to) const {
  append_to(to, engine_);
  for (const auto& [name, ms] :
       {std::pair{"ttft", slo_.ttft_ms}, {"itl", slo_.itl_ms}, {"tbt", slo_.tbt_ms}, {"e2e", slo_.e2e_ms}}) {
    if (ms <= 0.0) continue;
    to.push_back(
        {fmt::format("--{}-slo-ms", name), fmt::format("{}", ms), origins_.of(fmt::format("slo.{}_ms", name))});
  }
}

std::vector<FlagText> Deployment::common() const {
  std::vector<FlagText> flags;
  add_fleet(flags, "recipe", fleet_.recipe);
  add_fleet(flags, "scenario", fleet_.scenario);
  for (const std::string& one : fleet_.set) add_fleet(flags, "set", one);
  return flags;
}

std::vector<FlagText> Deployment::believed() const {
  std::vector<FlagText> flags = common();
  add_fleet(flags, "gpu", fleet_.gpu);
  add_fleet(flags, "llm", fleet_.llm);
  return flags;
}

std::vector<FlagText> Deployment::gateway() const {
  std::vector<FlagText> flags = believed();
  for (const std::string& model : fleet_.models) flags.push_back({"--model", model, origins_.of("fleet.models")});
  // Names the line if no model is configured.
  if (fleet_.models.empty() && origins_.has("fleet.models"))
    flags.push_back({"--model", "", origins_.of("fleet.models")});
  add_engine(flags);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    flags.push_back({"--agent", "http://" + nodes_[i].agent, node_wheres_[i]});
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const DeploymentWorker& w = workers_[i];
    std::string text = fmt::format("{}={},tp={}", w.url, w.role, w.gpus.size());
    if (!w.step_reports.empty()) text += ",fpm=" + w.step_reports;
    if (!w.load.empty()) text += ",load=" + w.load;
    if (w.bootstrap_port > 0) text += fmt::format(",bootstrap={}", w.bootstrap_port);
    if (!w.site.empty()) text += ",site=" + w.site;
    if (!w.pool.empty()) text += ",pool=" + w.pool;
    flags.push_back({"--worker", std::move(text), worker_wheres_[i]});
  }
  append_to(flags, gateway_);
  return flags;
}

Result<std::vector<FlagText>> Deployment::agent(const std::string& node) const {
  const auto mine = node_of(node, node.empty() ? file_ : "--node");
  if (!mine) return std::unexpected(mine.error());
  std::vector<FlagText> flags = believed();
  add_engine(flags);
  flags.push_back({"--admin", nodes_[*mine].agent, node_wheres_[*mine]});
  if (const double w = nodes_[*mine].watt_budget_w; w > 0.0) {
    flags.push_back({"--watt-budget-w", fmt::format("{}", w), node_wheres_[*mine]});
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const DeploymentWorker& w = workers_[i];
    if (worker_nodes_[i] != *mine) continue;
    flags.push_back(
        {"--engine", fmt::format("{}={}@{}", worker_names_[i], fmt::join(w.gpus, ","), w.role), worker_wheres_[i]});
  }
  append_to(flags, agent_);
  return flags;
}

std::string Deployment::effective_text() const {
  std::string text;
  const auto add = [&](const std::string& process, const std::vector<FlagText>& flags) {
    text += "wattle " + process;
    for (const FlagText& flag : flags) text += fmt::format(" \\\n  {}={}", flag.name, in_quotes(flag.value));
    text += "\n\n";
  };
  add("gateway", gateway());
  for (const DeploymentNode& node : nodes_) add("agent", *agent(node.name));
  if (has_planner()) add("planner", planner());
  return text;
}

std::vector<FlagText> Deployment::planner() const {
  std::vector<FlagText> flags = common();
  const auto admin = std::ranges::find(gateway_, "--admin", &FlagText::name);
  if (admin != gateway_.end()) {
    const bool socket = admin->value.starts_with("unix:");
    flags.push_back({"--gateway", (socket ? "" : "http://") + admin->value, admin->where});
  }
  append_to(flags, planner_);
  return flags;
}

}  // namespace wattle::config
