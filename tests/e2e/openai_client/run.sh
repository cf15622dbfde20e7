#!/bin/sh
# run.sh WATTLE CANNED_ENGINE WORKDIR: installs the npm client into WORKDIR, then lets it talk through the gateway.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$3"
cp "$here/package.json" "$here/test.mjs" "$3/"
cd "$3"
if [ ! -d node_modules/openai ]; then
  npm install --no-package-lock --no-audit --no-fund --loglevel=error || exit 77
fi
exec node test.mjs "$1" "$2"
