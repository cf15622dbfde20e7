#pragma once
// throttLL'eM's scoreboard: the batch and its KV blocks in all future iterations of one instance, if no other request
// arrives.
#include <cstdint>
#include <span>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::policy {

/// One running request. It computes a token in each iteration from `start` to `start + predicted_tokens - 1`, and in
/// iteration j holds ceil((j - start + prompt_tokens) / block_size) KV blocks.
struct Projected {
  RequestId id;
  std::int64_t start = 0;  ///< iteration that computes its prompt and first token
  std::int32_t prompt_tokens = 0;
  std::int32_t predicted_tokens = 1;  ///< when outlived: re-projected at limit_tokens
  std::int32_t limit_tokens = 1;      ///< its maximum length
  Instant deadline = Instant::never();
  bool lost = false;  ///< its deadline no longer constrains decisions
  /// Predicted length if it outlives predicted_tokens and the grace: it is re-projected here before limit_tokens. 0
  /// (the paper): none.
  std::int32_t second_tokens = 0;
};

/// Consecutive iterations [from, until) with the same members; in each, every member's context grows by one token.
struct Stretch {
  std::int64_t from = 0;
  std::int64_t until = 0;
  std::int32_t requests = 0;
  std::int64_t kv_tokens_at_from = 0;  ///< at iteration j: this + (j - from) x requests

  /// Sum over its iterations divided by their number, rounded down: sufficient for a duration that is affine in KV
  /// tokens.
  [[nodiscard]] std::int64_t mean_kv_tokens() const { return kv_tokens_at_from + (until - from - 1) * requests / 2; }
};

/// Stores an event per request instead of an entry per iteration: between two ends the batch is constant and KV only
/// grows, so its peak is in the iteration before each end, and only that is stored. Adding and removing take one pass
/// over the requests and allocate nothing once reserved. Exact (tests: against a vector with one entry per iteration).
class Scoreboard {
 public:
  /// `grace`: iterations by which a request may outlive its prediction, expected to end in each next one, before it is
  /// re-projected at its limit (0: at once, as in the paper). Iteration counts drift by a few where prompts wait.
  explicit Scoreboard(std::int32_t block_size = 16, std::int32_t grace = 0);

  void reserve(std::size_t requests);
  /// `next`: the first iteration that has not begun. Requests that should have ended and are still here have outlived
  /// their prediction. Never goes backwards while requests are on the board. The state depends on `next` alone, not on
  /// the number of calls.
  void advance(std::int64_t next);

  /// Adds; request.start <= next(). Values out of range are clamped: prompt >= 0, 1 <= predicted <= limit.
  void add(Projected request);
  /// Adds on trial; roll_back() must follow before any other change.
  void add_virtually(const Projected& request);
  void roll_back();

  /// Removes a request that ended, early or late. False: unknown.
  bool remove(RequestId id);
  /// Its first token came from iteration `start`, which may differ from what was assumed. False: unknown.
  bool restart(RequestId id, std::int64_t start);
  /// From now on its deadline constrains no decision.
  void set_lost(std::size_t index);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::int64_t next() const { return next_; }
  [[nodiscard]] std::int32_t lost() const { return lost_; }
  /// Highest number of KV blocks over all future iterations.
  [[nodiscard]] std::int64_t peak_blocks() const;
  /// When the first request outlives its prediction by more than the grace; never for an empty board.
  [[nodiscard]] std::int64_t first_overrun() const;
  [[nodiscard]] bool contains(RequestId id) const { return find(id) >= 0; }

  /// Ordered by end; the order of equal ends is unspecified.
  [[nodiscard]] std::span<const Projected> requests() const { return entries_; }
  /// First iteration without requests()[index], in the same order.
  [[nodiscard]] std::span<const std::int64_t> ends() const { return ends_; }

  /// Calls visit(stretch, first, last) for each stretch in order; requests()[first, last) end with it. Stops when visit
  /// returns false; returns whether all were visited.
  template <typename Visit>
  bool walk(Visit&& visit) const {
    std::int64_t offsets = offset_sum_;
    std::int64_t from = next_;
    for (std::size_t first = 0; first < ends_.size();) {
      const auto requests = static_cast<std::int32_t>(ends_.size() - first);
      const std::int64_t until = ends_[first];
      std::size_t last = first;
      std::int64_t ending = 0;
      for (; last < ends_.size() && ends_[last] == until; ++last) ending += offset_of(entries_[last]);
      if (!visit(Stretch{from, until, requests, offsets + from * requests}, first, last)) return false;
      offsets -= ending;
      from = until;
      first = last;
    }
    return true;
  }

 private:
  static std::int64_t offset_of(const Projected& p) { return p.prompt_tokens - p.start; }
  [[nodiscard]] std::int64_t blocks_for(std::int64_t tokens) const {
    return shift_ >= 0 ? (tokens + block_size_ - 1) >> shift_ : (tokens + block_size_ - 1) / block_size_;
  }
  [[nodiscard]] std::int64_t end_of(const Projected& p) const;
  [[nodiscard]] std::ptrdiff_t find(RequestId id) const;
  void insert(const Projected& request);
  void erase(std::size_t index);
  void add_blocks(std::size_t count, const Projected& request, std::int64_t sign);

  std::int64_t block_size_;
  std::int32_t grace_;
  int shift_ = -1;  ///< log2(block_size) where that is whole
  std::int64_t next_ = 0;
  std::int64_t offset_sum_ = 0;  ///< KV tokens at iteration j = this + j x requests, while all are running
  std::int32_t lost_ = 0;
  std::ptrdiff_t trial_ = -1;
  // Parallel, ascending by end.
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> peaks_;  ///< KV blocks of all in iteration end - 1
  std::vector<Projected> entries_;
  std::vector<Projected> overdue_;  ///< scratch
};

}  // namespace wattle::policy
