#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/instance_work.h"
#include "model/request.h"

namespace wattle::control {

/// The books of all instances (InstanceWork). Requests it does not know are ignored.
///
/// Engines serve first come, first served: who comes while prompts are computed waits for their steps' end, which first
/// tokens tell. Where a later prompt's comes before an earlier one's, the earlier has been computed, too, and nobody
/// sees its tokens: its answer comes as a whole.
class WorkBook {
 public:
  /// Dispatched there. `moves`: it leaves for another instance when its prompt is computed.
  void start(const Request& request, InstanceId instance, bool moves, Instant now);
  /// Its second leg goes there; its KV cache comes with it.
  void hand_over(const Request& request, InstanceId decode, Instant now);
  /// Its prompt is known to be computed, or its first token has come: of one that has moved said of both.
  void prompt_done(RequestId id, Instant now);
  /// Nobody will see its first token, as its answer comes as a whole: it decodes from now on.
  void unseen(RequestId id);
  /// Where its newest leg is; kNoInstance: it is not known.
  [[nodiscard]] InstanceId at(RequestId id) const;
  /// It leaves with an answer of so many tokens; where it came as a whole it is counted now.
  void answered(RequestId id, std::int64_t tokens, Instant now);
  void leave(RequestId id);

  [[nodiscard]] InstanceWork of(InstanceId instance) const;
  /// Nothing more will be sent there; what is left in it goes uncounted.
  void forget(InstanceId instance);
  /// Instances that anything is kept of.
  [[nodiscard]] std::size_t instances() const { return books_.size(); }

  [[nodiscard]] bool changed() const { return !touched_.empty(); }
  /// Those whose books have changed since the last call, in that order, each once.
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
    bool unseen = false;  ///< it decodes, and no first token has come
  };
  /// What is in one instance, with its sum kept as it changes: reports ask for it far more often than requests move.
  struct Book {
    std::vector<Entry> entries;  ///< in the order in which they came
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
