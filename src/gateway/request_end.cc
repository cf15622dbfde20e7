#include "gateway/request_end.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "gateway/charged_answer.h"

namespace wattle::gateway {

namespace {
constexpr std::size_t kLongestName = 128;  ///< as tenants' names; thousands of them are kept
}

std::string_view client_name(const net::HeaderFields& fields) {
  const std::string_view name = fields.get("X-Request-Id");
  return name.size() <= kLongestName ? name : std::string_view();
}

std::string request_name(RequestId id) {
  std::string out = "wattle-0000000000000000";
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), static_cast<std::uint64_t>(id.value()), 16).ptr;
  std::copy(digits.begin(), end, out.end() - (end - digits.begin()));
  return out;
}

void RequestEnd::booked(const Outcome& outcome, const char* meters_said) {
  if (outcome.request.id != RequestId{-1}) {  // else it was booked so long ago that the ledger has forgotten it
    fate = outcome.fate;
    reason = outcome.reason;
  }
  const EnergySaid said = EnergySaid::of(outcome, meters_said);
  energy_j = said.joules;
  carbon_g = said.grams;
  meters = said.meters;
}

}  // namespace wattle::gateway
