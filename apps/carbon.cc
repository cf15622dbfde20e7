// `wattle carbon`: prints the data of a carbon source as CSV or JSON. Warnings go to stderr.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "ask_source.h"
#include "base/file.h"
#include "base/timestamp.h"
#include "commands.h"
#include "feeds/stored.h"

namespace wattle::apps {

namespace {
using feeds::Feed;
using feeds::Source;

constexpr const char* kSources =
    "electricity-maps, watttime, pjm, uk, carbon-aware; with --file also csv-direct, csv-lifecycle, csv-watttime, "
    "csv-eia, eia-mix";

struct CarbonFlags {
  std::string source;
  std::string zone;
  std::string wish;  ///< empty: latest
  std::string kind;
  std::string scope;
  std::string from;
  std::string to;
  std::string file;
  std::string column;
  std::string key_file;
  std::string base_url;
  double timeout_s = 10.0;
  bool json = false;
};

Result<std::optional<Instant>> time_of(const char* flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto ns = parse_timestamp(text);
  if (!ns) return bad_input(flag, fmt::format("is '{}'; it must be a time like 2024-01-01T00:00:00Z", text));
  return Instant(*ns);
}

Result<feeds::Query> query_of(const CarbonFlags& flags, Source source) {
  feeds::Query query;
  query.source = source;
  query.zone = flags.zone;
  query.base_url = flags.base_url;
  query.wish = flags.wish == "history"    ? feeds::Wish::History
               : flags.wish == "forecast" ? feeds::Wish::Forecast
                                          : feeds::Wish::Latest;
  const bool marginal_by_nature = source == Source::WattTime || source == Source::Pjm;
  const std::string kind = flags.kind.empty() ? (marginal_by_nature ? "marginal" : "average") : flags.kind;
  query.kind = kind == "marginal" ? feeds::IntensityKind::Marginal : feeds::IntensityKind::Average;
  query.scope = flags.scope == "direct" ? feeds::EmissionScope::Direct : feeds::EmissionScope::Lifecycle;
  const auto from = time_of("--from", flags.from);
  if (!from) return std::unexpected(from.error());
  const auto to = time_of("--to", flags.to);
  if (!to) return std::unexpected(to.error());
  if (*from && *to && **to <= **from) return bad_input("--to", "does not lie after --from");
  query.from = *from;
  query.to = *to;
  return query;
}

/// Refuses flags that have no effect with --file.
Result<void> check_file_flags(const CarbonFlags& flags, bool of_source) {
  for (const auto& [flag, value] :
       {std::pair{"--wish", &flags.wish}, {"--key-file", &flags.key_file}, {"--base-url", &flags.base_url}}) {
    if (!value->empty()) return bad_input(flag, "applies to queries of a source; --file makes none");
  }
  if (!of_source && !flags.zone.empty()) return bad_input("--zone", "a CSV holds one zone, and does not say which");
  if (of_source && !flags.column.empty()) return bad_input("--column", "is for csv-watttime; an answer has none");
  return {};
}

Result<Feed> feed_of(const CarbonFlags& flags) {
  const auto source = feeds::source_named(flags.source);
  if (!source && (!feeds::is_csv_form(flags.source) || flags.file.empty())) {
    return bad_input("--source", fmt::format("is '{}'; it must be one of {}", flags.source, kSources));
  }
  const auto query = query_of(flags, source.value_or(Source::ElectricityMaps));
  if (!query) return std::unexpected(query.error());
  feeds::Wanted wanted;
  wanted.of = flags.file;
  const bool asks = flags.file.empty();
  if (asks || !flags.kind.empty()) wanted.kind = query->kind;
  if ((asks && *source == Source::ElectricityMaps) || !flags.scope.empty()) wanted.scope = query->scope;
  Result<Feed> feed;
  if (asks) {
    feed = ask_source(*query, flags.key_file, Span::from_seconds(flags.timeout_s)).feed;
  } else {
    if (auto ok = check_file_flags(flags, source.has_value()); !ok) return std::unexpected(ok.error());
    const auto text = read_file(flags.file);
    if (!text) return std::unexpected(text.error());
    feed = feeds::parse_stored(flags.source, *query, flags.column, *text, flags.file);
  }
  if (!feed) return feed;
  if (auto ok = feeds::check_label(feed->label(), wanted); !ok) return std::unexpected(ok.error());
  if (!asks && (query->from || query->to)) return feed->between(query->from, query->to, flags.file);
  return feed;
}

std::string utc(Instant t) {
  std::string text = format_timestamp(t.ns()).substr(0, 19) + "Z";
  text[10] = 'T';
  return text;
}

void print_json(const Feed& feed) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& reading : feed.readings()) {
    rows.push_back({{"from_utc", utc(reading.from)},
                    {"g_per_kwh", reading.value ? nlohmann::json(reading.value->value()) : nlohmann::json()},
                    {"estimated", reading.estimated},
                    {"forecast", reading.forecast}});
  }
  const nlohmann::json object = {{"source", feed.label().source},
                                 {"zone", feed.label().zone},
                                 {"kind", feeds::text_of(feed.label().kind)},
                                 {"scope", feeds::text_of(feed.label().scope)},
                                 {"step_s", feed.step().seconds()},
                                 {"issued_utc", feed.issued() ? nlohmann::json(utc(*feed.issued())) : nlohmann::json()},
                                 {"warnings", feed.warnings()},
                                 {"readings", std::move(rows)}};
  fmt::print("{}\n", object.dump());
}

void print_csv(const Feed& feed) {
  fmt::print("from_utc,{}_g_per_kwh,estimated,forecast\n", feeds::text_of(feed.label().kind));
  for (const auto& reading : feed.readings()) {
    fmt::print("{},{},{:d},{:d}\n", utc(reading.from), reading.value ? fmt::format("{}", reading.value->value()) : "",
               reading.estimated, reading.forecast);
  }
}
}  // namespace

void add_carbon(Command app, int& exit_code) {
  Command command =
      app.add_subcommand("carbon", "Carbon intensity over time from a provider or a file, as CSV or JSON");
  auto flags = std::make_shared<CarbonFlags>();
  command.add_option("--source", flags->source, kSources).required();
  command.add_option("--zone", flags->zone,
                     "zone, region, node id or location, as the provider names it; not for a CSV");
  command.add_option("--wish", flags->wish, "latest, history or forecast (default: latest)")
      .check(one_of({"latest", "history", "forecast"}));
  command.add_option("--kind", flags->kind, "average or marginal; default: what the provider is mainly used for")
      .check(one_of({"average", "marginal"}));
  command.add_option("--scope", flags->scope, "lifecycle or direct; default for electricity-maps: lifecycle")
      .check(one_of({"lifecycle", "direct"}));
  command.add_option("--from", flags->from,
                     "leave out steps of a history or of --file that begin before this time (with offset, or UTC)");
  command.add_option("--to", flags->to, "leave out those that begin at or after this time");
  command.add_option("--file", flags->file, "read a stored response or a CSV instead of querying the provider");
  command.add_option("--column", flags->column, "csv-watttime: a column in g/kWh; default: MOER, in lbs/MWh");
  command.add_option("--key-file", flags->key_file,
                     "file with the API key; default: the provider's environment variable");
  command.add_option("--base-url", flags->base_url,
                     "URL to query instead of the provider's (a proxy, a test server, your own Carbon Aware SDK)");
  command.add_option("--timeout-s", flags->timeout_s, "timeout of a query, in seconds").check(range(0.1, 600.0));
  command.add_flag("--json", flags->json, "print one JSON object");
  command.callback([flags, &exit_code] {
    const auto feed = feed_of(*flags);
    if (!feed) {
      exit_code = fail(feed.error());
      return;
    }
    for (const auto& warning : feed->warnings()) fmt::print(stderr, "wattle: warning: {}\n", warning);
    if (flags->json) {
      print_json(*feed);
    } else {
      print_csv(*feed);
    }
  });
}

}  // namespace wattle::apps
