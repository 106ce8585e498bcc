#!/bin/sh
# make install: into a prefix by either name, in front of it DESTDIR; the library's page is true there; make uninstall.
set -u
. tests/cli/lib.sh
BUILD=${BUILD:-build}
make_() { # as it is typed, whatever make runs this
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u prefix -u PREFIX -u DESTDIR make --no-print-directory BUILD="$BUILD" CC="${CC:-gcc}" "$@" >"$work/stdout" 2>"$work/stderr"
}
installed() { # PLACE: all of it is there
    for f in bin/pith lib/libpith.a lib/libpith.so lib/libpith.so.0 include/pith/quantize.h share/man/man1/pith.1 lib/pkgconfig/pith.pc \
        share/bash-completion/completions/pith share/zsh/site-functions/_pith share/fish/vendor_completions.d/pith.fish; do
        [ -s "$1/$f" ] || { echo "$1/$f is missing" >>"$work/stderr"; return 1; }
    done
    "$1/bin/pith" --version >/dev/null
}
named() { # PLACE PREFIX: pith.pc names the prefix
    [ "$(sed -n 's/^prefix=//p' "$1/lib/pkgconfig/pith.pc")" = "$2" ]
}
if grep -q __asan_init "$pith" 2>/dev/null || ! command -v pkg-config >/dev/null; then
    skip "installing" "an instrumented build, or no pkg-config"
    finish
fi
check "PREFIX" make_ install PREFIX="$work/one"
check "all is there" installed "$work/one"
check "pith.pc names it" named "$work/one" "$work/one"
check "prefix" make_ install prefix="$work/two"
check "the same" diff -r -x pkgconfig "$work/one" "$work/two"
check "DESTDIR" make_ install PREFIX=/opt/pith DESTDIR="$work/stage"
check "in front" installed "$work/stage/opt/pith"
check "of what is written alone" named "$work/stage/opt/pith" /opt/pith
check "a name with a space" make_ install PREFIX="$work/a place"
check "that too" installed "$work/a place"
for how in "PREFIX=$work/one" "prefix=$work/two" "PREFIX=$work/a place"; do
    check "uninstall" make_ uninstall "$how"
    [ -z "$(find "${how#*=}" ! -type d)" ] && [ ! -e "${how#*=}/include/pith" ] && pass "nothing is left" || fail "$how: $(find "${how#*=}" ! -type d)"
done
echo mine >"$work/stage/opt/pith/include/pith/mine.h"
make_ uninstall PREFIX=/opt/pith DESTDIR="$work/stage"
[ "$(cd "$work/stage" && find . -type f)" = ./opt/pith/include/pith/mine.h ] && pass "what is not pith's stays" || fail "what is not pith's stays"

# What docs/library.md says about building against it, as it stands, in a copy of what it needs.
mkdir "$work/home" "$work/tree"
ln -s "$root/models" "$root/examples" "$work/tree"
sed -n '/^make install PREFIX=/,/^```/p' docs/library.md | grep -v '^```' >"$work/said"
[ "$(wc -l <"$work/said")" -eq 4 ] && pass "the page's four lines" || fail "the page's four lines"
# The build is not made anew: the first line is the tree's own.
make_ install PREFIX="$work/home/.local" || fail "make install: $(tail -n 1 "$work/stderr")"
if thorough; then
    (cd "$work/tree" && sed 1d "$work/said" | HOME=$work/home sh -e) >"$work/stdout" 2>"$work/stderr" && grep -q 'Once upon a time' "$work/stdout"
else # which takes half a minute: without arguments
    (cd "$work/tree" && sed '1d; s/^\(\.\/quantize\) .*/\1/' "$work/said" | HOME=$work/home sh -e) >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 2 ] && grep -q '^usage' "$work/stderr"
fi && pass "the example is built and run as printed" || fail "the example is built and run as printed: $(tail -n 3 "$work/stderr")"
export PKG_CONFIG_PATH="$work/home/.local/lib/pkgconfig"
sed -n '/^```c$/,/^```$/p' docs/library.md | grep -v '^```' >"$work/page.c"
for as in "c -std=c17" "c++ -std=c++11" "c++ -std=c++20"; do
    for source in "$work/page.c" examples/quantize.c; do
        # shellcheck disable=SC2046,SC2086
        check "${source##*/} as $as" ${CC:-gcc} -Wall -Wextra -Wpedantic -Werror -x $as $source -x none $(pkg-config --cflags --libs pith) -o "$work/program"
    done
done
# shellcheck disable=SC2046
check "a static library" ${CC:-gcc} examples/quantize.c "$work/home/.local/lib/libpith.a" $(pkg-config --cflags pith) $(pkg-config --static --libs pith) -o "$work/program"
finish
