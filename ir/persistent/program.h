/* A persistent program: kernels one behind the other as one launch, whose blocks all run at the
 * same time.
 *
 * A phase of a kernel is a task, what one block of its grid does is a turn. Turn t of a task
 * belongs to block (first + t) % blocks, and each block does its turns task after task, in the
 * order of turns. A block that is done with a turn adds one to a counter in device memory;
 * before a turn it waits until counters of earlier tasks have come to what they will be. So
 * tasks are the programs that they are alone, and results have the bits that they have alone:
 * what is new is who waits for whom, which ir/persistent/plan.c says and ir/persistent/check.c
 * proves. */
#ifndef TS_IR_PERSISTENT_PROGRAM_H
#define TS_IR_PERSISTENT_PROGRAM_H

#include "ir/tile/tile.h"

enum {
  TS_PERSISTENT_PIECES =
      32, /* counters of a task at most: threads of a warp look at one each */
  TS_PERSISTENT_TASKS = 4096, /* of a program */
  TS_PERSISTENT_SCRATCH = 16, /* of a kernel */
  TS_PERSISTENT_TURNS = 2048, /* of a task, of which each is looked at by itself */
};

/* Bytes, at addresses of the device; none: nbytes 0. */
typedef struct TsPersistentBytes {
  uint64_t at, nbytes;
} TsPersistentBytes;

static inline bool ts_persistent_overlap(TsPersistentBytes x, TsPersistentBytes y) {
  return x.nbytes && y.nbytes && x.at < y.at + y.nbytes && y.at < x.at + x.nbytes;
}

/* What a parameter or a scratch of the kernel is to a task. */
typedef struct TsPersistentTouch {
  TsPersistentBytes all;
  bool write;              /* else it is only read */
  TsPersistentBytes *turn; /* what each turn touches of it; NULL: that is not known */
} TsPersistentTouch;

typedef struct TsPersistentWait {
  int task; /* an earlier one */
  const int32_t
      *range; /* by turn, its counters from range[2 t] to below range[2 t + 1]; NULL: all */
} TsPersistentWait;

typedef struct TsPersistentTask {
  const TsTile *k; /* whoever made the program keeps it */
  int run;         /* kernels are one behind the other: number of that of this task */
  int phase, code; /* code: among the different programs (kernel and phase) */
  int64_t rounds;  /* of the phase's parallel loop */
  int side;        /* of them, that are one turn */
  int64_t turns;
  int64_t first; /* the block of turn 0 */
  bool chained;  /* a turn may wait for others of the task, which thus run at the same time */
  const uint64_t *arg, *scratch;
  const int64_t *dim;
  int ntouch;
  TsPersistentTouch *touch; /* parameters, then scratch */
  int counter, npiece;      /* its counters: turns t with t / piece equal count together */
  int64_t piece;
  int nwait;
  TsPersistentWait *wait;
  int nahead; /* what it reads and no task writes: fetched into the cache before the wait */
  TsPersistentBytes *ahead;
} TsPersistentTask;

/* What a block of one phase takes, as its target's maker of code plans it. */
typedef struct TsPersistentPhase {
  int side, threads;
} TsPersistentPhase;

typedef struct TsPersistent {
  TsArena arena;
  int64_t blocks;   /* of the launch */
  int64_t resident; /* that the device holds at the same time, of such blocks */
  int threads;      /* of a block: as many as the largest task's */
  int ntask, captask, nrun, ncode, ncounter;
  int nspare;        /* tasks that were left out */
  int nwhole, nfine; /* waits for a whole task, and for parts of one */
  TsPersistentTask *task;
} TsPersistent;

/* No tasks yet; NULL: out of memory. */
TsPersistent *ts_persistent_new(void);
void ts_persistent_free(TsPersistent *p);
/* The next kernel, which stays the caller's: a task for each of its phases. arg, scratch:
 * addresses of parameters and of what it allocates, dim: its sizes, plan: by phase. -1 with the
 * reason why it has no place here. */
int ts_persistent_add(TsPersistent *p, const TsTile *k, const uint64_t *arg,
                      const uint64_t *scratch, const int64_t *dim,
                      const TsPersistentPhase *plan, TsError *err);
/* Bytes of scratch i of k; i by the order of its statements. How many there are. */
int ts_persistent_scratch(const TsTile *k, const int64_t *dim, int64_t *nbytes);

/* ---- ir/persistent/footprint.c */
/* Rounds of each phase, at most `most` of them, and how many phases; -1: they are not known. */
int ts_persistent_rounds(const TsTile *k, const int64_t *dim, int most, int64_t *rounds);
/* The bytes of each parameter and scratch that a turn touches, behind the first one of each:
 * into turn (at, nbytes). False: of this turn nothing is known. */
bool ts_persistent_footprint(const TsTile *k, int phase, int64_t from, int64_t to,
                             const int64_t *dim, TsPersistentBytes *touch);

/* ---- ir/persistent/spare.c: tasks that an earlier one has done are left out */
int ts_persistent_spare(TsPersistent *p);

/* ---- ir/persistent/plan.c */
/* Who waits for whom, as few waits as are needed; blocks of the launch, of which the device
 * holds `resident`. -1 with the error. */
int ts_persistent_plan(TsPersistent *p, int64_t blocks, int64_t resident, TsError *err);

/* ---- ir/persistent/check.c */
/* Whether it may be launched; -1 with what is wrong: a read or a write that no wait puts behind
 * what it has to come behind, a wait that may never end. Trusts nothing of the plan. */
int ts_persistent_check(const TsPersistent *p, TsError *err);

/* ---- ir/persistent/text.c */
void ts_persistent_text(const TsPersistent *p, TsText *text);
/* "48 tasks of 12 kernels in one launch of 132 blocks: .." */
void ts_persistent_summary(const TsPersistent *p, TsText *text);

static inline int64_t ts_persistent_piece_turns(const TsPersistentTask *t, int64_t piece) {
  int64_t from = piece * t->piece, to = from + t->piece;
  return (to < t->turns ? to : t->turns) - from;
}

#endif
