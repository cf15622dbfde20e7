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
  struct State;

 public:
  /// A request's place: let go when it is over.
  class Seat {
   public:
    Seat(std::shared_ptr<State> state, double tokens) : state_(std::move(state)), charged_(tokens) {}
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() {
      const std::lock_guard lock(state_->mutex);
      --state_->under_way;
    }
    [[nodiscard]] double charged() const { return charged_; }
    /// It took so many tokens in all: more are charged, fewer given back.
    void settle(double tokens) {
      const std::lock_guard lock(state_->mutex);
      state_->tokens.take(tokens - std::exchange(charged_, tokens));
    }

   private:
    std::shared_ptr<State> state_;
    double charged_;
  };
  struct Verdict {
    const char* refused = nullptr;  ///< why; null: it may enter
    Span retry_after;               ///< at the earliest
    std::shared_ptr<Seat> seat = nullptr;
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
    return {nullptr, Span(), std::make_shared<Seat>(state, tokens)};
  }

 private:
  class Bucket {
   public:
    /// What is in it; it holds a minute's worth at most, but one where that is less: or nothing would ever fit.
    double level(double per_minute, Instant now) {
      const double most = std::max(1.0, per_minute);
      if (!begun_) level_ = most;
      if (begun_) level_ = std::min(most, level_ + per_minute / 60.0 * std::max(Span(), now - at_).seconds());
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
