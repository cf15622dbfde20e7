#include "http_get.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>

namespace wattle::apps {

namespace {
/// The longest legitimate one, PJM's 50,000 rows, takes 5.
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMostBytes) return 0;  // makes libcurl give up
  text.append(bytes, size * count);
  return size * count;
}

int keep_on(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}
}  // namespace

Result<HttpAnswer> http_get(const std::string& url, const std::vector<std::string>& headers, const std::string& basic,
                            Span timeout, const std::stop_token& stop) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);  // once for all threads
  if (ready != CURLE_OK) return external_failure(url, "libcurl does not start");
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
  if (!curl) return external_failure(url, "libcurl does not start");
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> lines(nullptr, &curl_slist_free_all);
  for (const std::string& header : headers) lines.reset(curl_slist_append(lines.release(), header.c_str()));
  HttpAnswer answer;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, lines.get());
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "wattle");
  if (!basic.empty()) curl_easy_setopt(curl.get(), CURLOPT_USERPWD, basic.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.millis()));
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, static_cast<void*>(&answer.body));
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, &keep_on);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, const_cast<void*>(static_cast<const void*>(&stop)));
  if (const CURLcode failed = curl_easy_perform(curl.get()); failed != CURLE_OK) {
    const char* why = failed == CURLE_WRITE_ERROR ? "the answer is larger than 8 MiB" : curl_easy_strerror(failed);
    return external_failure(url, why);
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  curl_off_t retry_after_s = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RETRY_AFTER, &retry_after_s);
  answer.retry_after = Span::s(std::clamp<curl_off_t>(retry_after_s, 0, 86'400));
  return answer;
}

}  // namespace wattle::apps
