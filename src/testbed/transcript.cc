#include "testbed/transcript.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text_line.h"

namespace wattle::testbed {

namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? x - 'A' + 'a' : x) == (y >= 'A' && y <= 'Z' ? y - 'A' + 'a' : y);
  });
}

/// Of one section; nothing when it is no response, or was never answered.
std::optional<RecordedAnswer> read_answer(std::string_view text) {
  const std::string_view first = take_line(text);
  if (!first.starts_with("HTTP/1.1 ")) return std::nullopt;
  RecordedAnswer answer;
  const std::string_view status = first.substr(9, 3);
  if (std::from_chars(status.data(), status.data() + status.size(), answer.status).ec != std::errc()) {
    return std::nullopt;
  }
  std::size_t length = std::string::npos;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    if (same_name(line.substr(0, colon), "content-type")) answer.content_type = value;
    if (same_name(line.substr(0, colon), "content-length")) {
      std::from_chars(value.data(), value.data() + value.size(), length);
    }
  }
  answer.body = text.substr(0, length);
  // What curl put between one answer and the next is not the answer's.
  if (length == std::string::npos) answer.body.erase(answer.body.find_last_not_of("\r\n") + 1);
  if (answer.streamed()) answer.body += "\n\n";
  return answer;
}

}  // namespace

Result<Transcript> Transcript::read(const std::string& text, const std::string& name) {
  Transcript transcript;
  std::size_t at = text.find("## ");
  while (at != std::string::npos) {
    std::size_t next = text.find("\n## ", at);
    if (next != std::string::npos) ++next;
    std::string_view section = std::string_view(text).substr(at, next == std::string::npos ? next : next - at);
    const std::string title(take_line(section).substr(3));
    at = next;
    if (std::ranges::all_of(section, [](char c) { return c == '\n' || c == '\r'; })) continue;  // was not answered
    auto answer = read_answer(section);
    if (!answer) return bad_input(name, "section " + title + " is no HTTP response as curl -i shows it");
    transcript.answers_.emplace(title, std::move(*answer));
  }
  if (transcript.answers_.empty()) return bad_input(name, "has no section like \"## health\"");
  return transcript;
}

const RecordedAnswer* Transcript::find(std::string_view name) const {
  const auto found = answers_.find(name);
  return found == answers_.end() ? nullptr : &found->second;
}

std::string_view section_of(std::string_view method, std::string_view path, std::string_view text) {
  if (path == "/health") return "health";
  if (path == "/v1/models") return "models";
  const bool chat = path == "/v1/chat/completions";
  if (!chat && path != "/v1/completions") return "err-path";
  if (method != "POST") return "err-method";
  const auto body = nlohmann::json::parse(text, nullptr, false);
  if (!body.is_object()) return "err-json";
  const auto whole = [&](const char* key, std::int64_t missing) {
    const auto found = body.find(key);
    return found != body.end() && found->is_number_integer() ? found->get<std::int64_t>() : missing;
  };
  const auto set = [](const nlohmann::json& in, const char* key) {
    const auto found = in.is_object() ? in.find(key) : in.end();
    return found != in.end() && found->is_boolean() && found->get<bool>();
  };
  if (body.value("model", nlohmann::json()) == "nope") return "err-model";
  if (chat && !body.contains("messages")) return "err-nomsg";
  if (whole("max_tokens", 1) < 0) return "err-neg";
  if (whole("max_tokens", 1) > 100'000) return "err-long";
  if (set(body, "stream")) {
    if (!chat) return "compl-stream";
    const auto options = body.value("stream_options", nlohmann::json());
    if (set(options, "continuous_usage_stats")) return "chat-stream-contusage";
    return set(options, "include_usage") ? "chat-stream-usage" : "chat-stream-nousage";
  }
  if (!chat) return whole("max_tokens", 1) == 0 ? "maxtok0" : "compl-ids-rid";
  if (whole("n", 1) > 1) return "n2";
  return body.contains("model") ? "chat-plain" : "nomodel";
}

void Transcript::answer(const std::shared_ptr<net::Exchange>& exchange) const {
  const std::string_view named = exchange->headers().get("x-wattle-transcript");
  const auto* recorded =
      find(named.empty() ? section_of(exchange->method(), exchange->path(), exchange->body()) : named);
  if (recorded == nullptr) return exchange->respond(404, "text/plain", "nothing of the kind was recorded\n");
  if (!recorded->streamed()) return exchange->respond(recorded->status, recorded->content_type, recorded->body);
  exchange->begin(recorded->status, recorded->content_type);
  std::string_view rest = recorded->body;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    const std::size_t size = end == std::string_view::npos ? rest.size() : end + 2;
    exchange->write(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  exchange->finish();
}

}  // namespace wattle::testbed
