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
  bool operator==(const InstanceWork&) const = default;
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
    auto& here = at(instance);
    const auto entry = std::ranges::find(here, id, &Entry::id);
    if (entry == here.end() || !std::exchange(entry->prompt, false)) return;
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
      std::erase_if(at(instance), [id](const Entry& entry) { return entry.id == id; });
      touch(instance);
    }
    places_.erase(found);
  }

  [[nodiscard]] InstanceWork of(InstanceId instance) const {
    InstanceWork work;
    const auto there = entries_.find(instance.value());
    if (there == entries_.end()) return work;
    for (const Entry& entry : there->second) {
      ++work.requests;
      work.context_tokens += entry.prompt_tokens;
      if (!entry.prompt) continue;
      ++work.prompts;
      work.prompt_tokens += entry.prompt_tokens;
      work.oldest = std::min(work.oldest, entry.arrival);
    }
    return work;
  }
  /// Nothing more will be sent there; what is left in it goes uncounted.
  void forget(InstanceId instance) {
    const auto there = entries_.find(instance.value());
    if (there == entries_.end()) return;
    for (const Entry& entry : std::exchange(there->second, {})) {
      Places& places = places_[entry.id.value()];
      if (places.first == instance) places.first = kNoInstance;
      if (places.second == instance) places.second = kNoInstance;
      if (places.first == kNoInstance && places.second == kNoInstance) places_.erase(entry.id.value());
    }
    entries_.erase(instance.value());
    std::erase(touched_, instance);
  }
  /// Instances that anything is kept of.
  [[nodiscard]] std::size_t instances() const { return entries_.size(); }

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
  std::vector<Entry>& at(InstanceId instance) { return entries_[instance.value()]; }
  void add(InstanceId instance, const Entry& entry) {
    at(instance).push_back(entry);
    touch(instance);
  }
  void touch(InstanceId instance) {
    if (std::ranges::find(touched_, instance) == touched_.end()) touched_.push_back(instance);
  }
  std::unordered_map<std::int32_t, std::vector<Entry>> entries_;  ///< by instance
  struct Places {
    InstanceId first = kNoInstance;
    InstanceId second = kNoInstance;  ///< of the second leg
  };
  std::unordered_map<std::int64_t, Places> places_;
  std::vector<InstanceId> touched_;
};

}  // namespace wattle::control
