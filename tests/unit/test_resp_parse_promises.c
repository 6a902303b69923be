/*
 * The request parser: what resp.h promises beyond the outcome (no copies, no second look, no memory
 * for declared lengths), and random input whole against in pieces.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/resp_feed.h"

/* ---- promises of the interface -----------------------------------------------------------------
 */

static void arguments_are_slices_of_the_input(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used;
    static const char input[] = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\nGET k\r\nGET \"k\"\r\n";
    size_t len = sizeof(input) - 1;
    assert_int_equal(resp_parse(&p, &limits, input, len, &args, &req, &used), RESP_OK);
    assert_ptr_equal(args.v[0].data, input + 8);
    assert_ptr_equal(args.v[1].data, input + 17);
    assert_int_equal(used, 20);
    assert_int_equal(resp_parse(&p, &limits, input + 20, len - 20, &args, &req, &used), RESP_OK);
    assert_int_equal(req.first, 2); /* behind those of the first request, which stay */
    assert_ptr_equal(args.v[3].data, input + 24);
    assert_ptr_equal(args.v[0].data, input + 8);
    assert_int_equal(resp_parse(&p, &limits, input + 27, len - 27, &args, &req, &used), RESP_OK);
    assert_int_equal(args.v[req.first + 1].len, 1);
    assert_int_equal(used, 9);
    resp_args_free(&args);
}

static void nothing_is_allocated_from_a_declared_length(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used;
    static const char input[] = "*1048576\r\n$1\r\na\r\n$536870912\r\nabc";
    assert_int_equal(resp_parse(&p, &limits, input, sizeof(input) - 1, &args, &req, &used),
                     RESP_NEED_MORE);
    assert_int_equal(used, 0);
    assert_true(args.cap <= 64);
    resp_args_free(&args);
}

static void an_unfinished_request_costs_a_connection_forty_bytes(void **state)
{
    (void)state;
    assert_true(sizeof(struct resp_parser) <= 40);
}

/* The pages of a bulk are made unreadable: whoever looked at them would be killed. */
static void the_bytes_of_a_bulk_are_never_looked_at(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = 64 * page;
    char *map =
        mmap(NULL, page + body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    char head[64];
    size_t head_len = (size_t)snprintf(head, sizeof(head), "*2\r\n$3\r\nGET\r\n$%zu\r\n", body);
    char *buf = map + page - head_len;
    memcpy(buf, head, head_len);
    memcpy(map + page + body, "\r\n", 2);
    assert_int_equal(mprotect(map + page, body, PROT_NONE), 0);

    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used, total = head_len + body + 2;
    for (size_t len = 0; len < total; len += 511) {
        assert_int_equal(resp_parse(&p, &limits, buf, len, &args, &req, &used), RESP_NEED_MORE);
        assert_int_equal(used, 0);
        if (len >= head_len)
            assert_int_equal(resp_parser_need(&p), total);
    }
    assert_int_equal(resp_parse(&p, &limits, buf, total, &args, &req, &used), RESP_OK);
    assert_int_equal(used, total);
    assert_ptr_equal(args.v[1].data, map + page);
    assert_int_equal(args.v[1].len, body);
    resp_args_free(&args);
    munmap(map, page + body + page);
}

/* The same for a line that has no end yet, but for its first bytes. */
static void the_bytes_of_an_unfinished_line_are_looked_at_once(void **state)
{
    (void)state;
    static const char types[] = "*$P";
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (RESP_MAX_INLINE / page + 3) * page;
    struct resp_limits limits;
    resp_limits_init(&limits);
    for (const char *type = types; *type != '\0'; type++) {
        char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(map, MAP_FAILED);
        memset(map, '1', size);
        char *buf = map + page - 32;
        size_t head = *type == '$' ? 4 : 0;
        memcpy(buf, "*1\r\n", head);
        buf[head] = *type;
        struct resp_parser p = {0};
        struct resp_args args = {0};
        struct resp_request req;
        size_t used, len = 32 + page;
        for (; len <= head + RESP_MAX_INLINE; len += page) {
            assert_int_equal(resp_parse(&p, &limits, buf, len, &args, &req, &used), RESP_NEED_MORE);
            assert_int_equal(mprotect(buf + len - page, page, PROT_NONE), 0);
        }
        assert_int_equal(resp_parse(&p, &limits, buf, len, &args, &req, &used), RESP_EPROTO);
        resp_args_free(&args);
        munmap(map, size);
    }
}

static void an_error_is_final_until_the_parser_is_reset(void **state)
{
    (void)state;
    struct resp_limits limits;
    resp_limits_init(&limits);
    struct resp_parser p = {0};
    struct resp_args args = {0};
    struct resp_request req;
    size_t used;
    assert_int_equal(resp_parse(&p, &limits, "*x\r\n", 4, &args, &req, &used), RESP_EPROTO);
    assert_int_equal(resp_parse(&p, &limits, "PING\r\n", 6, &args, &req, &used), RESP_EPROTO);
    assert_int_equal(used, 0);
    resp_parser_reset(&p);
    assert_int_equal(resp_parse(&p, &limits, "PING\r\n", 6, &args, &req, &used), RESP_OK);
    resp_args_free(&args);
}

static void limits_may_change_within_a_request(void **state)
{
    (void)state;
    struct feed f;
    struct resp_limits limits;
    resp_limits_init(&limits);
    feed_init(&f, &limits);
    feed_chunk(&f, "*12\r\n$1\r\na\r\n", 12);
    f.limits.authenticated = false;
    f.limits.max_args = 2;
    for (int i = 1; i < 12; i++)
        feed_chunk(&f, "$1\r\nb\r\n", 7);
    feed_end(&f);
    assert_int_equal(f.outcome.len, 26);
    assert_memory_equal(f.outcome.at, "(a|b|b|b|b|b|b|b|b|b|b|b)~", 26);
    feed_free(&f);
}

static void a_request_of_many_arguments_grows_the_vector_as_they_arrive(void **state)
{
    (void)state;
    struct feed f;
    struct resp_limits limits;
    resp_limits_init(&limits);
    feed_init(&f, &limits);
    struct text input = {0};
    text_add(&input, "*200000\r\n", 9);
    for (int i = 0; i < 200000; i++)
        text_add(&input, "$1\r\nb\r\n", 7);
    for (size_t from = 0; from < input.len; from += 100000)
        feed_chunk(&f, input.at + from, input.len - from < 100000 ? input.len - from : 100000);
    feed_end(&f);
    assert_int_equal(f.outcome.len, 400002);
    assert_true(f.args.cap >= 200000);
    resp_args_reset(&f.args);
    assert_int_equal(f.args.cap, 0); /* a huge vector is given back */
    free(input.at);
    feed_free(&f);
}

/* ---- random input ------------------------------------------------------------------------------
 */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull >> 16;
}

static void add_random_bytes(struct text *t, uint64_t *seed, size_t n)
{
    static const char alphabet[] = "\r\n\0*$0123456789-+ \"'\\xab\xff";
    for (size_t i = 0; i < n; i++)
        text_add(t, alphabet + next_random(seed) % (sizeof(alphabet) - 1), 1);
}

static void add_random_array(struct text *t, uint64_t *seed)
{
    char line[32];
    unsigned argc = (unsigned)(next_random(seed) % 14);
    text_add(t, line, (size_t)sprintf(line, "*%u\r\n", argc));
    for (unsigned i = 0; i < argc; i++) {
        size_t len = next_random(seed) % 13;
        text_add(t, line, (size_t)sprintf(line, "$%zu\r\n", len));
        add_random_bytes(t, seed, len);
        text_add(t, "\r\n", 2);
    }
}

static void add_random_line(struct text *t, uint64_t *seed)
{
    static const char *const words[] = {
        "GET",  "k",        " ",  "  ", "\"a b\"", "'c'", "\t", "\"\\x41\"",
        "\"\"", "'it\\'s'", "\\", "\"", "\"\\n\"", " ",   " ",  "\v"};
    for (uint64_t n = next_random(seed) % 8; n > 0; n--) {
        const char *word = words[next_random(seed) % (sizeof(words) / sizeof(*words))];
        text_add(t, word, strlen(word));
    }
    text_add(t, "\r\n", 2);
}

/* A few requests, in three of four inputs with some bytes changed, removed or added. */
static void make_random_input(struct text *t, uint64_t *seed)
{
    t->len = 0;
    for (uint64_t n = 1 + next_random(seed) % 5; n > 0; n--) {
        if (next_random(seed) % 4 == 0)
            add_random_line(t, seed);
        else
            add_random_array(t, seed);
    }
    if (next_random(seed) % 4 == 0)
        return;
    for (uint64_t n = 1 + next_random(seed) % 3; n > 0; n--) {
        size_t at = next_random(seed) % t->len;
        char c = "\r\n\0*$-019\"'"[next_random(seed) % 12];
        if (next_random(seed) % 3 == 0)
            t->len = at + 1;
        t->at[at] = c;
    }
}

static void random_input_gives_the_same_outcome_however_it_is_split(void **state)
{
    (void)state;
    uint64_t seed = 20240229;
    struct text input = {0};
    unsigned requests = 0, errors = 0;
    for (int round = 0; round < 20000; round++) {
        struct resp_limits limits;
        resp_limits_init(&limits);
        limits.authenticated = round % 3 != 0;
        limits.max_request = round % 5 == 0 ? 60 : RESP_DEFAULT_MAX_REQUEST;
        make_random_input(&input, &seed);
        struct feed whole;
        feed_init(&whole, &limits);
        feed_chunk(&whole, input.at, input.len);
        feed_end(&whole);
        requests += memchr(whole.outcome.at, '(', whole.outcome.len) != NULL;
        errors += whole.ended;
        size_t cuts[64], ncuts = 0, at = 0;
        while (ncuts < 64 && (at += 1 + next_random(&seed) % 20) < input.len)
            cuts[ncuts++] = at;
        check_cuts(&limits, input.at, input.len, cuts, ncuts, whole.outcome.at, whole.outcome.len);
        check_bytes(&limits, input.at, input.len, round % 2 == 0, whole.outcome.at,
                    whole.outcome.len);
        feed_free(&whole);
    }
    assert_true(requests > 5000 && errors > 2000); /* both kinds of input were there */
    free(input.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_slices_of_the_input),
        cmocka_unit_test(nothing_is_allocated_from_a_declared_length),
        cmocka_unit_test(an_unfinished_request_costs_a_connection_forty_bytes),
        cmocka_unit_test(the_bytes_of_a_bulk_are_never_looked_at),
        cmocka_unit_test(the_bytes_of_an_unfinished_line_are_looked_at_once),
        cmocka_unit_test(an_error_is_final_until_the_parser_is_reset),
        cmocka_unit_test(limits_may_change_within_a_request),
        cmocka_unit_test(a_request_of_many_arguments_grows_the_vector_as_they_arrive),
        cmocka_unit_test(random_input_gives_the_same_outcome_however_it_is_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
