#include <fmt/format.h>

#include <filesystem>

#include "config/load.h"
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
  const Result<Document> document = parse_toml(text, file);
  if (!document) return std::unexpected(document.error());
  Result<LlmSpec> llm = struct_from(*document, llm_options());
  if (!llm) return llm;
  llm->name = stem(file);
  const Origins origins(*document);
  if (llm->heads % llm->kv_heads != 0) {
    return bad_input(origins.of("kv_heads"),
                     fmt::format("kv_heads {} does not divide heads {}", llm->kv_heads, llm->heads));
  }
  if (llm->experts_per_token > llm->experts) {
    return bad_input(origins.of("experts_per_token"),
                     fmt::format("experts_per_token {} is more than experts {}", llm->experts_per_token, llm->experts));
  }
  return llm;
}

Result<GpuSpec> load_gpu(const std::string& file) {
  const Result<std::string> text = read_text(file);
  if (!text) return std::unexpected(text.error());
  return gpu_from_text(*text, file);
}

Result<LlmSpec> load_llm(const std::string& file) {
  const Result<std::string> text = read_text(file);
  if (!text) return std::unexpected(text.error());
  return llm_from_text(*text, file);
}

}  // namespace wattle::config
