#include "launch/admin_call.h"

#include <future>
#include <memory>

namespace wattle::launch {

namespace {

constexpr std::size_t kMostBytes = std::size_t{8} << 20;

class Collect final : public net::ResponseHandler {
 public:
  Collect(std::string place, std::string body) : place_(std::move(place)), sent(std::move(body)) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) override { answer_.status = status; }
  void on_body(std::string_view bytes) override {
    too_large_ = too_large_ || answer_.body.size() + bytes.size() > kMostBytes;
    if (!too_large_) answer_.body += bytes;
  }
  void on_end() override {
    if (too_large_) return done.set_value(external_failure(place_, "the answer is larger than 8 MiB"));
    done.set_value(std::move(answer_));
  }
  void on_failure(net::CallFailure failure) override {
    done.set_value(external_failure(place_, net::text_of(failure)));
  }

 private:
  std::string place_;
  AdminAnswer answer_;
  bool too_large_ = false;  ///< the rest is read and dropped, for as long as a call may take

 public:
  std::string sent;  ///< lent to the client until the last call
  std::promise<Result<AdminAnswer>> done;
};

}  // namespace

AdminCaller::AdminCaller() {
  loop_.run([this] { client_ = std::make_unique<net::HttpClient>(loop_, net::ClientOptions::within(Span::s(2))); });
}

AdminCaller::~AdminCaller() {
  loop_.run([this] { client_.reset(); });
  loop_.stop();
}

Result<AdminAnswer> AdminCaller::call(const std::string& base, std::string_view method, std::string_view target,
                                      std::string body) {
  auto endpoint = net::resolve_endpoint(base, base);
  if (!endpoint) return std::unexpected(endpoint.error());
  const auto shared = std::make_shared<const net::Endpoint>(std::move(*endpoint));
  const auto handler = std::make_shared<Collect>(base + std::string(target), std::move(body));
  auto answer = handler->done.get_future();
  loop_.post([&, shared, handler] {
    const char* const type = handler->sent.empty() ? "" : "Content-Type: application/json\r\n";
    client_->send(shared, method, target, type + authorization_, handler->sent, handler);
  });
  return answer.get();
}

}  // namespace wattle::launch
