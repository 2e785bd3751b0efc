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
