#!/bin/sh
# Installs the packages of web/package-lock.json, unless they are there. Builds of several presets may ask at once.
set -eu
cd "$(dirname "$0")"
mkdir -p node_modules
exec 9>node_modules/.installing
flock 9
cmp -s package-lock.json node_modules/.installed && exit 0
npm ci --no-audit --no-fund --ignore-scripts --loglevel=error
cp package-lock.json node_modules/.installed
