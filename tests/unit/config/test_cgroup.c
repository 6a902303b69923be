/*
 * test_cgroup.c - the memory limit and the refaults, read from trees of files as kernels make them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/config/cgroup.h"
#include "tests/support/store_dir.h"

#define MIB (INT64_C(1024) * 1024)

static int setup(void **state)
{
    char *root = calloc(1, STORE_DIR_PATH);
    store_dir_make(root, "pando-cgroup");
    *state = root;
    return 0;
}

static int teardown(void **state)
{
    char command[STORE_DIR_PATH + 16];
    snprintf(command, sizeof command, "rm -rf %s", (char *)*state);
    int rc = system(command);
    free(*state);
    return rc;
}

/* Writes a file below the root, with the folders it is in. */
static void write_file(const char *root, const char *path, const char *text)
{
    char name[STORE_DIR_PATH + 256];
    snprintf(name, sizeof name, "%s/%s", root, path);
    for (char *slash = strchr(name + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(name, 0777);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void without_groups_the_limit_is_the_memory_of_the_machine(void **state)
{
    uint64_t pages = 1;
    assert_int_equal(cgroup_memory_limit(*state),
                     (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    assert_false(cgroup_refaults(*state, &pages));
}

static void version_2_the_smallest_limit_on_the_way_up_counts(void **state)
{
    write_file(*state, "proc/self/cgroup", "0::/a/b\n");
    write_file(*state, "sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal(cgroup_memory_limit(*state),
                     (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    write_file(*state, "sys/fs/cgroup/a/memory.max", "104857600\n");
    assert_int_equal(cgroup_memory_limit(*state), 100 * MIB);
    write_file(*state, "sys/fs/cgroup/a/b/memory.max", "52428800\n");
    assert_int_equal(cgroup_memory_limit(*state), 50 * MIB);
}

static void version_1_its_memory_hierarchy_is_looked_at(void **state)
{
    write_file(*state, "proc/self/cgroup",
               "9:name=systemd:/\n5:cpu,memoryless:/wrong\n4:hugetlb,memory:/a/b\n0::/wrong\n");
    write_file(*state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file(*state, "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "73400320\n");
    write_file(*state, "sys/fs/cgroup/wrong/memory.max", "1048576\n");
    assert_int_equal(cgroup_memory_limit(*state), 70 * MIB);
}

static void a_container_that_sees_its_own_group_as_the_root_is_understood(void **state)
{
    write_file(*state, "proc/self/cgroup", "4:memory:/docker/0123\n");
    write_file(*state, "sys/fs/cgroup/memory/memory.limit_in_bytes", "73400320\n");
    write_file(*state, "sys/fs/cgroup/memory/memory.stat", "cache 1\nworkingset_refault 77\n");
    assert_int_equal(cgroup_memory_limit(*state), 70 * MIB);
    uint64_t pages = 0;
    assert_true(cgroup_refaults(*state, &pages));
    assert_int_equal(pages, 77);
}

static void refaults_are_those_of_pages_of_files_in_the_own_group(void **state)
{
    write_file(*state, "proc/self/cgroup", "0::/a\n");
    write_file(*state, "sys/fs/cgroup/memory.stat", "workingset_refault_file 5\n");
    write_file(*state, "sys/fs/cgroup/a/memory.stat",
               "file 4096\nworkingset_refault_anon 3\nworkingset_refault_file 1234\n");
    uint64_t pages = 0;
    assert_true(cgroup_refaults(*state, &pages));
    assert_int_equal(pages, 1234);
    write_file(*state, "sys/fs/cgroup/a/memory.stat", "file 4096\n");
    assert_false(cgroup_refaults(*state, &pages));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_groups_the_limit_is_the_memory_of_the_machine),
        TEST(version_2_the_smallest_limit_on_the_way_up_counts),
        TEST(version_1_its_memory_hierarchy_is_looked_at),
        TEST(a_container_that_sees_its_own_group_as_the_root_is_understood),
        TEST(refaults_are_those_of_pages_of_files_in_the_own_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
