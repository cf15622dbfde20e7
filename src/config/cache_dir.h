#pragma once
#include <string>

namespace wattle::config {

/// Where files may lie that only save time: WATTLE_CACHE ("none": nowhere), else wattle/ in XDG_CACHE_HOME or
/// ~/.cache. "" for nowhere.
[[nodiscard]] std::string cache_dir();

}  // namespace wattle::config
