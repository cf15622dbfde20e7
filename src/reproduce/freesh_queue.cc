// FREESH's Table 5: four disciplines before one fleet of slots, as the paper's own simulation has them (Algorithm 1).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/csv.h"
#include "base/random.h"
#include "policy/queueing/laxity.h"
#include "reproduce/freesh.h"

namespace wattle::reproduce::freesh {

namespace {

constexpr int kConcurrency = 20;
constexpr int kRequests = 100;
constexpr Span kTick = Span::ms(5);
constexpr double kLimit = 5.0;  ///< beta
constexpr std::size_t kClients = 4;

struct QueueType {
  const char* name;
  Span ttft, tbt;  ///< the release's profile of Table 5
  bool long_prompt, long_answer;
};
constexpr std::array<QueueType, 4> kTypes{{{"SS", Span::us(144'490), Span::us(27'340), false, false},
                                           {"SL", Span::us(125'900), Span::us(27'610), false, true},
                                           {"LS", Span::us(140'690), Span::us(37'870), true, false},
                                           {"LL", Span::us(77'990), Span::us(26'270), true, true}}};
constexpr std::array<const char*, 4> kDisciplines{"EDF", "SRTF", "FCFS", "LLF"};
constexpr std::array<int, 3> kRates{5, 15, 25};

/// One request before the slots.
struct Waiting {
  Request request;
  std::vector<Instant> tokens;  ///< when each was done
  Span worked;                  ///< on the next token
  bool running = false;
  [[nodiscard]] bool done() const {
    return static_cast<std::int32_t>(tokens.size()) >= request.predicted_output_tokens;
  }
};

std::int64_t rank(std::size_t discipline, const policy::ServiceOptions& options, const Waiting& w, Instant now) {
  const auto produced = static_cast<std::int32_t>(w.tokens.size());
  switch (discipline) {
    case 0:
      return policy::service_deadline(options, w.request).ns();
    case 1:
      return (policy::service_latency(options, w.request, produced) - w.worked).ns();
    case 2:
      // Without preemption, running requests come first.
      return w.running ? std::numeric_limits<std::int64_t>::min() : w.request.arrival.ns();
    default:
      return (policy::laxity(options, w.request, produced, now) + w.worked).ns();
  }
}

struct Figures {
  double violations = 0.0;  ///< %
  double ttft_s = 0.0;
  double jain = 1.0;
  double max_wait_s = 0.0;
};

Figures judge(const std::vector<Waiting>& all, const policy::ServiceOptions& options) {
  Figures f;
  std::vector<std::size_t> by_length(all.size());
  std::iota(by_length.begin(), by_length.end(), std::size_t{0});
  std::ranges::stable_sort(by_length, {}, [&](std::size_t i) { return all[i].tokens.size(); });
  std::array<double, kClients> timely{};
  for (std::size_t k = 0; k < by_length.size(); ++k) {
    const Waiting& w = all[by_length[k]];
    const Instant limit = policy::service_deadline(options, w.request);
    const auto in_time = std::ranges::upper_bound(w.tokens, limit) - w.tokens.begin();
    timely[k * kClients / by_length.size()] += static_cast<double>(in_time);
    const Span first = w.tokens.front() - w.request.arrival;
    Span longest = first;
    for (std::size_t t = 1; t < w.tokens.size(); ++t) longest = std::max(longest, w.tokens[t] - w.tokens[t - 1]);
    const double latency = policy::service_latency(options, w.request).seconds();
    f.violations += (w.tokens.back() - w.request.arrival).seconds() > kLimit * latency ? 1.0 : 0.0;
    f.ttft_s += first.seconds();
    f.max_wait_s += longest.seconds();
  }
  const double sum = std::accumulate(timely.begin(), timely.end(), 0.0);
  const double squares = std::inner_product(timely.begin(), timely.end(), timely.begin(), 0.0);
  const auto n = static_cast<double>(all.size());
  f.jain = squares > 0.0 ? sum * sum / (static_cast<double>(kClients) * squares) : 1.0;
  f.violations *= 100.0 / n;
  f.ttft_s /= n;
  f.max_wait_s /= n;
  return f;
}

/// At every tick the kConcurrency of smallest rank work, those that run first between equals.
Figures serve(std::size_t discipline, const policy::ServiceOptions& options, const std::vector<Request>& requests) {
  std::vector<Waiting> all;
  for (const Request& r : requests) all.push_back({r, {}, {}, false});
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  std::size_t left = all.size();
  for (Instant now; left > 0; now = now + kTick) {
    order.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].request.arrival > now || all[i].done()) continue;
      order.emplace_back(2 * rank(discipline, options, all[i], now) + (all[i].running ? 0 : 1), i);
      all[i].running = false;
    }
    const auto some = std::min<std::size_t>(order.size(), kConcurrency);
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(some));
    for (std::size_t k = 0; k < some; ++k) {
      Waiting& w = all[order[k].second];
      w.running = true;
      w.worked = w.worked + kTick;
      const Span needed = w.tokens.empty() ? options.ttft : options.tbt;
      if (w.worked < needed) continue;
      w.worked = w.worked - needed;
      w.tokens.push_back(now + kTick);
      left -= w.done() ? 1U : 0U;
    }
  }
  return judge(all, options);
}

/// Lengths of real answers (LMSYS, with Llama) to prompts of this type by partition 2, which the TP8 workers' profile
/// is for.
Result<std::vector<std::int32_t>> answers_of(const QueueType& type) {
  const auto file = published_file("length-stats/apex_llama_lmsys_05.csv");
  if (!file) return std::unexpected(file.error());
  constexpr std::array<std::string_view, 2> kColumns{"input_tokens", "output_tokens"};
  auto csv = CsvReader::open(file->text, file->path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<std::int32_t> answers;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return answers;
    const auto prompt = csv->whole(0, 0, 1'000'000);
    const auto answer = csv->whole(1, 0, 1'000'000);
    if (!prompt) return std::unexpected(prompt.error());
    if (!answer) return std::unexpected(answer.error());
    const bool fits = (*prompt >= 25) == type.long_prompt && (*answer >= 232) == type.long_answer;
    if (fits && *answer > 0) answers.push_back(static_cast<std::int32_t>(*answer));
  }
}

std::vector<Request> arrivals(const std::vector<std::int32_t>& answers, int per_s, std::uint64_t seed) {
  RandomStream random(seed, "freesh.queue");
  std::vector<Request> requests;
  Instant at;
  for (int i = 0; i < kRequests; ++i) {
    Request r;
    r.id = RequestId(i);
    r.arrival = at;
    r.predicted_output_tokens =
        answers[static_cast<std::size_t>(random.uniform() * static_cast<double>(answers.size())) % answers.size()];
    requests.push_back(r);
    at = at + Span::from_seconds(random.exponential() / per_s);
  }
  return requests;
}

constexpr int kDraws = 3;  ///< of arrivals and lengths; figures are their means

Figures mean_of(std::size_t discipline, const policy::ServiceOptions& options, const std::vector<std::int32_t>& answers,
                int per_s) {
  Figures sum{0.0, 0.0, 0.0, 0.0};
  for (int draw = 1; draw <= kDraws; ++draw) {
    const Figures f = serve(discipline, options, arrivals(answers, per_s, static_cast<std::uint64_t>(draw)));
    sum.violations += f.violations / kDraws;
    sum.ttft_s += f.ttft_s / kDraws;
    sum.jain += f.jain / kDraws;
    sum.max_wait_s += f.max_wait_s / kDraws;
  }
  return sum;
}

// Table 5 by type, rate, then discipline: violations %, TTFT s, Jain, longest wait s. Negative: not legible in print.
constexpr double kNone = -1.0;
constexpr double kPublished[4][3][4][4] = {
    {{{0, 0.0, 0.6, 0.0}, {0, 0.0, 0.6, 0.0}, {0, 0.0, 0.6, 0.0}, {0, 0.0, 0.6, 0.0}},
     {{0, 0.7, 0.7, 0.9}, {0, 0.7, 0.7, 0.9}, {11, 1.7, 0.4, 1.7}, {1, 0.7, 0.6, 0.9}},
     {{0, 1.4, 0.8, 1.5}, {0, 1.4, 0.8, 1.5}, {16, 2.5, 0.4, 2.5}, {0, 1.3, 0.6, 1.5}}},
    {{{0, 15.9, 0.9, 17.9}, {0, 13.9, 0.7, 17.0}, {8, 22.9, 0.7, 22.9}, {0, 9.0, 1.0, 9.9}},
     {{0, 19.6, 0.5, 22.6}, {0, 19.4, 0.5, 22.5}, {18, 28.1, 0.8, 28.1}, {0, 4.8, 1.0, 6.6}},
     {{0, 21.6, 0.8, 23.0}, {0, 21.5, 0.8, 23.0}, {15, 29.5, 0.6, 29.5}, {0, 6.9, 1.0, 8.5}}},
    {{{kNone, 0.1, 0.7, 0.1}, {kNone, 0.1, 0.7, 0.1}, {kNone, 0.1, 0.7, 0.1}, {kNone, 0.0, 0.7, 0.1}},
     {{0, 1.5, 0.7, 1.7}, {0, 1.4, 0.7, 1.7}, {29, 3.9, 0.4, 3.9}, {3, 1.3, 0.6, 1.6}},
     {{0, 2.1, 0.8, 2.2}, {0, 2.1, 0.8, 2.2}, {28, 3.7, 0.5, 3.7}, {1, 1.7, 0.7, 1.8}}},
    {{{kNone, 12.4, 1.0, 14.1}, {kNone, 10.9, 0.9, 13.4}, {kNone, 19.2, 0.6, 19.2}, {kNone, 8.5, 0.9, 9.4}},
     {{0, 14.9, 0.6, 19.1}, {0, 14.9, 0.6, 19.1}, {22, 27.9, 0.6, 27.9}, {0, 7.5, 1.0, 9.8}},
     {{0, 17.7, 0.6, 20.4}, {0, 17.8, 0.6, 20.4}, {20, 29.1, 0.6, 29.1}, {0, 7.8, 1.0, 9.7}}}};

void add_figures(Section& section, const std::string& base, const Figures& f, const double (*published)[4]) {
  const auto beside = [&](std::size_t i) {
    return published == nullptr || (*published)[i] < 0.0 ? std::nullopt : std::optional((*published)[i]);
  };
  add(section, base + "/violations", "%", beside(0), f.violations);
  add(section, base + "/ttft", "s", beside(1), f.ttft_s);
  add(section, base + "/jain", "", beside(2), f.jain);
  add(section, base + "/longest_wait", "s", beside(3), f.max_wait_s);
}

}  // namespace

Result<Section> queues() {
  Section section;
  section.source = "Table 5, Figures 17 and 18";
  section.note =
      "The paper's own kind of simulation (Algorithm 1, ticks of 5 ms, progress kept on preemption): 100 requests, 20 "
      "at once, its profile of each type, lengths known. Answers are drawn from real ones of each type (LMSYS prompts, "
      "Llama; the paper's lengths are not published), means of three draws. LLF, EDF and SRTF preempt, FCFS does not. "
      "alpha: least laxity at 15 requests/s with other windows.";
  int calmest = 0, fairest = 0, longs = 0;
  bool fcfs_worst = true;
  for (std::size_t t = 0; t < kTypes.size(); ++t) {
    const QueueType& type = kTypes[t];
    const auto answers = answers_of(type);
    if (!answers) return std::unexpected(answers.error());
    policy::ServiceOptions options;
    options.ttft = type.ttft;
    options.tbt = type.tbt;
    for (std::size_t q = 0; q < kRates.size(); ++q) {
      std::array<Figures, 4> of;
      for (std::size_t d = 0; d < kDisciplines.size(); ++d) {
        of[d] = mean_of(d, options, *answers, kRates[q]);
        add_figures(section, fmt::format("table5/{}/{}_per_s/{}", type.name, kRates[q], kDisciplines[d]), of[d],
                    &kPublished[t][q][d]);
        fcfs_worst = fcfs_worst && of[2].violations >= of[d].violations;
      }
      if (!type.long_answer) continue;
      ++longs;
      calmest += of[3].ttft_s <= std::min({of[0].ttft_s, of[1].ttft_s, of[2].ttft_s}) ? 1 : 0;
      fairest += of[3].jain >= std::max({of[0].jain, of[1].jain, of[2].jain}) - 0.01 ? 1 : 0;
    }
    for (const double alpha : {1.2, 1.4, 1.6, 2.0, 3.0}) {
      options.window = alpha;
      add_figures(section, fmt::format("alpha/{}/{:.1f}", type.name, alpha), mean_of(3, options, *answers, 15),
                  nullptr);
    }
  }
  section.targets = {
      {"Table 5: least laxity has the shortest TTFT of long answers", fmt::format("{} of {}", longs, longs),
       static_cast<double>(calmest), calmest == longs},
      {"Table 5: least laxity is the fairest of long answers", fmt::format("{} of {}", longs, longs),
       static_cast<double>(fairest), fairest == longs},
      {"Table 5: first come first served violates most", "always", fcfs_worst ? 1.0 : 0.0, fcfs_worst},
  };
  return section;
}

}  // namespace wattle::reproduce::freesh
