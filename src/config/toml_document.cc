#include "config/toml_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/file.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <toml++/toml.h>
#pragma GCC diagnostic pop

namespace wattle::config {
namespace {

// Configuration is written by people; anything larger is a wrong path.
constexpr std::uintmax_t kMaxBytes = 1 << 20;

// A key's dots nest tables, and tables are built, walked and freed by recursion: a long line could end the stack.
constexpr std::size_t kMaxLine = 4096;

/// The number of the first line above kMaxLine, 0 if none.
std::int64_t first_long_line(std::string_view text) {
  std::int64_t number = 1;
  for (std::size_t start = 0; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end - start > kMaxLine) return number;
    start = end + 1;
  }
  return 0;
}

/// A dot or a bare number inside a key would look like a path or an element's index and evade the strict checks.
bool is_plain(const std::string& key) {
  if (key.empty() || std::isalpha(static_cast<unsigned char>(key.front())) == 0) return false;
  return std::ranges::all_of(
      key, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; });
}

class Flattener {
 public:
  explicit Flattener(Document& to) : to_(to) {}

  std::optional<Error> table(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      const std::string where = at(key.source());
      if (!is_plain(name)) {
        return Error{ErrorKind::BadInput, where,
                     fmt::format("unknown key \"{}\"; keys are letters, digits and _, without quotes", name)};
      }
      const std::string path = prefix.empty() ? name : prefix + "." + name;
      if (auto error = visit(node, path, where)) return error;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::string at(const toml::source_region& source) const {
    return fmt::format("{}:{}", to_.file, source.begin.line);
  }

  std::optional<Error> visit(const toml::node& node, const std::string& path, const std::string& where) {
    if (const toml::table* inner = node.as_table()) {
      to_.tables.push_back({path, where});
      return table(*inner, path);
    }
    if (const toml::array* list = node.as_array()) {
      if (!list->empty() && list->is_homogeneous(toml::node_type::table)) {
        to_.tables.push_back({path, where});
        for (std::size_t i = 0; i < list->size(); ++i) {
          const std::string element = fmt::format("{}.{}", path, i);
          to_.tables.push_back({element, at((*list)[i].source())});
          if (auto error = table(*(*list)[i].as_table(), element)) return error;
        }
        return std::nullopt;
      }
      to_.entries.push_back(array(*list, path, where));
      return std::nullopt;
    }
    Entry entry{path, {}, {}, where};
    if (const auto* s = node.as_string()) {
      entry.value = s->get();
    } else if (const auto* b = node.as_boolean()) {
      entry.value = b->get();
    } else if (const auto* i = node.as_integer()) {
      entry.value = i->get();
    } else if (const auto* f = node.as_floating_point()) {
      entry.value = f->get();
    } else {
      entry.kind = "a date or time";
    }
    to_.entries.push_back(std::move(entry));
    return std::nullopt;
  }

  static Entry array(const toml::array& list, const std::string& path, const std::string& where) {
    Entry entry{path, {}, {}, where};
    std::vector<std::int64_t> integers;
    std::vector<std::string> texts;  // of a list with some text in it
    bool text = false;
    for (const toml::node& element : list) {
      if (const auto* i = element.as_integer()) {
        integers.push_back(i->get());
        texts.push_back(fmt::format("{}", i->get()));
      } else if (const auto* s = element.as_string()) {
        texts.push_back(s->get());
        text = true;
      } else {
        entry.kind = "a list of something else";
        return entry;
      }
    }
    if (text) {
      entry.value = std::move(texts);
    } else {
      entry.value = std::move(integers);
    }
    return entry;
  }

  Document& to_;
};

}  // namespace

Result<Document> parse_toml(std::string_view text, const std::string& file) {
  if (const std::int64_t line = first_long_line(text); line > 0) {
    return bad_input(fmt::format("{}:{}", file, line),
                     fmt::format("the line is longer than {} characters; break it", kMaxLine));
  }
  toml::table root;
  try {
    root = toml::parse(text, std::string_view(file));
  } catch (const toml::parse_error& error) {
    const std::string what(error.description());
    return bad_input(fmt::format("{}:{}", file, error.source().begin.line), "not valid TOML: " + what);
  }
  Document document;
  document.file = file;
  if (auto error = Flattener(document).table(root, "")) return std::unexpected(std::move(*error));
  return document;
}

Result<std::string> read_text(const std::string& file) {
  std::error_code code;
  const auto status = std::filesystem::status(file, code);
  if (!std::filesystem::exists(status)) return bad_input(file, "no such file");
  if (!std::filesystem::is_regular_file(status)) return bad_input(file, "not a regular file");
  const auto size = std::filesystem::file_size(file, code);
  if (!code && size > kMaxBytes) {
    return bad_input(file, fmt::format("{} bytes; a configuration file has at most {}", size, kMaxBytes));
  }
  return read_file(file);
}

}  // namespace wattle::config
