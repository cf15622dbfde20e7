#include "config/checkpoint_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "config/python_json.h"

namespace wattle::config {

namespace {

using Json = nlohmann::json;
using Names = std::initializer_list<std::string_view>;

std::string format_of_weights(const Json& weights) {
  if (!weights.is_object()) return "";
  const bool real = weights.value("type", Json()) == Json("float");
  const Json bits = weights.value("num_bits", Json());
  if (bits == Json(8)) return real ? "fp8" : "";
  if (bits != Json(4)) return "";
  return !real ? "int4" : weights.value("group_size", Json()) == Json(32) ? "mxfp4" : "nvfp4";
}

/// Empty: not modelled.
std::string format_of(const Json& config, const std::string& method) {
  if (method == "fp8" || method == "fbgemm_fp8" || method == "mxfp4") return method == "mxfp4" ? "mxfp4" : "fp8";
  if (method == "awq" || method == "gptq" || method == "auto-round") {
    return config.value("bits", Json(4)) == Json(4) ? "int4" : "";
  }
  if (method == "modelopt") {
    const Json algorithm = config.value("quant_algo", Json());  // null: the cache's format alone
    return algorithm.is_null() ? "bf16" : algorithm == Json("FP8") ? "fp8" : algorithm == Json("NVFP4") ? "nvfp4" : "";
  }
  const auto groups = config.find("config_groups");
  if (method != "compressed-tensors" || groups == config.end() || groups->empty() || !groups->is_object()) return "";
  std::set<std::string> formats;
  for (const Json& group : *groups) {
    formats.insert(group.is_object() ? format_of_weights(group.value("weights", Json())) : "");
  }
  return formats.size() == 1 ? *formats.begin() : "";
}

/// vLLM and SGLang take these for the cache's format; that of other methods needs a flag of theirs.
std::string cache_of(const Json& config, const std::string& method) {
  if (method != "modelopt" && method != "compressed-tensors") return "";
  const auto scheme = config.find("kv_cache_scheme");
  const bool eight = scheme != config.end() && format_of_weights(*scheme) == "fp8";
  return eight || text_of(config, "kv_cache_quant_algo") == "FP8" ? "fp8" : "";
}

/// Names or patterns of modules that keep 16 bits.
std::vector<std::string> kept_modules(const Json& config) {
  std::vector<std::string> names;
  for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"}) {
    const auto list = config.find(key);
    if (list == config.end() || !list->is_array()) continue;
    for (const Json& module : *list) {
      if (module.is_string()) names.push_back(module.get<std::string>());
    }
  }
  const auto rules = config.find("dynamic");  // GPTQModel: "-:" and a pattern
  if (rules == config.end() || !rules->is_object()) return names;
  for (const auto& [name, rule] : rules->items()) {
    if (name.starts_with("-:")) names.push_back(name);
  }
  return names;
}

/// Whether modules of the text part with one of these names are kept in half of all layers or more. Those of image and
/// audio encoders are kept in many checkpoints, and norms in all.
bool keeps(const std::vector<std::string>& modules, Names parts, std::int64_t layers) {
  std::set<std::string> by_number;
  for (const std::string& name : modules) {
    const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    if (std::ranges::none_of(parts, has) || has("vision") || has("visual") || has("audio") || has("norm")) continue;
    const auto digit = has("layers.") ? name.find("layers.") + 7 : name.npos;
    if (digit >= name.size() || std::isdigit(static_cast<unsigned char>(name[digit])) == 0) return true;
    by_number.insert(name.substr(digit, name.find_first_not_of("0123456789", digit) - digit));
  }
  return 2 * static_cast<std::int64_t>(by_number.size()) >= layers;
}

}  // namespace

Result<CheckpointFormats> checkpoint_formats(const Json& config, std::int64_t layers, bool dense,
                                             const std::string& file) {
  const auto wrong = [&](const std::string& what) { return bad_input(file, what); };
  if (config.contains("quantization")) return wrong("quantization: formats of MLX are not modelled");
  const char* key = "quantization_config";
  auto found = config.find(key);
  if (found == config.end()) found = config.find(key = "compression_config");
  if (found == config.end() || !found->is_object()) return CheckpointFormats{};
  const auto nested = found->find("quantization");  // as hf_quant_config.json has it
  const bool of_modelopt = nested != found->end() && nested->is_object() && !found->contains("quant_method");
  const Json& stated = of_modelopt ? *nested : *found;
  const std::string method = of_modelopt ? "modelopt" : text_of(stated, "quant_method");

  CheckpointFormats formats{format_of(stated, method), false, cache_of(stated, method)};
  if (formats.weights.empty()) {
    std::string names;
    for (const char* name : {"quant_method", "bits", "quant_algo", "format"}) {
      if (stated.contains(name)) names += fmt::format("{}{} {}", names.empty() ? "" : ", ", name, stated[name].dump());
    }
    return wrong(fmt::format("{} ({}) is not modelled; fp8, nvfp4, mxfp4 and 4-bit integers are", key, names));
  }
  const auto rules = stated.find("dynamic");
  if (rules != stated.end() && rules->is_object() && std::ranges::any_of(*rules, [&](const Json& rule) {
        return rule.is_object() && rule.contains("bits") && rule["bits"] != stated.value("bits", Json(4));
      })) {
    return wrong(fmt::format("{}.dynamic has parts of other widths, which are not modelled", key));
  }
  const std::vector<std::string> kept = kept_modules(stated);
  formats.attention_kept = keeps(kept, {"attn", "attention"}, layers);
  if (dense && keeps(kept, {"mlp", "gate_proj", "up_proj", "down_proj"}, layers)) {
    return wrong(fmt::format("{} keeps parts of the FFN in 16 bits, which is not modelled", key));
  }
  return formats;
}

Result<std::string> with_modelopt_formats(const std::string& config, const std::string& formats,
                                          const std::string& formats_file) {
  Json whole = parse_python_json(config);
  if (!whole.is_object() || whole.contains("quantization_config")) return config;
  const Json stated = Json::parse(formats, nullptr, false);
  const auto inner = stated.is_object() ? stated.find("quantization") : stated.end();
  if (!stated.is_object() || inner == stated.end() || !inner->is_object()) {
    return bad_input(formats_file, "is no JSON object with an object \"quantization\"");
  }
  whole["quantization_config"] = {{"quantization", *inner}};
  return whole.dump();
}

}  // namespace wattle::config
