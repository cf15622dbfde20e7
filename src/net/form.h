#pragma once
// Fields of a multipart form (RFC 7578). Pure; reads the parts' headers, and the bytes between them once.
#include <optional>
#include <string_view>

namespace wattle::net {

/// Whether a Content-Type says that the body is not JSON but a form, audio, images, video or bytes. An absent one does
/// not.
[[nodiscard]] bool is_no_json(std::string_view content_type);
/// Whether a lenient reader could take the bytes for a JSON object or array, in any Unicode encoding.
[[nodiscard]] bool begins_like_json(std::string_view body);
/// The value of the first field of that name among the first 64 parts; none: there is no such field, or this is no
/// multipart form.
[[nodiscard]] std::optional<std::string_view> form_field(std::string_view content_type, std::string_view body,
                                                         std::string_view name);

}  // namespace wattle::net
