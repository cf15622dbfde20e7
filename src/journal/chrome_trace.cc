#include "journal/chrome_trace.h"

#include <algorithm>
#include <cmath>

#include "base/text_line.h"
#include "journal/decimal.h"
#include "journal/decisions_jsonl.h"
#include "journal/json_keys.h"
#include "journal/names.h"

namespace wattle::journal {
namespace {

std::string_view name_of_shape(const StepShape& shape) {
  if (shape.prefill_tokens == 0) return "decode";
  return shape.decode_requests == 0 ? "prefill" : "prefill + decode";
}

void append_key(std::string& out, std::string_view key, std::int64_t value) {
  out += key;
  append_whole(out, value);
}

void append_counter(std::string& out, const Sample& s, std::string_view name, std::string_view series) {
  out += ",\n{\"ph\":\"C\",\"pid\":";
  append_whole(out, s.instance.value());
  out += ",\"ts\":";
  append_decimal(out, s.at.ns(), 3);
  out += ",\"name\":\"";
  out += name;
  out += "\",\"args\":{\"";
  out += series;
  out += "\":";
}

}  // namespace

void append_trace_instance(std::string& out, const Instance& instance) {
  append_key(out, ",\n{\"ph\":\"M\",\"pid\":", instance.id.value());
  out += ",\"name\":\"process_name\",\"args\":{\"name\":";
  append_json_text(out, fmt::format("{} {} ({} x {}, {})", name_of(instance.spec.role), instance.id.value(),
                                    instance.spec.tensor_parallel, instance.spec.gpu.name, instance.spec.llm.name));
  append_key(out, "}},\n{\"ph\":\"M\",\"pid\":", instance.id.value());
  append_key(out, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":", instance.id.value());
  out += "}}";
}

void append_trace_begin(std::string& out, const RunFacts& facts) {
  out += "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"scenario\":";
  append_json_text(out, facts.scenario);
  out += ",\"recipe\":";
  append_json_text(out, facts.recipe);
  out += ",\"driver\":";
  append_json_text(out, facts.driver);
  out += "},\"traceEvents\":[\n";
  out += "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_labels\",\"args\":{\"labels\":";
  append_json_text(out, facts.recipe);
  out += "}}";
  for (const Instance& instance : facts.instances) append_trace_instance(out, instance);
}

void append_trace_stretch(std::string& out, const Stretch& s) {
  append_key(out, ",\n{\"ph\":\"X\",\"pid\":", s.instance.value());
  out += ",\"tid\":0,\"ts\":";
  append_decimal(out, s.begin.ns(), 3);
  out += ",\"dur\":";
  append_decimal(out, (s.end - s.begin).ns(), 3);
  out += ",\"name\":\"";
  out += name_of_shape(s.shape);
  append_key(out, "\",\"args\":{\"steps\":", s.steps);
  append_key(out, ",\"clock_mhz\":", s.clock.value());
  append_key(out, ",\"decode_requests\":", s.shape.decode_requests);
  append_key(out, ",\"decode_kv_tokens\":", s.shape.decode_kv_tokens);
  append_key(out, ",\"prefill_requests\":", s.shape.prefill_requests);
  append_key(out, ",\"prefill_tokens\":", s.shape.prefill_tokens);
  append_key(out, ",\"prefill_context_tokens\":", s.shape.prefill_context_tokens);
  out += "}}";
}

void append_trace_sample(std::string& out, const Sample& s) {
  append_counter(out, s, "power", "W");
  append_decimal(out, s.power.value(), 3);
  out += "}}";
  append_counter(out, s, "clock", "MHz");
  append_whole(out, s.clock.value());
  out += "}}";
  append_counter(out, s, "batch", "decode requests");
  append_whole(out, s.decode_requests);
  append_key(out, ",\"waiting requests\":", s.waiting_requests);
  out += "}}";
}

void append_trace_end(std::string& out) { out += "\n]}\n"; }

Result<void> parse_trace(std::string_view text, const std::string& name, const std::function<void(const Stretch&)>& f) {
  if (!text.starts_with("{") || text.find("\"traceEvents\":[\n") == std::string_view::npos) {
    return bad_input(name + ":1",
                     "must be a trace.json written by wattle: an object with a traceEvents array, one event a line");
  }
  std::int64_t number = 1;
  bool closed = false;
  take_line(text);
  while (!text.empty()) {
    ++number;
    std::string_view line = take_line(text);
    if (line.ends_with(',')) line.remove_suffix(1);
    if (line == "]}") closed = true;
    if (line.empty() || closed) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return bad_input(where, "each line of traceEvents must be one complete JSON object");
    const auto phase = json.find("ph");
    if (phase == json.end() || *phase != "X") continue;
    // JSON's doubles hold microseconds to the nanosecond for runs of up to 100 days.
    std::string problem;
    double begin_us = 0.0;
    double length_us = 0.0;
    std::int64_t pid = 0;
    std::int64_t clock = 0;
    std::int64_t decode_requests = 0;
    std::int64_t prefill_requests = 0;
    Stretch s;
    JsonReader reader(json, "", problem);
    reader.number("ts", begin_us);
    reader.number("dur", length_us);
    reader.count("pid", pid);
    reader.group("args", [&](JsonReader& args) {
      args.count("steps", s.steps);
      args.count("clock_mhz", clock);
      args.count("decode_requests", decode_requests);
      args.count("decode_kv_tokens", s.shape.decode_kv_tokens);
      args.count("prefill_requests", prefill_requests);
      args.count("prefill_tokens", s.shape.prefill_tokens);
      args.count("prefill_context_tokens", s.shape.prefill_context_tokens);
    });
    constexpr std::int64_t kInt32Max = INT32_MAX;
    if (problem.empty() && std::max({pid, clock, decode_requests, prefill_requests}) > kInt32Max) {
      problem = "pid, clock_mhz and request counts must be below 2^31";
    }
    if (problem.empty() && (!(begin_us >= 0.0 && begin_us <= 9e15) || !(length_us >= 0.0 && length_us <= 9e15))) {
      problem = "ts and dur must be microseconds in [0, 9e15]";
    }
    if (!problem.empty()) return bad_input(where, problem);
    s.instance = InstanceId(static_cast<std::int32_t>(pid));
    s.clock = MegaHertz(static_cast<std::int32_t>(clock));
    s.shape.decode_requests = static_cast<std::int32_t>(decode_requests);
    s.shape.prefill_requests = static_cast<std::int32_t>(prefill_requests);
    s.begin = Instant(std::llround(begin_us * 1e3));
    s.end = s.begin + Span(std::llround(length_us * 1e3));
    f(s);
  }
  if (!closed) return bad_input(fmt::format("{}:{}", name, number), "the file is cut off: its last line must be ]}");
  return {};
}

}  // namespace wattle::journal
