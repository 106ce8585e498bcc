#!/bin/sh
# JSON that is meant to take time, memory or the program itself: each ends within seconds, read or with a line.
set -u
. tests/cli/lib.sh
cat >"$work/ask.py" <<'PY'
import subprocess, sys
sys.path.insert(0, "tests/cli")
from mini import make
pith, model = sys.argv[1:]
make(model, layers=1, hidden=64, ffn=64)
digits = "7" * 5_000_000
forms = {  # what is put into each file, and what a refusal says; None: it is read
    "an integer of 5 MB": ('"x": ' + digits, "an integer of more than 4300 digits"),
    "a size of 5 MB": ('"hidden_size": ' + digits, "an integer of more than 4300 digits"),
    "a fraction of 5 MB": ('"x": 0.' + digits, None),
    "a member 500,000 times": (", ".join(['"k": 1'] * 500_000), None),
    "200,000 members": (", ".join(f'"k{i}": 0' for i in range(200_000)), None),
    "lone surrogates": ('"x": "' + "\\ud800" * 200_000 + '", "\\udc00": 1', None),
    "a NUL in a name": ('"a\\u0000b": "\\u0000"', None),
    "lists in lists": ('"x": ' + "[" * 1_000_000, "more than 2048 lists and objects in each other"),
    "objects in objects": ('"x": ' + '{"a": ' * 500_000, "more than 2048 lists and objects in each other"),
    "500,000 special tokens": ('"additional_special_tokens": [' + ", ".join(f'"<{i}>"' for i in range(500_000)) + "]", None),
    "a name of 5 MB": ('"' + "k" * 5_000_000 + '": 1', None),
    "numbers that are none": ('"x": [' + ", ".join(["NaN", "-Infinity", "1e999"] * 100_000) + "]", None),
}
wrong = 0
with open(f"{model}/generation_config.json", "w") as f:
    f.write('{"do_sample": false}')
for file in ("config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json"):
    path = f"{model}/{file}"
    text = open(path).read()
    at = text.index("{") + 1
    for name, (form, says) in forms.items():
        with open(path, "w") as f:
            f.write(text[:at] + form + ", " + text[at:])
        try:
            p = subprocess.run([pith, "run", model, "-p", "a", "-n", "1", "--quiet"], capture_output=True, timeout=120)
            rc, line = p.returncode, p.stderr.decode()
        except subprocess.TimeoutExpired:
            rc, line = None, ""
        good = (rc == 1 and says in line and line.count("\n") == 1) if says else rc == 0
        wrong += not good
        print("[       OK ]" if good else "[  FAILED  ]", f"{file}: {name}", "" if good else (rc, line[:200]))
    with open(path, "w") as f:
        f.write(text)
sys.exit(wrong > 0)
PY
python3 "$work/ask.py" "$pith" "$work/model" || failed=1
[ $failed -eq 0 ]
