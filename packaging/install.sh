#!/bin/sh
# install.sh [PREFIX]: builds sty with cargo and installs it below PREFIX, or ~/.local, with its
# manual pages and completions.
. "$(dirname "$0")/common.sh"
prefix=${1:-$HOME/.local}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo install --locked --path "$root/cli" --root "$work" --no-track ${JOBS:+-j "$JOBS"}
files "$work/bin/sty" "$prefix"
