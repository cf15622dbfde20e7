#pragma once
// Tests only: requests.csv read back, to hold against what was written.
#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/csv.h"
#include "journal/decimal.h"
#include "journal/names.h"
#include "journal/requests_csv.h"

namespace wattle::journal {

/// Calls f for each row of a file that this library wrote; `outcome.reason` is valid during the call only.
inline void for_each_request(std::string_view text, const std::function<void(const Outcome&)>& f) {
  std::vector<std::string_view> names;
  std::string_view header = requests_csv_header().substr(0, requests_csv_header().size() - 1);
  while (!header.empty()) {
    names.push_back(header.substr(0, header.find(',')));
    header.remove_prefix(std::min(names.back().size() + 1, header.size()));
  }
  auto csv = CsvReader::open(text, "requests.csv", names).value();
  const auto cell = [&](std::string_view name) {
    return csv.field(static_cast<std::size_t>(std::ranges::find(names, name) - names.begin()));
  };
  const auto whole = [&]<typename T>(std::string_view name, T& into) {
    into = static_cast<T>(std::stoll(std::string(cell(name))));
  };
  const auto decimal = [&](std::string_view name, int places) { return parse_decimal(cell(name), places).value(); };
  const auto time = [&](std::string_view name) {
    return cell(name).empty() ? Instant::never() : Instant(static_cast<std::int64_t>(decimal(name, 9)));
  };
  const auto id = [&]<typename Id>(std::string_view name, Id& into) {
    if (!cell(name).empty()) into = Id(std::stoi(std::string(cell(name))));
  };
  const auto known = [&](std::string_view name, int places, double unit) {
    return cell(name).empty() ? std::numeric_limits<double>::quiet_NaN()
                              : static_cast<double>(decimal(name, places)) * unit;
  };
  while (csv.next().value()) {
    Outcome o;
    o.request.id = RequestId(std::stoll(std::string(cell("request_id"))));
    id("tenant_id", o.request.tenant);
    for (const Fate fate : {Fate::Finished, Fate::Rejected, Fate::Failed, Fate::Cancelled, Fate::InFlight}) {
      if (cell("fate") == name_of(fate)) o.fate = fate;
    }
    const std::string reason(cell("reason"));
    o.reason = reason.c_str();
    o.request.arrival = time("arrival_s");
    whole("prompt_tokens", o.request.prompt_tokens);
    whole("max_tokens", o.request.max_tokens);
    whole("predicted_output_tokens", o.request.predicted_output_tokens);
    o.dispatched = time("dispatched_s");
    o.prefill_start = time("prefill_start_s");
    o.first_token = time("first_token_s");
    o.left = time("left_s");
    whole("output_tokens", o.output_tokens);
    whole("preemptions", o.preemptions);
    id("prefill_instance", o.prefill_instance);
    id("decode_instance", o.decode_instance);
    whole("gaps_within_itl", o.gaps_within_itl);
    id("class_id", o.request.request_class);
    id("tier_id", o.request.tier);
    id("origin_site", o.request.origin);
    whole("priority", o.request.priority);
    whole("cached_prompt_tokens", o.cached_prompt_tokens);
    o.metered = !cell("energy_j").empty();
    if (o.metered) {
      o.energy = Picojoules(decimal("energy_j", 12));
      o.carbon = GramsCo2(known("carbon_g", 9, 1e-9));
    }
    o.cost = Usd(known("cost_usd", 12, 1e-12));
    f(o);
  }
}

}  // namespace wattle::journal
