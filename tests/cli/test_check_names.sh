#!/bin/sh
# tools/check_names.py finds what it is for: a house of two files is good, and each fault by itself is told.
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
finish
