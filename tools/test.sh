#!/usr/bin/env bash
# Builds and runs the tests of the named presets (release, asan, tsan) and closes with one line per preset.
# Under a sanitizer only the chosen tests are built (WATTLE_SANITIZED_TESTS in the preset), or everything with --all.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
all=false
if [ "${1:-}" = --all ]; then
  all=true
  shift
fi

summary=()
failed=false
for preset in "$@"; do
  started=$SECONDS
  target=()
  choose=()
  with=()
  if [ "$preset" = release ]; then
    with=(-DWATTLE_BUILD_BENCHES=ON -DWATTLE_TORCH=ON)
  elif ! $all; then
    target=(--target sanitized_tests)
    choose=(-L sanitized)
  fi
  echo "== $preset: build"
  cmake --preset "$preset" -DWATTLE_BUILD_TESTS=ON -DWATTLE_SANITIZE_ALL=$all "${with[@]}" >"/tmp/wattle-configure.$$" 2>&1 || { cat "/tmp/wattle-configure.$$"; exit 1; }
  rm -f "/tmp/wattle-configure.$$"
  cmake --build "build/$preset" -j "$jobs" "${target[@]}"
  built=$((SECONDS - started))
  echo "== $preset: test"
  log=build/$preset/ctest.log
  # A run that finds nothing to run has not passed, and a test that hangs must not take the others with it.
  if ! ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --timeout 400 -j "$((5 * jobs))" "${choose[@]}" 2>&1 | tee "$log"; then
    failed=true
  fi
  verdict=$(grep -E 'tests passed' "$log" || echo 'ctest did not finish')
  summary+=("$preset: $verdict (build ${built} s, tests $((SECONDS - started - built)) s)")
done

echo
echo "== summary"
printf '%s\n' "${summary[@]}"
if $failed; then
  exit 1
fi
