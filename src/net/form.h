#pragma once
// Fields of a multipart form (RFC 7578). Pure; looks at the parts' headers, and at what is between them once.
#include <optional>
#include <string_view>

namespace wattle::net {

/// Whether a Content-Type says that the body is something else than JSON: a form, sound, pictures, bytes. None says so,
/// too, but of JSON.
[[nodiscard]] bool is_no_json(std::string_view content_type);
/// Whether the bytes could be read as a JSON object or array by a lenient reader, in whatever encoding of Unicode.
[[nodiscard]] bool begins_like_json(std::string_view body);
/// The value of the first field of that name among the first 64 parts; none: it is not there, or this is no such form.
[[nodiscard]] std::optional<std::string_view> form_field(std::string_view content_type, std::string_view body,
                                                         std::string_view name);

}  // namespace wattle::net
