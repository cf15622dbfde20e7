#include "workload/copies.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"

namespace wattle::workload {

namespace {

class Copies final : public RequestSource {
 public:
  Copies(std::unique_ptr<RequestSource> from, double copies, Span spread, std::uint64_t seed)
      : from_(std::move(from)), copies_(copies), spread_(spread), random_(seed, "workload.copies") {}

  std::optional<TraceRow> next() override {
    // Nothing that is still to be read can come before what has been read last.
    while (!ended_ && (waiting_.empty() || waiting_.top().row.arrival > read_)) read();
    if (waiting_.empty()) return std::nullopt;
    const TraceRow row = waiting_.top().row;
    waiting_.pop();
    ++yielded_;
    return row;
  }
  [[nodiscard]] WorkloadStats stats() const override {
    WorkloadStats stats = from_->stats();
    stats.rows_yielded = yielded_;
    stats.thinned += thinned_;
    return stats;
  }

 private:
  struct Waiting {
    TraceRow row;
    std::int64_t order = 0;
    bool operator<(const Waiting& o) const { return std::tie(o.row.arrival, o.order) < std::tie(row.arrival, order); }
  };

  void read() {
    const auto row = from_->next();
    if (!row) {
      ended_ = true;
      return;
    }
    read_ = row->arrival;
    const double whole = std::floor(copies_);
    const auto count = static_cast<std::int64_t>(whole) + (random_.uniform() < copies_ - whole ? 1 : 0);
    thinned_ += count == 0 ? 1 : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      TraceRow copy = *row;
      if (i > 0) copy.arrival += Span::from_seconds(random_.uniform() * spread_.seconds());
      waiting_.push({copy, order_++});
    }
  }

  std::unique_ptr<RequestSource> from_;
  double copies_;
  Span spread_;
  RandomStream random_;
  std::priority_queue<Waiting> waiting_;
  Instant read_;
  std::int64_t order_ = 0, yielded_ = 0, thinned_ = 0;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<RequestSource> with_copies(std::unique_ptr<RequestSource> from, double copies, Span spread,
                                           std::uint64_t seed) {
  return std::make_unique<Copies>(std::move(from), copies, spread, seed);
}

}  // namespace wattle::workload
