/*
 * values.c - puts in trees that have options: compressed, and by merging.
 *
 * The operator is the test's own, and takes the operand: so a merge leaves what a put would. It is
 * registered once the store is open, which has replayed its log without it.
 */
#include <string.h>

#include "tests/powerloss/work_internal.h"

static int take_operand(void *arg, const struct ps_slice *old, struct ps_slice operand,
                        struct ps_merged *result)
{
    (void)arg;
    (void)old;
    void *room = ps_merged_room(result, operand.len);
    if (!room)
        return PS_NOMEM;
    memcpy(room, operand.data, operand.len);
    return 0;
}

void values_register(struct work *w)
{
    int rc = ps_merge_register(w->store, STATE_OPERATOR, take_operand, NULL);
    if (rc)
        work_error(w, rc, "ps_merge_register");
}

static int set_options(struct work *w, struct ps_txn *txn, struct state *s, unsigned tree)
{
    uint32_t options = (uint32_t)rng_below(&w->rng, STATE_OPTIONS);
    int rc = ps_tree_set(txn, w->ids[tree], state_options(options));
    if (rc == 0) {
        s->options[tree] = options;
        w->tally->options_set++;
    }
    return rc;
}

int values_put(struct work *w, struct ps_txn *txn, struct state *s, unsigned tree,
               struct ps_slice key, struct value *value)
{
    int rc = rng_one_in(&w->rng, 6) ? set_options(w, txn, s, tree) : 0;
    if (rc || s->options[tree] == 0 || rng_one_in(&w->rng, 2))
        return rc ? rc : ps_put(txn, w->ids[tree], key, state_value(value, w->value));
    struct value first = *value;
    first.tag ^= 2; /* another one before, which must not be found */
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        rc = ps_merge(txn, w->ids[tree], key, state_value(i == 0 ? &first : value, w->value));
        w->tally->merges += rc == 0;
    }
    return rc;
}
