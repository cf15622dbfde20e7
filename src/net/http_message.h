#pragma once
// Header fields of one message, in one reused arena: no allocation per field.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wattle::net {

/// ASCII case-insensitive equality, as HTTP field names compare.
[[nodiscard]] bool same_letters(std::string_view a, std::string_view b);  ///< of two of one length
[[nodiscard]] inline bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && same_letters(a, b);
}

class HeaderFields {
 public:
  struct Field {
    std::string_view name;
    std::string_view value;
  };
  void clear() {
    arena_.clear();
    places_.clear();
    lengths_ = 0;
  }
  void add(std::string_view name, std::string_view value);
  /// First value of that name; empty when absent.
  [[nodiscard]] std::string_view get(std::string_view name) const {
    return (lengths_ & length_bit(name)) == 0 ? std::string_view() : found(name);  // most are not there
  }
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] Field at(std::size_t i) const;

 private:
  struct Place {
    std::uint32_t begin, name_length, value_length;
  };
  static std::uint64_t length_bit(std::string_view name) { return std::uint64_t{1} << (name.size() & 63U); }
  [[nodiscard]] std::string_view found(std::string_view name) const;

  std::string arena_;
  std::vector<Place> places_;
  std::uint64_t lengths_ = 0;  ///< of the names there are
};

[[nodiscard]] std::string_view status_text(int status);

}  // namespace wattle::net
