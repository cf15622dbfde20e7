#include "workload/some_requests.h"

#include <fmt/format.h>

#include <utility>

namespace wattle::workload {

namespace {

class Begun final : public RequestSource {
 public:
  Begun(TraceRow first, std::unique_ptr<RequestSource> rest) : first_(std::move(first)), rest_(std::move(rest)) {}
  std::optional<TraceRow> next() override { return first_ ? std::exchange(first_, std::nullopt) : rest_->next(); }
  [[nodiscard]] WorkloadStats stats() const override {
    WorkloadStats stats = rest_->stats();
    stats.rows_yielded -= first_ ? 1 : 0;
    return stats;
  }

 private:
  std::optional<TraceRow> first_;
  std::unique_ptr<RequestSource> rest_;
};

}  // namespace

Error no_requests(const WorkloadOptions& options, const WorkloadStats& stats) {
  const auto refused = [](const char* key, std::string what) {
    return Error{ErrorKind::BadInput, fmt::format("workload.{}", key), std::move(what)};
  };
  const auto read = stats.rows_read - stats.skipped_failed;
  if (read == 0) return refused("trace", "has no request");
  if (stats.outside_slice < read) {
    return refused("copies", fmt::format("is {}, which left none of {} requests", options.copies, read));
  }
  const bool begins_late = options.duration == Span::max() || Instant() + options.start > stats.last_read;
  return refused(
      begins_late ? "start_s" : "duration_s",
      fmt::format("leaves no request: the slice is from {:g} s {}, and of {} requests read the last comes "
                  "at {:g} s",
                  options.start.seconds(),
                  options.duration == Span::max() ? "on" : fmt::format("for {:g} s", options.duration.seconds()), read,
                  (stats.last_read - Instant()).seconds()));
}

Result<std::unique_ptr<RequestSource>> with_some(std::unique_ptr<RequestSource> from, const WorkloadOptions& options) {
  auto first = from->next();
  if (!first) return std::unexpected(no_requests(options, from->stats()));
  return std::make_unique<Begun>(std::move(*first), std::move(from));
}

}  // namespace wattle::workload
