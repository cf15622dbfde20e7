#include "sim/stretch_log.h"

namespace wattle::sim {

void StretchLog::step(std::size_t i, const StepReport& report, MegaHertz clock, std::int64_t before) {
  auto& [stretch, first] = open_[i];
  const bool same = first && report.shape.prefill_tokens == 0 && stretch.shape.prefill_tokens == 0 &&
                    report.shape.decode_requests == stretch.shape.decode_requests && stretch.clock == clock;
  if (same) return;
  close(i, report.start, before);
  stretch = {report.instance, report.start, report.start, report.shape, 0, clock};
  first = before;
}

void StretchLog::close(std::size_t i, Instant at, std::int64_t ended) {
  auto& [stretch, first] = open_[i];
  if (!first) return;
  stretch.end = at;
  stretch.steps = ended - *first;
  sink_.stretch(stretch);
  first.reset();
}

}  // namespace wattle::sim
