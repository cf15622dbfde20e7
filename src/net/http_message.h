#pragma once
// Header fields of one message, in one reused arena: no allocation per field.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wattle::net {

/// ASCII case-insensitive equality, as HTTP field names compare.
[[nodiscard]] bool same_name(std::string_view a, std::string_view b);

class HeaderFields {
 public:
  struct Field {
    std::string_view name;
    std::string_view value;
  };
  void clear() {
    arena_.clear();
    places_.clear();
  }
  void add(std::string_view name, std::string_view value);
  /// First value of that name; empty when absent.
  [[nodiscard]] std::string_view get(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] Field at(std::size_t i) const;

 private:
  struct Place {
    std::uint32_t begin, name_length, value_length;
  };
  std::string arena_;
  std::vector<Place> places_;
};

[[nodiscard]] std::string_view status_text(int status);

}  // namespace wattle::net
