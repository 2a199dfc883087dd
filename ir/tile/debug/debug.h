/* The debugger of kernels: runs the text of a kernel in the interpreter and looks at what it does.
 *
 *   TsTileDebug *d = ts_tile_debug_open(text, &err);
 *   ts_tile_debug_run(d, arg, dim, &err);
 *   for (int i = 0; i < ts_tile_debug_count(d); i++) puts(ts_tile_debug_finding(d, i)->text);
 *   ts_tile_debug_close(d);
 *
 * Findings name lines of the text. Somebody to talk to may stop the run and look at values. */
#ifndef TS_IR_TILE_DEBUG_H
#define TS_IR_TILE_DEBUG_H

#include "ir/tile/tile.h"

typedef struct TsTileDebug TsTileDebug;

/* A fault. kind is one word: race, uninitialised, bounds, overlap, deadlock, barrier, wait, swizzle,
 * fence; text: a line that says what, and lines that say where. */
typedef struct TsTileFinding {
  const char *kind;
  int line, other; /* of the text; 0: none */
  char *text;
} TsTileFinding;

/* A tile as somebody sees it: row-major. */
typedef struct TsTileSeen {
  TsDtype dtype;
  int rank;
  int64_t dim[TS_TILE_RANK];
  const void *at;
} TsTileSeen;

/* Who talks with the run; functions are called on its stacks, of a quarter of a megabyte. ask NULL:
 * nobody, and an interrupt ends the run. */
typedef struct TsTileDebugTalk {
  void *with;
  /* The next command, which lasts until the next call; NULL: no more, the run goes on. */
  const char *(*ask)(void *with);
  void (*say)(void *with, const char *text);
  void (*show)(void *with, const TsTileSeen *tile, TsText *text);
  bool (*interrupted)(void *with); /* or NULL; asked at each line */
} TsTileDebugTalk;

/* What is looked at: value `name` (NULL: what the line makes or moves) at `line` (0: the last of
 * the name) where the tile of the last result is coord[], `stage` (-1: any): the round of the
 * innermost loop around it. */
typedef struct TsTilePeek {
  const char *name;
  int line, ncoord;
  int64_t coord[TS_TILE_RANK], stage;
} TsTilePeek;

/* NULL with the error: no legal kernel. */
TsTileDebug *ts_tile_debug_open(const char *text, TsError *err);
void ts_tile_debug_close(TsTileDebug *d); /* NULL is fine */
/* What the text says. */
const TsTile *ts_tile_debug_kernel(const TsTileDebug *d);
/* Before a run. talk stops at the first statement. as: as of ts_tile_run_as. */
void ts_tile_debug_talk(TsTileDebug *d, const TsTileDebugTalk *talk);
/* Results have values when it begins, of kernels before it: reading them is no fault. */
void ts_tile_debug_results(TsTileDebug *d, bool written);
void ts_tile_debug_as(TsTileDebug *d, const TsTileRunAs *as);
/* 0: it ended, or was quit, or ended with a finding. -1 with the error. */
int ts_tile_debug_run(TsTileDebug *d, void *const *arg, const int64_t *dim, TsError *err);
int ts_tile_debug_count(const TsTileDebug *d);
const TsTileFinding *ts_tile_debug_finding(const TsTileDebug *d, int i);
/* NULL: all of the run was looked at; else behind what it was not, "4194304 accesses": what came
 * later may have faults that are no findings. */
const char *ts_tile_debug_partly(const TsTileDebug *d);
bool ts_tile_debug_quit(const TsTileDebug *d); /* by a command */
/* Runs and keeps the value where it is first so; it is d's. -1: with the error, or nothing was
 * there. */
int ts_tile_debug_peek(TsTileDebug *d, const TsTilePeek *peek, void *const *arg,
                       const int64_t *dim, TsTileSeen *seen, TsError *err);

#endif
