#!/bin/sh
# Whatever is changed in a finished checkpoint, verify says so: bits and bytes of every kind of file against
# pith.json (tests/cli/flips.py), and without it what configs and tokenizers mean against the original
# (tests/cli/meanings.py). FLIPS=1000 for the table of docs/proof.md.
set -u
. tests/cli/lib.sh
mkdir "$work/flips" "$work/meanings"
if python3 tests/cli/flips.py "$pith" "$work/flips" "${FLIPS:-65}" >"$work/table"; then
    pass "${FLIPS:-65} changes, all noticed"
else
    fail "changes that nobody noticed"
fi
cat "$work/table"
python3 tests/cli/meanings.py "$pith" "$work/meanings" || failed=1

# Accounts, old and of others.
folder=$work/flips/folder
python3 - "$folder" "$work/old" <<'PY'
import hashlib, json, shutil, struct, sys, os
shutil.copytree(sys.argv[1], sys.argv[2])
path = os.path.join(sys.argv[2], "pith.json")
j = json.load(open(path))
for key in ("account", "files", "seal"):
    del j[key]
data = {}
for name in os.listdir(sys.argv[2]):
    if name.endswith(".safetensors"):
        blob = open(os.path.join(sys.argv[2], name), "rb").read()
        (n,) = struct.unpack_from("<Q", blob)
        for t, e in json.loads(blob[8:8 + n]).items():
            if t != "__metadata__":
                data[t] = blob[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]]
for entry in j["linears"] + j["tensors"]:
    for s in entry["stored"]:
        s["sha256"] = hashlib.sha256(data[s["name"]]).hexdigest()
json.dump(j, open(path, "w"), indent=2)
PY
check "an account of version 1 verifies by its rules" "$pith" verify "$work/old"
grep -q 'note: pith.json is of version 1' "$work/stdout" && pass "and says what it does not cover" ||
    fail "and says what it does not cover"
sed -i 's/"account": 2/"account": 3/' "$folder/pith.json"
"$pith" verify "$folder" >"$work/stdout" && fail "an account of the future" || pass "an account of the future"
grep -q 'is of version 3' "$work/stdout" && pass "and names its version" || fail "and names its version"
rm "$folder/pith.json"
refuse "no account and nothing to judge by" 1 'name the original \(--against\) or engines' "$pith" verify "$folder"
check "no account: by an engine's rules" "$pith" verify "$folder" --for vllm

# Files that somebody added.
cp -r "$work/meanings/folder" "$work/added" && echo 'A card.' >"$work/added/README.md"
check "a model card is no fault" "$pith" verify "$work/added"
grep -q 'note: README.md: is not in pith.json' "$work/stdout" && pass "and is named" || fail "and is named"
echo '{}' >"$work/added/quantize_config.json"
"$pith" verify "$work/added" >"$work/stdout" && fail "another quantizer's settings" || pass "another quantizer's settings"
grep -q 'quantize_config.json: is not in pith.json, and engines read' "$work/stdout" && pass "are named" || fail "are named"
rm "$work/added/quantize_config.json" "$work/added/tokenizer_config.json"
"$pith" verify "$work/added" >"$work/stdout" && fail "a missing file" || pass "a missing file"
grep -q 'problem: tokenizer_config.json: missing' "$work/stdout" && pass "is named" || fail "is named"
finish
