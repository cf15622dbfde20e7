#pragma once
// Tests only: an instance loop with two instances, a scripted policy, and a port that writes down what it is given.
#include <utility>
#include <vector>

#include "control/instance_loop.h"

namespace wattle::control::instance_rig {

/// 1005 while decoding, 210 while idle, 1410 when lost.
class Scripted final : public policy::FrequencyPolicy {
 public:
  ClockDecision choose(const InstanceView& view, Instant) override {
    switch (view.telemetry) {
      case Telemetry::Fresh:
        return {MegaHertz(view.step.waiting_requests > 0 ? 1410 : 1005), "busy", Hold{}};
      case Telemetry::Idle:
        return {MegaHertz(210), "idle", Hold{}};
      case Telemetry::Lost:
        return {MegaHertz(1410), "lost", Hold{}};
    }
    return {};
  }
};

struct Port final : InstancePort {
  void command(InstanceId id, MegaHertz clock, Instant now) override {
    commands.push_back({id.value(), clock.value(), now.ns()});
  }
  struct Command {
    std::int32_t instance, mhz;
    std::int64_t at;
    bool operator==(const Command&) const = default;
  };
  std::vector<Command> commands;
  void refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant) override {
    model = learner.refitting()(samples);
    ++refits;
  }
  void ask_again(InstanceId, Instant) override { ++asked_again; }
  void asks_idle(InstanceId, Instant at) override { idle_asks.push_back(at); }
  std::vector<Instant> idle_asks;
  void learns(InstanceId instance, const predict::StepSample& sample) override {
    learnt.emplace_back(instance, sample);
  }
  std::vector<std::pair<InstanceId, predict::StepSample>> learnt;
  Result<std::shared_ptr<const LatencyModel>> model;
  int refits = 0;
  int asked_again = 0;
};

struct Rig {
  Rig() : core({Span::s(2)}, port, sink) {
    for (const int id : {4, 7}) {
      LoopInstance i;
      i.view.id = InstanceId(id);
      i.view.clock_commanded = MegaHertz(1410);
      i.policy = std::make_unique<Scripted>();
      core.add(std::move(i));
    }
  }
  void report(int id, std::int64_t sequence, int decoding, std::int64_t at_ms, int waiting = 0) {
    StepReport r;
    r.instance = InstanceId(id);
    r.sequence = sequence;
    r.start = Instant() + Span::ms(at_ms);
    r.shape.decode_requests = decoding;
    r.shape.decode_kv_tokens = decoding * 100;
    r.waiting_requests = waiting;
    core.report(r, r.start);
  }
  Port port;
  journal::Sink sink;
  InstanceLoop core;
};

inline InstanceWork work_of(int requests, int prompts) {
  InstanceWork work;
  work.requests = requests;
  work.prompts = prompts;
  work.context_tokens = 100 * requests;
  work.prompt_tokens = 100 * prompts;
  work.computing = prompts;
  work.computing_tokens = 100 * prompts;
  work.output_tokens = 7;
  return work;
}

}  // namespace wattle::control::instance_rig
