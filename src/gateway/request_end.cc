#include "gateway/request_end.h"

#include <fmt/format.h>

namespace wattle::gateway {

std::string request_name(RequestId id) { return fmt::format("wattle-{:016x}", static_cast<std::uint64_t>(id.value())); }

}  // namespace wattle::gateway
