/*
 * mailbox.h - a lock-free queue with many senders and one receiver, and its wake-up.
 *
 * Invariants
 *  1. What one sender posts is received in the order in which it was posted.
 *  2. The receiver is woken (eventfd) only if it declared that it sleeps, and once per sleep:
 * wake-ups are per batch, not per message.
 *
 * Threads: mailbox_push, _wake and _post by any; the rest by the receiver.
 */
#ifndef PANDO_SERVER_EXEC_MAILBOX_H
#define PANDO_SERVER_EXEC_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>

/* Embedded in what is sent; `kind` is for the receiver to tell messages apart. */
struct mail {
    struct mail *next;
    int kind;
};

struct mailbox {
    _Alignas(64) _Atomic(struct mail *) head; /* newest first */
    _Atomic bool sleeping;
    int fd; /* eventfd, readable after a wake-up */
};

/* 0 or a negative errno. */
int mailbox_init(struct mailbox *box);
void mailbox_destroy(struct mailbox *box);

/* mailbox_push() leaves the mail, mailbox_wake() wakes the receiver if it sleeps: for many at once,
 * push all and wake then. mailbox_post() does both. */
void mailbox_push(struct mailbox *box, struct mail *mail);
void mailbox_wake(struct mailbox *box);
void mailbox_post(struct mailbox *box, struct mail *mail);

/* All that has arrived, oldest first, linked by `next`; NULL: nothing. */
struct mail *mailbox_take(struct mailbox *box);
bool mailbox_empty(const struct mailbox *box);

/* Declares that the receiver is about to wait for fd. false: mail has arrived, do not wait. */
bool mailbox_sleep(struct mailbox *box);
/* Ends the declaration, whether or not there was a wake-up. */
void mailbox_awake(struct mailbox *box);
/* Empties the eventfd after it became readable. */
void mailbox_clear(struct mailbox *box);

#endif
