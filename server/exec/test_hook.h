/*
 * test_hook.h - holds a step of the server until a test lets it go (hidden directive
 * test-hook-dir).
 *
 * When the directory has named pipes NAME.arrived and NAME.go, reaching the hook NAME writes a byte
 * to NAME.arrived (waiting for the test to read it) and then reads NAME.go until the test has
 * closed it. No clock is involved. Without the pipes, or without a directory, nothing happens.
 *
 * Hooks: "pool-COMMAND" before a command runs in the reader pool, e.g. pool-keys; "step-COMMAND"
 * after its first step there; "moved-COMMAND" after its snapshot has moved to the file, or failed
 * to; "pool-piece" before a piece of a large reply is read; "walk-COMMAND" before the pool reads
 * what a unit that begins with the command needs.
 */
#ifndef PANDO_SERVER_EXEC_TEST_HOOK_H
#define PANDO_SERVER_EXEC_TEST_HOOK_H

void test_hook(const char *dir, const char *kind, const char *name);

#endif
