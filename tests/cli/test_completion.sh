#!/bin/sh
# pith completion: each shell reads its script, and offers the commands, options and values that there are.
set -u
. tests/cli/lib.sh

refuse "another shell" 2 "there are bash zsh fish" "$pith" completion tcsh
refuse "a shell's name mistyped" 2 "did you mean 'fish'" "$pith" completion fis
refuse "no shell" 2 'an argument is missing: bash\|zsh\|fish' "$pith" completion
for shell in bash zsh fish; do
    check "$shell" "$pith" completion $shell
    cp "$work/stdout" "$work/$shell"
    "$pith" completion $shell --json | python3 -c "
import json, sys
j = json.load(sys.stdin)
assert j == {'shell': '$shell', 'script': open('$work/$shell').read()}" && pass "$shell: --json" || fail "$shell: --json"
    command -v $shell >/dev/null || { skip "$shell" "it is not installed"; continue; }
    check "$shell: the script is read" $shell -n "$work/$shell"
    python3 tests/cli/completions.py "$pith" $shell "$work/$shell" "$work" || failed=1
done

# What zsh makes of the specifications, at a terminal of its own.
cat >"$work/press.zsh" <<'END'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; stty -echo; autoload -Uz compinit && compinit -u -D; source $1; bindkey '^I' list-choices; print RE''ADY"
zpty -r shell line '*READY*'
zpty -n -w shell "$2"$'\t'
zpty -r shell line "*$3*" && print -r -- "$line"
zpty -d shell
END
if command -v zsh >/dev/null; then
    press() { # LINE PATTERN
        timeout 60 zsh -f "$work/press.zsh" "$work/zsh" "$1" "$2" >"$work/stdout" 2>"$work/stderr" && grep -qE -e "$2" "$work/stdout" &&
            pass "zsh shows: $1" || fail "zsh shows: $1"
    }
    press "pith inspect --st" "range"
    press "pith run --mode " "exact"
    press "pith completion " "fish"
fi
finish
