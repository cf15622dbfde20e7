#!/usr/bin/env bash
# Installs what tools/packages.txt and the arguments name and this machine lacks. Needs Debian 12; uses sudo when not root.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t wanted < <(grep -vE '^(#|$)' tools/packages.txt)
wanted+=("$@")
# Node only runs the OpenAI client test; a Node that came from elsewhere conflicts with Debian's packages, so it is kept.
command -v node >/dev/null || wanted+=(nodejs)
command -v npm >/dev/null || wanted+=(npm)

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
