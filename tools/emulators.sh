#!/bin/sh
# Installs what tests/emulated/ needs, if it is missing and can be installed without asking anybody.
# Exit status: whether programs for 64-bit Arm can be built here; the tests say what they leave out.
set -eu
cd "$(dirname "$0")/.."

arm() {
    echo 'int main(void) { return 0; }' | aarch64-linux-gnu-gcc -static -x c -o /dev/null - 2>/dev/null
}
if arm && command -v qemu-x86_64 >/dev/null && command -v qemu-aarch64 >/dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then
    PITH_EXTRA_PACKAGES="qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross" tools/deps.sh || true
fi
arm
