/* eval/task/sandbox.h: what programs can do there, and what they cannot; HumanEval's form, whose
 * answers run there (tests/golden/tasks/make_programs.py). Skipped where bubblewrap is not. */
#include "eval/task/sandbox.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "eval/task/free_answers.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

struct program {
    const char *name, *text;
    bool passes;
};

/* PLACE is a folder of this machine that exists, and that nobody is to see there. */
static const struct program programs[] = {
    {"nothing", "", true},
    {"an assertion that holds", "def f(n):\n    return n + 1\nassert f(1) == 2\n", true},
    {"one that does not", "assert 1 == 2", false},
    {"no Python", "def f(:", false},
    {"a sentence that does not end", "x = '''", false},
    {"success, too early", "import sys\nsys.exit(0)", false},
    {"the same behind Python's back", "import os\nos._exit(0)", false},
    {"an end that is guessed", "import os\nos.write(3, b'0' * 32)\nos._exit(0)", false},
    {"much that is printed", "for i in range(300000): print('ten bytes.')", true},
    {"much memory", "x = bytearray(2 << 30)", false},
    {"a large file", "open('x', 'wb').write(bytes(2 << 20))", false},
    {"many files", "for i in range(40): open(str(i), 'wb').write(bytes(1000000))", false},
    {"a small file", "open('x', 'w').write('y')\nassert open('x').read() == 'y'", true},
    {"many processes",
     "import os\nfor i in range(100):\n    if os.fork() == 0:\n"
     "        import time; time.sleep(60); os._exit(0)",
     false},
    {"no network",
     "import socket\ntry:\n    socket.create_connection(('127.0.0.1', PORT), 1)\n"
     "except OSError:\n    pass\nelse:\n    raise SystemExit(1)\n"
     "assert [n for _, n in socket.if_nameindex() if n != 'lo'] == []",
     true},
    {"no files of the machine",
     "import os\nassert not os.path.exists('PLACE')\n"
     "assert not os.path.exists('/etc/passwd')\n"
     "assert not os.path.exists('/home') and not os.path.exists('/root')",
     true},
    {"nothing to be written",
     "import os\nfor place in ('/usr/x', '/x', '/usr/lib/x'):\n"
     "    try:\n        open(place, 'w')\n    except OSError:\n        pass\n"
     "    else:\n        raise SystemExit(1)",
     true},
    {"no other process",
     "import os\nassert len([p for p in os.listdir('/proc') if p.isdigit()]) < 5", true},
    {"no open files", "import os\nassert set(os.listdir('/proc/self/fd')) <= set('01234')", true},
    {"no environment",
     "import os\nassert 'PITH_SECRET' not in os.environ\n"
     "assert set(os.environ) <= {'PATH', 'HOME', 'LANG', 'PYTHONHASHSEED', 'PWD',"
     " 'LC_CTYPE'}",
     true},
    {"nobody",
     "import os\nassert os.getuid() == 65534\ntry:\n    os.setuid(0)\nexcept OSError:\n"
     "    pass\nelse:\n    raise SystemExit(1)",
     true},
    {"the same order in sets",
     "assert hash('pith') == hash('pith') and "
     "__import__('sys').flags.hash_randomization == 0",
     true},
};

/* Text with what stands for something put in. */
static void put(char *text, size_t size, const char *name, const char *value)
{
    char *at = strstr(text, name), rest[2048];
    if (!at) return;
    snprintf(rest, sizeof rest, "%s", at + strlen(name));
    snprintf(at, size - (size_t)(at - text), "%s%s", value, rest);
}

/* Somebody who listens on this machine. */
static int listen_here(char *port, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s >= 0);
    assert_int_equal(bind(s, (const struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(s, 1), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &n), 0);
    snprintf(port, size, "%d", ntohs(a.sin_port));
    return s;
}

static void programs_do_what_they_may(void **state)
{
    (void)state;
    struct pith_error err = {0};
    if (pith_sandbox_check(&err) != PITH_OK) {
        print_message("%s\n", err.text);
        skip();
    }
    assert_int_equal(setenv("PITH_SECRET", "1", 1), 0);
    char *place = test_temp_dir(), port[8];
    const int listener = listen_here(port, sizeof port);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        char text[2048];
        bool passed;
        snprintf(text, sizeof text, "%s", programs[i].text);
        put(text, sizeof text, "PLACE", place);
        put(text, sizeof text, "PORT", port);
        assert_ok(pith_sandbox_run(text, strlen(text), &passed, &err), err);
        if (passed != programs[i].passes)
            fail_msg("%s: %s", programs[i].name, passed ? "passed" : "failed");
    }
    close(listener);
    assert_int_equal(rmdir(place), 0);
    free(place);
}

/* It takes as long as it may. */
static void no_end_is_made_one(void **state)
{
    (void)state;
    static const char text[] = "while True: pass";
    struct pith_error err = {0};
    bool passed = true;
    if (!test_thorough() || pith_sandbox_check(&err) != PITH_OK) skip();
    assert_ok(pith_sandbox_run(text, sizeof text - 1, &passed, &err), err);
    assert_false(passed);
}

static struct pith_phrase part(const struct pith_questions *q, struct pith_span s)
{
    return (struct pith_phrase){pith_str_text(&q->text) + s.at, s.size};
}

static bool judged(const struct pith_task_source *source, size_t question, const char *said,
                   size_t size)
{
    const struct pith_questions *q = &source->questions;
    const struct pith_question *x = &q->item[question];
    struct pith_error err = {0};
    struct pith_judged got;
    const struct pith_answer a = {part(q, x->text), part(q, q->choice[x->first]), {said, size}};
    assert_ok(pith_saying_of(source->form)->judge(&a, &got, &err), err);
    assert_int_equal(got.flexible, got.right);
    return got.right;
}

#define TASKS "tests/golden/tasks/"

static void answers_pass_as_in_python(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_task_source source;
    json_t *golden;
    const json_t *row;
    size_t i, passed = 0;
    const struct pith_task_wish wish = {.path = TASKS "humaneval_own.jsonl"};
    assert_ok(pith_task_source_open(&wish, &source, &err), err);
    assert_string_equal(source.form->name, "humaneval");
    assert_int_equal(source.questions.count, 3);
    assert_int_equal(pith_saying_may(source.form, "x", false, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "`run_code`"));
    err = (struct pith_error){0};
    if (pith_saying_may(source.form, "x", true, &err) != PITH_OK) {
        assert_int_equal(err.status, PITH_UNSUPPORTED);
        pith_task_source_free(&source);
        skip();
    }
    assert_ok(pith_json_load(TASKS "programs.json", 1 << 20, &golden, &err), err);
    json_array_foreach (golden, i, row) {
        const json_t *said = json_array_get(row, 1);
        const char *text = json_string_value(said);
        if (strstr(text, "while True") && !test_thorough()) continue;
        const bool right = judged(&source, (size_t)json_integer_value(json_array_get(row, 0)), text,
                                  json_string_length(said));
        if (right != json_is_true(json_array_get(row, 2))) fail_msg("%s: %d", text, right);
        passed += right;
    }
    assert_true(i > 20 && passed == 9);
    json_decref(golden);
    pith_task_source_free(&source);
}

/* HumanEval as it is published, where it lies: its authors' answers pass, and none of some empty
 * ones.
 */
static void published_answers_pass(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_task_source source;
    struct pith_task_text file;
    char path[512];
    snprintf(path, sizeof path, "%s/tasks/HumanEval.jsonl.gz", test_data_dir());
    const struct pith_task_wish wish = {.path = path};
    if (!test_thorough() || pith_sandbox_check(&err) != PITH_OK || !pith_path_exists(path)) skip();
    assert_ok(pith_task_source_open(&wish, &source, &err), err);
    assert_int_equal(source.questions.count, 164);
    assert_ok(pith_task_text_open(path, &file, &err), err);
    const char *line = file.text;
    for (size_t i = 0; i < 164; i++) {
        json_t *j;
        const char *end = memchr(line, '\n', file.size - (size_t)(line - file.text));
        assert_non_null(end);
        assert_ok(pith_json_parse(line, (size_t)(end - line), path, &j, &err), err);
        const json_t *said = json_object_get(j, "canonical_solution");
        if (!judged(&source, i, json_string_value(said), json_string_length(said)))
            fail_msg("%zu fails", i);
        if (i % 16 == 0) assert_false(judged(&source, i, "", 0));
        json_decref(j);
        line = end + 1;
    }
    assert_ok(pith_task_text_finish(&file, path, PITH_OK, &err), err);
    pith_task_source_free(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_do_what_they_may), cmocka_unit_test(no_end_is_made_one),
        cmocka_unit_test(answers_pass_as_in_python), cmocka_unit_test(published_answers_pass)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
