#pragma once
// SGLang's bootstrap protocol: both legs get the client's body at once, with the same three fields that identify where
// and in which room they meet. Text in, text out.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace wattle::gateway::bootstrap {

/// Rooms are drawn from [0, 2^63).
inline constexpr std::uint64_t kRoomMask = (std::uint64_t{1} << 63U) - 1;

/// The client's body plus bootstrap_host, bootstrap_port (null if unknown: the engines' default) and bootstrap_room;
/// for a batch of prompts, arrays with one entry each. `rooms` is not empty. None if `body` is not a JSON object.
[[nodiscard]] std::optional<std::string> body_for_both(std::string_view body, std::string_view host,
                                                       std::optional<std::uint16_t> port,
                                                       std::span<const std::uint64_t> rooms);

}  // namespace wattle::gateway::bootstrap
