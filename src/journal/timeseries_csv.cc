#include "journal/timeseries_csv.h"

#include <array>
#include <limits>
#include <unordered_map>

#include "base/csv.h"
#include "journal/decimal.h"

namespace wattle::journal {
namespace {

using std::string_view_literals::operator""sv;

enum TimeColumn : std::size_t { kTime, kInstance, kPower, kClock, kDecode, kPrefill, kWaiting, kKv, kTimeColumns };
constexpr std::array<std::string_view, kTimeColumns> kTimeNames = {
    "time_s"sv,          "instance_id"sv,    "power_w"sv,          "clock_mhz"sv,
    "decode_requests"sv, "prefill_tokens"sv, "waiting_requests"sv, "kv_tokens"sv};

}  // namespace

std::string_view timeseries_csv_header() {
  return "time_s,instance_id,power_w,clock_mhz,decode_requests,prefill_tokens,waiting_requests,kv_tokens\n";
}

void append_sample_row(std::string& out, const Sample& s) {
  const auto comma = [&] { out.push_back(','); };
  append_decimal(out, s.at.ns(), 9), comma();
  append_whole(out, s.instance.value()), comma();
  append_decimal(out, s.power.value(), 3), comma();
  append_whole(out, s.clock.value()), comma();
  append_whole(out, s.decode_requests), comma();
  append_whole(out, s.prefill_tokens), comma();
  append_whole(out, s.waiting_requests), comma();
  append_whole(out, s.kv_tokens);
  out.push_back('\n');
}

Result<void> parse_timeseries(std::string_view text, const std::string& name,
                              const std::function<void(const Sample&)>& f) {
  auto csv = CsvReader::open(text, name, kTimeNames);
  if (!csv) return std::unexpected(csv.error());
  constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
  std::unordered_map<std::int64_t, Instant> newest;  // by instance
  while (true) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return {};

    const auto time = parse_decimal(csv->field(kTime), 9);
    if (!time || *time < 0 || *time > Int128{kInt64Max}) return csv->bad_field(kTime, "give seconds >= 0 such as 12.5");
    const auto power = parse_decimal(csv->field(kPower), 3);
    if (!power || *power < 0 || *power > Int128{kInt64Max})
      return csv->bad_field(kPower, "give watts >= 0 such as 312.5");
    std::array<std::int64_t, kTimeColumns> wholes{};
    for (const TimeColumn column : {kInstance, kClock, kDecode, kPrefill, kWaiting, kKv}) {
      const auto v = csv->whole(column, 0, column == kPrefill || column == kKv ? kInt64Max : kInt32Max);
      if (!v) return std::unexpected(v.error());
      wholes[column] = *v;
    }
    Sample s;
    s.at = Instant(static_cast<std::int64_t>(*time));
    Instant& before = newest[wholes[kInstance]];
    if (s.at < before)
      return csv->bad_field(kTime, "an instance's rows must be in time order; sort the file by time_s");
    before = s.at;
    s.instance = InstanceId(static_cast<std::int32_t>(wholes[kInstance]));
    s.power = Milliwatts(static_cast<std::int64_t>(*power));
    s.clock = MegaHertz(static_cast<std::int32_t>(wholes[kClock]));
    s.decode_requests = static_cast<std::int32_t>(wholes[kDecode]);
    s.prefill_tokens = wholes[kPrefill];
    s.waiting_requests = static_cast<std::int32_t>(wholes[kWaiting]);
    s.kv_tokens = wholes[kKv];
    f(s);
  }
}

}  // namespace wattle::journal
