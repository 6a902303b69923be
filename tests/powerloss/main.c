/*
 * main.c - power loss, simulated: options, and rounds in processes of their own.
 *
 *   powerloss --images N --seed S                   rounds until N images were looked at
 *   powerloss --seed S --round R [--image PATH]     one round, or one image of its workload
 *   powerloss --journal FILE --image CUT.CHOICE     an image that failed, exactly as it was
 *   powerloss --rules [--without RULE]              each rule of the engine left out (make RULES=1)
 *   powerloss --rules --rate N [--without RULE]     in how many of N rounds each of them is noticed
 *   powerloss --list-rules
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/powerloss/rounds.h"
#include "tests/powerloss/rules.h"

struct options {
    uint64_t images, seed, round, jobs, rate;
    const char *image, *journal, *without, *shape;
    bool one_round, rules, list, verbose;
};

static const char *word_after(int argc, char **argv, int *i)
{
    if (++*i >= argc) {
        fprintf(stderr, "%s: %s needs a value\n", argv[0], argv[*i - 1]);
        exit(2);
    }
    return argv[*i];
}

static uint64_t number(const char *program, const char *text)
{
    char *end;
    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    if (*end || end == text || errno) {
        fprintf(stderr, "%s: %s is no number\n", program, text);
        exit(2);
    }
    return n;
}

static void parse(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        uint64_t *number;
        const char **word;
        bool *flag;
    } known[] = {
        {"--images", &o->images, NULL, NULL},        {"--seed", &o->seed, NULL, NULL},
        {"--round", &o->round, NULL, &o->one_round}, {"--jobs", &o->jobs, NULL, NULL},
        {"--image", NULL, &o->image, NULL},          {"--journal", NULL, &o->journal, NULL},
        {"--without", NULL, &o->without, NULL},      {"--rules", NULL, NULL, &o->rules},
        {"--list-rules", NULL, NULL, &o->list},      {"--verbose", NULL, NULL, &o->verbose},
        {"--shape", NULL, &o->shape, NULL},          {"--rate", &o->rate, NULL, NULL},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(argv[i], known[k].name) != 0)
            k++;
        if (k == sizeof known / sizeof *known) {
            fprintf(stderr, "%s: unknown option %s\n", argv[0], argv[i]);
            exit(2);
        }
        if (known[k].flag)
            *known[k].flag = true;
        if (known[k].number)
            *known[k].number = number(argv[0], word_after(argc, argv, &i));
        if (known[k].word)
            *known[k].word = word_after(argc, argv, &i);
    }
}

static enum shape shape_of(const char *program, const char *name)
{
    unsigned shape = SHAPE_ANY;
    while (name && shape < SHAPES && strcmp(name, shape_name((enum shape)shape)) != 0)
        shape++;
    if (shape < SHAPES)
        return (enum shape)shape;
    fprintf(stderr, "%s: --shape is any, even, beside or long, not %s\n", program, name);
    exit(2);
}

static int one_round(const char *program, const struct options *o, struct rounds *rounds)
{
    struct order order = {.seed = o->seed,
                          .round = o->round,
                          .images = o->images ? o->images : ROUND_IMAGES,
                          .path = o->image,
                          .shape = shape_of(program, o->shape),
                          .verbose = o->verbose};
    struct progress *p = rounds_alone(rounds, &order, o->journal);
    bool good = p->done && !p->failed;
    if (!good)
        rounds_report(rounds, p, &order);
    if (o->verbose)
        tally_print(&p->tally, false);
    printf("SUITE powerloss required=%" PRIu64 " executed=%" PRIu64 " passed=%" PRIu64
           " failed=%d skipped=0\n",
           p->passed + !good, p->passed + !good, p->passed, !good);
    return !good;
}

int main(int argc, char **argv)
{
    struct options o = {.seed = 1};
    parse(argc, argv, &o);
    if (o.list)
        return rules_list();
    if (o.without && !o.rules && !rules_leave_out(o.without))
        return 2;
    if (o.journal && !o.image) {
        fprintf(stderr, "%s: --journal needs --image\n", argv[0]);
        return 2;
    }
    struct rounds *rounds = rounds_new(argv[0], (unsigned)o.jobs);
    const enum shape shape = shape_of(argv[0], o.shape);
    int rc = o.rules && o.rate
                 ? rules_rate(rounds, o.seed, o.without, o.rate, o.shape ? &shape : NULL)
             : o.rules                  ? rules_all(rounds, o.seed, o.without)
             : o.one_round || o.journal ? one_round(argv[0], &o, rounds)
                                        : rounds_many(rounds, o.seed, o.images ? o.images : 5000);
    rounds_free(rounds);
    return rc;
}
