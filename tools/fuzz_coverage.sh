#!/bin/sh
# Which functions of the parsers no fuzz target reaches: fuzz_coverage.sh BUILD [--write]. The seeds of
# fuzz/corpus/ are replayed by programs built to count. Each function that none of them enters has a line
# in fuzz/unreached.txt, "file:function  reason"; a function that is missing there, or a line too much, is
# a failure. --write adds missing lines without a reason, which is a failure too.
set -eu
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
major=$(clang -dumpversion | cut -d. -f1)
tool() { # llvm's, by its plain name or that of clang's version
    if command -v "$1-$major" >/dev/null 2>&1; then echo "$1-$major"; else echo "$1"; fi
}
# Each program by itself: they have functions of one name, which one profile of all would mix up.
for program in "$build"/replay/fuzz_*; do
    name=$work/$(basename "$program")
    LLVM_PROFILE_FILE="$name.raw" "$program" >"$work/log" 2>&1 || {
        cat "$work/log"
        exit 1
    }
    "$(tool llvm-profdata)" merge -sparse -o "$name.profile" "$name.raw"
    "$(tool llvm-cov)" export -format=text -skip-expansions -instr-profile="$name.profile" "$program" >"$name.json"
done
python3 - "$work"/*.json >"$work/unreached" <<'PYTHON'
import itertools, json, os, sys
# What reads bytes from outside; writers and what only computes are no parsers.
PARSERS = ("src/tok/", "src/io/", "src/base/json", "src/calib/corpus", "src/hub/",
           "src/eval/task/items.c", "src/eval/task/mmlu.c", "src/eval/task/prompts.c", "src/eval/task/questions.c",
           "src/eval/task/readers.c", "src/eval/task/records.c", "src/eval/task/shots.c", "src/eval/task/source.c",
           "src/eval/task/unpack.c", "src/quant/recipe.c", "src/model/check.c",
           "src/model/config/", "src/model/build/", "src/model/arch/", "src/quantize/output/journal.c", "src/verify/verify",
           "src/quantize/output/entries.c", "src/quantize/output/seal.c", "src/choose/sense_state.c")
reached = {}
counted = (json.load(open(file))["data"][0]["functions"] for file in sys.argv[1:])
for f in itertools.chain.from_iterable(counted):
    file = os.path.relpath(f["filenames"][0])
    if not file.startswith(PARSERS) or not file.endswith(".c"):
        continue
    name = file + ":" + f["name"].split(":")[-1]
    reached[name] = reached.get(name, False) or f["count"] > 0
print("\n".join(sorted(n for n, r in reached.items() if not r)))
PYTHON
list=fuzz/unreached.txt
[ -f $list ] || : >$list
awk '!/^#/ && NF { print $1 }' $list | sort >"$work/listed"
bad=0
for name in $(comm -23 "$work/unreached" "$work/listed"); do
    echo "no target reaches $name"
    [ "${2:-}" != --write ] || echo "$name" >>$list
    bad=1
done
for name in $(comm -13 "$work/unreached" "$work/listed"); do
    echo "$list: $name is reached, or is no more"
    bad=1
done
awk '!/^#/ && NF == 1 { print "fuzz/unreached.txt: no reason for " $1; bad = 1 } END { exit bad }' $list || bad=1
exit $bad
