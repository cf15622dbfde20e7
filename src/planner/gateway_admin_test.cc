#include "planner/gateway_admin.h"

#include <gtest/gtest.h>

#include <atomic>

#include "net/server.h"

namespace wattle::planner {
namespace {

TEST(GatewayAdmin, WhatIsWrongIsApartFromWhatMayGoBetterLater) {
  net::LoopPool pool(1);
  std::atomic<int> status{200};
  auto server = net::HttpServer::listen(
      pool, {}, [&status](std::shared_ptr<net::Exchange> e) { e->respond(status, "application/json", "{}"); });
  ASSERT_TRUE(server);
  GatewayAdmin gateway("http://127.0.0.1:" + std::to_string((*server)->port()));
  const auto records = nlohmann::ordered_json::array();
  using enum GatewayAdmin::Answer;
  for (const auto& [said, means] : {std::pair{200, Done},
                                    {400, Refused},
                                    {409, Refused},
                                    {413, Refused},
                                    {401, Failed},
                                    {404, Unknown},
                                    {429, Failed},
                                    {500, Failed},
                                    {503, Failed}}) {
    status = said;
    EXPECT_EQ(gateway.record(records), means) << said;
  }
  (*server)->stop(Span());
  pool.stop();
  EXPECT_EQ(gateway.record(records), Failed) << "nobody answers";
}

/// Of two, a gateway follows the newer one.
TEST(GatewayAdmin, APlannerHasANameOfItsOwn) {
  net::LoopPool pool(1);
  std::vector<std::string> names;
  auto server = net::HttpServer::listen(pool, {}, [&names](std::shared_ptr<net::Exchange> e) {
    names.push_back(nlohmann::json::parse(e->body()).at("planner").get<std::string>());
    e->respond(200, "application/json", "{}");
  });
  ASSERT_TRUE(server);
  const std::string url = "http://127.0.0.1:" + std::to_string((*server)->port());
  GatewayAdmin first(url), second(url);
  for (GatewayAdmin* const planner : {&first, &second, &first}) {
    EXPECT_EQ(planner->put_plan({}, {}, Span::s(60)), GatewayAdmin::Answer::Done);
  }
  (*server)->stop(Span());
  pool.stop();
  ASSERT_EQ(names.size(), 3U);
  EXPECT_FALSE(names[0].empty());
  EXPECT_EQ(names[2], names[0]);
  EXPECT_NE(names[1], names[0]);
}

/// A gateway that has restarted counts its workers from 0 again, whosever they are.
TEST(GatewayAdmin, AWorkerThatStandsElsewhereIsAnother) {
  net::LoopPool pool(1);
  std::string url;
  auto server = net::HttpServer::listen(pool, {}, [&url](std::shared_ptr<net::Exchange> e) {
    e->respond(200, "application/json", R"({"id":"0","status":"ready","active_requests":3,"url":")" + url + R"("})");
  });
  ASSERT_TRUE(server);
  GatewayAdmin gateway("http://127.0.0.1:" + std::to_string((*server)->port()));
  for (const auto& [stands, ours] : {std::pair{"", ""}, {"", "http://h:1"}, {"http://h:1", "http://h:1"}}) {
    url = stands;
    const auto seen = gateway.look("0", ours);
    EXPECT_TRUE(seen.answer == GatewayAdmin::Answer::Done && seen.active_requests == 3) << stands << ours;
  }
  for (const auto& [stands, ours] : {std::pair{"http://h:2", "http://h:1"}, {"http://h:2", ""}}) {
    url = stands;
    const auto seen = gateway.look("0", ours);
    EXPECT_TRUE(seen.answer == GatewayAdmin::Answer::Unknown && seen.status.empty()) << stands << ours;
  }
  (*server)->stop(Span());
  pool.stop();
}

}  // namespace
}  // namespace wattle::planner
