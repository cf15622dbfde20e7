#include "feeds/sources/source.h"

#include <fmt/core.h>

#include "feeds/sources/parsers.h"

namespace wattle::feeds {

namespace {
std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (const char c : text.substr(0, most)) out += (c >= ' ' && c < '\x7f') ? c : ' ';
  return out;
}
}  // namespace

Error refused(const Query& query, int status, Span retry_after, std::string_view body) {
  const std::string where = fmt::format("{} {}", name_of(query.source), query.zone);
  const char* variable = key_variable(query.source);
  const auto error = [&](std::string what) { return Error{ErrorKind::External, where, std::move(what)}; };
  if (status == 401 || status == 403) {
    if (variable == nullptr) return error(fmt::format("answered {}: it requires credentials", status));
    return error(
        fmt::format("answered {}: the key is missing, wrong or has no access to this zone; put a valid one in "
                    "--key-file or ${}",
                    status, variable));
  }
  if (status == 404) return error("answered 404: unknown zone or path");
  if (status == 429) {
    return error(retry_after == Span()
                     ? "answered 429: too many requests; ask less often"
                     : fmt::format("answered 429: too many requests; ask again after {:.0f} s", retry_after.seconds()));
  }
  if (status >= 500) return error(fmt::format("answered {}: a fault of the source; try again later", status));
  return error(fmt::format("answered {}, expected 200: {}", status, printable(body, 120)));
}

Result<Feed> parse_answer(const Query& query, std::string_view json, const std::string& name) {
  const auto document = parse_json(json, name);
  if (!document) return std::unexpected(document.error());
  const JsonAt answer(*document, name);
  switch (query.source) {
    case Source::ElectricityMaps:
      return parse_electricity_maps(query, answer, name);
    case Source::WattTime:
      return parse_watttime(query, answer, name);
    case Source::Pjm:
      return parse_pjm(query, answer, name);
    case Source::UkCarbonIntensity:
      return parse_uk(query, answer, name);
    case Source::CarbonAware:
      break;
  }
  return parse_carbon_aware(query, answer, name);
}

}  // namespace wattle::feeds
