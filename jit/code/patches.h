/* Patches: what a user wrote in place of kernels, and kept. A patch is found by what the usual
 * kernel does, its sizes, the target, the processor and the number of threads, as the tuner's winners
 * are; in memory, and, if it was kept there, on disk as text.
 *
 * What comes from the disk is read and checked as any text of a kernel is; where it goes is not looked
 * at again, since code lies in the same folder, which is the user's own.
 *
 * Safe from any thread. */
#ifndef TS_JIT_PATCHES_H
#define TS_JIT_PATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/target.h"
#include "ir/tile/tile.h"

typedef struct TsPatchEntry {
  bool schedule; /* text is a choice, "rows 64 columns 128"; else a kernel of Tile IR */
  bool on_disk;
  const char *text;
  double was_usec, usec;
} TsPatchEntry;

/* The name of the usual kernel, which has these sizes, where so many threads run it. */
void ts_patches_key(const TsTile *usual, const int64_t *dim, const TsTarget *t, int threads,
                    uint8_t key[32]);
/* Whether there are patches at all: a look at one word, but for the first time. */
bool ts_patches_any(void);
/* *e is a copy whose text is for free(). */
bool ts_patches_find(const uint8_t key[32], TsPatchEntry *e);
/* Whether the disk has an entry of this name that is not whole, and so none. */
bool ts_patches_damaged(const uint8_t key[32]);
/* Instead of one that is there. what: of the kernel, for people. -1 with the error: it is not kept, or
 * for this process only since the disk does not take it. */
int ts_patches_keep(const uint8_t key[32], const TsPatchEntry *e, const char *what,
                    TsError *err);
/* Takes it back, on disk as well; whether there was one. */
bool ts_patches_drop(const uint8_t key[32]);
/* Forgets what is in memory. */
void ts_patches_forget(void);

#endif
