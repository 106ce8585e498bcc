#!/bin/sh
# The library never exits, prints or reads the environment, and only base/ calls malloc.
# Usage: check_symbols.sh BUILD_DIR
set -eu
build=$1
forbidden='exit|_exit|abort|printf|fprintf|vprintf|vfprintf|puts|putchar|fputs|perror|stderr|stdout|getenv|__printf_chk|__fprintf_chk'
memory='malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup'
find "$build/src" -name '*.o' | sort | xargs nm -uA | awk -v forbidden="^($forbidden)$" -v memory="^($memory)$" -v base="$build/src/base/" '
    { colon = index($0, ":")
      file = substr($0, 1, colon - 1)
      name = $NF
      sub(/@.*/, "", name)
      if (name ~ forbidden || (name ~ memory && index(file, base) != 1)) { print file " imports: " name; bad = 1 } }
    END { exit bad || NR == 0 }'
