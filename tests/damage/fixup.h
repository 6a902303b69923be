/*
 * fixup.h - making checksums right again in a damaged image.
 *
 * What was written there is then vouched for by every checksum: of pages, of runs and their pieces,
 * of metas, of log headers, and of the chain of log records. Only checks of structure are left to
 * notice it.
 */
#ifndef PANDO_TESTS_DAMAGE_FIXUP_H
#define PANDO_TESTS_DAMAGE_FIXUP_H

#include "tests/damage/atlas.h"

/* `damaged` is a changed copy of the atlas's image. */
void fixup_all(const struct atlas *atlas, struct files *damaged);

#endif
