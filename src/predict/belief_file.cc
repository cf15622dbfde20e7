#include "predict/belief_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

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
  kIdle
};
constexpr std::array<std::string_view, 12> kColumns = {"phase",
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
                                                       "idle_w"};

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
  DecodePlane time;                   ///< prefill: ns_per_kv_token is per prompt token
  std::optional<DecodePlane> energy;  ///< nJ where `time` has ns
  std::optional<Milliwatts> idle;
};

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

Result<Line> line_of(const CsvReader& csv) {
  Line line;
  const std::string_view phase = csv.field(kPhase);
  line.host = phase == "host" || phase == "prefill-host";
  if (phase == "prefill-host") line.phase = StepKind::Prefill;
  if (line.host) return host_line_of(csv, line);
  if (phase == "idle") {
    line.phase = StepKind::Idle;
  } else if (phase == "prefill") {
    line.phase = StepKind::Prefill;
  } else if (phase != "decode") {
    return csv.bad_field(kPhase, "it must be host, prefill-host, idle, prefill or decode");
  }
  const bool idle = line.phase == StepKind::Idle;
  const auto clock = csv.whole(kClock, 10, 10'000);
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
    const auto power = csv.number(kIdle, 0.0, 100'000.0);
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
  if (line.phase == StepKind::Prefill && line.time.ns_per_request != 0.0) {
    return csv.bad_field(kTimePerRequest, "a prefill's time goes by tokens; it must be 0");
  }
  if (line.phase == StepKind::Prefill && line.energy && line.energy->ns_per_request != 0.0) {
    return csv.bad_field(kEnergyPerRequest, "a prefill's energy goes by tokens; it must be 0");
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
      clocks.back().prefill_ranges.push_back({line.time.ns_per_kv_token, 0.0, line.time.ns});
    }
    if (line.phase == StepKind::Decode) clocks.back().decode.push_back(line.time);
    if (!line.energy) return {};
    auto& energy = energy_.clocks.back();
    if (line.phase == StepKind::Prefill) {
      energy.prefill_ranges.push_back({line.energy->ns_per_kv_token, 0.0, line.energy->ns});
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
    for (auto& clock : time_.clocks) settle(clock);
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
  /// A phase never measured predicts 0; a single range is the published line.
  static void settle(ClockCoefficients& clock) {
    if (clock.decode.empty()) clock.decode.emplace_back();
    if (clock.prefill_ranges.size() != 1) return;
    clock.prefill = {clock.prefill_ranges.front().ns_per_token, clock.prefill_ranges.front().ns};
    clock.prefill_ranges.clear();
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

StepSample sample_of(const ProfileRow& row, Span duration) {
  StepShape shape;
  if (row.phase == StepKind::Prefill) {
    shape.prefill_requests = row.requests;
    shape.prefill_tokens = row.prompt_tokens;
    shape.prefill_context_tokens = row.prompt_tokens * (row.prompt_tokens / row.requests) / 2;  // prompts alike
  } else {
    shape.decode_requests = row.requests;
    shape.decode_kv_tokens = row.kv_tokens;
  }
  return {row.clock, shape, duration};
}

/// The form of prompts in the file: EcoPred's one line, or a line in each range of N_tok.
LinearFitOptions prefill_form(std::vector<std::int64_t> ends) {
  LinearFitOptions options;
  options.published_prefill = ends.empty();
  options.prefill_pairs = false;
  options.find_host = true;
  options.prefill_ends = std::move(ends);
  return options;
}

/// How far a fit is from the prompts it was made of: mean square of the relative error.
double prompt_error(const LinearLatency& model, std::span<const StepSample> samples) {
  double sum = 0.0;
  std::int64_t count = 0;
  for (const StepSample& s : samples) {
    if (s.shape.prefill_tokens == 0 || s.duration <= Span()) continue;
    const double error = model.step_time(s.shape, s.clock).seconds() / s.duration.seconds() - 1.0;
    sum += error * error;
    ++count;
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

// Three lengths a range at least, so that each line is checked by a point; a second line only where one misses the
// prompts by this much (root mean square) and two miss them by at most half of it.
constexpr std::ptrdiff_t kLengthsPerRange = 3;
constexpr double kLineIsGood = 0.02;

/// One line for all prompts misses the short ones where the long ones' compute sets its slope: the border of two
/// ranges, or none.
Result<LinearFit> fit_times(std::span<const StepSample> samples) {
  auto best = fit_linear(samples, prefill_form({}));
  if (!best) return best;
  std::set<std::int64_t> lengths;
  for (const StepSample& s : samples) {
    if (s.shape.prefill_tokens > 0) lengths.insert(s.shape.prefill_tokens);
  }
  double least = prompt_error(best->model, samples);
  if (std::ssize(lengths) < 2 * kLengthsPerRange || least <= kLineIsGood * kLineIsGood) return best;
  least /= 4.0;
  auto end = std::next(lengths.begin(), kLengthsPerRange - 1);
  for (auto last = std::prev(lengths.end(), kLengthsPerRange); end != last; ++end) {
    auto split = fit_linear(samples, prefill_form({*end}));
    if (!split) return split;
    const double error = prompt_error(split->model, samples);
    if (error > least) continue;
    least = error;
    best = std::move(split);
  }
  return best;
}

/// Energy per step, where power was measured for all that time was measured for.
Result<PowerCoefficients> fit_power(const StepProfile& profile, const LinearCoefficients& time) {
  struct Seen {
    bool idle = false, timed[3] = {}, powered[3] = {};
  };
  std::map<MegaHertz, Seen> seen;
  std::map<MegaHertz, Milliwatts> idle;
  std::vector<StepSample> energies;
  for (const ProfileRow& row : profile.rows) {
    Seen& at = seen[row.clock];
    if (row.phase == StepKind::Idle) {
      at.idle = true;
      idle[row.clock] = *row.power;
      continue;
    }
    const auto phase = static_cast<std::size_t>(row.phase);
    at.timed[phase] = true;
    if (!row.power) continue;
    at.powered[phase] = true;
    const Int128 nanojoules = Int128{row.power->value()} * row.step.ns() / 1000;
    energies.push_back(sample_of(row, Span(static_cast<std::int64_t>(nanojoules))));
  }
  for (const auto& [clock, at] : seen) {
    if (!at.idle || !std::ranges::equal(at.timed, at.powered)) return PowerCoefficients{};
  }
  LinearFitOptions form = prefill_form(time.prefill_ends);
  form.tile_ends = time.tile_ends;
  form.find_tiles = false;
  form.find_host = false;
  auto fit = fit_linear(energies, form);
  if (!fit) return std::unexpected(fit.error());
  PowerCoefficients power{fit->model.coefficients(), {}};
  for (const auto& clock : power.energy.clocks) power.idle.push_back(idle.at(clock.clock));
  return power;
}

/// A range of prompts as a row has it: the token column holds prompt tokens.
DecodePlane prompt_plane(const ClockCoefficients& clock, std::size_t range) {
  if (clock.prefill_ranges.empty()) return {0.0, clock.prefill.ns_per_token, clock.prefill.ns};
  return {0.0, clock.prefill_ranges[range].ns_per_token, clock.prefill_ranges[range].ns};
}

std::string plane_text(const DecodePlane& p, double constant_unit, double token_unit) {
  return fmt::format("{:.9g},{:.9g},{:.9g}", p.ns / constant_unit, p.ns_per_request / constant_unit,
                     p.ns_per_kv_token / token_unit);
}

}  // namespace

Result<BeliefFit> fit_belief(const StepProfile& profile) {
  BeliefFit fit;
  std::vector<StepSample> times;
  for (const ProfileRow& row : profile.rows) {
    if (row.phase == StepKind::Idle) continue;
    times.push_back(sample_of(row, row.step));
    if (row.reached && *row.reached < row.clock) ++fit.clipped;
  }
  auto time = fit_times(times);
  if (!time) return std::unexpected(time.error());
  fit.prefill = time->prefill;
  fit.decode = time->decode;
  fit.belief.time = time->model.coefficients();
  fit.belief.provenance = profile.provenance;
  auto power = fit_power(profile, fit.belief.time);
  if (!power) return std::unexpected(power.error());
  fit.belief.power = std::move(*power);
  return fit;
}

Result<LinearBelief> parse_belief(std::string_view text, const std::string& file) {
  Provenance split = split_provenance(text);
  auto csv = CsvReader::open(split.rest, file, kColumns);
  if (!csv) return std::unexpected(csv.error());
  Assembly assembly;
  while (true) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto line = line_of(*csv);
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
    text += fmt::format("{},0,{},{},0,{},,,,\n", phase, from, to,
                        plane_text({host.ns_per_request, 0.0, host.ns}, kMicro, 1.0));
  };
  host_row("host", c.decode_requests_min, c.decode_requests_max, c.host);
  host_row("prefill-host", 0, 0, c.prompt_host);
  for (std::size_t i = 0; i < c.clocks.size(); ++i) {
    const auto& clock = c.clocks[i];
    const auto row = [&](const char* phase, std::int64_t from, std::int64_t to, std::int64_t kv_to,
                         const DecodePlane& time, const DecodePlane* drawn) {
      text += fmt::format("{},{},{},{},{},{},{},\n", phase, clock.clock.value(), from, to, kv_to,
                          plane_text(time, kMicro, 1.0),
                          drawn != nullptr ? plane_text(*drawn, kMilli, kMicro) : std::string(",,"));
    };
    if (!energy.empty()) {
      text +=
          fmt::format("idle,{},0,0,0,0,0,0,,,,{:.3f}\n", clock.clock.value(), to_watts(belief.power.idle[i]).value());
    }
    for (std::size_t r = 0; c.prefill_tokens_max > 0 && r <= c.prefill_ends.size(); ++r) {
      const DecodePlane time = prompt_plane(clock, r);
      DecodePlane drawn;
      if (!energy.empty()) drawn = prompt_plane(energy[i], r);
      row("prefill", r == 0 ? c.prefill_tokens_min : c.prefill_ends[r - 1] + 1,
          r < c.prefill_ends.size() ? c.prefill_ends[r] : c.prefill_tokens_max, 0, time,
          energy.empty() ? nullptr : &drawn);
    }
    if (c.decode_requests_max == 0) continue;
    std::int64_t from = c.decode_requests_min;
    for (std::size_t t = 0; t < clock.decode.size(); ++t) {
      const std::int64_t to = t < c.tile_ends.size() ? c.tile_ends[t] : c.decode_requests_max;
      row("decode", from, to, c.decode_kv_tokens_max, clock.decode[t], energy.empty() ? nullptr : &energy[i].decode[t]);
      from = to + 1;
    }
  }
  return text;
}

}  // namespace wattle::predict
