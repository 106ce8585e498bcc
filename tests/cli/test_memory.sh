#!/bin/sh
# --memory: the estimate is an upper bound, and near the peak; with just that much a run succeeds, with
# less it is refused before it starts.
set -u
. tests/cli/lib.sh
few="--quiet --calib-tokens 512 --seq-len 512 --threads 2"
if grep -q __asan_init "$pith"; then
    skip "memory" "a sanitizer's own memory would be counted"
    exit 0
fi

# shellcheck disable=SC2086
make() { # RECIPE OPTIONS...
    rm -rf "$work/made" "$work/made.partial"
    recipe=$1
    shift
    "$pith" quantize "$probe" -o "$work/made" -r "$recipe" $few "$@"
}
thorough && recipes="rtn fp8-block gptq awq sparsegpt wanda squeezellm" || recipes="rtn fp8-block gptq"
for recipe in $recipes; do
    bytes=$(make $recipe --rehearse --json | sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
    refuse "$recipe: with a tenth less" 1 'needs about .* MiB and --memory allows' make $recipe --memory $((bytes * 9 / 10))
    [ -e "$work/made" ] || [ -e "$work/made.partial" ] && fail "$recipe: refused, and something is there"
    # shellcheck disable=SC2086
    foretold "$recipe, with that much" "$bytes" "$work/made" "$pith" quantize "$probe" -o "$work/made" -r $recipe $few --memory "$bytes"
done

# A GGUF file's embedding is one matrix, wider than any other; here wide enough to be most of what is held, and long
# enough in the making to be seen.
python3 tests/cli/mini.py "$work/wide" layers=1 hidden=1024 ffn=1024
thorough && grids="int8:g32 q4_k" || grids=int8:g32
for grid in $grids; do
    wide="quantize $work/wide -o $work/made.gguf -r rtn --weights $grid --threads 2 --quiet"
    # shellcheck disable=SC2086
    bytes=$("$pith" $wide --rehearse --json | sed -n 's/.*"memory_expected_bytes": \([0-9]*\).*/\1/p')
    # shellcheck disable=SC2086
    foretold "gguf, $grid" "$bytes" "$work/made.gguf" "$pith" $wide
done

# Where the sizes of the model are most of what is held, the estimate is its peak's equal: between it and an
# eighth more (what threads hold at once is a matter of moments; bench/memory.py measures all recipes).
make_model=${BUILD:-build}/tools/make_synthetic
[ -x "$make_model" ] || {
    echo "$make_model: no program there: make build/tools/make_synthetic" >&2
    exit 1
}

# A peak is seen from outside, by looking often: a machine with other work looks away at times. So a quotient that is
# too high is taken again, up to four times more; one below 1 is wrong at once.
near() { # BOUND COMMAND...: the estimate is between the peak and BOUND times it; the quotient goes to `quotient`
    bound=$1
    shift
    for _ in 1 2 3 4 5; do
        "$@" | tail -1 >"$work/stdout"
        sed -n 's/.*estimate over peak \([0-9.]*\) to .*/\1/p' "$work/stdout" >"$work/quotient"
        awk '$1 < 1 { exit 1 } END { if (NR != 1) exit 1 }' "$work/quotient" || return 1
        awk -v bound="$bound" '{ exit !($1 < bound) }' "$work/quotient" && return 0
    done
    return 1
}
agree() { # SHAPE RECIPE CONTAINER
    "$make_model" "$1" "$work/$1" 1 2>/dev/null
    PITH=$pith near 1.125 python3 bench/memory.py "$work/$1" -r "$2" -c "$3" -- \
        --calib-tokens 256 --seq-len 256 --threads 2 &&
        pass "$1, $2 in $3: the estimate is $(cat "$work/quotient") of the peak" ||
        fail "$1, $2 in $3: $(cat "$work/stdout")"
}
agree middle gptq compressed-tensors

# grows NAME COUNT UNIT BOUND FEW MANY: what MANY prints that it holds is less than BOUND of a UNIT-th byte more than what
# FEW prints, for each of COUNT. A peak of FEW's that was not seen makes it more: then the highest of several is taken.
grows() {
    few=0 many=0
    for _ in 1 2 3 4 5; do
        # shellcheck disable=SC2086
        seen=$($5) && [ "$seen" -gt "$few" ] && few=$seen
        # shellcheck disable=SC2086
        seen=$($6) && [ "$seen" -gt "$many" ] && many=$seen
        [ "$few" -gt 0 ] && [ "$many" -gt 0 ] || break
        each=$(((many - few) * $3 / $2))
        [ $each -lt "$4" ] && pass "$1: $each" && return
    done
    fail "$1: $((few / 1024)) KiB with few, $((many / 1024)) KiB with many"
}

# A transform goes through a mixture's experts one at a time: one more adds its codes, of 4 or 8 bits a
# weight, and at most a quarter of a byte a weight that goes with them, not its floats.
thorough && tokens=512 || tokens=128
experts() { # NUMBER RECIPE: the most that is held
    [ -d "$work/experts$1" ] ||
        python3 tests/cli/mini.py "$work/experts$1" qwen3_moe experts="$1" layers=1 hidden=512 ffn=512
    rm -rf "$work/made"
    python3 tests/cli/peak.py "$pith" quantize "$work/experts$1" -o "$work/made" -r "$2" --calib-tokens $tokens \
        --seq-len $tokens --threads 2 --quiet --container compressed-tensors --allow-error 2
}
weights=$((3 * 512 * 512)) # of an expert
thorough && number=40 || number=20
thorough && recipes="awq:4 awq+gptq:4 smoothquant:8" || recipes=awq:4
for recipe in $recipes; do
    bits=${recipe#*:} recipe=${recipe%:*}
    grows "$recipe: hundredths of a byte for each weight of an expert more" $(((number - 8) * weights)) 100 $((bits * 100 / 8 + 25)) \
        "experts 8 $recipe" "experts $number $recipe"
done

# So it is when a quantized model goes to another container.
converts() { # CONTAINER
    PITH=$pith near 1.125 python3 bench/memory.py "$work/middle4" --convert -c "$1" &&
        pass "middle, converted to $1: the estimate is $(cat "$work/quotient") of the peak" ||
        fail "middle, converted to $1: $(cat "$work/stdout")"
}
"$pith" quantize "$work/middle" -o "$work/middle4" -r rtn --weights int4:g128:asym --container gptq \
    --threads 2 --quiet
converts compressed-tensors
converts awq

# So it is when it runs: what bench and eval take is told before the weights are read.
runs() { # bench|eval MODEL OPTIONS...: between the peak and a twentieth more
    runs="$(basename "$2"), $1 ${3-} ${4-}"
    command=--$1
    model=$2
    shift 2
    PITH=$pith near 1.05 python3 bench/memory.py "$model" "$command" -- --threads 2 "$@" &&
        pass "$runs: the estimate is $(cat "$work/quotient") of the peak" ||
        fail "$runs: $(cat "$work/stdout")"
}
runs bench "$work/middle4"
runs eval "$work/middle4"
runs bench "$work/middle" --weights nvfp4

# What verify holds of its own grows by a line of a table for each tensor, not by its entry's tree; quantize holds
# the entries, and nothing larger for each tensor that is read back.
for layers in 1 6; do "$make_model" many-experts "$work/many$layers" $layers 2>/dev/null; done
quantized() { # LAYERS: of 770 linears, three tensors each
    rm -rf "$work/made$1"
    python3 tests/cli/peak.py "$pith" quantize "$work/many$1" -o "$work/made$1" -r rtn --weights int4:g32 --threads 2 --quiet
}
verified() { # LAYERS
    python3 tests/cli/peak.py "$pith" verify "$work/made$1" --against "$work/many$1" --threads 2 --quiet
}
grows "quantize: bytes for each linear more" $((5 * 770)) 1 8600 "quantized 1" "quantized 6"
grows "verify: bytes for each linear more" $((5 * 770)) 1 1200 "verified 1" "verified 6"
if thorough; then
    agree middle-moe gptq gptq
    agree middle fp8-block fp8
    agree middle llm.int8 bitsandbytes
    agree middle smoothquant compressed-tensors
    agree middle wanda compressed-tensors
    agree middle hqq hqq
    agree middle-moe awq awq
    agree middle-moe rtn awq
fi
finish
