/*
 * poison.h - memory that nobody may look at, in builds that watch for it.
 *
 * Freed slots of the arena and freed pages of the file are poisoned, given out again they are not.
 * Poisoning overwrites them, by code that a thread sanitizer sees: whoever reads them later, or has
 * read them without a reason why that was earlier, is a race that it reports. An address sanitizer
 * is told besides, and reports a read of them at once. In other builds this is nothing.
 *
 * PS_IMAGE_ANONYMOUS (make SAN=..., or IMAGE=anonymous) turns it on, together with image.h.
 */
#ifndef PANDO_STORAGE_POISON_H
#define PANDO_STORAGE_POISON_H

#include <stddef.h>
#include <string.h>

#ifdef PS_IMAGE_ANONYMOUS
#define POISON_FREED 1
#else
#define POISON_FREED 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define POISON_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_ADDRESSES 1
#endif
#endif

#ifdef POISON_ADDRESSES
#include <sanitizer/asan_interface.h>
#define poison_addresses(at, len)   __asan_poison_memory_region((at), (len))
#define unpoison_addresses(at, len) __asan_unpoison_memory_region((at), (len))
#else
#define poison_addresses(at, len)   ((void)(at), (void)(len))
#define unpoison_addresses(at, len) ((void)(at), (void)(len))
#endif

#define POISON_BYTE 0xdb

/* Freed. */
static inline void poison(void *at, size_t len)
{
    if (POISON_FREED) {
        memset(at, POISON_BYTE, len);
        poison_addresses(at, len);
    }
}

/* Never used so far: not touched, so that it costs no memory. */
static inline void poison_untouched(void *at, size_t len)
{
    if (POISON_FREED) {
        poison_addresses(at, len);
    }
}

/* Given out, or about to be unmapped. */
static inline void unpoison(void *at, size_t len)
{
    if (POISON_FREED) {
        unpoison_addresses(at, len);
    }
}

#endif
