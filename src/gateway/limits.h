#pragma once
// How much a tenant may request at a time. Time is an argument.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "gateway/keys.h"
#include "units/quantity.h"

namespace wattle::gateway {

/// Token buckets that hold one minute's amount, and a count of requests in progress. Thread-safe; bounded by the number
/// of tenants with terms.
class Limits {
  struct State;

 public:
  /// A request's seat: destroyed when the request is over.
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
    /// The request took `tokens` tokens in total: the difference is charged or returned.
    void settle(double tokens) {
      const std::lock_guard lock(state_->mutex);
      state_->tokens.take(tokens - std::exchange(charged_, tokens));
    }

   private:
    std::shared_ptr<State> state_;
    double charged_;
  };
  struct Verdict {
    const char* refused = nullptr;  ///< why it is refused; null: it may enter
    Span retry_after;               ///< earliest time
    std::shared_ptr<Seat> seat = nullptr;
  };
  /// `tokens`: estimated length of its prompt. Terms may change from call to call.
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
    // A prompt of any length may enter a full bucket; the excess must be refilled before the next request.
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
    /// Present level. It holds at most one minute's amount, but at least one request or token, so that a request can
    /// enter.
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
