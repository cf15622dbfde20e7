#include "journal/requests_csv.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "base/csv.h"
#include "journal/decimal.h"
#include "journal/names.h"

namespace wattle::journal {
namespace {

using std::string_view_literals::operator""sv;

enum RequestColumn : std::size_t {
  kRequest,
  kTenant,
  kFate,
  kReason,
  kArrival,
  kPrompt,
  kMaxTokens,
  kPredicted,
  kDispatched,
  kPrefillStart,
  kFirstToken,
  kLeft,
  kOutput,
  kPreemptions,
  kPrefillInstance,
  kDecodeInstance,
  kGapsWithin,
  kEnergy,
  kCarbon,
  kCost,
  kClass,
  kTier,
  kOrigin,
  kPriority,
  kCached,
  kColumns
};

// ttft_ms, tbt_ms and e2e_ms follow from the others; with longest_gap_ms, they are written for people, not read back.
constexpr std::array<std::string_view, kColumns> kNames = {"request_id"sv,
                                                           "tenant_id"sv,
                                                           "fate"sv,
                                                           "reason"sv,
                                                           "arrival_s"sv,
                                                           "prompt_tokens"sv,
                                                           "max_tokens"sv,
                                                           "predicted_output_tokens"sv,
                                                           "dispatched_s"sv,
                                                           "prefill_start_s"sv,
                                                           "first_token_s"sv,
                                                           "left_s"sv,
                                                           "output_tokens"sv,
                                                           "preemptions"sv,
                                                           "prefill_instance"sv,
                                                           "decode_instance"sv,
                                                           "gaps_within_itl"sv,
                                                           "energy_j"sv,
                                                           "carbon_g"sv,
                                                           "cost_usd"sv,
                                                           "class_id"sv,
                                                           "tier_id"sv,
                                                           "origin_site"sv,
                                                           "priority"sv,
                                                           "cached_prompt_tokens"sv};

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

class Row {
 public:
  explicit Row(const CsvReader& csv) : csv_(csv) {}

  template <typename T>
  void whole(RequestColumn column, T& into, std::int64_t low = 0) {
    if (error_) return;
    auto v = csv_.whole(column, low, std::numeric_limits<T>::max());
    v ? static_cast<void>(into = static_cast<T>(*v)) : static_cast<void>(error_ = v.error());
  }
  void time(RequestColumn column, Instant& into) {
    if (error_) return;
    const auto field = csv_.field(column);
    if (field.empty()) return static_cast<void>(into = Instant::never());
    const auto ns = parse_decimal(field, 9);
    if (!ns || *ns > Int128{INT64_MAX} || *ns < Int128{INT64_MIN}) {
      return fail(column, "give seconds such as 12.345, or nothing when it never happened");
    }
    into = Instant(static_cast<std::int64_t>(*ns));
  }
  void instance(RequestColumn column, InstanceId& into) {
    std::int32_t id = kNoInstance.value();
    if (!csv_.field(column).empty()) whole(column, id);
    into = InstanceId(id);
  }
  void nouns(Request& request) {
    std::int32_t id = 0;
    whole(kClass, id), request.request_class = ClassId(id);
    whole(kTier, id), request.tier = TierId(id);
    whole(kOrigin, id), request.origin = SiteId(id);
    whole(kPriority, request.priority, std::numeric_limits<std::int32_t>::min());
  }
  void decimal(RequestColumn column, Int128& into, int places, std::string_view remedy) {
    const auto v = parse_decimal(csv_.field(column), places);
    v ? static_cast<void>(into = *v) : fail(column, remedy);
  }
  void fail(RequestColumn column, std::string_view remedy) {
    if (!error_) error_ = csv_.bad_field(column, remedy).error();
  }
  [[nodiscard]] const CsvReader& csv() const { return csv_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const CsvReader& csv_;
  std::optional<Error> error_;
};

}  // namespace

std::string_view requests_csv_header() {
  static const std::string header = [] {
    std::string h;
    for (const auto name : kNames) h.append(name).push_back(',');
    return h + "ttft_ms,tbt_ms,e2e_ms,longest_gap_ms\n";
  }();
  return header;
}

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
  // What nobody metered is unknown, hence empty; so is what was drawn at an unknown intensity or price.
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

Result<void> parse_requests(std::string_view text, const std::string& name,
                            const std::function<void(const Outcome&)>& f) {
  // Files of before requests had classes, or prompts could be cached, lack the last columns.
  const std::string_view header = text.substr(0, text.find('\n'));
  const bool classified = header.find(kNames[kClass]) != std::string_view::npos;
  const bool cached = classified && header.find(kNames[kCached]) != std::string_view::npos;
  auto csv = CsvReader::open(text, name, std::span(kNames).first(cached ? kColumns : classified ? kCached : kClass));
  if (!csv) return std::unexpected(csv.error());
  std::string reason;
  while (true) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return {};
    Row row(*csv);
    Outcome o;
    std::int64_t id = 0;
    std::int32_t tenant = 0;
    row.whole(kRequest, id);
    row.whole(kTenant, tenant, std::numeric_limits<std::int32_t>::min());
    o.request.id = RequestId(id);
    o.request.tenant = TenantId(tenant);
    const auto fate = fate_from(csv->field(kFate));
    fate ? static_cast<void>(o.fate = *fate)
         : row.fail(kFate, "use finished, rejected, failed, cancelled or in_flight");
    reason = csv->field(kReason);
    o.reason = reason.c_str();
    row.time(kArrival, o.request.arrival);
    row.whole(kPrompt, o.request.prompt_tokens);
    row.whole(kMaxTokens, o.request.max_tokens);
    row.whole(kPredicted, o.request.predicted_output_tokens);
    row.time(kDispatched, o.dispatched);
    row.time(kPrefillStart, o.prefill_start);
    row.time(kFirstToken, o.first_token);
    row.time(kLeft, o.left);
    row.whole(kOutput, o.output_tokens);
    row.whole(kPreemptions, o.preemptions);
    row.instance(kPrefillInstance, o.prefill_instance);
    row.instance(kDecodeInstance, o.decode_instance);
    row.whole(kGapsWithin, o.gaps_within_itl);
    if (classified) row.nouns(o.request);
    if (cached) row.whole(kCached, o.cached_prompt_tokens);
    o.metered = !csv->field(kEnergy).empty();
    if (o.metered) {
      Int128 energy = 0;
      row.decimal(kEnergy, energy, 12, "give joules such as 12.5, or nothing where they are unknown");
      o.energy = Picojoules(energy);
    }
    if (o.metered && csv->field(kCarbon).empty()) {
      o.carbon = GramsCo2(std::numeric_limits<double>::quiet_NaN());
    } else if (o.metered) {
      Int128 carbon = 0;
      row.decimal(kCarbon, carbon, 9, "give grams such as 0.25, or nothing where they are unknown");
      o.carbon = GramsCo2(static_cast<double>(carbon) * 1e-9);
    }
    if (csv->field(kCost).empty()) {
      o.cost = Usd(std::numeric_limits<double>::quiet_NaN());
    } else {
      Int128 cost = 0;
      row.decimal(kCost, cost, 12, "give US dollars such as 0.000125, or nothing where they are unknown");
      o.cost = Usd(static_cast<double>(cost) * 1e-12);
    }
    if (row.error()) return std::unexpected(*row.error());
    f(o);
  }
}

}  // namespace wattle::journal
