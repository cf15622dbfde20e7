// Workers that are added and leave all the time, for long.
#include <gtest/gtest.h>

#include "gateway/workers.h"
#include "policy/admission/always.h"

namespace wattle::gateway::turnover_test {
namespace {

struct Rig {
  journal::Sink sink;
  GatewayOptions options = [] {
    GatewayOptions o;
    o.sites.resize(1);
    o.probe_health = false;
    return o;
  }();
  LiveLedger ledger{options.sites, sink};
  ControlStrand control{{}, 1, {}, {{}, nullptr, &ledger}, ledger};
  WorkerRegistry workers{options, control, nullptr, nullptr, [](const std::shared_ptr<const Worker>&, bool) {}};

  InstanceId add() {
    WorkerOptions worker;
    worker.url = "http://127.0.0.1:9";
    return workers.add(worker, "url").value();
  }
  [[nodiscard]] std::size_t kept() {
    std::size_t kept = 0;
    control.run_and_wait(
        [&](control::FleetLoop&, Instant) { kept = std::max(control.instances_kept(), workers.states().size()); });
    return kept;
  }
};

TEST(Turnover, WhatIsKeptIsBoundedByTheWorkersThatAreThere) {
  Rig rig;
  constexpr int kAll = 3'000;
  for (std::int32_t i = 0; i < kAll; ++i) {
    const InstanceId id = rig.add();
    ASSERT_EQ(id, InstanceId(i)) << "ids never come back";
    rig.control.run([&rig, id](control::FleetLoop&, Instant now) { rig.workers.forget(id, now); });
  }
  EXPECT_EQ(rig.kept(), 0U);
  rig.workers.probed(InstanceId(7), true);
  rig.workers.refused_connection(InstanceId(8));
  rig.workers.remove(InstanceId(9));
  EXPECT_FALSE(rig.workers.take_back(InstanceId(9), "http://127.0.0.1:9")) << "gone for good";
  rig.control.reading({InstanceId(10), Picojoules(1), {}, {}, {}, Instant()});
  StepReport report;
  report.instance = InstanceId(11);
  rig.control.report(report, Instant());
  rig.control.tick();
  EXPECT_EQ(rig.kept(), 0U) << "and what is said of them is ignored";
}

TEST(Turnover, OfThoseThatWereTakenOutTheNewestMayComeBack) {
  Rig rig;
  for (int i = 0; i < 1'500; ++i) rig.workers.remove(rig.add());
  EXPECT_LT(rig.kept(), 300U);
  EXPECT_TRUE(rig.workers.take_back(InstanceId(1'499), "")) << "it was the last";
  EXPECT_FALSE(rig.workers.take_back(InstanceId(0), ""));
}

}  // namespace
}  // namespace wattle::gateway::turnover_test
