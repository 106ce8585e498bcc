# What tests that start a server share: read after lib.sh.
# shellcheck shell=sh
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null; rm -rf "$work"' EXIT

# serve MODEL OPTIONS...: starts a server, whose address is $url. It ends with the test at the latest.
serve() {
    : >"$work/address"
    "$pith" serve "$@" --port 0 >"$work/address" 2>"$work/log" &
    server=$!
    awaited 60 test -s "$work/address" || fail "no address: $(tail -n 3 "$work/log")"
    # shellcheck disable=SC2034 # for those that read this
    url=$(head -n 1 "$work/address")
}
# ends STATUS: the server ends by itself after SIGTERM.
ends() {
    kill -TERM "$server"
    wait "$server" && got=0 || got=$?
    server=
    [ "$got" -eq "$1" ] && pass "ends with status $1" || fail "ends with status $got instead of $1: $(tail -n 3 "$work/log")"
}
