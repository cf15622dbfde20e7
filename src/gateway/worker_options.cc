#include "gateway/worker_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "gateway/plan_api.h"
#include "journal/names.h"
#include "model/instance.h"
#include "net/client.h"

namespace wattle::gateway {

Result<WorkerOptions> parse_worker(std::string_view text, std::string_view where) {
  const auto wrong = [&](std::string_view part, std::string_view what) {
    return bad_input(std::string(where), fmt::format("\"{}\": {}, not \"{}\"", text, what, part));
  };
  WorkerOptions out;
  std::string_view rest = text;
  const auto next_part = [&] {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
  };
  const std::string_view first = next_part();
  const std::size_t equals = first.rfind('=');
  out.url = first.substr(0, equals);
  if (out.url.empty()) return wrong(first, "it begins with the engine's URL");
  const std::string_view role = equals == std::string_view::npos ? "colocated" : first.substr(equals + 1);
  const auto known = journal::role_from(role);
  if (!known) return wrong(role, "the role must be prefill, decode or colocated");
  out.role = *known;
  while (!rest.empty()) {
    const std::string_view part = next_part();
    const std::string_view value = part.substr(std::min(part.find('=') + 1, part.size()));
    if (part.starts_with("fpm=") && !value.empty()) {
      out.step_reports = value;
    } else if (part == "load=orca") {
      out.load_reports = true;
    } else if (part.starts_with("site=") && !value.empty()) {
      out.site = value;
    } else if (part.starts_with("pool=") && !value.empty()) {
      out.pool = value;
    } else if (part.starts_with("model=") && !value.empty()) {
      out.models.emplace_back(value);
    } else if (part.starts_with("type=") && !value.empty()) {
      out.type = value;
    } else if (part.starts_with("tp=") || part.starts_with("bootstrap=")) {
      const bool tp = part.front() == 't';
      std::int32_t number = 0;
      const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (ec != std::errc() || end != value.data() + value.size() || number < 1 || (!tp && number > 65535)) {
        return wrong(value, tp ? "tp must be a whole number above 0" : "bootstrap must be a port");
      }
      if (tp) {
        out.tensor_parallel = number;
      } else {
        out.bootstrap_port = static_cast<std::uint16_t>(number);
      }
    } else {
      return wrong(
          part,
          "after the role come fpm=ENDPOINT, load=orca, tp=N, bootstrap=PORT, site=NAME, pool=NAME, type=CLASS and "
          "model=NAME");
    }
  }
  return out;
}

Result<void> check_apart(std::span<const WorkerOptions> workers, std::string_view where) {
  std::set<std::string> seen;
  for (const WorkerOptions& worker : workers) {
    const auto place = net::normalised_url(worker.url, where);
    if (!place) return std::unexpected(place.error());
    if (!seen.insert(*place).second) {
      return bad_input(std::string(where), fmt::format("{} is said twice: an engine is one worker", worker.url));
    }
    if (!worker.step_reports.empty() && !seen.insert(worker.step_reports).second) {
      return bad_input(std::string(where),
                       fmt::format("{} is where another worker publishes its step reports, too", worker.step_reports));
    }
  }
  return {};
}

namespace {
std::optional<std::int32_t> id_of(const nlohmann::json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMostPools)) {
    return std::nullopt;
  }
  return value.get<std::int32_t>();
}

/// As GET /workers says it; kNoInstance: it is none.
InstanceId worker_of(const nlohmann::json& value) {
  const std::string said = value.is_string() ? value.get<std::string>() : "";
  std::int32_t id = -1;
  const auto read = std::from_chars(said.data(), said.data() + said.size(), id);
  const bool whole = read.ec == std::errc() && read.ptr == said.data() + said.size() && id >= 0;
  return whole ? InstanceId(id) : kNoInstance;
}

std::optional<Role> role_of(const nlohmann::json& type) {
  if (type == "prefill") return Role::Prefill;
  if (type == "decode") return Role::Decode;
  return type == "regular" ? std::optional(Role::Colocated) : std::nullopt;
}

bool are_names(const nlohmann::json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const nlohmann::json& name) { return name.is_string(); });
}
}  // namespace

std::expected<WorkerOptions, net::ApiError> read_worker(std::string_view text) {
  const auto wrong = [](const char* param, std::string message) {
    return std::unexpected(net::ApiError{400, std::move(message), "invalid_request_error", param, ""});
  };
  const auto body = nlohmann::json::parse(text, nullptr, false);
  if (!body.is_object()) return wrong("", "the body must be a JSON object with \"url\"");
  WorkerOptions out;
  // Null where another program would have left it out.
  const auto given = [&](const char* key) {
    const auto found = body.find(key);
    return found == body.end() || found->is_null() ? nullptr : &*found;
  };
  const auto url = body.find("url");
  if (url == body.end() || !(url->is_string() || url->is_null())) {
    return wrong("url", "url must be a string, or null while the engine starts");
  }
  if (url->is_string()) {
    out.url = url->get<std::string>();
    if (out.url.empty()) return wrong("url", "url must not be empty; null while the engine starts");
  }
  if (const auto* type = given("worker_type")) {
    const auto role = role_of(*type);
    if (!role) return wrong("worker_type", "worker_type must be regular, prefill or decode");
    out.role = *role;
  }
  if (const auto* fpm = given("step_reports")) {
    if (!fpm->is_string()) return wrong("step_reports", "step_reports must be an endpoint like tcp://host:port");
    out.step_reports = fpm->get<std::string>();
  }
  const auto* load = given("load");
  if (load != nullptr && *load != "orca") return wrong("load", "load must be orca, or absent: its gauges are read");
  out.load_reports = load != nullptr;
  if (const auto* site = given("site")) {
    if (!site->is_string()) return wrong("site", "site must be the name of a site");
    out.site = site->get<std::string>();
  }
  if (const auto* model = given("model_id")) {
    if (!model->is_string()) return wrong("model_id", "model_id must be the name of a model");
    out.models.push_back(model->get<std::string>());
  }
  if (const auto* models = given("models")) {
    if (!are_names(*models)) return wrong("models", "models must be an array of names");
    for (const auto& name : *models) out.models.push_back(name.get<std::string>());
  }
  if (const auto* pool = given("pool")) {
    const auto id = id_of(*pool);
    if (!pool->is_string() && !id) return wrong("pool", "pool must be the name of a pool, or its id, from 0");
    if (id) {
      out.pool_id = PoolId(*id);
    } else {
      out.pool = pool->get<std::string>();
    }
  }
  if (const auto* type = given("type")) {
    if (!type->is_string()) return wrong("type", "type must be the name of a class of requests, as in \"SL\"");
    if (given("pool") != nullptr) return wrong("type", "type says which pool it is; leave pool out");
    out.type = type->get<std::string>();
  }
  if (const auto* mode = given("connection_mode"); mode != nullptr && *mode != "http") {
    return wrong("connection_mode", "connection_mode must be http: engines are spoken to in no other way");
  }
  if (const auto* node = given("node")) {
    const auto id = id_of(*node);
    if (!id) return wrong("node", "node must be the id of a node, from 0");
    out.node = NodeId(*id);
  }
  if (const auto* decode = given("decode")) {
    out.decode = worker_of(*decode);
    if (out.decode == kNoInstance || out.role != Role::Prefill)
      return wrong("decode", "decode must be the id of the decode worker with which this prefill worker is a pair");
  }
  // Above nothing and up to `most`; `out` stays as it is when the key is not there.
  const auto count = [&](const char* key, std::uint64_t most, auto& number) {
    const auto* value = given(key);
    if (value == nullptr) return true;
    if (!value->is_number_unsigned()) return false;
    const auto limit = value->template get<std::uint64_t>();
    if (limit < 1 || limit > most) return false;
    number = static_cast<std::remove_reference_t<decltype(number)>>(limit);
    return true;
  };
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (!count("tensor_parallel", kMost, out.tensor_parallel)) {
    return wrong("tensor_parallel", "tensor_parallel must be a positive integer");
  }
  if (!count("kv_capacity_tokens", kMost, out.kv_capacity_tokens)) {
    return wrong("kv_capacity_tokens", "kv_capacity_tokens must be a positive integer");
  }
  if (const auto* weight = given("weight")) {
    const double share = weight->is_number() ? weight->get<double>() : 0.0;
    if (!(share > 0.0 && share <= kMostWeight)) return wrong("weight", "weight must be a number above 0, at most 1e6");
    out.weight = share;
  }
  std::uint16_t port = 0;
  if (!count("bootstrap_port", 65535, port)) return wrong("bootstrap_port", "bootstrap_port must be a port");
  if (port > 0) out.bootstrap_port = port;
  return out;
}

}  // namespace wattle::gateway
