#pragma once
// Header fields of one message, in one reused arena: no allocation per field.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wattle::net {

/// ASCII case-insensitive equality, as HTTP field names compare.
[[nodiscard]] bool same_letters(std::string_view a, std::string_view b);  ///< both of the same length
[[nodiscard]] inline bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && same_letters(a, b);
}

/// Whatever its parameters: media types compare like field names (RFC 9110 8.3.1).
[[nodiscard]] inline bool is_type(std::string_view content_type, std::string_view type) {
  return content_type.size() >= type.size() && same_letters(content_type.substr(0, type.size()), type);
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
  /// Copies a message's whole header, replacing the previous one. Returns the copy.
  std::string_view hold(std::string_view header) {
    clear();
    arena_ = header;
    return arena_;
  }
  /// Both point into what hold() returned.
  void add_held(std::string_view name, std::string_view value) {
    places_.push_back(
        {at(name), static_cast<std::uint32_t>(name.size()), at(value), static_cast<std::uint32_t>(value.size())});
    lengths_ |= length_bit(name);
  }
  void add(std::string_view name, std::string_view value);
  /// The first value of that name; empty if absent.
  [[nodiscard]] std::string_view get(std::string_view name) const {
    return (lengths_ & length_bit(name)) == 0 ? std::string_view() : found(name);  // most names are absent
  }
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] Field at(std::size_t i) const;

 private:
  struct Place {
    std::uint32_t name, name_length, value, value_length;
  };
  [[nodiscard]] std::uint32_t at(std::string_view held) const {
    return static_cast<std::uint32_t>(held.data() - arena_.data());
  }
  static std::uint64_t length_bit(std::string_view name) { return std::uint64_t{1} << (name.size() & 63U); }
  [[nodiscard]] std::string_view found(std::string_view name) const;

  std::string arena_;
  std::vector<Place> places_;
  std::uint64_t lengths_ = 0;  ///< lengths of the stored names
};

[[nodiscard]] std::string_view status_text(int status);

}  // namespace wattle::net
