#!/bin/sh
# A disk that is full: a clear error, the input untouched, and --resume goes on when there is space.
set -u
# Mounting needs root, or a name space in which one is root.
if [ "$(id -u)" != 0 ] && [ -z "${UNSHARED:-}" ] && unshare -rm true 2>/dev/null; then
    UNSHARED=1 exec unshare -rm sh "$0"
fi
. tests/cli/lib.sh
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2
base="--quiet --weights int4:g32 --container compressed-tensors -r gptq --calib-tokens 1024 --seq-len 128"

# shellcheck disable=SC2086
make() { # OUT OPTIONS...
    out=$1
    shift
    "$pith" quantize "$mini" -o "$out" $base "$@"
}
preload=
full='No space left on device.*(free some space|--resume)'

# --- a disk that fills at any call, made by a library loaded before the program --------------------
before=$(cd "$mini" && sha256sum ./* | sha256sum)
make "$work/whole" || fail "undisturbed run"
whole=$(digest "$work/whole")
if faulty; then
    preload=$faulty
    n=1
    points=0
    wrong=0
    while :; do
        rm -rf "$work/out" "$work/out.partial"
        # Every other time on a file system that cannot reserve space.
        [ $((n % 2)) -eq 0 ] && export NO_FALLOCATE=1 || unset NO_FALLOCATE
        (FAULT=full:$n LD_PRELOAD=$preload make "$work/out") 2>"$work/stderr"
        rc=$?
        [ $rc -eq 0 ] && break
        points=$((points + 1))
        if [ $rc -ne 1 ] || [ "$(wc -l <"$work/stderr")" -ne 1 ] || ! grep -qE "$full" "$work/stderr" ||
            ! make "$work/out" --resume 2>>"$work/stderr" || [ "$(digest "$work/out")" != "$whole" ]; then
            wrong=$((wrong + 1))
            echo "full at call $n (status $rc):" && cat "$work/stderr"
        fi
        n=$((n + ${STRIDE:-5}))
    done
    [ $wrong -eq 0 ] && [ $points -gt 5 ] && pass "full at $points calls: one clear line, resumed to the same bytes" ||
        fail "full at $points calls: $wrong of them wrong"
else
    skip "full at each call" "a library cannot be loaded before the program"
fi

# --- a small disk ---------------------------------------------------------------------------------
# Of each size in KiB from too little for the tensors on, until one suffices: what does not fit is first
# the tensors, then the activations, then the journal and pith.json.
disk=$work/disk
small_disk() { # SIZE: 0 as it should be, 2 it fits, else wrong
    [ $(($1 / 100 % 2)) -eq 0 ] && export NO_FALLOCATE=1 || unset NO_FALLOCATE
    (export LD_PRELOAD="$preload" && make "$disk/out") >"$work/stdout" 2>"$work/stderr"
    rc=$?
    [ $rc -eq 0 ] && return 2
    cat "$work/stderr"
    [ $rc -eq 1 ] && [ ! -s "$work/stdout" ] && [ "$(wc -l <"$work/stderr")" -eq 1 ] &&
        grep -qE "$full" "$work/stderr" && [ ! -e "$disk/out" ] &&
        mount -t tmpfs -o remount,size=64m pith-test "$disk" && make "$disk/out" --resume && [ "$(digest "$disk/out")" = "$whole" ]
}
mount_disk() {
    mount -t tmpfs -o "size=${1}k" pith-test "$disk" 2>/dev/null
}
mkdir "$disk"
if mount_disk 1000; then
    umount "$disk"
    for size in 200 500 700 900 1100 1200 1240 1280 1320 1360 1400 1440 1480 1520 1560 1600 1800 2000; do
        mount_disk $size || fail "a disk of $size KiB cannot be made"
        small_disk $size
        case $? in
        0) pass "full at $size KiB, resumed after it was enlarged" ;;
        2) fits=$size ;;
        *) fail "full at $size KiB" ;;
        esac
        umount "$disk"
        [ -z "${fits:-}" ] || break
    done
    [ "${fits:-0}" -gt 1000 ] && pass "and $fits KiB suffice" || fail "and a larger disk suffices"
else
    skip "a small disk" "a file system can be mounted by root only"
fi
[ "$before" = "$(cd "$mini" && sha256sum ./* | sha256sum)" ] && pass "the input is untouched" ||
    fail "the input is untouched"
finish
