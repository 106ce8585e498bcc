#!/bin/sh
# unit_main.sh OUT.c TEST.c...: writes the C source of the program that is all of these tests, unless OUT.c is that
# already. It runs the one whose name it is called by, as build/tests/unit/FOLDER/test_NAME (links to it) do; else its
# first argument is the name. Each test's main() is main_test_NAME() there: the Makefile renames it once it is compiled.
set -eu
out=$1
shift
awk '
    FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/\.c$/, "", name); names[++n] = name }
    /^int main\(/ {
        if ($0 != "int main(void)") given[name] = "argc, argv"
        sub(/main/, "main_" name)
        declared[name] = $0 ";"
    }
    END {
        print "#include <stdio.h>\n#include <string.h>\n"
        for (i = 1; i <= n; i++) print declared[names[i]]
        print "\nstatic const char *base(const char *path)\n{"
        print "    const char *slash = strrchr(path, \047/\047);\n    return slash ? slash + 1 : path;\n}\n"
        print "int main(int argc, char **argv)\n{"
        print "    if (argc > 1 && strncmp(base(argv[0]), \"test_\", 5) != 0) argc--, argv++;"
        print "    const char *name = argc > 0 ? base(argv[0]) : \"\";"
        for (i = 1; i <= n; i++)
            print "    if (!strcmp(name, \"" names[i] "\")) return main_" names[i] "(" given[names[i]] ");"
        print "    fprintf(stderr, \"%s: no test of this program, which has:\\n\", name);"
        for (i = 1; i <= n; i++) print "    fputs(\"  " names[i] "\\n\", stderr);"
        print "    return 2;\n}"
    }' "$@" >"$out.new"
if cmp -s "$out.new" "$out"; then rm "$out.new"; else mv "$out.new" "$out"; fi
