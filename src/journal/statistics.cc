#include "journal/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace wattle::journal {
namespace {

/// Tenants beyond this share one group: bounded memory against hostile tenant ids.
constexpr std::size_t kMaxTenants = 4096;
constexpr std::int32_t kOtherTenants = -1;
constexpr double kMillisPerNs = 1e-6;

Distribution describe(const Histogram& h, double mean_ns) {
  const auto at = [&](double q) { return static_cast<double>(h.quantile(q)) * kMillisPerNs; };
  return Distribution{.count = h.count(),
                      .mean_ms = mean_ns * kMillisPerNs,
                      .p50_ms = at(0.50),
                      .p90_ms = at(0.90),
                      .p95_ms = at(0.95),
                      .p99_ms = at(0.99),
                      .max_ms = static_cast<double>(h.max()) * kMillisPerNs};
}

/// Points at least 1/500 apart in share, plus the ends and a finer tail: enough for a plot, however many buckets.
Curve thin(const Histogram& h) {
  Curve curve;
  if (h.count() == 0) return curve;
  const auto total = static_cast<double>(h.count());
  double shown = -1.0;
  h.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) {
    const double share = static_cast<double>(seen) / total;
    const double step = share > 0.98 ? 0.0005 : 0.002;
    if (seen != h.count() && share - shown < step) return;
    curve.emplace_back(static_cast<double>(std::min(upper, h.max())) * kMillisPerNs, share);
    shown = share;
  });
  return curve;
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole);
}

bool met(const std::optional<Span>& limit, Span value) { return !limit || value <= *limit; }

}  // namespace

void RunSummary::derive() {
  const double joules = energy.total.value();  // of unknown energy everything is unknown
  tokens_per_joule = joules > 0.0 || std::isnan(joules) ? static_cast<double>(tokens.output) / joules : 0.0;
  mean_power = Watts(sim.virtual_s > 0.0 ? energy.total.value() / sim.virtual_s : 0.0);
}

RunStatistics::RunStatistics(Objectives objectives, Classifier classes)
    : objectives_(std::move(objectives)), classes_(std::move(classes)), gaps_(objectives_.fleet().itl) {
  for (std::int32_t c = 0; classes_.size() > 1 && c < classes_.size(); ++c) {
    by_class_.emplace_back().counts.name = classes_.name(ClassId(c));
  }
  for (const Tier& tier : objectives_.tiers()) by_tier_.emplace_back().counts.name = tier.name;
}

void RunStatistics::decision(const DecisionRecord& record) {
  if (record.mode != Mode::Enforce) return;
  if (record.kind == DecisionKind::Clock) ++clock_changes_;
  if (record.kind != DecisionKind::Emergency) return;
  std::int64_t* const counts[kRungs] = {&emergency_.reordered, &emergency_.boosted, &emergency_.resteered,
                                        &emergency_.squashed, &emergency_.shed};
  if (record.value >= 0 && record.value < static_cast<std::int64_t>(kRungs)) ++*counts[record.value];
}

void RunStatistics::add(Served& served, const Outcome& o, bool attained) {
  ServiceRow& row = served.counts;
  ++row.left;
  row.finished += o.fate == Fate::Finished ? 1 : 0;
  row.rejected += o.fate == Fate::Rejected ? 1 : 0;
  row.failed += o.fate == Fate::Failed ? 1 : 0;
  row.cancelled += o.fate == Fate::Cancelled ? 1 : 0;
  served.attained += attained ? 1 : 0;
  if (o.fate != Fate::Finished) return;
  served.e2e.add(o.e2e().ns());
  if (o.first_token != Instant::never()) served.ttft.add(o.ttft().ns());
  if (o.output_tokens >= 2) served.tbt.add(o.tbt().ns());
}

std::vector<ServiceRow> RunStatistics::rows(const std::vector<Served>& all) {
  std::vector<ServiceRow> made;
  for (const Served& served : all) {
    ServiceRow& row = made.emplace_back(served.counts);
    row.attainment = share_of(served.attained, row.left);
    row.ttft = describe(served.ttft, served.ttft.mean());
    row.tbt = describe(served.tbt, served.tbt.mean());
    row.e2e = describe(served.e2e, served.e2e.mean());
  }
  return made;
}

void RunStatistics::outcome(const Outcome& o) {
  counts_.leave(o.fate);
  tokens_.output += o.output_tokens;
  counts_.preemptions += o.preemptions;
  if (o.preemptions > 0) ++counts_.preempted;
  const bool produced = o.first_token != Instant::never();
  if (produced) tokens_.prompt += o.request.prompt_tokens;

  bool attained = false;
  if (o.fate == Fate::Finished) {
    e2e_.add(o.e2e().ns());
    queue_.add((o.prefill_start - o.request.arrival).ns());
    if (produced) ttft_.add(o.ttft().ns());
    if (o.output_tokens >= 2) tbt_.add(o.tbt().ns());
    const Slo& slo = objectives_.of(o.request, o.output_tokens);
    const bool ttft_met = met(slo.ttft, produced ? o.ttft() : Span::max());
    const bool tbt_met = met(slo.tbt, o.tbt());
    const bool e2e_met = met(slo.e2e, o.e2e());
    const bool itl_met = met(slo.itl, o.tbt());
    ttft_met_ += ttft_met ? 1 : 0;
    tbt_met_ += tbt_met ? 1 : 0;
    e2e_met_ += e2e_met ? 1 : 0;
    attained = ttft_met && tbt_met && e2e_met && itl_met;
    all_met_ += attained ? 1 : 0;
  }
  count_for_fairness(o, attained);
  const auto c = static_cast<std::size_t>(o.request.request_class.value());
  if (c < by_class_.size()) {
    add(by_class_[c], o, attained);
    const bool finished = o.fate == Fate::Finished;
    const ClassId answered = classes_.of(o.request.prompt_tokens, o.output_tokens);
    misclassified_ += finished && answered != o.request.request_class ? 1 : 0;
  }
  const auto t = static_cast<std::size_t>(o.request.tier.value());
  if (t < by_tier_.size()) add(by_tier_[t], o, attained);
}

void RunStatistics::count_for_fairness(const Outcome& o, bool attained) {
  if (o.output_tokens > 0) {
    lengths_.add(o.output_tokens);
    if (attained) attained_lengths_.add(o.output_tokens);
  }
  std::int32_t tenant = o.request.tenant.value();
  if (tenants_.size() >= kMaxTenants && !tenants_.contains(tenant)) tenant = kOtherTenants;
  Group& group = tenants_[tenant];
  ++group.left;
  if (attained) ++group.attained;
}

double RunStatistics::jain() const {
  double sum = 0.0;
  double squares = 0.0;
  std::int64_t groups = 0;
  const auto add = [&](double x) {
    sum += x;
    squares += x * x;
    ++groups;
  };
  if (tenants_.size() > 1) {
    // In id order: a hash map's own order would make the sum's rounding depend on the library.
    std::vector<std::pair<std::int32_t, Group>> ordered(tenants_.begin(), tenants_.end());
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [id, group] : ordered) add(share_of(group.attained, group.left));
  } else {
    // A length bucket belongs to the quartile its cumulative count falls into; buckets are never split.
    std::array<Group, 4> quartiles{};
    const auto quartile = [&](std::int64_t seen) {
      return static_cast<std::size_t>(
          std::min<std::int64_t>(3, (seen - 1) * 4 / std::max<std::int64_t>(1, lengths_.count())));
    };
    std::vector<std::pair<std::int64_t, std::size_t>> bounds;  // bucket's upper length -> quartile
    std::int64_t before = 0;
    lengths_.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) {
      const std::size_t q = quartile(seen);
      bounds.emplace_back(upper, q);
      quartiles[q].left += seen - before;
      before = seen;
    });
    before = 0;
    auto bound = bounds.begin();
    attained_lengths_.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) {
      while (bound->first < upper) ++bound;
      quartiles[bound->second].attained += seen - before;
      before = seen;
    });
    for (const Group& group : quartiles) {
      if (group.left > 0) add(share_of(group.attained, group.left));
    }
  }
  return squares == 0.0 ? 1.0 : sum * sum / (static_cast<double>(groups) * squares);
}

RunSummary RunStatistics::summary() const {
  WATTLE_CHECK(counts_.arrived >= left(), "every arrival must be counted (add_arrivals) before its outcome");
  RunSummary s;
  s.requests = counts_;
  s.tokens = tokens_;
  s.slo = Attainment{.ttft = share_of(ttft_met_, counts_.arrived),
                     .itl = share_of(gaps_.within(), gaps_.count()),
                     .tbt = share_of(tbt_met_, counts_.arrived),
                     .e2e = share_of(e2e_met_, counts_.arrived),
                     .all = share_of(all_met_, counts_.arrived)};
  s.ttft = describe(ttft_, ttft_.mean());
  s.itl = describe(gaps_.histogram(), gaps_.mean_ns());
  s.tbt = describe(tbt_, tbt_.mean());
  s.e2e = describe(e2e_, e2e_.mean());
  s.queue = describe(queue_, queue_.mean());
  s.clock_changes = clock_changes_;
  s.fairness_jain = jain();
  s.service_by_class = rows(by_class_);
  s.service_by_tier = rows(by_tier_);
  s.misclassified = misclassified_;
  s.emergency = emergency_;
  return s;
}

RunCurves RunStatistics::curves() const {
  return RunCurves{.ttft = thin(ttft_), .itl = thin(gaps_.histogram()), .tbt = thin(tbt_), .e2e = thin(e2e_)};
}

}  // namespace wattle::journal
