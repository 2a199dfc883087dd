/* The state of one run of the interpreter of Tile IR, shared by its files. */
#ifndef TS_IR_TILE_RUN_STATE_H
#define TS_IR_TILE_RUN_STATE_H

#include <ucontext.h>

#include "ir/tile/run/run.h"

enum {
  TS_TILE_RUN_AXES = 8,     /* parallel loops around each other */
  TS_TILE_RUN_BARRIERS = 16 /* named ones */
};

/* Where the elements of a value are. Values are single-assignment and control is structured, so
 * each needs one place, which the rounds of a loop use again. */
typedef struct TsTileRunPlace {
  char *at;    /* of memory its first element; NULL: not made yet */
  bool filled; /* a constant, which stays */
  int64_t n, dim[TS_TILE_RANK], stride[TS_TILE_RANK];
} TsTileRunPlace;

/* An element of memory of space barrier. A phase is complete when all have arrived and no bytes
 * are due. */
typedef struct TsTileRunBarrier {
  int64_t arrived, bytes, parity;
} TsTileRunBarrier;

/* A copy under way: done as late as waiting allows, so that a kernel which waits too little
 * reads what was there before. */
typedef struct TsTileRunCopy {
  struct TsTileRunCopy *next;
  const TsTileStmt *stmt;
  int64_t group;
  TsTileRunBarrier *barrier;
  int64_t to[TS_TILE_RANK], from[TS_TILE_RANK];
} TsTileRunCopy;

typedef struct TsTileRunCopies {
  TsTileRunCopy *first, *last;
} TsTileRunCopies;

typedef struct TsTileRunRole {
  const TsTileStmt *stmt;
  ucontext_t context;
  char *stack;
  bool done;
  int64_t threads;
  const TsTileStmt *waits; /* at which it stands, for messages */
  int64_t waits_slot, waits_parity;
  TsTileRunCopies copies, stores;
  int64_t group, store_group; /* numbers of the groups that are open */
} TsTileRunRole;

struct TsTileRun {
  const TsTile *k;
  const int64_t *dim;
  TsError *err;
  TsTileRunAs as;
  bool failed;
  TsArena arena;
  TsTileRunPlace *place; /* by the id of the value */
  char *work;            /* of one statement */
  size_t room;
  int64_t round[TS_TILE_RUN_AXES];
  int depth;
  TsTileRunRole *now; /* who runs: a role, or `self`, which is all that is in no role */
  TsTileRunRole self, role[TS_TILE_ROLES];
  int nrole;
  ucontext_t scheduler;
  bool progress;       /* somebody went on */
  int64_t step, block; /* statements that ran; rounds of the grid that are over */
  int phases, allocs;  /* of one round: loops over grids, and scratch, that were met */
  int64_t rounds;      /* of its phase */
  struct {
    int64_t arrived, generation;
  } barrier[TS_TILE_RUN_BARRIERS];
  TsTileRunCopies engine; /* of the copy engine */
  TsTileRunCopy *spare;
  const TsTileWatch *watch; /* or NULL */
  unsigned char *decides;   /* by value, where the others are left out; or NULL */
};

/* Every row of ir/tile/tile.def. 0, or -1 with the error filled. */
typedef int TsTileRunAction(TsTileRun *r, const TsTileStmt *s);
#define TILE(name, ...) TsTileRunAction ts_tile_do_##name;
#include "ir/tile/tile.def"
#undef TILE

/* "k: load: ...", at the statement's place; -1. */
int ts_tile_run_fail(TsTileRun *r, const TsTileStmt *s, TsErrorCode code, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));

int ts_tile_run_region(TsTileRun *r, const TsTileRegion *region);

/* to[i to_step] = from[i from_step], i < n, elements of size bytes that do not overlap. */
void ts_tile_run_line(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n,
                      int64_t size);

/* The place of a value, made at its first use; NULL with the error. */
TsTileRunPlace *ts_tile_run_place(TsTileRun *r, TsTileVal v);
/* The place of memory that is another's, which begins at `at`. */
TsTileRunPlace *ts_tile_run_alias(TsTileRun *r, TsTileVal v, char *at);
/* Elements of a tile. */
void *ts_tile_run_tile(TsTileRun *r, TsTileVal v);
int64_t ts_tile_run_scalar(TsTileRun *r, TsTileVal v);
/* The first nbytes of the work space; it may move at the next call. */
void *ts_tile_run_work(TsTileRun *r, const TsTileStmt *s, int64_t nbytes);
static inline int64_t ts_tile_run_size(TsTileVal v) { return ts_dtypes[v->type.dtype].nbytes; }

/* ---- ir/tile/run/memory.c */
/* A tile in memory: its axes with the memory's strides, where each begins and how far it may
 * go. */
typedef struct TsTileRunWindow {
  int rank;
  int64_t n, dim[TS_TILE_RANK];
  int64_t first[TS_TILE_RANK], size[TS_TILE_RANK], stride[TS_TILE_RANK];
  int64_t base; /* of the axes that the tile has not */
  bool inside;  /* and whether those are inside of the memory */
  int bad;      /* an axis of the memory that the tile leaves, or -1 */
  int64_t bad_at, bad_size;
} TsTileRunWindow;

/* axes: of the memory, for each of the tile; NULL: the last ones. */
void ts_tile_run_look(TsTileRunWindow *w, const TsTileRunPlace *memory, int memory_rank,
                      const int64_t *at, int rank, const int64_t *dim, const int64_t *axes);
/* Of a load or a store, whose tile is given. -1 with the error: no memory. */
int ts_tile_run_window(TsTileRun *r, const TsTileStmt *s, TsTileVal tile, TsTileRunWindow *w);
/* n elements of the tile from `tile` on, and of memory from `base` on, `stride` apart. */
typedef void TsTileRunLine(void *with, int64_t base, int64_t tile, int64_t n, int64_t stride);
/* All of the tile that is inside of the memory. */
void ts_tile_run_lines(const TsTileRunWindow *w, TsTileRunLine *line, void *with);
/* Sizes of the tile of a copy, and how many axes. */
int ts_tile_run_copy_shape(TsTileRun *r, const TsTileStmt *s, int64_t dim[TS_TILE_RANK]);
/* Moves the tile of a copy. */
int ts_tile_run_copy(TsTileRun *r, const TsTileRunCopy *c);
/* Bytes of its tile. */
int64_t ts_tile_run_copy_bytes(TsTileRun *r, const TsTileStmt *s);

/* ---- ir/tile/run/sync.c */
/* Reads the positions of a copy, operands from `first` on: for both memories, or for the second
 * alone. */
int ts_tile_run_positions(TsTileRun *r, const TsTileStmt *s, int first, TsTileRunCopy *c);
/* The barrier of a statement, whose operands `operand` and the next are memory and slot. */
TsTileRunBarrier *ts_tile_run_slot(TsTileRun *r, const TsTileStmt *s, int operand,
                                   int64_t *slot);
/* The roles from s on, side by side, until all are done; *last is the last of them. */
int ts_tile_run_roles(TsTileRun *r, const TsTileStmt *s, const TsTileStmt **last);
/* Finishes what is under way, at the end of a block. */
int ts_tile_run_drain(TsTileRun *r);

#endif
