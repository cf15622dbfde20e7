// Workers whose names lead to other addresses than they did.
#include "gateway/rig_test.h"

namespace wattle::gateway {
namespace {

constexpr const char* kName = "http://engine.test:8000";

/// What a name service says of one name; at first that it has no address.
class Names {
 public:
  void lead_to(const std::string& url) {
    const std::lock_guard lock(mutex_);
    url_ = url;
  }
  Result<net::Endpoint> look_up(std::string_view where) {
    ++asked;
    const std::lock_guard lock(mutex_);
    if (url_.empty()) return external_failure(std::string(where), "cannot resolve it");
    auto found = net::resolve_endpoint(url_, where);
    found->url = kName;
    return found;
  }
  /// A rig whose worker is said by name.
  std::function<void(GatewayOptions&, GatewayPolicies&)> used() {
    return [this](GatewayOptions& options, GatewayPolicies&) {
      options.probe_health = true;
      options.health_period = Span::ms(20);
      options.probe_timeout = Span::ms(100);
      options.workers.at(0).url = kName;
      options.look_up = [this](std::string_view, std::string_view where) { return look_up(where); };
    };
  }

  std::atomic<int> asked{0};

 private:
  std::mutex mutex_;
  std::string url_;
};

TEST(Names, AWorkerIsFoundAtTheAddressThatItsNameHasNow) {
  Names names;
  Upstream second;
  Rig rig({Role::Colocated}, 64, "", names.used());
  names.lead_to(rig.upstream.url());
  await([&] { return rig.ready(0); });
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
  EXPECT_EQ(rig.upstream.seen_count(), 1);
  names.lead_to(second.url());
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
  EXPECT_EQ(rig.upstream.seen_count(), 2) << "a worker that answers is not moved";
  rig.upstream.hangs = true;  // it is cut off: connections stand, and nothing comes
  rig.upstream.answers_health = false;
  await([&] { return rig.ask(Rig::chat("", false)).substr(9, 3) == "200"; });
  EXPECT_GE(second.seen_count(), 1) << "no connection that was kept to the old address is used";
  rig.settled();
}

TEST(Names, NoWorkerIsFoundWhereNoneMayBe) {
  Names names;
  Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies& policies) {
    names.used()(options, policies);
    ASSERT_TRUE(options.worker_places.add("10.0.0.0/8", "--allow-worker"));
  });
  names.lead_to(rig.upstream.url());
  await([&, before = names.asked.load()] { return rig.upstream.probes > 0 || names.asked >= before + 3; });
  EXPECT_FALSE(rig.ready(0));
  EXPECT_EQ(rig.upstream.probes, 0) << "nothing is sent there";
}

}  // namespace
}  // namespace wattle::gateway
