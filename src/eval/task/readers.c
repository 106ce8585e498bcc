/* One reader for each form of record, and the table of forms. */
#include "eval/task/questions.h"

#include "eval/task/schema.h"
#include "eval/task/white_space.h"

#include <string.h>
#include <utf8proc.h>

enum { LETTERS = 4 }; /* choices of MMLU and of HellaSwag's text */

static enum pith_status begin(const struct pith_asking *a, const json_t *text,
                              struct pith_error *err)
{
    return pith_question_begin(a, json_string_value(text), json_string_length(text), err);
}

static enum pith_status choose(const struct pith_asking *a, const json_t *text,
                               struct pith_error *err)
{
    if (!json_is_string(text)) return pith_asking_fail(a, err, "a choice is not a string");
    return pith_question_choice(a, json_string_value(text), json_string_length(text), err);
}

static void set_answer(const struct pith_asking *a, size_t answer)
{
    a->out->item[a->out->count - 1].answer = answer;
}

/* The value of a key that has to be a string; NULL after a failure. */
static const json_t *text_of(const struct pith_asking *a, const json_t *j, const char *key,
                             struct pith_error *err)
{
    const json_t *text = json_object_get(j, key);
    if (json_is_string(text)) return text;
    pith_fail(err, PITH_FORMAT, "%s: line %zu: \"%s\" is missing or not a string", a->records->path,
              a->records->line, key);
    return NULL;
}

/* An index of n choices, as a number or, in HellaSwag's copies, as its digit in a string. */
static enum pith_status answer_of(const struct pith_asking *a, const char *key, size_t n,
                                  struct pith_error *err)
{
    const json_t *j = json_object_get(a->records->json, key);
    json_int_t answer = json_integer_value(j);
    const char *digit = json_string_value(j);
    if (!json_is_integer(j) && !(digit && digit[0] >= '0' && digit[0] <= '9' && !digit[1]))
        return pith_fail(err, PITH_FORMAT, "%s: line %zu: \"%s\" is missing or not an integer",
                         a->records->path, a->records->line, key);
    if (digit) answer = digit[0] - '0';
    if (answer < 0 || (uint64_t)answer >= n)
        return pith_fail(err, PITH_FORMAT, "%s: line %zu: \"%s\" is %lld, outside 0..%zu",
                         a->records->path, a->records->line, key, (long long)answer, n - 1);
    set_answer(a, (size_t)answer);
    return PITH_OK;
}

static enum pith_status choose_all(const struct pith_asking *a, const json_t *list,
                                   struct pith_error *err)
{
    const json_t *j;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) < 2)
        return pith_asking_fail(a, err, "\"choices\" is not a list of two or more");
    json_array_foreach (list, i, j) PITH_TRY(choose(a, j, err));
    return PITH_OK;
}

static enum pith_status read_own(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *j = a->records->json, *choices = json_object_get(j, "choices"), *c;
    size_t i;
    if (!json_is_object(j)) return pith_asking_fail(a, err, "not a JSON object");
    const json_t *context = text_of(a, j, "context", err);
    if (!context) return PITH_FORMAT;
    PITH_TRY(begin(a, context, err));
    PITH_TRY(choose_all(a, choices, err));
    json_array_foreach (choices, i, c)
        if (json_string_length(c) == 0) return pith_asking_fail(a, err, "a choice is empty");
    const json_t *answer = json_object_get(j, "answer");
    if (!json_is_integer(answer))
        return pith_asking_fail(a, err, "\"answer\" is missing or not an integer");
    return answer_of(a, "answer", json_array_size(choices), err);
}

static bool probe_query(const struct pith_records *r)
{
    const char *query = json_string_value(json_object_get(r->json, "query"));
    return query && strncmp(query, "Question: ", 10) == 0;
}

static enum pith_status read_query(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *choices = json_object_get(a->records->json, "choices");
    const json_t *query = text_of(a, a->records->json, "query", err);
    if (!query) return PITH_FORMAT;
    PITH_TRY(begin(a, query, err));
    PITH_TRY(choose_all(a, choices, err));
    return answer_of(a, "gold", json_array_size(choices), err);
}

/* The choice whose label is the key. */
static enum pith_status answer_by_label(const struct pith_asking *a, const json_t *label,
                                        size_t index, bool *found, struct pith_error *err)
{
    const json_t *key = text_of(a, a->records->json, "answerKey", err);
    if (!key) return PITH_FORMAT;
    if (!json_is_string(label)) return pith_asking_fail(a, err, "a label is not a string");
    if (!*found && json_equal(label, key)) {
        set_answer(a, index);
        *found = true;
    }
    return PITH_OK;
}

static enum pith_status need_label(const struct pith_asking *a, bool found, struct pith_error *err)
{
    return found ? PITH_OK : pith_asking_fail(a, err, "\"answerKey\" is the label of no choice");
}

static enum pith_status read_arc(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *j = a->records->json, *choices = json_object_get(j, "choices"), *label;
    const json_t *labels = json_object_get(choices, "label");
    const json_t *question = text_of(a, j, "question", err);
    size_t i;
    bool found = false;
    if (!question) return PITH_FORMAT;
    PITH_TRY(begin(a, question, err));
    PITH_TRY(choose_all(a, json_object_get(choices, "text"), err));
    if (json_array_size(labels) != json_array_size(json_object_get(choices, "text")))
        return pith_asking_fail(a, err, "\"choices\" has not as many labels as texts");
    json_array_foreach (labels, i, label) PITH_TRY(answer_by_label(a, label, i, &found, err));
    return need_label(a, found, err);
}

static enum pith_status read_arc_nested(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *question = json_object_get(a->records->json, "question"), *choice;
    const json_t *choices = json_object_get(question, "choices");
    const json_t *stem = text_of(a, question, "stem", err);
    size_t i;
    bool found = false;
    if (!stem) return PITH_FORMAT;
    PITH_TRY(begin(a, stem, err));
    if (!json_is_array(choices) || json_array_size(choices) < 2)
        return pith_asking_fail(a, err, "\"choices\" is not a list of two or more");
    json_array_foreach (choices, i, choice) {
        PITH_TRY(choose(a, json_object_get(choice, "text"), err));
        PITH_TRY(answer_by_label(a, json_object_get(choice, "label"), i, &found, err));
    }
    return need_label(a, found, err);
}

/* Every `from` by `to`. */
static void replace(const struct pith_str *text, const char *from, const char *to,
                    struct pith_str *out)
{
    const size_t n = strlen(from);
    for (size_t i = 0; i < text->len;) {
        const bool here = text->len - i >= n && memcmp(text->data + i, from, n) == 0;
        if (here) pith_str_puts(out, to);
        else pith_str_putc(out, text->data[i]);
        i += here ? n : 1;
    }
    out->failed = out->failed || text->failed;
}

/* Where brackets that are open at `from` end: at a ']' or the end of the line, or text->len. */
static size_t end_of_brackets(const struct pith_str *text, size_t from)
{
    while (from < text->len && text->data[from] != ']' && text->data[from] != '\n') from++;
    return from;
}

/* Leaves out brackets and what is in them; none spans lines. */
static void drop_brackets(const struct pith_str *text, struct pith_str *out)
{
    size_t stop = 0; /* looked for once, not at each bracket that is open */
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] == '[' && stop <= i) stop = end_of_brackets(text, i);
        const bool closed = text->data[i] == '[' && stop < text->len && text->data[stop] == ']';
        if (closed) i = stop;
        else pith_str_putc(out, text->data[i]);
    }
    out->failed = out->failed || text->failed;
}

/* HellaSwag's WikiHow half marks titles and more in brackets. */
static void clean(const char *text, size_t size, struct pith_str *out)
{
    struct pith_str trimmed = {0}, titled = {0}, bare = {0};
    const size_t end = pith_trim_end(text, size), start = pith_trim_start(text, end);
    pith_str_append(&trimmed, text + start, end - start);
    replace(&trimmed, " [title]", ". ", &titled);
    drop_brackets(&titled, &bare);
    replace(&bare, "  ", " ", out);
    pith_str_free(&trimmed);
    pith_str_free(&titled);
    pith_str_free(&bare);
}

/* The first letter large, the others small. */
static void capitalize(const json_t *text, struct pith_str *out)
{
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)json_string_value(text);
    const size_t size = json_string_length(text);
    for (size_t i = 0; i < size;) {
        utf8proc_int32_t c;
        utf8proc_uint8_t bytes[4];
        const utf8proc_ssize_t n = utf8proc_iterate(at + i, (utf8proc_ssize_t)(size - i), &c);
        if (n < 1) return; /* jansson lets UTF-8 alone through */
        c = i ? utf8proc_tolower(c) : utf8proc_totitle(c);
        pith_str_append(out, (const char *)bytes, (size_t)utf8proc_encode_char(c, bytes));
        i += (size_t)n;
    }
}

static enum pith_status add_endings(const struct pith_asking *a, const json_t *endings,
                                    struct pith_error *err)
{
    const json_t *ending;
    size_t i;
    if (!json_is_array(endings) || json_array_size(endings) < 2)
        return pith_asking_fail(a, err, "\"endings\" is not a list of two or more");
    json_array_foreach (endings, i, ending) {
        struct pith_str text = {0};
        if (!json_is_string(ending)) return pith_asking_fail(a, err, "an ending is not a string");
        clean(json_string_value(ending), json_string_length(ending), &text);
        const enum pith_status s =
            text.failed ? pith_fail_nomem(err, "the questions of a task")
                        : pith_question_choice(a, pith_str_text(&text), text.len, err);
        pith_str_free(&text);
        PITH_TRY(s);
    }
    return answer_of(a, "label", json_array_size(endings), err);
}

static enum pith_status read_hellaswag(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *j = a->records->json;
    const json_t *activity = text_of(a, j, "activity_label", err);
    const json_t *one = activity ? text_of(a, j, "ctx_a", err) : NULL;
    const json_t *two = one ? text_of(a, j, "ctx_b", err) : NULL;
    if (!two) return PITH_FORMAT;
    struct pith_str raw = {0}, text = {0};
    pith_str_append(&raw, json_string_value(activity), json_string_length(activity));
    pith_str_puts(&raw, ": ");
    pith_str_append(&raw, json_string_value(one), json_string_length(one));
    pith_str_puts(&raw, " ");
    capitalize(two, &raw);
    clean(pith_str_text(&raw), raw.len, &text);
    enum pith_status s = raw.failed || text.failed
                             ? pith_fail_nomem(err, "the questions of a task")
                             : pith_question_begin(a, pith_str_text(&text), text.len, err);
    pith_str_free(&raw);
    pith_str_free(&text);
    return s == PITH_OK ? add_endings(a, json_object_get(j, "endings"), err) : s;
}

/* The index that a field names as a digit, or as a letter; LETTERS when it does not. */
static size_t letter_of(const struct pith_str *field, bool letters)
{
    const char c = field->len == 1 ? field->data[0] : '\0';
    if (c >= '0' && c < '0' + LETTERS) return (size_t)(c - '0');
    if (letters && c >= 'A' && c < 'A' + LETTERS) return (size_t)(c - 'A');
    return LETTERS;
}

static bool probe_six(const struct pith_records *r)
{
    return letter_of(&r->field[1], false) < LETTERS;
}

/* The text form: query, index of the answer, four endings. */
static enum pith_status read_six(const struct pith_asking *a, struct pith_error *err)
{
    const struct pith_str *f = a->records->field;
    const size_t answer = letter_of(&f[1], false);
    if (answer == LETTERS)
        return pith_asking_fail(a, err, "the second line of a record is not 0, 1, 2 or 3");
    PITH_TRY(pith_question_begin(a, pith_str_text(&f[0]), f[0].len, err));
    for (size_t i = 2; i < 2 + LETTERS; i++)
        PITH_TRY(pith_question_choice(a, pith_str_text(&f[i]), f[i].len, err));
    set_answer(a, answer);
    return PITH_OK;
}

static enum pith_status read_piqa(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *j = a->records->json, *goal = text_of(a, j, "goal", err);
    if (!goal) return PITH_FORMAT;
    const size_t index = a->out->count;
    PITH_TRY(begin(a, goal, err));
    PITH_TRY(choose(a, json_object_get(j, "sol1"), err));
    PITH_TRY(choose(a, json_object_get(j, "sol2"), err));
    if (json_object_get(j, "label")) return answer_of(a, "label", 2, err);
    if (!a->labels)
        return pith_asking_fail(a, err,
                                "no \"label\", and no file of answers next to it (for valid.jsonl: "
                                "valid-labels.lst)");
    if (index >= a->label_count)
        return pith_asking_fail(a, err, "the file of answers next to it ends before");
    set_answer(a, a->labels[index] == '1');
    return PITH_OK;
}

static bool probe_text_alone(const struct pith_records *r)
{
    return json_object_size(r->json) == 1;
}

/* The last word, with the blank in front, is the wanted reply. */
static enum pith_status read_lambada(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *j = text_of(a, a->records->json, "text", err);
    if (!j) return PITH_FORMAT;
    const char *text = json_string_value(j);
    const size_t size = json_string_length(j);
    size_t at = size;
    while (at && text[at - 1] != ' ') at--;
    if (at < 2) return pith_asking_fail(a, err, "\"text\" has no last word behind others");
    PITH_TRY(pith_question_begin(a, text, at - 1, err));
    return pith_question_choice(a, text + at - 1, size - at + 1, err);
}

static bool probe_marked(const struct pith_records *r)
{
    const char *answer = json_string_value(json_object_get(r->json, "answer"));
    return answer && strstr(answer, "#### ");
}

/* A question, and the wanted reply. */
static enum pith_status read_reply(const struct pith_asking *a, const char *question,
                                   const char *answer, struct pith_error *err)
{
    const json_t *j = a->records->json, *text = text_of(a, j, question, err);
    const json_t *reply = text ? text_of(a, j, answer, err) : NULL;
    if (!reply) return PITH_FORMAT;
    PITH_TRY(begin(a, text, err));
    return choose(a, reply, err);
}

static enum pith_status read_gsm8k(const struct pith_asking *a, struct pith_error *err)
{
    PITH_TRY(read_reply(a, "question", "answer", err));
    return probe_marked(a->records)
               ? PITH_OK
               : pith_asking_fail(a, err, "\"answer\" has no number behind \"#### \"");
}

static enum pith_status read_exact(const struct pith_asking *a, struct pith_error *err)
{
    return read_reply(a, "prompt", "target", err);
}

/* The wanted reply is described by a schema, whose text stands for it. */
static enum pith_status read_schema(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *j = a->records->json, *prompt = text_of(a, j, "prompt", err);
    if (!prompt) return PITH_FORMAT;
    const json_t *schema = json_object_get(j, "schema");
    const char *lacks = pith_schema_lacks(schema);
    if (lacks)
        return pith_fail(err, PITH_FORMAT,
                         "%s: line %zu: \"%.40s\" of the schema is not understood "
                         "(docs/measuring.md has the list)",
                         a->records->path, a->records->line, lacks);
    PITH_TRY(begin(a, prompt, err));
    struct pith_str text = {0};
    pith_json_dump(schema, JSON_COMPACT, &text);
    const enum pith_status s = text.failed ? pith_fail_nomem(err, "the questions of a task")
                                           : pith_question_choice(a, text.data, text.len, err);
    pith_str_free(&text);
    return s;
}

static bool is_identifier(const char *s)
{
    static const char digits[] = "0123456789",
                      letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return *s && !strchr(digits, *s) && strspn(s, letters) == strlen(s);
}

/* The wanted reply is a function, judged by its tests. */
static enum pith_status read_humaneval(const struct pith_asking *a, struct pith_error *err)
{
    const json_t *j = a->records->json, *prompt = text_of(a, j, "prompt", err);
    const json_t *test = prompt ? text_of(a, j, "test", err) : NULL;
    const json_t *entry = test ? text_of(a, j, "entry_point", err) : NULL;
    if (!entry) return PITH_FORMAT;
    if (!is_identifier(json_string_value(entry)))
        return pith_asking_fail(a, err, "\"entry_point\" is no name of a function");
    PITH_TRY(begin(a, prompt, err));
    struct pith_str text = {0};
    pith_str_append(&text, json_string_value(test), json_string_length(test));
    pith_str_printf(&text, "\ncheck(%s)", json_string_value(entry));
    const enum pith_status s = text.failed ? pith_fail_nomem(err, "the questions of a task")
                                           : pith_question_choice(a, text.data, text.len, err);
    pith_str_free(&text);
    return s;
}

static bool is_title(const struct pith_records *r)
{
    return r->line == 1 && strcmp(pith_str_text(&r->field[5]), "answer") == 0;
}

static bool probe_csv(const struct pith_records *r)
{
    return is_title(r) || letter_of(&r->field[5], true) < LETTERS;
}

static enum pith_status read_csv(const struct pith_asking *a, struct pith_error *err)
{
    const struct pith_str *f = a->records->field;
    if (is_title(a->records)) return PITH_OK;
    const size_t answer = letter_of(&f[5], true);
    if (answer == LETTERS)
        return pith_asking_fail(a, err, "the last field is not an answer (A to D, or 0 to 3)");
    struct pith_str text = {0};
    const char *question = pith_str_text(&f[0]);
    const size_t end = pith_trim_end(question, f[0].len), start = pith_trim_start(question, end);
    pith_str_append(&text, question + start, end - start);
    for (size_t i = 0; i < LETTERS; i++) {
        const char mark[] = {'\n', (char)('A' + i), '.', ' '};
        pith_str_append(&text, mark, sizeof mark);
        pith_str_append(&text, pith_str_text(&f[1 + i]), f[1 + i].len);
    }
    pith_str_puts(&text, "\nAnswer:");
    enum pith_status s = text.failed ? pith_fail_nomem(err, "the questions of a task")
                                     : pith_question_begin(a, pith_str_text(&text), text.len, err);
    pith_str_free(&text);
    for (size_t i = 0; i < LETTERS && s == PITH_OK; i++)
        s = pith_question_choice(a, &"ABCD"[i], 1, err);
    if (s == PITH_OK) set_answer(a, answer);
    return s;
}

const struct pith_task_form pith_task_forms[] = {
#define TASK_FORM(name, cut, keys, probe, read, before, after, delimiter, example, labels, flags)  \
    {name, cut, keys, probe, read, before, after, delimiter, example, labels, flags},
#include "eval/task/tasks.def"
#undef TASK_FORM
    {0},
};

void pith_task_form_names(struct pith_str *out)
{
    for (const struct pith_task_form *f = pith_task_forms; f->name; f++) {
        if (f > pith_task_forms && strcmp(f->name, f[-1].name) == 0) continue;
        pith_str_printf(out, "%s%s", f > pith_task_forms ? ", " : "", f->name);
    }
}
