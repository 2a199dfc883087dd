/* Arenas: blocks of growing size, filled from the front. */
#include "lib/arena.h"

#include <stdlib.h>
#include <string.h>

typedef struct TsArenaBlock {
  struct TsArenaBlock *next;
  _Alignas(16) char at[];
} TsArenaBlock;

enum { FIRST = 4 << 10, LARGEST = 1 << 20, ALIGN = 16 };

#ifdef __SANITIZE_ADDRESS__ /* which shall see overruns */
static bool single = true;
#else
static bool single;
#endif
void ts_arena_single(bool on) { single = on; }

static size_t aligned(size_t nbytes) { return (nbytes + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static bool add_block(TsArena *a, size_t need) {
  size_t size = a->room ? a->room * 2 : FIRST;
  if (size > LARGEST) size = LARGEST;
  if (size < need || single) size = need;
  TsArenaBlock *b = calloc(1, sizeof *b + size);
  if (!b) return false;
  b->next = a->block;
  a->block = b;
  a->used = 0;
  a->room = aligned(size);
  a->nbytes += size;
  return true;
}

void *ts_arena_alloc(TsArena *a, size_t nbytes) {
  size_t room = aligned(nbytes);
  if (room > a->room - a->used && !add_block(a, nbytes)) return NULL;
  void *p = a->block->at + a->used;
  a->used += room;
  return p;
}

void *ts_arena_copy(TsArena *a, const void *from, size_t nbytes) {
  void *p = ts_arena_alloc(a, nbytes);
  if (p && nbytes) memcpy(p, from, nbytes);
  return p;
}

char *ts_arena_text(TsArena *a, const char *s) { return ts_arena_copy(a, s, strlen(s) + 1); }

void ts_arena_free(TsArena *a) {
  for (TsArenaBlock *b = a->block, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  *a = (TsArena){0};
}
