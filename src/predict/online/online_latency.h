#pragma once
// EcoPred that learns on (GreenServe's online adaptation): served steps are measured, now and then the model is fitted
// again, and what predicts worse is thrown away again. One mechanism for both drivers; who fits when and where is
// theirs: the simulator after a modelled delay, the agent on a thread of its own.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/step_sample.h"

namespace wattle::predict {

/// A model made from served steps (and whatever the maker knows besides). Callable from any thread, one at a time.
using LatencyRefit = std::function<Result<std::shared_ptr<const LatencyModel>>(std::span<const StepSample> served)>;

struct OnlineOptions {
  /// X of the paper, which leaves it open: new samples between two refits. 1,000 come within half a minute of a busy
  /// instance, leave 750 to learn from (three quarters; the rest judges), and put the cost of a refit, below a second,
  /// at a few percent of one core.
  std::int32_t refit_every = 1'000;
  std::int32_t ring = 2'000;  ///< newest samples kept: the working set of load that a model is fitted to
  std::int32_t window = 200;  ///< newest samples that judge a model; <= ring
  bool refit = true;          ///< false: measure only
};

struct OnlineCounts {
  std::int64_t samples = 0;
  std::int64_t ignored = 0;  ///< no step of one phase with a clock and a believable duration
  std::int64_t refits = 0;   ///< = adopted + rejected + failed (+ 1 in progress)
  std::int64_t adopted = 0;
  std::int64_t rejected = 0;     ///< worse than the present model on the newest window, and never used
  std::int64_t failed = 0;       ///< no model came of it
  std::int64_t rolled_back = 0;  ///< adopted, then worse than its predecessor on the newest window
};

/// Of one phase.
struct OnlineError {
  std::int64_t samples = 0;
  double offline_ms = 0.0;  ///< mean absolute error of the model it began with
  double active_ms = 0.0;   ///< of the model that was believed at the time
  double drift = 0.0;       ///< mean signed error of the believed model over the mean duration; > 0: predicts too long
};

/// The model in use, behind one address that policies may keep. All calls from the deciding thread, or under its lock;
/// a prediction costs one indirection more than the model's own.
///
/// Every fourth sample is never learnt from. A new model is adopted only when it predicts these, as far as they are
/// among the newest window, better than the present model; after a window's worth of samples that neither has seen it
/// must not be worse than its predecessor by more than chance (5 %) and half a percent of a step, and so after every
/// further window until the next is adopted, or the predecessor is back and the samples the failed one learnt from are
/// forgotten. Better: the smaller sum over phases of absolute error / measured time, so that milliseconds of prefills
/// do not outvote those of decodes.
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

  /// A step was measured. True when that changed the model (a roll-back): holds given under it are void. Never
  /// allocates.
  bool add(const StepSample& sample);
  /// Enough new samples, and none is being fitted?
  [[nodiscard]] bool refit_due() const;
  /// What to give to refitting(); until end_refit() none is due.
  [[nodiscard]] std::vector<StepSample> begin_refit();
  [[nodiscard]] const LatencyRefit& refitting() const { return refit_; }
  struct Ended {
    bool changed = false;                           ///< adopted
    std::shared_ptr<const LatencyModel> discarded;  ///< free it where time does not matter
  };
  Ended end_refit(Result<std::shared_ptr<const LatencyModel>> model);

  [[nodiscard]] const OnlineCounts& counts() const { return counts_; }
  [[nodiscard]] OnlineError since_start(bool prefill) const;
  /// Over the newest window, by the models of this moment.
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
  std::shared_ptr<const LatencyModel> previous_;  ///< null: nothing to go back to
  std::vector<StepSample> ring_;
  std::size_t kept_ = 0;
  std::int64_t since_refit_ = 0;
  std::int64_t since_adoption_ = 0;
  bool fitting_ = false;
  OnlineCounts counts_;
  Sums sums_[2];
};

/// Offline samples brought to the level of what is served: for each clock and phase, their durations times the median
/// ratio of measured to predicted time (of the phase alone where a clock was not served often enough to tell; as they
/// are where the phase was not). A refit on these and the served ones is good where load is and sane where it is not.
[[nodiscard]] std::vector<StepSample> level_profile(std::span<const StepSample> profile, const LatencyModel& offline,
                                                    std::span<const StepSample> served);

}  // namespace wattle::predict
