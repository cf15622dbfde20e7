// The URLs and headers of each API (as documented by the providers, 2026).
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/timestamp.h"
#include "feeds/sources/source.h"

namespace wattle::feeds {

namespace {
std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

/// "2024-01-01T00:00:00Z" at whole seconds.
std::string iso(Instant t) {
  std::string text = format_timestamp(t.ns()).substr(0, 19);
  text[10] = 'T';
  return text + "Z";
}

/// "2024-01-01T00:00Z": the UK's form.
std::string iso_minutes(Instant t) { return iso(t).substr(0, 16) + "Z"; }

const char* default_base(Source source) {
  switch (source) {
    case Source::ElectricityMaps:
      return "https://api.electricitymaps.com";
    case Source::WattTime:
      return "https://api.watttime.org";
    case Source::Pjm:
      return "https://api.pjm.com";
    case Source::UkCarbonIntensity:
      return "https://api.carbonintensity.org.uk";
    case Source::CarbonAware:
      break;
  }
  return "";
}

Result<std::string> base_of(const Query& query) {
  std::string base = query.base_url.empty() ? default_base(query.source) : query.base_url;
  while (base.ends_with('/')) base.pop_back();
  if (base.empty()) return bad_input("base_url", "is empty; the Carbon Aware SDK runs on a host of your own, name it");
  if (!base.starts_with("http://") && !base.starts_with("https://")) {
    return bad_input("base_url", fmt::format("is '{}'; it must begin with https:// or http://", base));
  }
  return base;
}

Result<void> check_range(const Query& query, bool needed) {
  if (needed && (!query.from || !query.to)) return bad_input("from, to", "are needed for a history of this source");
  if (query.from && query.to && *query.to <= *query.from) return bad_input("to", "does not lie after from");
  return {};
}

Result<void> check_key(std::string_view key, bool needed, const Query& query) {
  if (needed && key.empty()) {
    return bad_input("key", fmt::format("is missing; put it into a file or into ${}", key_variable(query.source)));
  }
  if (std::ranges::any_of(key, [](unsigned char c) { return c < 0x21 || c == 0x7f; })) {
    return bad_input("key", "holds blanks or control characters; is it the right file?");
  }
  return {};
}

std::string electricity_maps(const Query& query) {
  const std::string common =
      fmt::format("zone={}&emissionFactorType={}&shouldUseFallbackCallerLookup=false", encoded(query.zone),
                  query.scope == EmissionScope::Direct ? "direct" : "lifecycle");
  switch (query.wish) {
    case Wish::Latest:
      return "/v3/carbon-intensity/latest?" + common;
    case Wish::Forecast:
      return "/v3/carbon-intensity/forecast?" + common;
    case Wish::History:
      break;
  }
  if (!query.from || !query.to) return "/v3/carbon-intensity/history?" + common;  // the last 24 hours
  return fmt::format("/v3/carbon-intensity/past-range?{}&start={}&end={}", common, encoded(iso(*query.from)),
                     encoded(iso(*query.to)));
}

std::string watttime(const Query& query) {
  const std::string common = fmt::format("region={}&signal_type={}", encoded(query.zone),
                                         query.kind == IntensityKind::Marginal ? "co2_moer" : "co2_aoer");
  if (query.wish == Wish::Forecast) return fmt::format("/v3/forecast?{}&horizon_hours=24", common);
  // latest: the first point of the shortest forecast, which is about now
  if (query.wish == Wish::Latest) return fmt::format("/v3/forecast?{}&horizon_hours=0", common);
  return fmt::format("/v3/historical?{}&start={}&end={}", common, encoded(iso(*query.from)), encoded(iso(*query.to)));
}

std::string pjm(const Query& query) {
  const auto plain = [](Instant t) { return format_timestamp(t.ns()).substr(0, 16); };
  return fmt::format(
      "/api/v1/fivemin_marginal_emissions?startRow=1&rowCount=50000&fields=datetime_beginning_utc,pnode_id,"
      "marginal_co2_rate&pnode_id={}&datetime_beginning_utc={}",
      encoded(query.zone), encoded(fmt::format("{} to {}", plain(*query.from), plain(*query.to))));
}

std::string uk(const Query& query) {
  const bool national = query.zone == "GB";
  const std::string stem = national ? "/intensity" : "/regional/intensity";
  const std::string region = national ? "" : "/regionid/" + encoded(query.zone);
  if (query.wish == Wish::Latest) return national ? stem : "/regional" + region;
  if (query.wish == Wish::Forecast) return fmt::format("{}/{}/fw48h{}", stem, iso_minutes(*query.from), region);
  return fmt::format("{}/{}/{}{}", stem, iso_minutes(*query.from), iso_minutes(*query.to), region);
}

std::string carbon_aware(const Query& query) {
  if (query.wish == Wish::Forecast) return "/emissions/forecasts/current?location=" + encoded(query.zone);
  std::string path = "/emissions/bylocation?location=" + encoded(query.zone);
  if (query.from) path += "&time=" + encoded(iso(*query.from));
  if (query.to) path += "&toTime=" + encoded(iso(*query.to));
  return path;
}
}  // namespace

Result<HttpRequest> request_for(const Query& query, std::string_view key) {
  if (query.zone.empty()) return bad_input("zone", fmt::format("is empty; name one of {}'s", name_of(query.source)));
  const auto base = base_of(query);
  if (!base) return std::unexpected(base.error());
  const bool history = query.wish == Wish::History;
  const bool optional_range = query.source == Source::ElectricityMaps || query.source == Source::CarbonAware;
  if (auto ok = check_range(query, history && !optional_range); !ok) return std::unexpected(ok.error());
  if (auto ok = check_key(key, key_variable(query.source) != nullptr, query); !ok) return std::unexpected(ok.error());
  HttpRequest request;
  switch (query.source) {
    case Source::ElectricityMaps:
      if (query.kind == IntensityKind::Marginal)
        return bad_input("kind", "Electricity Maps serves average intensity only");
      request = {*base + electricity_maps(query), {fmt::format("auth-token: {}", key)}, ""};
      break;
    case Source::WattTime:
      request = {*base + watttime(query), {fmt::format("Authorization: Bearer {}", key)}, ""};
      break;
    case Source::Pjm:
      if (!history) return bad_input("wish", "PJM's rates come after the fact; ask for a history");
      if (query.kind == IntensityKind::Average) return bad_input("kind", "this feed of PJM's is marginal");
      request = {*base + pjm(query), {fmt::format("Ocp-Apim-Subscription-Key: {}", key)}, ""};
      break;
    case Source::UkCarbonIntensity:
      if (query.kind == IntensityKind::Marginal)
        return bad_input("kind", "the UK source serves average intensity only");
      if (query.wish == Wish::Forecast && !query.from)
        return bad_input("from", "is needed: a UK forecast starts there");
      request = {*base + uk(query), {}, ""};
      break;
    case Source::CarbonAware:
      request = {*base + carbon_aware(query), {}, ""};
      if (!key.empty()) request.headers.push_back(fmt::format("Authorization: Bearer {}", key));
      break;
  }
  request.headers.emplace_back("Accept: application/json");
  return request;
}

Result<HttpRequest> watttime_login(std::string_view credentials, const std::string& base_url) {
  Query query;
  query.source = Source::WattTime;
  query.base_url = base_url;
  const auto base = base_of(query);
  if (!base) return std::unexpected(base.error());
  if (auto ok = check_key(credentials, true, query); !ok) return std::unexpected(ok.error());
  if (credentials.find(':') == std::string_view::npos) {
    return bad_input("key", "WattTime's is user:password, which a login turns into a token");
  }
  return HttpRequest{*base + "/login", {"Accept: application/json"}, std::string(credentials)};
}

}  // namespace wattle::feeds
