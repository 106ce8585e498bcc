#!/bin/sh
# Each option of each command is in options.txt, which tells when it would do nothing; it is refused there.
set -u
. tests/cli/lib.sh

"$pith" --man | sed 's/\\-/-/g' | awk '/^\.SS pith/ { c = $3 } /^\.SH/ { c = "" }
    c && /^\.TP/ { getline; match($0, /--[a-z0-9-]+/); print c, substr($0, RSTART + 2, RLENGTH - 2) }' | sort >"$work/are"
grep -v '^#' tests/cli/options.txt | cut -d ' ' -f 1,2 | sort >"$work/listed"
if diff "$work/are" "$work/listed" >"$work/diff"; then
    pass "all options are in options.txt"
else
    fail "all options are in options.txt (< missing there, > gone)"
    cat "$work/diff"
fi

grep -v '^#' tests/cli/options.txt >"$work/lines"
while IFS= read -r line; do
    head=${line%% | *}
    rest=${line#* | }
    [ "$rest" != - ] || continue
    # shellcheck disable=SC2086
    set -- $head
    command=$1 option=$2 value=$3
    arguments=$(printf '%s' "--$option $([ "$value" = . ] || echo "$value") $rest" |
        sed "s|PROBE|$probe|g; s|TEXT|$probe/eval.txt|g; s|OUT|$work/out|g")
    # shellcheck disable=SC2086
    "$pith" $command $arguments >"$work/stdout" 2>"$work/stderr" </dev/null && got=0 || got=$?
    if grep -qE -e "$option.*(does nothing|do nothing|without)|matches no" "$work/stderr"; then pass "$command --$option where it does nothing"
    else
        fail "$command --$option where it does nothing: status $got"
        tail -n 3 "$work/stderr"
    fi
    [ "$got" -eq 0 ] || [ ! -e "$work/out" ] || fail "$command --$option wrote something"
    rm -rf "$work/out" "$work/out.partial"
done <"$work/lines"
finish
