#pragma once
// An engine as the data plane knows it, and what the streams relayed from it say of its load.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "model/instance.h"
#include "net/client.h"

namespace wattle::gateway {

/// How the two legs of a request find each other, for the whole fleet.
enum class PdContract : std::uint8_t {
  Nixl,       ///< vLLM: prefill first, decode pulls
  Bootstrap,  ///< SGLang: both at once, they meet in a room
};

/// Written by the loops that relay, a few times a request and once a read; read by the control strand. Each number is
/// right by itself; together they may be a token apart.
struct StreamCounts {
  std::atomic<std::int32_t> waiting{0};  ///< sent there, no token yet
  std::atomic<std::int64_t> waiting_prompt_tokens{0};
  std::atomic<std::int32_t> decoding{0};
  std::atomic<std::int64_t> kv_tokens{0};  ///< prompts and tokens so far of those that decode
};

struct Worker {
  InstanceId id;
  Role role = Role::Colocated;
  std::shared_ptr<const net::Endpoint> endpoint;
  std::optional<std::uint16_t> bootstrap_port;  ///< prefill, SGLang: where decode instances meet it
  bool load_reports = false;                    ///< it is asked for its load with each request (ORCA)
  std::unique_ptr<StreamCounts> streams = std::make_unique<StreamCounts>();
};

/// One request's share of a worker's StreamCounts: it waits, decodes, leaves; gone with the object.
class StreamSeat {
 public:
  StreamSeat() = default;
  ~StreamSeat() { leave(); }
  StreamSeat(const StreamSeat&) = delete;
  StreamSeat& operator=(const StreamSeat&) = delete;

  void wait_at(std::shared_ptr<const Worker> worker, std::int64_t prompt_tokens) {
    leave();
    worker_ = std::move(worker);
    prompt_tokens_ = prompt_tokens;
    worker_->streams->waiting.fetch_add(1, std::memory_order_relaxed);
    worker_->streams->waiting_prompt_tokens.fetch_add(prompt_tokens, std::memory_order_relaxed);
  }
  /// The first token has come: its context is `context_tokens` now.
  void decode(std::int64_t context_tokens) {
    if (!worker_ || decoding_) return;
    stop_waiting();
    decoding_ = true;
    worker_->streams->decoding.fetch_add(1, std::memory_order_relaxed);
    grow(context_tokens);
  }
  void grow(std::int64_t tokens) {
    if (!decoding_ || tokens == 0) return;
    context_tokens_ += tokens;
    worker_->streams->kv_tokens.fetch_add(tokens, std::memory_order_relaxed);
  }
  void leave() {
    if (!worker_) return;
    if (decoding_) {
      worker_->streams->decoding.fetch_sub(1, std::memory_order_relaxed);
      worker_->streams->kv_tokens.fetch_sub(context_tokens_, std::memory_order_relaxed);
    } else {
      stop_waiting();
    }
    worker_.reset();
    decoding_ = false;
    context_tokens_ = 0;
  }

 private:
  void stop_waiting() {
    worker_->streams->waiting.fetch_sub(1, std::memory_order_relaxed);
    worker_->streams->waiting_prompt_tokens.fetch_sub(prompt_tokens_, std::memory_order_relaxed);
  }

  std::shared_ptr<const Worker> worker_;
  std::int64_t prompt_tokens_ = 0;
  std::int64_t context_tokens_ = 0;
  bool decoding_ = false;
};

}  // namespace wattle::gateway
