#!/usr/bin/env bash
# Installs what tools/packages.txt and the arguments name and this machine lacks; with --build, of the file what building needs alone.
# Needs Debian 12; uses sudo when not root.
set -euo pipefail
cd "$(dirname "$0")/.."

listed() { grep -vE '^(#|$)'; }
if [ "${1:-}" = --build ]; then
  shift
  mapfile -t wanted < <(sed '/^# tests and benchmarks$/,$d' tools/packages.txt | listed)
else
  mapfile -t wanted < <(listed <tools/packages.txt)
  # Node only runs the OpenAI client test; a Node that came from elsewhere conflicts with Debian's packages, so it is kept.
  command -v node >/dev/null || wanted+=(nodejs)
  command -v npm >/dev/null || wanted+=(npm)
fi
wanted+=("$@")

missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

run=()
[ "$(id -u)" -eq 0 ] || run=(sudo)
echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
"${run[@]}" apt-get update -qq
"${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
