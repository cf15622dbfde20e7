#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "config/checkpoint_formats.h"
#include "config/load.h"
#include "config/model_config.h"
#include "config/records.h"

namespace wattle::config {
namespace {

std::string stem(const std::string& file) { return std::filesystem::path(file).stem().string(); }

template <typename S>
Result<S> struct_from(const Document& document, const std::vector<Option<S>>& options) {
  S made;
  if (auto ok = check_keys(specs_of(options), document.entries, document.tables, document.file + ":1"); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  if (auto ok = fill(options, document.entries, made); !ok) return std::unexpected(std::move(ok.error()));
  return made;
}

Result<void> check_latent_attention(const LlmSpec& llm, const Origins& origins) {
  for (const auto& [key, width] :
       {std::pair{"qk_nope_head_dim", llm.qk_nope_head_dim}, std::pair{"qk_rope_head_dim", llm.qk_rope_head_dim},
        std::pair{"v_head_dim", llm.v_head_dim}}) {
    if (width < 1) {
      return bad_input(origins.of("kv_lora_rank"),
                       fmt::format("latent attention (kv_lora_rank {}) needs {} above 0", llm.kv_lora_rank, key));
    }
  }
  if (llm.kv_heads != 1) {
    return bad_input(origins.of("kv_heads"),
                     fmt::format("kv_heads {}: with kv_lora_rank all heads share one latent; write 1", llm.kv_heads));
  }
  if (llm.head_dim != llm.qk_nope_head_dim + llm.qk_rope_head_dim) {
    return bad_input(origins.of("head_dim"), fmt::format("head_dim {} is not qk_nope_head_dim {} + qk_rope_head_dim {}",
                                                         llm.head_dim, llm.qk_nope_head_dim, llm.qk_rope_head_dim));
  }
  if (llm.windowed_layers > 0) {
    return bad_input(origins.of("windowed_layers"), "latent attention with sliding windows is not modelled");
  }
  return {};
}

Result<void> check_attention(const LlmSpec& llm, const Origins& origins) {
  if (llm.heads % llm.kv_heads != 0) {
    return bad_input(origins.of("kv_heads"),
                     fmt::format("kv_heads {} does not divide heads {}", llm.kv_heads, llm.heads));
  }
  if ((llm.sliding_window > 0) != (llm.windowed_layers > 0)) {
    return bad_input(origins.of(llm.sliding_window > 0 ? "sliding_window" : "windowed_layers"),
                     fmt::format("sliding_window {} and windowed_layers {}: both are above 0, or neither",
                                 llm.sliding_window, llm.windowed_layers));
  }
  if (llm.windowed_layers > llm.layers) {
    return bad_input(origins.of("windowed_layers"),
                     fmt::format("windowed_layers {} is more than layers {}", llm.windowed_layers, llm.layers));
  }
  if (llm.latent_attention()) return check_latent_attention(llm, origins);
  for (const auto& [key, width] :
       {std::pair{"q_lora_rank", llm.q_lora_rank}, std::pair{"qk_nope_head_dim", llm.qk_nope_head_dim},
        std::pair{"qk_rope_head_dim", llm.qk_rope_head_dim}, std::pair{"v_head_dim", llm.v_head_dim}}) {
    if (width > 0)
      return bad_input(origins.of(key), fmt::format("{} belongs to latent attention: set kv_lora_rank", key));
  }
  return {};
}

Result<void> check_experts(const LlmSpec& llm, const Origins& origins) {
  if (llm.experts_per_token > llm.experts) {
    return bad_input(origins.of("experts_per_token"),
                     fmt::format("experts_per_token {} is more than experts {}", llm.experts_per_token, llm.experts));
  }
  if (llm.experts > 1) {
    if (llm.dense_layers < llm.layers) return {};
    return bad_input(origins.of("dense_layers"),
                     fmt::format("dense_layers {} of {} layers leave none with experts; write experts = 1",
                                 llm.dense_layers, llm.layers));
  }
  const bool skewed = llm.expert_skew > 0.0;
  for (const auto& [key, set] :
       {std::pair{"moe_ffn", llm.moe_ffn > 0}, std::pair{"shared_experts", llm.shared_experts > 0},
        std::pair{"dense_layers", llm.dense_layers > 0}, std::pair{"expert_skew", skewed},
        std::pair{"expert_dtype", llm.expert_weights.has_value()}}) {
    if (set) return bad_input(origins.of(key), fmt::format("{} belongs to a mixture of experts: set experts", key));
  }
  return {};
}

}  // namespace

Result<GpuSpec> gpu_from_text(std::string_view text, const std::string& file) {
  const Result<Document> document = parse_toml(text, file);
  if (!document) return std::unexpected(document.error());
  Result<GpuSpec> gpu = struct_from(*document, gpu_options());
  if (!gpu) return gpu;
  gpu->name = stem(file);
  const Origins origins(*document);
  if (gpu->clock_min > gpu->clock_max) {
    return bad_input(origins.of("clock_min_mhz"), fmt::format("clock_min_mhz {} is above clock_max_mhz {}",
                                                              gpu->clock_min.value(), gpu->clock_max.value()));
  }
  if ((gpu->clock_max.value() - gpu->clock_min.value()) % gpu->clock_step.value() != 0) {
    return bad_input(origins.of("clock_step_mhz"),
                     fmt::format("clock_step_mhz {} does not lead from clock_min_mhz {} to clock_max_mhz {}",
                                 gpu->clock_step.value(), gpu->clock_min.value(), gpu->clock_max.value()));
  }
  return gpu;
}

Result<LlmSpec> llm_from_text(std::string_view text, const std::string& file) {
  const Result<Document> document = is_model_config(text) ? parse_model_config(text, file) : parse_toml(text, file);
  if (!document) return std::unexpected(document.error());
  Result<LlmSpec> llm = struct_from(*document, llm_options());
  if (!llm) return llm;
  llm->name = stem(file);
  if (is_model_config(text) && llm->name == "config") {
    llm->name = std::filesystem::absolute(file).parent_path().filename().string();
  }
  const Origins origins(*document);
  if (auto ok = check_attention(*llm, origins); !ok) return std::unexpected(ok.error());
  if (auto ok = check_experts(*llm, origins); !ok) return std::unexpected(ok.error());
  if (four_bits(llm->kv_dtype)) {
    return bad_input(origins.of("kv_dtype"), "a KV cache is kept in bf16 or fp8; 4-bit formats are for weights");
  }
  return llm;
}

Result<GpuSpec> load_gpu(const std::string& file) {
  const Result<std::string> text = read_text(file);
  if (!text) return std::unexpected(text.error());
  return gpu_from_text(*text, file);
}

Result<LlmSpec> load_llm(const std::string& file) {
  Result<std::string> text = read_text(file);
  if (!text) return std::unexpected(text.error());
  const auto formats_file = std::filesystem::path(file).replace_filename("hf_quant_config.json");
  if (is_model_config(*text) && std::filesystem::exists(formats_file)) {
    const Result<std::string> formats = read_text(formats_file.string());
    if (!formats) return std::unexpected(formats.error());
    text = with_modelopt_formats(*text, *formats, formats_file.string());
    if (!text) return std::unexpected(text.error());
  }
  return llm_from_text(*text, file);
}

}  // namespace wattle::config
