#!/bin/sh
# Two ranks under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer: no report, and the bytes
# of the ordinary program on one. `make ranks-sanitized` builds what is run. A part of `make test-all`.
# SANITIZERS: which (default: asan tsan).
set -u
. tests/cli/lib.sh
if ! thorough; then
    skip "ranks under sanitizers" "a part of make test-all"
    finish
fi
if nm "$pith" 2>/dev/null | grep -qE '__[at]san_init'; then
    skip "ranks under sanitizers" "the program is under one as it is"
    finish
fi
if ! command -v mpicc >/dev/null; then
    skip "ranks under sanitizers" "no MPI (libopenmpi-dev, openmpi-bin)"
    finish
fi
ranks_here "ranks under sanitizers" || finish
build=$(realpath "${BUILD:-build}")
if ! make --no-print-directory -s -j"$(nproc)" BUILD="$build" ranks-sanitized >"$work/made" 2>&1; then
    if grep -qE 'cannot find (-lasan|-ltsan|-lubsan|.*lib[atu]b?san)' "$work/made"; then
        skip "ranks under sanitizers" "the compiler has none"
    else
        fail "make ranks-sanitized"
        tail -n 20 "$work/made"
    fi
    finish
fi

# What is Open MPI's own. Leaks: what it has found out of the machine and itself it keeps until the process ends. Its
# threads: it asks for condition variables with mutexes that libevent took for it, and no part of it is compiled with
# ThreadSanitizer, which then sees locks without their keys. Of what pith does no frame is in these.
for part in libmpi.so libopen-pal.so libopen-rte.so libpmix.so libhwloc.so libevent mca_; do
    echo "leak:$part" >>"$work/leaks"
    for kind in mutex deadlock race; do echo "$kind:$part" >>"$work/races"; done
done
mkdir "$work/reports"
export ASAN_OPTIONS="log_path=$work/reports/asan:detect_leaks=1:fast_unwind_on_malloc=0"
export UBSAN_OPTIONS="log_path=$work/reports/ubsan:print_stacktrace=1"
export LSAN_OPTIONS="suppressions=$work/leaks:print_suppressions=0"
export TSAN_OPTIONS="log_path=$work/reports/tsan:suppressions=$work/races:exitcode=66"

clean() { # NAME: no sanitizer has reported anything
    if [ -z "$(ls -A "$work/reports")" ]; then
        pass "$1"
    else
        fail "$1: $(ls "$work/reports" | wc -l) reports"
        cat "$work/reports"/* | head -n 60
        rm -f "$work/reports"/*
    fi
}
both() { # ARGUMENTS...: of the sanitized program, on two ranks
    timeout 300 mpirun -q -n 2 "$sane" "$@" </dev/null >"$work/stdout" 2>"$work/stderr"
}
works() { # NAME ARGUMENTS...
    label="$kind: $1"
    shift
    both "$@" || fail "$label: status $?: $(tail -n 3 "$work/stderr")"
    clean "$label"
}
makes() { # NAME WANTED OUT ARGUMENTS...: the bytes of the ordinary program are in WANTED
    name=$1
    wanted=$2
    out=$3
    shift 3
    works "$name" "$@"
    if [ -d "$wanted" ]; then
        [ "$(digest "$wanted")" = "$(digest "$out")" ] || fail "$label: other bytes"
    else
        cmp -s "$wanted" "$out" || fail "$label: other bytes"
    fi
}

python3 tests/cli/mini.py "$work/dense" layers=2 hidden=128 ffn=256
python3 tests/cli/mini.py "$work/moe" qwen3_moe layers=2 hidden=128 ffn=128
python3 tests/cli/mini.py "$work/wide" layers=1 hidden=320 ffn=320 # wide enough that ranks factor together
base="--quiet --calib-tokens 256 --seq-len 32"
echo '{"base": "autoround", "iterations": 3, "batch": 2}' >"$work/few.json"
python3 - "$work/text.txt" <<'END'
import sys
open(sys.argv[1], "w").write("".join(f"The {i}th line of a text about {i * 7 % 13} things.\n" for i in range(100)))
END
# model, recipe
cat >"$work/cases" <<END
dense rtn
dense gptq
dense awq
dense smoothquant
dense sparsegpt
dense squeezellm
dense q4_k_m
dense qep --round qep:kron
dense qep --round qep:guided
dense yaqa
dense gptaq
dense guided
dense $work/few.json
wide gptq
moe gptq
moe rtn
moe qep
moe guided --experts all
moe $work/few.json
END
named() { # FOLDER NUMBER RECIPE: a file where the recipe makes one
    case $3 in q[0-9]*) echo "$1/$2.gguf" ;; *) echo "$1/$2" ;; esac
}
mkdir "$work/one"
i=0
while read -r model recipe; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    "$pith" quantize "$work/$model" -o "$(named "$work/one" $i "$recipe")" -r $recipe $base >/dev/null 2>"$work/stderr" ||
        fail "$model $recipe alone: $(cat "$work/stderr")"
done <"$work/cases"
"$pith" quantize "$work/dense" -o "$work/low" -r rtn --weights int2:g32:asym --quiet
lessons="--against $work/dense --tokens 512 --seq-len 40 --batch 2 --steps 2 --rate 5 --quiet"
# shellcheck disable=SC2086
"$pith" recover "$work/low" -o "$work/one/better" $lessons >/dev/null 2>&1
"$pith" convert "$work/one/2" -o "$work/one/converted" --container gptq --quiet

for kind in ${SANITIZERS:-asan tsan}; do
    sane=$build/ranks-$kind/pith
    two=$work/two-$kind
    mkdir "$two"
    i=0
    while read -r model recipe; do
        i=$((i + 1))
        # shellcheck disable=SC2086
        makes "$model ${recipe##*/}" "$(named "$work/one" $i "$recipe")" "$(named "$two" $i "$recipe")" \
            quantize "$work/$model" -o "$(named "$two" $i "$recipe")" -r $recipe $base --threads 2
    done <"$work/cases"
    # shellcheck disable=SC2086
    makes recover "$work/one/better" "$two/better" recover "$work/low" -o "$two/better" $lessons --threads 2
    makes convert "$work/one/converted" "$two/converted" convert "$work/one/2" -o "$two/converted" --container gptq --quiet
    works "eval" eval "$work/one/2" --baseline "$work/dense" --text "$work/text.txt" --context 48 --threads 2
    works "eval of tasks" eval "$work/one/2" --tasks "$probe/tasks/order.jsonl" --task-limit 3 --threads 2
    works "compare" compare "$work/dense" "$work/one/2" "$work/one/1" --text "$work/text.txt" --context 48 --threads 2
    works "verify" verify "$work/one/2" --against "$work/dense" --threads 2
    (cd "$two" && works sensitivity sensitivity "$work/dense" --calib-tokens 128 --seq-len 32 --try int4:g32 --threads 2; exit $failed) || failed=1
    (cd "$two" && works "sensitivity of a mixture" sensitivity "$work/moe" --calib-tokens 128 --seq-len 32 --try int4:g32 --threads 2; exit $failed) || failed=1

    # One fails: it says so, and nothing is left over.
    printf '#!/bin/sh\nulimit -f 8\nexec "%s" "$@"\n' "$sane" >"$work/small"
    chmod +x "$work/small"
    mkdir "$two/a" "$two/b"
    run="quantize $work/dense -o out -r gptq --quiet --calib-tokens 1024 --seq-len 32 --threads 2"
    # shellcheck disable=SC2086
    timeout 300 mpirun -q -n 1 --wdir "$two/a" "$sane" $run : -n 1 --wdir "$two/b" "$work/small" $run >/dev/null 2>"$work/stderr" &&
        fail "$kind: a full disk: it went on"
    grep -q '^pith.*rank 1: ' "$work/stderr" || fail "$kind: a full disk: $(cat "$work/stderr")"
    clean "$kind: a rank that fails"

    # One is killed, and others go on.
    rm -rf "$work/ordinary"
    run="-r gptq --quiet --calib-tokens 2048 --seq-len 32"
    # shellcheck disable=SC2086
    "$pith" quantize "$work/dense" -o "$work/ordinary" $run >/dev/null 2>&1
    # shellcheck disable=SC2086
    mpirun -q -n 2 "$sane" quantize "$work/dense" -o "$two/killed" $run --threads 2 >/dev/null 2>&1 &
    job=$!
    awaited 120 grep -q self_attn "$two/killed.partial/pith.journal" 2>/dev/null
    pgrep -f "^$sane quantize $work/dense -o $two/killed " | sed -n 2p | xargs -r kill -KILL
    wait $job
    [ -e "$two/killed.partial" ] || fail "$kind: it was over before it was killed"
    # shellcheck disable=SC2086
    makes "killed, and resumed" "$work/ordinary" "$two/killed" quantize "$work/dense" -o "$two/killed" $run --threads 2 --resume
done
finish
