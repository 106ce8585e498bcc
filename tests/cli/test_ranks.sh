#!/bin/sh
# One run by several ranks: the bytes of one, whatever their number; what happens when one fails.
# RECIPES: those that are tried (default: some of each kind; all with PITH_TEST_ALL).
set -u
. tests/cli/lib.sh
if [ -n "${MPIRUN:-}" ]; then # such as mpirun.mpich, where BUILD was made with MPICC=mpicc.mpich
    printf '#!/bin/sh\n[ "$1" = -q ] && shift\nexec %s "$@"\n' "$MPIRUN" >"$work/bin/mpirun"
    chmod +x "$work/bin/mpirun"
fi
ranks_here "ranks" || finish
mini=$work/mini
python3 tests/cli/mini.py "$mini" layers=2 hidden=128 ffn=256
base="--quiet --calib-tokens 512 --seq-len 64 --threads 1"

model=$mini
# shellcheck disable=SC2086
alone() { "$pith" quantize "$model" -o "$@" $base >/dev/null 2>"$work/stderr"; }
# shellcheck disable=SC2086
ranks() { # N OUT OPTIONS...
    n=$1
    shift
    timeout 120 mpirun -q -n "$n" "$pith" quantize "$model" -o "$@" $base >"$work/stdout" 2>"$work/stderr"
}
is_same() { # NAME A B
    [ -e "$3.partial" ] && fail "$1: the work folder is still there" && return
    if { [ -f "$2" ] && cmp -s "$2" "$3"; } || { [ -d "$2" ] && [ "$(digest "$2")" = "$(digest "$3")" ]; }; then pass "$1"; else fail "$1: other bytes"; fi
}
awaits() { # FILE: until there is something in it, a minute at most
    i=0
    until [ -s "$1" ] || [ $i -ge 1200 ]; do
        sleep 0.05
        i=$((i + 1))
    done
}

# --- the same bytes -------------------------------------------------------------------------------
tried() { # RECIPE...: each on 1 to 4 ranks
    for r in "$@"; do
        count=$((count % 4 + 1)) # 2, 3, 4, 1 ranks
        kind=${model##*/}
        case $r in gguf | imatrix | q[0-9]*) name=$kind-$r.gguf ;; *) name=$kind-${r##*/} ;; esac
        if ! alone "$work/one-$name" -r "$r"; then
            why=$(head -c 120 "$work/stderr")
            ranks 2 "$work/two-$name" -r "$r" && fail "$kind, $r: refused alone ($why), not by two ranks"
            continue
        fi
        ranks $count "$work/two-$name" -r "$r" || fail "$kind, $r, $count ranks: $(cat "$work/stderr")"
        is_same "$kind, $r, $count ranks" "$work/one-$name" "$work/two-$name"
    done
}
recipes="rtn fp8-static nvfp4 quarot squeezellm gptaq" # others where what they receive is estimated, below
[ -z "${PITH_TEST_ALL:-}" ] || recipes=$("$pith" recipes | awk '/^  [a-z]/ { print $1 }')
count=1
# shellcheck disable=SC2086
tried ${RECIPES:-$recipes}
python3 tests/cli/mini.py "$work/moe" qwen3_moe layers=2 hidden=128 ffn=256
model=$work/moe
[ -n "${PITH_TEST_ALL:-}" ] || recipes="w4a8 q4_k_m awq nvfp4"
# shellcheck disable=SC2086
tried ${RECIPES:-$recipes}
echo '{"base": "autoround", "iterations": 6, "batch": 3}' >"$work/few.json"
echo '{"base": "autoround", "iterations": 6, "batch": 3, "blocks": 2}' >"$work/pairs.json"
! thorough || tried "$work/few.json"
tried "$work/pairs.json" # experts learn from the tokens that take them
for odd in "gptq --experts all" "qep+yaqa --transform awq --seq-len 50" "gptaq --experts all --transform smooth"; do
    # shellcheck disable=SC2086
    { alone "$work/odd-one" -r $odd && ranks 3 "$work/odd-three" -r $odd; } || fail "$odd: $(cat "$work/stderr")"
    is_same "a mixture, $odd, by 3 ranks" "$work/odd-one" "$work/odd-three"
    grep -q "rank 0 does" "$work/stderr" && fail "$odd is rank 0's alone"
    rm -rf "$work/odd-one" "$work/odd-three"
done
# Experts that are one tensor of the file.
recipes="rtn gptq"
[ -z "${PITH_TEST_ALL:-}" ] || recipes="rtn gptq awq qep guided autoround"
for r in $recipes; do
    echo '{"base": "'$r'", "weights": "int8:channel", "container": "compressed-tensors"}' >"$work/fused-$r.json"
done
kinds="gpt_oss qwen3_moe_fused"
[ -z "${PITH_TEST_ALL:-}" ] || kinds="$kinds llama4 granitemoe qwen3_vl_moe"
for kind in $kinds; do
    python3 tests/cli/arch_case.py "$kind" "$work/$kind" "$work/$kind.txt"
    model=$work/$kind
    count=1
    if ! thorough; then # one each
        case $kind in gpt_oss) recipes=rtn ;; *) recipes=gptq ;; esac
    fi
    # shellcheck disable=SC2046,SC2086
    tried $(printf "$work/fused-%s.json " $recipes)
done
model=$mini
echo '{"base": "gptq", "weights": "int3:g32", "round": "gptq:guided", "row_groups": 4}' >"$work/four.json"
echo '{"base": "qep", "token_limit": 1}' >"$work/limited.json" # half of the tokens are above the median
echo '{"base": "autoround", "iterations": 6, "batch": 3, "float_input": true}' >"$work/few.json"
python3 tests/cli/kinds_model.py deepseek_v3 "$probe" "$work/latent" dense >/dev/null
for odd in "$work/four.json" "$work/limited.json" "$work/limited.json --round gptq:guided" "$work/pairs.json" "$work/few.json --seq-len 50" "$work/few.json --transform awq" "qep --round qep:guided" "yaqa --seq-len 170" "awq --seq-len 50" "squeezellm --round weighted:guided"; do # no whole pages; kinds of guides
    # shellcheck disable=SC2086
    { alone "$work/odd-one" -r $odd && ranks 3 "$work/odd-three" -r $odd; } || fail "$odd: $(cat "$work/stderr")"
    is_same "${odd##*/} by 3 ranks" "$work/odd-one" "$work/odd-three"
    rm -rf "$work/odd-one" "$work/odd-three"
done

model=$work/latent # attention takes a matrix into itself
{ alone "$work/odd-one" -r "$work/few.json" && ranks 2 "$work/odd-two" -r "$work/few.json"; } || fail "latents: $(cat "$work/stderr")"
is_same "autoround of latents by 2 ranks" "$work/odd-one" "$work/odd-two"
model=$mini

# --- who writes -----------------------------------------------------------------------------------
cat >"$work/wrote.py" <<'EOF'
import json, os, sys
t, folder = json.load(open(sys.argv[1] + "/pith.json"))["timing"], sys.argv[1]
if sys.argv[2] == "0":
    assert "rank_bytes_written" not in t, t
else:
    wrote = t["rank_bytes_written"]
    size = sum(os.path.getsize(f"{folder}/{f}") for f in os.listdir(folder) if f.endswith(".safetensors"))
    assert len(wrote) == int(sys.argv[2]) and 0 < size - sum(wrote) < 65536, (wrote, size)
    assert min(wrote) > 30000, wrote
EOF
for r in rtn gptq; do
    for way in "2 2 --max-shard 100K" "3 3 --max-shard 40K" "3 0 --gather"; do
        thorough || case "$r $way" in "rtn 3 3"* | "gptq 2 2"* | "gptq 3 0"*) continue ;; esac # each way once
        # shellcheck disable=SC2086
        set -- $way
        many=$1 shared=$2
        shift 2
        rm -rf "$work/one-written" "$work/written"
        options="$*"
        # shellcheck disable=SC2086
        { alone "$work/one-written" -r $r ${options#--gather} && ranks "$many" "$work/written" -r $r $options; } || fail "$r $options: $(cat "$work/stderr")"
        is_same "$r $options, written by ${shared#0}" "$work/one-written" "$work/written"
        check "$r $options: each of $shared ranks writes" python3 "$work/wrote.py" "$work/written" "$shared"
    done
done

# Wide enough that ranks factor a Hessian together.
wide=$work/wide
python3 tests/cli/mini.py "$wide" layers=1 hidden=320 ffn=1152
model=$wide
count=1
tried gptq sparsegpt qep

# --- estimates ------------------------------------------------------------------------------------
cat >"$work/estimated.py" <<'EOF'
import json, sys
estimate = json.load(open(sys.argv[1]))["ranks"]
assert estimate["why"] is None and estimate["link"] == {"bits_per_second": 1e9, "delay_seconds": 20e-6}, estimate["link"]
assert [r["ranks"] for r in estimate["rows"]] == [1, 2, 4, 8, 16, 32, 64]
assert all(r["seconds_per_block"] > 0 and r["speedup"] > 0 for r in estimate["rows"])
one = estimate["rows"][0]
assert abs(one["speedup"] - 1) < 1e-3 and one["bytes_received_per_block"] == one["link"] == 0, one
row = [r for r in estimate["rows"] if r["ranks"] == int(sys.argv[3])][0]
came = json.load(open(sys.argv[2]))["timing"]["rank_bytes_received"]
assert len(came) == int(sys.argv[3])
off = row["bytes_received"] / max(came) - 1
print("%+.0f%% of %d" % (100 * off, max(came)))
assert abs(off) <= 0.25 or max(came) < 100_000, (off, row, came)
EOF
turn=2
estimated() { # RECIPE OPTIONS...: bytes that reach the busiest of 2 or 4 ranks of $model, alternately; of both with PITH_TEST_ALL,
    # which has tried what they make, too; otherwise that is compared with what one rank makes
    turn=$((6 - turn))
    counts=$turn
    thorough && counts="2 4"
    # shellcheck disable=SC2086
    "$pith" quantize "$model" -o "$work/never" -r "$@" $base --rehearse --json --link 1G,20 >"$work/rehearsal.json" 2>"$work/stderr" || fail "$*: a rehearsal: $(cat "$work/stderr")"
    for n in $counts; do
        rm -rf "$work/several"
        ranks $n "$work/several" -r "$@" || fail "$*, $n ranks: $(cat "$work/stderr")"
        check "${model##*/}, ${*##*/}: the bytes that reach $n ranks are estimated" \
            python3 "$work/estimated.py" "$work/rehearsal.json" "$work/several/pith.json" "$n"
        case $model in "$mini" | "$work/moe")
            thorough || {
                rm -rf "$work/several-alone"
                alone "$work/several-alone" -r "$@"
                is_same "${model##*/}, ${*##*/}, $n ranks" "$work/several-alone" "$work/several"
            }
            ;;
        esac
    done
}
model=$mini
some="rtn llm.int8 gptq qep awq smoothquant guided yaqa sparsegpt $work/few.json"
[ -z "${PITH_TEST_ALL:-}" ] || some="$some hqq squeezellm qep+yaqa gptaq fp8-static quarot nvfp4 mxfp4"
for r in $some; do estimated "$r"; done
if [ -n "${PITH_TEST_ALL:-}" ]; then
    model=$work/tiles
    python3 tests/cli/mini.py "$model" layers=1 hidden=256 ffn=128
    estimated exl3
fi
model=$wide
estimated gptq
model=$work/moe # all blocks are taken to be like the first, whose tokens choose other experts
estimated rtn
estimated gptq --experts all
thorough && estimated gptq --experts routed
some="awq gptq guided qep sparsegpt $work/few.json"
[ -z "${PITH_TEST_ALL:-}" ] || some="$some smoothquant yaqa gptaq llm.int8 nvfp4"
for r in $some; do estimated "$r"; done
python3 tests/cli/mini.py "$work/single" qwen3_moe layers=1 hidden=128 ffn=256
model=$work/single # there is no other block
thorough && some="gptq awq" || some=awq
for r in $some; do estimated $r; done
kinds=deepseek_v3 # each kind of block is rehearsed: the first has no experts, and others do
[ -z "${PITH_TEST_ALL:-}" ] || kinds="$kinds qwen3_next lfm2_moe granitemoehybrid gemma4_text"
for k in $kinds; do
    model=$work/$k
    python3 tests/cli/kinds_model.py "$k" "$probe" "$model" >/dev/null
    estimated gptq --container compressed-tensors
done
thorough && some="rtn awq" || some=
for r in $some "$work/few.json"; do
    model=$work/deepseek_v3
    estimated "$r" --container compressed-tensors
done
check "a rehearsal tells which blocks it did" python3 -c '
import json, sys
j = json.load(open(sys.argv[1]))
assert [(b["layer"], b["like"]) for b in j["rehearsed"]] == [(0, 1), (1, 1)] and j["blocks"] == 2, j["rehearsed"]
assert abs(j["seconds_per_block"] - sum(b["seconds"] for b in j["rehearsed"]) / 2) < 1e-9, j' "$work/rehearsal.json"
model=$mini
refuse "a link that is none" 2 'BITS' "$pith" quantize "$mini" -o "$work/never" -r gptq --rehearse --link fast
refuse "a link of a run" 2 'does nothing without --rehearse' "$pith" quantize "$mini" -o "$work/never" -r gptq --link 10G

alone "$work/whole" -r gptq || fail "one alone"
# --- measuring ------------------------------------------------------------------------------------
python3 - "$work/text.txt" <<'EOF'
import sys
open(sys.argv[1], "w").write("".join(f"The {i}th line of a text about {i * 7 % 13} things.\n" for i in range(100)))
EOF
python3 - "$work" <<'EOF'
import json, sys
with open(sys.argv[1] + "/said.jsonl", "w") as f:
    for i in range(5):
        f.write(json.dumps({"prompt": "%d and %d are" % (i, i + 1), "target": " %d" % (2 * i + 1)}) + "\n")
open(sys.argv[1] + "/prompts.txt", "w").write("".join(f"Once there were {i}\n" for i in range(5)))
EOF
cut() { tr -d '\r' | sed "/second/d; /memory/d"; } # of a report, what is the same each time
reports() { # NAME N COMMAND...: N ranks say what one says
    name=$1
    n=$2
    shift 2
    "$pith" "$@" --json --threads 1 2>"$work/stderr" | cut >"$work/alone"
    timeout 120 mpirun -q -n "$n" "$pith" "$@" --json --threads 1 2>"$work/stderr" | cut >"$work/shared"
    if [ -s "$work/alone" ] && cmp -s "$work/alone" "$work/shared"; then
        pass "$name by $n ranks"
    else
        fail "$name by $n ranks: $(cat "$work/stderr")"
        diff "$work/alone" "$work/shared" | head -n 5
    fi
}
reports eval 3 eval "$work/whole" --baseline "$mini" --depth --text "$work/text.txt" --context 48
reports compare 3 compare "$mini" "$work/whole" "$work/one-mini-rtn" --text "$work/text.txt" --context 48
reports "eval of tasks and prompts" 2 eval "$work/whole" --baseline "$mini" --tasks "$probe/tasks/order.jsonl" --task-limit 7 \
    --tasks "exact:$work/said.jsonl" --prompts "$work/prompts.txt"
reports "compare of tasks" 4 compare "$mini" "$work/whole" "$work/one-mini-rtn" --tasks "$probe/tasks/order.jsonl" --task-limit 3

# --- caches that are chosen -----------------------------------------------------------------------
python3 tests/cli/mini.py "$work/slight" layers=1 hidden=32 ffn=32
chosen() { # N: what is said, and the records beside the weights
    rm -f "$work/slight"/pith.kv*.json
    timeout 300 mpirun -q -n "$1" "$pith" eval "$work/slight" --kv auto:6 --text "$work/text.txt" --context 48 --json --threads 1 2>"$work/stderr" |
        cut >"$work/said-$1"
    cat "$work/slight"/pith.kv*.json >>"$work/said-$1"
}
chosen 1
chosen 2
if [ -s "$work/slight/pith.kv.json" ] && [ -s "$work/slight/pith.kvquant.json" ] && cmp -s "$work/said-1" "$work/said-2"; then
    pass "a cache that two ranks choose"
else
    fail "a cache that two ranks choose: $(cat "$work/stderr")"
fi

cd "$work" || exit 1
some="--calib-tokens 448 --seq-len 64"
# shellcheck disable=SC2086
{
    reports sensitivity 3 sensitivity "$mini" $some
    reports "sensitivity of a mixture" 2 sensitivity "$work/moe" $some
    reports "sensitivity of what awq makes" 2 sensitivity "$mini" -r awq --seq-len 50 --calib-tokens 350 --try int4:g32
    reports "sensitivity of a mixture that awq makes" 2 sensitivity "$work/moe" -r awq $some --try int4:g32
}
many="sensitivity $mini --calib-tokens 8192 --seq-len 64 --threads 1 --json"
# shellcheck disable=SC2086
"$pith" $many 2>"$work/stderr" | cut >"$work/alone"
# shellcheck disable=SC2086
mpirun -q -n 2 "$pith" $many >/dev/null 2>&1 &
job=$!
i=0
until grep -q turned pith.sensitivity.partial/pith.journal 2>/dev/null || [ $i -ge 3000 ]; do
    sleep 0.02
    i=$((i + 1))
done
pgrep -f "^$pith $many" | sed -n 1p | xargs -r kill -KILL
wait $job
[ -e pith.sensitivity.partial/pith.journal ] || fail "sensitivity was over before it was killed"
# shellcheck disable=SC2086
timeout 120 mpirun -q -n 3 "$pith" $many --resume 2>"$work/stderr" | cut >"$work/shared"
if [ -s "$work/alone" ] && cmp -s "$work/alone" "$work/shared" && ! grep -q "done again" "$work/stderr"; then
    pass "sensitivity of killed ranks, resumed by three"
else
    fail "sensitivity resumed by other ranks: $(cat "$work/stderr")"
fi
cd "$root" || exit 1

# --- proving and converting -----------------------------------------------------------------------
reports verify 3 verify "$work/whole" --against "$mini"
cp -r "$work/whole" "$work/damaged"
python3 - "$work/damaged/model.safetensors" <<'EOF'
import os, sys
n = os.path.getsize(sys.argv[1])
with open(sys.argv[1], "r+b") as f:
    for at in range(n // 40, n, n // 40):
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))
EOF
reports "verify of a damaged folder" 2 verify "$work/damaged" --against "$mini"
[ "$(grep -c 'its bytes are not those' "$work/shared")" -ge 3 ] || fail "the damage is not told: $(cat "$work/shared")"
rm "$work/damaged/pith.json"
reports "verify without an account" 3 verify "$work/damaged" --against "$mini"
model=$work/moe
ranks 1 "$work/moe-fp8" -r fp8-static || fail "fp8-static: $(cat "$work/stderr")"
model=$mini
converts() { # N INPUT OUT OPTIONS...
    n=$1
    from=$2
    to=$3
    shift 3
    "$pith" convert "$from" -o "$work/one-$to" "$@" --quiet 2>"$work/stderr" || fail "convert: $(cat "$work/stderr")"
    timeout 120 mpirun -q -n "$n" "$pith" convert "$from" -o "$work/two-$to" "$@" --quiet 2>"$work/stderr" || fail "convert: $(cat "$work/stderr")"
    is_same "convert $to by $n ranks" "$work/one-$to" "$work/two-$to"
}
converts 3 "$work/whole" to-gptq --container gptq
converts 2 "$work/whole" anew.gguf --weights q4_0
converts 4 "$work/moe-fp8" static --container modelopt

# --- what learns from the original ----------------------------------------------------------------
"$pith" quantize "$mini" -o "$work/two-bits" -r rtn --weights int2:g32:asym --quiet || fail "a model to recover"
lessons="--against $mini --tokens 1024 --seq-len 70 --batch 3 --steps 3 --rate 5 --threads 1 --quiet --json"
recovers() { # NAME N OPTIONS...: the bytes of one
    name=$1
    n=$2
    shift 2
    rm -rf "$work/alone-again" "$work/again"
    # shellcheck disable=SC2086
    "$pith" recover "$work/two-bits" -o "$work/alone-again" $lessons "$@" >"$work/alone" 2>"$work/stderr" || fail "$name: $(cat "$work/stderr")"
    # shellcheck disable=SC2086
    timeout 300 mpirun -q -n "$n" "$pith" recover "$work/two-bits" -o "$work/again" $lessons "$@" >"$work/shared" 2>"$work/stderr" || fail "$name by $n ranks: $(cat "$work/stderr")"
    is_same "$name by $n ranks" "$work/alone-again" "$work/again"
    if tr -d '\r' <"$work/shared" | cmp -s - "$work/alone"; then pass "$name: what is said"; else fail "$name: what $n ranks say: $(cat "$work/shared")"; fi
}
recovers "recover" 2
recovers "recover of weights" 3 --train all
recovers "recover by more ranks than windows, of text of its own" 4 --batch 2 --text self
check "what they worked and received is in the account" python3 -c '
import json, sys
t = json.load(open(sys.argv[1]))["timing"]
assert len(t["rank_busy_seconds"]) == 4 and min(t["rank_busy_seconds"]) > 0 and min(t["rank_bytes_received"]) > 0, t' "$work/again/pith.json"
long="$lessons --train all --steps 40"
# shellcheck disable=SC2086
"$pith" recover "$work/two-bits" -o "$work/taught" $long >/dev/null 2>"$work/stderr" || fail "recover: $(cat "$work/stderr")"
# shellcheck disable=SC2086
mpirun -q -n 2 "$pith" recover "$work/two-bits" -o "$work/late" $long >/dev/null 2>&1 &
job=$!
awaits "$work/late.partial/pith.recover.slot.0"
pgrep -f "^$pith recover $work/two-bits -o $work/late " | sed -n 2p | xargs -r kill -KILL
wait $job
[ -e "$work/late.partial/pith.recover.json" ] || fail "recover was over before it was killed"
# shellcheck disable=SC2086
timeout 300 mpirun -q -n 3 "$pith" recover "$work/two-bits" -o "$work/late" $long --resume >/dev/null 2>"$work/stderr" || fail "recover, resumed: $(cat "$work/stderr")"
is_same "recover of killed ranks, resumed by three" "$work/taught" "$work/late"

# --- ranks that differ ----------------------------------------------------------------------------
# shellcheck disable=SC2086
two() { # OPTIONS OF 0 | OPTIONS OF 1, both with a folder to work in of their own
    mkdir -p "$work/a" "$work/b"
    timeout 120 mpirun -q -n 1 --wdir "$work/a" $1 : -n 1 --wdir "$work/b" $2 >"$work/stdout" 2>"$work/stderr"
}
run="$pith quantize $mini -o out -r gptq $base"
two "$run --cpu scalar" "$run --threads 2" || fail "ranks of other CPUs: $(cat "$work/stderr")"
is_same "ranks of other instruction sets, threads and disks" "$work/whole" "$work/a/out"
if [ -e "$work/b/out.partial" ] || [ -e "$work/b/out" ]; then fail "a disk of its own is not cleared"; else pass "a disk of its own is cleared"; fi
rm -rf "$work/a" "$work/b"

said() { # NAME PATTERN: one line of pith's own, with that in it; nothing made
    lines=$(grep -c '^pith' "$work/stderr")
    if [ "$lines" -eq 1 ] && grep '^pith' "$work/stderr" | grep -q "$2"; then pass "$1"; else fail "$1: $(cat "$work/stderr")"; fi
}
python3 tests/cli/mini.py "$work/other" layers=2 hidden=128 ffn=256 seed=7
two "$run" "$pith quantize $work/other -o out -r gptq $base" && fail "another input: it went on"
said "a rank with another input is named" "rank 1: .*input"
rm -rf "$work/a" "$work/b"
cat >"$work/flip.py" <<'EOF'
import json, sys
path, name = sys.argv[1] + "/model.safetensors", sys.argv[2]
with open(path, "r+b") as f:
    size = int.from_bytes(f.read(8), "little")
    first, end = json.loads(f.read(size))[name]["data_offsets"]
    f.seek(8 + size + (first + end) // 2)
    byte = f.read(1)[0]
    f.seek(-1, 1)
    f.write(bytes([byte ^ 1]))
EOF
# So large that a job's own hash has samples of it alone, which none of these is in. The rank that hashes a tensor for
# all may be the one that has it otherwise, or the other.
python3 tests/cli/mini.py "$work/large" layers=2 hidden=512 ffn=3072
for part in embed_tokens layers.0.mlp.down_proj layers.0.mlp.gate_proj layers.0.mlp.up_proj layers.1.self_attn.k_proj layers.1.input_layernorm; do
    rm -rf "$work/other" "$work/a" "$work/b"
    cp -r "$work/large" "$work/other"
    python3 "$work/flip.py" "$work/other" model.$part.weight
    two "$pith quantize $work/large -o out -r rtn --threads 1" "$pith quantize $work/other -o out -r rtn --threads 1" && fail "a bit of $part: it went on"
    said "a rank with a bit of $part turned is named" "rank 1: has an input other than rank 0"
    { [ -e "$work/a/out" ] || [ -e "$work/b/out" ]; } && fail "a bit of $part: something was made"
done
rm -rf "$work/a" "$work/b" "$work/large" "$work/other"
cat >"$work/small" <<EOF
#!/bin/sh
ulimit -f 8
exec $run
EOF
chmod +x "$work/small"
rm -rf "$work/a" "$work/b"
export UCX_TLS=self,tcp # MPICH's has files of its own to talk over, which that limit would hit
two "$run" "$work/small" && fail "a full disk: it went on"
unset UCX_TLS
said "a rank whose disk is full is named" "rank 1: .*pith.acts"
two "$run --resume" "$run --resume" || fail "after the full disk: $(cat "$work/stderr")"
is_same "resumed after the full disk" "$work/whole" "$work/a/out"

learn="$pith recover $work/two-bits -o out $lessons"
rm -rf "$work/a" "$work/b"
two "$learn" "$learn --rate 6" && fail "a lesson of its own: it went on"
said "a rank that is taught otherwise is named" "rank 1: .*options"
rm -rf "$work/a" "$work/b"
two "$learn" "$learn --cpu scalar" || fail "recover on disks of their own: $(cat "$work/stderr")"
rm -rf "$work/again"
recovers "recover" 1
is_same "recover on disks of their own, other instruction sets" "$work/alone-again" "$work/a/out"
[ -z "$(ls "$work/b")" ] || fail "a disk of its own is not cleared: $(ls "$work/b")"
rm -rf "$work/a" "$work/b"

# --- a slow one -----------------------------------------------------------------------------------
tokens=2048 # all of it in less time than lines of progress are apart
[ -z "${PITH_TEST_ALL:-}" ] || tokens=65536
slow="$pith quantize $mini -o $work/slow -r gptq --calib-tokens $tokens --seq-len 64 --threads 1"
# shellcheck disable=SC2086
timeout 300 mpirun -q -n 1 $slow : -n 1 $slow --cpu scalar : -n 1 $slow >/dev/null 2>"$work/stderr" || fail "a slow rank: $(cat "$work/stderr")"
[ -z "${PITH_TEST_ALL:-}" ] || if grep -q "rank 1 is slow" "$work/stderr"; then pass "a slow rank is named"; else fail "a slow rank is not named: $(cat "$work/stderr")"; fi
is_listed=$(python3 -c 'import json, sys; t = json.load(open(sys.argv[1]))["timing"]; b = t["rank_busy_seconds"]; print(len(b) == 3 and b[1] == max(b) and min(t["rank_bytes_received"]) > 0)' "$work/slow/pith.json")
if [ "$is_listed" = True ]; then pass "what ranks worked and received is in the account"; else fail "the account of ranks"; fi

kills=${KILLS:-3}
[ -z "${PITH_TEST_ALL:-}" ] || kills=${KILLS:-20}
# --- one is killed, and others go on --------------------------------------------------------------
base="--quiet --calib-tokens 4096 --seq-len 64 --threads 1"
alone "$work/long" -r gptq || fail "one alone"
start=$(date +%s%N)
ranks 2 "$work/timed" -r gptq
took=$((($(date +%s%N) - start) / 1000000))
i=0
deaths=0
wrong=0
while [ $deaths -lt "$kills" ] && [ $i -lt $((kills * 4)) ]; do
    i=$((i + 1))
    rm -rf "$work/out" "$work/out.partial"
    # shellcheck disable=SC2086
    mpirun -q -n 2 "$pith" quantize "$mini" -o "$work/out" -r gptq $base >/dev/null 2>"$work/stderr" &
    job=$!
    sleep "$(awk -v ms="$took" -v seed=$i 'BEGIN { srand(seed); print (0.2 + 0.75 * rand()) * ms / 1000 }')"
    victim=$(pgrep -f "^$pith quantize $mini -o $work/out " | sed -n "$((i % 2 + 1))p")
    if [ -n "$victim" ] && kill -KILL "$victim" 2>/dev/null; then
        deaths=$((deaths + 1))
    else
        took=$((took * 4 / 5)) # it was over
    fi
    wait $job
    ranks $((i % 3 + 1)) "$work/out" -r gptq --resume && [ "$(digest "$work/out")" = "$(digest "$work/long")" ] && continue
    wrong=$((wrong + 1))
    cat "$work/stderr"
done
[ $wrong -eq 0 ] && [ $deaths -eq "$kills" ] && pass "$deaths ranks killed, resumed by other numbers of ranks" ||
    fail "$wrong of $i runs not resumed to the same bytes, $deaths killed"

# --- while they learn ------------------------------------------------------------------------------
base="--quiet --calib-tokens 1024 --seq-len 64 --threads 1"
echo '{"base": "autoround", "iterations": 20, "batch": 3}' >"$work/few.json"
alone "$work/learned" -r "$work/few.json" || fail "autoround: $(cat "$work/stderr")"
rm -rf "$work/out" "$work/out.partial"
# shellcheck disable=SC2086
mpirun -q -n 2 "$pith" quantize "$mini" -o "$work/out" -r "$work/few.json" $base >/dev/null 2>&1 &
job=$!
i=0
until grep -q self_attn "$work/out.partial/pith.journal" 2>/dev/null || [ $i -ge 1200 ]; do # the first block is done
    sleep 0.05
    i=$((i + 1))
done
pgrep -f "^$pith quantize $mini -o $work/out " | sed -n 2p | xargs -r kill -KILL
wait $job
[ -e "$work/out.partial/pith.journal" ] || fail "autoround was over before it was killed"
ranks 3 "$work/out" -r "$work/few.json" --resume || fail "autoround, resumed: $(cat "$work/stderr")"
is_same "autoround of killed ranks, resumed by three" "$work/learned" "$work/out"

# --- the one that speaks is killed ----------------------------------------------------------------
rm -rf "$work/out" "$work/out.partial"
base="--quiet --calib-tokens 8192 --seq-len 64 --threads 1"
# shellcheck disable=SC2086
OMPI_MCA_odls_base_sigkill_timeout=10 timeout 120 mpirun -q -n 3 "$pith" quantize "$mini" -o "$work/out" -r gptq $base \
    >/dev/null 2>"$work/stderr" &
job=$!
awaits "$work/out.partial/pith.journal"
for p in $(pgrep -f "^$pith quantize $mini -o $work/out "); do
    tr '\0' '\n' <"/proc/$p/environ" | grep -qE '^(OMPI_COMM_WORLD|PMI)_RANK=0$' && kill -KILL "$p"
done
wait $job
if mpirun --version 2>&1 | grep -q HYDRA; then
    skip "rank 0 is killed, and another says so" "this launcher kills the others at once"
else
    said "rank 0 is killed, and another says so" "rank 0 does not answer"
fi
ranks 2 "$work/out" -r gptq --resume || fail "after rank 0 was killed: $(cat "$work/stderr")"
[ -e "$work/out/pith.json" ] && pass "what was done is gone on with" || fail "nothing came of what was done"

# --- grids that are found -------------------------------------------------------------------------
base="--quiet --calib-tokens 512 --seq-len 64 --threads 1 --try int4:g32 --try int8:g32"
alone "$work/auto-one" -r auto --budget 5.5 || fail "-r auto: $(cat "$work/stderr")"
ranks 2 "$work/auto-two" -r auto --budget 5.5 || fail "-r auto by 2 ranks: $(cat "$work/stderr")"
is_same "-r auto" "$work/auto-one" "$work/auto-two"
[ -e "$work/auto-two.auto" ] && fail "-r auto: its folder is still there"
rm -rf "$work/a" "$work/b"
run="$pith quantize $mini -o out -r auto --budget 5.5 $base"
two "$run" "$run" || fail "-r auto on disks of their own: $(cat "$work/stderr")"
is_same "-r auto on disks of their own" "$work/auto-one" "$work/a/out"
[ -z "$(ls "$work/b")" ] || fail "a disk of its own is not cleared: $(ls "$work/b")"
rm -rf "$work/a" "$work/b"

# --- who speaks -----------------------------------------------------------------------------------
once() { # COMMAND...: is rank 0's alone
    timeout 60 mpirun -q -n 3 "$pith" "$@" >"$work/stdout" 2>"$work/stderr"
    "$pith" "$@" >"$work/alone" 2>/dev/null
    if [ -s "$work/alone" ] && tr -d '\r' <"$work/stdout" | cmp -s - "$work/alone"; then pass "$1 by three ranks is run once"; else fail "$1 by three ranks: $(cat "$work/stderr")"; fi
}
once inspect "$mini" --json
once plan llama-3.1-8b --hardware l4 --json
once recipes --json
once hardware l4 --json
once run "$mini" -p Once -n 4
once bench --help
timeout 60 mpirun -q -n 2 "$pith" bench "$mini" --gen 1 --prompt 0 --reps 1 --threads 1 --quiet --json >"$work/benched" 2>"$work/stderr"
check "bench by two ranks is run once" python3 -c 'import json, sys; assert json.loads(open(sys.argv[1]).read())["decode"]' "$work/benched"
"$pith" quantize "$mini" -o "$work/never" --ranks many 2>"$work/stderr" && fail "--ranks many is taken"
said "--ranks takes mpi or none" "mpi or none"
finish
