#include "plan/load_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/csv.h"
#include "base/digest.h"
#include "base/text_line.h"

namespace wattle::plan {

namespace {

constexpr std::string_view kForm = "wattle load profile ";
constexpr auto kColumns =
    std::to_array<std::string_view>({"class", "prompt_tokens", "output_tokens", "ttft_limit_ms", "tbt_limit_ms",
                                     "kept_alone", "tp", "clock_mhz", "load_per_s", "power_w", "ttft_ms", "tbt_ms"});
constexpr double kLargestNumber = 1e9;
constexpr double kLongestLimitMs = 1e12;  ///< a scenario's longest objective times its tier's largest factor is a tenth

std::uint64_t checksum(std::string_view body) {
  Digest digest;
  digest.add_text(body);
  return digest.value();
}

/// Form, version and checksum; what is left of `text` is the body.
Result<void> check_head(std::string_view& text, const std::string& file) {
  const std::string_view form = take_line(text);
  if (!form.starts_with(kForm)) {
    return bad_input(file + ":1", fmt::format("a load profile begins with '{}{}'", kForm, kLoadTableVersion));
  }
  const std::string_view version = form.substr(kForm.size());
  if (version != fmt::format("{}", kLoadTableVersion)) {
    return bad_input(file + ":1",
                     fmt::format("is of version {}; this program reads version {}: profile the model again", version,
                                 kLoadTableVersion));
  }
  const std::string_view sum = take_line(text);
  if (sum != fmt::format("checksum {:016x}", checksum(text))) {
    return bad_input(file + ":2", "the checksum is not that of the text: the file was cut off or changed");
  }
  return {};
}

std::string limit_text(Span limit) { return limit == Span::max() ? "none" : fmt::format("{:.6f}", limit.millis()); }

Result<Span> limit_from(const CsvReader& csv, std::size_t column) {
  if (csv.field(column) == "none") return Span::max();
  const auto ms = csv.number(column, 0.0, kLongestLimitMs);
  if (!ms) return std::unexpected(ms.error());
  return Span::from_seconds(*ms * 1e-3);
}

/// The class of the present row, made when its name is new.
Result<ProfiledClass*> class_of(const CsvReader& csv, LoadTable& table) {
  const std::string_view name = csv.field(0);
  const auto found = std::ranges::find(table.classes, name, &ProfiledClass::name);
  if (found != table.classes.end()) return &*found;
  ProfiledClass made;
  made.name = name;
  const auto prompt = csv.number(1, 0.0, kLargestNumber);
  const auto output = csv.number(2, 0.0, kLargestNumber);
  const auto ttft = limit_from(csv, 3);
  const auto tbt = limit_from(csv, 4);
  if (!prompt) return std::unexpected(prompt.error());
  if (!output) return std::unexpected(output.error());
  if (!ttft) return std::unexpected(ttft.error());
  if (!tbt) return std::unexpected(tbt.error());
  const auto alone = csv.number(5, 0.0, 1.0);
  if (!alone) return std::unexpected(alone.error());
  made.kept_alone = *alone;
  made.prompt_tokens = *prompt;
  made.output_tokens = *output;
  made.limits = {*ttft, *tbt};
  table.classes.push_back(std::move(made));
  return &table.classes.back();
}

Result<void> add_row(const CsvReader& csv, LoadTable& table) {
  const auto one = class_of(csv, table);
  if (!one) return std::unexpected(one.error());
  const auto tp = csv.whole(6, 1, 1024);
  const auto clock = csv.whole(7, 1, 10'000);
  if (!tp) return std::unexpected(tp.error());
  if (!clock) return std::unexpected(clock.error());
  std::array<double, 4> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = csv.number(8 + i, 0.0, kLargestNumber);
    if (!number) return std::unexpected(number.error());
    numbers[i] = *number;
  }
  auto& profiles = (*one)->profiles;
  const MegaHertz mhz(static_cast<std::int32_t>(*clock));
  auto found = std::ranges::find_if(profiles, [&](const ShardProfile& p) { return p.tp == *tp && p.clock == mhz; });
  if (found == profiles.end()) {
    profiles.push_back({static_cast<int>(*tp), mhz, {}});
    found = profiles.end() - 1;
  }
  if (!found->points.empty() && numbers[0] <= found->points.back().load_per_s) {
    return csv.bad_field(8, "loads of a class, TP degree and clock must ascend");
  }
  if (found->points.empty() && numbers[0] != 0.0) return csv.bad_field(8, "the first load must be 0");
  found->points.push_back(
      {numbers[0], Watts(numbers[1]), Span::from_seconds(numbers[2] * 1e-3), Span::from_seconds(numbers[3] * 1e-3)});
  return {};
}

}  // namespace

std::string to_text(const LoadTable& table) {
  std::string body = fmt::format("# llm: {}\n# gpu: {}\n", table.llm, table.gpu);
  if (table.tiers > 1) body += fmt::format("# tiers: {}\n", table.tiers);
  for (const std::string& line : table.provenance) body += fmt::format("# {}\n", line);
  body += fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const ProfiledClass& one : table.classes) {
    const std::string head = fmt::format("{},{},{},{},{},{}", one.name, one.prompt_tokens, one.output_tokens,
                                         limit_text(one.limits.ttft), limit_text(one.limits.tbt), one.kept_alone);
    for (const ShardProfile& profile : one.profiles) {
      for (const LoadPoint& point : profile.points) {
        body += fmt::format("{},{},{},{},{},{:.6f},{:.6f}\n", head, profile.tp, profile.clock.value(), point.load_per_s,
                            point.power.value(), point.ttft.millis(), point.tbt.millis());
      }
    }
  }
  return fmt::format("{}{}\nchecksum {:016x}\n", kForm, kLoadTableVersion, checksum(body)) + body;
}

Result<LoadTable> parse_load_table(std::string_view text, const std::string& file) {
  if (auto ok = check_head(text, file); !ok) return std::unexpected(ok.error());
  LoadTable table;
  bool tiers_said = false;
  std::string rows = "\n\n";  // the head's lines, so that line numbers are the file's
  while (text.starts_with("# ")) {
    const std::string_view line = take_line(text).substr(2);
    rows += '\n';
    // In the order of to_text(): what comes later is provenance, whatever it says.
    const bool head = table.provenance.empty();
    if (head && table.llm.empty() && line.starts_with("llm: ")) {
      table.llm = line.substr(5);
    } else if (head && table.gpu.empty() && line.starts_with("gpu: ")) {
      table.gpu = line.substr(5);
    } else if (head && !tiers_said && line.starts_with("tiers: ")) {
      tiers_said = true;
      const std::string_view count = line.substr(7);
      if (std::from_chars(count.begin(), count.end(), table.tiers).ptr != count.end())
        return bad_input(file, "tiers must be a whole number");
    } else {
      table.provenance.emplace_back(line);
    }
  }
  rows += text;
  auto csv = CsvReader::open(rows, file, kColumns);
  if (!csv) return std::unexpected(csv.error());
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    if (auto ok = add_row(*csv, table); !ok) return std::unexpected(ok.error());
  }
  if (auto ok = check_load_table(table, file); !ok) return std::unexpected(ok.error());
  return table;
}

Result<void> check_load_table(const LoadTable& table, const std::string& where) {
  if (table.classes.empty()) return bad_input(where, "profiles no class; it needs a row for each load");
  if (table.tiers < 1 || table.classes.size() % static_cast<std::size_t>(table.tiers) != 0)
    return bad_input(where, "has classes that lack some of its tiers");
  std::set<std::pair<int, MegaHertz>> kinds;
  for (const ProfiledClass& one : table.classes) {
    for (const ShardProfile& profile : one.profiles) kinds.emplace(profile.tp, profile.clock);
  }
  for (const ProfiledClass& one : table.classes) {
    for (const auto& [tp, clock] : kinds) {
      const auto found =
          std::ranges::find_if(one.profiles, [&](const ShardProfile& p) { return p.tp == tp && p.clock == clock; });
      const std::string kind = fmt::format("{} at TP{} and {} MHz", one.name, tp, clock.value());
      if (found == one.profiles.end()) {
        return bad_input(where, fmt::format("has a hole: {} was not profiled, other classes were", kind));
      }
      if (auto ok = check_profile(*found, fmt::format("{}: {}", where, kind)); !ok) return ok;
    }
  }
  return {};
}

Result<void> check_mergeable(const LoadTable& into, const LoadTable& more, const std::string& where) {
  if (into.llm != more.llm || into.gpu != more.gpu) {
    return bad_input(where, fmt::format("is of {} on {}, not of {} on {}", more.llm, more.gpu, into.llm, into.gpu));
  }
  const auto alike = [](const ProfiledClass& a, const ProfiledClass& b) {
    return a.name == b.name && a.limits == b.limits && a.prompt_tokens == b.prompt_tokens &&
           a.output_tokens == b.output_tokens;
  };
  if (into.tiers != more.tiers || !std::ranges::equal(into.classes, more.classes, alike)) {
    return bad_input(where, "has classes of other names, lengths, limits or tiers: they are of another scenario");
  }
  for (const ShardProfile& profile : more.classes.front().profiles) {
    const auto& ours = into.classes.front().profiles;
    if (std::ranges::find(ours, profile.tp, &ShardProfile::tp) == ours.end()) continue;
    return bad_input(where, fmt::format("has TP{}, too; tables of different TP degrees make one", profile.tp));
  }
  return {};
}

Result<void> merge(LoadTable& into, const LoadTable& more, const std::string& where) {
  if (auto ok = check_mergeable(into, more, where); !ok) return ok;
  for (std::size_t c = 0; c < into.classes.size(); ++c) {
    auto& profiles = into.classes[c].profiles;
    into.classes[c].kept_alone = std::max(into.classes[c].kept_alone, more.classes[c].kept_alone);
    profiles.insert(profiles.end(), more.classes[c].profiles.begin(), more.classes[c].profiles.end());
    std::ranges::stable_sort(profiles, {}, [](const ShardProfile& p) { return std::pair(p.tp, p.clock); });
  }
  into.provenance.insert(into.provenance.end(), more.provenance.begin(), more.provenance.end());
  return check_load_table(into, where);
}

TableProfile::TableProfile(const LoadTable& table, int tp) {
  for (const ProfiledClass& one : table.classes) {
    auto& entries = by_class_.emplace_back();
    for (const ShardProfile& profile : one.profiles) {
      if (profile.tp == tp) entries.push_back({&profile, plan::most_load(profile, one.limits).value_or(0.0)});
    }
    std::ranges::sort(entries, {}, [](const Entry& e) { return e.profile->clock; });
  }
}

/// Of the class, from this clock on; the highest where none is; empty: nothing is known.
std::span<const TableProfile::Entry> TableProfile::from(ClassId request_class, MegaHertz clock) const {
  const auto c = static_cast<std::size_t>(request_class.value());
  if (request_class.value() < 0 || c >= by_class_.size() || by_class_[c].empty()) return {};
  const std::span<const Entry> entries = by_class_[c];
  const auto found = std::ranges::lower_bound(entries, clock, {}, [](const Entry& e) { return e.profile->clock; });
  return entries.subspan(std::min(static_cast<std::size_t>(found - entries.begin()), entries.size() - 1));
}

const TableProfile::Entry* TableProfile::find(ClassId request_class, MegaHertz clock) const {
  const auto entries = from(request_class, clock);
  return entries.empty() ? nullptr : &entries.front();
}

MegaHertz TableProfile::clock_for(ClassId request_class, double load_per_s, MegaHertz least) const {
  const auto entries = from(request_class, least);
  if (entries.empty()) return least;
  const auto found = std::ranges::find_if(entries, [&](const Entry& e) { return e.most_load >= load_per_s; });
  return (found == entries.end() ? entries.back() : *found).profile->clock;
}

double TableProfile::max_load_per_s(ClassId request_class, MegaHertz clock) const {
  const Entry* entry = find(request_class, clock);
  return entry == nullptr ? 0.0 : entry->most_load;
}

wattle::LoadPoint TableProfile::at(ClassId request_class, double load_per_s, MegaHertz clock) const {
  const Entry* entry = find(request_class, clock);
  if (entry == nullptr) return {};
  const double most = entry->profile->points.back().load_per_s;
  const LoadPoint point = *at_load(*entry->profile, std::clamp(load_per_s, 0.0, most));
  return {point.power, point.ttft, point.tbt};
}

std::vector<double> may_be_late(const LoadTable& table, double late) {
  std::vector<double> shares;
  for (const auto& one : table.classes) shares.push_back(may_be_late(one, late));
  return shares;
}

double most_load(const ProfiledClass& one, int tp, MegaHertz clock) {
  const auto found =
      std::ranges::find_if(one.profiles, [&](const ShardProfile& p) { return p.tp == tp && p.clock == clock; });
  return found == one.profiles.end() ? 0.0 : most_load(*found, one.limits).value_or(0.0);
}

double most_useful_load(const ProfiledClass& one, int tp) {
  const MegaHertz top = top_clock(one, tp);
  const auto found =
      std::ranges::find_if(one.profiles, [&](const ShardProfile& p) { return p.tp == tp && p.clock == top; });
  const double within = most_load(one, tp, top);
  return found == one.profiles.end() || within <= 0.0 ? 0.0 : std::max(within, found->points.back().load_per_s);
}

double load_in(const ProfiledClass& one, const ProfiledClass& larger) {
  int tp = 0;
  for (const ShardProfile& profile : one.profiles) tp = std::max(tp, profile.tp);
  const double ours = most_load(one, tp, top_clock(one, tp));
  const double theirs = most_load(larger, tp, top_clock(larger, tp));
  if (ours > 0.0 && theirs > 0.0) return theirs / ours;
  return larger.prompt_tokens > 0.0 ? one.prompt_tokens / larger.prompt_tokens : 1.0;
}

MegaHertz top_clock(const ProfiledClass& one, int tp) {
  MegaHertz top;
  for (const ShardProfile& profile : one.profiles) {
    if (profile.tp == tp) top = std::max(top, profile.clock);
  }
  return top;
}

}  // namespace wattle::plan
