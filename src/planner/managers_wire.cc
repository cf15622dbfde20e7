#include "planner/managers_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "journal/decisions_jsonl.h"
#include "journal/names.h"
#include "journal/plan_reader.h"

namespace wattle::planner {

namespace {

using Ordered = nlohmann::ordered_json;

/// Those below throw what is wrong, and parsed() makes an error of it.
[[noreturn]] void wrong(const std::string& what) { throw std::invalid_argument(what); }

const Ordered& at(const Ordered& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end()) wrong(std::string(key) + " is missing");
  return *found;
}

std::int64_t whole(const Ordered& json, const char* key, std::int64_t least, std::int64_t most) {
  const Ordered& value = at(json, key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    wrong(fmt::format("{} must be a whole number from {} to {}", key, least, most));
  }
  return value.get<std::int64_t>();
}

constexpr std::int64_t kMostId = 1'000'000'000;
constexpr std::int64_t kMostRequests = std::int64_t{1} << 53;
constexpr std::int64_t kMostNs = std::int64_t{1} << 60;

/// Beyond what any fleet gets, by far; sums and products of what is within stay finite.
constexpr double kMostPerS = 1e9;

std::vector<double> numbers(const Ordered& json, const char* key, double most = kMostPerS) {
  const Ordered& list = at(json, key);
  if (!list.is_array()) wrong(std::string(key) + " must be a list");
  std::vector<double> made;
  for (const Ordered& value : list) {
    if (!value.is_number() || !(value.get<double>() >= 0.0 && value.get<double>() <= most)) {
      wrong(fmt::format("{} must be numbers from 0 to {:g}", key, most));
    }
    made.push_back(value.get<double>());
  }
  return made;
}

std::vector<double> shares(const Ordered& json, const char* key) { return numbers(json, key, 1.0); }

/// Requests per second of each class; of none where nothing has come.
std::vector<double> rates(const Ordered& json, const char* key, std::size_t classes) {
  auto made = numbers(json, key);
  if (made.empty()) made.resize(classes);
  if (made.size() != classes) {
    wrong(fmt::format("{} has {} numbers; it must have one for each of {} classes, or none where nothing has come", key,
                      made.size(), classes));
  }
  return made;
}

/// As rates() reads it.
Ordered rates_json(const std::vector<double>& rates) {
  return std::ranges::all_of(rates, [](double rate) { return rate == 0.0; }) ? Ordered::array() : Ordered(rates);
}

std::vector<std::int32_t> counts(const Ordered& json, const char* key) {
  const Ordered& list = at(json, key);
  if (!list.is_array()) wrong(std::string(key) + " must be a list");
  std::vector<std::int32_t> made;
  for (const Ordered& value : list) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMostId) {
      wrong(std::string(key) + " must be whole numbers from 0");
    }
    made.push_back(value.get<std::int32_t>());
  }
  return made;
}

/// What `json` says of requests that have finished; nothing where it says nothing.
TurnedOut turned_out(const Ordered& json) {
  constexpr std::size_t kMostClasses = 1024;
  TurnedOut made;
  const auto id = [](std::size_t c) { return ClassId(static_cast<std::int32_t>(c)); };
  const auto requests = [](const char* key, const Ordered& value) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMostRequests) {
      wrong(std::string(key) + " must have whole numbers from 0");
    }
    return value.get<std::int64_t>();
  };
  const auto list = [](const Ordered& value, const char* what) {
    if (!value.is_array() || value.size() > kMostClasses) wrong(what);
  };
  if (const auto rows = json.find("turned_out"); rows != json.end()) {
    list(*rows, "turned_out must be a list of lists");
    for (std::size_t t = 0; t < rows->size(); ++t) {
      list((*rows)[t], "turned_out must be a list of lists");
      for (std::size_t w = 0; w < (*rows)[t].size(); ++w) {
        made.add(id(t), id(w), requests("turned_out", (*rows)[t][w]));
      }
    }
  }
  if (const auto late = json.find("late"); late != json.end()) {
    list(*late, "late must be a list");
    for (std::size_t t = 0; t < late->size(); ++t) made.add_late(id(t), requests("late", (*late)[t]));
  }
  return made;
}

template <typename Made, typename Read>
Result<Made> parsed(const char* what, std::string_view text, Read read) {
  const Ordered json = Ordered::parse(text, nullptr, false);
  if (!json.is_object()) return bad_input(what, "is one JSON object");
  try {
    return read(json);
  } catch (const std::exception& problem) {  // ours, and JSON's own
    return bad_input(what, problem.what());
  }
}

/// From the sender's clock to ours.
Instant shifted(std::int64_t at_ns, std::int64_t sent_ns, Instant now) { return now + Span(at_ns - sent_ns); }

Phase phase_of(const std::string& name) {
  for (int p = 0; p <= static_cast<int>(Phase::Gone); ++p) {
    if (journal::name_of(static_cast<Phase>(p)) == name) return static_cast<Phase>(p);
  }
  wrong("phase is '" + name + "'; use spawning, warming, serving or draining");
}

}  // namespace

Result<TurnedOut> turned_out_from_json(const Ordered& json) {
  try {
    return turned_out(json);
  } catch (const std::exception& problem) {
    return bad_input("turned_out", problem.what());
  }
}

std::string to_json(const Observation& seen) {
  Ordered json{{"now_ns", seen.now.ns()},
               {"rate_per_s", rates_json(seen.rate_per_s)},
               {"turned_out", seen.turned_out.rows()},
               {"late", seen.turned_out.late()},
               {"members", Ordered::array()}};
  for (const FleetMember& m : seen.members) {
    json["members"].push_back({{"engine", m.id.value()},
                               {"shape", m.shape},
                               {"phase", journal::name_of(m.phase)},
                               {"since_ns", m.since.ns()},
                               {"pool", m.pool.value()},
                               {"node", m.node.value()},
                               {"gpus", m.gpus},
                               {"changing", m.changing}});
  }
  json["nodes"] = Ordered::array();
  for (const NodeView& n : seen.nodes) {
    json["nodes"].push_back({{"node", n.id.value()}, {"gpus", n.gpus}, {"free_gpus", n.free_gpus}, {"up", n.up}});
  }
  Plan in_force;
  in_force.weights = seen.weights;
  in_force.clocks = seen.clocks;
  json.update(journal::plan_json(in_force));
  return json.dump();
}

Result<Observation> observation_from_json(std::string_view text, std::size_t shapes, std::size_t classes, Instant now) {
  return parsed<Observation>("observation", text, [&](const Ordered& json) {
    Observation seen;
    seen.now = now;
    const std::int64_t sent = whole(json, "now_ns", -kMostNs, kMostNs);
    seen.rate_per_s = rates(json, "rate_per_s", classes);
    seen.turned_out = turned_out(json);
    if (!at(json, "members").is_array()) wrong("members must be a list");
    seen.counts.resize(shapes);
    for (const Ordered& item : at(json, "members")) {
      FleetMember m;
      m.id = InstanceId(static_cast<std::int32_t>(whole(item, "engine", 0, kMostId)));
      m.shape = static_cast<std::size_t>(whole(item, "shape", 0, static_cast<std::int64_t>(shapes) - 1));
      m.phase = phase_of(at(item, "phase").get<std::string>());
      m.since = shifted(whole(item, "since_ns", -kMostNs, kMostNs), sent, now);
      m.pool = PoolId(static_cast<std::int32_t>(whole(item, "pool", 0, kMostId)));
      m.node = NodeId(static_cast<std::int32_t>(whole(item, "node", 0, kMostId)));
      m.gpus = counts(item, "gpus");
      m.changing = at(item, "changing").get<bool>();
      auto& count = seen.counts[m.shape];
      ++(m.phase == Phase::Serving ? count.serving : m.phase == Phase::Draining ? count.draining : count.coming);
      seen.members.push_back(std::move(m));
    }
    for (const Ordered& item : json.value("nodes", Ordered::array())) {
      const auto gpus = [&](const char* key) { return static_cast<std::int32_t>(whole(item, key, 0, kMostId)); };
      seen.nodes.push_back({NodeId(gpus("node")), gpus("gpus"), gpus("free_gpus"), at(item, "up").get<bool>()});
    }
    auto in_force = journal::plan_from_json(text);
    if (!in_force) wrong(in_force.error().message());
    seen.weights = std::move(in_force->weights);
    seen.clocks = std::move(in_force->clocks);
    return seen;
  });
}

std::string to_json(const Plan& plan, Instant now) {
  Ordered json = journal::plan_json(plan);
  json["now_ns"] = now.ns();
  json["reason"] = plan.reason;
  return json.dump();
}

Result<Plan> part_from_json(std::string_view text, Instant now) {
  return parsed<Plan>("plan", text, [&](const Ordered& json) {
    for (const char* key : {"reason", "levels"}) (void)at(json, key);
    auto plan = journal::plan_from_json(text, now - Instant(whole(json, "now_ns", -kMostNs, kMostNs)));
    if (!plan) wrong(plan.error().message());
    return std::move(*plan);
  });
}

std::string to_json(const managers::ClusterObservation& seen) {
  return Ordered{{"rate_per_s", rates_json(seen.rate_per_s)},
                 {"gpus", seen.gpus},
                 {"forwarded", seen.forwarded},
                 {"reserve", seen.reserve},
                 {"down", seen.down}}
      .dump();
}

Result<managers::ClusterObservation> cluster_observation_from_json(std::string_view text, std::size_t pools,
                                                                   std::size_t classes) {
  return parsed<managers::ClusterObservation>("observation", text, [&](const Ordered& json) {
    managers::ClusterObservation seen;
    seen.rate_per_s = rates(json, "rate_per_s", classes);
    seen.gpus = counts(json, "gpus");
    seen.forwarded = shares(json, "forwarded");
    if (json.contains("down")) seen.down = counts(json, "down");
    if (json.contains("reserve")) seen.reserve = shares(json, "reserve");
    for (const auto& [key, size] : {std::pair{"gpus", seen.gpus.size()},
                                    {"forwarded", seen.forwarded.size()},
                                    {"reserve", seen.reserve.size()}}) {
      if (size != 0 && size != pools) {
        wrong(fmt::format("{} has {} entries; it must have one for each of {} pools, or none", key, size, pools));
      }
    }
    if (std::ranges::any_of(seen.reserve, [](double share) { return share >= 1.0; })) {
      wrong("reserve must have shares below 1");
    }
    return seen;
  });
}

namespace {

Ordered order_json(const managers::ClusterOrder& order) {
  Ordered json{{"number", order.number},         {"from_ns", order.from.ns()},
               {"until_ns", order.until.ns()},   {"gpus", order.gpus},
               {"load_per_s", order.load_per_s}, {"forwarded", order.forwarded},
               {"shed_per_s", order.shed_per_s}, {"problem", order.problem}};
  if (!order.tiers.empty()) json["tiers"] = order.tiers;
  return json;
}

managers::ClusterOrder order_of(const Ordered& json, std::size_t pools, std::int64_t sent, Instant now) {
  managers::ClusterOrder order;
  order.number = whole(json, "number", -kMostNs, kMostNs);
  order.from = shifted(whole(json, "from_ns", -kMostNs, kMostNs), sent, now);
  const std::int64_t until = at(json, "until_ns").get<std::int64_t>();
  order.until = until > kMostNs ? Instant::never() : shifted(until, sent, now);
  order.gpus = counts(json, "gpus");
  order.load_per_s = numbers(json, "load_per_s");
  order.forwarded = shares(json, "forwarded");
  order.shed_per_s = numbers(json, "shed_per_s");
  for (const std::size_t size :
       {order.gpus.size(), order.load_per_s.size(), order.forwarded.size(), order.shed_per_s.size()}) {
    if (size != pools) wrong(fmt::format("an order must have an entry for each of {} pools", pools));
  }
  order.problem = at(json, "problem").get<std::string>();
  if (json.contains("tiers")) order.tiers = json["tiers"].get<std::string>();
  return order;
}

}  // namespace

std::string to_json(const managers::ClusterMandate& mandate, Instant now) {
  Ordered json{{"now_ns", now.ns()}, {"present", order_json(mandate.present)}};
  if (mandate.next) json["next"] = order_json(*mandate.next);
  return json.dump();
}

Result<managers::ClusterMandate> mandate_from_json(std::string_view text, std::size_t pools, Instant now) {
  return parsed<managers::ClusterMandate>("mandate", text, [&](const Ordered& json) {
    const std::int64_t sent = whole(json, "now_ns", -kMostNs, kMostNs);
    managers::ClusterMandate mandate{order_of(at(json, "present"), pools, sent, now), {}};
    if (json.contains("next")) mandate.next = order_of(json["next"], pools, sent, now);
    return mandate;
  });
}

}  // namespace wattle::planner
