#include "net/resolver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <semaphore>
#include <thread>

#include "net/await_test.h"

namespace wattle::net {
namespace {

Result<Endpoint> nowhere(std::string_view, std::string_view where) {
  return external_failure(std::string(where), "cannot resolve it");
}

TEST(Resolver, ANameThatLeadsNowhereMayLeadSomewhereLater) {
  const Resolver resolver(nowhere);
  EXPECT_EQ(resolver.now("http://engine:8000/x", "url").error().kind, ErrorKind::External);
  const auto later = resolver.now_or_later("http://engine:8000/x", "url");
  ASSERT_TRUE(later);
  EXPECT_EQ(later->url, "http://engine:8000/x");
  EXPECT_EQ(later->place, "");
  const Resolver strict([](std::string_view url, std::string_view where) { return resolve_endpoint(url, where); });
  EXPECT_EQ(strict.now_or_later("ftp://engine", "url").error().kind, ErrorKind::BadInput) << "is wrong for good";
}

TEST(Resolver, OneURLIsLookedUpOnceAtATimeAndTheNextAfterIt) {
  std::counting_semaphore<> let_go(0);
  std::atomic<int> begun{0}, answered{0};
  Resolver resolver([&](std::string_view url, std::string_view where) {
    ++begun;
    let_go.acquire();
    return nowhere(url, where);
  });
  const auto then = [&](const Result<Endpoint>&) { ++answered; };
  resolver.again("http://a", then);
  resolver.again("http://a", then);
  resolver.again("http://b", then);
  await([&] { return begun == 1; });
  let_go.release(2);
  await([&] { return answered == 2; });
  resolver.again("http://a", then);
  let_go.release();
  await([&] { return answered == 3; });
  EXPECT_EQ(begun, 3);
}

TEST(Resolver, NobodyWaitsForANameServiceThatDoesNotAnswer) {
  const auto let_go = std::make_shared<std::counting_semaphore<>>(0);
  const auto calls = std::make_shared<std::atomic<int>>(0);
  {
    Resolver resolver([let_go](std::string_view url, std::string_view where) {
      let_go->acquire();
      return nowhere(url, where);
    });
    resolver.again("http://a", [calls](const Result<Endpoint>&) { ++*calls; });
    resolver.again("http://b", [calls](const Result<Endpoint>&) { ++*calls; });
  }
  let_go->release(2);
  await([&] { return let_go.use_count() == 1; });  // the thread has ended
  EXPECT_EQ(*calls, 0);
}

}  // namespace
}  // namespace wattle::net
