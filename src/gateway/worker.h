#pragma once
// An engine as the data plane sees it, and its load as seen in the streams relayed from it.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "model/instance.h"
#include "net/client.h"

namespace wattle::gateway {

/// How the two legs of a request find each other; the same for the whole fleet.
enum class PdContract : std::uint8_t {
  Nixl,       ///< vLLM: prefill first, then decode pulls
  Bootstrap,  ///< SGLang: both at once, they meet in a room
};

/// Written by the loops that relay, a few times per request and once per read; read by the control strand. Each number
/// is exact; together they may be a token apart.
struct StreamCounts {
  std::atomic<std::int64_t> kv_tokens{0};  ///< prompts and tokens so far of decoding requests
  std::atomic<std::int64_t> tokens{0};     ///< total, after first ones
  std::atomic<std::int64_t> gaps_ns{0};    ///< sum of the gaps before these
};

struct Worker {
  InstanceId id;
  Role role = Role::Colocated;
  std::shared_ptr<const net::Endpoint> endpoint;
  std::optional<std::uint16_t> bootstrap_port;  ///< prefill, SGLang: where decode instances meet it
  bool load_reports = false;                    ///< asked for its load with each request (ORCA)
  std::unique_ptr<StreamCounts> streams = std::make_unique<StreamCounts>();
};

/// One request's share of a worker's StreamCounts; removed with the object.
class StreamSeat {
 public:
  StreamSeat() = default;
  ~StreamSeat() { leave(); }
  StreamSeat(const StreamSeat&) = delete;
  StreamSeat& operator=(const StreamSeat&) = delete;

  void wait_at(std::shared_ptr<const Worker> worker) {
    leave();
    worker_ = std::move(worker);
  }
  /// The first token has come: the request's context is `context_tokens` now.
  void decode(std::int64_t context_tokens, Instant now) {
    if (!worker_ || decoding_) return;
    decoding_ = true;
    last_token_ = now;
    context(context_tokens);
  }
  /// This many tokens have come, the last of them at `last`.
  void grow(std::int64_t tokens, Instant last) {
    if (!decoding_ || tokens == 0) return;
    context(tokens);
    worker_->streams->tokens.fetch_add(tokens, std::memory_order_relaxed);
    worker_->streams->gaps_ns.fetch_add((last - last_token_).ns(), std::memory_order_relaxed);
    last_token_ = last;
  }
  void leave() {
    if (!worker_) return;
    worker_->streams->kv_tokens.fetch_sub(context_tokens_, std::memory_order_relaxed);
    worker_.reset();
    decoding_ = false;
    context_tokens_ = 0;
  }

 private:
  void context(std::int64_t tokens) {
    context_tokens_ += tokens;
    worker_->streams->kv_tokens.fetch_add(tokens, std::memory_order_relaxed);
  }

  std::shared_ptr<const Worker> worker_;
  std::int64_t context_tokens_ = 0;
  bool decoding_ = false;
  Instant last_token_;
};

}  // namespace wattle::gateway
