#include "node/gpu/zeusd.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "net/http_parser.h"
#include "net/log.h"

namespace wattle::node {

namespace {

constexpr time_t kPatience_s = 5;  ///< for a part of a response; setting a clock takes the driver milliseconds

class AnswerText final : public net::BodySink {
 public:
  void on_body_piece(std::string_view bytes) override { text.append(bytes.substr(0, kMost - text.size())); }
  std::string text;

 private:
  static constexpr std::size_t kMost = 64 * 1024;
};

class UnixSocket {
 public:
  explicit UnixSocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (fd_ < 0 || path.size() >= sizeof address.sun_path) return;
    std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
    const timeval patience{kPatience_s, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~UnixSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  UnixSocket(const UnixSocket&) = delete;
  UnixSocket& operator=(const UnixSocket&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// 0: the peer has closed; negative: it failed, or patience is over.
  [[nodiscard]] ssize_t receive(std::span<char> to) const {
    ssize_t n = 0;
    do n = ::recv(fd_, to.data(), to.size(), 0);
    while (n < 0 && errno == EINTR);
    return n;
  }

 private:
  int fd_;
  bool connected_ = false;
};

}  // namespace

Zeusd::Zeusd(std::string socket, std::shared_ptr<const GpuLibrary> reading)
    : socket_(std::move(socket)), reading_(std::move(reading)) {
  if (const char* token = std::getenv("ZEUSD_TOKEN")) token_ = token;
}

/// One connection per call: calls are rare, come from several threads, and the daemon may restart between two.
Zeusd::Answer Zeusd::ask(const std::string& method, const std::string& target, const std::string& body) const {
  const UnixSocket socket(socket_);
  if (!socket.connected()) return {};
  std::string request = fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", method, target);
  if (!token_.empty()) request += fmt::format("Authorization: Bearer {}\r\n", token_);
  if (!body.empty()) request += "Content-Type: application/json\r\n";
  if (method == "POST") request += fmt::format("Content-Length: {}\r\n", body.size());
  if (!socket.send(request + "\r\n" + body)) return {};
  AnswerText sink;
  net::ResponseParser parser(16 * 1024, sink);
  std::string pending;
  std::array<char, 4096> buffer{};
  while (!parser.done() && !parser.problem()) {
    const ssize_t n = socket.receive(buffer);
    if (n < 0) return {};
    pending.append(buffer.data(), static_cast<std::size_t>(n));
    for (std::size_t taken = 1; taken > 0 && !parser.done();) {
      taken = parser.feed(pending);
      pending.erase(0, taken);
    }
    if (n == 0) {
      parser.feed_eof();
      break;
    }
  }
  if (!parser.done()) return {};
  return {parser.status(), std::move(sink.text)};
}

Result<std::shared_ptr<const Zeusd>> Zeusd::open(const std::string& socket, std::shared_ptr<const GpuLibrary> reading) {
  const auto count = reading->count();
  if (!count) return std::unexpected(count.error());
  std::shared_ptr<Zeusd> self(new Zeusd(socket, std::move(reading)));
  const Answer found = self->ask("GET", "/discover", "");
  const std::string where = "zeusd at " + socket;
  if (found.status == 0) return external_failure(where, "does not answer; is it running, and may we open its socket?");
  if (found.status == 401 || found.status == 403) {
    return external_failure(where, "rejects the token in ZEUSD_TOKEN");
  }
  if (found.status == 404) {
    self->form_ = Form::PathAndBody;
    return std::shared_ptr<const Zeusd>(std::move(self));
  }
  const auto body = nlohmann::json::parse(found.text, nullptr, false);
  if (found.status != 200 || !body.is_object() || !body.contains("gpu_ids") || !body["gpu_ids"].is_array()) {
    return external_failure(where, fmt::format("answers GET /discover with {}, not as zeusd does", found.status));
  }
  const auto groups = body.find("enabled_api_groups");
  if (groups != body.end() && groups->is_array() && std::ranges::find(*groups, "gpu-control") == groups->end()) {
    return external_failure(where, "does not let GPUs be set; start it with its API group gpu-control");
  }
  if (body["gpu_ids"].size() != *count) {
    return external_failure(where, fmt::format("has {} GPUs, NVML shows {} here: their numbers would not be the same",
                                               body["gpu_ids"].size(), *count));
  }
  return std::shared_ptr<const Zeusd>(std::move(self));
}

Result<Gpu> Zeusd::mine(Result<Gpu> gpu) const {
  if (!gpu) return gpu;
  return Gpu(*this, gpu->device(), {gpu->index(), gpu->uuid(), gpu->name(), gpu->clocks(), gpu->power_reading()});
}

/// Sends a command in this form of the API.
Zeusd::Answer Zeusd::command(Form form, const Gpu& gpu, const std::string& what, const Values& values) const {
  std::string target = form == Form::Query ? fmt::format("/gpu/{}?gpu_ids={}", what, gpu.index())
                                           : fmt::format("/gpu/{}/{}", gpu.index(), what);
  nlohmann::json body{{"block", true}};  // its answer is the driver's
  for (const auto& [name, value] : values) {
    if (form == Form::Query) target += fmt::format("&{}={}", name, value);
    body[name] = value;
  }
  if (form == Form::Query) target += "&block=true";
  return ask("POST", target, form == Form::Query ? "" : body.dump());
}

GpuStatus Zeusd::set(const Gpu& gpu, const std::string& what, const Values& values) const {
  Answer answer = command(form_, gpu, what, values);
  if (answer.status == 404) {
    answer = command(form_ == Form::Query ? Form::PathAndBody : Form::Query, gpu, what, values);
  }
  if (answer.status == 200) return GpuStatus::Ok;
  net::log_line(net::LogLevel::Warning, answer.status == 0 ? "zeusd does not answer" : "zeusd refuses",
                {{"command", what}, {"gpu", gpu.uuid()}, {"status", answer.status}, {"answer", answer.text}});
  // The error texts of nvml-wrapper, which the daemon returns; its status codes have changed between versions.
  const auto says = [&](const char* text) { return answer.text.find(text) != std::string::npos; };
  if (says("not available on the target device")) return GpuStatus::Absent;
  if (says("fallen off the bus")) return GpuStatus::Gone;
  switch (answer.status) {
    case 400:
      return GpuStatus::Refused;
    case 401:
    case 403:
      return GpuStatus::Forbidden;
    case 404:
      return GpuStatus::Absent;
    default:
      return GpuStatus::Transient;
  }
}

GpuStatus Zeusd::lock_clock(const Gpu& gpu, MegaHertz clock) const {
  return set(gpu, "set_gpu_locked_clocks", {{"min_clock_mhz", clock.value()}, {"max_clock_mhz", clock.value()}});
}
GpuStatus Zeusd::reset_clock(const Gpu& gpu) const { return set(gpu, "reset_gpu_locked_clocks", {}); }
GpuStatus Zeusd::set_power_limit(const Gpu& gpu, Milliwatts limit) const {
  return set(gpu, "set_power_limit", {{"power_limit_mw", limit.value()}});
}

}  // namespace wattle::node
