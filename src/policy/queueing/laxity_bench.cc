#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "policy/queueing/laxity.h"

namespace wattle::policy {
namespace {

/// Least laxity's queue as the fleet loop uses it: one push and one pop with this many held.
void least_laxity_push_pop(benchmark::State& state) {
  LeastLaxityFirst order{ServiceOptions{}};
  std::vector<std::pair<std::int64_t, std::int64_t>> heap;
  Request request;
  std::int64_t next = 0;
  const auto push = [&] {
    request.arrival = Instant(next * 100'000);
    request.predicted_output_tokens = static_cast<std::int32_t>(1 + next * 7919 % 1000);
    heap.emplace_back(order.key(request, request.arrival), next++);
    std::ranges::push_heap(heap, std::greater<>());
  };
  while (static_cast<std::int64_t>(heap.size()) < state.range(0)) push();
  for (auto _ : state) {
    push();
    std::ranges::pop_heap(heap, std::greater<>());
    benchmark::DoNotOptimize(heap.back());
    heap.pop_back();
  }
}
BENCHMARK(least_laxity_push_pop)->Arg(1'000)->Arg(100'000);

}  // namespace
}  // namespace wattle::policy
