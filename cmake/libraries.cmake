# The layers: one row per folder of src/, one static library and one namespace each (docs: ARCHITECTURE.md).
# From this table come the targets, their tests and benches, the whole-archive link tests, the include-direction test
# and the self-contained-header test. A row whose folder does not exist yet is a row to come.
#
#   name | may depend on (wattle libraries) | external libraries
set(WATTLE_LIBRARIES
  "base||fmt::fmt"
  "units|base|"
  "model|units|"
  "policy|model|"
  "predict|model|nlohmann_json::nlohmann_json,Eigen3::Eigen"
  "plan|model|PkgConfig::CBC,PkgConfig::LEMON,wattle_highs"
  "carbon|model|"
  "engine|model|"
  "workload|model|simdjson::simdjson"
  "journal|model|nlohmann_json::nlohmann_json"
  "net|units|wattle_boost,nlohmann_json::nlohmann_json,simdjson::simdjson,OpenSSL::SSL,OpenSSL::Crypto,spdlog::spdlog"
  "telemetry|model|nlohmann_json::nlohmann_json,PkgConfig::ZMQ"
  "virtual_gpu|units|Threads::Threads"
  "control|policy,predict,plan,carbon,journal|"
  "managers|policy,predict,plan|"
  "report|journal,carbon|nlohmann_json::nlohmann_json"
  "learn|predict|xgboost::c_api"
  "feeds|carbon|nlohmann_json::nlohmann_json"
  "neural|predict|torch::torch"
  "fidelity|engine,carbon|"
  "sim|control,engine,workload,journal|"
  "node|control,net,telemetry|nlohmann_json::nlohmann_json,dl"
  "gateway|control,net,telemetry|nlohmann_json::nlohmann_json,simdjson::simdjson,prometheus-cpp::core"
  "loadgen|journal,net|nlohmann_json::nlohmann_json"
  "launch|net|"
  "config|policy,predict,plan,carbon,engine,workload,control,report,sim,feeds,net|tomlplusplus::tomlplusplus,nlohmann_json::nlohmann_json"
  "calibrate|config,learn,node,loadgen|nlohmann_json::nlohmann_json"
  "systems|config,calibrate,managers|"
  "experiment|systems,sim|"
  "planner|launch,systems|nlohmann_json::nlohmann_json"
  "testbed|launch,config,node,virtual_gpu|nlohmann_json::nlohmann_json"
  "reproduce|experiment,managers,fidelity|nlohmann_json::nlohmann_json"
)

# With -DCMAKE_UNITY_BUILD=ON (all presets but dev) eight files of a library are compiled as one, which halves the work: most
# of it is the same headers and templates over and over. So local names are distinct within a library, and within its tests, where
# a rig's tests or those of one file may have a namespace of their own.
set_source_files_properties(src/policy/frequency/decode_load_test.cc src/policy/frequency/newcomers_test.cc
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # rigs' names

if(NOT WATTLE_TORCH)  # the one row that may be left out: only the module apps/neural_module links it
  list(FILTER WATTLE_LIBRARIES EXCLUDE REGEX "^neural[|]")
endif()

# Runs once a process, not once a request or step: -O1 in a release, where compiling at -O3 would be most of `make build`.
set(WATTLE_COLD calibrate config experiment feeds launch loadgen neural planner report reproduce systems)

# Values in, values out: no thread reaches these, and no client's bytes before other libraries have checked them. Where
# `make test` repeats tests under a sanitizer, these are built without it unless their own tests are among the repeated ones
# (policy's are: its decisions follow from numbers that clients and engines send). `make test-asan` and `make test-tsan` build
# everything with it.
set(WATTLE_ARITHMETIC policy predict plan engine report sim learn feeds calibrate managers systems experiment)

include(house)
foreach(row IN LISTS WATTLE_LIBRARIES)
  wattle_add_library("${row}")
endforeach()

if(TARGET reproduce_test)
  wattle_long(180 unit.reproduce)
  wattle_long(200 unit.experiment)
endif()
# g++ 12 takes LEMON's node arrays for uninitialised under the sanitizers.
set_source_files_properties(src/plan/matching.cc PROPERTIES COMPILE_OPTIONS -Wno-maybe-uninitialized
  SKIP_UNITY_BUILD_INCLUSION ON)
# Recipes, scenarios and specs are found in this tree unless WATTLE_HOME says otherwise.
set_source_files_properties(src/config/locate.cc PROPERTIES COMPILE_DEFINITIONS WATTLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# Tests that read the specs, recipes, scenarios and pages of this tree.
foreach(test IN ITEMS config_test systems_test experiment_test gateway_test reproduce_test)
  if(TARGET ${test})
    target_compile_definitions(${test} PRIVATE WATTLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  endif()
endforeach()
# The fleet of processes hands the agent the fake NVML of this build; its GPUs are virtual.
set_source_files_properties(src/testbed/emulated_fleet.cc PROPERTIES
  COMPILE_DEFINITIONS WATTLE_FAKE_NVML_LIBRARY="${CMAKE_BINARY_DIR}/fake_nvml/libnvidia-ml.so.1")
# ZeroMQ is not built for TSan; a test that listens to engines through it leaves its locks out of the report.
if(TARGET gateway_test)
  target_sources(gateway_test PRIVATE ${PROJECT_SOURCE_DIR}/src/telemetry/tsan_suppressions_test.cc)
endif()
