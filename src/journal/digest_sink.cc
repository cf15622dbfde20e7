#include "journal/digest_sink.h"

#include <bit>
#include <iterator>

namespace wattle::journal {
namespace {

// Tags keep a decision and an outcome with equal words apart.
constexpr int kDecisionTag = 1;
constexpr int kOutcomeTag = 2;
constexpr int kPlanTag = 3;

}  // namespace

void DigestSink::decision(const DecisionRecord& record) {
  digest_.add(kDecisionTag);
  digest_.add(record.at.ns());
  digest_.add(static_cast<int>(record.kind));
  digest_.add(static_cast<int>(record.mode));
  digest_.add(record.request.value());
  digest_.add(record.instance.value());
  digest_.add(record.value);
  digest_.add_text(record.reason);
}

void DigestSink::plan(const PlanRecord& record) {
  const Plan& plan = record.plan;
  digest_.add(kPlanTag);
  digest_.add(record.at.ns());
  digest_.add(record.gpus);
  digest_.add_text(record.flaw == nullptr ? plan.reason : record.flaw);
  for (const PlanTarget& t : plan.instances) {
    digest_.add(static_cast<std::int64_t>(t.shape));
    digest_.add(t.count);
    digest_.add(t.node.value_or(NodeId(-1)).value());
    digest_.add(t.pool.value_or(PoolId(-1)).value());
  }
  for (const PoolWeight& w : plan.weights) {
    digest_.add(w.request_class.value());
    digest_.add(w.pool.value());
    digest_.add(std::bit_cast<std::uint64_t>(w.weight));
  }
  for (const ClockRange& range : plan.clocks) {
    digest_.add(range.pool.value());
    digest_.add(range.least.value());
    digest_.add(range.most.value());
  }
  for (const PlanStep& step : plan.steps) {
    digest_.add(static_cast<int>(step.kind));
    for (const InstanceId id : step.from) digest_.add(id.value());
    for (const std::size_t shape : step.to) digest_.add(static_cast<std::int64_t>(shape));
  }
  for (const PlanLevel& level : plan.levels) {
    digest_.add(level.pool.value_or(PoolId(-1)).value());
    digest_.add(level.gpus);
    digest_.add_text(level.reason);
    if (!level.detail.empty()) digest_.add_text(level.detail);
  }
  if (!plan.problem.empty()) digest_.add_text(plan.problem);
}

void DigestSink::outcome(const Outcome& o) {
  digest_.add(kOutcomeTag);
  digest_.add(o.request.id.value());
  digest_.add(o.request.arrival.ns());
  digest_.add(o.request.prompt_tokens);
  digest_.add(o.request.max_tokens);
  digest_.add(o.request.predicted_output_tokens);
  digest_.add(o.request.tenant.value());
  digest_.add(static_cast<int>(o.fate));
  digest_.add_text(o.reason);
  digest_.add(o.dispatched.ns());
  digest_.add(o.prefill_start.ns());
  digest_.add(o.first_token.ns());
  digest_.add(o.left.ns());
  digest_.add(o.output_tokens);
  digest_.add(o.preemptions);
  digest_.add(o.prefill_instance.value());
  digest_.add(o.decode_instance.value());
  const Int128 energy = o.energy.value();
  digest_.add(static_cast<std::int64_t>(energy));
  digest_.add(static_cast<std::int64_t>(energy >> 64));
  digest_.add(std::bit_cast<std::uint64_t>(o.carbon.value()));
  if (!o.metered) digest_.add(0);  // cost follows from energy, time and the scenario's prices
  digest_.add(o.gaps_within_itl);
  const Request& r = o.request;  // only if set, so that digests of unclassified runs do not change
  const std::int64_t nouns[] = {r.request_class.value(), r.tier.value(), r.origin.value(), r.priority};
  for (std::size_t i = 0; i < std::size(nouns); ++i) {
    if (nouns[i] == 0) continue;
    digest_.add(static_cast<int>(i) + 1);
    digest_.add(nouns[i]);
  }
  if (o.cached_prompt_tokens != 0) {  // likewise
    digest_.add(static_cast<int>(std::size(nouns)) + 1);
    digest_.add(o.cached_prompt_tokens);
  }
}

}  // namespace wattle::journal
