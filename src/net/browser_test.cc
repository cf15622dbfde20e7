#include "net/browser.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace wattle::net {
namespace {

bool by_page(const std::vector<std::pair<std::string, std::string>>& fields) {
  HeaderFields headers;
  for (const auto& [name, value] : fields) headers.add(name, value);
  return !sent_by_page(headers).empty();
}

TEST(Browser, WhatAPageSendsIsKnown) {
  // A form, or fetch() without CORS, of another page; browsers say null where they hide whose it is.
  EXPECT_TRUE(by_page({{"Host", "127.0.0.1:9100"}, {"Origin", "http://evil.example"}}));
  EXPECT_TRUE(by_page({{"Host", "127.0.0.1:9100"}, {"origin", "null"}}));
  EXPECT_TRUE(by_page({{"Host", "127.0.0.1:9100"}, {"Origin", ""}}));
  // It has pointed its own name here: of the same origin then, as far as the browser sees.
  EXPECT_TRUE(by_page({{"Host", "evil.example:9100"}, {"Origin", "http://evil.example:9100"}}));
  EXPECT_TRUE(by_page({{"Host", "evil.example:9100"}, {"Accept-Language", "en"}}));
  EXPECT_TRUE(by_page({{"Host", "evil.example"}, {"accept-language", ""}})) << "a page can empty it, not leave it out";
  EXPECT_TRUE(by_page({{"Host", "notlocalhost:9100"}, {"Accept-Language", "en"}}));
  EXPECT_TRUE(by_page({{"Host", "localhost.evil.example"}, {"Accept-Language", "en"}}));
  // An image or a script of another page: no Origin.
  EXPECT_TRUE(by_page({{"Host", "127.0.0.1:9100"}, {"Sec-Fetch-Site", "cross-site"}, {"Accept-Language", "en"}}));
  EXPECT_TRUE(by_page({{"Host", "127.0.0.1:9100"}, {"Sec-Fetch-Site", "same-site"}}));
}

TEST(Browser, ProgramsAndPeopleAreNot) {
  EXPECT_FALSE(by_page({})) << "HTTP/1.0";
  EXPECT_FALSE(by_page({{"Host", "127.0.0.1:9100"}, {"User-Agent", "curl/7.88.1"}, {"Accept", "*/*"}}));
  // Prometheus by the name of a Kubernetes service.
  EXPECT_FALSE(by_page({{"Host", "wattle-agent.energy.svc.cluster.local:9100"},
                        {"User-Agent", "Prometheus/2.53.0"},
                        {"Accept-Encoding", "gzip"},
                        {"X-Prometheus-Scrape-Timeout-Seconds", "10"}}));
  for (const char* host :
       {"127.0.0.1:9100", "10.1.2.3", "[::1]:9100", "localhost:9100", "LOCALHOST", "node.localhost"}) {
    EXPECT_FALSE(by_page({{"Host", host}, {"Accept-Language", "en"}, {"Sec-Fetch-Site", "none"}})) << host;
  }
}

}  // namespace
}  // namespace wattle::net
