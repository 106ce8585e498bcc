#!/bin/sh
# The library never exits, prints or reads the environment, and only base/ calls malloc.
# Usage: check_symbols.sh BUILD_DIR
set -eu
build=$1
bad=0
forbidden='exit|_exit|abort|printf|fprintf|vprintf|vfprintf|puts|putchar|fputs|perror|stderr|stdout|getenv|__printf_chk|__fprintf_chk'
memory='malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup'
for o in $(find "$build/src" -name '*.o' | sort); do
    names=$forbidden
    case $o in "$build"/src/base/*) ;; *) names="$forbidden|$memory" ;; esac
    hits=$(nm -u "$o" | awk '{print $2}' | sed 's/@.*//' | grep -xE "$names" || true)
    if [ -n "$hits" ]; then
        echo "$o imports: $(echo "$hits" | tr '\n' ' ')"
        bad=1
    fi
done
exit $bad
