/*
 * test_log_ops.c - operations come out of a commit's payload however it is cut into pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "storage/log_ops.h"

/* put 3 "key" "value", delete 300 "", savepoint, rollback 0, create 7 "name", clear 1 "",
 * delete range 2 "from" "to" */
static const uint8_t payload[] = {1,    3, 3, 'k', 'e', 'y', 5,   'v', 'a', 'l', 'u', 'e', 2,
                                  0xac, 2, 0, 6,   7,   0,   3,   7,   4,   'n', 'a', 'm', 'e',
                                  5,    1, 0, 9,   2,   4,   'f', 'r', 'o', 'm', 2,   't', 'o'};

struct taken {
    unsigned n;
    struct replay_op ops[8];
    char bytes[64];
};

static int take(void *arg, const struct replay_op *op)
{
    struct taken *taken = arg;
    assert_true(taken->n < 8);
    taken->ops[taken->n++] = *op;
    strncat(taken->bytes, op->key.data == NULL ? "" : (const char *)op->key.data, op->key.len);
    strncat(taken->bytes, op->value.data == NULL ? "" : (const char *)op->value.data,
            op->value.len);
    return 0;
}

static void assert_all(const struct taken *taken)
{
    static const uint8_t ops[] = {OP_PUT,    OP_DELETE, OP_SAVEPOINT,   OP_ROLLBACK,
                                  OP_CREATE, OP_CLEAR,  OP_DELETE_RANGE};
    assert_int_equal(taken->n, sizeof ops);
    for (unsigned i = 0; i < sizeof ops; i++) {
        assert_int_equal(taken->ops[i].op, ops[i]);
    }
    assert_int_equal(taken->ops[0].tree, 3);
    assert_int_equal(taken->ops[1].tree, 300);
    assert_string_equal(taken->bytes, "keyvaluenamefromto");
}

static void operations_are_taken_from_one_piece(void **state)
{
    struct log_op_reader reader = {0};
    struct taken taken = {0};
    (void)state;
    assert_int_equal(log_ops_read(&reader, payload, sizeof payload, true, take, &taken), 0);
    assert_all(&taken);
    log_ops_free(&reader);
}

static void operations_are_taken_however_the_pieces_are_cut(void **state)
{
    (void)state;
    for (size_t a = 0; a <= sizeof payload; a++) {
        for (size_t b = a; b <= sizeof payload; b++) {
            struct log_op_reader reader = {0};
            struct taken taken = {0};
            assert_int_equal(log_ops_read(&reader, payload, a, false, take, &taken), 0);
            assert_int_equal(log_ops_read(&reader, payload + a, b - a, false, take, &taken), 0);
            assert_int_equal(
                log_ops_read(&reader, payload + b, sizeof payload - b, true, take, &taken), 0);
            assert_all(&taken);
            log_ops_free(&reader);
        }
    }
}

static void a_commit_that_ends_within_an_operation_is_damage(void **state)
{
    (void)state;
    static const size_t whole[] = {0, 12, 16, 17, 19, 26, 29, 39};
    for (size_t n = 0, k = 0; n <= sizeof payload; n++) {
        struct log_op_reader reader = {0};
        struct taken taken = {0};
        bool is_whole = n == whole[k];
        k += is_whole;
        int rc = log_ops_read(&reader, payload, n, true, take, &taken);
        assert_int_equal(rc, is_whole ? 0 : PS_CORRUPT);
        log_ops_free(&reader);
    }
}

static void impossible_operations_are_damage(void **state)
{
    static const uint8_t none[] = {0, 0, 0}, beyond[] = {12, 0, 0},
                         plain[] = {10, 0, 1, 'k', 6, 4, 1, 0, 0, 0, 0},
                         tree[] = {2, 0xff, 0xff, 0xff, 0};
    static const uint8_t endless[] = {2,    0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t huge[] = {2, 0, 0xff, 0xff, 0xff, 0xff, 0x7f};
    const struct {
        const uint8_t *at;
        size_t len;
    } cases[] = {{none, sizeof none},   {beyond, sizeof beyond},
                 {plain, sizeof plain}, /* a value that is said to be compressed */
                 {tree, sizeof tree},   {endless, sizeof endless},
                 {huge, sizeof huge}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct log_op_reader reader = {0};
        struct taken taken = {0};
        int rc = log_ops_read(&reader, cases[i].at, cases[i].len, false, take, &taken);
        assert_int_equal(rc, PS_CORRUPT);
        log_ops_free(&reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_taken_from_one_piece),
        cmocka_unit_test(operations_are_taken_however_the_pieces_are_cut),
        cmocka_unit_test(a_commit_that_ends_within_an_operation_is_damage),
        cmocka_unit_test(impossible_operations_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
