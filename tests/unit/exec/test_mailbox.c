/*
 * Mailboxes: order, wake-ups once per sleep, and nothing lost between many senders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "server/exec/mailbox.h"

#define SENDERS 4
#define LETTERS 20000

struct letter {
    struct mail mail; /* first */
    int sender, number;
};

static bool is_readable(const struct mailbox *box)
{
    struct pollfd fd = {box->fd, POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
}

static void mail_is_taken_in_the_order_in_which_it_was_posted(void **state)
{
    struct mailbox box;
    struct letter letters[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    struct mail *mail;
    (void)state;
    assert_int_equal(mailbox_init(&box), 0);
    assert_null(mailbox_take(&box));
    for (int i = 0; i < 3; i++) {
        mailbox_post(&box, &letters[i].mail);
    }
    mail = mailbox_take(&box);
    for (int i = 0; i < 3; i++, mail = mail->next) {
        assert_int_equal(((struct letter *)mail)->number, i);
    }
    assert_null(mail);
    assert_true(mailbox_empty(&box));
    mailbox_destroy(&box);
}

static void a_receiver_that_is_awake_is_not_signalled(void **state)
{
    struct mailbox box;
    struct letter letter = {0};
    (void)state;
    mailbox_init(&box);
    mailbox_post(&box, &letter.mail);
    assert_false(is_readable(&box));
    mailbox_destroy(&box);
}

static void a_sleeping_receiver_is_signalled_once(void **state)
{
    struct mailbox box;
    struct letter first = {0}, second = {0};
    (void)state;
    mailbox_init(&box);
    assert_true(mailbox_sleep(&box));
    mailbox_post(&box, &first.mail);
    assert_true(is_readable(&box));
    mailbox_clear(&box);
    mailbox_post(&box, &second.mail);
    assert_false(is_readable(&box));
    mailbox_destroy(&box);
}

static void mail_that_is_pushed_waits_for_the_wake(void **state)
{
    struct mailbox box;
    struct letter letter = {0};
    (void)state;
    mailbox_init(&box);
    assert_true(mailbox_sleep(&box));
    mailbox_push(&box, &letter.mail);
    assert_false(is_readable(&box));
    mailbox_wake(&box);
    assert_true(is_readable(&box));
    mailbox_destroy(&box);
}

static void who_has_mail_does_not_fall_asleep(void **state)
{
    struct mailbox box;
    struct letter letter = {0};
    (void)state;
    mailbox_init(&box);
    mailbox_push(&box, &letter.mail);
    assert_false(mailbox_sleep(&box));
    mailbox_destroy(&box);
}

struct sender {
    struct mailbox *box;
    struct letter *letters;
    int number;
};

static void *send_all(void *arg)
{
    struct sender *sender = arg;
    for (int i = 0; i < LETTERS; i++) {
        sender->letters[i].sender = sender->number;
        sender->letters[i].number = i;
        mailbox_post(sender->box, &sender->letters[i].mail);
    }
    return NULL;
}

static void a_sleeper_among_many_senders_gets_every_letter_in_each_senders_order(void **state)
{
    struct mailbox box;
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    int next[SENDERS] = {0}, total = 0;
    (void)state;
    mailbox_init(&box);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){&box, calloc(LETTERS, sizeof(struct letter)), i};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    while (total < SENDERS * LETTERS) {
        if (mailbox_sleep(&box)) {
            struct pollfd fd = {box.fd, POLLIN, 0};
            assert_int_equal(poll(&fd, 1, 60000), 1); /* a lost wake-up would hang here */
            mailbox_clear(&box);
        }
        mailbox_awake(&box);
        for (struct mail *mail = mailbox_take(&box); mail != NULL; mail = mail->next) {
            struct letter *letter = (struct letter *)mail;
            assert_int_equal(letter->number, next[letter->sender]++);
            total++;
        }
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        free(senders[i].letters);
    }
    mailbox_destroy(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mail_is_taken_in_the_order_in_which_it_was_posted),
        cmocka_unit_test(a_receiver_that_is_awake_is_not_signalled),
        cmocka_unit_test(a_sleeping_receiver_is_signalled_once),
        cmocka_unit_test(mail_that_is_pushed_waits_for_the_wake),
        cmocka_unit_test(who_has_mail_does_not_fall_asleep),
        cmocka_unit_test(a_sleeper_among_many_senders_gets_every_letter_in_each_senders_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
