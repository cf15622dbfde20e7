#pragma once
// Looks up names again whose addresses have changed, or did not exist yet: on a separate thread, so that a name service
// that does not answer blocks nothing else.
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/client.h"

namespace wattle::net {

class Resolver {
 public:
  using LookUp = std::function<Result<Endpoint>(std::string_view url, std::string_view where)>;
  using Then = std::function<void(Result<Endpoint>)>;

  explicit Resolver(LookUp look_up = resolve_endpoint);
  ~Resolver() { stop(); }
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Blocks.
  [[nodiscard]] Result<Endpoint> now(std::string_view url, std::string_view where) const;
  /// Blocks. A name without an address is not an error: it is logged, and the endpoint remains unresolved.
  [[nodiscard]] Result<Endpoint> now_or_later(std::string_view url, std::string_view where) const;
  /// `then` is called on the resolver's thread; never, if this URL is being looked up already.
  void again(const std::string& url, Then then);
  /// After this no `then` is called; a look-up in progress is abandoned. Not from a `then`.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace wattle::net
