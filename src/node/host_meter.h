#pragma once
// Energy of the host's processors and memory, from the kernel (RAPL: Documentation/power/powercap/powercap.rst).
#include <cstdint>
#include <string>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::node {

/// Packages and their memory. Cores and graphics are parts of a package and left out, as is the whole platform, which
/// contains the packages. AMD's processors are in the same tree, under Intel's name.
class HostMeter {
 public:
  struct Domain {
    std::string name;   ///< "package-0", "package-0/dram"
    Picojoules energy;  ///< since the first sample
    Milliwatts power;   ///< mean between the newest two samples
  };
  /// `root`: /sys/class/powercap. Domains that cannot be read (the kernel permits only root) are left out.
  explicit HostMeter(const std::string& root);
  /// In order of time, and more often than a counter overflows (some minutes).
  void sample(Instant now);
  [[nodiscard]] const std::vector<Domain>& domains() const { return domains_; }

 private:
  struct Counter {
    std::string file;
    std::uint64_t range_uj = 0;  ///< the counter restarts from 0 after this
    std::uint64_t last_uj = 0;
  };
  std::vector<Domain> domains_;
  std::vector<Counter> counters_;  ///< in order of domains_
  Instant last_ = Instant::never();
};

}  // namespace wattle::node
