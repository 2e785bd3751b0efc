#!/bin/sh
# source.sh [RELEASE]: installs sty from the sources of the last commit with install.sh in a bare
# Debian in a folder of its own, and tries it there: what someone has to have who builds it. It takes
# half an hour of processor time and 6 GB. It needs root, debootstrap and the network; BASE names a
# folder that debootstrap has filled already, TOOLCHAIN one with a Rust toolchain, which rustup
# fetches otherwise. UNTIL=build ends before the build, once all that it needs is there.
. "$(dirname "$0")/common.sh"
bare "${1:-bookworm}"
cp /etc/resolv.conf "$work/etc/resolv.conf"
mount -t proc proc "$work/proc"
trap 'umount "$work/proc"; rm -rf "$work"' EXIT
sources=$work/usr/src/stylobate
install -d "$sources" "$work/opt/rust"
git -C "$root" archive HEAD | tar -C "$sources" -xf -
if [ -n "${TOOLCHAIN:-}" ]; then
    cp -a "$TOOLCHAIN/." "$work/opt/rust"
fi
chroot "$work" /usr/bin/env -i HOME=/root PATH=/opt/rust/bin:/root/.cargo/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${JOBS:+JOBS="$JOBS"} UNTIL="${UNTIL:-}" /bin/sh -eu <<'END'
export DEBIAN_FRONTEND=noninteractive
apt-get -q update > /dev/null
apt-get -qy install --no-install-recommends ca-certificates curl gcc libc6-dev > /dev/null
if [ ! -x /opt/rust/bin/cargo ]; then
    curl -fsS https://sh.rustup.rs | sh -s -- -qy --profile minimal --default-toolchain none
fi
cd /usr/src/stylobate
cargo --version
cargo fetch --locked --target "$(rustc -vV | sed -n 's/^host: //p')"
printf 'int main(void) { return 0; }' | gcc -x c - -o /tmp/a.out && /tmp/a.out
[ "$UNTIL" = build ] || packaging/install.sh /usr
END
if [ "${UNTIL:-}" = build ]; then
    echo "all that the build needs is there"
    exit
fi
try "$work"
echo "the sources work"
