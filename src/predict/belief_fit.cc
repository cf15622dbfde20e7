#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "predict/belief_file.h"

namespace wattle::predict {

namespace {

StepSample sample_of(const ProfileRow& row, Span duration) {
  StepShape shape;
  if (row.phase == StepKind::Prefill) {
    shape.prefill_requests = row.requests;
    shape.prefill_tokens = row.prompt_tokens;
    const std::int64_t each = row.prompt_tokens / row.requests;  // prompts alike
    shape.prefill_context_tokens = row.prompt_tokens * (row.kv_tokens / row.requests) + row.prompt_tokens * each / 2;
  } else {
    shape.decode_requests = row.requests;
    shape.decode_kv_tokens = row.kv_tokens;
  }
  return {row.clock, shape, duration};
}

/// The form of prompts in the file: EcoPred's one line, or a line in each range of N_tok; with terms for the prompts'
/// attention and number where the profile has contexts, which tell attention from what a token costs anyway.
LinearFitOptions prefill_form(std::vector<std::int64_t> ends, bool pairs) {
  LinearFitOptions options;
  options.published_prefill = ends.empty() && !pairs;
  options.prefill_pairs = pairs;
  options.find_host = true;
  options.prefill_ends = std::move(ends);
  options.find_ranges = false;
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
Result<LinearFit> fit_times(std::span<const StepSample> samples, bool pairs) {
  auto best = fit_linear(samples, prefill_form({}, pairs));
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
    auto split = fit_linear(samples, prefill_form({*end}, pairs));
    if (!split) return split;
    const double error = prompt_error(split->model, samples);
    if (error > least) continue;
    least = error;
    best = std::move(split);
  }
  return best;
}

/// Energy per step, where power was measured for all that time was measured for.
Result<PowerCoefficients> fit_power(const StepProfile& profile, const LinearCoefficients& time, bool pairs) {
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
  LinearFitOptions form = prefill_form(time.prefill_ends, pairs);
  form.tile_ends = time.tile_ends;
  form.find_tiles = false;
  form.find_host = false;
  auto fit = fit_linear(energies, form);
  if (!fit) return std::unexpected(fit.error());
  PowerCoefficients power{fit->model.coefficients(), {}};
  for (const auto& clock : power.energy.clocks) power.idle.push_back(idle.at(clock.clock));
  return power;
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
  // A context longer than the prompts behind it: less than that, such as a chat template, does not show attention.
  const bool pairs = std::ranges::any_of(profile.rows, [](const ProfileRow& row) {
    return row.phase == StepKind::Prefill && row.kv_tokens > row.prompt_tokens;
  });
  auto time = fit_times(times, pairs);
  if (!time) return std::unexpected(time.error());
  fit.prefill = time->prefill;
  fit.decode = time->decode;
  fit.belief.time = time->model.coefficients();
  fit.belief.provenance = profile.provenance;
  auto power = fit_power(profile, fit.belief.time, pairs);
  if (!power) return std::unexpected(power.error());
  fit.belief.power = std::move(*power);
  return fit;
}

}  // namespace wattle::predict
