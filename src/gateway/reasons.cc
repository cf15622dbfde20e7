#include "gateway/reasons.h"

#include <mutex>
#include <set>

namespace wattle::gateway {

const char* kept_reason(const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  if (known.size() >= 1024 && !known.contains(reason)) return "(one of too many reasons)";
  return known.insert(reason).first->c_str();
}

}  // namespace wattle::gateway
