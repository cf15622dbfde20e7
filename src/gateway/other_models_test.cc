// Engines that were started again with another model: they stand at a worker's address and answer its requests with
// 404.
#include <gtest/gtest.h>

#include "gateway/rig_test.h"
#include "gateway/workers.h"

namespace wattle::gateway {
namespace {

TEST(OtherModels, AnEngineThatNoLongerListsItsModelGetsNoRequestsUntilItDoes) {
  Upstream second;
  Rig rig({Role::Colocated, Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
    options.probe_health = true;
    options.health_period = Span::ms(20);
    options.workers.back().url = second.url();
  });
  await([&] { return rig.ready(0) && rig.ready(1); });
  rig.upstream.other_model = true;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200") << "the other engine answers, noticed or not";
  }
  await([&] { return !rig.ready(0); });
  EXPECT_NE(rig.admin("/metrics").find("wattle_gateway_workers_of_other_models 1\n"), std::string::npos);
  const int sent = rig.upstream.seen_count();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
  EXPECT_EQ(rig.upstream.seen_count(), sent);
  rig.upstream.other_model = false;
  await([&] { return rig.ready(0); });
  EXPECT_NE(rig.admin("/metrics").find("wattle_gateway_workers_of_other_models 0\n"), std::string::npos);
  EXPECT_EQ(rig.settled().finished, 8);
}

TEST(OtherModels, APromptThatItsPrefillEngineDoesNotKnowGoesToAnother) {
  for (const PdContract contract : {PdContract::Nixl, PdContract::Bootstrap}) {
    Upstream second;
    Rig rig({Role::Prefill, Role::Prefill, Role::Decode}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
      options.contract = contract;
      options.workers[1].url = options.workers[2].url = second.url();
      for (WorkerOptions& worker : options.workers) worker.bootstrap_port = 9;
    });
    rig.upstream.other_model = true;
    int asked = 0;
    // Where the next one goes hangs on when the last was booked.
    for (; asked < 4 || (rig.upstream.seen_count() == 0 && asked < 200); ++asked) {
      EXPECT_NE(rig.ask(Rig::chat("", true), true).find("[DONE]"), std::string::npos) << static_cast<int>(contract);
    }
    EXPECT_GT(rig.upstream.seen_count(), 0);
    EXPECT_EQ(rig.settled().finished, asked);
  }
}

TEST(OtherModels, AnEngineThatServesUnderAnyNameMayListAnother) {
  Rig rig;
  journal::Sink sink;
  GatewayOptions options;
  options.sites.resize(1);
  options.models = {"m"};
  options.probe_health = false;
  LiveLedger ledger{options.sites, sink};
  ControlStrand control{{}, 1, {}, {{}, nullptr, &ledger}, ledger};
  WorkerRegistry workers{options, control, nullptr, nullptr, [](const std::shared_ptr<const Worker>&, bool) {}};
  WorkerOptions worker;
  worker.url = rig.upstream.url();
  const InstanceId id = workers.add(worker, "url").value();
  const auto accepts = [&] {
    bool accepting = false;
    control.run_and_wait([&](control::FleetLoop& core, Instant) { accepting = core.shown(id).accepting; });
    return accepting;
  };
  workers.lists(id, {"models/llama"});
  EXPECT_TRUE(accepts()) << "it may serve `m` all the same";
  workers.denied_model(id);
  EXPECT_TRUE(accepts());
  workers.lists(id, {"models/llama"});
  EXPECT_FALSE(accepts()) << "it does not";
  workers.probed(id, true);
  EXPECT_FALSE(accepts()) << "though it is healthy";
  workers.lists(id, {});
  EXPECT_FALSE(accepts()) << "which says nothing";
  workers.lists(id, {"n", "m"});
  EXPECT_TRUE(accepts());
  workers.lists(id, {"n"});
  EXPECT_FALSE(accepts()) << "it had it";
}

}  // namespace
}  // namespace wattle::gateway
