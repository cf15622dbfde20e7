#include "net/resolver.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "net/log.h"

namespace wattle::net {

/// Shared with the thread, which may outlive the resolver while a name service makes it wait.
struct Resolver::State {
  const LookUp look_up;
  std::mutex calling;                 ///< held while a `then` runs
  std::atomic<bool> stopped = false;  ///< set under calling
  std::mutex mutex;
  struct Asked {
    std::string url;
    Then then;
  };
  std::deque<Asked> asked;  ///< the first is being looked up; under mutex, like the next
  bool runs = false;

  explicit State(LookUp l) : look_up(std::move(l)) {}

  void run() {
    for (;;) {
      std::string url;
      {
        const std::lock_guard lock(mutex);
        runs = !asked.empty() && !stopped;
        if (!runs) return;
        url = asked.front().url;
      }
      auto found = look_up(url, url);
      Then then;
      {
        const std::lock_guard lock(mutex);
        then = std::move(asked.front().then);
        asked.pop_front();
      }
      const std::lock_guard lock(calling);
      if (!stopped) then(std::move(found));
    }
  }
};

Resolver::Resolver(LookUp look_up) : state_(std::make_shared<State>(std::move(look_up))) {}

void Resolver::stop() {
  const std::lock_guard lock(state_->calling);
  state_->stopped = true;
}

Result<Endpoint> Resolver::now(std::string_view url, std::string_view where) const {
  return state_->look_up(url, where);
}

Result<Endpoint> Resolver::now_or_later(std::string_view url, std::string_view where) const {
  auto found = now(url, where);
  if (found || found.error().kind != ErrorKind::External) return found;
  log_line(LogLevel::Warning, "a name has no address yet; it is looked up again and again",
           {{"error", found.error().message()}});
  return unresolved_endpoint(url, where);
}

void Resolver::again(const std::string& url, Then then) {
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped) return;
  if (std::ranges::find(state_->asked, url, &State::Asked::url) != state_->asked.end()) return;
  state_->asked.push_back({url, std::move(then)});
  if (std::exchange(state_->runs, true)) return;
  std::thread([state = state_] { state->run(); }).detach();
}

}  // namespace wattle::net
