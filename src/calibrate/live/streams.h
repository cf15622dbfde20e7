#pragma once
// Load for `wattle profile`: streamed completions against an OpenAI endpoint, and when each token came.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "calibrate/live/steps.h"
#include "loadgen/completion_body.h"

namespace wattle::calibrate {

struct StreamPlan {
  Span at;  ///< since the start of the run
  std::int32_t prompt_tokens = 1;
  std::int32_t output_tokens = 1;
};

/// One endpoint and its connections. Calls block; one at a time.
class StreamLoad {
 public:
  /// Prompts are numbered from `serial`, so that two runs with different ones share no prompt. Errors: no URL; a name
  /// that does not resolve.
  [[nodiscard]] static Result<std::unique_ptr<StreamLoad>> make(const std::string& url, loadgen::PromptForm form,
                                                                std::uint64_t serial);
  ~StreamLoad();

  struct Served {
    std::string model;                ///< the first it names
    std::int64_t context_tokens = 0;  ///< most of prompt and output together; 0: it does not say
  };
  /// Errors: it cannot be reached; it serves none.
  [[nodiscard]] Result<Served> served();
  /// A page of the endpoint. Errors: it cannot be reached; another status than 200.
  [[nodiscard]] Result<std::string> page(const std::string& path);
  void use_model(const std::string& model);

  /// Sends each at its time and waits for all of them; `stop` cuts them off. No two prompts begin alike, so that no
  /// prefix cache answers.
  [[nodiscard]] std::vector<StreamRecord> run(std::span<const StreamPlan> plans, const std::atomic<bool>& stop);

  /// How long the endpoint takes to refuse a prompt of this length for a model it does not have: the way there and
  /// back, and the reading of the body, without a step. None when it does not refuse.
  [[nodiscard]] std::optional<Span> refusal(std::int32_t prompt_tokens);

 private:
  struct Impl;
  explicit StreamLoad(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What an engine says in the body of a refusal or of an error event, on one line and cut short: vLLM's, SGLang's,
/// llama.cpp's and Dynamo's forms, else the text itself.
[[nodiscard]] std::string words_of(std::string_view body);

}  // namespace wattle::calibrate
