#!/bin/sh
# The Python package over the library of this build, without any other package: what `make python` tests at length.
set -u
. tests/cli/lib.sh
library=$(dirname "$pith")/libpith.so

mkdir -p "$work/package/pith"
cp python/pith/*.py "$work/package/pith/"
version=$("$pith" --version | sed 's/^pith \([^ ]*\).*/\1/')
check "the headers are understood" sh -c "python3 python/declare.py include/pith $version >'$work/package/pith/_abi.py'"
# A struct that ctypes sees in another way than the compiler would be read and written in the wrong places.
cat >"$work/sizes.py" <<'PYTHON'
import ctypes
import os
import sys
sys.path.insert(0, sys.argv[1])
import types
sys.modules["pith"] = types.ModuleType("pith")  # the declarations alone: the library may need a sanitizer
sys.modules["pith"].__path__ = [os.path.join(sys.argv[1], "pith")]
from pith import _abi
headers = sorted(os.listdir("include/pith"))
print(*(f"#include <pith/{h}>" for h in headers), sep="\n")
for struct in _abi.STRUCTS:
    name = struct.__name__
    print(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(struct)}, "{name}");')
    for field, *_ in struct._fields_:
        at = getattr(struct, field)
        print(f'_Static_assert(offsetof(struct {name}, {field}) == {at.offset}, "{name}.{field}");')
        print(f'_Static_assert(sizeof ((struct {name} *)0)->{field} == {at.size}, "{name}.{field}");')
PYTHON
check "its structs are made of them" sh -c "python3 '$work/sizes.py' '$work/package' >'$work/sizes.c'"
grep -q 'struct pith_request' "$work/sizes.c" || fail "its structs are some"
check "they are those of the compiler" "${CC:-cc}" -std=c17 -Iinclude -fsyntax-only "$work/sizes.c"

if ldd "$library" | grep -qE 'lib[atu]+san'; then
    echo "[  SKIPPED ] the library from Python: this build has a sanitizer, which Python lacks"
    exit $failed
fi
cat >"$work/says.py" <<'PYTHON'
import sys
import pith
with pith.Engine(sys.argv[1], kv="f32") as engine:
    print(engine.generate("Once upon a time", max_tokens=16).text)
try:
    pith.Engine(sys.argv[1] + "/nothing")
except pith.FileError:
    pass
else:
    sys.exit("a model that is not there was opened")
PYTHON
"$pith" run "$probe" -p "Once upon a time" -n 16 --kv f32 --quiet >"$work/run"
PYTHONPATH=$work/package PITH_LIBRARY=$library python3 "$work/says.py" "$probe" >"$work/said" 2>"$work/stderr" &&
    diff "$work/run" "$work/said" >"$work/diff" && pass "an engine says what pith run says" ||
    { fail "an engine says what pith run says"; tail -n 5 "$work/stderr" "$work/said"; }
exit $failed
