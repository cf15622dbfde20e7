#pragma once
// One HTTP exchange with somebody's admin plane, waited for.
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/client.h"

namespace wattle::launch {

struct AdminAnswer {
  int status = 0;
  std::string body;
};

/// Keeps its connections. One call at a time; from any one thread.
class AdminCaller {
 public:
  AdminCaller();
  ~AdminCaller();
  AdminCaller(const AdminCaller&) = delete;
  AdminCaller& operator=(const AdminCaller&) = delete;

  /// Sent along with every call from now on; empty: none.
  void set_token(std::string_view token) {
    authorization_ = token.empty() ? std::string() : "Authorization: Bearer " + std::string(token) + "\r\n";
  }
  /// `base` as in "http://127.0.0.1:8001". Errors: a URL that does not resolve; no answer within two seconds, or one
  /// above 8 MiB.
  [[nodiscard]] Result<AdminAnswer> call(const std::string& base, std::string_view method, std::string_view target,
                                         std::string body = "");

 private:
  std::string authorization_;  ///< a header line
  net::Loop loop_;
  std::unique_ptr<net::HttpClient> client_;  ///< on the loop only
};

}  // namespace wattle::launch
