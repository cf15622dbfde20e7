#pragma once
// Private to learn: RAII handles for XGBoost's C API.
#include <omp.h>
#include <xgboost/c_api.h>

#include <memory>
#include <string>

namespace wattle::learn {

struct Failure {};  ///< thrown and caught within one function of this library; XGBoost has the message

inline void check(int status) {
  if (status != 0) throw Failure{};
}

/// XGBoost uses its parameter nthread only in some places; elsewhere its idle threads spin at OpenMP's barriers and
/// cost more than training on these small samples. The setting applies to the calling thread.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = omp_get_max_threads();
};

struct FreeMatrix {
  void operator()(void* handle) const { XGDMatrixFree(handle); }
};
struct FreeBooster {
  void operator()(void* handle) const { XGBoosterFree(handle); }
};
using Matrix = std::unique_ptr<void, FreeMatrix>;
using Booster = std::unique_ptr<void, FreeBooster>;

/// The model in UBJSON.
inline std::string saved(BoosterHandle booster) {
  bst_ulong length = 0;
  const char* bytes = nullptr;
  check(XGBoosterSaveModelToBuffer(booster, R"({"format": "ubj"})", &length, &bytes));
  return {bytes, length};
}

}  // namespace wattle::learn
