# The house: one row per folder of src/, one static library and one namespace each (docs: ARCHITECTURE.md).
# From this table come the targets, their tests and benches, the whole-archive link tests, the include-direction test
# and the self-contained-header test. A row whose folder does not exist yet is a row to come.
#
#   name | may depend on (wattle libraries) | external libraries
set(WATTLE_LIBRARIES
  "base||fmt::fmt"
  "units|base|"
  "model|units|"
  "policy|model|"
  "predict|model|nlohmann_json::nlohmann_json"
  "plan|model|"
  "carbon|model|"
  "engine|model|"
  "workload|model|simdjson::simdjson"
  "journal|model|nlohmann_json::nlohmann_json"
  "control|policy,predict,plan,carbon,journal|"
  "report|journal,carbon|nlohmann_json::nlohmann_json"
  "learn|predict|xgboost::c_api"
  "sim|control,engine,workload,journal|"
  "live|control,journal|wattle_boost,nlohmann_json::nlohmann_json,simdjson::simdjson,PkgConfig::ZMQ,prometheus-cpp::core,spdlog::spdlog,OpenSSL::SSL,OpenSSL::Crypto,dl"
  "fidelity|engine|"
  "config|policy,predict,plan,carbon,engine,workload,control,report,sim,live|tomlplusplus::tomlplusplus"
)

include(house)
foreach(row IN LISTS WATTLE_LIBRARIES)
  wattle_add_library("${row}")
endforeach()

# Its tests read the specs, recipes, scenarios and reference pages of this tree.
if(TARGET config_test)
  target_compile_definitions(config_test PRIVATE WATTLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endif()
