#!/bin/sh
# Installs the Debian packages that building and testing need, if any is missing. As root, or with sudo.
# Usage: deps.sh [check]   (with "check": only says what is missing; exit 1 if anything is)
set -eu
packages="gcc make pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libssl-dev libbz2-dev zlib1g-dev libcurl4-openssl-dev libedit-dev libmicrohttpd-dev libcmocka-dev"
missing=
for p in $packages ${PITH_EXTRA_PACKAGES:-}; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "${1:-}" = check ]; then
    echo "missing packages:$missing"
    exit 1
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "please install these packages (Debian names):$missing" >&2
    exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing:$missing"
$sudo apt-get update -qq -o DPkg::Lock::Timeout=300
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends $missing >/dev/null
