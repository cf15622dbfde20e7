#include "config/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "config/checkpoint_formats.h"
#include "config/python_json.h"

namespace wattle::config {

namespace {

using Json = nlohmann::json;
using Keys = std::initializer_list<const char*>;

bool one_of(const std::string& name, Keys names) { return std::ranges::find(names, name) != names.end(); }

/// Model classes that tie embeddings by default; and those with an FFN of two matrices.
bool ties_embeddings(const std::string& type) {
  return type.starts_with("gemma") || type.starts_with("ernie4_5") ||
         one_of(type, {"opt", "bloom", "gpt2", "gpt_neo", "falcon", "RefinedWeb", "RefinedWebModel", "gpt_bigcode",
                       "starcoder2", "cohere", "cohere2", "mpt", "smollm3", "phi3small", "minicpm", "minicpm3"});
}
bool has_plain_ffn(const std::string& type) {
  return one_of(type,
                {"opt", "bloom", "gpt2", "gpt_neo", "gpt_neox", "gptj", "falcon", "RefinedWeb", "phi", "mpt", "codegen",
                 "gpt_bigcode", "nemotron", "starcoder2", "persimmon", "arcee", "apertus", "RefinedWebModel"});
}
bool has_gated_ffn(const std::string& type) {
  return type == "phi3small" || std::ranges::any_of(std::initializer_list<const char*>{"llama", "mistral", "mixtral",
                                                                                       "gemma", "qwen", "bitnet"},
                                                    [&](const char* of) { return type.starts_with(of); });
}

/// Values that published checkpoints leave to their model class, where these are not what other classes take.
struct ClassDefault {
  const char* type;  ///< what the model type begins with
  const char* key;
  std::int64_t value;
};
constexpr ClassDefault kClassDefaults[] = {
    {"gemma", "head_dim", 256},
    {"gemma3", "num_attention_heads", 8},
    {"gemma3", "num_key_value_heads", 4},
    {"gemma3", "vocab_size", 262208},
    {"gpt_oss", "head_dim", 64},
    {"mistral", "num_attention_heads", 32},  // Pixtral
    {"mistral", "num_key_value_heads", 8},
    {"mixtral", "num_key_value_heads", 8},
    {"cohere2", "sliding_window_pattern", 4},
    {"gemma2", "sliding_window_pattern", 2},
    {"gemma3", "sliding_window_pattern", 6},
    {"gpt_oss", "sliding_window_pattern", 2},
};

/// Keys of architectures that are not modelled, and of what they are.
struct NotModelled {
  const char* key;
  const char* of;
  bool unless_listed = false;  ///< `layer_types` says it better
};
constexpr const char* kNoAttention = "layers without attention";
constexpr const char* kDiffer = "layers that differ in shape";
constexpr const char* kSharedCache = "layers that share a KV cache";
constexpr NotModelled kNotModelled[] = {
    {"attn_layer_period", kNoAttention, true},
    {"hybrid_override_pattern", kNoAttention, true},
    {"full_attention_interval", kNoAttention, true},
    {"linear_attn_config", kNoAttention, true},
    {"lru_width", kNoAttention, true},
    {"conv_L_cache", kNoAttention, true},
    {"layer_group_size", kNoAttention, true},
    {"cross_attention_layers", kNoAttention},
    {"state_size", kNoAttention},             // Mamba
    {"attention_hidden_size", kNoAttention},  // RWKV
    {"decay_low_rank_dim", kNoAttention},     // RWKV-7
    {"hybrid_block_layout", kNoAttention},    // Apriel
    {"ssm_cfg", kNoAttention},
    {"block_configs", kDiffer},
    {"num_key_value_heads_per_layer", kDiffer},
    {"hybrid_layer_pattern", kDiffer},
    {"global_head_dim", kDiffer},
    {"num_kv_shared_layers", kSharedCache},
    {"use_cla", kSharedCache},
    {"type_vocab_size", "encoders"},  // BERT and what follows it
    {"hidden_size_per_layer_input", "embeddings of each layer"},
    {"parallel_attn_mlp_res", "a dense FFN beside the experts"},
    {"is_encoder_decoder", "an encoder and a decoder"},
};

class ConfigReader {
 public:
  ConfigReader(const Json& whole, const std::string& file)
      : whole_(whole),
        text_(text_part(whole)),
        type_(text_of(text_.contains("model_type") ? text_ : whole, "model_type")),
        out_{file, {}, {}} {}

  Result<Document> read() {
    not_modelled();
    layers_ = needed("layers", {"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
    const std::int64_t hidden = needed("hidden", {"hidden_size", "n_embd", "n_embed", "d_model"});
    const std::int64_t heads = needed("heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"});
    needed("vocab", {"vocab_size", "padded_vocab_size"});
    if (number({"word_embed_proj_dim"}).value_or(hidden) != hidden) {
      (void)wrong("word_embed_proj_dim", "other than hidden_size is not modelled");
    }
    if (problem_) return std::unexpected(*problem_);
    if (heads < 1 || layers_ < 1 || hidden < 1)
      return wrong("num_attention_heads", "must be at least 1, as layers and width");
    attention(hidden, heads);
    windows();
    experts(ffn(hidden));
    add("gated_ffn", !plain_ffn());
    const Json* const tied = find({"tie_word_embeddings"}, whole_);
    add("tied_embeddings", tied != nullptr && tied->is_boolean() ? tied->get<bool>() : ties_embeddings(type_));
    formats();
    if (problem_) return std::unexpected(*problem_);
    return std::move(out_);
  }

 private:
  /// Of a model with several parts, the one for text. What DBRX and MPT nest is as if it were not nested.
  static Json text_part(const Json& whole) {
    for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
      if (const auto part = whole.find(key); part != whole.end() && part->is_object()) return text_part(*part);
    }
    Json flat = whole;
    for (const char* key : {"attn_config", "ffn_config"}) {
      const auto part = whole.find(key);
      if (part != whole.end() && part->is_object()) flat.insert(part->begin(), part->end());  // keeps what is there
    }
    return flat;
  }
  struct Found {
    const char* key;
    const Json* value;
  };
  /// The first of these that is there and not null, in the text part or, where it is not there, in `also`.
  std::optional<Found> first(Keys keys, const Json& also) {
    read_.insert(keys.begin(), keys.end());
    for (const Json* json : {&text_, &also}) {
      for (const char* key : keys) {
        if (const auto found = json->find(key); found != json->end() && !found->is_null()) return Found{key, &*found};
      }
    }
    return std::nullopt;
  }
  const Json* find(Keys keys, const Json& also) {
    const auto found = first(keys, also);
    return found ? found->value : nullptr;
  }
  bool is_true(const char* key) {
    const Json* const value = find({key}, text_);
    return value != nullptr && *value == Json(true);
  }
  /// A list with a value for each layer is one number if they are equal.
  std::optional<std::int64_t> number(Keys keys) {
    const auto found = first(keys, text_);
    if (!found) return class_default(*keys.begin());
    const Json& stated = *found->value;
    const bool list = stated.is_array() && !stated.empty();
    const Json& value = list ? stated.front() : stated;
    if (list && std::ranges::any_of(stated, [&](const Json& other) { return other != value; })) {
      (void)wrong(found->key, fmt::format("is of {}, which are not modelled", kDiffer));
    } else if (!value.is_number_integer()) {
      (void)wrong(found->key, fmt::format("is {:.80}; it takes an integer", stated.dump()));
    } else {
      return value.get<std::int64_t>();
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::int64_t> class_default(std::string_view key) const {
    const auto* const known = std::ranges::find_if(
        kClassDefaults, [&](const ClassDefault& each) { return type_.starts_with(each.type) && key == each.key; });
    return known == std::end(kClassDefaults) ? std::nullopt : std::optional(known->value);
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

  void not_modelled() {
    const Json* const classes = find({"architectures"}, whole_);
    const bool masked = classes != nullptr && classes->dump().find("ForMaskedLM") != std::string::npos;
    if (masked || type_.find("bert") != std::string::npos || type_.starts_with("clip") || type_.starts_with("siglip")) {
      return (void)wrong("model_type", fmt::format("\"{}\" is of an encoder, which is not modelled", type_));
    }
    if (type_ == "jetmoe")
      return (void)wrong("model_type", "\"jetmoe\" has experts in attention, which are not modelled");
    const bool listed = find({"layer_types"}, text_) != nullptr;
    for (const auto& [key, value] : text_.items()) {
      const auto* const known = std::ranges::find_if(kNotModelled, [&](const NotModelled& n) { return key == n.key; });
      const bool there = !value.is_null() && value != Json(false) && value != Json(0);
      if (there && known != std::end(kNotModelled) && !(listed && known->unless_listed)) {
        return (void)wrong(known->key, fmt::format("is of {}, which are not modelled", known->of));
      }
      if (there && !listed && key.starts_with("mamba_")) {
        return (void)wrong(key.c_str(), fmt::format("is of {}, which are not modelled", kNoAttention));
      }
    }
    // MiniMax: 1 is an attention layer, 0 a linear one.
    const Json* const types = find({"attn_type_list"}, text_);
    if (types != nullptr && std::ranges::any_of(*types, [](const Json& type) { return type != Json(1); })) {
      (void)wrong("attn_type_list", fmt::format("has {}, which are not modelled", kNoAttention));
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
      add("v_head_dim", number({"v_head_dim"}).value_or(hidden / heads));
      return;
    }
    if (is_true("multi_query_attention")) {  // ChatGLM
      add("kv_heads", number({"multi_query_group_num"}).value_or(1));
    } else {
      const auto stated = number({"num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "n_kv_heads",
                                  "num_query_groups", "num_attention_groups"});
      // Falcon-7B states as many as heads beside it.
      const bool single = (is_true("multi_query") && !is_true("new_decoder_architecture")) ||
                          text_of(text_, "attn_type") == "multiquery_attention";  // MPT
      add("kv_heads", single ? 1 : stated.value_or(heads));
    }
    const auto width = number({"head_dim", "attention_head_dim", "kv_channels"});
    if (!width && hidden % heads != 0)
      (void)wrong("head_dim", "is missing, and hidden_size is no multiple of the heads");
    add("head_dim", width.value_or(hidden / heads));
  }

  void windows() {
    const std::int64_t window = number({"sliding_window"}).value_or(0);
    std::int64_t windowed = window > 0 ? layers_ : 0;
    if (const Json* const types = find({"layer_types"}, text_); types != nullptr && types->is_array()) {
      windowed = 0;
      for (const Json& type : *types) {
        const std::string name = type.is_string() ? type.get<std::string>() : "";
        if (name == "sliding_attention") {
          ++windowed;
        } else if (!one_of(name, {"full_attention", "attention",
                                  "chunked_attention"})) {  // chunks: counted as attention to all
          (void)wrong("layer_types", fmt::format("has layers of type {}, which are not modelled", type.dump()));
        }
      }
    } else if (const Json* const used = find({"use_sliding_window"}, text_);
               used != nullptr ? *used == Json(false) : type_.starts_with("qwen")) {
      windowed = 0;
    } else if (const auto full = number({"max_window_layers"}); full && window > 0) {
      windowed = std::max<std::int64_t>(0, layers_ - *full);
    } else if (const auto pattern = number({"sliding_window_pattern", "global_attn_every_n_layers"});
               pattern && *pattern > 0) {
      windowed = window > 0 ? layers_ - layers_ / *pattern : 0;  // every such last layer has full attention
    }
    const std::int64_t longest = number({"max_position_embeddings"}).value_or(window + 1);
    if (windowed > 0 && window > 0 && window < longest) {  // Phi-4-mini's is longer than any request
      add("sliding_window", window);
      add("windowed_layers", windowed);
    }
  }

  bool plain_ffn() {
    if (has_plain_ffn(type_) || has_gated_ffn(type_)) return has_plain_ffn(type_);
    // There are FFNs of two and of three matrices with these, which only the model class says.
    const Json* const stated = find({"hidden_act", "hidden_activation", "activation_function"}, text_);
    const std::string activation = stated != nullptr && stated->is_string() ? stated->get<std::string>() : "";
    if (activation.find("gelu") != std::string::npos || activation.find("relu") != std::string::npos ||
        activation == "xielu") {
      (void)wrong("hidden_act", fmt::format("\"{}\" leaves to the class of model_type \"{}\", which is not known "
                                            "here, whether the FFN is gated; write an LLM file",
                                            activation, type_));
    }
    return false;
  }
  std::int64_t ffn(std::int64_t hidden) {
    // Llama 4 names its experts' width as others do their dense layers'.
    const auto dense = number({"intermediate_size_mlp", "intermediate_size", "ff_intermediate_size", "ffn_dim",
                               "n_inner", "ffn_hidden_size"});
    if (!dense && !plain_ffn()) (void)wrong("intermediate_size", "is missing");
    // The first Qwen and Molmo state the width of both their gated matrices together.
    const std::int64_t times = number({"expansion_ratio"}).value_or(4);  // MPT
    const std::int64_t width = dense.value_or(times * hidden) / (one_of(type_, {"qwen", "molmo"}) ? 2 : 1);
    add("ffn", width);
    return width;
  }

  void experts(std::int64_t ffn) {
    const auto count = number({"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"});
    if (count && *count <= 1) return;
    if (!count) return unread_experts();
    add("experts", *count);
    const auto chosen =
        number({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k"});
    if (!chosen) return (void)wrong("num_experts_per_tok", "is missing; the model has experts");
    add("experts_per_token", *chosen);
    const bool llama4 = type_.starts_with("llama4");
    const auto own = llama4 ? number({"intermediate_size"}) : number({"moe_intermediate_size"});
    const std::int64_t width = own.value_or(ffn);
    if (width != ffn) add("moe_ffn", width);
    add("shared_experts", shared_experts(width, ffn));
    add("dense_layers", dense_layers());
    unread_experts();
  }
  std::int64_t shared_experts(std::int64_t width, std::int64_t ffn) {
    const auto stated =
        number({"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"});
    const auto wide =
        number({"shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"});
    if (stated) return *stated;
    if (type_.starts_with("llama4")) return 1;
    const std::int64_t beside = is_true("residual_moe") ? ffn : wide.value_or(0);  // Grok-2: a dense FFN
    if (width > 0 && beside % width != 0) {
      (void)wrong("shared_expert_intermediate_size", "is no multiple of an expert's width, which is not modelled");
    }
    return width > 0 ? beside / width : 0;
  }
  std::int64_t dense_layers() {
    std::int64_t dense =
        number({"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "moe_layer_num_skipped"})
            .value_or(0);
    if (const auto last = number({"moe_layer_end_index"}); last && *last >= 0) {
      dense += std::max<std::int64_t>(0, layers_ - 1 - *last);
    }
    const bool llama4 = type_.starts_with("llama4");
    if (const auto step = number({llama4 ? "interleave_moe_layer_step" : "decoder_sparse_step"}); step && *step > 1) {
      dense = layers_ - layers_ / *step;
    }
    if (const auto each = text_.find("moe_layer_freq"); each != text_.end() && each->is_array()) {
      dense = std::ranges::count(*each, Json(0));
    } else if (const auto every = number({"moe_layer_freq", "moe_layer_interval"}); every && *every > 1) {
      (void)wrong("moe_layer_freq", "above 1 is not modelled; write an LLM file");
    }
    const Json* const only_dense = find({"mlp_only_layers"}, text_);
    if (only_dense != nullptr && only_dense->is_array()) dense += static_cast<std::int64_t>(only_dense->size());
    return dense;
  }

  /// Experts under names that are not known here must not make a dense model, or one of other experts.
  void unread_experts() {
    for (const auto& [key, value] : text_.items()) {
      const bool of_experts = key.starts_with("moe_") || key.find("expert") != std::string::npos;
      if (!of_experts || key.find("capacity") != std::string::npos || read_.contains(key)) continue;
      if (value.is_number_integer() && value > 1) {
        return (void)wrong(key.c_str(), "is of experts that are not modelled, or is not a name known here");
      }
    }
  }

  void formats() {
    const bool dense = std::ranges::none_of(out_.entries, [](const Entry& e) { return e.key == "experts"; });
    const bool nested = text_.contains("quantization_config");
    const auto read = checkpoint_formats(nested ? text_ : whole_, layers_, dense, out_.file);
    if (!read) {
      if (!problem_) problem_ = read.error();
      return;
    }
    add("dtype", !dense && read->attention_kept ? std::string("bf16") : read->weights);
    if (!dense && read->attention_kept) add("expert_dtype", read->weights);
    if (dense && read->attention_kept) add("attention_dtype", std::string("bf16"));
    if (!read->kv_cache.empty()) add("kv_dtype", read->kv_cache);
  }

  const Json& whole_;
  const Json text_;
  std::string type_;
  std::int64_t layers_ = 0;
  std::set<std::string, std::less<>> read_;  ///< keys of text_
  Document out_;
  std::optional<Error> problem_;
};

}  // namespace

Result<Document> parse_model_config(std::string_view text, const std::string& file) {
  const Json json = parse_python_json(text);
  if (!json.is_object()) return bad_input(file + ":1", "is no JSON object");
  return ConfigReader(json, file).read();
}

}  // namespace wattle::config
