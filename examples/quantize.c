/* How a program uses libpith: quantize a checkpoint, verify it, measure it, let it speak.
 *
 *     quantize MODEL OUT TEXT
 *
 * Build: cc quantize.c $(pkg-config --cflags --libs pith) */
#include <pith/context.h>
#include <pith/eval.h>
#include <pith/generate.h>
#include <pith/quantize.h>

#include <stdio.h>

static int show_progress(void *ctx, const char *what, double done, double total)
{
    (void)ctx;
    fprintf(stderr, "\r%-40s %3.0f%%", what, total > 0 ? 100 * done / total : 0);
    return 0; /* nonzero would stop the call */
}

static int show_text(void *ctx, const char *piece, size_t size)
{
    (void)ctx;
    fwrite(piece, 1, size, stdout);
    return 0;
}

static enum pith_status speak(struct pith_context *context, const char *model,
                              struct pith_error *err)
{
    struct pith_engine *engine = NULL;
    enum pith_status s = pith_engine_open(context, model, &engine, err);
    if (s == PITH_OK) {
        struct pith_generate_options o;
        pith_generate_defaults(&o);
        o.prompt = "Once upon a time";
        o.max_tokens = 32;
        o.text = show_text;
        printf("%s", o.prompt);
        s = pith_generate(engine, &o, NULL, err);
        printf("\n");
    }
    pith_engine_close(&engine);
    return s;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL OUT TEXT\n", argv[0]);
        return 2;
    }
    struct pith_error err = {PITH_OK, ""};
    struct pith_context *context = NULL;
    char *report = NULL;

    enum pith_status s = pith_context_new(0, NULL, &context, &err);
    if (s == PITH_OK) {
        struct pith_quantize_options o;
        pith_quantize_defaults(&o);
        o.model = argv[1];
        o.out = argv[2];
        o.recipe = "gptq";
        o.progress.fn = show_progress;
        s = pith_quantize(context, &o, NULL, &err);
    }
    if (s == PITH_OK) {
        struct pith_verify_options o;
        pith_verify_defaults(&o);
        o.model = argv[2];
        o.against = argv[1];
        s = pith_verify(context, &o, NULL, &err);
    }
    if (s == PITH_OK) {
        struct pith_eval_options o;
        const char *const texts[] = {argv[3]};
        pith_eval_defaults(&o);
        o.model = argv[2];
        o.baseline = argv[1];
        o.texts.item = texts;
        o.texts.count = 1;
        s = pith_eval(context, &o, &report, &err);
    }
    if (s == PITH_OK) {
        printf("\n%s\n", report);
        s = speak(context, argv[2], &err);
    }
    if (s != PITH_OK) fprintf(stderr, "\n%s: %s\n", pith_status_text(s), err.text);
    pith_text_free(report);
    pith_context_free(&context);
    return s == PITH_OK ? 0 : 1;
}
