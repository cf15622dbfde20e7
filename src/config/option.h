#pragma once
// Option records, one for each key of a file. Parsing, checks, --set, defaults and the generated reference all follow
// from the record, so they cannot disagree.
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/option_codec.h"

namespace wattle::config {

/// Inclusive unless `open`: then `min` itself is refused. Text units.
struct Bounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool open = false;
};

/// Bounds of a clock in MHz.
inline constexpr Bounds kClockBounds{1, 10'000};

/// The part of a record that does not depend on the struct it fills.
struct OptionSpec {
  std::string key;  ///< dotted path in the file
  OptionType type = OptionType::Text;
  std::string unit;
  Bounds bounds;
  std::vector<std::string> choices;  ///< empty: any text
  bool required = false;
  bool may_be_none = false;  ///< "none" on a command line unsets it
  bool shorthand = false;    ///< sets several keys at once; they may still be set singly
  std::string description;
};

/// A record bound to the struct S it fills. `set` expects a value that `checked` has passed.
template <typename S>
struct Option : OptionSpec {
  std::function<void(S&, const Value&)> set;
  std::function<Value(const S&)> get;

  [[nodiscard]] Option must() && {
    required = true;
    return std::move(*this);
  }
};

/// The record of a plain member.
template <typename S, typename T>
[[nodiscard]] Option<S> option(std::string key, T S::*field, std::string unit, Bounds bounds, std::string description) {
  Option<S> o;
  o.key = std::move(key);
  o.type = Codec<T>::kType;
  o.unit = std::move(unit);
  o.bounds = bounds;
  o.description = std::move(description);
  if constexpr (requires { Codec<T>::names(); }) {
    for (const auto& [name, value] : Codec<T>::names()) o.choices.emplace_back(name);
  }
  const double scale = Codec<T>::scale(o.unit);
  o.set = [field, scale](S& s, const Value& v) { s.*field = Codec<T>::read(v, scale); };
  o.get = [field, scale](const S& s) { return Codec<T>::write(s.*field, scale); };
  o.may_be_none = requires(T value) { value.has_value(); };
  if constexpr (std::is_same_v<T, Span>) o.may_be_none = S{}.*field == Span::max();  // no limit, unless one is set
  return o;
}

template <typename S, typename T>
[[nodiscard]] Option<S> option(std::string key, T S::*field, std::string description) {
  return option(std::move(key), field, "", Bounds{}, std::move(description));
}

/// A text member that takes one of the listed names.
template <typename S>
[[nodiscard]] Option<S> choice(std::string key, std::string S::*field, std::vector<std::string> names,
                               std::string description) {
  Option<S> o = option(std::move(key), field, std::move(description));
  o.type = OptionType::Choice;
  o.choices = std::move(names);
  return o;
}

/// Appends the records of a member struct to those of its owner, with `prefix` before each key. With several members
/// the keys are a shorthand that sets all of them.
template <typename S, typename Part>
void append(std::vector<Option<S>>& to, const std::string& prefix, std::initializer_list<Part S::*> members,
            const std::vector<Option<Part>>& part) {
  const std::vector<Part S::*> all(members);
  for (const Option<Part>& p : part) {
    Option<S> o;
    static_cast<OptionSpec&>(o) = p;
    o.key = prefix + p.key;
    o.shorthand = all.size() > 1;
    o.set = [all, set = p.set](S& s, const Value& v) {
      for (const auto member : all) set(s.*member, v);
    };
    o.get = [first = all.front(), get = p.get](const S& s) { return get(s.*first); };
    to.push_back(std::move(o));
  }
}

/// The records without their structs, for code that only checks, suggests or documents keys.
template <typename S>
[[nodiscard]] std::vector<const OptionSpec*> specs_of(const std::vector<Option<S>>& options) {
  std::vector<const OptionSpec*> specs;
  specs.reserve(options.size());
  for (const Option<S>& o : options) specs.push_back(&o);
  return specs;
}

/// As written in TOML: `600`, `"eco-freq"`, `[1005, 1410]`; an absent value is `none`.
[[nodiscard]] std::string to_text(const Value& value);
/// "> 0, <= 1", "" when unbounded.
[[nodiscard]] std::string to_text(const Bounds& bounds);
/// "number", "integer", "one of a, b".
[[nodiscard]] std::string type_text(const OptionSpec& spec);

}  // namespace wattle::config
