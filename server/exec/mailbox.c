/*
 * mailbox.c - see mailbox.h. A stack that senders push with compare-and-swap and the receiver takes
 * whole and reverses (no ABA: nothing is popped singly).
 *
 * Sleeping is Dekker's handshake: the receiver stores `sleeping`, then looks at the stack; a sender
 * pushes, then looks at `sleeping`; both sequentially consistent, so one of them sees the other.
 */
#include "server/exec/mailbox.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_init(struct mailbox *box)
{
    atomic_init(&box->head, NULL);
    atomic_init(&box->sleeping, false);
    box->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return box->fd < 0 ? -errno : 0;
}

void mailbox_destroy(struct mailbox *box)
{
    close(box->fd);
}

void mailbox_push(struct mailbox *box, struct mail *mail)
{
    struct mail *head = atomic_load_explicit(&box->head, memory_order_relaxed);
    do {
        mail->next = head;
    } while (!atomic_compare_exchange_weak(&box->head, &head, mail));
}

void mailbox_wake(struct mailbox *box)
{
    if (atomic_load(&box->sleeping) && atomic_exchange(&box->sleeping, false)) {
        uint64_t one = 1;
        ssize_t n = write(box->fd, &one, sizeof(one));
        (void)n; /* a full counter is readable: nothing is lost */
    }
}

void mailbox_post(struct mailbox *box, struct mail *mail)
{
    mailbox_push(box, mail);
    mailbox_wake(box);
}

struct mail *mailbox_take(struct mailbox *box)
{
    struct mail *mail, *list = NULL;
    if (mailbox_empty(box)) {
        return NULL;
    }
    mail = atomic_exchange_explicit(&box->head, NULL, memory_order_acquire);
    while (mail != NULL) {
        struct mail *next = mail->next;
        mail->next = list;
        list = mail;
        mail = next;
    }
    return list;
}

bool mailbox_empty(const struct mailbox *box)
{
    return atomic_load_explicit(&box->head, memory_order_relaxed) == NULL;
}

bool mailbox_sleep(struct mailbox *box)
{
    atomic_store(&box->sleeping, true);
    if (atomic_load(&box->head) != NULL) {
        atomic_store_explicit(&box->sleeping, false, memory_order_relaxed);
        return false;
    }
    return true;
}

void mailbox_awake(struct mailbox *box)
{
    atomic_store_explicit(&box->sleeping, false, memory_order_relaxed);
}

void mailbox_clear(struct mailbox *box)
{
    uint64_t count;
    ssize_t n = read(box->fd, &count, sizeof(count));
    (void)n; /* already empty is as good */
}
