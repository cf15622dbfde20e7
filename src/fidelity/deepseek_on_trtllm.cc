#include "fidelity/deepseek_on_trtllm.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace wattle::fidelity {
namespace {

// Only image and day distinguish runs with multi-token prediction from those without, which InferenceMAX's changelog
// gives: they began on 14 January 2026 with the image that the others had left in December, and went on with one that
// the others never had.
constexpr std::string_view kFirstImage = "release:1.1.0rc2.post2";
constexpr std::string_view kFirstDraftsOn = "2026-01-14";
constexpr std::string_view kTunedImage = "release:1.2.0rc6.post2";
constexpr std::string_view kTunedDraftsImage = "release:1.2.0rc6.post3";

constexpr std::int32_t kDrafts = 3;          // num_nextn_predict_layers: the model's one module, three times over
constexpr std::int32_t kDraftsInGroups = 1;  // with data-parallel attention
// The next three were chosen on the fitted half of these rows (docs/validation.md). Prompts are random words within a
// chat template.
constexpr double kDraftAccepted = 0.75;
// B200's kernels do more each than H200's, so that fewer are started (moe_config's backend TRTLLM is one for all of a
// layer's experts); piecewise CUDA graphs leave those of attention.
constexpr double kBlackwellLaunches = 2.0 / 3.0;
constexpr double kGraphsLaunches = 0.5;
constexpr double kDraftShare = 1.0 / 61.0;  // one more layer than the model's
// attention_dp_config: data groups start prompts together, or after so many steps (timeout_iters).
constexpr std::int32_t kBalanceSteps = 60;
constexpr std::int32_t kTunedTokens = 8192;  // max_num_tokens, at least

struct Run {
  const SampleRow& row;
  bool tuned_drafts = row.says(kTunedDraftsImage);
  bool drafts = tuned_drafts || (row.says(kFirstImage) && row.measured_on() >= kFirstDraftsOn);
  bool tuned = row.says(kTunedImage);
  bool groups = row.attention_data > 1;
  bool long_prompts = row.input_tokens > 2000.0;
  bool long_answers = row.output_tokens > 2000.0;
  bool even = !long_prompts && !long_answers;

  bool on_b200 = row.gpu == "b200";

  /// Piecewise CUDA graphs, on B200.
  [[nodiscard]] bool prompt_graphs() const {
    const std::int32_t slots = row.concurrency;
    if (row.precision == "fp4") {
      if (tuned) return even && row.tensor == 8 && row.expert == 8;
      if (!tuned_drafts) return false;
      if (even) return slots == 32 || slots == 64 || (slots == 128 && !groups);
      return long_answers && slots == 64;
    }
    if (tuned) return long_answers ? slots >= 128 && slots < 256 : slots >= 64;
    return tuned_drafts && !groups && slots > (even ? 4 : long_answers ? 8 : 16);
  }
  [[nodiscard]] std::int32_t drafted() const { return drafts ? (groups ? kDraftsInGroups : kDrafts) : 0; }
  /// max_num_tokens: hardly more than one prompt and a token of every slot.
  [[nodiscard]] std::int32_t tokens() const {
    const std::int32_t slots = drafts && groups ? row.concurrency / row.attention_data : row.concurrency;
    const std::int32_t asked = (1 + drafted()) * slots + static_cast<std::int32_t>(row.input_tokens) + 64;
    const std::int32_t whole = (asked + 63) / 64 * 64;
    return tuned ? std::max(whole, kTunedTokens) : whole;
  }
};

}  // namespace

void start_deepseek_on_trtllm(const SampleRow& row, engine::EngineOptions& engine) {
  const Run run{row};
  if (run.groups) engine.receive_interval = kBalanceSteps;
  engine.max_num_batched_tokens = run.tokens();
  if (run.on_b200) engine.launch_share = run.prompt_graphs() ? kGraphsLaunches : kBlackwellLaunches;
  if (run.drafts) {
    engine.speculative_tokens = run.drafted();
    engine.acceptance_rate = kDraftAccepted;
    engine.draft_share = kDraftShare;
  }
  // batch_wait_timeout_iters and batch_wait_max_tokens_ratio
  if (run.tuned && run.even && run.on_b200 && row.precision == "fp8" && row.concurrency >= 64) {
    engine.batch_wait_steps = 40;
    engine.batch_wait_share = 0.8;
  }
}

}  // namespace wattle::fidelity
