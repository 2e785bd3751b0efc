#!/bin/sh
# deb.sh BINARY [DIR]: makes stylobate_VERSION_ARCH.deb of a built `sty` in DIR, or here.
# It needs dpkg-deb, strip and gzip. The program needs the C library of the system that it was
# built on, or a newer one: build on the oldest release that is to be served.
. "$(dirname "$0")/common.sh"
binary=$1
out=${2:-.}
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

files "$binary" "$work/usr" vendor-completions
doc=$work/usr/share/doc/stylobate
gzip -9n "$doc/CHANGELOG.md"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
    printf 'Upstream-Name: Stylobate\n\nFiles: *\n'
    printf 'Copyright: 2026 The Stylobate developers\nLicense: MIT or Apache-2.0\n\n'
    printf 'License: MIT or Apache-2.0\n'
    sed 's/^$/./; s/^/ /' "$root/LICENSE-MIT"
    printf ' .\n Or the Apache License, Version 2.0, which Debian systems have in\n'
    printf ' /usr/share/common-licenses/Apache-2.0.\n'
} > "$doc/copyright"
libc=$(objdump -T "$work/usr/bin/sty" | sed -n 's/.*GLIBC_\([0-9.]*\)).*/\1/p' | sort -Vu | tail -n 1)
depends=
if [ -n "$libc" ]; then
    depends="Depends: libc6 (>= $libc), libgcc-s1 (>= 4.2)"
fi
size=$(du -ks "$work/usr" | cut -f 1)
install -d "$work/DEBIAN"
cat > "$work/DEBIAN/control" <<END
Package: stylobate
Version: $version
Section: database
Priority: optional
Architecture: $arch
Maintainer: The Stylobate developers <stylobate@example.org>
Installed-Size: $size
${depends:+$depends
}Description: columnar tables on disk, queried with SQL
 sty stores tables as compressed column segments, and answers SQL from the
 mapped files. It reads CSV, JSON, Arrow and Parquet, compressed or not.
END
(cd "$work" && find usr -type f -exec md5sum {} +) > "$work/DEBIAN/md5sums"
chmod -R go=u-w "$work"
dpkg-deb --root-owner-group -Zxz -z"${LEVEL:-6}" --build "$work" "$out/stylobate_${version}_$arch.deb"
