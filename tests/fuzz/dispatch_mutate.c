/*
 * dispatch_mutate.c - see dispatch_mutate.h.
 *
 * A change is made to one line: a new one put in, one taken out, copied, moved, sent by another
 * client, or a word of it replaced. New calls follow the grammar of the differential test
 * (tests/differential/table.c), new words are its words, names of the command table, or anything.
 * One change in four is libFuzzer's own, of the bytes.
 *
 * Threads: the fuzzer's.
 */
#include "tests/fuzz/dispatch_mutate.h"

#include "server/commands/command.h"
#include "tests/differential/generate.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define KEYS_SEED    7    /* all inputs use the same few keys */
#define VALUE_BUDGET 2000 /* bytes of values in a call */
#define LINE_MAX_LEN 3000

/* A line that is being made. */
struct line {
    char text[LINE_MAX_LEN];
    size_t len;
};

/* An input, and where its lines are. */
struct lines {
    char *data;
    size_t size, max;
};

/* ---- making lines --------------------------------------------------------------------------- */

static void put_word(struct line *line, const char *word, size_t len)
{
    bool plain = len > 0;
    if (line->len + 4 * len + 4 > sizeof(line->text)) {
        return;
    }
    for (size_t i = 0; i < len; i++) {
        plain = plain && isgraph((unsigned char)word[i]) && strchr("\"'\\", word[i]) == NULL;
    }
    if (line->len > 0) {
        line->text[line->len++] = ' ';
    }
    if (plain) {
        memcpy(line->text + line->len, word, len);
        line->len += len;
        return;
    }
    line->text[line->len++] = '"';
    for (size_t i = 0; i < len; i++) {
        line->len += (size_t)sprintf(line->text + line->len, "\\x%02x", (unsigned char)word[i]);
    }
    line->text[line->len++] = '"';
}

static void put_args(struct line *line, const struct generator *gen)
{
    for (size_t i = 0; i < gen->argc; i++) {
        bool id = gen->argv[i].subst == SUBST_CLIENT_ID;
        put_word(line, id ? "1" : gen->argv[i].data, id ? 1 : gen->argv[i].len);
    }
}

static void put_name(struct generator *gen, struct line *line)
{
    size_t count;
    const struct command *table = command_table(&count);
    const struct command *row = &table[rng_below(gen, count)];
    put_word(line, row->name, strlen(row->name));
    if (row->subcommands != NULL) {
        size_t subs = 0;
        while (row->subcommands[subs].name != NULL) {
            subs++;
        }
        row = &row->subcommands[rng_below(gen, subs)];
        put_word(line, row->name, strlen(row->name));
    }
}

/* A word of some kind: of a rule's grammar, of the tokens, or of random bytes. */
static void put_any_word(struct generator *gen, struct line *line)
{
    static const char *const tokens[] = {"key", "val",     "int", "float", "index", "offset", "sec",
                                         "ms",  "pattern", "db",  "word",  "at",    "atms"};
    char bytes[16];
    size_t len;
    const char *grammar, *word;
    gen->argc = 0;
    switch (rng_below(gen, 4)) {
    case 0:
        word = tokens[rng_below(gen, sizeof(tokens) / sizeof(tokens[0]))];
        token_expand(gen, word, strlen(word));
        put_args(line, gen);
        return;
    case 1:
        len = rng_below(gen, sizeof(bytes));
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (char)rng_next(gen);
        }
        put_word(line, bytes, len);
        return;
    default:
        grammar = rule_table[rng_below(gen, rule_table_size)].grammar;
        word = grammar + rng_below(gen, strlen(grammar));
        word += strspn(word, " ");
        len = strcspn(word, " ");
        put_word(line, word, len);
    }
}

static void put_call(struct generator *gen, struct line *line)
{
    const struct rule *rule = &rule_table[rng_below(gen, rule_table_size)];
    if (rule->grammar[0] == '@') {
        put_name(gen, line);
        for (size_t n = rng_below(gen, 5); n > 0; n--) {
            put_any_word(gen, line);
        }
        return;
    }
    grammar_expand(gen, rule->grammar);
    put_args(line, gen);
}

static void make_line(struct generator *gen, struct line *line)
{
    static const char *const directives[] = {"!time 1",   "!time 50",        "!time 3000",
                                             "!reopen 0", "!time 100000000", "!reopen 1",
                                             "",          "@2 MULTI",        "MULTI"};
    static const char *const clients[] = {"@1", "@2", "@3"};
    line->len = 0;
    if (rng_percent(gen, 12)) {
        const char *text = directives[rng_below(gen, sizeof(directives) / sizeof(directives[0]))];
        line->len = (size_t)sprintf(line->text, "%s", text);
        return;
    }
    if (rng_percent(gen, 10)) {
        put_word(line, clients[rng_below(gen, 3)], 2);
    }
    put_call(gen, line);
}

/* ---- changing an input ---------------------------------------------------------------------- */

/* The beginning of a random line, which may be the end of the input. */
static size_t choose_line(struct generator *gen, const struct lines *in)
{
    size_t at = rng_below(gen, in->size + 1);
    while (at > 0 && in->data[at - 1] != '\n') {
        at--;
    }
    return at;
}

/* The length of the line at `at`, with its end. */
static size_t line_length(const struct lines *in, size_t at)
{
    const char *end = memchr(in->data + at, '\n', in->size - at);
    return end != NULL ? (size_t)(end - in->data) + 1 - at : in->size - at;
}

static void cut(struct lines *in, size_t at, size_t len)
{
    memmove(in->data + at, in->data + at + len, in->size - at - len);
    in->size -= len;
}

static void insert(struct lines *in, size_t at, const char *text, size_t len)
{
    if (in->size + len > in->max) {
        return;
    }
    memmove(in->data + at + len, in->data + at, in->size - at);
    memcpy(in->data + at, text, len);
    in->size += len;
}

static void insert_line(struct lines *in, size_t at, struct line *line)
{
    if (line->len + 2 > sizeof(line->text)) {
        return;
    }
    if (at > 0 && in->data[at - 1] != '\n') {
        insert(in, at, "\n", 1);
        at = in->size;
    }
    line->text[line->len++] = '\n';
    insert(in, at, line->text, line->len);
}

/* Takes the line at `at` into *line, if it is not too long. */
static bool copy_line(const struct lines *in, size_t at, struct line *line)
{
    size_t len = line_length(in, at);
    if (len == 0 || len > sizeof(line->text) - 2) {
        return false;
    }
    memcpy(line->text, in->data + at, len);
    line->len = line->text[len - 1] == '\n' ? len - 1 : len;
    return true;
}

static void replace_word(struct generator *gen, struct lines *in, size_t at)
{
    struct line line = {.len = 0};
    size_t len = line_length(in, at), from, to;
    if (len == 0) {
        return;
    }
    from = at + rng_below(gen, len);
    while (from > at && in->data[from - 1] != ' ') {
        from--;
    }
    to = from;
    while (to < in->size && in->data[to] != ' ' && in->data[to] != '\n') {
        to++;
    }
    put_any_word(gen, &line);
    cut(in, from, rng_percent(gen, 80) ? to - from : 0);
    insert(in, from, line.text, line.len);
}

static void change_line(struct generator *gen, struct lines *in)
{
    struct line line;
    size_t at = choose_line(gen, in);
    size_t kind = rng_below(gen, 10);
    if (kind < 4) {
        make_line(gen, &line);
        insert_line(in, at, &line);
    } else if (kind < 5) {
        cut(in, at, line_length(in, at));
    } else if (kind < 7) {
        replace_word(gen, in, at);
    } else if (kind < 8) {
        make_line(gen, &line);
        cut(in, at, line_length(in, at));
        insert_line(in, at, &line);
    } else if (copy_line(in, at, &line)) {
        if (kind == 8) {
            cut(in, at, line_length(in, at));
        }
        insert_line(in, choose_line(gen, in), &line);
    }
}

size_t mutate_lines(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    struct sequence sequence = {.clients = 1};
    struct generator gen = {.sequence = &sequence, .rng = KEYS_SEED, .budget = VALUE_BUDGET};
    struct lines in = {(char *)data, size, max};
    token_choose_keys(&gen);
    gen.rng = seed;
    if (size > 0 && rng_percent(&gen, 25)) {
        size = LLVMFuzzerMutate(data, size, max);
    } else {
        for (size_t n = 1 + rng_below(&gen, 3); n > 0; n--) {
            change_line(&gen, &in);
        }
        size = in.size;
    }
    heap_free(&sequence.heap);
    return size > 0 ? size : 1;
}
