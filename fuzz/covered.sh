#!/bin/sh
# A wrapper around rustc that measures coverage of this project alone, for libFuzzer: DataFusion and
# the other libraries are compiled as they always are. See README.md.
name=
previous=
for argument in "$@"; do
    [ "$previous" = --crate-name ] && name=$argument
    previous=$argument
done
case $name in
stylobate | stylobate_fuzz | segment | manifest | statistics | csv | json | encodings | parquet | \
    arrow | sql | partition | store | sty | serve)
    exec "$@" --cfg fuzzing -Cdebug-assertions=on -Coverflow-checks=on \
        -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$@" ;;
esac
