#include "engine/step_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "engine/hardware_profile.h"
#include "engine/operations.h"
#include "engine/power.h"
#include "engine/shape_check.h"

namespace wattle::engine {
namespace {

constexpr std::int64_t kExactTokens = 1024;   // below: one entry per token, so that staircases are exact
constexpr std::int64_t kTokenStride = 64;     // above: interpolated
constexpr std::int64_t kTableTokens = 16384;  // beyond: the last segment's slope
constexpr std::int64_t kBuckets = 64;         // KV ranges of constant power per batch size

double fixed_point_scale() { return 1e9 * static_cast<double>(std::int64_t{1} << kTimeFractionBits); }

std::int64_t to_fixed(double seconds) { return std::llround(seconds * fixed_point_scale()); }

/// Work as a function of a token count: exact entries, then a coarse grid. Each entry is computed when first used,
/// because a run needs only few.
class WorkCurve {
 public:
  using Of = Work (Operations::*)(std::int64_t) const;
  WorkCurve(const Operations& operations, Of of)
      : operations_(operations),
        of_(of),
        exact_(kExactTokens + 1, kUnknown),
        coarse_((kTableTokens - kExactTokens) / kTokenStride + 1, kUnknown) {
    exact_.front() = Work{};
  }
  [[nodiscard]] Work at(std::int64_t tokens) const {
    if (tokens <= kExactTokens) return entry(exact_[static_cast<std::size_t>(tokens)], tokens);
    const std::int64_t segment =
        std::min<std::int64_t>((tokens - kExactTokens) / kTokenStride, static_cast<std::int64_t>(coarse_.size()) - 2);
    const std::int64_t from = kExactTokens + segment * kTokenStride;
    const Work& a = entry(coarse_[static_cast<std::size_t>(segment)], from);
    const Work& b = entry(coarse_[static_cast<std::size_t>(segment) + 1], from + kTokenStride);
    const double w = static_cast<double>(tokens - from) / kTokenStride;
    return {a.seconds + w * (b.seconds - a.seconds), a.flops + w * (b.flops - a.flops),
            a.bytes + w * (b.bytes - a.bytes), a.busy + w * (b.busy - a.busy)};
  }

 private:
  static constexpr Work kUnknown{-1.0, 0.0, 0.0, 0.0};
  [[nodiscard]] const Work& entry(Work& at, std::int64_t tokens) const {
    if (at.seconds < 0.0) at = (operations_.*of_)(tokens);
    return at;
  }

  const Operations& operations_;
  Of of_;
  mutable std::vector<Work> exact_;
  mutable std::vector<Work> coarse_;
};

/// Everything that depends on the clock alone. Stays where it is: its curves refer to its operations.
struct ClockTable {
  ClockTable(const Operations& of, const HardwareProfile& profile, double x)
      : operations(of),
        power(profile, x),
        dense(operations, &Operations::dense),
        routed(operations, &Operations::routed),
        head(operations, &Operations::head),
        sampling(operations.sampling()),
        per_request(operations.decode_attention_per_request()),
        per_kv_token(operations.decode_attention_per_kv_token()),
        per_pair(operations.prefill_attention_per_pair()),
        per_prompt_token(operations.prefill_attention_per_token()),
        attention_ramp(operations.attention_ramp()) {}
  ClockTable(const ClockTable&) = delete;
  ClockTable& operator=(const ClockTable&) = delete;

  Operations operations;
  PowerAtClock power;
  WorkCurve dense;
  WorkCurve routed;
  WorkCurve head;
  Work sampling;
  Work per_request;
  Work per_kv_token;
  Work per_pair;
  Work per_prompt_token;
  Work attention_ramp;
  std::vector<std::vector<DecodeLine>> decode_rows;  // by batch size, up to the largest number of KV tokens used so far
};

/// A step at one clock, before clipping.
struct Draft {
  Work work;
  double gap_s = 0.0;
  [[nodiscard]] double seconds() const { return work.seconds + gap_s; }
};

/// A clock between two entries of the table: `below` + weight x step. weight 0 unless TDP clips.
struct Operating {
  std::size_t below = 0;
  double weight = 0.0;
  double watts = 0.0;    ///< per GPU
  double stretch = 1.0;  ///< above 1 only if even the lowest clock exceeds TDP
  double seconds = 0.0;  ///< of the step
};

}  // namespace

struct StepModel::Impl {
  GpuSpec gpu;
  LlmSpec llm;
  Parallelism parallel;
  HardwareProfile profile;
  double limit_w = 0.0;  ///< per GPU, where it lowers its clock
  double prompt_gap_s = 0.0;
  double decode_gap_s = 0.0;
  std::int32_t expert_row_block = 1;
  double launches_s = 0.0;  ///< FrameworkTimes::experts and latent_attention, all layers, and prompt_step_gap
  std::int32_t drafts = 0;  ///< of each decoding request (EngineOptions::speculative_tokens)
  double draft_share = 0.0;
  bool overlapped = false;  ///< the CPU's time hides behind the GPU's
  std::int64_t blocks = 0;
  std::int64_t bucket_tokens = 1;
  std::vector<std::int32_t> graph_sizes;
  std::vector<double> tails;  // of decode attention, by batch size; no clock in it
  mutable std::vector<std::unique_ptr<ClockTable>> tables;
  mutable AskedRange asked;
  mutable std::size_t hint = 0;  // where the last clipped step settled; speeds the search, never changes its result

  [[nodiscard]] double clock_at(std::size_t index) const {
    return gpu.clock_min.value() + static_cast<double>(index) * gpu.clock_step.value();
  }
  /// Locks are ceilings: a clock between two steps behaves as the lower one.
  [[nodiscard]] std::size_t index_of(MegaHertz clock) const {
    const std::int32_t above = (clock.value() - gpu.clock_min.value()) / gpu.clock_step.value();
    return static_cast<std::size_t>(std::clamp<std::int32_t>(above, 0, static_cast<std::int32_t>(tables.size()) - 1));
  }
  [[nodiscard]] ClockTable& table(std::size_t index) const {
    auto& slot = tables[index];
    if (!slot) {
      const Operations operations(gpu, llm, parallel, profile, clock_at(index), expert_row_block);
      slot = std::make_unique<ClockTable>(operations, profile, clock_at(index) / gpu.clock_max.value());
    }
    return *slot;
  }
  /// Reading one token's KV in a batch of this size.
  [[nodiscard]] Work kv_reading(const ClockTable& at, std::int64_t requests) const {
    const auto last = static_cast<std::int64_t>(tails.size()) - 1;
    Work work = at.per_kv_token;
    work.seconds *= tails[static_cast<std::size_t>(std::min(requests, last))];
    return work;
  }
  /// Rows that a step of decodes alone computes: those of the captured graph it runs in.
  [[nodiscard]] std::int64_t decode_rows_of(std::int64_t requests) const {
    const auto graph = std::ranges::lower_bound(graph_sizes, requests);
    return graph == graph_sizes.end() ? requests : *graph;
  }
  /// Mean number of tokens whose KV the layers read, of `tokens` in so many contexts (decode), or of pairs within the
  /// window (prefill).
  [[nodiscard]] double seen(std::int64_t tokens, std::int64_t contexts) const {
    const auto all = static_cast<double>(tokens);
    if (llm.windowed_layers == 0) return all;
    const double windowed = std::min(all, static_cast<double>(contexts) * llm.sliding_window);
    return all + (windowed - all) * llm.windowed_layers / llm.layers;
  }
  /// KV is read once for all tokens that a request verifies, each of which is multiplied with it.
  [[nodiscard]] Work attention_of(const ClockTable& at, const StepShape& shape, std::int32_t tokens_each) const {
    Work reading = kv_reading(at, shape.decode_requests) * seen(shape.decode_kv_tokens, shape.decode_requests);
    reading.flops *= tokens_each;
    return decode_attention(at.per_request * static_cast<double>(shape.decode_requests), reading);
  }
  /// One token after the other, for the whole batch at once.
  [[nodiscard]] Work drafting(const ClockTable& at, const StepShape& shape) const {
    const std::int64_t rows = decode_rows_of(shape.decode_requests);
    const Work step = at.dense.at(rows) + at.head.at(rows) + at.attention_ramp + attention_of(at, shape, 1);
    return step * (drafts * draft_share);
  }
  /// All layers of the tokens that one data group takes at once.
  [[nodiscard]] Work whole(const ClockTable& at, const StepShape& shape) const {
    const std::int64_t verified = std::int64_t{shape.decode_requests} * (1 + drafts);
    const std::int64_t decodes = shape.prefill_tokens > 0 ? verified : decode_rows_of(verified);
    Work work = at.dense.at(decodes + shape.prefill_tokens);
    work += at.head.at(decodes + shape.prefill_requests);
    if (shape.decode_requests > 0) {
      work += at.attention_ramp;
      work += attention_of(at, shape, 1 + drafts);
      if (draft_share > 0.0) work += drafting(at, shape);
    }
    if (shape.prefill_tokens > 0) {
      work += at.attention_ramp;
      work += at.per_pair * seen(shape.prefill_context_tokens, shape.prefill_tokens);
      work += at.per_prompt_token * static_cast<double>(shape.prefill_tokens);
    }
    const double tokens = static_cast<double>(verified) + shape.prefill_requests;
    work += at.sampling * tokens;
    work += Work{profile.request_gap_s * tokens, 0.0, 0.0, profile.request_gap_s * tokens};
    return work;
  }
  /// The same for data-parallel groups and pipeline stages. Requests are distributed evenly; all groups take as long as
  /// the fullest, because the others are padded. The pipeline holds as many batches as there are requests for. A round
  /// takes as long as one batch through all stages, or as all batches through the last stage, which has the LM head.
  /// Idle stages are the bubble.
  [[nodiscard]] Work divided(const ClockTable& at, const StepShape& shape) const {
    const std::int32_t prompts = std::max(shape.prefill_requests, shape.prefill_tokens > 0 ? 1 : 0);
    const std::int32_t stages = parallel.pipeline;
    const std::int32_t batches = std::clamp((shape.decode_requests + prompts) / parallel.data, 1, stages);
    const std::int32_t parts = batches * parallel.data;
    const auto part_of = [&](std::int64_t amount, std::int32_t count) -> std::int64_t {
      if (count == 0) return 0;
      const std::int32_t fullest = (count + parts - 1) / parts;
      return (amount * fullest + count - 1) / count;
    };
    StepShape part;
    part.decode_requests = static_cast<std::int32_t>(part_of(shape.decode_requests, shape.decode_requests));
    part.decode_kv_tokens = part_of(shape.decode_kv_tokens, shape.decode_requests);
    part.prefill_requests = static_cast<std::int32_t>(part_of(shape.prefill_requests, prompts));
    part.prefill_tokens = part_of(shape.prefill_tokens, prompts);
    part.prefill_context_tokens = part_of(shape.prefill_context_tokens, prompts);
    Work work = whole(at, part);
    if (parallel.data > 1) {
      work += at.routed.at((shape.decode_requests + shape.prefill_tokens + batches - 1) / batches);
    }
    if (stages == 1) return work;
    const std::int64_t verified = std::int64_t{part.decode_requests} * (1 + drafts);
    const std::int64_t rows = verified + part.prefill_tokens;
    const std::int64_t emitting = verified + part.prefill_requests;
    const double last =
        at.head.at(emitting).seconds + (at.sampling.seconds + profile.request_gap_s) * static_cast<double>(emitting);
    const std::int32_t most_layers = (llm.layers + stages - 1) / stages;
    const double stage = (work.seconds - last) * most_layers / llm.layers;
    const double through = work.seconds + (stages - 1) * at.operations.stage_send(rows).seconds;
    work = work * (static_cast<double>(batches) / stages);
    work.seconds = std::max(through, batches * (stage + last));
    return work;
  }
  [[nodiscard]] Draft draft(const ClockTable& at, const StepShape& shape) const {
    const Work work = parallel.data * parallel.pipeline > 1 ? divided(at, shape) : whole(at, shape);
    const double cpu = profile.step_gap_s + prompt_gap_s * shape.prefill_requests +
                       decode_gap_s * shape.decode_requests + (shape.prefill_tokens > 0 ? launches_s : 0.0);
    return {work, overlapped ? std::max(0.0, cpu - work.seconds) : cpu};
  }
  /// A step as it is at one clock: unclipped.
  struct AtClock {
    double watts = 0.0;  ///< per GPU
    double seconds = 0.0;
  };
  [[nodiscard]] AtClock at(std::size_t index, const StepShape& shape) const {
    const ClockTable& t = table(index);
    const Draft d = draft(t, shape);
    return {t.power.step_w(d.work, d.gap_s), d.seconds()};
  }
  /// Where power reaches the limit, between two clocks that follow each other.
  [[nodiscard]] Operating between(std::size_t below, const AtClock& low, const AtClock& high) const {
    const double weight = (limit_w - low.watts) / (high.watts - low.watts);
    return {below, weight, limit_w, 1.0, low.seconds + weight * (high.seconds - low.seconds)};
  }
  /// The highest clock up to the lock at which this step stays within TDP.
  [[nodiscard]] Operating operate(std::size_t locked, const StepShape& shape) const {
    const AtClock top = at(locked, shape);
    if (top.watts <= limit_w) return {locked, 0.0, top.watts, 1.0, top.seconds};
    // Steps that follow each other settle at about the same clock; power rises with the clock, so any bracket will do.
    if (hint + 1 <= locked) {
      const AtClock low = at(hint, shape);
      const AtClock high = hint + 1 == locked ? top : at(hint + 1, shape);
      if (low.watts <= limit_w && high.watts > limit_w) return between(hint, low, high);
    }
    AtClock low = at(0, shape);
    AtClock high = top;
    if (low.watts > limit_w) {
      const double stretch = low.watts / limit_w;
      return {0, 0.0, limit_w, stretch, low.seconds * stretch};
    }
    std::size_t below = 0;
    std::size_t above = locked;
    while (above - below > 1) {
      const std::size_t middle = below + (above - below) / 2;
      const AtClock there = at(middle, shape);
      const bool within = there.watts <= limit_w;
      (within ? below : above) = middle;
      (within ? low : high) = there;
    }
    hint = below;
    return between(below, low, high);
  }
  [[nodiscard]] MegaHertz effective(const Operating& o) const {
    return MegaHertz(static_cast<std::int32_t>(clock_at(o.below) + o.weight * gpu.clock_step.value()));
  }
  [[nodiscard]] Milliwatts instance_power(double gpu_watts) const {
    return to_milliwatts(Watts(gpu_watts * parallel.gpus()));
  }

  /// f(table) at an operating point, interpolated between the two clocks around the clipped one.
  template <typename F>
  [[nodiscard]] double blend(const Operating& o, F value) const {
    const double low = value(table(o.below));
    if (o.weight == 0.0) return low * o.stretch;
    return low + o.weight * (value(table(o.below + 1)) - low);
  }

  /// The next line of a batch size's row.
  [[nodiscard]] DecodeLine next_line(std::size_t locked, std::int32_t requests,
                                     const std::vector<DecodeLine>& row) const {
    const auto bucket = static_cast<std::int64_t>(row.size());
    DecodeLine line;
    line.kv_from = bucket * bucket_tokens;
    line.kv_below = bucket + 1 < kBuckets ? line.kv_from + bucket_tokens : std::numeric_limits<std::int64_t>::max();
    StepShape shape;
    shape.decode_requests = requests;
    shape.decode_kv_tokens = line.kv_from + bucket_tokens / 2;
    const Operating o = operate(locked, shape);
    const auto seconds_at = [&](std::int64_t kv_tokens) {
      shape.decode_kv_tokens = kv_tokens;
      return blend(o, [&](const ClockTable& t) { return draft(t, shape).seconds(); });
    };
    const double first = seconds_at(line.kv_from);
    line.slope = to_fixed((seconds_at(line.kv_from + bucket_tokens) - first) / static_cast<double>(bucket_tokens));
    // From where the line before ends, so that time never falls as KV grows.
    const std::int64_t reached = row.empty() ? 0 : row.back().base + row.back().slope * line.kv_from;
    line.base = std::max(to_fixed(first), reached) - line.slope * line.kv_from;
    line.power = instance_power(o.watts);
    line.effective_clock = effective(o);
    return line;
  }
};

StepModel::StepModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepModel::~StepModel() = default;
StepModel::StepModel(StepModel&&) noexcept = default;
StepModel& StepModel::operator=(StepModel&&) noexcept = default;

namespace {

Result<void> check_options(const std::string& where, const GpuSpec& gpu, const EngineOptions& options) {
  if (const auto& share = options.decode_attention_efficiency; share && !(*share > 0.0 && *share <= 1.0)) {
    return bad_input(where, "decode_attention_efficiency is a share: above 0, at most 1");
  }
  if (options.speculative_tokens < 0 || !(options.acceptance_rate >= 0.0 && options.acceptance_rate < 1.0) ||
      !(options.draft_share >= 0.0 && options.draft_share <= 1.0)) {
    return bad_input(where,
                     "speculative_tokens is 0 or more, acceptance_rate from 0 to below 1, draft_share from 0 to 1");
  }
  if (const auto& limit = options.power_limit; limit && !(*limit > Watts() && *limit <= gpu.tdp)) {
    return bad_input(where, fmt::format("a power limit is above 0 and at most the GPU's TDP of {} W", gpu.tdp.value()));
  }
  if (gpu.clock_step.value() < 1 || gpu.clock_min.value() < 1 || gpu.clock_max < gpu.clock_min) {
    return bad_input(where, "the GPU's clock range is empty");
  }
  return {};
}

/// The GPU's profile as this engine uses the GPU: the framework's times, then what the options state instead.
HardwareProfile under_engine(HardwareProfile profile, const LlmSpec& llm, const Parallelism& parallel,
                             const FrameworkTimes& times, const EngineOptions& options) {
  if (times.step) profile.step_gap_s = times.step->seconds();
  profile.step_gap_s += llm.layers * (times.layer + (parallel.gpus() > 1 ? times.parallel_layer : Span())).seconds();
  if (!times.sorts_vocabulary) profile.sampling_ns_per_logit = profile.request_gap_s = 0.0;
  if (options.step_gap) profile.step_gap_s = options.step_gap->seconds();
  if (options.request_gap) {  // sampling included
    profile.request_gap_s = options.request_gap->seconds();
    profile.sampling_ns_per_logit = 0.0;
  }
  if (options.idle_gpu) profile.rest_w = profile.idle_floor_w + profile.idle_clock_w - options.idle_gpu->value();
  if (options.decode_attention_efficiency) {
    const double faster = *options.decode_attention_efficiency / profile.decode_attention_efficiency;
    profile.decode_attention_efficiency *= faster;
    profile.decode_attention_clock_share *= faster;  // over a byte's time from memory
  }
  return profile;
}

}  // namespace

Result<StepModel> StepModel::make(const GpuSpec& gpu, const LlmSpec& llm, const Parallelism& parallel,
                                  const HardwareProfile& profile, const EngineOptions& options) {
  const std::string where = fmt::format("{} on {} x {}", llm.name, parallel.gpus(), gpu.name);
  if (auto ok = check_shape(where, llm, parallel); !ok) return std::unexpected(std::move(ok.error()));
  if (auto ok = check_options(where, gpu, options); !ok) return std::unexpected(std::move(ok.error()));
  const double weights = parallel.weight_bytes(llm);
  const double available = gpu.memory_bytes * options.gpu_memory_utilization;
  const double for_kv = available - weights - options.activation_bytes_per_gpu;
  const double block_bytes = parallel.kv_bytes_per_token(llm) * options.block_size;
  const auto blocks = static_cast<std::int64_t>(std::floor(for_kv / block_bytes)) * parallel.data;
  if (blocks < 1) {
    return bad_input(where, fmt::format("needs {:.1f} GB per GPU for weights and activations, {:.1f} GB of {:.1f} GB "
                                        "are available; use more GPUs per instance or a smaller model",
                                        (weights + options.activation_bytes_per_gpu) * 1e-9, available * 1e-9,
                                        gpu.memory_bytes * 1e-9));
  }
  auto impl = std::make_unique<Impl>();
  const FrameworkTimes times = times_of(options.framework);
  impl->gpu = gpu;
  impl->llm = llm;
  impl->parallel = parallel;
  impl->profile = under_engine(profile, llm, parallel, times, options);
  impl->limit_w = options.power_limit.value_or(gpu.tdp).value() * profile.clip_share;
  impl->prompt_gap_s = options.prompt_gap.value_or(times.prompt).seconds();
  impl->decode_gap_s = options.decode_gap.value_or(times.request).seconds();
  impl->launches_s =
      options.launch_share * (times.experts.seconds() * llm.moe_layers() +
                              (llm.latent_attention() ? times.latent_attention.seconds() * llm.layers : 0.0)) +
      options.prompt_step_gap.seconds();
  impl->overlapped = times.overlapped;
  impl->drafts = options.speculative_tokens;
  impl->expert_row_block = options.expert_row_block;
  impl->draft_share = options.draft_share;
  impl->graph_sizes = options.graph_sizes;
  impl->blocks = blocks;
  impl->bucket_tokens = std::max<std::int64_t>(1, (blocks * options.block_size + kBuckets - 1) / kBuckets);
  const Operations operations(impl->gpu, impl->llm, parallel, impl->profile, gpu.clock_max.value(),
                              options.expert_row_block);
  for (std::int64_t n = 0; n <= kExactTokens; ++n) impl->tails.push_back(operations.decode_attention_tail(n));
  impl->tables.resize(
      static_cast<std::size_t>((gpu.clock_max.value() - gpu.clock_min.value()) / gpu.clock_step.value()) + 1);
  return StepModel(std::move(impl));
}

const DecodeLine& StepModel::decode(std::int32_t requests, std::int64_t kv_tokens, MegaHertz clock) const {
  impl_->asked.take(requests, kv_tokens, 0, clock.value());
  const std::size_t locked = impl_->index_of(clock);
  auto& rows = impl_->table(locked).decode_rows;
  const auto batch = static_cast<std::size_t>(requests);
  if (rows.size() <= batch) rows.resize(batch + 1);
  auto& row = rows[batch];
  const auto bucket = static_cast<std::size_t>(std::min(kv_tokens / impl_->bucket_tokens, kBuckets - 1));
  while (row.size() <= bucket) row.push_back(impl_->next_line(locked, requests, row));
  return row[bucket];
}

StepCost StepModel::mixed(const StepShape& shape, MegaHertz clock) const {
  impl_->asked.take(shape.decode_requests, shape.decode_kv_tokens, shape.prefill_tokens, clock.value());
  const Operating o = impl_->operate(impl_->index_of(clock), shape);
  return {to_fixed(o.seconds), impl_->instance_power(o.watts), impl_->effective(o)};
}

Milliwatts StepModel::idle_power(MegaHertz clock) const {
  const double x = impl_->clock_at(impl_->index_of(clock)) / impl_->gpu.clock_max.value();
  return impl_->instance_power(PowerAtClock(impl_->profile, x).idle_w());
}

std::int64_t StepModel::kv_blocks() const { return impl_->blocks; }
const GpuSpec& StepModel::gpu() const { return impl_->gpu; }
const LlmSpec& StepModel::llm() const { return impl_->llm; }
std::int32_t StepModel::gpus() const { return impl_->parallel.gpus(); }
MegaHertz StepModel::measured_from() const {
  return MegaHertz(static_cast<std::int32_t>(impl_->profile.measured_clock_low_mhz));
}

std::vector<std::string> StepModel::extrapolated() const {
  std::vector<std::string> found = extrapolations(impl_->profile, impl_->parallel.tensor, impl_->asked);
  if (impl_->drafts > 0 && impl_->asked.requests > 0) {
    found.push_back(fmt::format("{}: speculative decoding, never measured", impl_->profile.gpu));
  }
  if (impl_->asked.clock_high_mhz > 0) {
    std::ranges::move(unmeasured(impl_->gpu, impl_->llm, impl_->parallel), std::back_inserter(found));
  }
  return found;
}
const AskedRange& StepModel::asked() const { return impl_->asked; }
void StepModel::forget_asked() const { impl_->asked = AskedRange{}; }

}  // namespace wattle::engine
