#!/bin/sh
# STYLE limits: 800 lines a file (tables exempt), 90% of functions within 40 lines and none over 80
# (kernels 150), 100 columns, no tabs or trailing blanks. Needs universal-ctags for function lengths.
set -eu
cd "$(dirname "$0")/.."
bad=0
files=$(git ls-files 'src/**/*.[ch]' 'src/*.[ch]' 'include/**/*.h' 'cli/*.[ch]' 'server/*.[ch]' 'examples/*.c' 'tests/**/*.[ch]' 'fuzz/*.[ch]' 'bench/*.[ch]' 'tools/*.c')
for f in $files; do
    [ -f "$f" ] || continue
    case $f in */golden/* | *_table.h | *_table.c) continue ;; esac
    lines=$(wc -l <"$f")
    [ "$lines" -le 800 ] || { echo "$f: $lines lines (limit 800)"; bad=1; }
    long=$(awk 'length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns" }' "$f" | head -n 3)
    [ -z "$long" ] || { echo "$long"; bad=1; }
    blank=$(grep -nE '[[:space:]]+$|	' "$f" | head -n 3 || true)
    [ -z "$blank" ] || { echo "$f: trailing blank or tab: $blank"; bad=1; }
done
if command -v ctags >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    ctags -x --c-kinds=f --_xformat='%{end} %n %F %N' $(echo "$files" | grep -E '^(src|cli|server)/.*\.c$') |
        awk '{ n = $1 - $2 + 1; total++; if (n > 40) over++
               limit = ($3 ~ /^src\/kern\//) ? 150 : 80
               if (n > limit) { print $3 ":" $2 ": " $4 " has " n " lines (limit " limit ")"; bad = 1 } }
             END { if (total && over * 10 > total) { print over " of " total " functions pass 40 lines (limit 10%)"; bad = 1 }
                   exit bad }' || bad=1
fi
exit $bad
