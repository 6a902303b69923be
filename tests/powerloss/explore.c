/*
 * explore.c - see explore.h.
 */
#include "tests/powerloss/explore.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/meta.h"
#include "tests/powerloss/chance.h"
#include "tests/powerloss/disk.h"
#include "tests/powerloss/saved.h"
#include "tests/powerloss/work.h"

/* Where the power is lost, and how. */
struct cut {
    size_t at; /* events before are done */
    uint64_t choice;
};

/* A life that was recorded, or is. */
struct stage {
    struct journal journal;
    struct line line; /* at the journal's beginning */
    struct config config;
    struct cut cut; /* of this stage's journal: the image that is being looked at */
};

struct round {
    const struct order *order;
    struct progress *progress;
    struct states states;
    struct stage stages[EXPLORE_DEPTH + 1];
    unsigned depth; /* of the stage that is being recorded */
    char dirs[EXPLORE_DEPTH + 1][STORE_DIR_PATH];
};

/* ---- failing ----------------------------------------------------------------------------------
 */

/* What a signal handler needs; a round is a process of its own. */
static struct round *current;

static void describe_path(struct round *r)
{
    char *at = r->progress->path, *end = at + PATH_TEXT;
    *at = 0;
    for (unsigned i = 0; i < r->depth; i++)
        at += snprintf(at, (size_t)(end - at), "%s%zu.%" PRIu64, i ? "/" : "", r->stages[i].cut.at,
                       r->stages[i].cut.choice);
}

/* Leaves the journal of whose crash an image failed, and ends the process. */
static void fail_round(struct round *r, const char *assertion, const char *text)
{
    struct progress *p = r->progress;
    if (p->failed)
        _exit(1);
    p->failed = true;
    snprintf(p->assertion, sizeof p->assertion, "%s", assertion);
    snprintf(p->text, sizeof p->text, "%s", text);
    if (r->depth > 0 && r->order->keep) {
        const struct stage *from = &r->stages[r->depth - 1];
        snprintf(p->journal, sizeof p->journal, "%s/seed-%" PRIu64 "-round-%" PRIu64 ".journal",
                 r->order->keep, r->order->seed, r->order->round);
        const struct saved saved = {from->journal, from->line, from->config};
        if (!saved_write(&saved, p->journal))
            p->journal[0] = 0;
    }
    fflush(stdout);
    _exit(1);
}

static void work_fails(struct work *work, const char *assertion, const char *text)
{
    fail_round(work->arg, assertion, text);
}

/* An assertion of the engine says what it is on stderr, which is a file here. */
static void on_signal(int number)
{
    char text[600] = "";
    ssize_t n = pread(STDERR_FILENO, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = c[1] ? ';' : 0;
    if (!text[0])
        snprintf(text, sizeof text, "ended by %s", strsignal(number));
    fail_round(current, strstr(text, "assertion failed") ? "engine-assertion" : "no-crash", text);
}

static void catch_signals(struct round *r)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = on_signal}; /* the round ends in it */
    char path[STORE_DIR_PATH + 16];
    snprintf(path, sizeof path, "%s/stderr", r->order->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        abort();
    close(fd);
    current = r;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)sigaction(signals[i], &action, NULL);
}

/* ---- one life ---------------------------------------------------------------------------------
 */

static struct work *work_new(struct round *r, struct stage *stage, struct recorder *rec,
                             uint64_t seed)
{
    struct work *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->config = stage->config;
    w->rng = rng_seed(seed, r->depth);
    w->rec = rec;
    w->dir = r->dirs[r->depth];
    w->states = &r->states;
    w->tally = &r->progress->tally;
    w->fail = work_fails;
    w->arg = r;
    line_copy(&w->line, &stage->line);
    recorder_hold_up(rec, w->config.hold_up);
    chance_seed(seed);
    return w;
}

static void work_free(struct work *w)
{
    line_free(&w->line);
    free(w);
}

static bool is_segment(const char *name)
{
    return strncmp(name, "log-", 4) == 0 && strcmp(name, "log-new") != 0;
}

static void count_events(struct tally *t, const struct journal *journal)
{
    for (size_t i = 0; i < journal->n; i++) {
        const struct event *e = &journal->at[i];
        t->log_segments_recycled += e->kind == EV_RENAME && is_segment(e->name);
        t->log_segments_made += e->kind == EV_RENAME && !is_segment(e->name);
        t->log_segments_removed += e->kind == EV_REMOVE && is_segment(e->name);
        t->file_growths += e->kind == EV_SIZE && e->offset > META_RESERVED + (1u << 20);
    }
}

/* Records a workload from nothing on. */
static void record_workload(struct round *r)
{
    struct stage *stage = &r->stages[0];
    struct files nothing = {0};
    struct state empty = {0};
    uint64_t seed = r->order->seed * 1000003 + r->order->round;
    stage->config = config_make(r->order->seed, r->order->round, r->order->shape);
    journal_init(&stage->journal, &nothing);
    line_add(&stage->line, states_keep(&r->states, &empty));
    struct recorder *rec = recorder_new(r->dirs[0], &stage->journal, seed);
    struct work *w = work_new(r, stage, rec, seed);
    work_open(w, 0);
    for (unsigned i = 0; i < stage->config.steps; i++) {
        r->progress->moves++;
        work_steps(w, 1);
    }
    work_close(w, rng_one_in(&w->rng, 2));
    r->progress->tally.workloads++;
    count_events(&r->progress->tally, &stage->journal);
    work_free(w);
    recorder_free(rec);
}

static void explore(struct round *r, uint64_t images);

static void count_image(struct round *r, const struct event *next, const struct event *last,
                        const struct files *image, enum ps_durability level)
{
    struct tally *t = &r->progress->tally;
    t->images++;
    t->images_of_recoveries += r->depth > 1;
    t->images_before_a_sync += next && event_is_sync(next);
    t->images_after_a_promise += last && event_is_word(last) && last->kind != EV_COMMIT;
    t->images_without_directory += !image->exists;
    t->images_with_a_damaged_meta += strncmp(r->progress->kind, "meta ", 5) == 0;
    t->images_at_always += level == PS_ALWAYS;
    t->images_at_everysec += level == PS_EVERYSEC;
    t->images_at_none += level == PS_NONE;
}

/* Opens an image of the stage above, holds it against what may be there, and perhaps goes on with
 * it: what is recorded meanwhile is a stage of its own. */
static void look_at(struct round *r, struct files *image, const struct line *line,
                    const struct cut *cut, bool go_deeper)
{
    struct stage *stage = &r->stages[r->depth];
    uint64_t seed = cut->choice * 31 + cut->at;
    struct rng rng = rng_seed(seed, r->order->round);
    stage->config = r->stages[r->depth - 1].config;
    stage->config.hold_up = rng_one_in(&rng, 2) ? stage->config.hold_up : 0;
    stage->config.kills = stage->config.failures = false;
    if (rng_one_in(&rng, 2)) /* smaller than what was in the log: recovery makes checkpoints */
        stage->config.slots = 64 * (stage->config.page_size / 4096);
    files_write(image, r->dirs[r->depth]);
    journal_init(&stage->journal, image);
    line_copy(&stage->line, line);
    struct recorder *rec = recorder_new(r->dirs[r->depth], &stage->journal, seed);
    struct work *w = work_new(r, stage, rec, seed);
    work_open(w, stage->line.promised);
    bool first = rng_one_in(&rng, 2);
    if (first)
        work_check(w);
    unsigned steps = (unsigned)rng_below(&rng, go_deeper ? 6 : 24);
    work_steps(w, steps < 6 ? steps : 0);
    if (!first)
        work_check(w);
    if (rng_one_in(&rng, 4)) {
        work_reopen(w);
    }
    work_close(w, false);
    work_free(w);
    recorder_free(rec);
    if (go_deeper && !r->order->path) /* the life is the same either way */
        explore(r, rng_between(&rng, 2, 5));
    journal_free(&stage->journal);
    line_free(&stage->line);
}

static bool one_meta_is_bad(const struct files *image)
{
    const struct named_file *file = files_find(image, "pando.db");
    struct meta meta;
    return file && file->len >= META_RESERVED &&
           (meta_decode(file->bytes, &meta) == 0) !=
               (meta_decode(file->bytes + META_STRIDE, &meta) == 0);
}

static void look_at_cut(struct round *r, struct disk *disk, const struct cut *cut)
{
    struct stage *stage = &r->stages[r->depth];
    const struct journal *journal = &stage->journal;
    struct files image;
    const char *what;
    disk_forward(disk, cut->at);
    disk_image(disk, cut->choice, &image, &what);
    stage->cut = *cut;
    r->depth++;
    describe_path(r);
    snprintf(r->progress->kind, sizeof r->progress->kind, "%s", what);
    count_image(r, cut->at < journal->n ? &journal->at[cut->at] : NULL,
                cut->at ? &journal->at[cut->at - 1] : NULL, &image, stage->config.level);
    r->progress->images++;
    r->progress->moves++;
    if (r->order->verbose && r->order->path)
        journal_print(journal, cut->at < 60 ? 0 : cut->at - 60, cut->at + 2);
    if (r->order->verbose)
        printf("image %s: %s; sequences %" PRIu64 " to %" PRIu64 "\n", r->progress->path, what,
               disk->line.promised, line_last(&disk->line));
    unsigned deeper = one_meta_is_bad(&image) ? 2 : 6; /* what recovery writes then matters more */
    bool go_deeper = r->depth < EXPLORE_DEPTH && cut->choice % deeper == 0;
    look_at(r, &image, &disk->line, cut, go_deeper);
    r->progress->passed++;
    r->depth--;
}

/* ---- many images of a journal ------------------------------------------------------------------
 */

static int compare_cuts(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
                          : (x->choice > y->choice) - (x->choice < y->choice);
}

#define SOON  12u /* events */
#define OFTEN 8u

/* Before each sync; more often before those of metas. */
static size_t find_syncs(const struct journal *journal, size_t *places)
{
    bool meta = false;
    size_t n = 0;
    for (size_t i = 0; i < journal->n; i++) {
        const struct event *e = &journal->at[i];
        if (e->kind == EV_WRITE && e->len == META_BYTES)
            meta = true;
        for (unsigned k = 0; event_is_sync(e) && k < (meta ? OFTEN / 2 : 1); k++)
            places[n++] = i;
        meta = meta && !event_is_sync(e);
    }
    return n;
}

/* After each word but of a commit; soon after a failure more often. */
static size_t find_words(const struct journal *journal, size_t *places)
{
    size_t n = 0, soon = 0;
    for (size_t i = 0; i < journal->n; i++) {
        const struct event *e = &journal->at[i];
        if (e->kind == EV_SYNC_FAILED || e->kind == EV_DROPPED)
            soon = i + SOON;
        if (!event_is_word(e) || e->kind == EV_COMMIT)
            continue;
        for (unsigned k = 0; k < (i <= soon && soon ? OFTEN : 1); k++)
            places[n++] = i + 1;
    }
    return n;
}

/* Half of the images before syncs (each of them, if there are as many), a quarter after promises,
 * a quarter anywhere. */
static struct cut *plan(const struct journal *journal, struct rng *rng, uint64_t images)
{
    struct cut *cuts = calloc(images, sizeof *cuts);
    size_t *syncs = calloc(journal->n * OFTEN + 1, sizeof *syncs);
    size_t *words = calloc(journal->n * OFTEN + 1, sizeof *words);
    if (!cuts || !syncs || !words)
        abort();
    size_t nsyncs = find_syncs(journal, syncs);
    size_t nwords = find_words(journal, words);
    for (size_t i = nsyncs; i > 1; i--) { /* in any order */
        size_t k = (size_t)rng_below(rng, i), kept = syncs[i - 1];
        syncs[i - 1] = syncs[k];
        syncs[k] = kept;
    }
    for (uint64_t i = 0; i < images; i++) {
        cuts[i].choice = rng_next(rng) >> 32;
        if (i % 4 < 2 && nsyncs)
            cuts[i].at = syncs[(i / 4 * 2 + i % 4) % nsyncs];
        else if (i % 4 == 2 && nwords)
            cuts[i].at = words[rng_below(rng, nwords)];
        else
            cuts[i].at = (size_t)rng_below(rng, journal->n + 1);
    }
    free(syncs);
    free(words);
    qsort(cuts, images, sizeof *cuts, compare_cuts);
    return cuts;
}

static void explore(struct round *r, uint64_t images)
{
    struct stage *stage = &r->stages[r->depth];
    struct rng rng = rng_seed(r->order->seed ^ (uint64_t)r->depth << 32, r->order->round);
    struct disk disk;
    struct cut *cuts = plan(&stage->journal, &rng, images);
    disk_init(&disk, &stage->journal, &stage->line);
    for (uint64_t i = 0; i < images && r->progress->images < r->order->images; i++)
        look_at_cut(r, &disk, &cuts[i]);
    disk_free(&disk);
    free(cuts);
}

/* Just the image of a path, whose last part says how deep it is. */
static void follow(struct round *r, const char *path)
{
    struct cut cut;
    int used = 0;
    if (sscanf(path, "%zu.%" SCNu64 "%n", &cut.at, &cut.choice, &used) != 2 ||
        r->depth >= EXPLORE_DEPTH) {
        fprintf(stdout, "an image is CUT.CHOICE, or several of these with / between\n");
        _exit(2);
    }
    struct disk disk;
    disk_init(&disk, &r->stages[r->depth].journal, &r->stages[r->depth].line);
    if (path[used] == '/') {
        printf("an image within an image needs the journal that is left when it fails\n");
        _exit(2);
    }
    look_at_cut(r, &disk, &cut);
    disk_free(&disk);
}

/* ---- rounds -----------------------------------------------------------------------------------
 */

static struct round *round_new(const struct order *order)
{
    struct round *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->order = order;
    r->progress = order->progress;
    for (unsigned i = 0; i <= EXPLORE_DEPTH; i++) {
        int n = snprintf(r->dirs[i], sizeof r->dirs[i], "%s/%u", order->dir, i);
        if (n < 0 || n >= (int)sizeof r->dirs[i])
            abort();
    }
    catch_signals(r);
    return r;
}

static void round_end(struct round *r)
{
    journal_free(&r->stages[0].journal);
    line_free(&r->stages[0].line);
    states_free(&r->states);
    r->progress->done = true;
    free(r);
    fflush(stdout);
    exit(0);
}

void explore_round(const struct order *order)
{
    struct round *r = round_new(order);
    record_workload(r);
    if (order->path)
        follow(r, order->path);
    else
        explore(r, order->images);
    round_end(r);
    abort();
}

void explore_journal(const struct order *order, const char *file)
{
    struct round *r = round_new(order);
    struct saved saved;
    if (!saved_read(&saved, &r->states, file)) {
        printf("%s is no journal of this program\n", file);
        exit(2);
    }
    r->stages[0].journal = saved.journal;
    r->stages[0].line = saved.line;
    r->stages[0].config = saved.config;
    follow(r, order->path);
    round_end(r);
    abort();
}
