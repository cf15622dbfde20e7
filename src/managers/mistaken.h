#pragma once
// What requests turn out to be when they were taken for another class: the pool that they went to has their load
// (DynamoLLM, section V-C: misclassifications are detected, and knobs set accordingly).
#include <cstddef>
#include <vector>

#include "model/turned_out.h"
#include "plan/load_table.h"
#include "units/quantity.h"

namespace wattle::managers {

class Mistaken {
 public:
  explicit Mistaken(const plan::LoadTable& table);

  /// What has finished of late. Unknown classes are ignored.
  void learn(const TurnedOut& fresh);
  /// Rates of what requests are taken for become rates of that class which are as much load.
  void weigh(std::vector<double>& rate_per_s) const;

 private:
  static constexpr double kRemembered = 1000.0;  ///< requests of a class

  std::vector<std::vector<double>> load_of_;  ///< of a request of the second class, in requests of the first
  std::vector<double> mean_;                  ///< by class: load of one that is taken for it
};

}  // namespace wattle::managers
