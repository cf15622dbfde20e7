// Reports over real sockets: three frames, and whatever else a network can bring.
#include <gtest/gtest.h>
#include <zmq.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "board_fixture.h"
#include "net/await_test.h"
#include "net/clock.h"
#include "node/agent.h"
#include "node/gpu/nvml_abi.h"
#include "telemetry/fpm_socket.h"

namespace wattle::live {
namespace {

StepReport decoding(int requests) {
  StepReport r;
  r.shape.decode_requests = requests;
  r.shape.decode_kv_tokens = requests * 100;
  return r;
}

/// Polls until `n` reports are there or it has been long enough.
std::vector<StepReport> receive(telemetry::FpmSubscriber& subscriber, std::size_t n,
                                const std::function<void()>& publish) {
  std::vector<StepReport> got;
  for (int i = 0; i < 2000 && got.size() < n; ++i) {
    publish();
    subscriber.poll(Span::ms(10), net::steady_now, [&](const StepReport& r, Instant) { got.push_back(r); });
  }
  return got;
}

TEST(FpmSocket, CarriesReportsInOrderUnderTheirOwnNumbers) {
  auto publisher = telemetry::FpmPublisher::bind("tcp://127.0.0.1:*", "w");
  ASSERT_TRUE(publisher) << publisher.error().message();
  auto subscriber = telemetry::FpmSubscriber::connect({{publisher->endpoint(), InstanceId(3)}});
  ASSERT_TRUE(subscriber);
  const auto got = receive(*subscriber, 20, [&] { publisher->publish(decoding(7), net::steady_now()); });
  ASSERT_GE(got.size(), 20U);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].instance, InstanceId(3));
    EXPECT_EQ(got[i].shape.decode_requests, 7);
    if (i > 0) {
      EXPECT_EQ(got[i].sequence, got[i - 1].sequence + 1);
    }
  }
  EXPECT_EQ(subscriber->drops(), telemetry::FpmDrops{});
}

TEST(FpmSocket, OneEngineAnEndpointTheNewestIsListenedTo) {
  auto publisher = telemetry::FpmPublisher::bind("tcp://127.0.0.1:*", "w").value();
  auto subscriber = telemetry::FpmSubscriber::connect({{publisher.endpoint(), InstanceId(3)}}).value();
  receive(subscriber, 1, [&] { publisher.publish(decoding(7), net::steady_now()); });
  ASSERT_TRUE(subscriber.add({publisher.endpoint(), InstanceId(4)}));
  EXPECT_EQ(subscriber.sources(), 1U);
  for (const auto& report : receive(subscriber, 5, [&] { publisher.publish(decoding(7), net::steady_now()); })) {
    EXPECT_EQ(report.instance, InstanceId(4));
  }
  subscriber.drop(InstanceId(4));
  EXPECT_EQ(subscriber.sources(), 0U);
  subscriber.poll(Span::ms(1), net::steady_now,
                  [](const StepReport&, Instant) { ADD_FAILURE() << "nobody is listened to"; });
}

TEST(FpmSocket, NonsenseIsCountedAndTheNextReportStillArrives) {
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_PUB);
  ASSERT_EQ(zmq_bind(socket, "tcp://127.0.0.1:*"), 0);
  char endpoint[256];
  std::size_t size = sizeof endpoint;
  zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size);
  auto subscriber = telemetry::FpmSubscriber::connect({{endpoint, InstanceId(0)}});
  ASSERT_TRUE(subscriber);
  std::vector<std::uint8_t> good;
  telemetry::encode_fpm(telemetry::to_fpm(decoding(1), "w", net::steady_now()), good);
  const auto send = [&](std::initializer_list<std::span<const std::uint8_t>> frames) {
    std::size_t left = frames.size();
    for (const auto& f : frames) zmq_send(socket, f.data(), f.size(), --left > 0 ? ZMQ_SNDMORE : 0);
  };
  const std::vector<std::uint8_t> eight(8), none, junk = {0xff, 0x00};
  const auto got = receive(*subscriber, 3, [&] {
    send({good});                                                 // one frame
    send({none, eight, good, good});                              // four
    send({none, junk, good});                                     // a sequence of two bytes
    send({none, eight, std::span(good).first(good.size() / 2)});  // cut off
    send({none, eight, junk});                                    // no message at all
    send({none, eight, good});
  });
  EXPECT_GE(got.size(), 3U);
  EXPECT_GE(subscriber->drops().bad_frames, 6);
  EXPECT_GE(subscriber->drops().truncated, 2);
  EXPECT_GE(subscriber->drops().wrong_shape, 2);
  zmq_close(socket);
  zmq_ctx_term(context);
}

TEST(FpmSocket, BadEndpointsAreErrors) {
  EXPECT_FALSE(telemetry::FpmPublisher::bind("nonsense", "w"));
  EXPECT_FALSE(telemetry::FpmSubscriber::connect({{"nonsense", InstanceId(0)}}));
}

/// Busy: 1005; idle: 210; lost: 1410.
class Scripted final : public policy::FrequencyPolicy {
 public:
  ClockDecision choose(const InstanceView& view, Instant) override {
    const int mhz = view.telemetry == Telemetry::Fresh ? 1005 : view.telemetry == Telemetry::Idle ? 210 : 1410;
    return {MegaHertz(mhz), "scripted", Hold{}};
  }
};

class AgentTest : public BoardFixture {};

TEST_F(AgentTest, ReportsMoveTheClockSilenceRaisesItAndTheEndReleasesIt) {
  auto publisher = telemetry::FpmPublisher::bind("tcp://127.0.0.1:*", "w").value();
  node::AgentOptions options;
  options.keeper.library = FAKE_NVML;
  options.keeper.state_file = path_ + ".state";
  options.keeper.guardian_command = {AGENT_HELPER, "agent-guardian"};
  options.core.lost_after = Span::ms(300);
  std::vector<node::AgentEngine> engines(1);
  engines[0].endpoint = publisher.endpoint();
  engines[0].gpus = {"0", board().uuid(1)};
  engines[0].instance.view.id = InstanceId(0);
  engines[0].instance.policy = std::make_unique<Scripted>();
  journal::Sink sink;
  auto agent = node::Agent::start(options, std::move(engines), sink);
  ASSERT_TRUE(agent) << agent.error().message();
  std::atomic<bool> stop{false};
  std::thread loop([&] { (*agent)->run(stop); });

  const auto reaches = [&](int mhz, const StepReport* report) {
    for (int i = 0; i < 20'000; ++i) {
      if (report != nullptr) publisher.publish(*report, net::steady_now());
      if (board().locked(0) && board().clock(0).ceiling == MegaHertz(mhz) && board().clock(1).ceiling == MegaHertz(mhz))
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  const StepReport busy = decoding(5);
  const StepReport idle;
  EXPECT_TRUE(reaches(1005, &busy));
  EXPECT_TRUE(reaches(210, &idle));
  EXPECT_TRUE(reaches(1005, &busy));
  EXPECT_TRUE(reaches(1410, nullptr)) << "work in flight and silence: the highest clock";
  EXPECT_TRUE((*agent)->ready());
  // The GPU has its clock before the agent knows that it has.
  std::string metrics;
  EXPECT_TRUE(eventually([&] {
    metrics = (*agent)->metrics();
    return metrics.find("wattle_agent_applied_clock_mhz{gpu=\"" + board().uuid(0) + "\"} 1410") != std::string::npos;
  })) << metrics;
  EXPECT_NE(metrics.find("wattle_agent_telemetry_lost_total{instance=\"0\"} "), std::string::npos) << metrics;
  stop = true;
  loop.join();
  EXPECT_TRUE((*agent)->release().empty());
  EXPECT_FALSE(board().locked(0));
  EXPECT_FALSE(board().locked(1));
  agent->reset();
  unlink((path_ + ".state").c_str());
  unlink((path_ + ".state.lock").c_str());
}

/// Neither 0 nor the last value: energy continues once the meters can be read again.
TEST_F(AgentTest, WhatMetersCannotSayIsUnknown) {
  node::AgentOptions options;
  options.keeper.library = FAKE_NVML;
  options.keeper.advisory = true;
  std::vector<node::AgentEngine> engines(2);
  for (const std::size_t i : {0U, 1U}) {
    engines[i].endpoint = "tcp://127.0.0.1:" + std::to_string(1 + i);
    engines[i].gpus = {std::to_string(i)};
    engines[i].instance.view.id = InstanceId(static_cast<std::int32_t>(i));
    engines[i].instance.policy = std::make_unique<Scripted>();
  }
  journal::Sink sink;
  const auto agent = node::Agent::start(options, std::move(engines), sink);
  ASSERT_TRUE(agent) << agent.error().message();
  const auto metered = [&](std::size_t engine) { return (*agent)->engines()[engine].metered; };
  const auto shown = [&](std::int32_t gpu) {
    const std::string metrics = (*agent)->metrics();
    const std::string of = "{gpu=\"" + board().uuid(gpu) + "\"";
    const bool power = metrics.find("wattle_agent_gpu_power_watts" + of) != std::string::npos;
    EXPECT_EQ(power, metrics.find("wattle_agent_gpu_clock_mhz" + of) != std::string::npos);
    return power;
  };
  ASSERT_TRUE(eventually([&] { return metered(0) && metered(1) && shown(0); }));
  board().inject(0, virtual_gpu::FaultPoint::Get, node::nvml::kUnknown);
  EXPECT_TRUE(eventually([&] { return !metered(0) && !shown(0); }));
  EXPECT_TRUE(metered(1) && shown(1));
  board().inject(0, virtual_gpu::FaultPoint::Get, 0);
  EXPECT_TRUE(eventually([&] { return metered(0) && shown(0); }));
}

/// Several engines may name one GPU, and hold it in turn (node/gpu_shares.h); one may not name it twice.
TEST_F(AgentTest, AnEngineNamesAGpuOnce) {
  node::AgentOptions options;
  options.keeper.library = FAKE_NVML;
  options.keeper.state_file = path_ + ".state";
  std::vector<node::AgentEngine> engines(1);
  engines[0].endpoint = "tcp://127.0.0.1:1";
  engines[0].gpus = {"0", board().uuid(0)};
  journal::Sink sink;
  const auto agent = node::Agent::start(options, std::move(engines), sink);
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().kind, ErrorKind::BadInput);
}

}  // namespace
}  // namespace wattle::live
