#!/bin/sh
# The keys of every command's JSON are those of tests/cli/report_keys.txt: what reads a report may rely on them.
# PITH_WRITE_KEYS=1 writes that file of what there is.
set -u
. tests/cli/lib.sh
text=$probe/eval.txt
list=$root/tests/cli/report_keys.txt
found=$work/found

# A key a line, with those that it stands in: "texts[].kld_mean".
cat >"$work/keys.py" <<'PY'
import json
import sys


def walk(value, at, found):
    if isinstance(value, dict):
        for key, member in value.items():
            found.add(f"{at}.{key}" if at else key)
            walk(member, f"{at}.{key}" if at else key, found)
    elif isinstance(value, list):
        for item in value:
            walk(item, at + "[]", found)


found = set()
walk(json.load(sys.stdin), "", found)
for path in sorted(found):
    print(f"{sys.argv[1]}: {path}")
PY

# keys NAME COMMAND...: the keys of what it prints.
keys() {
    name=$1
    shift
    "$pith" "$@" --json --quiet >"$work/json" 2>"$work/stderr"
    status=$?
    [ $status -le 1 ] || fail "$name (status $status): $(tail -n 2 "$work/stderr")"
    python3 "$work/keys.py" "$name" <"$work/json" >>"$found" || fail "$name: no JSON"
}

cd "$work" || exit 1
printf 'The cat\nOne two\n' >prompts.txt
keys quantize quantize "$probe" -o q -r gptq --calib-tokens 512 --seq-len 128
keys rehearsal quantize "$probe" -o r -r gptq --calib-tokens 512 --seq-len 128 --rehearse
keys "quantize auto" quantize "$probe" -o a -r auto --budget 5 --calib-tokens 256 --seq-len 64
keys convert convert q -o c --container compressed-tensors
keys recover recover q --against "$probe" -o better --tokens 512 --seq-len 64 --steps 1
keys verify verify q --against "$probe" --for vllm
keys diff diff "$probe" q
keys inspect inspect q --stats
keys sensitivity sensitivity "$probe" --try int4:g32 --acts int8:token --kv int8:token --calib-tokens 128 --seq-len 64 --work w
keys eval eval q --baseline "$probe" --text "$text" --max-tokens 256 --context 64 --depth --kv int8:token --prompts prompts.txt \
    --tasks "$probe/tasks/order.jsonl" --task-limit 4
keys "made task" eval q --baseline "$probe" --tasks needle --length 128 --task-limit 2
keys compare compare "$probe" q --text "$text" --max-tokens 256 --context 64 -o page.html
keys plan plan llama-3.1-8b --hardware l4 --all
keys "stored plan" plan q --hardware l4
keys "no plan" plan llama-3.1-70b --hardware l4 --users 64 --context 131072
keys pools plan llama-3.1-8b --hardware h100-sxm --prefill l4
keys "plan quantize" plan llama-3.1-8b --quantize awq --hardware epyc-genoa-96x2 --link 25G
keys shapes plan --shapes
keys advise advise "$probe" --for vllm:gpu=l4 --candidates 1 --text "$text" --max-tokens 128 --calib-tokens 128 --work advice
keys bench bench "$probe" --prompt 8 --gen 2 --reps 1 --sequences 2
keys run run "$probe" -p One -n 2
for list_of in recipes formats features hardware; do keys $list_of $list_of; done

if [ "${PITH_WRITE_KEYS:-}" = 1 ]; then
    cp "$found" "$list"
fi
check "the keys of $(cut -d: -f1 "$found" | sort -u | wc -l) reports" cmp "$list" "$found"
diff "$list" "$found" | head -n 20
exit $failed
