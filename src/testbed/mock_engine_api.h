#pragma once
// OpenAI's API in front of a RealTimeEngine, as vLLM serves it: completions, chat, models, health, metrics, and both
// sides of two prefill/decode contracts: vLLM's NIXL pull (kv_transfer_params) and SGLang's bootstrap (bootstrap_room),
// for which our own port is the bootstrap server. All on one loop.
#include <cstddef>
#include <expected>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>

#include "base/random.h"
#include "net/client.h"
#include "net/exchange.h"
#include "testbed/mock_dialect.h"
#include "testbed/mock_engine_metrics.h"
#include "testbed/real_time_engine.h"

namespace wattle::testbed {

struct MockApiOptions {
  std::string model = "wattle-mock";
  std::string engine_id = "mock-0";
  Role role = Role::Colocated;
  std::int32_t block_size = 16;
  std::int32_t tensor_parallel = 1;
  std::uint64_t seed = 1;
  /// Output length where a request says none (wattle_output_tokens, ignore_eos): lognormal with this median and sigma.
  double median_output_tokens = 180.0;
  double sigma_output_tokens = 0.9;
  std::int32_t max_model_tokens = 131072;
  std::int32_t vocabulary = 128256;  ///< token ids from here on are refused
  Dialect dialect = Dialect::Vllm;
  double kv_bytes_per_token = 131072.0;
  /// prefill: hand-over of KV, one transfer after the other; decode: passes of its loop from the KV's arrival to the
  /// request's first token and first step.
  engine::LinkOptions link;
  Span kv_lease = Span::s(30);
  Instant loaded;  ///< by the steady clock: until then nothing is served, and /health says so
  /// SGLang's contract: how long either leg waits for the other.
  Span bootstrap_timeout = Span::s(300);
};

/// Its HTTP server outlives its engine: after POST /wattle/die streams break off and nothing is served, as when vLLM's
/// engine core is killed.
class MockApi final : public RealTimeEngine::Listener {
 public:
  MockApi(net::Loop& loop, const MockApiOptions& options);
  ~MockApi() override;
  void set_engine(RealTimeEngine* engine) { engine_ = engine; }
  /// The port side-channel answers point to.
  void set_port(std::uint16_t port) { port_ = port; }

  void handle(const std::shared_ptr<net::Exchange>& exchange);

  void on_token(engine::Tag tag) override;
  void on_event(const engine::Event& event) override;

 private:
  struct Completion;
  class Pull;
  void completion(const std::shared_ptr<net::Exchange>& exchange, bool chat);
  [[nodiscard]] std::expected<std::unique_ptr<Completion>, MockError> read_prompt(const net::Exchange& exchange,
                                                                                  const nlohmann::json& body,
                                                                                  const nlohmann::json& prompt,
                                                                                  bool chat);
  [[nodiscard]] MockError read_hand_over(const nlohmann::json& body, std::size_t prompt, std::size_t prompts,
                                         Completion& completion) const;
  void pull(const std::shared_ptr<net::Exchange>& exchange);
  void start(std::unique_ptr<Completion> completion);
  /// `extra_headers` are complete lines, each ended by CRLF.
  void refuse(const std::shared_ptr<net::Exchange>& exchange, int status, const std::string& message,
              const std::string& param = "", const std::string& extra_headers = "") const;
  void state(const std::shared_ptr<net::Exchange>& exchange, std::string_view path);
  void die();
  [[nodiscard]] std::string load_report(const net::Exchange& exchange) const;
  void fetch_kv(std::unique_ptr<Completion> completion);
  void kv_arrived(std::shared_ptr<Completion> completion, bool ok);
  void send_token(Completion& completion);
  void finish(engine::Tag tag);
  void answer_prefill(engine::Tag tag);
  void client_gone(engine::Tag tag);
  void open_room(engine::Tag tag);
  void transfer(engine::Tag tag, const std::shared_ptr<net::Exchange>& puller);
  void give_up_kv(engine::Tag tag, const char* why);
  std::int32_t draw_output_tokens();

  net::Loop& loop_;
  MockApiOptions options_;
  RealTimeEngine* engine_ = nullptr;
  std::uint16_t port_ = 0;
  RandomStream random_;
  std::uint64_t handed_over_ = 0;
  EngineMetrics metrics_;
  std::unique_ptr<net::HttpClient> client_;
  std::unordered_map<engine::Tag, std::unique_ptr<Completion>> completions_;
  std::unordered_map<std::string, engine::Tag> held_kv_;                      ///< prefilled, waiting to be pulled
  std::unordered_map<std::string, std::shared_ptr<net::Exchange>> in_rooms_;  ///< pulls that came before their prefill
  std::unordered_map<engine::Tag, std::shared_ptr<net::Call>> fetching_;  ///< decode legs whose KV is being transferred
  Instant link_free_;
  engine::Tag next_tag_ = 1;
  std::uint64_t next_id_ = 1;
  bool dead_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace wattle::testbed
