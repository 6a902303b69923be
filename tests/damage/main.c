/*
 * The damage suite: hostile files.
 *
 *   damage [--random N] [--seed N] [--shape NAME] [--every N] [--workers N] [--required N]
 *       all cases of all shapes, and N (100) random ones for each. With --every, one in so many,
 *       chosen by the seed; but always all that are about references and stale pages
 *   damage --shape NAME --case N [--seed N]
 *       one case, in this process: what a failed case prints
 *   damage --self-test
 *       checks of the engine left out, one at a time: each must be noticed
 *   damage --shape NAME --list
 *       the cases of a shape
 *
 * Cases run in worker processes that may crash or hang: the parent notices, says which case it was,
 * and goes on. Each worker has a directory of its own in memory.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/damage/cases.h"
#include "tests/damage/exercise.h"
#include "tests/damage/leave_out.h"
#include "tests/support/store_dir.h"

#define WORKERS_MOST   16u
#define CASE_SECONDS   60u                 /* a case takes milliseconds: longer is a hang */
#define MEMORY_MOST    (UINT64_C(3) << 30) /* of address space, where no sanitizer needs more */
#define FINDINGS_SHOWN 40u

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

struct options {
    uint64_t required, random, seed, every, only;
    unsigned workers, shape; /* ALL_SHAPES: all but the tiny ones */
    bool one, list, self_test;
};

/* What workers tell the parent, in shared memory. */
struct board {
    struct worker_board {
        uint64_t at; /* the case it works on */
        char dir[STORE_DIR_PATH];
        bool ended;
        char why[400];
        unsigned findings;
    } worker[WORKERS_MOST];
    _Atomic uint64_t count[DAMAGE_CLASSES][OUTCOMES];
    _Atomic uint64_t findings;
    _Atomic uint64_t first; /* finding's case */
};

struct suite {
    struct options options;
    struct shape shape;
    struct atlas atlas;
    struct damages damages;
    uint64_t total; /* cases of this shape, random ones included */
    unsigned left_out;
    struct board *board;
};

/* ---- a case -------------------------------------------------------------------------------------
 */

static const struct damage *case_of(struct suite *s, uint64_t number, struct damage *room)
{
    if (number < s->damages.list.n) {
        return &s->damages.list.at[number];
    }
    damage_random(&s->damages, s->options.seed, number, room);
    return room;
}

/* Whether recovery reads what was damaged: the log, or what the metas say of it. */
static bool touches_log(const struct damage *damage)
{
    bool log = damage->file_damage != FILE_AS_IT_IS && damage->file > 0;
    for (unsigned i = 0; i < damage->patches; i++) {
        log = log || damage->patch[i].file > 0;
    }
    return log;
}

static void run_case(struct suite *s, uint64_t number, const char *dir, struct files *copy,
                     struct verdict *verdict)
{
    struct damage room;
    const struct damage *damage = case_of(s, number, &room);
    damage_do(&s->damages, damage, copy);
    files_write(copy, dir);
    exercise(&s->shape, dir, damage->fixed, touches_log(damage), verdict);
    atomic_fetch_add(&s->board->count[damage->class][verdict->outcome], 1);
}

static bool is_chosen(struct suite *s, uint64_t number)
{
    struct damage room;
    enum damage_class class = case_of(s, number, &room)->class;
    return class == DAMAGE_REFERENCES || class == DAMAGE_STALE || class == DAMAGE_RANDOM ||
           number % s->options.every == s->options.seed % s->options.every;
}

static void say_finding(struct suite *s, uint64_t number, const char *why)
{
    struct damage room;
    const struct damage *damage = case_of(s, number, &room);
    uint64_t before = atomic_fetch_add(&s->board->findings, 1);
    if (before == 0) {
        atomic_store(&s->board->first, number);
        snprintf(s->board->worker[0].why, sizeof s->board->worker[0].why, "%s: %s: %s",
                 damage_class_names[damage->class], damage->what, why);
    }
    if (before < FINDINGS_SHOWN && !s->options.self_test) {
        printf("FAIL %s: %s%s: %s\n     again: build/tests/damage --shape %s --case %llu "
               "--seed %llu\n",
               damage_class_names[damage->class], damage->what,
               damage->fixed ? " (checksums right)" : "", why, s->shape.name,
               (unsigned long long)number, (unsigned long long)s->options.seed);
        fflush(stdout);
    }
}

/* ---- workers ------------------------------------------------------------------------------------
 */

static void work(struct suite *s, unsigned w, uint64_t from)
{
    struct files copy = {0};
    struct worker_board *board = &s->board->worker[w];
    struct rlimit limit = {MEMORY_MOST, MEMORY_MOST};
    if (!SANITIZED) {
        must(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    }
    limit = (struct rlimit){0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    leave_out(s->left_out);
    for (uint64_t i = from; i < s->total; i += s->options.workers) {
        struct verdict verdict;
        if (s->options.self_test && atomic_load(&s->board->findings) > 0) {
            break;
        }
        if (!is_chosen(s, i)) {
            continue;
        }
        board->at = i;
        alarm(CASE_SECONDS);
        run_case(s, i, board->dir, &copy, &verdict);
        if (verdict.outcome == OUTCOME_WRONG) {
            say_finding(s, i, verdict.why);
        }
    }
    board->ended = true;
}

static pid_t start(struct suite *s, unsigned w, uint64_t from)
{
    fflush(stdout);
    store_dir_make_in_memory(s->board->worker[w].dir, "pando-damage");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        work(s, w, from);
        fflush(stdout);
        _exit(0);
    }
    return pid;
}

static void say_death(struct suite *s, uint64_t number, int status)
{
    char why[120];
    struct damage room;
    if (WIFSIGNALED(status)) {
        snprintf(why, sizeof why, "%s (%s)", WTERMSIG(status) == SIGALRM ? "a hang" : "a crash",
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(why, sizeof why, "ended with status %d", WEXITSTATUS(status));
    }
    atomic_fetch_add(&s->board->count[case_of(s, number, &room)->class][OUTCOME_WRONG], 1);
    say_finding(s, number, why);
}

/* All cases of a shape, whatever becomes of the workers. */
static void run_shape(struct suite *s)
{
    pid_t pids[WORKERS_MOST] = {0};
    for (unsigned w = 0; w < s->options.workers; w++) {
        s->board->worker[w].ended = false;
        pids[w] = start(s, w, w);
    }
    for (unsigned left = s->options.workers; left > 0;) {
        int status;
        pid_t pid = wait(&status);
        must(pid > 0, "wait");
        for (unsigned w = 0; w < s->options.workers; w++) {
            struct worker_board *board = &s->board->worker[w];
            if (pids[w] != pid) {
                continue;
            }
            store_dir_remove(board->dir);
            if (board->ended) {
                left--;
                continue;
            }
            say_death(s, board->at, status);
            pids[w] = start(s, w, board->at + s->options.workers);
        }
    }
}

/* ---- the whole ----------------------------------------------------------------------------------
 */

static void make_shape(struct suite *s, unsigned i)
{
    char dir[STORE_DIR_PATH];
    store_dir_make_in_memory(dir, "pando-damage");
    shape_make(i, dir, &s->shape);
    store_dir_remove(dir);
    atlas_make(&s->atlas, &s->shape.image);
    damages_make(&s->damages, &s->shape, &s->atlas);
}

static void free_shape(struct suite *s)
{
    damages_free(&s->damages);
    atlas_free(&s->atlas);
    shape_free(&s->shape);
}

static int run_one(struct suite *s, uint64_t number)
{
    char dir[STORE_DIR_PATH];
    struct files copy = {0};
    struct verdict verdict;
    struct damage room;
    static const char *const names[OUTCOMES] = {
        "harmless", "refused", "told", "found by ps_check", "unnoticed", "cut short", "WRONG"};
    const struct damage *damage = case_of(s, number, &room);
    printf("%s: %s%s\n", damage_class_names[damage->class], damage->what,
           damage->fixed ? " (checksums right)" : "");
    fflush(stdout);
    store_dir_make_in_memory(dir, "pando-damage");
    run_case(s, number, dir, &copy, &verdict);
    printf("%s %s\n", names[verdict.outcome], verdict.why);
    files_free(&copy);
    store_dir_remove(dir);
    return verdict.outcome == OUTCOME_WRONG;
}

/* ---- with checks left out
 * ------------------------------------------------------------------------ */

static unsigned shape_number(const char *name)
{
    unsigned i = 0;
    must(name != NULL, "a shape without a name");
    while (i < ALL_SHAPES && strcmp(shape_names[i], name) != 0) {
        i++;
    }
    return i;
}

/* Whether a check's absence is noticed by a case that passes with it. */
static bool is_noticed(struct suite *s, unsigned check)
{
    s->left_out = check;
    atomic_store(&s->board->findings, 0);
    run_shape(s);
    bool noticed = atomic_load(&s->board->findings) > 0;
    uint64_t number = atomic_load(&s->board->first);
    printf("%s without %s: %s\n", noticed ? "ok  " : "FAIL", left_outs[check].name,
           noticed ? s->board->worker[0].why : "nothing was noticed");
    if (noticed) {
        bool passes = run_one(s, number) == 0;
        printf("%s   with it: damage --shape %s --case %llu --seed %llu %s\n",
               passes ? "    " : "FAIL", s->shape.name, (unsigned long long)number,
               (unsigned long long)s->options.seed, passes ? "passes" : "is a finding, too");
        noticed = passes;
    }
    return noticed;
}

static int self_test(struct suite *s)
{
    unsigned noticed = 0;
    if (s->options.every == 1) {
        s->options.every = 7;
    }
    for (unsigned check = 0; check < CHECKS; check++) {
        make_shape(s, shape_number(left_outs[check].shape));
        s->total = s->damages.list.n + s->options.random;
        noticed += is_noticed(s, check);
        free_shape(s);
    }
    printf("SUITE damage-self-test required=%u executed=%u passed=%u failed=%u skipped=0\n", CHECKS,
           CHECKS, noticed, CHECKS - noticed);
    return noticed == CHECKS ? 0 : 1;
}

static void list_cases(const struct suite *s)
{
    for (size_t i = 0; i < s->damages.list.n; i++) {
        const struct damage *d = &s->damages.list.at[i];
        printf("%zu %s: %s%s\n", i, damage_class_names[d->class], d->what,
               d->fixed ? " (checksums right)" : "");
    }
}

static bool summary(const struct suite *s, uint64_t required)
{
    uint64_t all = 0, failed = 0;
    for (unsigned c = 0; c < DAMAGE_CLASSES; c++) {
        uint64_t n = 0, of[OUTCOMES];
        for (unsigned o = 0; o < OUTCOMES; o++) {
            n += of[o] = atomic_load(&s->board->count[c][o]);
        }
        printf("NOTE %-12s %6llu cases: refused %llu, told %llu, found by ps_check %llu, "
               "earlier state %llu, harmless %llu, unnoticed %llu, WRONG %llu\n",
               damage_class_names[c], (unsigned long long)n,
               (unsigned long long)of[OUTCOME_REFUSED], (unsigned long long)of[OUTCOME_TOLD],
               (unsigned long long)of[OUTCOME_FOUND], (unsigned long long)of[OUTCOME_CUT],
               (unsigned long long)of[OUTCOME_HARMLESS], (unsigned long long)of[OUTCOME_UNNOTICED],
               (unsigned long long)of[OUTCOME_WRONG]);
        if (n == 0 && s->options.shape == ALL_SHAPES) {
            printf("FAIL no case of class %s was run\n", damage_class_names[c]);
            failed++;
        }
        all += n;
        failed += of[OUTCOME_WRONG];
    }
    printf("SUITE damage required=%llu executed=%llu passed=%llu failed=%llu skipped=0\n",
           (unsigned long long)required, (unsigned long long)all,
           (unsigned long long)(all - (failed < all ? failed : all)), (unsigned long long)failed);
    return failed == 0 && all >= required;
}

static void usage(const char *what)
{
    fprintf(stderr, "damage: %s; see the head of tests/damage/main.c\n", what);
    exit(2);
}

static struct options read_options(int argc, char **argv)
{
    static const struct option table[] = {{"required", 1, NULL, 'q'}, {"random", 1, NULL, 'n'},
                                          {"seed", 1, NULL, 's'},     {"shape", 1, NULL, 'h'},
                                          {"case", 1, NULL, 'c'},     {"every", 1, NULL, 'e'},
                                          {"list", 0, NULL, 'l'},     {"self-test", 0, NULL, 't'},
                                          {"workers", 1, NULL, 'w'},  {0}};
    struct options o = {.seed = 1, .shape = ALL_SHAPES, .every = 1, .workers = 2, .random = 100};
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        uint64_t v = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
        switch (c) {
        case 'q':
            o.required = v;
            break;
        case 'n':
            o.random = v;
            break;
        case 's':
            o.seed = v;
            break;
        case 'c':
            o.one = true;
            o.only = v;
            break;
        case 'e':
            o.every = v;
            break;
        case 't':
            o.self_test = true;
            break;
        case 'l':
            o.list = true;
            break;
        case 'w':
            o.workers = (unsigned)v;
            break;
        case 'h':
            o.shape = shape_number(optarg);
            if (o.shape == ALL_SHAPES) {
                usage("no such shape");
            }
            break;
        default:
            usage("unknown option");
        }
    }
    if (o.every == 0 || o.workers == 0 || o.workers > WORKERS_MOST) {
        usage("a number outside its range");
    }
    if ((o.one || o.list) && o.shape == ALL_SHAPES) {
        usage("which shape?");
    }
    return o;
}

int main(int argc, char **argv)
{
    static struct suite s;
    s.options = read_options(argc, argv);
    s.board =
        mmap(NULL, sizeof *s.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(s.board != MAP_FAILED, "memory");
    s.left_out = CHECKS;
    if (s.options.self_test) {
        return self_test(&s);
    }
    bool all = s.options.shape == ALL_SHAPES;
    for (unsigned i = all ? 0 : s.options.shape; i < (all ? SHAPES : s.options.shape + 1); i++) {
        make_shape(&s, i);
        if (s.options.one || s.options.list) {
            int rc = 0;
            if (s.options.list) {
                list_cases(&s);
            } else {
                rc = run_one(&s, s.options.only);
            }
            free_shape(&s);
            return rc;
        }
        s.total = s.damages.list.n + s.options.random;
        printf("%s: %zu cases, %llu with random bytes\n", s.shape.name, s.damages.list.n,
               (unsigned long long)s.options.random);
        run_shape(&s);
        free_shape(&s);
    }
    return summary(&s, s.options.required) ? 0 : 1;
}
