#!/bin/sh
# try.sh PACKAGE [RELEASE]: installs a package (.deb, or .tar.xz of musl.sh) in a bare Debian in a
# folder of its own, and tries it there. It needs root, debootstrap and the network; BASE names a
# folder that debootstrap has filled already.
. "$(dirname "$0")/common.sh"
package=$1
release=${2:-bookworm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${BASE:-}" ]; then
    cp -a "$BASE/." "$work"
else
    debootstrap --variant=minbase "$release" "$work"
fi
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
chroot "$work" /bin/sh -eu <<'END'
cd /tmp
sty --version
printf 'city,fare\nBern,12.5\nBasel,9\nBern,7.25\n' | gzip > trips.csv.gz
sty ingest db/trips trips.csv.gz
answer=$(sty query db 'SELECT city, sum(fare) AS fares FROM trips GROUP BY city ORDER BY city')
[ "$answer" = 'city,fares
Basel,9.0
Bern,19.75' ] || { echo "a wrong answer: $answer" >&2; exit 1; }
sty verify db -q
zcat /usr/share/man/man1/sty-query.1.gz | grep -q EXAMPLES
ls /usr/share/bash-completion/completions/sty > /dev/null
END
case $package in
*.deb) chroot "$work" sh -c 'dpkg --verify stylobate && dpkg -r stylobate && ! command -v sty' ;;
esac
echo "$package works"
