#include "config/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

namespace wattle::config {

namespace {

using Json = nlohmann::json;
using Keys = std::initializer_list<const char*>;

bool one_of(const std::string& name, Keys names) { return std::ranges::find(names, name) != names.end(); }

/// Model classes that tie embeddings by default; and those with an FFN of two matrices.
bool ties_embeddings(const std::string& type) {
  return type.starts_with("gemma") ||
         one_of(type, {"opt", "bloom", "gpt2", "falcon", "gpt_bigcode", "starcoder2", "cohere", "cohere2", "mpt"});
}
bool has_plain_ffn(const std::string& type) {
  return one_of(type, {"opt", "bloom", "gpt2", "gpt_neox", "gptj", "falcon", "phi", "gpt_bigcode", "starcoder2", "mpt",
                       "codegen", "nemotron"});
}

class ConfigReader {
 public:
  ConfigReader(const Json& whole, const std::string& file)
      : whole_(whole), text_(part_of(whole)), type_(text_of(text_, "model_type")), out_{file, {}, {}} {}

  Result<Document> read() {
    const std::int64_t layers = needed("layers", {"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
    const std::int64_t hidden = needed("hidden", {"hidden_size", "n_embd", "d_model"});
    const std::int64_t heads = needed("heads", {"num_attention_heads", "n_head", "n_heads"});
    needed("vocab", {"vocab_size"});
    if (problem_) return std::unexpected(*problem_);
    if (heads < 1 || layers < 1 || hidden < 1)
      return wrong("num_attention_heads", "must be at least 1, as layers and width");
    other_layers();
    attention(hidden, heads);
    windows(layers);
    experts(layers, ffn(hidden));
    add("gated_ffn", !has_plain_ffn(type_));
    const Json* const tied = find({"tie_word_embeddings"}, whole_);
    add("tied_embeddings", tied != nullptr && tied->is_boolean() ? tied->get<bool>() : ties_embeddings(type_));
    formats();
    if (problem_) return std::unexpected(*problem_);
    return std::move(out_);
  }

 private:
  static const Json& part_of(const Json& whole) {
    const auto part = whole.find("text_config");
    return part != whole.end() && part->is_object() ? *part : whole;
  }
  static std::string text_of(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  }
  /// The first of these that is there and not null, in the text part or, where it is not there, in `also`.
  [[nodiscard]] const Json* find(Keys keys, const Json& also) const {
    for (const Json* json : {&text_, &also}) {
      for (const char* key : keys) {
        if (const auto found = json->find(key); found != json->end() && !found->is_null()) return &*found;
      }
    }
    return nullptr;
  }
  std::optional<std::int64_t> number(Keys keys) {
    const Json* const found = find(keys, text_);
    if (found == nullptr) return std::nullopt;
    if (!found->is_number_integer()) {
      (void)wrong(*keys.begin(), fmt::format("is {}; it takes an integer", found->dump()));
      return std::nullopt;
    }
    return found->get<std::int64_t>();
  }
  std::int64_t needed(const char* key, Keys keys) {
    const auto value = number(keys);
    if (!value) {
      (void)wrong(*keys.begin(), "is missing: this config leaves it to its model class; write it into the file");
      return 0;
    }
    add(key, *value);
    return *value;
  }
  template <typename T>
  void add(const char* key, T value) {
    out_.entries.push_back({key, Value(std::move(value)), "", out_.file + ": " + key});
  }
  std::unexpected<Error> wrong(const char* key, const std::string& what) {
    auto error = bad_input(out_.file, fmt::format("{} {}", key, what));
    if (!problem_) problem_ = error.error();
    return error;
  }

  /// Hybrids that do not list `layer_types`: some of their layers are none of attention.
  void other_layers() {
    if (find({"layer_types"}, text_) != nullptr) return;
    for (const auto& [key, value] : text_.items()) {
      const bool tells = key.starts_with("mamba_") ||
                         one_of(key, {"attn_layer_period", "hybrid_override_pattern", "full_attention_interval",
                                      "linear_attn_config", "lru_width", "conv_L_cache"});
      if (tells && !value.is_null())
        return (void)wrong(key.c_str(), "is of layers without attention, which are not modelled");
    }
    // MiniMax: 1 is an attention layer, 0 a linear one.
    const Json* const types = find({"attn_type_list"}, text_);
    if (types != nullptr && std::ranges::any_of(*types, [](const Json& type) { return type != Json(1); })) {
      (void)wrong("attn_type_list", "has layers without attention, which are not modelled");
    }
  }

  void attention(std::int64_t hidden, std::int64_t heads) {
    if (const std::int64_t latent = number({"kv_lora_rank"}).value_or(0); latent > 0) {
      const std::int64_t nope = number({"qk_nope_head_dim"}).value_or(0);
      const std::int64_t rope = number({"qk_rope_head_dim"}).value_or(0);
      add("kv_heads", std::int64_t{1});
      add("head_dim", nope + rope);
      add("q_lora_rank", number({"q_lora_rank"}).value_or(0));
      add("kv_lora_rank", latent);
      add("qk_nope_head_dim", nope);
      add("qk_rope_head_dim", rope);
      add("v_head_dim", number({"v_head_dim"}).value_or(0));
      return;
    }
    const auto is_true = [&](const char* key) {
      const Json* const value = find({key}, text_);
      return value != nullptr && *value == Json(true);
    };
    // Falcon-7B states as many KV heads as heads in the same file.
    const bool single = is_true("multi_query") && !is_true("new_decoder_architecture");
    const std::int64_t stated = number({"num_key_value_heads", "num_kv_heads", "n_head_kv"}).value_or(heads);
    add("kv_heads", single ? 1 : stated);
    add("head_dim", number({"head_dim"}).value_or(hidden / heads));
  }

  void windows(std::int64_t layers) {
    const std::int64_t window = number({"sliding_window"}).value_or(0);
    std::int64_t windowed = window > 0 ? layers : 0;
    if (const Json* const types = find({"layer_types"}, text_); types != nullptr && types->is_array()) {
      windowed = 0;
      for (const Json& type : *types) {
        const std::string name = type.is_string() ? type.get<std::string>() : "";
        if (name == "sliding_attention") {
          ++windowed;
        } else if (!one_of(name, {"full_attention", "chunked_attention"})) {  // chunks: counted as attention to all
          (void)wrong("layer_types", fmt::format("has layers of type {}, which are not modelled", type.dump()));
        }
      }
    } else if (const Json* const used = find({"use_sliding_window"}, text_); used != nullptr && *used == Json(false)) {
      windowed = 0;
    } else if (const auto full = number({"max_window_layers"}); full && window > 0) {
      windowed = std::max<std::int64_t>(0, layers - *full);
    } else if (const auto pattern = number({"sliding_window_pattern"}); pattern && *pattern > 0) {
      windowed = window > 0 ? layers - layers / *pattern : 0;  // every such last layer has full attention
    } else if (type_ == "gemma2" || type_.starts_with("gemma3") || type_ == "gpt_oss") {
      const std::int64_t every = type_.starts_with("gemma3") ? 6 : 2;
      windowed = window > 0 ? layers - layers / every : 0;
    }
    if (windowed > 0 && window > 0) {
      add("sliding_window", window);
      add("windowed_layers", windowed);
    }
  }

  std::int64_t ffn(std::int64_t hidden) {
    // Llama 4 names its experts' width as others do their dense layers'.
    const auto dense = number({"intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"});
    if (!dense && !has_plain_ffn(type_)) (void)wrong("intermediate_size", "is missing");
    const std::int64_t width = dense.value_or(4 * hidden);
    add("ffn", width);
    return width;
  }

  void experts(std::int64_t layers, std::int64_t ffn) {
    const auto count = number({"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"});
    if (!count) return no_experts();
    if (*count <= 1) return;
    add("experts", *count);
    const auto chosen =
        number({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k"});
    if (!chosen) return (void)wrong("num_experts_per_tok", "is missing; the model has experts");
    add("experts_per_token", *chosen);
    const bool llama4 = type_.starts_with("llama4");
    const auto own = llama4 ? number({"intermediate_size"}) : number({"moe_intermediate_size"});
    const std::int64_t width = own.value_or(ffn);
    if (width != ffn) add("moe_ffn", width);
    const std::int64_t shared = number({"shared_expert_intermediate_size"}).value_or(0);
    const std::int64_t by_width = width > 0 ? shared / width : 0;
    const auto stated = number({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"});
    add("shared_experts", stated.value_or(llama4 ? 1 : by_width));
    std::int64_t dense = number({"first_k_dense_replace", "moe_layer_start_index"}).value_or(0);
    if (const auto step = number({llama4 ? "interleave_moe_layer_step" : "decoder_sparse_step"}); step && *step > 1) {
      dense = layers - layers / *step;
    }
    const Json* const only_dense = find({"mlp_only_layers"}, text_);
    if (only_dense != nullptr && only_dense->is_array()) dense += static_cast<std::int64_t>(only_dense->size());
    add("dense_layers", dense);
  }

  /// Experts under a name that is not known here must not make a dense model.
  void no_experts() {
    for (const auto& [key, value] : text_.items()) {
      if (key.find("expert") == std::string::npos || !value.is_number_integer() || value <= 1) continue;
      return (void)wrong(key.c_str(),
                         "is of experts, and their number has no name that is known here: num_experts, "
                         "n_routed_experts, num_local_experts, moe_num_experts");
    }
  }

  /// As engines serve it: 32 bits are loaded as 16.
  void formats() {
    const Json* const found = find({"quantization_config"}, whole_);
    if (found == nullptr || !found->is_object()) return add("dtype", std::string("bf16"));
    const std::string format = format_of(*found);
    if (format.empty()) {
      return (void)wrong("quantization_config",
                         fmt::format("of method {} is not modelled; bf16, fp8, nvfp4, mxfp4 and int4 are",
                                     found->value("quant_method", Json()).dump()));
    }
    bool attention = false;  // is left out
    for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"}) {
      const auto list = found->find(key);
      if (list != found->end()) attention = attention || list->dump().find("self_attn") != std::string::npos;
    }
    const bool experts = std::ranges::any_of(out_.entries, [](const Entry& e) { return e.key == "experts"; });
    add("dtype", experts && attention ? std::string("bf16") : format);
    if (experts && attention) {
      add("expert_dtype", format);
    } else if (attention) {
      add("attention_dtype", std::string("bf16"));
    }
  }
  static std::string format_of(const Json& config) {
    const std::string method = text_of(config, "quant_method");
    if (method == "fp8" || method == "fbgemm_fp8" || method == "mxfp4") return method == "mxfp4" ? "mxfp4" : "fp8";
    if (method == "awq" || method == "gptq") return config.value("bits", Json(4)) == Json(4) ? "int4" : "";
    if (method == "modelopt") {
      const std::string algorithm = text_of(config, "quant_algo");
      return algorithm == "FP8" ? "fp8" : algorithm == "NVFP4" ? "nvfp4" : "";
    }
    const auto groups = config.find("config_groups");
    if (method != "compressed-tensors" || groups == config.end() || groups->empty() || !groups->is_object()) return "";
    const Json weights = groups->begin()->is_object() ? groups->begin()->value("weights", Json()) : Json();
    if (!weights.is_object()) return "";
    const bool real = weights.value("type", Json()) == Json("float");
    const Json bits = weights.value("num_bits", Json());
    if (bits == Json(8)) return real ? "fp8" : "";
    return bits == Json(4) ? (real ? "nvfp4" : "int4") : "";
  }

  const Json& whole_;
  const Json& text_;
  std::string type_;
  Document out_;
  std::optional<Error> problem_;
};

}  // namespace

Result<Document> parse_model_config(std::string_view text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad_input(file + ":1", "is no JSON object");
  return ConfigReader(json, file).read();
}

}  // namespace wattle::config
