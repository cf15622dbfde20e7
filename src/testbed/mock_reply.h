#pragma once
// Private to MockApi: what a request is answered. Each of its prompts has a choice, in one body or stream.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/exchange.h"
#include "testbed/mock_dialect.h"

namespace wattle::testbed {

inline constexpr std::string_view kJson = "application/json";
/// Every token is this text: the engine computes times, not language.
inline constexpr std::string_view kWord = " watt";

class MockReply {
 public:
  MockReply(std::shared_ptr<net::Exchange> exchange, Wording words, std::size_t choices, bool stream,
            bool include_usage)
      : exchange_(std::move(exchange)),
        words_(std::move(words)),
        choices_(choices),
        left_(choices),
        stream_(stream),
        include_usage_(include_usage) {}

  /// A choice has one more token. `last`: the finish reason if it is the last; else null.
  void token(std::size_t choice, const char* last);
  /// A choice has all its tokens; with the last one the answer ends. `extra_headers`: of an answer that is not
  /// streamed.
  void finished(std::size_t choice, const char* reason, const Usage& usage, const std::string& extra_headers);
  /// The client has had the beginning of a stream.
  [[nodiscard]] bool begun() const { return begun_; }
  /// Nothing is said any more. False: that was so already.
  [[nodiscard]] bool close() { return !std::exchange(over_, true); }
  /// The rest of a stream whose engine has died.
  void broken(std::string_view message);

 private:
  std::shared_ptr<net::Exchange> exchange_;
  Wording words_;
  std::vector<nlohmann::json> choices_;
  std::size_t left_;
  Usage usage_;
  bool stream_;
  bool include_usage_;
  bool begun_ = false;
  bool over_ = false;
};

}  // namespace wattle::testbed
