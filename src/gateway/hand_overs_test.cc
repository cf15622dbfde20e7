// What first tokens wait between two engines, and who hears of it.
#include <gtest/gtest.h>

#include <future>

#include "gateway/workers.h"
#include "net/clock.h"

namespace wattle::gateway {
namespace {

class Client final : public Stream {
 public:
  explicit Client(net::Loop& loop) : loop_(loop) {}
  net::Loop& loop() override { return loop_; }
  void on_start(const std::shared_ptr<const Worker>&, std::int64_t, const char*) override { started.set_value(); }
  void on_hand_over(const std::shared_ptr<const Worker>&, const char*) override { handed_over.set_value(); }
  void on_refuse(control::Refusal, const char* reason) override { ADD_FAILURE() << reason; }
  void on_withdraw() override {}
  std::promise<void> started, handed_over;

 private:
  net::Loop& loop_;
};

struct Heard {
  InstanceId instance;
  Span age;
  Span wait;
};

TEST(HandOvers, BothEnginesAgentsHearOnceWhatAFirstTokenWaited) {
  net::LoopPool pool(1);
  journal::Sink sink;
  GatewayOptions options;
  options.sites.resize(1);
  options.probe_health = false;
  LiveLedger ledger{options.sites, sink};
  std::vector<Heard> heard;  // on the strand
  WatchOptions watch;
  watch.ledger = &ledger;
  watch.handed_over = [&](InstanceId id, Span age, Span wait) { heard.push_back({id, age, wait}); };
  std::vector<InstanceId> ended;
  watch.finished = [&](InstanceId id, ClassId, bool late) {
    EXPECT_FALSE(late) << "nothing is asked of it";
    ended.push_back(id);
  };
  ControlStrand control({}, 1, {}, watch, ledger);
  WorkerRegistry workers(options, control, nullptr, nullptr, [](const std::shared_ptr<const Worker>&, bool) {});
  for (const Role role : {Role::Prefill, Role::Decode}) {
    WorkerOptions worker;
    worker.url = "http://127.0.0.1:9";
    worker.role = role;
    ASSERT_TRUE(workers.add(worker, "url"));
  }
  Request request;
  request.id = RequestId(5);
  request.arrival = net::steady_now() - Span::ms(80);
  request.prompt_tokens = 100;
  const auto client = std::make_shared<Client>(pool.at(0));
  control.arrive(request, client);
  client->started.get_future().wait();
  control.prefill_done(request.id);
  client->handed_over.get_future().wait();
  const Instant after = net::steady_now();
  control.first_token(request.id);
  control.first_token(request.id);
  control.run_and_wait([&](control::FleetLoop& loop, Instant now) {
    ASSERT_EQ(heard.size(), 2U);
    EXPECT_EQ(heard[0].instance, InstanceId(0));
    EXPECT_EQ(heard[1].instance, InstanceId(1));
    EXPECT_GE(heard[1].age, Span::ms(80));
    EXPECT_LE(request.arrival + heard[1].age, after);
    EXPECT_GT(heard[1].wait, Span());
    EXPECT_LE(request.arrival + heard[1].age + heard[1].wait, now);
    loop.leave(request.id, Fate::Finished, "", {}, now);
    EXPECT_EQ(ended, std::vector{InstanceId(1)}) << "where its last token came from";
  });
  pool.stop();
}

}  // namespace
}  // namespace wattle::gateway
