/* eval/task/questions.h: the questions of a task, in whatever form it is published. Forms are rows
 * of tasks.def; their prompts and choices are those of EleutherAI's lm-evaluation-harness 0.4.13.
 */
#ifndef PITH_EVAL_TASK_QUESTIONS_H
#define PITH_EVAL_TASK_QUESTIONS_H

#include "eval/task/records.h"
#include "tok/text_input.h"
#include "tok/tokenizer.h"

/* Bytes at .. at + size of the text that the owner keeps. */
struct pith_span {
    size_t at, size;
};

struct pith_question {
    struct pith_span text; /* the prompt, without examples in front */
    size_t first, count;   /* in choices, at least 1 */
    size_t answer;         /* < count */
    size_t line;           /* in its file, from 1 */
};

struct pith_questions {
    struct pith_str text;
    struct pith_question *item;
    size_t count, cap;
    struct pith_span *choice;
    size_t choices, choice_cap;
};

/* Same prompt, choices and answer. */
bool pith_question_same(const struct pith_questions *a, size_t i, const struct pith_questions *b,
                        size_t k);

enum pith_task_flags {
    PITH_TASK_WORD = 1,       /* one continuation: right when each of its tokens is the likeliest */
    PITH_TASK_NORMALIZED = 2, /* accuracy by characters is reported too */
    PITH_TASK_SHORTENED = 4,  /* what is too long loses tokens in front, else it is refused */
    PITH_TASK_FIRST = 8,      /* examples are the first ones, else drawn for each question */
    PITH_TASK_FOLDER = 16,    /* a folder of subjects */
    /* Of synthetic_tasks.h; whether the answer is the likeliest text is reported too. */
    PITH_TASK_MADE = 32,
    /* Of free_answers.h: one choice, the answer, which the model has to generate. */
    PITH_TASK_GENERATED = 64,
    PITH_TASK_ALONE = 128, /* the choice judges answers and is none: there are no examples */
    PITH_TASK_RUN = 256    /* answers are programs, which are run */
};

/* What a reader of one record has at hand. */
struct pith_asking {
    const struct pith_task_form *form;
    const struct pith_records *records; /* the record in hand; path for messages */
    const char *labels; /* of a separate file, '0' or '1' for each record; or NULL */
    size_t label_count;
    struct pith_questions *out;
};

struct pith_task_form {
    const char *name;
    enum pith_record_cut cut;
    const char *keys; /* JSON: each first record with all of these is of this form */
    bool (*probe)(const struct pith_records *r); /* a further test of the first record, or NULL */
    /* Adds the question of a record, or none where it is a line of titles. */
    enum pith_status (*read)(const struct pith_asking *a, struct pith_error *err);
    const char *before, *after;    /* of the question */
    const char *delimiter;         /* between prompt and choice when it is scored */
    const char *example_delimiter; /* and in an example, which ends in an empty line */
    const char *labels;            /* how the name of a separate file of answers ends, or NULL */
    unsigned flags;                /* enum pith_task_flags */
};
/* The rows; the list ends in a form without a name. */
extern const struct pith_task_form pith_task_forms[];
/* Their names, each once, with commas. */
void pith_task_form_names(struct pith_str *out);

/* For readers: begins a question whose prompt is before + text + after (the form's). */
enum pith_status pith_question_begin(const struct pith_asking *a, const char *text, size_t size,
                                     struct pith_error *err);
enum pith_status pith_question_choice(const struct pith_asking *a, const char *text, size_t size,
                                      struct pith_error *err);
/* PITH_FORMAT with path and line. */
enum pith_status pith_asking_fail(const struct pith_asking *a, struct pith_error *err,
                                  const char *what);

/* Questions that share an introduction and examples: a subject of MMLU, or the whole file. */
struct pith_subject {
    char name[64];           /* "" for a file without subjects */
    const char *category;    /* NULL: none */
    struct pith_span intro;  /* in questions.text */
    size_t first, count;     /* in questions */
    size_t pool, pool_count; /* in the examples */
    double depth;            /* of what is made: where it stands, 0 to 1 */
};

struct pith_task_source {
    const struct pith_task_form *form;
    struct pith_questions questions, examples;
    bool own_examples; /* the pool lies in questions, and a question is no example of itself */
    struct pith_subject *subject;
    size_t subjects, subject_cap;
    size_t length; /* of what is made, in tokens; else 0 */
};

struct pith_task_wish {
    /* A file or a folder; NAME:PATH when its form is to be NAME; or synthetic_tasks.h. */
    const char *path;
    size_t limit;     /* questions of a subject at most; 0: all */
    size_t shots;     /* examples that will be needed */
    /* Of what is made: tokens of a sequence (0: what is usual), those that the model reads, what it
     * is drawn from, and for whom; NULL where nothing but the name is looked at. */
    size_t length, most;
    size_t seed;
    const struct pith_tokenizer *tokenizer;
};
/* Reads a task, or makes it where no file has its name (synthetic_tasks.h); without NAME its form
 * is found by content. .bz2 is unpacked. With shots the examples come from dev/ (MMLU), from the
 * training file next to it (the word for the split replaced by "train"), or, where there is none,
 * from the file itself. PITH_FORMAT names file and line, PITH_IO what cannot be read; also
 * PITH_FORMAT when there is no question. On failure *out owns nothing. */
enum pith_status pith_task_source_open(const struct pith_task_wish *wish,
                                       struct pith_task_source *out, struct pith_error *err);
/* The same from memory (`labels` as of a separate file, or NULL), for fuzzing; a single subject,
 * whose examples are its own questions. */
enum pith_status pith_task_source_parse(const struct pith_records *text, const char *labels,
                                        const struct pith_task_wish *wish,
                                        struct pith_task_source *out, struct pith_error *err);
void pith_task_source_free(struct pith_task_source *s);

/* The folder form: subjects of FOLDER/test/NAME_test.csv with examples in FOLDER/dev/NAME_dev.csv;
 * or one such file. `out` has its form already and is freed by the caller. */
enum pith_status pith_mmlu_read(const struct pith_task_wish *wish, bool folder,
                                struct pith_task_source *out, struct pith_error *err);
/* Appends the questions of records to out; stops after `limit` (0: all). */
enum pith_status pith_questions_read(struct pith_records *records, struct pith_asking *a,
                                     size_t limit, struct pith_error *err);
/* Appends a subject, zeroed; NULL when memory is out. */
struct pith_subject *pith_subject_add(struct pith_task_source *s, struct pith_error *err);
/* Whether a file's name says that it is packed: .bz2, .gz. */
bool pith_task_text_packed(const char *path);
/* The text of a file, unpacked if it is so, as tok/text_input.h lets it in; valid until the
 * finish. PITH_FORMAT beyond 1 GiB too. On failure *out owns nothing. */
struct pith_task_text {
    struct pith_text plain;
    char *unpacked;
    const char *text;
    size_t size;
};
enum pith_status pith_task_text_open(const char *path, struct pith_task_text *out,
                                     struct pith_error *err);
/* Closes it when work with it ended with s: s, or PITH_IO when the file changed meanwhile. */
enum pith_status pith_task_text_finish(struct pith_task_text *t, const char *path,
                                       enum pith_status s, struct pith_error *err);

#endif
