#pragma once
// How much a tenant may ask for at a time. Time is an argument.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "gateway/keys.h"
#include "units/quantity.h"

namespace wattle::gateway {

/// Token buckets of a minute's worth, and a count of what is under way. Thread-safe; bounded by the tenants that have
/// terms.
class Limits {
 public:
  struct Verdict {
    const char* refused = nullptr;         ///< why; null: it may enter
    Span retry_after;                      ///< at the earliest
    std::shared_ptr<void> seat = nullptr;  ///< its place: let go when it is over
  };
  /// `tokens`: of its prompt, as believed. Terms may change from call to call.
  [[nodiscard]] Verdict enter(const TenantTerms& terms, TenantId tenant, double tokens, Instant now) {
    if (!terms.requests_per_minute && !terms.tokens_per_minute && !terms.concurrent) return {};
    const std::shared_ptr<State> state = of(tenant);
    const std::lock_guard lock(state->mutex);
    if (terms.concurrent && state->under_way >= *terms.concurrent) {
      return {"the tenant has as many requests under way as it may", Span::s(1)};
    }
    if (terms.requests_per_minute && state->requests.level(*terms.requests_per_minute, now) < 1.0) {
      return {"the tenant's requests per minute are used up", state->requests.until(1.0, *terms.requests_per_minute)};
    }
    // A prompt of any length may enter a full bucket; what it takes too much is paid back before the next.
    if (terms.tokens_per_minute && state->tokens.level(*terms.tokens_per_minute, now) <= 0.0) {
      return {"the tenant's tokens per minute are used up", state->tokens.until(1.0, *terms.tokens_per_minute)};
    }
    state->requests.take(1.0);
    state->tokens.take(tokens);
    ++state->under_way;
    return {nullptr, Span(), std::shared_ptr<void>(state.get(), [state](void*) {
              const std::lock_guard held(state->mutex);
              --state->under_way;
            })};
  }
  /// Tokens of its answers.
  void used(TenantId tenant, double tokens) {
    const std::lock_guard lock(mutex_);
    const auto found = states_.find(tenant);
    if (found == states_.end()) return;
    const std::lock_guard held(found->second->mutex);
    found->second->tokens.take(tokens);
  }

 private:
  class Bucket {
   public:
    /// What is in it; it holds a minute's worth at most.
    double level(double per_minute, Instant now) {
      if (!begun_) level_ = per_minute;
      if (begun_ && now > at_) level_ = std::min(per_minute, level_ + per_minute / 60.0 * (now - at_).seconds());
      begun_ = true;
      at_ = std::max(at_, now);
      return level_;
    }
    void take(double amount) { level_ -= amount; }
    [[nodiscard]] Span until(double wanted, double per_minute) const {
      return per_minute > 0.0 ? Span::from_seconds(std::max(0.0, wanted - level_) * 60.0 / per_minute) : Span::s(60);
    }

   private:
    double level_ = 0.0;
    Instant at_;
    bool begun_ = false;
  };
  struct State {
    std::mutex mutex;
    Bucket requests;
    Bucket tokens;
    int under_way = 0;
  };
  std::shared_ptr<State> of(TenantId tenant) {
    const std::lock_guard lock(mutex_);
    auto& state = states_[tenant];
    if (!state) state = std::make_shared<State>();
    return state;
  }

  std::mutex mutex_;
  std::map<TenantId, std::shared_ptr<State>> states_;
};

}  // namespace wattle::gateway
