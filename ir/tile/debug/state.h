/* What the files of the kernel debugger share.
 *
 * Who runs: the roles of a block, and what is in no role. Each has a clock of its own accesses, and
 * knows of the clocks of others what barriers told it (happens before). Beside the clock of a
 * role's own accesses there are those of what goes on without it: its groups of copies, of bulk
 * stores and of products, and the phases of barriers, which count copies of the copy engine. An
 * access happened before another one if who makes that knows of its clock.
 *
 * Threads of a role execute the same statements, so a role has one clock; its own accesses are
 * ordered where one thread makes both, or all threads met between them (`met`, of four warps;
 * what the role knows of its own clock, of all). */
#ifndef TS_IR_TILE_DEBUG_STATE_H
#define TS_IR_TILE_DEBUG_STATE_H

#include "ir/tile/debug/debug.h"
#include "ir/tile/run/state.h"

enum {
  TS_DEBUG_SELF = TS_TILE_ROLES, /* what is in no role */
  TS_DEBUG_AGENTS,
  /* clocks: of accesses, of groups under way, of what fences told the copy engine */
  TS_DEBUG_COPIES = TS_DEBUG_AGENTS,
  TS_DEBUG_STORES = 2 * TS_DEBUG_AGENTS, /* have read */
  TS_DEBUG_PRODUCTS = 3 * TS_DEBUG_AGENTS,
  TS_DEBUG_FENCED = 4 * TS_DEBUG_AGENTS,
  TS_DEBUG_WRITES = 5 * TS_DEBUG_AGENTS, /* of bulk stores */
  TS_DEBUG_SLOTS = 6 * TS_DEBUG_AGENTS,
  TS_DEBUG_CLOCKS = 160,
  TS_DEBUG_MOST_FINDINGS = 64,
  TS_DEBUG_LOOPS = 4, /* that an event remembers */
  TS_DEBUG_READERS = 3,
  TS_DEBUG_ISSUED = 8,
  TS_DEBUG_SUSPICIONS = 255
};

typedef struct TsDebugClock {
  uint32_t of[TS_DEBUG_CLOCKS];
} TsDebugClock;

/* What an agent awaited last at a slot. */
typedef struct TsDebugAwaited {
  const TsTileStmt *stmt;
  uint32_t phases; /* that were complete */
  int parity;
  bool waited; /* it was not complete before */
} TsDebugAwaited;

typedef struct TsDebugAgent {
  const TsTileStmt *role; /* NULL: in no role */
  const char *name;
  const char *unit; /* "wgmma", "fma", .., or NULL */
  int warps, rows;  /* of its tiles, 0: not known */
  bool single;      /* one thread does it all */
  bool lanes;
  uint32_t now, met, fenced;
  uint32_t copies, stores, products, writes; /* groups that were closed */
  uint32_t copies_done, stores_done, writes_done;
  const TsTileStmt *stored; /* the last bulk store, and its group */
  uint32_t stored_group;
  uint32_t copies_met;              /* of copies_done, when four warps met */
  uint32_t issued[TS_DEBUG_ISSUED]; /* its clock when a group of products was closed */
  TsDebugClock known;
  TsDebugAwaited awaited[TS_DEBUG_CLOCKS - TS_DEBUG_SLOTS];
} TsDebugAgent;

/* A barrier of a row of them. */
typedef struct TsDebugSlot {
  TsTileVal barrier;
  int64_t index, arrivals, expected, copied; /* of bytes, in all phases */
  uint32_t closed;                           /* phases with all their arrivals */
  TsDebugClock told, done[2];
  const TsTileStmt *arrive; /* the last one */
} TsDebugSlot;

/* An access of a statement: all elements of its window. */
typedef struct TsDebugEvent {
  const TsTileStmt *stmt;
  TsTileVal memory;
  uint32_t block, clock;
  uint32_t origin;       /* of what is written and unwritten: the event that read it; or 0 */
  uint8_t agent, counts; /* whose; the clock that it is of */
  uint8_t suspect;       /* of what is written; 0: nothing */
  bool engine;           /* by the copy engine or the matrix unit, behind a proxy */
  bool adds;
  int32_t at[TS_TILE_RANK];
  int64_t round[TS_DEBUG_LOOPS]; /* of the loops around it, innermost first */
} TsDebugEvent;

enum {
  TS_DEBUG_DEFINED = 1,       /* the event of what is written when a kernel begins */
  TS_DEBUG_SUSPECT = 1u << 31 /* of a write: of suspicious values */
};

/* By element: events by number. write 0: nobody wrote it. */
typedef struct TsDebugCell {
  uint32_t write, read[TS_DEBUG_READERS];
} TsDebugCell;

typedef struct TsDebugMemory {
  TsTileVal root;
  int64_t n, below; /* elements, and of those before the first one */
  TsDebugCell *cell;
} TsDebugMemory;

/* A number of the device that orders blocks. */
typedef struct TsDebugSignal {
  const void *at;
  TsDebugClock **told; /* by block */
  uint32_t room;
} TsDebugSignal;

/* Where a result's tile was stored: the block, and rounds of the loops around. */
typedef struct TsDebugTile {
  const TsTileStmt *store;
  int64_t coord[TS_TILE_RANK];
  uint32_t block;
  int nround;
  int64_t round[TS_DEBUG_LOOPS]; /* outermost first */
} TsDebugTile;

typedef struct TsDebugTalking TsDebugTalking;

struct TsTileDebug {
  TsTile *text; /* as it was read */
  TsTile *k;    /* its primitive rows, which run */
  char **line;  /* of the text, from 1 */
  int nline;
  TsTileRunAs as;
  TsTileRun *run; /* the one at hand */
  const int64_t *dim;
  void *const *arg;

  TsDebugAgent agent[TS_DEBUG_AGENTS];
  TsDebugSlot slot[TS_DEBUG_CLOCKS - TS_DEBUG_SLOTS];
  int nslot;
  struct {
    TsDebugClock told, done;
    int64_t arrived;
  } met[TS_TILE_RUN_BARRIERS];
  uint32_t block, first_block; /* number of the round; of the phase's first one */
  TsDebugClock **others;       /* by block: what this one knows of it, or NULL */
  uint32_t room_others;
  int64_t *at_round; /* by the id of a loop's first parameter */
  uint32_t *due;     /* by id of a value: the group of products that makes it, or 0 */
  uint8_t *feeds;    /* by id of a load's value: read by its product, see order.c */
  uint8_t **mask;    /* by id: suspicions by element, from 1; NULL: none. See suspect.c */

  TsDebugEvent *event;
  uint32_t nevent, room_event;
  TsDebugMemory *memory; /* by the id of the root */
  TsDebugSignal *signal;
  int nsignal;

  struct {
    const char *kind;
    const TsTileStmt *stmt, *other;
    TsText text;
    bool told;
  } suspicion[TS_DEBUG_SUSPICIONS];
  int nsuspicion; /* and one, as numbers begin with 1 */
  TsTileFinding finding[TS_DEBUG_MOST_FINDINGS];
  int nfinding;
  bool quit, out_of_memory, over; /* over: the run was ended on purpose */
  const char *partly;             /* what there was too much of to look at all, or NULL */
  bool tiles_known;               /* find_tiles was called, whatever came of it */
  bool silent;                    /* nothing is checked: it looks for tiles */
  bool results_written;           /* as a kernel of a function, which may read results */

  TsDebugTalking *talking; /* or NULL */
  const TsTilePeek *peek;
  TsTileSeen seen;
  void *seen_at;
  TsDebugTile *tile;
  int ntile, room_tile;
};

/* ---- order.c: agents and clocks */
int ts_debug_order_open(TsTileDebug *d);
void ts_debug_order_close(TsTileDebug *d);
void ts_debug_order_block(TsTileDebug *d); /* a new one begins */
int ts_debug_agent(const TsTileDebug *d);  /* who runs */
/* Around a statement that orders accesses. */
void ts_debug_order_before(TsTileDebug *d, const TsTileStmt *s);
void ts_debug_order_after(TsTileDebug *d, const TsTileStmt *s);
TsDebugSlot *ts_debug_slot(TsTileDebug *d, TsTileVal barrier, int64_t index);
/* Phases of it that are complete. */
uint32_t ts_debug_phases(TsTileDebug *d, const TsDebugSlot *s);
/* Whether e, of cell `offset`, happened before what agent a does now; *depends: other elements
 * may have another answer. mine: the access at hand, or NULL. */
bool ts_debug_ordered(TsTileDebug *d, const TsDebugEvent *e, int a, int64_t offset,
                      const TsDebugEvent *mine, bool *depends);
/* Whether the copy engine sees what e wrote. */
bool ts_debug_fenced(const TsTileDebug *d, const TsDebugEvent *e, int a);

/* What a copy brings to a slot. */
void ts_debug_copied(TsTileDebug *d, const TsTileStmt *s, TsDebugSlot *slot);

/* ---- cells.c */
int ts_debug_cells_open(TsTileDebug *d);
void ts_debug_cells_close(TsTileDebug *d);
void ts_debug_cells_new(TsTileDebug *d, const TsTileStmt *s); /* an alloc */
TsTileVal ts_debug_root(TsTileVal memory);
typedef struct TsDebugAccess {
  TsTileDebug *d;
  TsDebugMemory *m;
  TsDebugEvent e;
  bool write;
  bool result;         /* it ends in a result: suspicions are told */
  const uint8_t *mask; /* of what is written; or NULL */
  TsTileVal value;     /* that is read, and gets a mask; NULL: suspicions are told */
  bool unordered;      /* another access of the same elements looks for races */
  uint32_t number;
  uint32_t known[8]; /* events that are in order */
} TsDebugAccess;
/* Of a window of memory; out of memory is told by d. */
void ts_debug_access_begin(TsDebugAccess *x, TsTileDebug *d, const TsTileStmt *s,
                           TsTileVal memory, bool write);
void ts_debug_access_line(void *with, int64_t base, int64_t tile, int64_t n, int64_t stride);

/* ---- suspect.c: what is made of what should not have been read */
int ts_debug_suspect_open(TsTileDebug *d);
void ts_debug_suspect_close(TsTileDebug *d);
/* The number of a suspicion that there is already, or 0. */
uint8_t ts_debug_suspicion(const TsTileDebug *d, const char *kind, const TsTileStmt *s,
                           const TsTileStmt *other);
/* A new one, which takes the text; when there are too many it is told. */
uint8_t ts_debug_suspect(TsTileDebug *d, const char *kind, const TsTileStmt *s,
                         const TsTileStmt *other, TsText *text);
/* It matters: it is found now. */
void ts_debug_tell(TsTileDebug *d, uint8_t suspicion, const TsDebugEvent *where,
                   int64_t offset);
/* The run fails before it is known what comes of them. */
void ts_debug_tell_all(TsTileDebug *d);
void ts_debug_suspect_before(TsTileDebug *d, const TsTileStmt *s);
void ts_debug_suspect_after(TsTileDebug *d, const TsTileStmt *s);
/* The mask of a value, zeros if there was none; NULL: no memory. */
uint8_t *ts_debug_mask_room(TsTileDebug *d, TsTileVal v);
void ts_debug_mask_drop(TsTileDebug *d, TsTileVal v);

/* ---- access.c: what a statement reads and writes. -1: outside of memory, which was told. */
int ts_debug_accesses(TsTileDebug *d, const TsTileStmt *s);

/* ---- who.c: which thread of a role has an element. -1: not known */
typedef struct TsDebugWho {
  int warp, lane;
} TsDebugWho;
TsDebugWho ts_debug_who(const TsTileDebug *d, const TsDebugEvent *e, int64_t offset);
/* Coordinates of an element in the memory as the event sees it, and in its tile; how many the tile
 * has. */
int ts_debug_coordinates(const TsTileDebug *d, const TsDebugEvent *e, int64_t offset,
                         int64_t *memory, int64_t *tile);

/* ---- say.c */
/* Keeps the first one of a kind and pair of lines; takes the text. */
void ts_debug_found(TsTileDebug *d, const char *kind, const TsTileStmt *s,
                    const TsTileStmt *other, TsText *text);
int ts_debug_line(const TsTileDebug *d, const TsTileStmt *s);
const char *ts_debug_source(const TsTileDebug *d, const TsTileStmt *s); /* "m.lua:3", or NULL */
const char *ts_debug_line_text(const TsTileDebug *d, int line);
const char *ts_debug_agent_name(const TsTileDebug *d, int a);
/* "line 12: load ..", and below who did it where. offset -1: no element. */
void ts_debug_say_element(const TsTileDebug *d, TsText *t, const TsDebugEvent *e,
                          int64_t offset);
/* "line 12: load ..", as it stands in the text. */
void ts_debug_say_line(const TsTileDebug *d, TsText *t, const TsTileStmt *s);
void ts_debug_say_event(const TsTileDebug *d, TsText *t, const TsDebugEvent *e, int64_t offset);
/* The same of the statement at hand. */
void ts_debug_say_here(TsTileDebug *d, TsText *t, const TsTileStmt *s);
void ts_debug_say_race(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                       bool of_read, int64_t offset);
/* Reads are suspicions at first; their numbers. */
uint8_t ts_debug_say_early(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                           int64_t offset);
uint8_t ts_debug_say_unwritten(TsTileDebug *d, const TsDebugEvent *now, int64_t offset);
void ts_debug_say_swizzle(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                          int64_t offset);
void ts_debug_say_fence(TsTileDebug *d, const TsDebugEvent *e, const TsDebugEvent *now,
                        int64_t offset);
void ts_debug_say_bounds(TsTileDebug *d, const TsTileStmt *s, TsTileVal memory,
                         const TsTileRunWindow *w);
void ts_debug_say_failure(TsTileDebug *d, const TsTileStmt *s, const char *text);
void ts_debug_event_here(TsTileDebug *d, const TsTileStmt *s, TsDebugEvent *e);

/* ---- place.c: blocks, rounds of loops, tiles of the result */
void ts_debug_place_enter(TsTileDebug *d, const TsTileRegion *region);
void ts_debug_place_store(TsTileDebug *d, const TsTileStmt *s);
/* The rounds of the loops around s that are not the grid's, outermost first; how many. */
int ts_debug_rounds(const TsTileDebug *d, const TsTileStmt *s, int64_t *round, int most);
/* Whether s works for the tile that begins with these coordinates: 0, 1, or -1: no such tile. */
int ts_debug_at_tile(TsTileDebug *d, const TsTileStmt *s, int n, const int64_t *coord);
/* The first tile that s works for; how many coordinates it has, 0: none. */
int ts_debug_tile_here(TsTileDebug *d, const TsTileStmt *s, int64_t *coord);
/* Runs once without looking, to know where tiles are stored (debug.c). */
int ts_debug_find_tiles(TsTileDebug *d);

/* ---- prompt.c */
int ts_debug_prompt_open(TsTileDebug *d, const TsTileDebugTalk *talk);
void ts_debug_prompt_close(TsTileDebug *d);
int ts_debug_prompt_before(TsTileDebug *d, const TsTileStmt *s); /* -1: quit */
void ts_debug_prompt_found(TsTileDebug *d, const TsTileFinding *f);

/* ---- show.c */
/* The value or memory of this name that is seen at s: 0, or -1: there is none yet. */
int ts_debug_value(TsTileDebug *d, const TsTileStmt *s, const char *name, int len,
                   TsTileVal *v);
/* Its elements; memory that is strided is copied to *copy. */
int ts_debug_see(TsTileDebug *d, TsTileVal v, TsTileSeen *seen, void **copy);

#endif
