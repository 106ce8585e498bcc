#!/bin/sh
# Every #include "dir/..." in src/ must point to the same folder or to a lower layer (tools/layers.txt);
# cli/, server/, examples/ and tests of the public API see only <pith/...> and their own folder; of server/ the
# program sees server/server.h alone.
set -eu
cd "$(dirname "$0")/.."
includes() {
    find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.def' | sort |
        xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' /dev/null |
        sed -E 's|^([^:]*):([0-9]+):[^"]*"([^"/]*).*|\1 \2 \3|'
}
includes src | awk '
    NR == FNR { layer[$1] = $2; next }
    { split($1, p, "/"); from = p[2]; to = $3
      if (!(from in layer) || !(to in layer)) { print $1 ":" $2 ": folder \"" to "\" is not in tools/layers.txt"; bad = 1 }
      else if (from != to && layer[to] >= layer[from]) { print $1 ":" $2 ": " from " may not include " to; bad = 1 } }
    END { exit bad }' tools/layers.txt -
for d in cli server examples; do
    [ -d "$d" ] || continue
    includes "$d" | awk -v own="$d" '$3 != own && !(own == "cli" && $3 == "server") { print $1 ":" $2 ": " own "/ may include only <pith/...> and itself"; bad = 1 } END { exit bad }'
done
! grep -rnE '#[[:space:]]*include[[:space:]]*"server/' cli | grep -v '"server/server.h"'
