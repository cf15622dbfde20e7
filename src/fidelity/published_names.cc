#include "fidelity/published_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace wattle::fidelity {
namespace {

std::string lower(std::string_view name) {
  std::string made(name);
  std::ranges::transform(made, made.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return made;
}

/// Letters and digits alone.
std::string normalised(std::string_view name) {
  std::string made = lower(name);
  std::erase_if(made, [](unsigned char c) { return std::isalnum(c) == 0; });
  if (made.starts_with("nvidia")) made.erase(0, 6);
  return made;
}

/// Normalised names beside our own. A name without form or memory is of the SXM card of most memory, as data sets mean
/// it; "gh200" alone could be either of two. Not here, because they are other cards: H100 NVL, H200 NVL, GB200, GB300,
/// B300, A100 PCIe.
constexpr auto kGpus = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"h100sxm", "h100"},
    {"h100sxm5", "h100"},
    {"h10080gb", "h100"},
    {"h100sxm80gb", "h100"},
    {"h100sxm580gb", "h100"},
    {"h10080gbsxm", "h100"},
    {"h10080gbsxm5", "h100"},
    {"h10080gbhbm3", "h100"},
    {"h100pcie80gb", "h100-pcie"},
    {"h10080gbpcie", "h100-pcie"},
    {"h200sxm", "h200"},
    {"h200sxm5", "h200"},
    {"h200141gb", "h200"},
    {"h200sxm141gb", "h200"},
    {"b200sxm", "b200"},
    {"b200180gb", "b200"},
    {"b200sxm180gb", "b200"},
    {"gh200480gb", "gh200-96g"},  // its driver counts the CPU's memory
    {"gh20096gb", "gh200-96g"},
    {"gh20096gbhbm3", "gh200-96g"},
    {"gh200144gb", "gh200-144g"},
    {"gh200144ghbm3e", "gh200-144g"},
    {"gh200144gbhbm3e", "gh200-144g"},
    {"a100", "a100-80g"},
    {"a100sxm", "a100-80g"},
    {"a100sxm4", "a100-80g"},
    {"a10080gb", "a100-80g"},
    {"a100sxm80gb", "a100-80g"},
    {"a100sxm480gb", "a100-80g"},
    {"a10080gbsxm", "a100-80g"},
    {"a10080gbsxm4", "a100-80g"},
    {"a10040gb", "a100-40g"},
    {"a100sxm40gb", "a100-40g"},
    {"a100sxm440gb", "a100-40g"},
    {"a10040gbsxm4", "a100-40g"},
    {"amdinstinctmi300x", "mi300x"},
});

constexpr std::string_view kFormatSuffixes[] = {"-fp8", "-nvfp4"};

/// Cuts what does not change a model's shape off a lower-case name.
void cut_suffixes(std::string& name) {
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view suffix : {"-instruct", "-hf", "-it", "-fp8", "-nvfp4", "-2507", "-2407", "-thinking",
                                          "-0528", "-v0.1", "-v0.3", "-4k", "-8k"}) {
      if (!name.ends_with(suffix)) continue;
      name.resize(name.size() - suffix.size());
      cut = true;
    }
  }
}

/// A model's name without its publisher.
std::string base_name(std::string_view published) { return lower(published.substr(published.rfind('/') + 1)); }

/// The format that a name states; empty: none.
std::string_view format_of(std::string_view published) {
  const std::string name = base_name(published);
  for (const std::string_view suffix : kFormatSuffixes) {
    if (name.contains(suffix)) return suffix.substr(1);
  }
  return {};
}

}  // namespace

std::expected<const GpuSpec*, std::string> published_gpu(const Catalog& catalog, std::string_view name) {
  const std::string plain = normalised(name);
  for (const auto& [ours, spec] : catalog.gpus) {
    if (normalised(ours) == plain) return &spec;
  }
  const auto alias = std::ranges::find(kGpus, plain, &std::pair<std::string_view, std::string_view>::first);
  const GpuSpec* gpu = alias == kGpus.end() ? nullptr : catalog.gpu(alias->second);
  if (gpu == nullptr) return std::unexpected(fmt::format("unknown GPU {}", name));
  return gpu;
}

const LlmSpec* Catalog::llm(std::string_view published) const {
  std::string name = base_name(published);
  if (name.starts_with("meta-")) name.erase(0, 5);
  cut_suffixes(name);
  if (const auto at = llms.find(name); at != llms.end()) return &at->second;
  // A name or generation that shares its shapes: Llama-3 and Llama-3.1, Llama2 written without the dash.
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{"llama-3.1-", "llama-3-"},
                                 {"llama-3-", "llama-3.1-"},
                                 {"llama2-", "llama-2-"},
                                 {"codellama-", "llama-2-"},
                                 {"llama-3.3-", "llama-3.1-"},
                                 {"deepseek-r1", "deepseek-v3"},
                                 {"deepseek-v3.1", "deepseek-v3"},
                                 {"kimi-k2.5", "kimi-k2"},
                                 {"minimax-m2.5", "minimax-m2"},
                                 {"qwen3-coder-30b", "qwen3-30b"},
                                 {"llama-4-scout-17b-16e", "llama-4-scout"},
                                 {"llama-4-maverick-17b-128e", "llama-4-maverick"}}) {
    if (!name.starts_with(from)) continue;
    const auto at = llms.find(std::string(to) + name.substr(from.size()));
    if (at != llms.end()) return &at->second;
  }
  return nullptr;
}

std::optional<LlmSpec> in_format(LlmSpec llm, std::string_view format) {
  const std::string name = lower(format);
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  const auto four = [&](Dtype dtype) {
    llm.dtype = dtype;
    llm.expert_weights.reset();
    if (llm.experts > 1) llm.attention_weights = Dtype::Bf16;
    return llm;
  };
  if (name.empty()) return llm;
  if (is_one_of({"bf16", "bfloat16", "fp16", "float16"})) {
    llm.dtype = Dtype::Bf16;
    llm.expert_weights.reset();
    llm.attention_weights.reset();
    return llm;
  }
  if (is_one_of({"fp8", "fp8_block", "fp8_static", "fp8_e4m3"})) {
    if (llm.expert_dtype() == Dtype::Mxfp4) return llm;  // there is no other checkpoint
    llm.dtype = Dtype::Fp8;
    if (four_bits(llm.expert_dtype())) llm.expert_weights.reset();
    return llm;
  }
  if (is_one_of({"fp4", "nvfp4", "mxfp4"})) {
    if (llm.expert_dtype() == Dtype::Mxfp4) return llm;
    return four(name == "mxfp4" ? Dtype::Mxfp4 : Dtype::Nvfp4);
  }
  if (is_one_of({"int4", "int4_wo"})) return llm.expert_dtype() == Dtype::Int4 ? llm : four(Dtype::Int4);
  return std::nullopt;
}

std::expected<LlmSpec, std::string> published_llm(const Catalog& catalog, std::string_view name,
                                                  std::initializer_list<std::string_view> formats) {
  const LlmSpec* llm = catalog.llm(name);
  if (llm == nullptr) return std::unexpected(fmt::format("unknown model {}", name));
  std::string_view stated;
  for (const std::string_view format : formats) {
    if (!in_format(*llm, format)) return std::unexpected(fmt::format("weights in {}", format));
    if (stated.empty()) stated = format;
  }
  return *in_format(*llm, stated.empty() ? format_of(name) : stated);
}

}  // namespace wattle::fidelity
