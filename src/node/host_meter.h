#pragma once
// Energy of the host's processors and memory as the kernel tells it (RAPL: Documentation/power/powercap/powercap.rst).
#include <cstdint>
#include <string>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::node {

/// Packages, and memory beside them. Cores and graphics are left out, being parts of a package, and so is the whole
/// platform, of which packages are a part. AMD's processors are in the same tree, under Intel's name.
class HostMeter {
 public:
  struct Domain {
    std::string name;   ///< "package-0", "package-0/dram"
    Picojoules energy;  ///< since the first sample
    Milliwatts power;   ///< mean between the newest two samples
  };
  /// `root`: /sys/class/powercap. A domain that cannot be read (the kernel lets root alone) is not there.
  explicit HostMeter(const std::string& root);
  /// In order of time, and more often than a counter overflows: some minutes.
  void sample(Instant now);
  [[nodiscard]] const std::vector<Domain>& domains() const { return domains_; }

 private:
  struct Counter {
    std::string file;
    std::uint64_t range_uj = 0;  ///< it starts from 0 behind this
    std::uint64_t last_uj = 0;
  };
  std::vector<Domain> domains_;
  std::vector<Counter> counters_;  ///< of each
  Instant last_ = Instant::never();
};

}  // namespace wattle::node
