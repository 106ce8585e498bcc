#!/bin/sh
# pith sensitivity and -r auto, killed and gone on with: when the journal has so many lines (one, six blocks there, the
# turn, six back).
set -u
. tests/cli/lib.sh
three=int3:g128:asym,int4:g128:asym,int8:g128
cd "$work" || exit 1
cat >kill.py <<'PY'
import os, subprocess, sys, time

journal, lines, *command = sys.argv[1:]  # or when it has fewer: -LINES


def is_there(n):
    return n >= int(lines) if int(lines) > 0 else n < -int(lines)


p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
while p.poll() is None:
    if os.path.exists(journal) and is_there(open(journal, "rb").read().count(b"\n")):
        p.kill()
        p.wait()
        sys.exit(0 if os.path.exists(journal) else 1)
    time.sleep(0.002)
sys.exit(f"it ended before: {p.stderr.read().decode()}")
PY
few="--calib-tokens 1024 --seq-len 128"
python3 "$root/tests/cli/mini.py" six layers=6 hidden=128 ffn=256
thorough && model=$probe || model=six
again="$pith sensitivity $model --try $three $few --quiet --work sw"
check "undisturbed" sh -c "$again --json >one.json"
# shellcheck disable=SC2086
sensed() { # LINES: killed there
    check "killed at line $1" python3 kill.py sw.partial/pith.journal "$1" $again --resume
}
sensed 4
refuse "without --resume nothing is touched" 1 'continue it with --resume' $again
refuse "another job does not go on" 1 'belongs to another run' $again --resume --kv none
sensed 7
sensed 9
sensed 11
check "a run that was killed four times ends" sh -c "$again --json --resume >killed.json"
check "with the same bytes" cmp one.json killed.json
check "and leaves nothing" test ! -e sw.partial
sensed 10
check "what was left is damaged" python3 -c "
f = open('sw.partial/pith.sense.acts', 'r+b')
f.seek(f.seek(0, 2) * 2 // 7 + 4096)
f.write(bytes(64))"
check "it is seen, and all is done again" python3 kill.py sw.partial/pith.journal -9 $again --resume
check "to its end" sh -c "$again --json --resume >damaged.json"
check "to the same bytes" cmp one.json damaged.json
sensed 9
check "a torn line" sh -c 'printf "0000 {" >>sw.partial/pith.journal'
check "is nothing" sh -c "$again --json --resume >torn.json"
check "and the same comes of it" cmp one.json torn.json
# The same of -r auto.
less="--calib-tokens 512 --seq-len 64"
check "-r auto, undisturbed" "$pith" quantize six -o a1 -r auto --budget 3.6 --try $three $less --quiet
check "-r auto, killed while it looks" python3 kill.py r.auto/pith.journal 10 "$pith" quantize six -o r -r auto --budget 3.6 --try $three $less --quiet
check "killed when one transform is done" python3 kill.py r.auto/auto.0.json 1 "$pith" quantize six -o r -r auto --budget 3.6 --try $three $less --resume --quiet
check "killed in the next" python3 kill.py r.auto/pith.journal 9 "$pith" quantize six -o r -r auto --budget 3.6 --try $three $less --resume --quiet
check "after these kills" "$pith" quantize six -o r -r auto --budget 3.6 --try $three $less --resume --quiet
same_model "the same comes of it" a1 r
check "-r auto, killed again" python3 kill.py s2.auto/pith.journal 5 "$pith" quantize six -o s2 -r auto --budget 3.6 --try $three $less --quiet
check "may begin anew" "$pith" quantize six -o s2 -r auto --budget 3.6 --try $three $less --quiet
same_model "to the same" a1 s2
mkdir -p l.auto
cp a1/recipe.json l.auto/
check "a recipe that was found is used again" "$pith" quantize six -o l -r auto --budget 3.6 --try $three $less --resume --quiet
same_model "and gives the same" a1 l
finish
