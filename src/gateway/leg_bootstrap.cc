#include "gateway/leg_bootstrap.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace wattle::gateway::bootstrap {

std::optional<std::string> body_for_both(std::string_view body, std::string_view host,
                                         std::optional<std::uint16_t> port, std::span<const std::uint64_t> rooms) {
  const std::size_t end = body.rfind('}');
  if (end == std::string_view::npos || rooms.empty()) return std::nullopt;
  const std::string host_text = nlohmann::json(host).dump();
  const std::string port_text = port ? std::to_string(*port) : "null";
  const auto each = [&](const auto& text_of) {
    if (rooms.size() == 1) return text_of(rooms.front());
    std::string list = "[";
    for (const std::uint64_t room : rooms) list += (list.size() > 1 ? "," : "") + text_of(room);
    return list + "]";
  };
  std::string out(body.substr(0, end));
  out += fmt::format(R"(,"bootstrap_host":{},"bootstrap_port":{},"bootstrap_room":{}}})",
                     each([&](std::uint64_t) { return host_text; }), each([&](std::uint64_t) { return port_text; }),
                     each([&](std::uint64_t room) { return std::to_string(room & kRoomMask); }));
  return out;
}

}  // namespace wattle::gateway::bootstrap
