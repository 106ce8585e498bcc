#!/bin/sh
# Installs clang and what its sanitizers and libFuzzer link with. Debian keeps those in a package that is
# named after clang's version, and in another one before version 14.
set -eu
PITH_EXTRA_PACKAGES="clang ${PITH_EXTRA_PACKAGES:-}" tools/deps.sh
major=$(clang -dumpversion | cut -d. -f1)
works() { # the runtime is there, whoever installed it
    printf 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9; }\n' |
        clang -x c -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null
}
works && exit 0
for package in "libclang-rt-$major-dev" "libclang-common-$major-dev"; do
    PITH_EXTRA_PACKAGES=$package tools/deps.sh || continue
    works && exit 0
done
echo "clang $major cannot link with libFuzzer: its runtime libraries (compiler-rt) are missing" >&2
exit 1
