/*
 * What a service manager is told, read from a notify socket of this test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct manager {
    int fd;
    char text[512];
};

static int make_manager(void **state)
{
    struct manager *manager = calloc(1, sizeof(*manager));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(address);
    char name[sizeof(address.sun_path) + 1] = "";
    assert_non_null(manager);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* without a name: the kernel finds a free one, which belongs to no folder */
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    assert_int_equal(getsockname(manager->fd, (struct sockaddr *)&address, &len), 0);
    memcpy(name, address.sun_path, len - offsetof(struct sockaddr_un, sun_path));
    name[0] = '@';
    setenv("NOTIFY_SOCKET", name, 1);
    *state = manager;
    return 0;
}

static int free_manager(void **state)
{
    struct manager *manager = *state;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(manager->fd);
    free(manager);
    return 0;
}

/* The next message, waiting for it; "" if `flags` say not to wait and there is none. */
static const char *told(struct manager *manager, int flags)
{
    ssize_t n = recv(manager->fd, manager->text, sizeof(manager->text) - 1, flags);
    manager->text[n > 0 ? n : 0] = '\0';
    return manager->text;
}

static void a_start_and_a_stop_are_told_in_order_each_asking_for_time_at_once(void **state)
{
    struct manager *manager = *state;
    struct service *service = service_new();
    service_starting(service, "opening");
    assert_string_equal(told(manager, 0), "STATUS=opening");
    assert_string_equal(told(manager, 0), "EXTEND_TIMEOUT_USEC=30000000");
    service_ready(service, "serving");
    assert_string_equal(told(manager, 0), "READY=1\nSTATUS=serving");
    service_stopping(service, "closing");
    assert_string_equal(told(manager, 0), "STOPPING=1\nSTATUS=closing");
    assert_string_equal(told(manager, 0), "EXTEND_TIMEOUT_USEC=30000000");
    service_free(service);
    assert_string_equal(told(manager, MSG_DONTWAIT), "");
}

static void more_time_is_asked_for_only_if_the_process_has_worked(void **state)
{
    struct manager *manager = *state;
    struct service *service = service_new();
    service_beat(service, 70000);
    assert_string_equal(told(manager, MSG_DONTWAIT), "EXTEND_TIMEOUT_USEC=30000000");
    service_beat(service, 70900);
    assert_string_equal(told(manager, MSG_DONTWAIT), "");
    service_beat(service, 71100);
    assert_string_equal(told(manager, MSG_DONTWAIT), "EXTEND_TIMEOUT_USEC=30000000");
    service_free(service);
}

static void the_watchdog_is_fed_only_if_the_manager_has_one(void **state)
{
    struct manager *manager = *state;
    struct service *service = service_new();
    service_alive(service);
    assert_string_equal(told(manager, MSG_DONTWAIT), "");
    service_free(service);

    setenv("WATCHDOG_USEC", "60000000", 1);
    service = service_new();
    service_alive(service);
    assert_string_equal(told(manager, MSG_DONTWAIT), "WATCHDOG=1");
    service_free(service);
}

static void without_a_manager_nothing_is_said(void **state)
{
    struct manager *manager = *state;
    unsetenv("NOTIFY_SOCKET");
    struct service *service = service_new();
    service_starting(service, "opening");
    service_ready(service, "serving");
    service_alive(service);
    service_stopping(service, "closing");
    service_free(service);
    service_free(NULL);
    assert_string_equal(told(manager, MSG_DONTWAIT), "");
}

#define MANAGED(test) cmocka_unit_test_setup_teardown(test, make_manager, free_manager)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MANAGED(a_start_and_a_stop_are_told_in_order_each_asking_for_time_at_once),
        MANAGED(more_time_is_asked_for_only_if_the_process_has_worked),
        MANAGED(the_watchdog_is_fed_only_if_the_manager_has_one),
        MANAGED(without_a_manager_nothing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
