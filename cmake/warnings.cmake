# Warnings are errors for everyone; sanitizers come from the presets.
add_library(wattle_flags INTERFACE)
target_compile_options(wattle_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wold-style-cast -Wdouble-promotion -Wduplicated-cond -Wlogical-op -Wformat=2 -Wimplicit-fallthrough -Werror)
# __int128 carries exact integer energy and fixed-point time; -Wpedantic would reject the name.
target_compile_definitions(wattle_flags INTERFACE _GNU_SOURCE)
# g++ 12 sees overlapping copies in std::string concatenation where there are none (GCC bug 105651).
# At -O3 it also thinks a default-initialised std::string of a nested aggregate may be uninitialised as an exception unwinds;
# that warning stays on where values are optimised less: dev.
target_compile_options(wattle_flags INTERFACE -Wno-restrict $<$<CONFIG:Release>:-Wno-maybe-uninitialized>)
# Of several files compiled as one, a local name in one may be a file's own constant in another, and g++ takes a file's own
# types for a header's; dev keeps both warnings.
target_compile_options(wattle_flags INTERFACE
  "$<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-shadow;-Wno-subobject-linkage>")
# g++ looks for garbage whenever its heap has doubled, a tenth of what compiling takes; below this size it lets it lie.
target_compile_options(wattle_flags INTERFACE "SHELL:--param ggc-min-heapsize=1000000")
# A target with the property WATTLE_PLAIN is compiled without the sanitizer, as release compiles it (house.cmake says which).
if(WATTLE_SANITIZE)
  set(program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
  set(sanitized -fno-omit-frame-pointer -O0 -g1 -D_GLIBCXX_ASSERTIONS -fsanitize=${WATTLE_SANITIZE})
  if(WATTLE_SANITIZE MATCHES "undefined")
    list(APPEND sanitized -fno-sanitize-recover=all)
    # Half of the build's time: a null pointer that is followed still ends in ASan's report, and tests are not what is tested.
    if(NOT WATTLE_SANITIZE_ALL)
      list(APPEND sanitized -fno-sanitize=null,alignment "$<${program}:-fno-sanitize=undefined>")
    endif()
  endif()
  if(WATTLE_SANITIZE MATCHES "address")  # what libFuzzer is led by (tests/fuzz)
    list(APPEND sanitized "$<$<NOT:${program}>:-fsanitize-coverage=trace-pc>")
    add_library(fuzz_coverage STATIC ${PROJECT_SOURCE_DIR}/tests/fuzz/coverage.cc)
    target_compile_options(fuzz_coverage PRIVATE -O2)
    target_link_options(wattle_flags INTERFACE -Wl,--wrap=__sanitizer_cov_trace_pc)
    target_link_libraries(wattle_flags INTERFACE fuzz_coverage)
  endif()
  target_compile_options(wattle_flags INTERFACE "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:WATTLE_PLAIN>>>:${sanitized}>")
  target_link_options(wattle_flags INTERFACE -fsanitize=${WATTLE_SANITIZE})
endif()
