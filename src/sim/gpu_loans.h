#pragma once
// A re-sharded instance comes up on GPUs that old ones still hold: until those are gone it has them on loan, and what
// they draw and cost whether there is work or not is the lenders'.
#include <cstdint>
#include <vector>

#include "units/quantity.h"

namespace wattle::sim {

class GpuLoans {
 public:
  void add(InstanceId borrower, InstanceId lender, std::int32_t gpus) { loans_.push_back({borrower, lender, gpus}); }
  /// Either of them is gone. The borrowers that have more GPUs of their own now.
  std::vector<InstanceId> end(InstanceId gone) {
    std::vector<InstanceId> freed;
    for (const Loan& loan : loans_) {
      if (loan.lender == gone) freed.push_back(loan.borrower);
    }
    std::erase_if(loans_, [gone](const Loan& loan) { return loan.lender == gone || loan.borrower == gone; });
    return freed;
  }
  [[nodiscard]] bool any() const { return !loans_.empty(); }
  /// GPUs that it has on loan.
  [[nodiscard]] std::int32_t of(InstanceId borrower) const {
    std::int32_t gpus = 0;
    for (const Loan& loan : loans_) gpus += loan.borrower == borrower ? loan.gpus : 0;
    return gpus;
  }
  [[nodiscard]] bool between(InstanceId borrower, InstanceId lender) const {
    for (const Loan& loan : loans_) {
      if (loan.borrower == borrower && loan.lender == lender) return true;
    }
    return false;
  }

 private:
  struct Loan {
    InstanceId borrower;
    InstanceId lender;
    std::int32_t gpus;
  };
  std::vector<Loan> loans_;
};

}  // namespace wattle::sim
