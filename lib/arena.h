/* Memory of one lifetime: everything allocated from an arena is freed with it. */
#ifndef TS_LIB_ARENA_H
#define TS_LIB_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct TsArena {
  struct TsArenaBlock *block;
  size_t used, room; /* of the newest block */
  size_t nbytes;     /* of all blocks */
} TsArena;

/* Zeroed, aligned to 16. NULL when memory runs out. */
void *ts_arena_alloc(TsArena *a, size_t nbytes);
void *ts_arena_copy(TsArena *a, const void *from, size_t nbytes);
char *ts_arena_text(TsArena *a, const char *s);
void ts_arena_free(TsArena *a);
/* For tests: blocks hold one allocation each, so that each may be the one that fails. */
void ts_arena_single(bool on);

#endif
