#pragma once
// A row of aiconfigurator's published end-to-end samples.
#include <cstdint>
#include <string>
#include <string_view>

namespace wattle::fidelity {

/// True for "gap-analysis" files: fixed lengths, engines started by aiconfigurator's generator. Otherwise
/// InferenceMAX's.
[[nodiscard]] inline bool is_aiconfigurators_own(std::string_view source) {
  return source.find("aic-auto-gap-analysis/") != std::string_view::npos;
}

/// One row of the sample, as far as it states its conditions.
struct SampleRow {
  std::string source;   ///< silicon_data_source
  std::string backend;  ///< vllm, sglang, trtllm
  std::string model;    ///< name in our specifications
  std::string gpu;
  double input_tokens = 0.0;
  double output_tokens = 0.0;
  std::int32_t concurrency = 0;
  std::int32_t attention_data = 1;  ///< groups of data-parallel attention
  std::int32_t tensor = 1;          ///< GPUs that share one group's attention
  std::string precision = {};       ///< fp8, fp4, ...
  std::int32_t expert = 1;          ///< GPUs over which whole experts are distributed

  [[nodiscard]] bool fixed_lengths() const { return is_aiconfigurators_own(source); }
  /// True if the source contains `part`.
  [[nodiscard]] bool says(std::string_view part) const { return source.find(part) != std::string::npos; }
  /// The date in the source's "measured=2026-01-14T..."; empty: not stated.
  [[nodiscard]] std::string_view measured_on() const {
    constexpr std::string_view kMeasured = "measured=";
    const std::size_t at = source.find(kMeasured);
    return at == std::string::npos ? std::string_view() : std::string_view(source).substr(at + kMeasured.size(), 10);
  }
};

}  // namespace wattle::fidelity
