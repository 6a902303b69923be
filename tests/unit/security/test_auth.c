/*
 * Passwords: who gets in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "server/security/auth.h"

static struct ps_slice word(const char *text)
{
    return (struct ps_slice){text, strlen(text)};
}

static struct config *with_password(const char *password)
{
    struct config *config = config_new();
    struct config_change change = {"requirepass", password};
    char reason[CONFIG_REASON];
    size_t bad;
    assert_int_equal(config_set(config, &change, 1, &bad, reason), 0);
    return config;
}

static void without_a_password_the_default_user_gets_in_with_any(void **state)
{
    struct config *config = config_new();
    (void)state;
    assert_false(auth_required(config));
    assert_true(auth_check(config, word("default"), word("anything")));
    assert_false(auth_check(config, word("nobody"), word("anything")));
    config_free(config);
}

static void with_a_password_only_exactly_that_one_is_right(void **state)
{
    static const char *const wrong[] = {"", "s", "sesam", "sesamee", "sesamesesame", "Sesame"};
    struct config *config = with_password("sesame");
    (void)state;
    assert_true(auth_required(config));
    assert_true(auth_check(config, word("default"), word("sesame")));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(auth_check(config, word("default"), word(wrong[i])));
    }
    assert_false(auth_check(config, word("default"), (struct ps_slice){"sesame\0", 7}));
    assert_false(auth_check(config, word("DEFAULT"), word("sesame")));
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_password_the_default_user_gets_in_with_any),
        cmocka_unit_test(with_a_password_only_exactly_that_one_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
