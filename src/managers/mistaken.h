#pragma once
// Corrects load for requests whose class was predicted wrongly: the pool to which they went carries their actual load
// (DynamoLLM, section V-C: misclassifications are detected and knobs set accordingly).
#include <vector>

#include "model/turned_out.h"
#include "plan/load_table.h"
#include "units/quantity.h"

namespace wattle::managers {

class Mistaken {
 public:
  explicit Mistaken(const plan::LoadTable& table);

  /// Requests that have finished recently. Unknown classes are ignored.
  void learn(const TurnedOut& fresh);
  /// Converts rates by predicted class into rates of that class that are the same load.
  void weigh(std::vector<double>& rate_per_s) const;

 private:
  static constexpr double kRemembered = 1000.0;  ///< requests of a class

  std::vector<std::vector<double>> load_of_;  ///< [class][other]: load of one of the other, in requests of the first
  std::vector<double> mean_;                  ///< by predicted class: mean load of its requests
};

}  // namespace wattle::managers
