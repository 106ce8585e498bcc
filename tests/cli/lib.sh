# What the command-line tests share: a work folder, and checks that name what failed.
# shellcheck shell=sh
pith=$(realpath "${PITH:-build/pith}")
[ -x "$pith" ] || {
    echo "$pith: no program there: build it, or name it in PITH" >&2
    exit 1
}
root=$(pwd)
probe=$root/models/probe
work=$(mktemp -d "${TMPDIR:-/tmp}/pith-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0
# python3 may be a launcher that looks for the right one, and looks for packages; the library it comes with is enough.
python=${PITH_PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
mkdir "$work/bin"
printf '#!/bin/sh\nexec "%s" -S "$@"\n' "$python" >"$work/bin/python3"
chmod +x "$work/bin/python3"
PATH=$work/bin:$PATH

pass() {
    echo "[       OK ] $1"
}
fail() {
    echo "[  FAILED  ] $1"
    failed=1
}

# check NAME COMMAND...: the command succeeds.
check() {
    name=$1
    shift
    if "$@" >"$work/stdout" 2>"$work/stderr"; then
        pass "$name"
    else
        fail "$name (status $?)"
        tail -n 5 "$work/stderr"
    fi
}

# good NAME MODEL OUT OPTIONS...: what the test's own `make MODEL OUT OPTIONS...` makes, and verified against the original.
good() {
    name=$1
    model=$2
    out=$3
    shift 3
    check "$name" make "$model" "$out" "$@"
    check "$name: verifies" "$pith" verify "$out" --against "$model"
}

# refuse NAME STATUS PATTERN COMMAND...: the command ends with that status, says one line on standard error
# that matches, prints nothing on standard output.
refuse() {
    name=$1
    want=$2
    pattern=$3
    shift 3
    "$@" >"$work/stdout" 2>"$work/stderr" && got=0 || got=$?
    if [ "$got" -ne "$want" ]; then
        fail "$name: status $got instead of $want"
    elif ! grep -qE -e "$pattern" "$work/stderr"; then
        fail "$name: message does not match $pattern"
    elif [ -s "$work/stdout" ]; then
        fail "$name: something on standard output"
    elif [ "$want" -eq 1 ] && [ "$(grep -vcE ': [0-9]+% \(|: about .* expected' "$work/stderr")" -ne 1 ]; then # but for progress
        fail "$name: more than one line of message"
    else
        pass "$name"
        return 0
    fi
    tail -n 5 "$work/stderr"
}

# digest OUT: of everything in an output folder, the times in pith.json and its seal aside.
digest() {
    (cd "$1" && for f in *; do [ "$f" = pith.json ] || sha256sum "$f"; done
    sed '/"timing": {/,/}/d; /"seal": /d' "$1/pith.json") | sha256sum
}

# same_model NAME A B: two output folders are equal to the byte, the times in pith.json and its seal aside.
same_model() {
    for d in "$2" "$3"; do
        sed '/^  "timing": {/,/^  }/d; /^  "seal": /d' "$d/pith.json" >"$d/pith.json.timeless"
    done
    if diff -rq -x pith.json "$2" "$3" >"$work/diff"; then
        pass "$1"
    else
        fail "$1"
        cat "$work/diff"
    fi
    rm -f "$2/pith.json.timeless" "$3/pith.json.timeless"
}

# faulty: whether calls of the program can be made to fail, by the library $faulty (faulty.c says how) loaded before it.
faulty() {
    faulty=$work/faulty.so
    export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
    [ -e "$faulty" ] || ${CC:-cc} -O1 -shared -fPIC -o "$faulty" tests/cli/faulty.c -ldl 2>"$work/stderr" &&
        FAULT='' LD_PRELOAD=$faulty "$pith" --version >/dev/null 2>&1
}

# with_fault FAULT COMMAND...: runs it with that fault.
with_fault() {
    (export FAULT="$1" LD_PRELOAD="$faulty" && shift && "$@")
}

# killed_at UNIT COMMAND...: it is killed when that unit's work (the first's is 1) is done and not yet in the journal.
killed_at() {
    unit=$1
    shift
    (export FAULT_AT=pith.journal && with_fault "kill:$unit" "$@") 2>/dev/null
    [ $? -eq 137 ] || fail "not killed at unit $unit: $*"
}

# awaited SECONDS COMMAND...: tries it until it succeeds, so long at most.
awaited() {
    until_then=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $until_then ] || return 1
        sleep 0.02
    done
}

# foretold LABEL BYTES OUT COMMAND...: what it holds at most is no more than BYTES and more than half of it; OUT is what it
# makes. A peak is seen from outside, by looking often: a machine with other work looks away at times, so one that
# seems too low is looked for again, and the highest counts.
foretold() {
    label=$1
    bytes=$2
    made=$3
    shift 3
    peak=0
    for _ in 1 2 3 4 5; do
        rm -rf "$made" "$made.pith.json"
        seen=$(python3 tests/cli/peak.py "$@") || break
        [ "$seen" -le "$peak" ] || peak=$seen
        [ "$bytes" -ge $((peak * 2)) ] || break
    done
    [ "$peak" -le "$bytes" ] && [ "$bytes" -lt $((peak * 2)) ] &&
        pass "$label: the peak of $((peak / 1024)) KiB is near the estimate" ||
        fail "$label: estimated $((bytes / 1024)) KiB, the peak was $((peak / 1024)) KiB"
}

# ranks_here NAME: whether mpirun starts ranks here; else NAME is skipped. From then on it lets root start them, and more
# than there are cores.
ranks_here() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_hwloc_base_binding_policy=none # cores are other tests' too: learning by two bound ranks took 110 s, not 16
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
    if ! command -v mpirun >/dev/null || [ ! -e "${BUILD:-build}/libpith_mpi.so" ]; then
        skip "$1" "no MPI (libopenmpi-dev, openmpi-bin) when pith was built"
    elif ! timeout 60 mpirun -q -n 2 true >/dev/null 2>&1; then
        skip "$1" "mpirun starts nothing here"
    else
        return 0
    fi
    return 1
}

# shallow DIR: the probe with two of its six layers, with PITH_TEST_ALL with all.
shallow() {
    mkdir -p "$1"
    cp "$probe"/*.json "$1"
    layers=2
    ! thorough || layers=6
    python3 "$root/tests/cli/auto_look.py" first "$probe/config.json" "$probe/model.safetensors" "$1" $layers
}

# skip NAME REASON: not counted, but seen.
skip() {
    echo "[  SKIPPED ] $1: $2"
}

# thorough: whether the loops that take long are to be run too ("make test-all").
thorough() {
    [ -n "${PITH_TEST_ALL:-}" ]
}

finish() {
    exit "$failed"
}
