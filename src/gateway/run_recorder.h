#pragma once
// The live journal: the same files as a simulated run's, written by a separate thread. A caller only puts a record into
// a bounded queue; if the disk is slower than that, records are dropped and counted. Records are handed to the system
// within a second, so that they survive this process; a failed write is reported at once.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "journal/run_directory.h"
#include "journal/statistics.h"

namespace wattle::gateway {

class RunRecorder final : public journal::Sink {
 public:
  struct Options {
    std::size_t queue = 1 << 16;  ///< records waiting to be written
    /// Decisions of other processes arrive late: younger ones wait this long, so that the file is in order of time.
    Span hold_back = Span::ms(300);
    /// The same for samples: an agent's are late by its poll and the transfer, and several agents' are interleaved.
    /// Later ones are dropped and counted.
    Span hold_back_samples = Span::s(2);
    Span checkpoint = Span::ms(500);  ///< how often records are handed to the system
  };
  /// Times are written relative to this call. Errors: the directory cannot be written.
  [[nodiscard]] static Result<std::unique_ptr<RunRecorder>> open(const std::string& directory,
                                                                 const journal::RunFacts& facts, Options options);
  [[nodiscard]] static Result<std::unique_ptr<RunRecorder>> open(const std::string& directory,
                                                                 const journal::RunFacts& facts) {
    return open(directory, facts, Options());
  }
  ~RunRecorder() override;  ///< without close(): records are written, run.json is not

  // From any thread, concurrently. Never waits for the disk.
  void joined(const journal::Instance& facts) override;
  void decision(const journal::DecisionRecord& record) override { put(decisions_, record); }
  void plan(const journal::PlanRecord& record) override {
    put(plans_, {record.at, record.mode, record.plan, record.gpus, record.flaw});
  }
  void outcome(const Outcome& outcome) override { put(outcomes_, outcome); }
  void sample(const journal::Sample& sample) override { put(samples_, sample); }
  [[nodiscard]] std::int64_t dropped() const { return dropped_; }
  /// The first failed write, for people; empty: none. Any thread.
  [[nodiscard]] std::string problem() const;
  /// Called on the writing thread at each checkpoint until close(); must stay valid until then.
  void ask_consumption(std::function<journal::Consumption()> consumption);

  /// Writes the rest, then run.json. All gaps of a request are assumed to equal its mean gap: of single gaps, only the
  /// number within the objective is recorded. Errors: the first failed write. Call once, after the last record.
  [[nodiscard]] Result<void> close(const journal::Consumption& consumption);

 private:
  RunRecorder(std::unique_ptr<journal::RunWriter> writer, const journal::RunFacts& facts, Options options);

  /// A journal::PlanRecord with its plan.
  struct Planned {
    Instant at;
    Mode mode;
    Plan plan;
    std::int64_t gpus;
    const char* flaw;
  };

  template <typename Record>
  void put(std::vector<Record>& queue, const std::type_identity_t<Record>& record) {
    const std::lock_guard lock(mutex_);
    if (joined_.size() + decisions_.size() + plans_.size() + outcomes_.size() + samples_.size() >= options_.queue) {
      ++dropped_;
      return;
    }
    queue.push_back(record);
  }
  void run();
  void write(bool all);
  void write_plans(Instant before);
  void write_samples(const std::vector<journal::Sample>& samples, bool all);
  void checkpoint();
  [[nodiscard]] journal::RunSummary summary_at(Instant end, const journal::Consumption& consumption) const;
  void stop();
  [[nodiscard]] Instant since_start(Instant at) const {
    return at == Instant::never() ? at : at - (origin_ - Instant());
  }

  Options options_;
  std::unique_ptr<journal::RunWriter> writer_;
  Instant origin_;
  std::string recipe_;
  mutable std::mutex mutex_;  ///< guards the queues, stop_, problem_, consumption_
  std::vector<journal::Instance> joined_;
  std::vector<journal::DecisionRecord> decisions_;
  std::vector<Planned> plans_;
  std::vector<Outcome> outcomes_;
  std::vector<journal::Sample> samples_;
  bool stop_ = false;
  std::string problem_;
  std::function<journal::Consumption()> consumption_;
  std::condition_variable wake_;
  std::atomic<std::int64_t> dropped_{0};

  // Used by the writing thread only.
  Instant checkpointed_;
  bool changed_ = true;  ///< since the last checkpoint
  std::vector<journal::DecisionRecord> held_;
  std::vector<Planned> held_plans_;
  std::vector<journal::Sample> held_samples_;  ///< at most options_.queue
  Instant newest_sample_;                      ///< of those written
  journal::RunStatistics statistics_;
  double clock_sum_mhz_ = 0.0;
  std::int64_t clock_samples_ = 0;
  std::thread thread_;
};

}  // namespace wattle::gateway
