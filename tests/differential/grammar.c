/*
 * Expands the argument grammar of a command rule into one random command.
 *
 *     WORD         sent as it is, now and then in another case
 *     <token>      an argument made by token.c
 *     [ ... ]      there or not
 *     ( a | b )    one of the alternatives
 *     { ... }      one to four times
 *
 * Invariant: brackets of a grammar match and names exist; the tables are constant, so a mistake is
 * asserted, by the first sequences of any run.
 */
#include "tests/differential/generate.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* One pass over a grammar. */
struct walk {
    struct generator *gen;
    const char *at;
};

static void expand_list(struct walk *walk, bool emit);

static void skip_spaces(struct walk *walk)
{
    while (*walk->at == ' ')
        walk->at++;
}

static void close_bracket(struct walk *walk, char bracket)
{
    assert(*walk->at == bracket);
    walk->at++;
}

static void emit_word(struct generator *gen, const char *word, size_t len)
{
    char *copy = heap_copy(&gen->sequence->heap, word, len);
    if (rng_percent(gen, 8)) {
        bool all = rng_percent(gen, 50);
        for (size_t i = 0; i < len; i++)
            if (all || rng_percent(gen, 50))
                copy[i] = (char)tolower((unsigned char)copy[i]);
    }
    gen_arg(gen, copy, len);
}

/* Counts the alternatives of a group whose content starts at walk->at. */
static size_t count_alternatives(const char *at)
{
    size_t count = 1;
    for (int depth = 0; depth >= 0; at++) {
        assert(*at != '\0');
        if (strchr("([{", *at) != NULL)
            depth++;
        else if (strchr(")]}", *at) != NULL)
            depth--;
        else if (*at == '|' && depth == 0)
            count++;
    }
    return count;
}

static void expand_alternatives(struct walk *walk, bool emit)
{
    size_t count = count_alternatives(walk->at);
    size_t chosen = emit ? rng_below(walk->gen, count) : count;
    for (size_t i = 0; i < count; i++) {
        expand_list(walk, i == chosen);
        if (i + 1 < count)
            close_bracket(walk, '|');
    }
    close_bracket(walk, ')');
}

static void expand_repeated(struct walk *walk, bool emit)
{
    const char *start = walk->at;
    size_t times = emit ? 1 + rng_below(walk->gen, 4) : 1;
    for (size_t i = 0; i < times; i++) {
        walk->at = start;
        expand_list(walk, emit);
    }
    close_bracket(walk, '}');
}

static void expand_list(struct walk *walk, bool emit)
{
    for (skip_spaces(walk); *walk->at != '\0' && strchr("|)]}", *walk->at) == NULL;
         skip_spaces(walk)) {
        const char *start = walk->at;
        if (*start == '[') {
            walk->at++;
            expand_list(walk, emit && rng_percent(walk->gen, 50));
            close_bracket(walk, ']');
        } else if (*start == '(') {
            walk->at++;
            expand_alternatives(walk, emit);
        } else if (*start == '{') {
            walk->at++;
            expand_repeated(walk, emit);
        } else {
            size_t len = strcspn(start, " ");
            walk->at += len;
            if (emit && *start == '<' && start[len - 1] == '>')
                token_expand(walk->gen, start + 1, len - 2);
            else if (emit)
                emit_word(walk->gen, start, len);
        }
    }
}

void grammar_expand(struct generator *gen, const char *grammar)
{
    struct walk walk = {.gen = gen, .at = grammar};
    gen->argc = 0;
    gen->has_expiry = gen->has_past = false;
    expand_list(&walk, true);
    assert(*walk.at == '\0');
}
