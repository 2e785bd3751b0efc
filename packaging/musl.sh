#!/bin/sh
# musl.sh [DIR]: builds one static, stripped file that runs on any Linux of this architecture, and
# packs it with manual pages and completions into DIR, or here. The file has a fixed address: at each
# start, a program of this size would otherwise take 10 ms to put addresses into its tables.
# It needs rustup, strip, and a C compiler for musl (Debian: musl-tools), for zstd and mimalloc.
. "$(dirname "$0")/common.sh"
out=$(cd "${1:-.}" && pwd)
arch=$(uname -m)
target=$arch-unknown-linux-musl
cd "$root"
rustup target add "$target"
env "CC_$(echo "$target" | tr - _)=musl-gcc" \
    cargo rustc --locked --release -p stylobate-cli --bin sty --target "$target" ${JOBS:+-j "$JOBS"} \
    -- -C relocation-model=static
binary=${CARGO_TARGET_DIR:-$root/target}/$target/release/sty
if ldd "$binary" 2>/dev/null | grep -q '=>'; then
    echo "$binary is not static" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=stylobate-$version-$target
files "$binary" "$work/$name"
install -m 644 LICENSE-MIT LICENSE-APACHE "$work/$name/share/doc/stylobate"
tar -C "$work" --owner 0 --group 0 -cJf "$out/$name.tar.xz" "$name"
echo "$out/$name.tar.xz"
