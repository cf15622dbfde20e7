#pragma once
// What a gateway knows of an instance's requests by its own books: dispatched there, not yet left. Exact and never
// stale, whatever the engine reports, and the only source of how long a prompt has waited (no engine says that).
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/request.h"
#include "units/time.h"

namespace wattle::control {

/// Of one instance, now.
struct InstanceWork {
  std::int32_t requests = 0;          ///< in it
  std::int64_t context_tokens = 0;    ///< of their prompts
  std::int32_t prompts = 0;           ///< of these without a first token: theirs is to be computed here
  std::int64_t prompt_tokens = 0;     ///< of those
  Instant oldest = Instant::never();  ///< earliest arrival among those
  std::int64_t output_tokens = 0;     ///< so far, of those that decode; 0 where nobody counts
  bool operator==(const InstanceWork&) const = default;

  /// The same, where who relays its streams counts so much context in those that decode: prompts and answers.
  [[nodiscard]] InstanceWork with_context(std::int64_t decoding_tokens) const {
    InstanceWork counted = *this;
    counted.output_tokens = std::max<std::int64_t>(0, decoding_tokens - (context_tokens - prompt_tokens));
    return counted;
  }
};

/// The books of all instances. Requests it does not know are ignored.
class WorkBook {
 public:
  /// Dispatched there. `moves`: it leaves for another instance when its prompt is computed.
  void start(const Request& request, InstanceId instance, bool moves) {
    leave(request.id);
    places_[request.id.value()].first = instance;
    add(instance, {request.id, request.arrival, request.prompt_tokens, true, moves});
  }
  /// Its second leg goes there; its KV cache comes with it.
  void hand_over(const Request& request, InstanceId decode) {
    places_[request.id.value()].second = decode;
    add(decode, {request.id, request.arrival, request.prompt_tokens, false, false});
  }
  void prompt_done(RequestId id) {
    const auto found = places_.find(id.value());
    if (found == places_.end() || found->second.first == kNoInstance) return;
    const InstanceId instance = found->second.first;
    Book& here = books_[instance.value()];
    const auto entry = std::ranges::find(here.entries, id, &Entry::id);
    if (entry == here.entries.end() || !entry->prompt) return;
    here.computed(*entry);
    if (entry->moves) {
      here.erase(entry);
      found->second.first = kNoInstance;
    }
    touch(instance);
  }
  void leave(RequestId id) {
    const auto found = places_.find(id.value());
    if (found == places_.end()) return;
    for (const InstanceId instance : {found->second.first, found->second.second}) {
      if (instance == kNoInstance) continue;
      Book& here = books_[instance.value()];
      if (const auto entry = std::ranges::find(here.entries, id, &Entry::id); entry != here.entries.end()) {
        if (entry->prompt) here.computed(*entry);
        here.erase(entry);
      }
      touch(instance);
    }
    places_.erase(found);
  }

  [[nodiscard]] InstanceWork of(InstanceId instance) const {
    const auto there = books_.find(instance.value());
    return there == books_.end() ? InstanceWork{} : there->second.sum;
  }
  /// Nothing more will be sent there; what is left in it goes uncounted.
  void forget(InstanceId instance) {
    const auto there = books_.find(instance.value());
    if (there == books_.end()) return;
    for (const Entry& entry : there->second.entries) {
      Places& places = places_[entry.id.value()];
      if (places.first == instance) places.first = kNoInstance;
      if (places.second == instance) places.second = kNoInstance;
      if (places.first == kNoInstance && places.second == kNoInstance) places_.erase(entry.id.value());
    }
    books_.erase(there);
    std::erase(touched_, instance);
  }
  /// Instances that anything is kept of.
  [[nodiscard]] std::size_t instances() const { return books_.size(); }

  [[nodiscard]] bool changed() const { return !touched_.empty(); }
  /// Those whose books have changed since the last call, in that order, each once.
  [[nodiscard]] std::vector<InstanceId> take_changed() { return std::exchange(touched_, {}); }

 private:
  struct Entry {
    RequestId id;
    Instant arrival;
    std::int32_t prompt_tokens = 0;
    bool prompt = false;
    bool moves = false;
  };
  /// What is in one instance, with its sum kept as it changes: reports ask for it far more often than requests move.
  struct Book {
    std::vector<Entry> entries;
    InstanceWork sum;

    void add(const Entry& entry) {
      entries.push_back(entry);
      ++sum.requests;
      sum.context_tokens += entry.prompt_tokens;
      if (!entry.prompt) return;
      ++sum.prompts;
      sum.prompt_tokens += entry.prompt_tokens;
      sum.oldest = std::min(sum.oldest, entry.arrival);
    }
    /// Its prompt is no longer to be computed here.
    void computed(Entry& entry) {
      entry.prompt = false;
      --sum.prompts;
      sum.prompt_tokens -= entry.prompt_tokens;
      if (entry.arrival > sum.oldest) return;
      sum.oldest = Instant::never();
      for (const Entry& other : entries) {
        if (other.prompt) sum.oldest = std::min(sum.oldest, other.arrival);
      }
    }
    /// Its prompt has been computed.
    void erase(std::vector<Entry>::iterator entry) {
      --sum.requests;
      sum.context_tokens -= entry->prompt_tokens;
      entries.erase(entry);
    }
  };
  void add(InstanceId instance, const Entry& entry) {
    books_[instance.value()].add(entry);
    touch(instance);
  }
  void touch(InstanceId instance) {
    if (std::ranges::find(touched_, instance) == touched_.end()) touched_.push_back(instance);
  }
  std::unordered_map<std::int32_t, Book> books_;  ///< by instance
  struct Places {
    InstanceId first = kNoInstance;
    InstanceId second = kNoInstance;  ///< of the second leg
  };
  std::unordered_map<std::int64_t, Places> places_;
  std::vector<InstanceId> touched_;
};

}  // namespace wattle::control
