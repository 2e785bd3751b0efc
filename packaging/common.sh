# What the scripts of this folder share.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

# files BINARY PREFIX [ZSH]: the stripped program, its manual pages, completions and licences below
# PREFIX. ZSH is the directory of completions of zsh: that of a distribution, or of a local prefix.
files() {
    install -d "$2/bin" "$2/share/man/man1" "$2/share/doc/stylobate"
    install -m 755 "$1" "$2/bin/sty"
    strip "$2/bin/sty"
    "$2/bin/sty" man "$2/share/man/man1"
    gzip -9nf "$2"/share/man/man1/sty.1 "$2"/share/man/man1/sty-*.1
    while read -r shell path; do
        install -d "$(dirname "$2/share/$path")"
        "$2/bin/sty" completions "$shell" > "$2/share/$path"
    done <<END
bash bash-completion/completions/sty
zsh zsh/${3:-site-functions}/_sty
fish fish/vendor_completions.d/sty.fish
END
    install -m 644 "$root/README.md" "$root/CHANGELOG.md" "$2/share/doc/stylobate"
}

# bare RELEASE: fills the folder `work`, which goes at the end, with a bare Debian, or with a copy of
# BASE.
bare() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    if [ -n "${BASE:-}" ]; then
        cp -a "$BASE/." "$work"
    else
        debootstrap --variant=minbase "$1" "$work"
    fi
}

# try ROOT: loads, asks and verifies with the `sty` that is installed below ROOT.
try() {
    chroot "$1" /bin/sh -eu <<'END'
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
}
