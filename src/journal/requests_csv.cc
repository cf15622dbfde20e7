#include "journal/requests_csv.h"

#include <cmath>

#include "journal/decimal.h"
#include "journal/names.h"

namespace wattle::journal {
namespace {

// The last four follow from the others and are written for people.
constexpr std::string_view kHeader =
    "request_id,tenant_id,fate,reason,arrival_s,prompt_tokens,max_tokens,predicted_output_tokens,dispatched_s,"
    "prefill_start_s,first_token_s,left_s,output_tokens,preemptions,prefill_instance,decode_instance,gaps_within_itl,"
    "energy_j,carbon_g,cost_usd,class_id,tier_id,origin_site,priority,cached_prompt_tokens,"
    "ttft_ms,tbt_ms,e2e_ms,longest_gap_ms\n";

void append_time(std::string& out, Instant t) {
  if (t != Instant::never()) append_decimal(out, t.ns(), 9);
}

void append_instance(std::string& out, InstanceId id) {
  if (id != kNoInstance) append_whole(out, id.value());
}

/// Quotes only where needed. Line breaks become blanks: a row is a line.
void append_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out.push_back('"');
  for (const char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c == '\n' || c == '\r' ? ' ' : c);
  }
  out.push_back('"');
}

}  // namespace

std::string_view requests_csv_header() { return kHeader; }

void append_request_row(std::string& out, const Outcome& o) {
  const auto comma = [&] { out.push_back(','); };
  append_whole(out, o.request.id.value()), comma();
  append_whole(out, o.request.tenant.value()), comma();
  out += name_of(o.fate), comma();
  append_text(out, o.reason), comma();
  append_time(out, o.request.arrival), comma();
  append_whole(out, o.request.prompt_tokens), comma();
  append_whole(out, o.request.max_tokens), comma();
  append_whole(out, o.request.predicted_output_tokens), comma();
  append_time(out, o.dispatched), comma();
  append_time(out, o.prefill_start), comma();
  append_time(out, o.first_token), comma();
  append_time(out, o.left), comma();
  append_whole(out, o.output_tokens), comma();
  append_whole(out, o.preemptions), comma();
  append_instance(out, o.prefill_instance), comma();
  append_instance(out, o.decode_instance), comma();
  append_whole(out, o.gaps_within_itl), comma();
  // Energy that was not metered is unknown, so the field is empty; likewise for unknown intensity or price.
  if (o.metered) append_decimal(out, o.energy.value(), 12);
  comma();
  if (o.metered && std::isfinite(o.carbon.value())) {
    append_decimal(out, static_cast<Int128>(std::llround(o.carbon.value() * 1e9)), 9);
  }
  comma();
  // Known without a meter where the GPUs' price holds the electricity's; unknown with one where no price is stated.
  if (std::isfinite(o.cost.value())) append_decimal(out, static_cast<Int128>(std::llround(o.cost.value() * 1e12)), 12);
  comma();
  append_whole(out, o.request.request_class.value()), comma();
  append_whole(out, o.request.tier.value()), comma();
  append_whole(out, o.request.origin.value()), comma();
  append_whole(out, o.request.priority), comma();
  append_whole(out, o.cached_prompt_tokens), comma();
  if (o.first_token != Instant::never()) append_decimal(out, o.ttft().ns(), 6);
  comma();
  if (o.first_token != Instant::never() && o.left != Instant::never() && o.output_tokens >= 2)
    append_decimal(out, o.tbt().ns(), 6);
  comma();
  if (o.left != Instant::never()) append_decimal(out, o.e2e().ns(), 6);
  comma();
  if (o.output_tokens >= 2) append_decimal(out, o.longest_gap.ns(), 6);
  out.push_back('\n');
}

}  // namespace wattle::journal
