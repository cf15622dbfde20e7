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

}  // namespace
}  // namespace wattle::planner
