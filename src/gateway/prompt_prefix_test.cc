// What a routing policy that goes by prefixes learns of requests.
#include <gtest/gtest.h>

#include "gateway/rig_test.h"
#include "policy/routing/prefix_affinity.h"

namespace wattle::gateway {
namespace {

/// Remembers what it was asked with.
class Recording final : public policy::RoutingPolicy {
 public:
  explicit Recording(std::int32_t tokens) : tokens_(tokens) {}
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                      RandomStream&) override {
    const std::lock_guard lock(mutex);
    asked.push_back(request);
    return {candidates.front()->id, ""};
  }
  [[nodiscard]] std::int32_t reads_prefix() const override { return tokens_; }
  std::mutex mutex;
  std::vector<Request> asked;

 private:
  std::int32_t tokens_;
};

struct PrefixRig {
  explicit PrefixRig(std::int32_t tokens)
      : policy(std::make_shared<Recording>(tokens)),
        rig({Role::Colocated}, 64, "",
            [&](GatewayOptions&, GatewayPolicies& policies) { policies.dispatch.route_prefill = {policy}; }) {}
  Request of(const std::string& body, const std::string& extra = "", const char* path = "/v1/chat/completions") {
    const std::string answer = rig.ask(Rig::post(body, path, extra));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    const std::lock_guard lock(policy->mutex);
    return policy->asked.back();
  }
  std::shared_ptr<Recording> policy;
  Rig rig;
};

std::string turn(const std::string& messages, const std::string& rest = "") {
  return R"({"model":"m","messages":[)" + messages + R"(],"max_tokens":5)" + rest + "}";
}
std::string said(const char* role, const std::string& text) {
  return fmt::format(R"({{"role":"{}","content":"{}"}})", role, text);
}

TEST(PromptPrefix, TurnsOfAConversationBeginAlike) {
  PrefixRig rig(512);
  const std::string system = said("system", std::string(300, 's'));
  const std::string asked = said("user", std::string(200, 'u'));
  const Request first = rig.of(turn(system + "," + asked));
  const Request second =
      rig.of(turn(system + "," + asked + "," + said("assistant", "yes") + "," + said("user", "so?")));
  const Request other = rig.of(turn(system + "," + said("user", std::string(200, 'v'))));
  ASSERT_NE(first.content, nullptr);
  EXPECT_EQ(first.content->block_tokens, kTextBlockTokens);
  const auto& a = first.content->chain;
  const auto& b = second.content->chain;
  const auto& c = other.content->chain;
  ASSERT_EQ(a.size(), 8U) << "of 64 bytes, in the 560 that the messages have";
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin())) << "the second turn goes on where the first ended";
  EXPECT_EQ(a[4], c[4]) << "the same system prompt";
  EXPECT_NE(a[7], c[7]);
  EXPECT_EQ(rig.of(turn(asked)).content->chain.size(), 3U);
  EXPECT_EQ(rig.of(turn(said("user", "hi"))).content, nullptr) << "not one block";
}

TEST(PromptPrefix, OnlyWhatIsLookedAtIsHashed) {
  PrefixRig rig(64);
  const std::string body = R"({"model":"m","prompt":")" + std::string(3000, 'p') + R"(","max_tokens":5})";
  EXPECT_EQ(rig.of(body, "", "/v1/completions").content->chain.size(), 4U);
  PrefixRig none(0);
  const Request request = none.of(body, "X-Session-ID: s1\r\n", "/v1/completions");
  EXPECT_EQ(request.content, nullptr);
  EXPECT_EQ(request.session, 0U);
}

TEST(PromptPrefix, ASessionIsTheClientsWord) {
  PrefixRig rig(512);
  const std::string body = turn(said("user", std::string(100, 'u')));
  const Request named = rig.of(body, "X-Session-ID: s1\r\n");
  EXPECT_NE(named.session, 0U);
  EXPECT_EQ(rig.of(body, "X-SMG-Routing-Key: s1\r\n").session, named.session);
  EXPECT_EQ(rig.of(turn(said("user", "hi"), R"(,"prompt_cache_key":"s1")")).session, named.session);
  EXPECT_NE(rig.of(body, "X-Session-ID: s2\r\n").session, named.session);
  EXPECT_NE(rig.of(body, "X-Session-ID: s1\r\nX-Wattle-Tenant: another\r\n").session, named.session);
  EXPECT_EQ(rig.of(turn(said("user", "hi"), R"(,"prompt_cache_key":null)")).session, 0U);
}

}  // namespace
}  // namespace wattle::gateway
