#include "journal/statistics.h"

#include <algorithm>
#include <array>
#include <span>
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

/// NaN of nothing.
double share_of(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

Span times(Span span, double factor) { return Span::from_seconds(span.seconds() * factor); }

double jain_of(std::span<const double> shares) {
  if (shares.empty()) return std::nan("");
  double sum = 0.0;
  double squares = 0.0;
  for (const double x : shares) {
    sum += x;
    squares += x * x;
  }
  return squares == 0.0 ? 1.0 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

/// Number of its tokens that came within `limit` of its arrival, assumed evenly spaced between the first and the last.
std::int64_t tokens_within(const Outcome& o, Span limit) {
  if (o.output_tokens == 0 || o.ttft() > limit) return 0;
  const std::int64_t gaps = o.output_tokens - 1;
  const std::int64_t took = (o.left - o.first_token).ns();
  if (took <= 0) return o.output_tokens;
  const Int128 whole = Int128{(limit - o.ttft()).ns()} * gaps / took;
  return 1 + static_cast<std::int64_t>(std::min(whole, Int128{gaps}));
}

}  // namespace

Attainment Attainment::of_stated(const Slo& stated) const {
  const auto share = [](double of, const std::optional<Span>& objective) { return objective ? of : std::nan(""); };
  return {share(ttft, stated.ttft), share(itl, stated.itl), share(tbt, stated.tbt), share(e2e, stated.e2e), all};
}

std::vector<std::pair<const char*, double>> RunSummary::unknown_rates() const {
  std::vector<std::pair<const char*, double>> shares;
  for (const auto& [what, joules] : {std::pair{"carbon intensity", energy.unknown_carbon},
                                     std::pair{"price of electricity", energy.unknown_price}}) {
    const double share = joules.value() / energy.total.value();
    if (share > 0.0) shares.emplace_back(what, share);
  }
  return shares;
}

bool RunSummary::did_less_than(const RunSummary& baseline) const {
  constexpr double kEnough = 0.99;
  const auto less = [](std::int64_t ours, std::int64_t base) {
    return static_cast<double>(ours) < kEnough * static_cast<double>(base);
  };
  return less(requests.finished, baseline.requests.finished) || less(tokens.output, baseline.tokens.output);
}

void RunSummary::derive() {
  const double joules = energy.total.value();  // of unknown energy everything is unknown
  tokens_per_joule = joules == 0.0 ? std::nan("") : static_cast<double>(tokens.output) / joules;
  mean_power = Watts(sim.virtual_s > 0.0 ? energy.total.value() / sim.virtual_s : 0.0);
}

RunStatistics::RunStatistics(Objectives objectives, Classifier classes, const std::optional<FairnessBasis>& fairness)
    : objectives_(std::move(objectives)), classes_(std::move(classes)), basis_(fairness) {
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
  if (produced) tokens_.cached_prompt += o.cached_prompt_tokens;

  bool attained = false;
  if (o.fate == Fate::Finished) {
    e2e_.add(o.e2e().ns());
    queue_.add((o.prefill_start - o.request.arrival).ns());
    if (produced) ttft_.add(o.ttft().ns());
    if (produced) waiting_.add(std::max(o.ttft(), o.longest_gap).ns());
    if (basis_ && o.e2e() <= times(basis_->service.latency(o.output_tokens), basis_->limit)) ++in_limit_;
    if (o.output_tokens >= 2) tbt_.add(o.tbt().ns());
    const Kept kept = o.kept(objectives_.of(o.request, o.output_tokens));
    ttft_met_ += kept.ttft ? 1 : 0;
    tbt_met_ += kept.tbt ? 1 : 0;
    e2e_met_ += kept.e2e ? 1 : 0;
    attained = kept.all();
    all_met_ += attained ? 1 : 0;
  }
  count_for_fairness(o, attained);
  const auto c = static_cast<std::size_t>(o.request.request_class.value());
  if (c < by_class_.size()) {
    add(by_class_[c], o, attained);
    const bool finished = o.fate == Fate::Finished;
    const ClassId answered = classes_.of(o.request.prompt_tokens, o.output_tokens, o.request.tier);
    misclassified_ += finished && answered != o.request.request_class ? 1 : 0;
  }
  const auto t = static_cast<std::size_t>(o.request.tier.value());
  if (t < by_tier_.size()) add(by_tier_[t], o, attained);
}

void RunStatistics::count_for_fairness(const Outcome& o, bool attained) {
  if (o.output_tokens > 0) {
    lengths_.add(o.output_tokens);
    if (attained) attained_lengths_.add(o.output_tokens);
    if (basis_) {
      timely_.add(o.output_tokens, tokens_within(o, times(basis_->service.latency(o.output_tokens), basis_->window)));
    }
  }
  std::int32_t tenant = o.request.tenant.value();
  if (tenants_.size() >= kMaxTenants && !tenants_.contains(tenant)) tenant = kOtherTenants;
  Group& group = tenants_[tenant];
  ++group.left;
  if (attained) ++group.attained;
}

std::array<std::int64_t, 4> RunStatistics::by_quartile(const Histogram& of) const {
  // A length bucket belongs to the quartile its cumulative count falls into; buckets are never split.
  std::vector<std::pair<std::int64_t, std::size_t>> bounds;  // bucket's upper length -> quartile
  lengths_.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) {
    bounds.emplace_back(upper, static_cast<std::size_t>(std::min<std::int64_t>(3, (seen - 1) * 4 / lengths_.count())));
  });
  std::array<std::int64_t, 4> counts{};
  std::int64_t before = 0;
  auto bound = bounds.begin();
  of.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) {
    while (bound->first < upper) ++bound;
    counts[bound->second] += seen - before;
    before = seen;
  });
  return counts;
}

double RunStatistics::jain() const {
  std::vector<double> shares;
  if (tenants_.size() > 1) {
    // In id order: a hash map's own order would make the sum's rounding depend on the library.
    std::vector<std::pair<std::int32_t, Group>> ordered(tenants_.begin(), tenants_.end());
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [id, group] : ordered) shares.push_back(share_of(group.attained, group.left));
  } else {
    const auto all = by_quartile(lengths_);
    const auto attained = by_quartile(attained_lengths_);
    for (std::size_t q = 0; q < all.size(); ++q) {
      if (all[q] > 0) shares.push_back(share_of(attained[q], all[q]));
    }
  }
  return jain_of(shares);
}

Fairness RunStatistics::fairness() const {
  Fairness f;
  f.waiting = describe(waiting_, waiting_.mean());
  if (!basis_) return f;
  std::vector<double> clients;
  const auto all = by_quartile(lengths_);
  const auto timely = by_quartile(timely_);
  for (std::size_t q = 0; q < all.size(); ++q) {
    if (all[q] > 0) clients.push_back(static_cast<double>(timely[q]));
  }
  f.jain = jain_of(clients);
  f.violation_rate = 1.0 - share_of(in_limit_, counts_.arrived);
  return f;
}

RunSummary RunStatistics::summary() const {
  WATTLE_CHECK(counts_.arrived >= left(), "every arrival must be counted (add_arrivals) before its outcome");
  RunSummary s;
  s.requests = counts_;
  s.tokens = tokens_;
  s.slo = Attainment{.ttft = share_of(ttft_met_, counts_.arrived),
                     .itl = share_of(within_, gaps_.count()),
                     .tbt = share_of(tbt_met_, counts_.arrived),
                     .e2e = share_of(e2e_met_, counts_.arrived),
                     .all = share_of(all_met_, counts_.arrived)}
              .of_stated(objectives_.strictest());
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
  s.fairness = fairness();
  return s;
}

RunCurves RunStatistics::curves() const {
  return RunCurves{.ttft = thin(ttft_), .itl = thin(gaps_.histogram()), .tbt = thin(tbt_), .e2e = thin(e2e_)};
}

}  // namespace wattle::journal
