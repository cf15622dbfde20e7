# What a row of the table in libraries.cmake turns into. Kept apart from the table so that tests/arch can run the same
# functions over a house that breaks the rules, and show that the checks catch it.

# Tests worth repeating under a sanitizer in every `make test`: what threads, hostile bytes or hostile numbers could break. The
# target and the label let a sanitizer build leave out the rest. A preset lists the groups (a library, or a folder of tests/) in
# WATTLE_SANITIZED_TESTS; the other two arguments are a test's target and its name in ctest.
add_custom_target(sanitized_tests)
function(wattle_sanitized group target test)
  if(group IN_LIST WATTLE_SANITIZED_TESTS)
    add_dependencies(sanitized_tests ${target})
    set_property(TEST ${test} APPEND PROPERTY LABELS sanitized)
  endif()
endfunction()

# A test that computes takes a core; one that starts processes and waits for them, as those of tests/ do that do not say so, a tenth of
# one (e2e.*: 1 to 9 s of CPU time in 16 to 84 s). So that more of those run at once, ctest's -j counts fifths of a core.
function(wattle_computes)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 5)
endfunction()

# The seconds that tests take, roughly. Where no run has left its times ctest begins with the longest by these, and takes the others as
# they come: a long one that comes last is waited for alone.
function(wattle_long seconds)
  set_tests_properties(${ARGN} PROPERTIES COST ${seconds})
endfunction()

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
  if(name IN_LIST WATTLE_COLD)
    target_compile_options(wattle_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(NOT WATTLE_SANITIZE_ALL AND name IN_LIST WATTLE_ARITHMETIC AND NOT name IN_LIST WATTLE_SANITIZED_TESTS)
    set_target_properties(wattle_${name} PROPERTIES WATTLE_PLAIN ON)  # compiled for release: in the compiler's cache
  endif()
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
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)  # compiling is what takes a test's time
    add_test(NAME unit.${name} COMMAND ${name}_test)
    # property tests draw the same cases every time; run the binary by hand (or with another RC_PARAMS) for fresh ones
    set_tests_properties(unit.${name} PROPERTIES ENVIRONMENT "RC_PARAMS=seed=20250801;WATTLE_CACHE=none")
    wattle_computes(unit.${name})
    wattle_sanitized(${name} ${name}_test unit.${name})
  endif()
  if(WATTLE_BUILD_BENCHES AND benches)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE wattle_${name} benchmark::benchmark_main)
    set_target_properties(${name}_bench PROPERTIES UNITY_BUILD OFF)
    if(WATTLE_BUILD_TESTS)  # a bench that is not run rots: ctest runs each for an instant
      add_test(NAME bench.${name} COMMAND ${name}_bench --benchmark_min_time=0.001)
      wattle_computes(bench.${name})
    endif()
  endif()
endfunction()

# Proof that a library needs nothing above it: every object of its archive is linked into an executable with only the
# declared dependencies and externals behind it. An upward call is then an undefined symbol.
function(wattle_add_link_test name)
  set(main ${CMAKE_BINARY_DIR}/link_test_main.cc)
  if(NOT EXISTS ${main})
    file(WRITE ${main} "int main() { return 0; }\n")
  endif()
  add_executable(link_${name} ${main})
  target_link_libraries(link_${name} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,wattle_${name}>)
  add_test(NAME link.${name} COMMAND link_${name})
  set_tests_properties(link.${name} PROPERTIES LABELS arch)
endfunction()

# Whether a file beside the header, of its name, includes it before anything else: then that file's compilation proves what
# a generated unit would. `included` is the header's path in #include lines.
function(wattle_own_file_proves header included proves)
  set(${proves} FALSE PARENT_SCOPE)
  string(REGEX REPLACE "[.]h$" ".cc" own ${header})
  if(NOT EXISTS ${own})
    return()
  endif()
  file(STRINGS ${own} first REGEX "^#include" LIMIT_COUNT 1)
  file(STRINGS ${header} guard REGEX "^#pragma once" LIMIT_COUNT 1)
  if(first STREQUAL "#include \"${included}\"" AND guard)
    set(${proves} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Proof that a header stands on its own: each is the first include of a translation unit: of its own .cc file (as dev, which
# unites no files, compiles it), or where that begins otherwise, of a generated one that includes it twice (the second time
# for the include guard) and nothing else. `prefix`: of the header's path in #include lines.
function(wattle_add_header_test name dir prefix)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${dir}/*.h)
  list(FILTER headers EXCLUDE REGEX "/test_[^/]*[.]h$|_test[.]h$")  # these lean on what a test's target defines
  set(units)
  foreach(header IN LISTS headers)
    file(RELATIVE_PATH relative ${dir} ${header})
    wattle_own_file_proves(${header} ${prefix}${relative} proves)
    if(proves)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${relative} stem)
    set(unit ${CMAKE_BINARY_DIR}/headers/${name}/${stem}.cc)
    set(content "#include \"${header}\"\n#include \"${header}\"\n")
    set(old "")
    if(EXISTS ${unit})
      file(READ ${unit} old)
    endif()
    if(NOT old STREQUAL content)
      file(WRITE ${unit} "${content}")
    endif()
    list(APPEND units ${unit})
  endforeach()
  if(NOT units)
    add_custom_target(headers_${name})  # nothing left to prove
    return()
  endif()
  add_library(headers_${name} OBJECT ${units})
  target_link_libraries(headers_${name} PRIVATE ${ARGN})
  target_compile_options(headers_${name} PRIVATE -O0 -g0)
  set_target_properties(headers_${name} PROPERTIES UNITY_BUILD OFF)
endfunction()
