// What engines say of themselves: step reports in msgpack, gauges in three forms.
#include <cmath>
#include <cstdint>

#include "fuzz.h"
#include "telemetry/fpm.h"
#include "telemetry/gauges.h"

namespace wattle::fuzz {

namespace {

const Instant kNow = Instant() + Span::s(1'000'000);

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::string broken_rule(const std::optional<LoadGauges>& read) {
  if (!read) return "";
  if (read->running.value_or(0) < 0 || read->waiting.value_or(0) < 0 || read->kv_tokens.value_or(0) < 0)
    return "a negative count of requests was read";
  if (read->kv_share && !(*read->kv_share >= 0.0)) return "no share of the KV cache was read as one";
  return "";
}

std::string broken_rule(const telemetry::FpmMessage& read) {
  const auto& [prefills, prompt, prompt_var, prompt_kv, decodes, decode_kv, decode_var] = read.scheduled;
  if (prefills < 0 || prompt < 0 || prompt_kv < 0 || decodes < 0 || decode_kv < 0) return "a negative count was read";
  if (!std::isfinite(read.wall_time_s) || !std::isfinite(prompt_var) || !std::isfinite(decode_var)) {
    return "something that is not a number was read";
  }
  const StepReport report = telemetry::to_step_report(read, InstanceId(0), kNow);
  const StepShape& shape = report.shape;
  if (shape.decode_requests < 0 || shape.prefill_requests < 0 || shape.decode_kv_tokens < 0 ||
      shape.prefill_tokens < 0 || shape.prefill_context_tokens < 0 || report.waiting_requests < 0 ||
      report.kv_tokens < 0) {
    return "a negative step was reported";
  }
  std::vector<std::uint8_t> again;
  telemetry::encode_fpm(read, again);
  const auto reread = telemetry::decode_fpm(again);
  if (!reread) return std::string("what was read is refused when written: ") + telemetry::name_of(reread.error());
  if (!(reread->scheduled == read.scheduled) || !(reread->queued == read.queued) ||
      reread->worker_id != read.worker_id || reread->wall_time_s != read.wall_time_s) {
    return "written and read once more it is another report";
  }
  return "";
}

std::string encoded(const telemetry::FpmMessage& message) {
  std::vector<std::uint8_t> out;
  telemetry::encode_fpm(message, out);
  return {out.begin(), out.end()};
}

}  // namespace

std::vector<std::string> seeds() {
  telemetry::FpmMessage plain;
  plain.worker_id = "w";
  plain.wall_time_s = 0.0125;
  plain.scheduled = {2, 512, 16.0, 128, 7, 4096, 3.5};
  plain.queued = {1, 256, 0.0, 0, 0, 0.0};
  telemetry::FpmMessage rich = plain;
  rich.timing_scope = "forward";
  rich.extra = {Span::ms(12), 4096, 64, 512, MegaHertz(1410), true, StepYield{7, 11}};
  // The map form of msgspec's structures.
  const std::string_view by_key(
      "\x97\x01\xa1w\x00\x05\xcb\x3f\x89\x99\x99\x99\x99\x99\x9a\x81\xb3num_decode_requests\x07\x80", 38);
  return {encoded(plain), encoded(rich), std::string(by_key)};
}

Verdict parse(std::string_view input) {
  for (const auto& read :
       {telemetry::read_metrics_page(input), telemetry::read_loads(input), telemetry::read_orca(input)}) {
    if (std::string rule = broken_rule(read); !rule.empty()) return {true, std::move(rule)};
  }
  const std::vector<std::uint8_t> bytes = bytes_of(input);
  const auto read = telemetry::decode_fpm(bytes);
  if (!read) return {false, ""};
  return {true, broken_rule(*read)};
}

}  // namespace wattle::fuzz
