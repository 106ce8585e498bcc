#!/bin/sh
# The documentation says what the program says. Usage: check_docs.sh [--write]
#
# Tables: what stands between "<!-- pith COMMAND ... -->" and "<!-- end -->" in README.md, docs/*.md is that
# command's output. Stale ones are named, with exit status 1; with --write they are renewed.
# Options: every --option and every "pith COMMAND" at the start of a line of a code block exists. Where a command is a
# script of this repository (in a code block, or between backquotes), it has the script's options, and pith's, which some
# scripts hand on.
set -eu
cd "$(dirname "$0")/.."
pith=${PITH:-build/pith}
case $pith in /*) ;; *) pith=$PWD/$pith ;; esac
write=no
[ "${1:-}" != --write ] || write=yes
# Options of other programs, and of the tools here that are not scripts.
others='--bind-to --cache --profile --constraint --data --ttft-ms --itl-ms --output-tokens --cflags --libs --static --write --kv-cache-dtype --eval --hostfile --mpi --nodes --ntasks-per-node --cpus-per-task --signal'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

say() {
    echo "$1"
    bad=1
}

# Prints a page with each marked table made anew.
renew() { # page
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        '<!-- pith '*' -->')
            printf '%s\n\n' "$line"
            command=${line#'<!-- pith '}
            # Words without quoting, as the page's author wrote them.
            # shellcheck disable=SC2086
            "$pith" ${command%' -->'}
            printf '\n'
            while IFS= read -r line; do
                [ "$line" != '<!-- end -->' ] || break
            done
            [ "$line" = '<!-- end -->' ] || { echo "$1: a table without <!-- end -->" >&2; return 1; }
            printf '%s\n' "$line"
            ;;
        *) printf '%s\n' "$line" ;;
        esac
    done <"$1"
}

# Divides a page: commands of scripts go to $work/scripts, a line each, the rest to $work/rest.
divide() { # page
    : >"$work/scripts"
    # Every second piece between backquotes is code; a block's begins with a line's end.
    awk -v RS='`' -v scripts="$work/scripts" '
        NR % 2 { print; next }
        { gsub(/\\\n/, " "); if ($0 !~ /^[a-z]*\n/) gsub(/\n/, " ") }
        {
            count = split($0, line, "\n")
            for (i = 1; i <= count; i++)
                if (line[i] ~ /^ *(python3 )?(bench|tests|tools)\/[a-z_\/]*\.(py|sh) /) print line[i] >scripts
                else print line[i]
        }' "$1" >"$work/rest"
}

"$pith" --man | sed 's/\\-/-/g' >"$work/man"
{
    grep -oE -e '--[a-z][a-z-]*' "$work/man"
    printf '%s\n' --help --man
} >"$work/pith"
echo "$others" | tr ' ' '\n' | sort -u - "$work/pith" >"$work/options"
sed -n 's/^\.SS pith \([a-z]*\).*/\1/p' "$work/man" >"$work/commands"
echo help >>"$work/commands"

for page in README.md CONTRIBUTING.md docs/*.md; do
    renew "$page" >"$work/page" || { bad=1; continue; }
    if ! cmp -s "$page" "$work/page"; then
        if [ $write = yes ]; then
            cat "$work/page" >"$page"
            echo "$page: renewed"
        else
            diff -u "$page" "$work/page" | sed -n '3,12p' || true
            say "$page: a table is not what the program prints; 'sh tools/check_docs.sh --write' renews it"
        fi
    fi
    # Horizontal rules of tables and comment marks are no options.
    divide "$page"
    while read -r script options; do
        [ "$script" != python3 ] || script=${options%% *}
        for option in $(echo "$options" | grep -oE -e '--[a-z][a-z-]*'); do
            grep -qxF -e "$option" "$work/pith" || grep -qwF -e "$option" "$script" || say "$page: $script has no option $option"
        done
    done <"$work/scripts"
    grep -oE -e '(^|[^a-z0-9<-])--[a-z][a-z-]*' "$work/rest" | sed 's/^[^-]*//' | sort -u >"$work/used"
    for option in $(comm -23 "$work/used" "$work/options"); do
        say "$page: there is no option $option"
    done
    awk '/^ *```/ { inside = !inside; next } inside' "$page" |
        sed -n 's/^ *\(\$ \)\{0,1\}pith \([a-z][a-z]*\).*/\2/p' | sort -u >"$work/used"
    for command in $(grep -vxF -f "$work/commands" "$work/used" || true); do
        say "$page: there is no command pith $command"
    done
done
exit $bad
