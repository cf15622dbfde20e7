#pragma once
// Load generator of `wattle profile`: streamed completions from an OpenAI endpoint, with the arrival time of each
// token.
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
  PromptContent context = nullptr;  ///< what it begins with, as others do
};

/// One endpoint and its connections. Calls block; only one at a time.
class StreamLoad {
 public:
  /// Prompts are numbered from `serial`, so that runs with different numbers share no prompt. Errors: not a URL; a name
  /// that does not resolve.
  [[nodiscard]] static Result<std::unique_ptr<StreamLoad>> make(const std::string& url, loadgen::PromptForm form,
                                                                std::uint64_t serial);
  ~StreamLoad();

  struct Served {
    std::string model;                ///< the first in its list
    std::int64_t context_tokens = 0;  ///< maximum of prompt and output together; 0: not reported
  };
  /// Errors: it cannot be reached; it serves no model.
  [[nodiscard]] Result<Served> served();
  /// Gets a page of the endpoint. Errors: it cannot be reached; a status other than 200.
  [[nodiscard]] Result<std::string> page(const std::string& path);
  void use_model(const std::string& model);

  /// Of a prompt's first tokens, rounded down to whole blocks of kTextBlockTokens; no two calls give the same.
  [[nodiscard]] PromptContent context(std::int32_t tokens);
  /// Sends each request at its time and waits for all; `stop` aborts them. Beyond their contexts no two prompts are
  /// equal, so that a prefix cache has nothing else of them.
  [[nodiscard]] std::vector<StreamRecord> run(std::span<const StreamPlan> plans, const std::atomic<bool>& stop);

  /// Time in which the endpoint refuses a prompt of this length for an unknown model: the round trip, and parsing of
  /// the body, without a step. None if it does not refuse.
  [[nodiscard]] std::optional<Span> refusal(std::int32_t prompt_tokens);

 private:
  struct Impl;
  explicit StreamLoad(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The message in the body of an engine's error response or error event, shortened to one line: vLLM's, SGLang's,
/// llama.cpp's and Dynamo's formats, otherwise the text itself.
[[nodiscard]] std::string words_of(std::string_view body);

}  // namespace wattle::calibrate
