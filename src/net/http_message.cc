#include "net/http_message.h"

namespace wattle::net {

namespace {
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
}  // namespace

bool same_letters(std::string_view a, std::string_view b) {
  if (a == b) return true;  // nearly always, where it is the same name at all
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

void HeaderFields::add(std::string_view name, std::string_view value) {
  const auto begin = static_cast<std::uint32_t>(arena_.size());
  const auto length = static_cast<std::uint32_t>(name.size());
  places_.push_back({begin, length, begin + length, static_cast<std::uint32_t>(value.size())});
  lengths_ |= length_bit(name);
  arena_.append(name);
  arena_.append(value);
}

std::string_view HeaderFields::found(std::string_view name) const {
  for (const Place& place : places_) {
    if (place.name_length != name.size()) continue;
    if (same_name({arena_.data() + place.name, place.name_length}, name)) {
      return {arena_.data() + place.value, place.value_length};
    }
  }
  return {};
}

HeaderFields::Field HeaderFields::at(std::size_t i) const {
  const Place& p = places_[i];
  const std::string_view all = arena_;
  return {all.substr(p.name, p.name_length), all.substr(p.value, p.value_length)};
}

std::string_view status_text(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 203:
      return "Non-Authoritative Information";
    case 204:
      return "No Content";
    case 205:
      return "Reset Content";
    case 206:
      return "Partial Content";
    case 300:
      return "Multiple Choices";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 402:
      return "Payment Required";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 425:
      return "Too Early";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 451:
      return "Unavailable For Legal Reasons";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 508:
      return "Loop Detected";
    default:
      return "Status";
  }
}

}  // namespace wattle::net
