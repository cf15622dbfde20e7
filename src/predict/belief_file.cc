#include "predict/belief_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/csv.h"

namespace wattle::predict {

namespace {

enum Column : std::size_t {
  kPhase,
  kClock,
  kFrom,
  kTo,
  kKvTo,
  kTime,
  kTimePerRequest,
  kTimePerToken,
  kEnergy,
  kEnergyPerRequest,
  kEnergyPerToken,
  kIdle,
  kTimePerPair,
  kEnergyPerPair
};
constexpr std::size_t kWithoutPairs = kTimePerPair;  ///< number of columns of older files
constexpr std::array<std::string_view, 14> kColumns = {"phase",
                                                       "clock_mhz",
                                                       "from",
                                                       "to",
                                                       "kv_tokens_to",
                                                       "time_us",
                                                       "time_us_per_request",
                                                       "time_ns_per_token",
                                                       "energy_mj",
                                                       "energy_mj_per_request",
                                                       "energy_uj_per_token",
                                                       "idle_w",
                                                       "time_ns_per_pair",
                                                       "energy_uj_per_pair"};

/// Text units in ns (time) or nJ (energy).
constexpr double kMicro = 1e3;
constexpr double kMilli = 1e6;
constexpr double kMost = 1e12;

/// One line of the file: a phase at a clock, of prefill one range, of decode one tile.
struct Line {
  StepKind phase = StepKind::Decode;
  bool host = false;  ///< no phase at a clock, but the host's line for it
  MegaHertz clock;
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t kv_to = 0;
  DecodePlane time;                   ///< prefill: ns_per_kv_token is per prompt token, ns_per_request per prompt
  std::optional<DecodePlane> energy;  ///< nJ where `time` has ns
  double time_per_pair = 0.0;         ///< prefill, likewise
  double energy_per_pair = 0.0;
  std::optional<Milliwatts> idle;
};

PrefillPlane prefill_plane(const DecodePlane& of_line, double per_pair) {
  return {of_line.ns_per_kv_token, per_pair, of_line.ns, of_line.ns_per_request};
}

Result<DecodePlane> plane_of(const CsvReader& csv, std::size_t constant, double constant_unit, double token_unit) {
  DecodePlane plane;
  const auto fixed = csv.number(constant, 0.0, kMost);
  if (!fixed) return std::unexpected(fixed.error());
  const auto per_request = csv.number(constant + 1, 0.0, kMost);
  if (!per_request) return std::unexpected(per_request.error());
  const auto per_token = csv.number(constant + 2, 0.0, kMost);
  if (!per_token) return std::unexpected(per_token.error());
  return DecodePlane{*per_request * constant_unit, *per_token * token_unit, *fixed * constant_unit};
}

/// Of all clocks: there is no clock in it, no context and no energy.
Result<Line> host_line_of(const CsvReader& csv, Line line) {
  const auto from = csv.whole(kFrom, 0, 1'000'000);
  if (!from) return std::unexpected(from.error());
  if (const auto to = csv.whole(kTo, *from, 1'000'000); !to) return std::unexpected(to.error());
  for (const Column none : {kClock, kKvTo, kTimePerToken}) {
    if (const auto zero = csv.whole(none, 0, 0); !zero) return std::unexpected(zero.error());
  }
  for (const Column none : {kEnergy, kEnergyPerRequest, kEnergyPerToken, kIdle}) {
    if (!csv.field(none).empty()) return csv.bad_field(none, "the host's energy is no GPU's; leave it empty");
  }
  const auto time = plane_of(csv, kTime, kMicro, 1.0);
  if (!time) return std::unexpected(time.error());
  line.time = *time;
  return line;
}

/// The terms of prompts' attention; older files have none.
Result<void> read_pairs(const CsvReader& csv, Line& line) {
  const bool prefill = line.phase == StepKind::Prefill;
  for (const Column of : {kTimePerPair, kEnergyPerPair}) {
    if (csv.field(of).empty()) continue;
    if (!prefill) return csv.bad_field(of, "only prefill rows have it; leave it empty");
    const auto per_pair = csv.number(of, 0.0, kMost);
    if (!per_pair) return std::unexpected(per_pair.error());
    (of == kTimePerPair ? line.time_per_pair : line.energy_per_pair) = *per_pair * (of == kTimePerPair ? 1.0 : kMicro);
  }
  return {};
}

Result<Line> line_of(const CsvReader& csv, bool with_pairs) {
  Line line;
  const std::string_view phase = csv.field(kPhase);
  line.host = phase == "host" || phase == "prefill-host";
  if (phase == "prefill-host") line.phase = StepKind::Prefill;
  if (line.host) return host_line_of(csv, line);
  const auto kind = step_kind_from(phase);
  if (!kind) return csv.bad_field(kPhase, "it must be host, prefill-host, idle, prefill or decode");
  line.phase = *kind;
  const bool idle = line.phase == StepKind::Idle;
  const auto clock = csv.whole(kClock, kLowestClockMhz, kHighestClockMhz);
  if (!clock) return std::unexpected(clock.error());
  line.clock = MegaHertz(static_cast<std::int32_t>(*clock));
  const std::int64_t most = idle ? 0 : line.phase == StepKind::Decode ? 1'000'000 : 1'000'000'000;
  const auto from = csv.whole(kFrom, idle ? 0 : 1, most);
  if (!from) return std::unexpected(from.error());
  const auto to = csv.whole(kTo, *from, most);
  if (!to) return std::unexpected(to.error());
  const auto kv_to =
      csv.whole(kKvTo, line.phase == StepKind::Decode ? 1 : 0, line.phase == StepKind::Decode ? 1'000'000'000'000 : 0);
  if (!kv_to) return std::unexpected(kv_to.error());
  line.from = *from;
  line.to = *to;
  line.kv_to = *kv_to;
  if (idle) {
    const auto power = csv.number(kIdle, 0.0, kHighestPowerW);
    if (!power) return std::unexpected(power.error());
    line.idle = to_milliwatts(Watts(*power));
    return line;
  }
  const auto time = plane_of(csv, kTime, kMicro, 1.0);
  if (!time) return std::unexpected(time.error());
  line.time = *time;
  if (!csv.field(kEnergy).empty()) {
    const auto energy = plane_of(csv, kEnergy, kMilli, kMicro);
    if (!energy) return std::unexpected(energy.error());
    line.energy = *energy;
  }
  if (with_pairs) {
    if (const auto pairs = read_pairs(csv, line); !pairs) return std::unexpected(pairs.error());
  }
  return line;
}

/// Assembles coefficients line by line; every clock must have the lines of the first.
class Assembly {
 public:
  Result<void> add(const Line& line, const CsvReader& csv) {
    auto& clocks = time_.clocks;
    if (line.host) {
      const bool prompts = line.phase == StepKind::Prefill;
      if (std::exchange(prompts ? has_prompt_host_ : has_host_, true) || !clocks.empty()) {
        return csv.bad_field(kPhase, "one such row at most, before all others");
      }
      (prompts ? time_.prompt_host : time_.host) = {line.time.ns_per_request, line.time.ns};
      return {};
    }
    if (clocks.empty() || line.clock > clocks.back().clock) {
      if (auto ok = close_clock(csv); !ok) return ok;
      clocks.push_back({line.clock, {}, {}});
      energy_.clocks.push_back({line.clock, {}, {}});
      at_ = 0;
    } else if (line.clock < clocks.back().clock) {
      return csv.bad_field(kClock, fmt::format("clocks must ascend and the row before has {}; sort the rows by it",
                                               clocks.back().clock.value()));
    }
    if (clocks.size() == 1) {
      if (auto ok = extend_layout(line, csv); !ok) return ok;
    } else if (at_ >= layout_.size() || layout_[at_].phase != line.phase || layout_[at_].from != line.from ||
               layout_[at_].to != line.to || layout_[at_].kv_to != line.kv_to ||
               layout_[at_].energy.has_value() != line.energy.has_value()) {
      return csv.bad_field(kPhase, fmt::format("every clock must have the same phases, ranges and tiles, with or "
                                               "without energy, in the same order as {} MHz",
                                               clocks.front().clock.value()));
    }
    ++at_;
    if (line.phase == StepKind::Idle) idle_.push_back(*line.idle);
    if (line.phase == StepKind::Prefill) {
      clocks.back().prefill_ranges.push_back(prefill_plane(line.time, line.time_per_pair));
    }
    if (line.phase == StepKind::Decode) clocks.back().decode.push_back(line.time);
    if (!line.energy) return {};
    auto& energy = energy_.clocks.back();
    if (line.phase == StepKind::Prefill) {
      energy.prefill_ranges.push_back(prefill_plane(*line.energy, line.energy_per_pair));
    }
    if (line.phase == StepKind::Decode) energy.decode.push_back(*line.energy);
    return {};
  }

  Result<LinearBelief> finish(const CsvReader& csv, const std::string& file) {
    if (time_.clocks.empty()) return bad_input(file, "has a header and no rows; a belief needs at least one clock");
    if (auto ok = close_clock(csv); !ok) return std::unexpected(ok.error());
    const bool measured = std::ranges::any_of(layout_, [](const Line& l) { return l.phase != StepKind::Idle; });
    if (!measured) return bad_input(file, "has no prefill and no decode row; there is nothing to believe");
    bool powered = !idle_.empty();
    for (const Line& line : layout_) powered = powered && (line.phase == StepKind::Idle || line.energy);
    LinearBelief belief;
    settle(time_.clocks);
    belief.time = time_;
    if (!powered) return belief;
    for (auto& clock : energy_.clocks) {
      if (clock.decode.empty()) clock.decode.emplace_back();
    }
    belief.power.energy = time_;
    belief.power.energy.host = belief.power.energy.prompt_host = {};
    belief.power.energy.clocks = energy_.clocks;
    belief.power.idle = idle_;
    return belief;
  }

 private:
  /// A phase never measured predicts 0; a single range by tokens alone is the published line.
  static void settle(std::vector<ClockCoefficients>& clocks) {
    const bool by_tokens = std::ranges::all_of(clocks, [](const ClockCoefficients& clock) {
      const auto& ranges = clock.prefill_ranges;
      return ranges.size() == 1 && ranges.front().ns_per_pair == 0.0 && ranges.front().ns_per_prompt == 0.0;
    });
    for (ClockCoefficients& clock : clocks) {
      if (clock.decode.empty()) clock.decode.emplace_back();
      if (!by_tokens) continue;
      clock.prefill = {clock.prefill_ranges.front().ns_per_token, clock.prefill_ranges.front().ns};
      clock.prefill_ranges.clear();
    }
  }
  Result<void> extend_layout(const Line& line, const CsvReader& csv) {
    for (const Line& earlier : layout_) {
      if (earlier.phase != line.phase) continue;
      if (line.phase == StepKind::Idle) return csv.bad_field(kPhase, "this clock has such a row already; keep one");
      if (line.phase == StepKind::Prefill && layout_.back().phase != StepKind::Prefill) {
        return csv.bad_field(kPhase, "prefill rows of a clock follow each other");
      }
      if (line.kv_to != earlier.kv_to) return csv.bad_field(kKvTo, "all decode rows must have the same");
    }
    const bool first = layout_.empty() || layout_.back().phase != StepKind::Decode;
    if (line.phase != StepKind::Decode && !first) {
      return csv.bad_field(kPhase, "decode rows come last of a clock, after idle and prefill");
    }
    if (line.phase == StepKind::Prefill) {
      if (layout_.empty() || layout_.back().phase != StepKind::Prefill) {
        time_.prefill_tokens_min = line.from;
      } else if (line.from != layout_.back().to + 1) {
        return csv.bad_field(kFrom, fmt::format("ranges follow each other without a gap: {}", layout_.back().to + 1));
      } else {
        time_.prefill_ends.push_back(layout_.back().to);
      }
      time_.prefill_tokens_max = line.to;
    } else if (line.phase == StepKind::Decode) {
      if (first) {
        time_.decode_requests_min = static_cast<std::int32_t>(line.from);
      } else if (line.from != layout_.back().to + 1) {
        return csv.bad_field(kFrom, fmt::format("tiles follow each other without a gap: {}", layout_.back().to + 1));
      } else {
        time_.tile_ends.push_back(static_cast<std::int32_t>(layout_.back().to));
      }
      time_.decode_requests_max = static_cast<std::int32_t>(line.to);
      time_.decode_kv_tokens_max = line.kv_to;
    }
    layout_.push_back(line);
    return {};
  }
  Result<void> close_clock(const CsvReader& csv) {
    if (at_ == layout_.size()) return {};
    return bad_input(csv.where(), fmt::format("{} MHz has {} rows and {} MHz has {}; every clock needs the same",
                                              time_.clocks.back().clock.value(), at_,
                                              time_.clocks.front().clock.value(), layout_.size()));
  }

  LinearCoefficients time_;
  LinearCoefficients energy_;
  std::vector<Milliwatts> idle_;
  std::vector<Line> layout_;  ///< of the first clock
  std::size_t at_ = 0;        ///< rows of the present clock
  bool has_host_ = false;
  bool has_prompt_host_ = false;
};

PrefillPlane prompt_plane(const ClockCoefficients& clock, std::size_t range) {
  if (clock.prefill_ranges.empty()) return {clock.prefill.ns_per_token, 0.0, clock.prefill.ns};
  return clock.prefill_ranges[range];
}

/// As a row has it: the token column holds prompt tokens.
DecodePlane row_of(const PrefillPlane& plane) { return {plane.ns_per_prompt, plane.ns_per_token, plane.ns}; }

std::string plane_text(const DecodePlane& p, double constant_unit, double token_unit) {
  return fmt::format("{:.9g},{:.9g},{:.9g}", p.ns / constant_unit, p.ns_per_request / constant_unit,
                     p.ns_per_kv_token / token_unit);
}

}  // namespace

Result<LinearBelief> parse_belief(std::string_view text, const std::string& file) {
  Provenance split = split_provenance(text);
  auto csv = CsvReader::open(split.rest, file, std::span(kColumns).first(kWithoutPairs));
  if (!csv) return std::unexpected(csv.error());
  const bool with_pairs = std::ranges::find(csv->header(), kColumns[kTimePerPair]) != csv->header().end();
  if (with_pairs) csv = CsvReader::open(split.rest, file, kColumns);
  if (!csv) return std::unexpected(csv.error());
  Assembly assembly;
  while (true) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto line = line_of(*csv, with_pairs);
    if (!line) return std::unexpected(line.error());
    if (auto ok = assembly.add(*line, *csv); !ok) return std::unexpected(ok.error());
  }
  auto belief = assembly.finish(*csv, file);
  if (belief) belief->provenance = std::move(split.lines);
  return belief;
}

std::string to_csv(const LinearBelief& belief) {
  const LinearCoefficients& c = belief.time;
  const auto& energy = belief.power.energy.clocks;
  std::string text = provenance_text(belief.provenance);
  text += fmt::format("{}\n", fmt::join(kColumns, ","));
  const auto host_row = [&](const char* phase, std::int32_t from, std::int32_t to, const HostLine& host) {
    if (host.ns <= 0.0 && host.ns_per_request <= 0.0) return;
    text += fmt::format("{},0,{},{},0,{},,,,,,\n", phase, from, to,
                        plane_text({host.ns_per_request, 0.0, host.ns}, kMicro, 1.0));
  };
  host_row("host", c.decode_requests_min, c.decode_requests_max, c.host);
  host_row("prefill-host", 0, 0, c.prompt_host);
  for (std::size_t i = 0; i < c.clocks.size(); ++i) {
    const auto& clock = c.clocks[i];
    const auto row = [&](const char* phase, std::int64_t from, std::int64_t to, std::int64_t kv_to,
                         const DecodePlane& time, const DecodePlane* drawn, const std::string& pairs) {
      text += fmt::format("{},{},{},{},{},{},{},,{}\n", phase, clock.clock.value(), from, to, kv_to,
                          plane_text(time, kMicro, 1.0),
                          drawn != nullptr ? plane_text(*drawn, kMilli, kMicro) : std::string(",,"), pairs);
    };
    if (!energy.empty()) {
      text +=
          fmt::format("idle,{},0,0,0,0,0,0,,,,{:.3f},,\n", clock.clock.value(), to_watts(belief.power.idle[i]).value());
    }
    for (std::size_t r = 0; c.prefill_tokens_max > 0 && r <= c.prefill_ends.size(); ++r) {
      const PrefillPlane time = prompt_plane(clock, r);
      std::string pairs = fmt::format("{:.9g},", time.ns_per_pair);
      DecodePlane drawn;
      if (!energy.empty()) {
        const PrefillPlane plane = prompt_plane(energy[i], r);
        drawn = row_of(plane);
        pairs += fmt::format("{:.9g}", plane.ns_per_pair / kMicro);
      }
      row("prefill", r == 0 ? c.prefill_tokens_min : c.prefill_ends[r - 1] + 1,
          r < c.prefill_ends.size() ? c.prefill_ends[r] : c.prefill_tokens_max, 0, row_of(time),
          energy.empty() ? nullptr : &drawn, pairs);
    }
    if (c.decode_requests_max == 0) continue;
    std::int64_t from = c.decode_requests_min;
    for (std::size_t t = 0; t < clock.decode.size(); ++t) {
      const std::int64_t to = t < c.tile_ends.size() ? c.tile_ends[t] : c.decode_requests_max;
      row("decode", from, to, c.decode_kv_tokens_max, clock.decode[t], energy.empty() ? nullptr : &energy[i].decode[t],
          ",");
      from = to + 1;
    }
  }
  return text;
}

}  // namespace wattle::predict
