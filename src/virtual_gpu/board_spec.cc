#include <charconv>
#include <optional>

#include "virtual_gpu/virtual_gpu.h"

namespace wattle::virtual_gpu {

namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 1'000'000) return std::nullopt;
  return value;
}

bool assign(BoardSpec& spec, std::string_view key, std::int64_t v) {
  const auto mhz = MegaHertz(static_cast<std::int32_t>(v));
  if (key == "count") return spec.count = static_cast<std::int32_t>(v), true;
  if (key == "clock_min") return spec.clock_min = mhz, true;
  if (key == "clock_max") return spec.clock_max = mhz, true;
  if (key == "clock_step") return spec.clock_step = mhz, true;
  if (key == "memory_clock") return spec.memory_clock = mhz, true;
  if (key == "power_limit_w") return spec.power_limit = Milliwatts(v * 1000), true;
  if (key == "power_limit_min_w") return spec.power_limit_min = Milliwatts(v * 1000), true;
  if (key == "idle_w") return spec.idle_power = Milliwatts(v * 1000), true;
  if (key == "call_ms") return spec.call_delay = Span::ms(v), true;
  if (key == "transition_ms") return spec.transition_delay = Span::ms(v), true;
  return false;
}

}  // namespace

Result<BoardSpec> parse_board_spec(std::string_view text) {
  BoardSpec spec;
  const std::size_t comma = text.find(',');
  spec.path = text.substr(0, comma);
  if (spec.path.empty()) return bad_input(kBoardVariable, "starts with the path of the shared-memory file");
  std::string_view rest = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find(',');
    const std::string_view item = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (key == "name") {
      spec.name = value;
      continue;
    }
    const auto number = whole_number(value);
    if (!number || !assign(spec, key, *number)) {
      return bad_input(std::string(kBoardVariable) + ": " + std::string(item),
                       "takes name=TEXT and whole numbers for count, clock_min, clock_max, clock_step, memory_clock, "
                       "power_limit_w, power_limit_min_w, idle_w, call_ms, transition_ms");
    }
  }
  if (spec.count < 1 || spec.count > kMaxGpus) {
    return bad_input(std::string(kBoardVariable) + ": count", "is 1 to " + std::to_string(kMaxGpus));
  }
  if (spec.clock_step.value() < 1 || spec.clock_min.value() < 1 || spec.clock_max < spec.clock_min ||
      (spec.clock_max.value() - spec.clock_min.value()) % spec.clock_step.value() != 0) {
    return bad_input(std::string(kBoardVariable) + ": clock_*", "clock_max is clock_min plus a multiple of clock_step");
  }
  if (spec.name.empty() || spec.name.size() > 63)
    return bad_input(std::string(kBoardVariable) + ": name", "is 1 to 63 bytes");
  return spec;
}

}  // namespace wattle::virtual_gpu
