#pragma once
// The two legs of vLLM's NIXL pull protocol: prefill first, its kv_transfer_params handed verbatim to decode. Text in,
// text out; other engines' protocols get a file of their own beside this one.
#include <optional>
#include <string>
#include <string_view>

namespace wattle::gateway::nixl {

/// The client's body for the prefill instance: one token, not streamed, with a note that decode happens elsewhere. None
/// if `body` is not a JSON object. Its capacity must exceed its size by RequestParser::kBodyPadding.
[[nodiscard]] std::optional<std::string> prefill_body(const std::string& body);

/// kv_transfer_params of the prefill answer, as opaque text. Empty if the engine returned none: decode then recomputes.
[[nodiscard]] std::string transfer_params(std::string answer);

/// The client's body plus those params; unchanged if there are none.
[[nodiscard]] std::string decode_body(std::string_view body, std::string_view params);

}  // namespace wattle::gateway::nixl
