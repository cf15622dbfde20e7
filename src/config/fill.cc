#include "config/fill.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/trimmed.h"
#include "config/records.h"

namespace wattle::config {
namespace {

std::string kind_of(const Entry& entry) {
  if (!entry.kind.empty()) return entry.kind;
  struct Kind {
    std::string operator()(std::monostate) const { return "nothing"; }
    std::string operator()(bool) const { return "true/false"; }
    std::string operator()(std::int64_t) const { return "an integer"; }
    std::string operator()(double) const { return "a number"; }
    std::string operator()(const std::string&) const { return "text"; }
    std::string operator()(const std::vector<std::int64_t>&) const { return "a list"; }
    std::string operator()(const std::vector<std::string>&) const { return "a list"; }
  };
  return std::visit(Kind{}, entry.value);
}

std::unexpected<Error> wrong_type(const OptionSpec& spec, const Entry& entry) {
  return bad_input(entry.where, fmt::format("{} is {}; it takes {}{}", spec.key, kind_of(entry), type_text(spec),
                                            spec.unit.empty() ? "" : " (" + spec.unit + ")"));
}

bool within(const Bounds& bounds, double v) {
  return (bounds.open ? v > bounds.min : v >= bounds.min) && v <= bounds.max;
}

std::unexpected<Error> out_of_bounds(const OptionSpec& spec, const Entry& entry, const std::string& value) {
  return bad_input(entry.where, fmt::format("{} is {}; it must be {}{}", spec.key, value, to_text(spec.bounds),
                                            spec.unit.empty() ? "" : " " + spec.unit));
}

Result<Value> checked_number(const OptionSpec& spec, const Entry& entry) {
  double v = 0.0;
  if (const auto* d = std::get_if<double>(&entry.value)) {
    v = *d;
  } else if (const auto* i = std::get_if<std::int64_t>(&entry.value)) {
    v = static_cast<double>(*i);
  } else {
    return wrong_type(spec, entry);
  }
  if (!std::isfinite(v)) {
    return bad_input(entry.where, fmt::format("{} is {}; it must be a finite number", spec.key, v));
  }
  if (!within(spec.bounds, v)) return out_of_bounds(spec, entry, fmt::format("{:.10g}", v));
  return v;
}

Result<Value> checked_integers(const OptionSpec& spec, const Entry& entry) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&entry.value);
  if (list == nullptr) return wrong_type(spec, entry);
  for (const std::int64_t v : *list) {
    if (!within(spec.bounds, static_cast<double>(v))) return out_of_bounds(spec, entry, fmt::format("{}", v));
  }
  return *list;
}

Result<Value> checked_text(const OptionSpec& spec, const Entry& entry) {
  const auto* text = std::get_if<std::string>(&entry.value);
  if (text == nullptr) return wrong_type(spec, entry);
  if (spec.type == OptionType::Choice && std::ranges::find(spec.choices, *text) == spec.choices.end()) {
    const std::string near = nearest(*text, spec.choices);
    return bad_input(entry.where, fmt::format("{} is \"{}\"; it must be {}{}", spec.key, *text, type_text(spec),
                                              near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near)));
  }
  if (spec.required && text->empty()) return bad_input(entry.where, spec.key + " is empty; " + spec.description);
  return *text;
}

/// Whole numbers are texts, too: GPUs go by index or UUID.
Result<Value> checked_texts(const OptionSpec& spec, const Entry& entry) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&entry.value)) return *texts;
  const auto* numbers = std::get_if<std::vector<std::int64_t>>(&entry.value);
  if (numbers == nullptr) return wrong_type(spec, entry);
  std::vector<std::string> texts;
  for (const std::int64_t number : *numbers) texts.push_back(fmt::format("{}", number));
  return texts;
}

Result<std::string> checked_clock(const OptionSpec& spec, const Entry& entry, const std::string& text) {
  const auto clock = clock_from(text);
  if (!clock) return bad_input(entry.where, fmt::format("{} is {}; it takes {}", spec.key, text, type_text(spec)));
  if (clock->kind() == ClockSetting::Kind::Fixed && !within(spec.bounds, clock->value())) {
    return out_of_bounds(spec, entry, text);
  }
  return clock_text(*clock);
}

Result<Value> checked_clocks(const OptionSpec& spec, const Entry& entry) {
  std::vector<std::string> texts;
  if (const auto* i = std::get_if<std::int64_t>(&entry.value)) {
    texts = {fmt::format("{}", *i)};
  } else if (const auto* t = std::get_if<std::string>(&entry.value)) {
    texts = {*t};
  } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&entry.value)) {
    for (const std::int64_t v : *list) texts.push_back(fmt::format("{}", v));
  } else if (const auto* mixed = std::get_if<std::vector<std::string>>(&entry.value)) {
    texts = *mixed;
  } else {
    return wrong_type(spec, entry);
  }
  const bool list = std::holds_alternative<std::vector<std::int64_t>>(entry.value) ||
                    std::holds_alternative<std::vector<std::string>>(entry.value);
  if (list != (spec.type == OptionType::Clocks)) return wrong_type(spec, entry);
  for (std::string& text : texts) {
    auto clock = checked_clock(spec, entry, text);
    if (!clock) return std::unexpected(clock.error());
    text = std::move(*clock);
  }
  if (list) return texts;
  return texts.front();
}

/// Whether the word "none" unsets it: not for free text, nor for a choice with that word.
bool may_be_unset(const OptionSpec& spec) {
  return spec.may_be_none && !spec.required && spec.type != OptionType::Text &&
         std::ranges::find(spec.choices, "none") == spec.choices.end();
}

template <typename Number>
bool parse_whole(std::string_view text, Number& to) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), to);
  return code == std::errc{} && end == text.data() + text.size();
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// "fleet.0.gpu" → "fleet.gpu": how records name an element's key.
std::string without_indices(std::string_view key) {
  std::string plain;
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t end = std::min(key.find('.', start), key.size());
    const std::string_view part = key.substr(start, end - start);
    const bool index = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (!index) plain += (plain.empty() ? "" : ".") + std::string(part);
    start = end + 1;
  }
  return plain;
}

}  // namespace

Origins::Origins(const Document& document) : file_(document.file) {
  for (const TableEntry& table : document.tables) where_[table.key] = table.where;
  for (const Entry& entry : document.entries) where_[entry.key] = entry.where;
}

std::string Origins::of(std::string_view key) const {
  for (std::string_view path = key; !path.empty();) {
    if (const auto found = where_.find(path); found != where_.end()) return found->second;
    const auto dot = path.rfind('.');
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
  }
  return file_ + ":1";
}

std::string Origins::of_one(std::span<const std::string> keys) const {
  const auto found = std::ranges::find_if(keys, [&](const std::string& key) { return commanded(key); });
  return of(found == keys.end() ? keys.front() : *found);
}

Result<Value> checked(const OptionSpec& spec, const Entry& entry) {
  const bool none = std::holds_alternative<std::monostate>(entry.value) && entry.kind.empty();
  if (none && spec.may_be_none) return entry.value;
  switch (spec.type) {
    case OptionType::Boolean:
      if (!std::holds_alternative<bool>(entry.value)) return wrong_type(spec, entry);
      return entry.value;
    case OptionType::Integer: {
      const auto* i = std::get_if<std::int64_t>(&entry.value);
      if (i == nullptr) return wrong_type(spec, entry);
      if (!within(spec.bounds, static_cast<double>(*i))) return out_of_bounds(spec, entry, fmt::format("{}", *i));
      return *i;
    }
    case OptionType::Number:
      return checked_number(spec, entry);
    case OptionType::Text:
    case OptionType::Choice:
      return checked_text(spec, entry);
    case OptionType::Integers:
      return checked_integers(spec, entry);
    case OptionType::Texts:
      return checked_texts(spec, entry);
    case OptionType::Clock:
    case OptionType::Clocks:
      return checked_clocks(spec, entry);
  }
  return wrong_type(spec, entry);
}

Result<Entry> entry_from_text(const OptionSpec& spec, const Override& override_) {
  const std::string_view text = trimmed(override_.text);
  Entry entry{override_.key, {}, {}, override_.where()};
  const auto refuse = [&] {
    return bad_input(entry.where, fmt::format("\"{}\" is not {} {}", text,
                                              spec.type == OptionType::Integer ? "an" : "a", type_text(spec)));
  };
  if (text == "none" && may_be_unset(spec)) return entry;
  switch (spec.type) {
    case OptionType::Boolean:
      if (text != "true" && text != "false") return bad_input(entry.where, "write true or false");
      entry.value = text == "true";
      return entry;
    case OptionType::Integer: {
      std::int64_t i = 0;
      if (!parse_whole(text, i)) return refuse();
      entry.value = i;
      return entry;
    }
    case OptionType::Number: {
      double d = 0.0;
      if (!parse_whole(text, d)) return refuse();
      entry.value = d;
      return entry;
    }
    case OptionType::Text:
    case OptionType::Choice:
    case OptionType::Clock:
      entry.value = std::string(text);
      return entry;
    case OptionType::Texts:
    case OptionType::Clocks: {
      std::string_view rest = text;
      if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
      std::vector<std::string> list;
      while (!trimmed(rest).empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        std::string_view one = trimmed(rest.substr(0, comma));
        if (one.size() > 1 && one.front() == '"' && one.back() == '"') one = one.substr(1, one.size() - 2);
        list.emplace_back(one);
        rest = comma == rest.size() ? std::string_view{} : rest.substr(comma + 1);
      }
      entry.value = std::move(list);
      return entry;
    }
    case OptionType::Integers: {
      std::string_view rest = text;
      if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
      std::vector<std::int64_t> list;
      while (!trimmed(rest).empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        std::int64_t i = 0;
        if (!parse_whole(trimmed(rest.substr(0, comma)), i)) return refuse();
        list.push_back(i);
        rest = comma == rest.size() ? std::string_view{} : rest.substr(comma + 1);
      }
      entry.value = std::move(list);
      return entry;
    }
  }
  return refuse();
}

std::string nearest(std::string_view text, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // "ttft" is three edits from "ttft_ms", but a prefix of it.
    const bool cut_short = text.size() >= 3 && candidate.starts_with(text);
    const std::size_t distance = cut_short ? 1 : edit_distance(text, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Error unknown_key(const std::string& key, const std::string& where, const std::vector<const OptionSpec*>& specs) {
  const std::string plain = without_indices(key);
  const auto dot = plain.rfind('.');
  const std::string last = dot == std::string::npos ? plain : plain.substr(dot + 1);
  const std::string section = dot == std::string::npos ? "" : plain.substr(0, dot + 1);
  std::vector<std::string> keys;
  std::vector<std::string> siblings;
  std::string moved;  // the right name in the wrong section
  for (const OptionSpec* spec : specs) {
    keys.push_back(spec->key);
    if (!section.empty() && spec->key.starts_with(section)) siblings.push_back(spec->key);
    if (moved.empty() && (spec->key == last || spec->key.ends_with("." + last))) moved = spec->key;
  }
  std::string near = moved.empty() ? nearest(plain, keys) : moved;
  std::string remedy;
  if (!near.empty()) {
    remedy = fmt::format("did you mean {}?", near);
  } else if (!siblings.empty()) {
    remedy = fmt::format("known here: {}", fmt::join(siblings, ", "));
  } else {
    constexpr std::size_t kReadable = 16;
    remedy = keys.size() <= kReadable ? fmt::format("known keys: {}", fmt::join(keys, ", "))
                                      : std::string("docs/reference lists the known ones");
  }
  return Error{ErrorKind::BadInput, where, fmt::format("unknown key {}; {}", key, remedy)};
}

Result<void> check_keys(const std::vector<const OptionSpec*>& specs, const std::vector<Entry>& entries,
                        const std::vector<TableEntry>& tables, const std::string& where_missing) {
  for (const TableEntry& table : tables) {
    const std::string plain = without_indices(table.key);
    if (table.key != plain) {
      return bad_input(table.where, fmt::format("[[{0}]] makes a list; write [{0}], once", plain));
    }
    bool known = false;
    for (const OptionSpec* spec : specs) {
      if (spec->key == plain) {
        return bad_input(table.where, fmt::format("{} is a table; it takes {}", plain, type_text(*spec)));
      }
      known = known || spec->key.starts_with(plain + ".");
    }
    if (known) continue;
    std::vector<std::string> sections;
    for (const OptionSpec* spec : specs) {
      const auto dot = spec->key.rfind('.');
      if (dot == std::string::npos) continue;
      const std::string section = spec->key.substr(0, dot);
      if (std::ranges::find(sections, section) == sections.end()) sections.push_back(section);
    }
    const std::string near = nearest(plain, sections);
    return bad_input(table.where,
                     fmt::format("unknown section [{}]; {}", plain,
                                 near.empty() ? fmt::format("known sections: {}", fmt::join(sections, ", "))
                                              : fmt::format("did you mean [{}]?", near)));
  }
  for (const Entry& entry : entries) {
    const bool known = std::ranges::any_of(specs, [&](const OptionSpec* spec) { return spec->key == entry.key; });
    if (known) continue;
    const bool section =
        std::ranges::any_of(specs, [&](const OptionSpec* spec) { return spec->key.starts_with(entry.key + "."); });
    if (section) {
      return bad_input(entry.where,
                       fmt::format("{} is {}; it takes a section [{}]", entry.key, kind_of(entry), entry.key));
    }
    return std::unexpected(unknown_key(entry.key, entry.where, specs));
  }
  for (const OptionSpec* spec : specs) {
    if (!spec->required) continue;
    const bool given = std::ranges::any_of(entries, [&](const Entry& entry) { return entry.key == spec->key; });
    if (!given) {
      return bad_input(where_missing,
                       fmt::format("{} is missing; it takes {}{}: {}", spec->key, type_text(*spec),
                                   spec->unit.empty() ? "" : " (" + spec->unit + ")", spec->description));
    }
  }
  return {};
}

Result<void> apply_overrides(const std::vector<const OptionSpec*>& specs, const std::vector<Override>& overrides,
                             std::vector<Entry>& entries, Origins& origins) {
  for (const Override& override_ : overrides) {
    const std::string plain = without_indices(override_.key);
    const auto spec = std::ranges::find_if(specs, [&](const OptionSpec* s) { return s->key == plain; });
    bool in_list = false;
    for_each_list([&](const char* name, const char*, const auto&, auto) {
      in_list = in_list || plain.starts_with(std::string(name) + ".");
    });
    const bool indexed = plain != override_.key && !in_list;
    if (spec == specs.end() || indexed) return std::unexpected(unknown_key(override_.key, override_.where(), specs));
    Result<Entry> entry = entry_from_text(**spec, override_);
    if (!entry) return std::unexpected(std::move(entry.error()));
    // A shorthand on the command line takes precedence over the file's refined keys.
    if ((*spec)->shorthand) {
      const auto dot = plain.rfind('.');
      const std::string section = plain.substr(0, dot + 1);
      const std::string leaf = plain.substr(dot);
      std::erase_if(entries, [&](const Entry& e) { return e.key.starts_with(section) && e.key.ends_with(leaf); });
    }
    std::erase_if(entries, [&](const Entry& e) { return e.key == override_.key; });
    origins.note(override_.key, override_.where());
    entries.push_back(std::move(*entry));
  }
  return {};
}

}  // namespace wattle::config
