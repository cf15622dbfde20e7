#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/instance_work.h"
#include "model/request.h"

namespace wattle::control {

/// The records of all instances (InstanceWork). Requests that it does not know are ignored.
///
/// Engines are assumed to serve first come, first served: a prompt that arrives while others are computed waits for the
/// end of their steps, which first tokens show. If a later prompt's first token comes before an earlier one's, the
/// earlier has been computed, too, and nobody sees its tokens: its answer comes as a whole.
class WorkBook {
 public:
  /// Dispatched there. `moves`: it leaves for another instance when its prompt has been computed.
  void start(const Request& request, InstanceId instance, bool moves, Instant now);
  /// Its second leg goes there, with its KV cache.
  void hand_over(const Request& request, InstanceId decode, Instant now);
  /// Its prompt has been computed, or its first token has come; for a request that has moved, called for both.
  void prompt_done(RequestId id, Instant now);
  /// Its first token will not be seen, as its answer comes as a whole: it decodes from now on.
  void unseen(RequestId id);
  /// The instance of its newest leg; kNoInstance: not known.
  [[nodiscard]] InstanceId at(RequestId id) const;
  /// It leaves with an answer of `tokens` tokens; one that came as a whole is counted now.
  void answered(RequestId id, std::int64_t tokens, Instant now);
  void leave(RequestId id);

  [[nodiscard]] InstanceWork of(InstanceId instance) const;
  /// Nothing more will be sent there; what is left in it is not counted.
  void forget(InstanceId instance);
  /// Number of instances with records.
  [[nodiscard]] std::size_t instances() const { return books_.size(); }

  [[nodiscard]] bool changed() const { return !touched_.empty(); }
  /// Instances whose records have changed since the last call, in that order, each once.
  [[nodiscard]] std::vector<InstanceId> take_changed() { return std::exchange(touched_, {}); }

 private:
  struct Entry {
    RequestId id;
    Instant arrival;
    Instant dispatched;
    std::int32_t prompt_tokens = 0;
    bool prompt = false;
    bool moves = false;
    bool computing = false;
    bool unseen = false;  ///< it decodes, and no first token has been seen
  };
  /// The requests in one instance and their sum, updated with each change: reports read it far more often than requests
  /// move.
  struct Book {
    std::vector<Entry> entries;  ///< in order of arrival there
    InstanceWork sum;
    Instant last_first;  ///< when the newest first token came

    void add(const Entry& entry);
    void compute(Entry& entry, Instant since);
    void computes_no_more(Entry& entry);
    void overtaken_by(const Entry& later);
    void computed(Entry& entry);
    void first_token(const Entry& entry, Instant now);
    void erase(const Entry& entry);
    [[nodiscard]] Entry* find(RequestId id);
  };
  struct Places {
    InstanceId first = kNoInstance;
    InstanceId second = kNoInstance;  ///< of the second leg
  };
  void add(InstanceId instance, const Entry& entry);
  void touch(InstanceId instance);

  std::unordered_map<std::int32_t, Book> books_;  ///< by instance
  std::unordered_map<std::int64_t, Places> places_;
  std::vector<InstanceId> touched_;
};

}  // namespace wattle::control
