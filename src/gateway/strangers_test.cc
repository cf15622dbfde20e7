// What clients, engines and operators send that is not what one would like.
#include <gtest/gtest.h>

#include "gateway/metrics.h"
#include "gateway/rig_test.h"
#include "net/await_test.h"

namespace wattle::gateway {
namespace {

std::string admin(Rig& rig, const std::string& bytes) {
  net::RawClient client(rig.gateway->admin_port());
  client.send(bytes);
  return client.response();
}

std::string worker(const std::string& url, const std::string& rest = "") {
  return Rig::post(R"({"url":")" + url + "\"" + rest + "}", "/workers");
}

TEST(Strangers, AWorkersUrlChangesNoLineAndNoLabel) {
  Rig rig;
  for (const char* path : {"/a b", "/a\\r\\nX-Mine: 1", "/a\\\"", "/a\\\\", "/\\u0001"}) {
    EXPECT_EQ(admin(rig, worker("http://127.0.0.1:9" + std::string(path))).substr(9, 3), "400") << path;
  }
  GatewayMetrics metrics;
  metrics.worker_failure("a\"b\\c");
  GatewayMetrics::WorkerRow row;
  row.id = InstanceId(0);
  row.url = "a\"b\\c";
  const std::string text = metrics.text({}, {row}, {}, {});
  EXPECT_NE(text.find("worker_failures_total{worker=\"a\\\"b\\\\c\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("worker_up{worker=\"a\\\"b\\\\c\",id=\"0\""), std::string::npos) << text;
}

TEST(Strangers, HeadIsAnsweredAndA405NamesWhatAPathServes) {
  Rig rig;
  const auto ask = [&](const std::string& method, const std::string& path) {
    net::RawClient client(rig.gateway->admin_port());
    client.send(method + " " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    return client.all();
  };
  for (const char* path : {"/workers", "/workers/0", "/metrics", "/usage", "/plan", "/queue", "/health"}) {
    const std::string answer = ask("HEAD", path);
    EXPECT_EQ(answer.substr(9, 3), "200") << path;
    EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << path << answer;
  }
  EXPECT_EQ(ask("HEAD", "/workers/7").substr(9, 3), "404");
  for (const auto& [path, allow] : {std::pair{"/workers", "GET, HEAD, POST"},
                                    {"/workers/0", "GET, HEAD, PUT, DELETE"},
                                    {"/plan", "GET, HEAD, PUT"},
                                    {"/queue", "GET, HEAD, PUT"},
                                    {"/usage", "GET, HEAD"},
                                    {"/journal", "POST"}}) {
    const std::string answer = ask("PATCH", path);
    EXPECT_EQ(answer.substr(9, 3), "405") << path;
    EXPECT_NE(answer.find(std::string("Allow: ") + allow + "\r\n"), std::string::npos) << answer;
  }
  EXPECT_NE(rig.ask("PUT /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").find("Allow: GET, HEAD, OPTIONS\r\n"),
            std::string::npos);
  EXPECT_NE(rig.ask("PUT /v1/completions HTTP/1.1\r\nHost: h\r\n\r\n").find("Allow: POST, OPTIONS\r\n"),
            std::string::npos);
}

TEST(Strangers, AWorkerThatIsThereIsNotAddedAgain) {
  Rig rig;
  const std::string url = rig.upstream.url();
  for (const std::string& same : {url, url + "/", url.substr(7)}) {
    const std::string answer = admin(rig, worker(same));
    EXPECT_EQ(answer.substr(9, 3), "200") << answer;
    EXPECT_NE(answer.find(R"("id":"0")"), std::string::npos) << answer;
  }
  EXPECT_EQ(admin(rig, worker(url, R"(,"worker_type":"decode")")).substr(9, 3), "409");
  EXPECT_EQ(admin(rig, "DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  const std::string again = admin(rig, worker(url));
  EXPECT_EQ(again.substr(9, 3), "202") << again;
  EXPECT_NE(again.find(R"("id":"1")"), std::string::npos) << "the first is leaving";
  EXPECT_EQ(admin(rig, worker(url + "/v2")).substr(9, 3), "202") << "another path, another engine";
}

TEST(Strangers, EnginesGivenAtTheStartStandApart) {
  const auto said = [](std::vector<std::string> urls) {
    std::vector<WorkerOptions> workers;
    for (auto& url : urls) workers.emplace_back().url = std::move(url);
    const auto ok = check_apart(workers, "--worker");
    return ok ? std::string() : ok.error().message();
  };
  EXPECT_EQ(said({"http://h:1", "http://h:2", "http://h:1/x", "h:3"}), "");
  EXPECT_NE(said({"http://h:1", "http://h:2", "h:1/"}).find("h:1/ is said twice"), std::string::npos);
}

TEST(Strangers, APrefillEngineThatHasLeftForbidsNothing) {
  Rig rig;
  const std::string two = Rig::post(R"({"model":"m","messages":[],"n":2,"user":""})");
  const std::string embed = Rig::post(R"({"model":"m","input":"x"})", "/v1/embeddings");
  EXPECT_EQ(rig.ask(two).substr(9, 3), "200");
  EXPECT_EQ(admin(rig, worker("http://127.0.0.1:9", R"(,"worker_type":"prefill")")).substr(9, 3), "202");
  EXPECT_EQ(rig.ask(two).substr(9, 3), "400");
  EXPECT_EQ(rig.ask(embed).substr(9, 3), "501");
  EXPECT_EQ(admin(rig, "DELETE /workers/1 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  EXPECT_EQ(rig.ask(two).substr(9, 3), "200");
  EXPECT_EQ(rig.ask(embed).substr(9, 3), "200");
}

}  // namespace
}  // namespace wattle::gateway
