#pragma once
// A model's config.json as Hugging Face's transformers writes it, as the keys of an LLM file.
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/toml_document.h"

namespace wattle::config {

/// TOML never begins with a brace.
[[nodiscard]] inline bool is_model_config(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

/// Of a decoder-only transformer; of a model with several parts, its text_config. Values that configs leave to their
/// model class (whether embeddings are tied, whether the FFN is gated) follow from model_type. Errors name the key: one
/// that is missing, layers and number formats that the engine model does not know.
[[nodiscard]] Result<Document> parse_model_config(std::string_view text, const std::string& file);

}  // namespace wattle::config
