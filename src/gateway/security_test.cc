// Who may do what: keys, limits, clamps, the admin plane, addresses, memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gateway/limits.h"
#include "gateway/rig_test.h"
#include "net/await_test.h"
#include "net/secret.h"

namespace wattle::gateway {
namespace {

std::string key_row(const std::string& key, const std::string& tenant) {
  return R"({"sha256":")" + net::hex(net::sha256(key)) + R"(","tenant":")" + tenant + "\"}";
}

/// A gateway with a keys file: "alpha" is the key of shop, "beta" of lab.
struct Keyed {
  std::string path = testing::TempDir() + "wattle-keys-" + std::to_string(::getpid()) + ".json";
  std::unique_ptr<KeyRing> ring;
  std::unique_ptr<Rig> rig;

  explicit Keyed(const std::string& tenants, const std::function<void(GatewayOptions&)>& change = nullptr) {
    write(R"({"tenants":)" + tenants + R"(,"keys":[)" + key_row("alpha", "shop") + "," + key_row("beta", "lab") + "]}");
    ring = std::move(*KeyRing::open(path));
    rig = std::make_unique<Rig>(std::vector<Role>{Role::Colocated}, 64, "",
                                [&](GatewayOptions& options, GatewayPolicies&) {
                                  options.keys = ring.get();
                                  if (change) change(options);
                                });
  }
  ~Keyed() {
    rig.reset();
    std::filesystem::remove(path);
  }
  void write(const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }
  std::string ask(const std::string& key, const std::string& extra = "", bool stream = false) {
    return rig->ask(Rig::chat("", stream, "Authorization: Bearer " + key + "\r\n" + extra), stream);
  }
};

TEST(Security, AKeySaysWhoseARequestIs) {
  Keyed keyed("{}");
  EXPECT_EQ(keyed.ask("alpha").substr(9, 3), "200");
  EXPECT_EQ(keyed.rig->ask(Rig::chat("", false, "x-api-key: beta\r\n")).substr(9, 3), "200");
  // RFC 9110, 11.1 and 11.4: the scheme in any case, and blanks.
  for (const char* said : {"bearer alpha", "BEARER  alpha", "Bearer \talpha", "Bearer   alpha  "}) {
    EXPECT_EQ(keyed.rig->ask(Rig::chat("", false, std::string("Authorization: ") + said + "\r\n")).substr(9, 3), "200")
        << said;
  }
  for (const char* said : {"Beareralpha", "Bearer", "Bearer ", "Basic alpha", "alpha"}) {
    EXPECT_EQ(keyed.rig->ask(Rig::chat("", false, std::string("Authorization: ") + said + "\r\n")).substr(9, 3), "401")
        << said;
  }
  EXPECT_EQ(keyed.ask("gamma").substr(9, 3), "401");
  EXPECT_EQ(keyed.ask("").substr(9, 3), "401");
  const std::string none = keyed.rig->ask(Rig::chat("", false));
  EXPECT_EQ(none.substr(9, 3), "401");
  EXPECT_NE(none.find("WWW-Authenticate: Bearer"), std::string::npos);
  EXPECT_NE(none.find("invalid_api_key"), std::string::npos);
  EXPECT_EQ(keyed.ask("alpha", "X-Wattle-Tenant: lab\r\n").substr(9, 3), "403");
  EXPECT_EQ(keyed.rig->ask("GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "401");
  EXPECT_EQ(keyed.rig->ask("GET /health HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "200");
  keyed.rig->settled();
  ASSERT_EQ(keyed.rig->sink.all.size(), 6U);
  EXPECT_NE(keyed.rig->sink.all[0].request.tenant, keyed.rig->sink.all[1].request.tenant);
  const auto usage = nlohmann::json::parse(Rig::body_of(keyed.rig->admin("/usage")));
  EXPECT_EQ(usage["tenants"]["shop"]["requests"], 5) << usage;
  for (const std::string& headers : keyed.rig->upstream.headers) {
    EXPECT_EQ(headers.find("alpha"), std::string::npos) << "a client's key is not for engines";
    EXPECT_EQ(headers.find("beta"), std::string::npos);
  }
}

TEST(Security, AKeyIsTakenAwayWithoutARestart) {
  Keyed keyed("{}");
  EXPECT_EQ(keyed.ask("beta").substr(9, 3), "200");
  keyed.write(R"({"keys":[)" + key_row("alpha", "shop") + "]}");
  await([&] { return keyed.ask("beta").substr(9, 3) == "401"; });
  const auto other = std::move(*KeyRing::open(keyed.path));
  keyed.write("broken");
  EXPECT_TRUE(other->look().has_value());
  EXPECT_FALSE(other->look().has_value()) << "said once";
  EXPECT_NE(other->table()->find("alpha"), nullptr) << "a broken file changes nothing";
  EXPECT_EQ(keyed.ask("alpha").substr(9, 3), "200");
}

TEST(Security, KeysFilesAreReadStrictly) {
  const auto problem = [](const std::string& text) {
    const auto read = KeyTable::read(text, "keys.json");
    return read ? std::string() : read.error().message();
  };
  EXPECT_EQ(problem(R"({"keys":[)" + key_row("k", "t") + "]}"), "");
  for (const char* wrong :
       {"", "[]", R"({"keys":{}})", R"({"keys":[{"sha256":"00","tenant":"t"}]})",
        R"({"keys":[],"tenants":{"t":{"request_per_minute":1}}})", R"({"keys":[],"tenants":{"t":{"concurrent":0}}})",
        R"({"keys":[],"tenants":{"t":{"hints":1}}})", R"({"keys":[],"more":1})"}) {
    EXPECT_NE(problem(wrong).find("keys.json"), std::string::npos) << wrong;
  }
  EXPECT_NE(problem("{\"keys\": [\n}").find("keys.json:2: "), std::string::npos);
  const std::string digest(64, 'a');
  EXPECT_NE(problem(R"({"keys":[{"sha256":")" + digest + "\"}]}").find("keys[0]"), std::string::npos);
}

TEST(Security, ATenantGetsWhatItMayHave) {
  Keyed keyed(R"({"shop":{"requests_per_minute":2},"lab":{"concurrent":1}})");
  EXPECT_EQ(keyed.ask("alpha").substr(9, 3), "200");
  EXPECT_EQ(keyed.ask("alpha").substr(9, 3), "200");
  const std::string third = keyed.ask("alpha");
  EXPECT_EQ(third.substr(9, 3), "429");
  EXPECT_NE(third.find("Retry-After: 30\r\n"), std::string::npos) << third;
  EXPECT_NE(third.find("rate_limit_exceeded"), std::string::npos);
  {
    net::RawClient held(keyed.rig->gateway->port());
    held.send(Rig::chat("park", true, "Authorization: Bearer beta\r\n"));
    held.until("t0");
    EXPECT_EQ(keyed.ask("beta").substr(9, 3), "429");
  }
  keyed.rig->settled();
  EXPECT_EQ(keyed.ask("beta").substr(9, 3), "200") << "its place is free again";
}

TEST(Security, TokensOfPromptsAndAnswersAreLimited) {
  Limits limits;
  TenantTerms terms;
  terms.tokens_per_minute = 600;
  const auto refused = [&](double tokens, Instant now) {
    return limits.enter(terms, TenantId(3), tokens, now).refused != nullptr;
  };
  Instant now = Instant() + Span::s(1);
  {
    const auto first = limits.enter(terms, TenantId(3), 500, now).seat;
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->charged(), 500);
    first->settle(1200);
  }
  EXPECT_TRUE(refused(1, now)) << "600 tokens too many";
  EXPECT_TRUE(refused(1, now + Span::s(59)));
  EXPECT_FALSE(refused(1, now + Span::s(61)));
}

TEST(Security, WhatARequestDidNotTakeIsGivenBack) {
  Limits limits;
  TenantTerms terms;
  terms.tokens_per_minute = 600;
  const Instant now = Instant() + Span::s(1);
  const auto seat = limits.enter(terms, TenantId(3), 5000, now).seat;
  EXPECT_NE(limits.enter(terms, TenantId(3), 1, now).refused, nullptr);
  seat->settle(100);
  seat->settle(100);  // the same again changes nothing
  EXPECT_EQ(limits.enter(terms, TenantId(3), 500, now).refused, nullptr);
  EXPECT_NE(limits.enter(terms, TenantId(3), 1, now).refused, nullptr) << "600 were there";
  seat->settle(-1e9);
  EXPECT_EQ(limits.enter(terms, TenantId(3), 600, now).refused, nullptr);
  EXPECT_NE(limits.enter(terms, TenantId(3), 1, now).refused, nullptr) << "a minute's worth is all that it holds";
}

TEST(Security, LessThanOneRequestAMinuteIsOneNowAndThen) {
  Limits limits;
  TenantTerms terms;
  terms.requests_per_minute = 0.5;
  const Instant now = Instant() + Span::s(1);
  const auto enter = [&](Instant at) { return limits.enter(terms, TenantId(3), 1, at); };
  EXPECT_EQ(enter(now).refused, nullptr);
  const auto second = enter(now + Span::s(60));
  EXPECT_NE(second.refused, nullptr);
  EXPECT_NEAR(second.retry_after.seconds(), 60.0, 0.01);
  EXPECT_EQ(enter(now + Span::s(121)).refused, nullptr);
}

TEST(Security, ATenantsTokensAreThoseThatItsEnginesCount) {
  Keyed keyed(R"({"shop":{"tokens_per_minute":40},"lab":{"tokens_per_minute":40}})");
  const std::string hint = "X-Wattle-Prompt-Tokens: 1\r\n";
  // Streams count 9 of the prompt and 7 of the answer, whatever the hint says: three are 48.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(keyed.ask("alpha", hint, true).substr(9, 3), "200") << i;
    keyed.rig->settled();
  }
  EXPECT_EQ(keyed.ask("alpha", hint).substr(9, 3), "429");
  const auto embed = [&](const std::string& input) {
    const std::string answer = keyed.rig->ask(
        Rig::post(R"({"model":"m","input":)" + input + "}", "/v1/embeddings", "Authorization: Bearer beta\r\n"));
    keyed.rig->settled();
    return answer.substr(9, 3);
  };
  std::string ids = "[1";
  for (int i = 2; i <= 50; ++i) ids += "," + std::to_string(i);
  EXPECT_EQ(embed(ids + "]"), "200");
  EXPECT_EQ(embed("[1]"), "429") << "fifty token ids are fifty tokens";
}

TEST(Security, ARefusedRequestTakesNoTokens) {
  Keyed keyed(R"({"shop":{"tokens_per_minute":40}})");
  const std::string refused = Rig::post(
      R"({"model":"m","messages":[{"role":"user","content":")" + std::string(400, 'x') + R"("}],"user":"refuse"})",
      "/v1/chat/completions", "Authorization: Bearer alpha\r\n");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(keyed.rig->ask(refused).substr(9, 3), "422") << i;
    keyed.rig->settled();
  }
}

TEST(Security, WishesGoAsFarAsTheTermsDo) {
  Keyed keyed(R"({"shop":{"most_priority":3,"tightest_ttft_ms":900,"hints":false}})", [](GatewayOptions& options) {
    options.slo.ttft = Span::ms(500);
    options.service.objectives =
        Objectives(options.slo, {}, {}, {{"gold", {}, 1.0}, {"silver", {}, 2.0}, {"bronze", {}, 6.0}});
  });
  const auto asked = [&](const std::string& key, const std::string& extra) {
    EXPECT_EQ(keyed.ask(key, extra).substr(9, 3), "200");
    keyed.rig->settled();
    const std::lock_guard lock(keyed.rig->sink.mutex);
    return keyed.rig->sink.all.back().request;
  };
  EXPECT_EQ(asked("alpha", "X-SMG-Priority: 50\r\n").priority, 3);
  EXPECT_EQ(asked("alpha", "X-Wattle-Priority: -50\r\n").priority, -50);
  EXPECT_EQ(asked("beta", "X-SMG-Priority: 50\r\n").priority, 0) << "nothing is said of it";
  EXPECT_EQ(asked("alpha", "X-Wattle-Tier: gold\r\n").tier, TierId(1)) << "the strictest it may have";
  EXPECT_EQ(asked("beta", "X-Wattle-Tier: gold\r\n").tier, TierId(0));
  EXPECT_EQ(asked("alpha", "x-llm-d-slo-ttft-ms: 5000\r\n").tier, TierId(2));
  EXPECT_EQ(asked("beta", "x-llm-d-slo-ttft-ms: 1200\r\n").tier, TierId(1));
  EXPECT_EQ(asked("beta", "x-llm-d-slo-ttft-ms: 10\r\n").tier, TierId(0)) << "the best there is";
  EXPECT_EQ(asked("alpha", "X-Wattle-Predicted-Output-Tokens: 77\r\n").predicted_output_tokens, 0);
  EXPECT_EQ(asked("beta", "X-Wattle-Predicted-Output-Tokens: 77\r\n").predicted_output_tokens, 77);
  EXPECT_EQ(keyed.ask("beta", "x-llm-d-slo-ttft-ms: soon\r\n").substr(9, 3), "400");
}

TEST(Security, TheAdminPlaneWantsItsToken) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.admin_token = net::sha256("a secret of some length");
  });
  const auto admin = [&](const std::string& path, const std::string& extra) {
    net::RawClient client(rig.gateway->admin_port());
    client.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n" + extra + "\r\n");
    return client.response().substr(9, 3);
  };
  for (const char* path : {"/metrics", "/usage", "/workers", "/plan", "/workers/0"}) {
    EXPECT_EQ(admin(path, ""), "401") << path;
    EXPECT_EQ(admin(path, "Authorization: Bearer a secret of some lengtH\r\n"), "401") << path;
    EXPECT_EQ(admin(path, "Authorization: bearer a secret of some length\r\n"), "200") << path;
  }
  EXPECT_EQ(admin("/health", ""), "200");
  Rig open;
  net::RawClient page(open.gateway->admin_port());
  page.send(Rig::post(R"({"url":"http://127.0.0.1:1"})", "/workers", "Origin: http://evil.example\r\n"));
  EXPECT_EQ(page.response().substr(9, 3), "403");
  net::RawClient rebound(open.gateway->admin_port());
  rebound.send("GET /usage HTTP/1.1\r\nHost: evil.example\r\nAccept-Language: en\r\n\r\n");
  EXPECT_EQ(rebound.response().substr(9, 3), "403");
}

TEST(Security, NoBodyOfTheAdminPlaneIsNestedDeeply) {
  Rig rig;
  const auto nested = [](std::size_t levels) {
    return R"({"records":[{"kind":"plan","age_ms":1,"mode":"enforce","reason":"[\\\"","now_ns":0,"gpus":1,"plan":{"x":)" +
           std::string(levels, '[') + std::string(levels, ']') + "}}]}";
  };
  const auto said = [&](std::size_t levels) {
    net::RawClient client(rig.gateway->admin_port());
    client.send(Rig::post(nested(levels), "/journal"));
    return client.response();
  };
  EXPECT_NE(said(1'000'000).find("nested deeper than 64 levels"), std::string::npos);
  EXPECT_NE(said(61).find("nested deeper"), std::string::npos) << "with the four around them, and one in a text";
  EXPECT_EQ(said(60).find("nested deeper"), std::string::npos);
}

TEST(Security, OnAUnixSocketTheKernelSaysWhoAsks) {
  const std::string path = testing::TempDir() + "wattle-admin-" + std::to_string(::getpid()) + ".sock";
  const Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
    options.admin_token = net::sha256("a secret of some length");
    options.admin.emplace_back().unix_path = path;
  });
  net::RawClient client(path);
  ASSERT_TRUE(client.connected());
  client.send("GET /usage HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.response().substr(9, 3), "200") << "our own user needs no token";
  net::RawClient tcp(rig.gateway->admin_port());
  tcp.send("GET /usage HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(tcp.response().substr(9, 3), "401");

  net::PeerList peers;
  EXPECT_TRUE(peers.add_user("1234", "").has_value());
  EXPECT_TRUE(peers.add_group("77", "").has_value());
  EXPECT_TRUE(peers.add_user("root", "").has_value());
  EXPECT_FALSE(peers.add_user("no such user", "--admin-user").has_value());
  EXPECT_FALSE(peers.add_group("", "--admin-group").has_value());
  const std::uint32_t other = ::geteuid() + 4321;
  EXPECT_TRUE(peers.allow({::geteuid(), {5}}));
  EXPECT_TRUE(peers.allow({0, {5}}));
  EXPECT_TRUE(peers.allow({1234, {5}}));
  EXPECT_TRUE(peers.allow({other, {5, 77}}));
  EXPECT_FALSE(peers.allow({other, {5}}));
  EXPECT_FALSE(peers.allow({77, {1234}}));
}

TEST(Security, WorkersStandWhereTheyMay) {
  net::AddressList any;
  for (const char* good : {"127.0.0.1", "10.1.2.3", "::1", "2001:db8::1"}) EXPECT_TRUE(any.allow(good)) << good;
  for (const char* bad : {"169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0",
                          "::", "224.0.0.1", "host.example", ""}) {
    EXPECT_FALSE(any.allow(bad)) << bad;
  }
  net::AddressList some;
  EXPECT_TRUE(some.add("10.128.0.0/9", "").has_value());
  EXPECT_TRUE(some.add("fd00::/8", "").has_value());
  EXPECT_TRUE(some.allow("10.200.0.1"));
  EXPECT_FALSE(some.allow("10.0.0.1"));
  EXPECT_TRUE(some.allow("fd12::1"));
  EXPECT_FALSE(some.allow("127.0.0.1"));
  for (const char* wrong : {"10.0.0.0/33", "10.0.0.0/", "ten", "10.0.0.0/8x", ""}) {
    EXPECT_FALSE(some.add(wrong, "--allow-worker").has_value()) << wrong;
  }
  Rig rig;
  net::RawClient client(rig.gateway->admin_port());
  client.send(Rig::post(R"({"url":"http://169.254.169.254/latest"})", "/workers"));
  const std::string answer = client.response();
  EXPECT_EQ(answer.substr(9, 3), "400");
  EXPECT_NE(answer.find("--allow-worker"), std::string::npos) << answer;
  client.send(Rig::post(R"({"url":null,"step_reports":"tcp://169.254.169.254:80"})", "/workers"));
  EXPECT_EQ(client.response().substr(9, 3), "400");
}

}  // namespace
}  // namespace wattle::gateway
