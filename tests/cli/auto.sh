# What the tests of pith sensitivity and -r auto share.
# shellcheck shell=sh
# shellcheck disable=SC2034 # for those that read this
few="--calib-tokens 1024 --seq-len 128"
three=int3:g128:asym,int4:g128:asym,int8:g128
cp tests/cli/auto_look.py "$work/look.py"
thorough && scored=8192 || scored=2048
measured() { # OUT JSON [TEXT [OPTIONS]]
    out=$1 json=$2 text=${3:-$probe/eval.txt}
    shift 2
    [ $# = 0 ] || shift
    "$pith" eval "$out" --baseline "${original:-$probe}" --text "$text" --max-tokens $scored --context 256 --json --quiet "$@" >"$json"
}
