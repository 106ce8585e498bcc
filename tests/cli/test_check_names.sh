#!/bin/sh
# tools/check_names.py, check_fields.py and check_words.py find what they are for: a house of two files is good, and each fault by itself is told.
set -u
. tests/cli/lib.sh
tool=$root/tools/check_names.py
house=$work/house
cd "$work" || exit 1

# A good header, and a file of six parameters.
build() {
    rm -rf "$house"
    mkdir -p "$house/src/base" "$house/tools"
    : >"$house/tools/wide.txt"
    cat >"$house/src/base/room.h" <<'END'
/* base/room.h: rooms. */
struct pith_room {
    int doors;
};
/* How many doors; of a room, which is borrowed. */
int pith_room_doors(const struct pith_room *r);
int pith_room_windows(const struct pith_room *r); /* likewise */
END
    cat >"$house/src/base/room.c" <<'END'
struct part {
    int a;
};
int six(int a, int b, int c, int d, int e, int (*f)(int, int))
{
    return a;
}
END
}
names() {
    (cd "$house" && python3 "$tool")
}
# finds NAME PATTERN: of the house with what stands on standard input behind its FILE.
finds() { # NAME FILE PATTERN
    build
    cat >>"$house/$2"
    if names >"$work/stdout"; then
        fail "$1: nothing said"
    elif [ "$(wc -l <"$work/stdout")" -ne 1 ] || ! grep -qE -e "$3" "$work/stdout"; then
        fail "$1: $(cat "$work/stdout")"
    else
        pass "$1"
    fi
}

build
check "a good house" names
finds "a tag in two files" src/base/room.c '^pith_room: defined in src/base/room.c and src/base/room.h$' <<'END'
struct pith_room {
    int walls;
};
END
finds "a tag, its brace in a line of its own" src/base/room.c '^pith_room: defined in' <<'END'
typedef struct pith_room
{
    int walls;
} room;
END
finds "an enum and a struct of one tag" src/base/room.c '^pith_room: defined in' <<'END'
enum pith_room { KITCHEN };
END
finds "a tag of a header without a prefix" src/base/room.h '^part: defined in' <<'END'
struct part {
    int b;
};
END
finds "a declaration without a contract" src/base/room.h '^src/base/room.h: pith_room_open: without a contract$' <<'END'

int pith_room_open(struct pith_room *r);
END
finds "a header that does not say what it is for" src/base/wall.h '^src/base/wall.h: does not begin with' <<'END'
/* Walls. */
/* How many. */
int pith_walls(void);
END
finds "seven parameters" src/base/room.c '^src/base/room.c seven 7 parameters' <<'END'
static int seven(int a, int b, int c, int d,
                 int e, int f, int (*g)(int))
{
    return a;
}
END
finds "seven parameters in a header" src/base/room.h '^src/base/room.h seven 7 parameters' <<'END'
static inline int seven(int a, int b, int c, int d, int e, int f, int g) { return a; }
END
finds "a list of exceptions that is too long" tools/wide.txt 'wide.txt: src/base/room.c gone 9 is no longer there' <<'END'
src/base/room.c gone 9
END
# tools/check_fields.py: a message names a field that an option sets, and no option.
said() { # TEXT [ROW]: the house whose library says that, and whose options have one more row
    rm -rf "$house"
    mkdir -p "$house/src/base" "$house/include/pith" "$house/cli"
    printf 'struct pith_x_options {\n    size_t memory, seq_len; /* `other` */\n    const char *const *alone;\n};\n' >"$house/include/pith/x.h"
    printf 'const struct option common_options[] = {\n    OPTION(seed, 0),\n};\n' >"$house/cli/options.c"
    echo 'OPTION(memory, 0), OPTION(length, 0), OPTION(all, 0)' >"$house/cli/cmd_x.c"
    cat >"$house/cli/options.def" <<'END'
PITH_OPTION(seed, "seed", 0, COUNT, ANY, NO, "seed", "N", "0", "a seed")
PITH_OPTION(memory, "memory", 'm', SIZE, NOW("above 0, at most 9"), WITH("all seed"), "memory", "SIZE", NULL,
            "a ceiling")
PITH_OPTION(length, "seq-len", 0, COUNT, ANY, WITHOUT("all X"), "seq_len", "N", NULL, "a length")
PITH_OPTION(all, "all", 0, FLAG, ANY, NO, NULL, NULL, NULL, "everything")
END
    echo "${2:-}" >>"$house/cli/options.def"
    printf '/* --memory and `nothing` in a comment */\nf("%s");\n' "$1" >"$house/src/base/x.c"
    python3 "$root/tools/check_fields.py" "$house" >"$work/stdout"
}
for text in 'raise `memory`' 'use `seq_len=64`, or `seed`' '`memory`: pith eval --kv auto:4 makes it'; do
    said "$text" && pass "taken: $text" || { fail "taken: $text" && cat "$work/stdout"; }
done
refused() { # TEXT PATTERN [ROW]
    if said "$1" "${3:-}"; then fail "refused: $1"
    elif grep -qE -e "$2" "$work/stdout"; then pass "refused: $1"
    else fail "refused: $1: $(cat "$work/stdout")"; fi
}
refused 'raise `memry`' '^src/base/x.c:2: `memry` is no field'
refused 'raise `all`' '`all` is no field'
refused 'use `alone=1`' '`alone` is set by no option'
refused '`memory`, not --memory' 'an option in'
refused '`memory` in %s --%%s' 'an option in'
refused 'no field at all' 'no marks'
refused 'a row of no command: `memory`' 'alone is an option of no command' 'PITH_OPTION(alone, "alone", 0, FLAG, ANY, NO, NULL, NULL, NULL, "x")'
refused 'a need that is none: `memory`' 'all goes by --most, which' 'PITH_OPTION(all, "some", 0, FLAG, ANY, WITHOUT("most X"), NULL, NULL, NULL, "x")'
refused 'a row of another form: `memory`' '1 rows are not read' 'PITH_OPTION(all, "some", 0, FLAG, NULL, NULL, "x")'
refused 'a field that is none: `memory`' 'all sets `every`, which' 'PITH_OPTION(all, "some", 0, FLAG, ANY, NO, "memory every", NULL, NULL, "x")'
# tools/check_words.py: a word more than its limit is named with what to write; --write lowers limits and never raises one.
words=$root/tools/check_words.py
build
printf '%s\n' '# a comment' 'beside | next to | next to, with | 1 0 0 0' >"$house/tools/words.txt"
: >"$house/README.md"
: >"$house/CONTRIBUTING.md"
echo '/* Beside it, a room_beside_rooms, besides. */' >"$house/src/base/words.c"
in_house() { (cd "$house" && python3 "$words" "$@"); }
in_house >"$work/stdout" && fail "a word too many" ||
    { grep -q '^src: "beside" 2 times, at most 1: next to; write next to, with' "$work/stdout" && pass "a word too many" || fail "a word too many: $(cat "$work/stdout")"; }
in_house --write >/dev/null
grep -q '| 1 0 0 0$' "$house/tools/words.txt" && pass "a limit does not rise" || fail "a limit does not rise"
in_house --where beside src >"$work/stdout" && [ "$(grep -c '^src/base/words.c:1: ' "$work/stdout")" -eq 2 ] && pass "where a word is" || fail "where a word is"
echo '/* Next to it. */' >"$house/src/base/words.c"
check "a word fewer" in_house --write
grep -q '| 0 0 0 0$' "$house/tools/words.txt" && pass "a limit falls" || fail "a limit falls"
finish
