#include "calibrate/model_cache.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/digest.h"
#include "base/file.h"

namespace wattle::calibrate {

namespace {

constexpr std::string_view kForm = "wattle models 1";

std::uint64_t checksum(std::string_view bytes) {
  Digest digest;
  digest.add_text(bytes);
  return digest.value();
}

/// The number in front of `end`, which is taken off with it.
std::optional<std::uint64_t> take_number(std::string_view& text, char end, int base) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + at, value, base);
  if (code != std::errc() || stop != text.data() + at) return std::nullopt;
  text.remove_prefix(at + 1);
  return value;
}

}  // namespace

std::string ModelCache::path(std::uint64_t key) const {
  return (std::filesystem::path(folder_) / fmt::format("{:016x}.models", key)).string();
}

// A line "wattle models 1", a line with the checksum of all that follows, then each model behind a line with its
// length.
std::optional<std::vector<std::string>> ModelCache::find(std::uint64_t key) const {
  if (folder_.empty()) return std::nullopt;
  const auto file = read_file(path(key));
  if (!file || !file->starts_with(kForm)) return std::nullopt;
  std::string_view text = *file;
  text.remove_prefix(kForm.size());
  if (!text.starts_with('\n')) return std::nullopt;
  text.remove_prefix(1);
  const auto expected = take_number(text, '\n', 16);
  if (!expected || *expected != checksum(text)) return std::nullopt;
  std::vector<std::string> models;
  while (!text.empty()) {
    const auto length = take_number(text, '\n', 10);
    if (!length || *length > text.size()) return std::nullopt;
    models.emplace_back(text.substr(0, *length));
    text.remove_prefix(*length);
  }
  return models;
}

void ModelCache::keep(std::uint64_t key, std::span<const std::string> models) const {
  if (folder_.empty()) return;
  std::string body;
  for (const std::string& model : models) body += fmt::format("{}\n", model.size()) + model;
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  const std::string unfinished = fmt::format("{}.{}", path(key), getpid());
  if (write_file(unfinished, fmt::format("{}\n{:016x}\n", kForm, checksum(body)) + body)) {
    std::filesystem::rename(unfinished, path(key), code);
  }
  std::filesystem::remove(unfinished, code);
}

}  // namespace wattle::calibrate
