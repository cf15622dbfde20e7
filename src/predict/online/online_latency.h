#pragma once
// EcoPred with online adaptation (GreenServe): served steps are measured, the model is refitted from time to time, and
// a model that predicts worse is discarded. Both drivers use it and decide when and where to fit: the simulator after a
// modelled delay, the agent on a separate thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/step_sample.h"

namespace wattle::predict {

/// Makes a model from served steps (and its own other data). Callable from any thread, one call at a time.
using LatencyRefit = std::function<Result<std::shared_ptr<const LatencyModel>>(std::span<const StepSample> served)>;

struct OnlineOptions {
  /// X in the paper, which states no value: new samples between two refits. A busy instance has 1,000 within half a
  /// minute; 750 (three quarters) are used for training, the rest for evaluation, and a refit (below a second) costs a
  /// few percent of one core.
  std::int32_t refit_every = 1'000;
  std::int32_t ring = 2'000;  ///< number of most recent samples kept, to which a model is fitted
  std::int32_t window = 200;  ///< number of most recent samples on which models are compared; <= ring
  bool refit = true;          ///< false: measure only
};

struct OnlineCounts {
  std::int64_t samples = 0;
  std::int64_t ignored = 0;  ///< not a step of one phase with a clock and a plausible duration
  std::int64_t refits = 0;   ///< = adopted + rejected + failed (+ 1 in progress)
  std::int64_t adopted = 0;
  std::int64_t rejected = 0;     ///< worse than the model in use on the most recent window; never used
  std::int64_t failed = 0;       ///< without a result
  std::int64_t rolled_back = 0;  ///< adopted, then worse than its predecessor on the most recent window
};

/// Prediction errors of one phase.
struct OnlineError {
  std::int64_t samples = 0;
  double offline_ms = 0.0;  ///< mean absolute error of the initial model
  double active_ms = 0.0;   ///< of the model in use at the time
  double drift = 0.0;  ///< mean signed error of the model in use, relative to the mean duration; > 0: predicts too long
};

/// The model in use, behind one address that policies may keep. All calls from the deciding thread, or under its lock;
/// a prediction costs one indirection more than the model's own.
///
/// Every fourth sample is never used for training. A new model is adopted only if it predicts these, as far as they are
/// in the most recent window, better than the model in use. After a window of samples that neither has seen, it must
/// not be worse than its predecessor by more than chance (5 %) plus half a percent of a step; this is checked after
/// every further window until the next model is adopted. If it is worse, the predecessor returns and the failed model's
/// training samples are dropped. Better means: the smaller sum over phases of absolute error / measured time, so that
/// prefills, which take longer, do not dominate.
class OnlineLatency final : public LatencyModel {
 public:
  OnlineLatency(std::shared_ptr<const LatencyModel> offline, LatencyRefit refit, const OnlineOptions& options);

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    return active_->step_time(shape, clock);
  }
  void decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens, MegaHertz clock,
                    std::span<Span> out) const override {
    active_->decode_times(requests, kv_tokens, clock, out);
  }
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override {
    return active_->kv_tokens_within(shape, clock, budget);
  }

  /// Adds a measured step. True if that changed the model (a rollback): existing holds are then invalid. Never
  /// allocates.
  bool add(const StepSample& sample);
  /// True if there are enough new samples and no refit is in progress.
  [[nodiscard]] bool refit_due() const;
  /// The input for refitting(); no refit is due until end_refit().
  [[nodiscard]] std::vector<StepSample> begin_refit();
  [[nodiscard]] const LatencyRefit& refitting() const { return refit_; }
  struct Ended {
    bool changed = false;                           ///< adopted
    std::shared_ptr<const LatencyModel> discarded;  ///< to be freed outside time-critical code
  };
  Ended end_refit(Result<std::shared_ptr<const LatencyModel>> model);

  [[nodiscard]] const OnlineCounts& counts() const { return counts_; }
  [[nodiscard]] OnlineError since_start(bool prefill) const;
  /// Over the most recent window, with the present models.
  [[nodiscard]] OnlineError newest(bool prefill) const;

 private:
  struct Sums {
    std::int64_t samples = 0;
    double measured_ms = 0.0, offline_ms = 0.0, active_ms = 0.0, signed_ms = 0.0;
    void add(double measured, double offline, double active);
    [[nodiscard]] OnlineError error() const;
  };
  /// The i-th newest sample.
  [[nodiscard]] const StepSample& sample(std::size_t i) const;
  [[nodiscard]] bool held_out(std::size_t i) const;
  [[nodiscard]] double badness(const LatencyModel& model, std::size_t newest, bool held_out_only) const;

  LatencyRefit refit_;
  OnlineOptions options_;
  std::shared_ptr<const LatencyModel> offline_;
  std::shared_ptr<const LatencyModel> active_;
  std::shared_ptr<const LatencyModel> previous_;  ///< null: no predecessor
  std::vector<StepSample> ring_;
  std::size_t kept_ = 0;
  std::int64_t since_refit_ = 0;
  std::int64_t since_adoption_ = 0;
  bool fitting_ = false;
  OnlineCounts counts_;
  Sums sums_[2];
};

/// Offline samples scaled to served steps: for each clock and phase, durations times the median ratio of measured to
/// predicted time (of the phase over all clocks if the clock has too few served steps; unscaled if the phase has none).
/// A refit on these and the served samples is accurate where there is load and plausible elsewhere.
[[nodiscard]] std::vector<StepSample> level_profile(std::span<const StepSample> profile, const LatencyModel& offline,
                                                    std::span<const StepSample> served);

}  // namespace wattle::predict
