#include "sim/stretch_log.h"

namespace wattle::sim {

void StretchLog::step(std::size_t i, const StepReport& report, MegaHertz clock) {
  auto& stretch = stretches_[i];
  const bool same = stretch.steps > 0 && report.shape.prefill_tokens == 0 && stretch.shape.prefill_tokens == 0 &&
                    report.shape.decode_requests == stretch.shape.decode_requests && stretch.clock == clock;
  if (!same) {
    close(i, report.start);
    stretch = {report.instance, report.start, report.start, report.shape, 0, clock};
  }
  ++stretch.steps;
}

void StretchLog::close(std::size_t i, Instant at) {
  auto& stretch = stretches_[i];
  if (stretch.steps == 0) return;
  stretch.end = at;
  sink_.stretch(stretch);
  stretch.steps = 0;
}

void StretchLog::close_all(Instant at) {
  for (std::size_t i = 0; i < stretches_.size(); ++i) close(i, at);
}

}  // namespace wattle::sim
