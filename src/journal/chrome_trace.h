#pragma once
// trace.json in the Chrome trace event format: open it in Perfetto or chrome://tracing. One process per instance, with
// a slice per busy stretch and counter tracks for power, clock and batch. One event per line.
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "journal/record.h"

namespace wattle::journal {

/// Opens the event array and names the tracks. Every later event starts with ",\n", so a file cut off at any line end
/// is still readable by the viewers (they accept a missing "]").
void append_trace_begin(std::string& out, const RunFacts& facts);
/// Names the track of an instance that joined later.
void append_trace_instance(std::string& out, const Instance& instance);
void append_trace_stretch(std::string& out, const Stretch& stretch);
void append_trace_sample(std::string& out, const Sample& sample);
void append_trace_end(std::string& out);

/// Calls f for each slice of a trace written by this library. Errors name file:line.
[[nodiscard]] Result<void> parse_trace(std::string_view text, const std::string& name,
                                       const std::function<void(const Stretch&)>& f);

}  // namespace wattle::journal
