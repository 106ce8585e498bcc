# What the tests under emulation share, beside tests/cli/lib.sh. They set cpu, and emulate() to run a
# program on it.
# shellcheck shell=sh
. tests/cli/lib.sh

# tier NAME PROGRAM: whether that is the tier of the emulated CPU, as build's tests/emulated/tier says.
tier() {
    [ "$(emulate "$2" 2>/dev/null)" = "$1" ]
}

# units FOLDER TEST...: test programs on the emulated CPU; each of their tests counts.
units() {
    folder=$1
    shift
    for t in "$@"; do
        emulate "$folder/$t" >"$work/log" 2>&1 && rc=0 || rc=$?
        sed -n "s|^\[       OK \]|& $cpu, ${t##*/}:|p" "$work/log"
        [ "$rc" -eq 0 ] || {
            fail "$cpu, $t (status $rc)"
            grep -v '\[       OK \]' "$work/log" | tail -n 10
        }
    done
}

# quick_units FOLDER TEST...: without the loops of "make test-all", which take a quarter of an hour when emulated.
quick_units() {
    all=${PITH_TEST_ALL-}
    PITH_TEST_ALL=
    units "$@"
    PITH_TEST_ALL=$all
}
