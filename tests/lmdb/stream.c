/*
 * stream.c - bytes into operations, and operations into words.
 *
 * Threads: one (show() has static buffers).
 */
#include "tests/lmdb/stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

const char *const op_names[OP_KINDS] = {
#define X(name, weight, uses) #name,
    OPERATIONS(X)
#undef X
};

static const struct {
    unsigned weight, uses;
} op_table[OP_KINDS] = {
#define X(name, weight, uses) {weight, uses},
    OPERATIONS(X)
#undef X
};

struct all_weights { /* as large as their sum */
#define X(name, weight, uses) char name[weight];
    OPERATIONS(X)
#undef X
};
static_assert(sizeof(struct all_weights) <= 65536, "two bytes choose an operation");

static const char *const kind_names[KEY_KINDS] = {"short", "counter", "prefix", "nested",
                                                  "edge",  "zeros",   "mixed"};

uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ---- decoding ------------------------------------------------------------------------------- */

static void decode_config(struct config *c, const uint8_t *h)
{
    static const uint32_t pages[] = {4096, 4096, 4096, 4096, 8192, 16384, 65536};
    static const uint64_t segments[] = {65536, 16384, 262144, 1048576};
    static const unsigned trees[] = {1, 2, 3, ORACLE_TREES};
    static const unsigned patience[] = {1, 1, 2, 6, 30, 200};
    static const unsigned spaces[] = {12, 80, 400, 1500, 6000};
    static const unsigned prefixes[] = {4, 30, 120, 255, 400, 480, 498};
    *c = (struct config){
        .page_size = pages[h[0] % COUNT(pages)],
        .arena = h[1],
        .level = (enum ps_durability)(h[2] % 3),
        .manual_checkpoint = h[2] / 3 % 4 == 0,
        .segment = segments[h[2] / 12 % COUNT(segments)],
        .trees = trees[h[3] % COUNT(trees)],
        .patience = patience[h[4] % COUNT(patience)],
        .space = spaces[h[5] % COUNT(spaces)],
        .prefix = prefixes[h[7] % COUNT(prefixes)],
        .whole = h[7] / COUNT(prefixes) % 2,
    };
    for (unsigned i = 0; i < ORACLE_TREES; i++)
        c->kinds[i] = (enum key_kind)(mix(h[6] + 256u * i) % KEY_KINDS);
}

static unsigned two(const uint8_t *bytes)
{
    return bytes[0] | (unsigned)bytes[1] << 8;
}

static void decode_op(struct op *op, const struct config *c, const uint8_t *b)
{
    unsigned at = two(b), kind = 0;
    while (kind < OP_KINDS && at >= op_table[kind].weight)
        at -= op_table[kind++].weight;
    *op = (struct op){
        .kind = kind < OP_KINDS ? (enum op_kind)kind : OP_get,
        .tree = (b[2] & 15u) % c->trees,
        .view = b[2] >> 4,
        .arg = b[3],
        .twist = b[4],
        .key = (uint16_t)two(b + 5),
        .other = (uint16_t)two(b + 7),
        .value = (uint16_t)two(b + 9),
    };
    if (op->kind == OP_put_read && op->arg % 4 != 0) /* mostly into the same leaf */
        op->other = (uint16_t)(op->key + op->other % 4);
}

int stream_decode(struct stream *s, const uint8_t *bytes, size_t len)
{
    uint8_t head[STREAM_HEAD] = {0};
    size_t have = len < STREAM_HEAD ? len : STREAM_HEAD;
    if (have > 0)
        memcpy(head, bytes, have);
    decode_config(&s->config, head);
    s->n = (len - have) / OP_BYTES;
    s->ops = malloc((s->n + 1) * sizeof *s->ops);
    if (!s->ops)
        return -1;
    for (size_t i = 0; i < s->n; i++)
        decode_op(&s->ops[i], &s->config, bytes + have + i * OP_BYTES);
    return 0;
}

int stream_random(struct stream *s, uint64_t seed, uint64_t round, size_t n)
{
    size_t len = STREAM_HEAD + n * OP_BYTES;
    uint8_t *bytes = malloc(len + 8);
    uint64_t state = mix(mix(seed) + round);
    if (!bytes)
        return -1;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = mix(state++);
        memcpy(bytes + i, &word, 8);
    }
    int rc = stream_decode(s, bytes, len);
    free(bytes);
    return rc;
}

void stream_free(struct stream *s)
{
    free(s->ops);
    s->ops = NULL;
    s->n = 0;
}

uint64_t arena_slots(const struct config *c, unsigned arena)
{
    static const uint64_t slots[] = {64, 96, 128, 64, 256, 1024, 4096, 512};
    return slots[arena % COUNT(slots)] * (c->page_size / 4096);
}

/* ---- words ---------------------------------------------------------------------------------- */

const char *show(struct ps_slice s)
{
    static char buffers[6][200];
    static unsigned next;
    char *out = buffers[next++ % 6], *at = out;
    const unsigned char *bytes = s.data;
    at += sprintf(at, "%zu bytes [", s.len);
    for (size_t i = 0; i < s.len; i++) {
        if (i == 16 && s.len > 32) {
            at += sprintf(at, "...");
            i = s.len - 12;
        }
        at += sprintf(at, bytes[i] > 32 && bytes[i] < 127 ? "%c" : "\\%02x", bytes[i]);
    }
    sprintf(at, "]");
    return out;
}

void op_print(const struct config *c, const struct op *op, size_t number)
{
    static unsigned char buffer[MAX_VALUE];
    unsigned uses = op_table[op->kind].uses;
    printf("  %6zu %s", number, op_names[op->kind]);
    if (uses & USES_VIEW)
        printf(" view %u", op->view);
    if (uses & USES_TREE)
        printf(" tree %u", op->tree);
    if (uses & USES_KEY)
        printf(" key %s", show(op_key(c, op, buffer)));
    if (uses & USES_OTHER)
        printf(" other %s", show(op_other(c, op, buffer)));
    if (uses & USES_VALUE)
        printf(" value %s", show(stream_value(c, op->value, op->key, buffer)));
    if (uses & USES_ARG)
        printf(" argument %u", op->arg);
    printf("\n");
}

void config_print(const struct config *c)
{
    printf(
        "  pages of %u bytes, %llu slots, level %d, %s checkpoints, segments of %llu bytes, one in "
        "%u commits%s, %u trees, %u keys each:",
        c->page_size, (unsigned long long)arena_slots(c, c->arena), c->level,
        c->manual_checkpoint ? "manual" : "own", (unsigned long long)c->segment, c->patience,
        c->whole ? ", whole transactions" : "", c->trees, c->space);
    for (unsigned i = 0; i < c->trees; i++)
        printf(" %s", kind_names[c->kinds[i]]);
    printf("\n");
}
