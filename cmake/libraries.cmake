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
  "predict|model|"
  "plan|model|"
  "carbon|model|"
  "engine|model|"
  "workload|model|simdjson::simdjson"
  "journal|model|nlohmann_json::nlohmann_json"
  "control|policy,predict,plan,carbon,journal|"
  "report|journal,carbon|nlohmann_json::nlohmann_json"
  "sim|control,engine,workload,journal|"
  "live|control,journal|wattle_boost,nlohmann_json::nlohmann_json,simdjson::simdjson,PkgConfig::ZMQ,prometheus-cpp::core,spdlog::spdlog,OpenSSL::SSL,OpenSSL::Crypto,dl"
  "config|policy,predict,plan,carbon,engine,workload,control,report,sim,live|tomlplusplus::tomlplusplus"
)

function(wattle_add_library row)
  string(REPLACE "|" ";" fields "${row}")
  list(GET fields 0 name)
  list(GET fields 1 depends)
  list(GET fields 2 externals)
  string(REPLACE "," ";" depends "${depends}")
  string(REPLACE "," ";" externals "${externals}")
  set(dir ${PROJECT_SOURCE_DIR}/src/${name})
  if(NOT IS_DIRECTORY ${dir})
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY WATTLE_PRESENT ${name})

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cc)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${dir}/*_test.cc)
  file(GLOB_RECURSE benches CONFIGURE_DEPENDS ${dir}/*_bench.cc)
  if(tests OR benches)
    list(REMOVE_ITEM sources ${tests} ${benches})
  endif()
  if(NOT sources)
    file(WRITE ${CMAKE_BINARY_DIR}/header_only/${name}.cc "// ${name} has headers only.\n")
    set(sources ${CMAKE_BINARY_DIR}/header_only/${name}.cc)
  endif()

  add_library(wattle_${name} STATIC ${sources})
  target_include_directories(wattle_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(wattle_${name} PUBLIC wattle_flags ${externals})
  foreach(dependency IN LISTS depends)
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/${dependency})
      target_link_libraries(wattle_${name} PUBLIC wattle_${dependency})
    endif()
  endforeach()

  if(WATTLE_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE wattle_${name} GTest::gtest_main rapidcheck)
    add_test(NAME unit.${name} COMMAND ${name}_test)
  endif()
  if(WATTLE_BUILD_BENCHES AND benches)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE wattle_${name} benchmark::benchmark_main)
    if(WATTLE_BUILD_TESTS)  # a bench that is not run rots: ctest runs each for an instant
      add_test(NAME bench.${name} COMMAND ${name}_bench --benchmark_min_time=0.001)
    endif()
  endif()
endfunction()

foreach(row IN LISTS WATTLE_LIBRARIES)
  wattle_add_library("${row}")
endforeach()
