/*
 * Patterns: the answers are those of redis-server 7.0.15 (KEYS, one key at a time).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/keyspace/glob.h"

#define SLICE(text) ((struct ps_slice){text, sizeof(text) - 1})

static bool matches(const char *pattern, const char *text)
{
    return glob_match((struct ps_slice){pattern, strlen(pattern)},
                      (struct ps_slice){text, strlen(text)}, false);
}

static void tokens_mean_what_redis_says(void **state)
{
    (void)state;
    assert_true(matches("*", "abc"));
    assert_true(matches("a*", "abc"));
    assert_true(matches("*c", "abc"));
    assert_true(matches("a*c", "abc"));
    assert_false(matches("a*b", "abc"));
    assert_true(matches("a**c", "abc"));
    assert_true(matches("?", "a"));
    assert_false(matches("?", "ab"));
    assert_true(matches("??", "ab"));
    assert_false(matches("a?", "a"));
    assert_true(matches("", ""));
    assert_false(matches("", "a"));
    assert_false(matches("**", ""));
    assert_false(matches("?", ""));
    assert_true(matches("a*", "a"));
    assert_false(matches("a*", "b"));
    assert_true(matches("[abc]", "b"));
    assert_false(matches("[abc]", "d"));
    assert_false(matches("[^abc]", "b"));
    assert_true(matches("[^abc]", "d"));
    assert_true(matches("[a-c]", "b"));
    assert_true(matches("[c-a]", "b"));
    assert_false(matches("[a-c]", "d"));
    assert_false(matches("[a-]", "-"));
    assert_true(matches("[a-]", "_"));
    assert_true(matches("[a-]", "a"));
    assert_true(matches("[-a]", "-"));
    assert_true(matches("[-a]", "a"));
    assert_false(matches("[", "["));
    assert_false(matches("[", "a"));
    assert_true(matches("[^", "a"));
    assert_true(matches("[^]", "a"));
    assert_true(matches("[^]", "]"));
    assert_false(matches("[]", "a"));
    assert_false(matches("[]", "]"));
    assert_false(matches("[]a]", "a"));
    assert_true(matches("[a", "a"));
    assert_false(matches("[a", "b"));
    assert_false(matches("a[", "a"));
    assert_false(matches("a[", "ab"));
    assert_true(matches("[abc", "c"));
    assert_true(matches("[^a", "b"));
    assert_true(matches("[\\]]", "]"));
    assert_false(matches("[\\]]", "\\"));
    assert_false(matches("[\\a-c]", "b"));
    assert_true(matches("[\\a-c]", "-"));
    assert_true(matches("[a\\", "a"));
    assert_true(matches("[a\\", "\\"));
    assert_true(matches("[^\\]]", "x"));
    assert_false(matches("[a-\\]]", "]"));
    assert_true(matches("\\*", "*"));
    assert_false(matches("\\*", "a"));
    assert_true(matches("\\", "\\"));
    assert_true(matches("a\\", "a\\"));
    assert_true(matches("\\a", "a"));
    assert_true(matches("\\\\", "\\"));
    assert_true(matches("h[[]x", "h[x"));
    assert_true(matches("h\\[x\\]", "h[x]"));
    assert_true(matches("*[a-c]*", "xxbxx"));
    assert_false(matches("*[a-c]*", "xxdxx"));
    assert_true(matches("a*b*c", "aXbYc"));
    assert_false(matches("a*b*c", "acb"));
    assert_true(matches("*a*a*", "aa"));
    assert_false(matches("*a*a*", "a"));
    assert_true(matches("*?", "a"));
    assert_true(matches("?*", "a"));
    assert_false(matches("*??", "a"));
    assert_false(matches("[\377-\001]", "\200"));
    assert_false(matches("[\001-\377]", "\200"));
    assert_false(matches("[\001-\377]", "a"));
    assert_true(matches("k:[0-9]*", "k:7x"));
    assert_false(matches("k:[^0-9]*", "k:7x"));
}

/* Straight from the meaning of the tokens, exponential, for short texts. */
static bool slow_match(const char *p, const char *t)
{
    if (*p == '\0')
        return *t == '\0';
    if (*p == '*')
        return slow_match(p + 1, t) || (*t != '\0' && slow_match(p, t + 1));
    return *t != '\0' && (*p == '?' || *p == *t) && slow_match(p + 1, t + 1);
}

static void stars_and_question_marks_agree_with_a_plain_search(void **state)
{
    (void)state;
    static const char letters[] = "ab*?";
    size_t matched = 0;

    for (unsigned i = 0; i < 4096; i++) {
        char pattern[7] = {0};
        for (unsigned j = 0; j < 6; j++)
            pattern[j] = letters[i >> (2 * j) & 3];
        for (unsigned t = 1; t < 256; t++) { /* texts of 1 to 7 letters a and b */
            char text[9] = {0};
            unsigned bits = t, len = 0;
            for (; bits > 1; bits >>= 1)
                text[len++] = bits & 1 ? 'a' : 'b';
            if (len == 0)
                continue;
            bool expected = slow_match(pattern, text);
            matched += expected;
            assert_int_equal(matches(pattern, text), expected);
        }
    }
    assert_true(matched > 10000);
}

static void many_stars_do_not_multiply_the_work(void **state)
{
    (void)state;
    char pattern[2001], text[5001];

    for (size_t i = 0; i < 2000; i++)
        pattern[i] = i % 2 ? '*' : 'a';
    pattern[1999] = 'b';
    pattern[2000] = '\0';
    memset(text, 'a', 5000);
    text[5000] = '\0';
    assert_false(matches(pattern, text)); /* exponential matching would not come to an end */
    text[4999] = 'b';
    assert_true(matches(pattern, text));
}

static void bytes_of_any_value_are_matched(void **state)
{
    (void)state;
    assert_true(glob_match(SLICE("a?c"), SLICE("a\0c"), false));
    assert_true(glob_match(SLICE("[\0x]*"), SLICE("\0y"), false));
    assert_true(glob_match(SLICE("\xff*"), SLICE("\xff\xfe"), false));
    assert_false(glob_match(SLICE("a"), SLICE("a\0"), false));
}

static void letters_are_folded_on_request(void **state)
{
    (void)state;
    assert_true(glob_match(SLICE("MaX*"), SLICE("mAxmemory"), true));
    assert_true(glob_match(SLICE("[A-C]x"), SLICE("bX"), true));
    assert_false(glob_match(SLICE("MaX*"), SLICE("mAxmemory"), false));
}

static void expect_prefix(const char *pattern, const char *expected)
{
    char prefix[8];
    size_t n = glob_prefix((struct ps_slice){pattern, strlen(pattern)}, prefix, sizeof(prefix));

    assert_int_equal(n, strlen(expected));
    assert_memory_equal(prefix, expected, n);
}

static void the_literal_beginning_ends_at_the_first_special_byte(void **state)
{
    (void)state;
    expect_prefix("user:*", "user:");
    expect_prefix("user:?x", "user:");
    expect_prefix("ab[c]", "ab");
    expect_prefix("a\\*b*", "a*b");
    expect_prefix("a\\", "a\\");
    expect_prefix("*", "");
    expect_prefix("plain", "plain");
    expect_prefix("longer-than-eight*", "longer-t");
}

static void only_a_lone_star_is_everything(void **state)
{
    (void)state;
    assert_true(glob_is_all(SLICE("*")));
    assert_false(glob_is_all(SLICE("**")));
    assert_false(glob_is_all(SLICE("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_mean_what_redis_says),
        cmocka_unit_test(stars_and_question_marks_agree_with_a_plain_search),
        cmocka_unit_test(many_stars_do_not_multiply_the_work),
        cmocka_unit_test(bytes_of_any_value_are_matched),
        cmocka_unit_test(letters_are_folded_on_request),
        cmocka_unit_test(the_literal_beginning_ends_at_the_first_special_byte),
        cmocka_unit_test(only_a_lone_star_is_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
