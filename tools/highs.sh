#!/bin/sh
# Puts HiGHS under a folder for `cmake -DCMAKE_PREFIX_PATH=FOLDER`, from PyPI's package highspy (Debian 12 has none of its
# own): the library of its wheel, the headers of its source.
set -eu
version=1.15.1
prefix=${1:?"usage: tools/highs.sh FOLDER"}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q scikit-build-core pybind11
"$work/venv/bin/pip" download -q --no-deps --only-binary :all: -d "$work" "highspy==$version"
"$work/venv/bin/pip" download -q --no-deps --no-binary highspy --no-build-isolation -d "$work" "highspy==$version"
python3 -m zipfile -e "$work"/highspy-*.whl "$work/wheel"
tar -xzf "$work/highspy-$version.tar.gz" -C "$work"
mkdir -p "$prefix/include/highs" "$prefix/lib/cmake/highs"
prefix=$(cd "$prefix" && pwd)
(cd "$work/highspy-$version/highs" && find . -name '*.h' -exec cp --parents {} "$prefix/include/highs" ';')
sed -e '/cmakedefine/d' -e '/@/d' "$work/highspy-$version/highs/HConfig.h.in" >"$prefix/include/highs/HConfig.h"
cp "$work/wheel/highspy/libhighs.so.1" "$prefix/lib/"
cat >"$prefix/lib/cmake/highs/highs-config.cmake" <<'CMAKE'
get_filename_component(highs_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
add_library(highs::highs SHARED IMPORTED)
set_target_properties(highs::highs PROPERTIES
  IMPORTED_LOCATION "${highs_prefix}/lib/libhighs.so.1" INTERFACE_INCLUDE_DIRECTORIES "${highs_prefix}/include/highs")
CMAKE
echo "HiGHS $version: $prefix"
