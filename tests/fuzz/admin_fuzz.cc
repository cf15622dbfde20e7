// Input of the gateway from other processes: agents' responses, planners' records, workers in text and in JSON.
#include "fuzz.h"
#include "gateway/agent_answer.h"
#include "gateway/plan_api.h"
#include "gateway/planner_records.h"
#include "gateway/worker_options.h"

namespace wattle::fuzz {

namespace {

const Instant kNow = Instant() + Span::s(1'000'000);

std::string broken_rule(const gateway::AgentAnswer& answer) {
  if (!answer.now && !answer.decisions.empty()) return "decisions at no time were accepted";
  if (answer.next_decision < 0) return "a negative place in the agent's ring was accepted";
  for (const auto& engine : answer.engines) {
    if (engine.energy_uj.value_or(0) < 0 || engine.power.value() < 0) return "negative energy or power was accepted";
    if (engine.clock.value() < 0 || engine.commanded.value() < 0) return "a negative clock was accepted";
  }
  for (const auto& d : answer.decisions) {
    if (d.clock.value() < 0) return "a negative clock was accepted";
    // What AgentLinks does with the two times; the sanitizer watches.
    const Instant at = d.at + (kNow - *answer.now);
    if (at == Instant::never()) return "a decision at the end of time was accepted";
  }
  return "";
}

std::string broken_rule(const gateway::WorkerOptions& worker, bool starting_allowed) {
  if (worker.url.empty() && !starting_allowed) return "a worker without an address was accepted";
  if (worker.tensor_parallel < 1) return "a worker without GPUs was accepted";
  if (worker.kv_capacity_tokens < 0) return "a negative KV capacity was accepted";
  if (worker.bootstrap_port == 0) return "port 0 was accepted";
  return "";
}

std::string broken_rule(const std::vector<gateway::PlannerRecord>& records) {
  for (const auto& [r, plan, flaw] : records) {
    if (r.at > kNow || r.at < Instant()) return "a record of the future, or of long ago, was accepted";
    if (r.reason == nullptr) return "a record without a reason's text was accepted";
    if (r.value < 0) return "a negative value was accepted";
    const bool phase = r.kind == journal::DecisionKind::Phase;
    if (plan.has_value() != (r.kind == journal::DecisionKind::Plan)) return "a plan that is none was accepted";
    if (flaw != nullptr && !plan) return "a flaw of no plan was accepted";
    if (!phase && !plan && r.kind != journal::DecisionKind::Scaling)
      return "a decision that no planner takes was accepted";
    if (phase && (r.value > static_cast<int>(journal::Phase::Gone) || r.instance.value() < 0)) {
      return "no phase, or nobody's, was accepted";
    }
  }
  return "";
}

std::string broken_rule(const gateway::PutPlan& plan) {
  for (const PoolWeight& w : plan.weights) {
    if (!(w.weight >= 0.0 && w.weight <= 1.0 + 1e-6)) return "a weight that is no share was accepted";
    if (w.request_class.value() < 0 || w.pool.value() < 0) return "a negative id was accepted";
  }
  for (const ClockRange& range : plan.clocks) {
    if (range.least > range.most || range.least < MegaHertz(1)) return "an empty clock range was accepted";
    if (plan.lease <= Span()) return "a clock range without an end was accepted";
  }
  return "";
}

/// A refusal in the API's form.
template <typename T>
Verdict judged(const std::expected<T, net::ApiError>& result, std::string rule) {
  if (result) return {true, std::move(rule)};
  if (result.error().status != 400 || result.error().message.empty())
    return {false, "a refusal without 400 and reason"};
  return {false, ""};
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      R"({"engines":[{"engine":"tcp://h:1","energy_uj":123456,"power_mw":52000,"clock_mhz":1410,"commanded_mhz":1005}],)"
      R"("now_ns":5000000000,"next":3,"decisions":[{"at_ns":4999000000,"engine":"tcp://h:1","mode":"enforce",)"
      R"("clock_mhz":1005,"reason":"because"}]})",
      R"({"engines":[{"engine":"e","energy_uj":null}],"next":0})",
      R"({"url":"http://h:1","worker_type":"prefill","step_reports":"tcp://h:2","tensor_parallel":2,)"
      R"("kv_capacity_tokens":9000,"bootstrap_port":8998})",
      R"({"url":null,"worker_type":"regular","bootstrap_port":null})",
      "http://127.0.0.1:9000=decode,fpm=tcp://127.0.0.1:5557,tp=4",
      "http://h:1=prefill,bootstrap=8998",
      R"({"records":[{"kind":"scaling","age_ms":12.5,"mode":"shadow","gpus":4,"reason":"the rate"},)"
      R"({"kind":"phase","age_ms":0,"mode":"enforce","worker":"3","phase":"draining","reason":"r"}]})",
      R"({"weights":[{"class":0,"pool":3,"weight":0.5}],"clocks":[{"pool":3,"least_mhz":210,"most_mhz":900}],)"
      R"("lease_ms":1000})",
  };
}

Verdict parse(std::string_view input) {
  Verdict all;
  const auto take = [&](const Verdict& one) {
    all.accepted |= one.accepted;
    if (all.broken_rule.empty()) all.broken_rule = one.broken_rule;
  };
  if (const auto answer = gateway::read_agent_answer(input)) take({true, broken_rule(*answer)});
  const auto posted = gateway::read_worker(input);
  take(judged(posted, posted ? broken_rule(*posted, true) : ""));
  const auto records = gateway::read_planner_records(input, kNow);
  take(judged(records, records ? broken_rule(*records) : ""));
  const auto plan = gateway::read_plan(input, 2);
  take(judged(plan, plan ? broken_rule(*plan) : ""));
  const auto text = gateway::parse_worker(input, "fuzz");
  take(text ? Verdict{true, broken_rule(*text, false)} : rejected(text.error(), "fuzz"));
  return all;
}

}  // namespace wattle::fuzz
