#!/bin/sh
# try.sh PACKAGE [RELEASE]: installs a package (.deb, or .tar.xz of musl.sh) in a bare Debian in a
# folder of its own, and tries it there. It needs root, debootstrap and the network; BASE names a
# folder that debootstrap has filled already.
. "$(dirname "$0")/common.sh"
package=$1
bare "${2:-bookworm}"
case $package in
*.deb)
    cp "$package" "$work/tmp/sty.deb"
    chroot "$work" dpkg -i /tmp/sty.deb
    ;;
*.tar.xz)
    tar -C "$work/usr" --strip-components 1 -xJf "$package"
    ;;
*)
    echo "$package: neither .deb nor .tar.xz" >&2
    exit 2
    ;;
esac
try "$work"
case $package in
*.deb) chroot "$work" sh -c 'dpkg --verify stylobate && dpkg -r stylobate && ! command -v sty' ;;
esac
echo "$package works"
