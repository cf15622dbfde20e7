#include "telemetry/fpm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "telemetry/msgpack_reader.h"

namespace wattle::telemetry {

namespace {

constexpr std::int64_t kHighestClock = 100'000;    ///< MHz; what says more is no clock
constexpr std::int64_t kMostRequests = 1'000'000;  ///< in a step
constexpr std::int64_t kMostDrafts = 1'000;        ///< tokens of one request and step

class Writer {
 public:
  explicit Writer(std::vector<std::uint8_t>& out) : out_(out) {}
  void array(unsigned n) { out_.push_back(static_cast<std::uint8_t>(0x90U | n)); }
  void map(unsigned n) { out_.push_back(static_cast<std::uint8_t>(0x80U | n)); }
  void integer(std::int64_t v) {
    if (v >= 0 && v < 0x80) {
      out_.push_back(static_cast<std::uint8_t>(v));
    } else if (v >= 0 && v <= 0xff) {
      out_.push_back(0xcc);
      big_endian(static_cast<std::uint64_t>(v), 1);
    } else if (v >= 0 && v <= 0xffff) {
      out_.push_back(0xcd);
      big_endian(static_cast<std::uint64_t>(v), 2);
    } else if (v >= 0 && v <= 0xffff'ffff) {
      out_.push_back(0xce);
      big_endian(static_cast<std::uint64_t>(v), 4);
    } else {
      out_.push_back(v >= 0 ? 0xcf : 0xd3);
      big_endian(static_cast<std::uint64_t>(v), 8);
    }
  }
  void real(double v) {
    out_.push_back(0xcb);
    big_endian(std::bit_cast<std::uint64_t>(v), 8);
  }
  void boolean(bool v) { out_.push_back(v ? 0xc3 : 0xc2); }
  void text(std::string_view v) {
    v = v.substr(0, 255);
    if (v.size() < 32) {
      out_.push_back(static_cast<std::uint8_t>(0xa0U | v.size()));
    } else {
      out_.push_back(0xd9);
      out_.push_back(static_cast<std::uint8_t>(v.size()));
    }
    out_.insert(out_.end(), v.begin(), v.end());
  }

 private:
  void big_endian(std::uint64_t v, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out_.push_back(static_cast<std::uint8_t>(v >> shift));
  }
  std::vector<std::uint8_t>& out_;
};

/// A field of a structure: its name in the map form, and its destination. The order is the wire's.
struct Field {
  std::string_view name;
  std::int64_t* whole = nullptr;
  double* real = nullptr;
};

bool read_value(MsgpackReader& in, const Field& field) {
  if (field.whole != nullptr) {
    *field.whole = in.integer();
    return !in.failed() && *field.whole >= 0;
  }
  *field.real = in.real();
  return !in.failed() && std::isfinite(*field.real) && *field.real >= 0.0;
}

struct Outcome {
  bool out_of_range = false;
  bool wrong_shape = false;
};

template <std::size_t N>
void read_structure(MsgpackReader& in, const std::array<Field, N>& fields, Outcome& outcome) {
  if (in.peek() == MsgpackReader::Kind::Map) {
    for (std::uint64_t left = in.map(); left > 0 && !in.failed(); --left) {
      const std::string_view key = in.text();
      const auto found = std::ranges::find(fields, key, &Field::name);
      if (found == fields.end()) {
        in.skip();
      } else if (!read_value(in, *found)) {
        outcome.out_of_range = true;
      }
    }
    return;
  }
  const std::uint64_t size = in.array();
  if (in.failed()) return;
  for (std::size_t i = 0; i < N && i < size && !in.failed(); ++i) {
    if (!read_value(in, fields[i])) outcome.out_of_range = true;
  }
  for (std::uint64_t i = N; i < size && !in.failed(); ++i) in.skip();
  if (size < N) outcome.wrong_shape = true;
}

void read_extra(MsgpackReader& in, FpmExtra& extra) {
  if (in.peek() != MsgpackReader::Kind::Map) return in.skip();
  StepYield yield;
  for (std::uint64_t left = in.map(); left > 0 && !in.failed(); --left) {
    if (in.peek() != MsgpackReader::Kind::Text) {  // an unrelated map
      in.skip();
      in.skip();
      continue;
    }
    const std::string_view key = in.text();
    const bool whole = in.peek() == MsgpackReader::Kind::Integer;
    if (key == "age_ns" && whole) {
      extra.oldest_scheduled_age = Span::ns(std::max<std::int64_t>(0, in.integer()));
    } else if (key == "kv" && whole) {
      extra.kv_tokens = std::max<std::int64_t>(0, in.integer());
    } else if (key == "ctx" && whole) {
      extra.prefill_context_tokens = std::max<std::int64_t>(0, in.integer());
    } else if (key == "left" && whole) {
      extra.unfinished_prompt_tokens = std::max<std::int64_t>(0, in.integer());
    } else if (key == "mhz" && whole) {
      const std::int64_t mhz = in.integer();
      if (mhz > 0 && mhz <= kHighestClock) extra.clock = MegaHertz(static_cast<std::int32_t>(mhz));
    } else if (key == "of" && whole) {
      yield.requests = static_cast<std::int32_t>(std::clamp<std::int64_t>(in.integer(), 0, kMostRequests));
    } else if (key == "tok" && whole) {
      yield.tokens = std::max<std::int64_t>(0, in.integer());
    } else if (key == "start" && in.peek() == MsgpackReader::Kind::Bool) {
      extra.at_start = in.boolean();
    } else {
      in.skip();
    }
  }
  // Fewer tokens than requests, or far more, is no yield.
  const bool makes_sense = yield.tokens >= yield.requests && yield.tokens / kMostDrafts <= yield.requests;
  if (yield.requests > 0 && makes_sense) extra.yield = yield;
}

auto scheduled_fields(FpmMessage::Scheduled& s) {
  return std::array{Field{"num_prefill_requests", &s.num_prefill_requests},
                    Field{"sum_prefill_tokens", &s.sum_prefill_tokens},
                    Field{"var_prefill_length", nullptr, &s.var_prefill_length},
                    Field{"sum_prefill_kv_tokens", &s.sum_prefill_kv_tokens},
                    Field{"num_decode_requests", &s.num_decode_requests},
                    Field{"sum_decode_kv_tokens", &s.sum_decode_kv_tokens},
                    Field{"var_decode_kv_tokens", nullptr, &s.var_decode_kv_tokens}};
}

auto queued_fields(FpmMessage::Queued& q) {
  return std::array{Field{"num_prefill_requests", &q.num_prefill_requests},
                    Field{"sum_prefill_tokens", &q.sum_prefill_tokens},
                    Field{"var_prefill_length", nullptr, &q.var_prefill_length},
                    Field{"num_decode_requests", &q.num_decode_requests},
                    Field{"sum_decode_kv_tokens", &q.sum_decode_kv_tokens},
                    Field{"var_decode_kv_tokens", nullptr, &q.var_decode_kv_tokens}};
}

template <std::size_t N>
void write_structure(Writer& out, const std::array<Field, N>& fields) {
  out.array(N);
  for (const Field& field : fields) {
    if (field.whole != nullptr) {
      out.integer(*field.whole);
    } else {
      out.real(*field.real);
    }
  }
}

void read_positional(MsgpackReader& in, FpmMessage& m, Outcome& outcome) {
  const std::uint64_t size = in.array();
  if (in.failed() || size < 7) {
    outcome.wrong_shape = true;
    return;
  }
  std::uint64_t read = 7;
  m.version = in.integer();
  m.worker_id = in.text();
  m.dp_rank = in.integer();
  m.counter_id = in.integer();
  if (in.peek() == MsgpackReader::Kind::Text) {
    m.timing_scope = in.text();
    if (size < ++read) {
      outcome.wrong_shape = true;
      return;
    }
  }
  m.wall_time_s = in.real();
  read_structure(in, scheduled_fields(m.scheduled), outcome);
  read_structure(in, queued_fields(m.queued), outcome);
  if (read < size && !in.failed()) {
    read_extra(in, m.extra);
    ++read;
  }
  for (; read < size && !in.failed(); ++read) in.skip();
}

void read_named(MsgpackReader& in, FpmMessage& m, Outcome& outcome) {
  for (std::uint64_t left = in.map(); left > 0 && !in.failed(); --left) {
    const std::string_view key = in.text();
    if (key == "version") {
      m.version = in.integer();
    } else if (key == "worker_id") {
      m.worker_id = in.text();
    } else if (key == "dp_rank") {
      m.dp_rank = in.integer();
    } else if (key == "counter_id") {
      m.counter_id = in.integer();
    } else if (key == "timing_scope") {
      m.timing_scope = in.text();
    } else if (key == "wall_time") {
      m.wall_time_s = in.real();
    } else if (key == "scheduled_requests") {
      read_structure(in, scheduled_fields(m.scheduled), outcome);
    } else if (key == "queued_requests") {
      read_structure(in, queued_fields(m.queued), outcome);
    } else if (key == "wattle") {
      read_extra(in, m.extra);
    } else {
      in.skip();
    }
  }
}

}  // namespace

const char* name_of(FpmError error) {
  switch (error) {
    case FpmError::Truncated:
      return "truncated";
    case FpmError::WrongShape:
      return "wrong_shape";
    case FpmError::OtherVersion:
      return "other_version";
    case FpmError::OutOfRange:
      return "out_of_range";
  }
  return "wrong_shape";
}

void encode_fpm(const FpmMessage& message, std::vector<std::uint8_t>& out) {
  FpmMessage m = message;  // fields are addressed, not changed
  Writer w(out);
  const FpmExtra& x = m.extra;
  const unsigned facts = (x.oldest_scheduled_age ? 1U : 0U) + (x.kv_tokens ? 1U : 0U) +
                         (x.prefill_context_tokens ? 1U : 0U) + (x.unfinished_prompt_tokens ? 1U : 0U) +
                         (x.clock ? 1U : 0U) + (x.yield ? 2U : 0U) + (x.at_start ? 1U : 0U);
  w.array(7 + (m.timing_scope.empty() ? 0U : 1U) + (facts > 0 ? 1U : 0U));
  w.integer(m.version);
  w.text(m.worker_id);
  w.integer(m.dp_rank);
  w.integer(m.counter_id);
  if (!m.timing_scope.empty()) w.text(m.timing_scope);
  w.real(m.wall_time_s);
  write_structure(w, scheduled_fields(m.scheduled));
  write_structure(w, queued_fields(m.queued));
  if (facts == 0) return;
  w.map(facts);
  if (x.oldest_scheduled_age) w.text("age_ns"), w.integer(x.oldest_scheduled_age->ns());
  if (x.kv_tokens) w.text("kv"), w.integer(*x.kv_tokens);
  if (x.prefill_context_tokens) w.text("ctx"), w.integer(*x.prefill_context_tokens);
  if (x.unfinished_prompt_tokens) w.text("left"), w.integer(*x.unfinished_prompt_tokens);
  if (x.clock) w.text("mhz"), w.integer(x.clock->value());
  if (x.yield) w.text("of"), w.integer(x.yield->requests), w.text("tok"), w.integer(x.yield->tokens);
  if (x.at_start) w.text("start"), w.boolean(*x.at_start);
}

std::expected<FpmMessage, FpmError> decode_fpm(std::span<const std::uint8_t> bytes) {
  MsgpackReader in(bytes);
  FpmMessage m;
  Outcome outcome;
  if (in.peek() == MsgpackReader::Kind::Map) {
    read_named(in, m, outcome);
  } else {
    read_positional(in, m, outcome);
  }
  if (in.truncated()) return std::unexpected(FpmError::Truncated);
  if (in.failed() || outcome.wrong_shape) return std::unexpected(FpmError::WrongShape);
  if (m.version != 1) return std::unexpected(FpmError::OtherVersion);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (outcome.out_of_range || !std::isfinite(m.wall_time_s) || m.wall_time_s < 0.0 || m.counter_id < 0 ||
      m.dp_rank < 0 || m.scheduled.num_decode_requests > kMost || m.scheduled.num_prefill_requests > kMost ||
      m.queued.num_prefill_requests > kMost || m.queued.num_decode_requests > kMost) {
    return std::unexpected(FpmError::OutOfRange);
  }
  return m;
}

StepReport to_step_report(const FpmMessage& m, InstanceId instance, Instant now) {
  StepReport report;
  report.instance = instance;
  report.sequence = m.counter_id;
  report.start = now;
  // Without this flag the report is of an ended step, because it contains the wall time.
  report.moment = m.extra.at_start.value_or(false) ? StepMoment::Starts : StepMoment::Ended;
  StepShape& shape = report.shape;
  shape.decode_requests = static_cast<std::int32_t>(m.scheduled.num_decode_requests);
  shape.decode_kv_tokens = m.scheduled.sum_decode_kv_tokens;
  shape.prefill_requests = static_cast<std::int32_t>(m.scheduled.num_prefill_requests);
  shape.prefill_tokens = m.scheduled.sum_prefill_tokens;
  if (m.extra.prefill_context_tokens) {
    shape.prefill_context_tokens = *m.extra.prefill_context_tokens;
  } else if (shape.prefill_requests > 0) {
    // Requests of equal size: each chunk reads the tokens before it and, on average, half of itself.
    const double n = shape.prefill_requests;
    const double chunk = static_cast<double>(shape.prefill_tokens) / n;
    const double before = static_cast<double>(m.scheduled.sum_prefill_kv_tokens) / n;
    shape.prefill_context_tokens = static_cast<std::int64_t>(std::min(9e18, n * chunk * (before + chunk / 2)));
  }
  report.waiting_requests = static_cast<std::int32_t>(std::min<std::int64_t>(
      m.queued.num_prefill_requests + m.queued.num_decode_requests, std::numeric_limits<std::int32_t>::max()));
  report.waiting_prompt_tokens = m.queued.sum_prefill_tokens;
  if (m.extra.oldest_scheduled_age) {
    report.oldest_scheduled_arrival = now - *m.extra.oldest_scheduled_age;
  } else if (shape.prefill_requests > 0) {
    report.oldest_scheduled_arrival = now;
  }
  report.kv_tokens = m.extra.kv_tokens.value_or(shape.decode_kv_tokens);
  report.unfinished_prompt_tokens = m.extra.unfinished_prompt_tokens.value_or(0);
  report.clock = m.extra.clock.value_or(MegaHertz{0});
  report.yield = m.extra.yield.value_or(StepYield{});
  return report;
}

FpmMessage to_fpm(const StepReport& report, std::string_view worker_id, Instant now) {
  FpmMessage m;
  m.worker_id = worker_id;
  m.counter_id = report.sequence;
  m.scheduled.num_prefill_requests = report.shape.prefill_requests;
  m.scheduled.sum_prefill_tokens = report.shape.prefill_tokens;
  m.scheduled.num_decode_requests = report.shape.decode_requests;
  m.scheduled.sum_decode_kv_tokens = report.shape.decode_kv_tokens;
  m.queued.num_prefill_requests = report.waiting_requests;
  m.queued.sum_prefill_tokens = report.waiting_prompt_tokens;
  if (report.oldest_scheduled_arrival != Instant::never()) {
    m.extra.oldest_scheduled_age = std::max(Span(), now - report.oldest_scheduled_arrival);
  }
  m.extra.kv_tokens = report.kv_tokens;
  if (report.shape.prefill_context_tokens != 0) m.extra.prefill_context_tokens = report.shape.prefill_context_tokens;
  if (report.unfinished_prompt_tokens > 0) m.extra.unfinished_prompt_tokens = report.unfinished_prompt_tokens;
  if (report.clock != MegaHertz{0}) m.extra.clock = report.clock;
  if (report.yield.requests > 0) m.extra.yield = report.yield;
  if (report.moment == StepMoment::Starts) m.extra.at_start = true;
  return m;
}

}  // namespace wattle::telemetry
