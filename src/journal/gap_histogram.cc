#include "journal/gap_histogram.h"

#include <algorithm>

#include "base/check.h"

namespace wattle::journal {
namespace {

/// The same durations in ascending order.
struct Ascending {
  std::int64_t first;
  std::int64_t increment;
};

Ascending ascending(std::int64_t first, std::int64_t increment, std::int64_t steps) {
  std::int64_t last = 0;
  const bool fits = !__builtin_mul_overflow(increment, steps - 1, &last) && !__builtin_add_overflow(last, first, &last);
  WATTLE_CHECK(fits && first >= 0 && last >= 0, "gap durations must lie in [0, 2^63) fixed-point ns");
  return increment < 0 ? Ascending{last, -increment} : Ascending{first, increment};
}

/// Number of `steps` ascending durations that are below `bound`. Unsigned, because the bound may reach 2^63 x 129/128.
std::int64_t below(const Ascending& a, std::int64_t steps, std::uint64_t bound) {
  const auto first = static_cast<std::uint64_t>(a.first);
  if (first >= bound) return 0;
  if (a.increment == 0) return steps;
  const std::uint64_t reach = (bound - 1 - first) / static_cast<std::uint64_t>(a.increment) + 1;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(reach, static_cast<std::uint64_t>(steps)));
}

/// The first fixed-point duration whose whole nanoseconds exceed `ns`; saturates above every representable duration.
std::uint64_t bound_above(std::int64_t ns) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << (64 - kGapFractionBits - 1);
  if (ns < 0) return 0;
  const auto next = static_cast<std::uint64_t>(ns) + 1;
  return next >= kLargest + kLargest / 64 ? ~std::uint64_t{0} : next << kGapFractionBits;
}

}  // namespace

void GapHistogram::add(Span gap, std::int64_t count) {
  if (count <= 0) return;
  WATTLE_CHECK(gap >= Span(), "a token gap is never negative");
  add(gap.ns(), Int128{gap.ns()} << kGapFractionBits, count);
}

void GapHistogram::add(std::int64_t ns, const Int128& fixed, std::int64_t count) {
  histogram_.add(ns, count);
  sum_ += fixed * count;
}

void GapHistogram::add_affine(std::int64_t first, std::int64_t increment, std::int64_t steps, std::int64_t count) {
  if (steps <= 0 || count <= 0) return;
  if (steps == 1 && first >= 0) return add(first >> kGapFractionBits, first, count);
  const Ascending a = ascending(first, increment, steps);
  sum_ += (Int128{a.first} * steps + Int128{a.increment} * steps * (steps - 1) / 2) * count;

  std::int64_t done = 0;
  while (done < steps) {
    const Ascending rest{a.first + done * a.increment, a.increment};
    const std::size_t bucket = Histogram::index(rest.first >> kGapFractionBits);
    const std::int64_t here = below(rest, steps - done, bound_above(Histogram::upper(bucket)));
    // Each bucket counts with its largest duration, so that the histogram's maximum stays exact.
    histogram_.add((rest.first + (here - 1) * a.increment) >> kGapFractionBits, here * count);
    done += here;
  }
}

double GapHistogram::mean_ns() const {
  if (count() == 0) return 0.0;
  constexpr double kScale = 1.0 / static_cast<double>(1 << kGapFractionBits);
  return static_cast<double>(sum_) * kScale / static_cast<double>(count());
}

}  // namespace wattle::journal
