/* What a plan has while it runs. Only jit/mesh includes it. */
#ifndef TS_JIT_MESH_STATE_H
#define TS_JIT_MESH_STATE_H

#include "jit/mesh/run.h"
#include "vm/mesh/leaves.h"

typedef struct TsMeshCode {
  TsCode *code;
  TsFrame *frame;
  TsJitFunction *hot;
} TsMeshCode;

/* Summands of a fold that wait for their neighbours, on one device. */
typedef struct TsPending {
  int n, seen; /* micro-batches so far */
  TsLeafSum sum[2 * TS_LEAF_SUMS];
} TsPending;

typedef struct TsMeshSent {
  bool known;
  TsCollective what;
} TsMeshSent;

struct TsReplayGroup;
struct TsMeshRun {
  TsContext *c;
  TsGraph *g; /* in which rows that are done by others are these */
  TsMeshPlan *plan;
  int leaves;
  TsMeshCode *piece;   /* as the plan's; pieces that are alike have that of the first */
  TsTensor **slot;     /* while it runs: by slot, place, device, micro-batch; */
  TsPending **pending; /* by join and device; */
  unsigned char *told; /* by join: what of it was noted; */
  TsMeshSent *sent;    /* and what that is, once it was told */
  /* By join and micro-batch: the ticket of its start (devices/aside.h), or 0; */
  uint64_t *flight;
  uint64_t latest; /* the last ticket that is not rejoined; 0: nothing is on its way */
  uint64_t stream; /* the stream at which it began */
  struct TsReplayGroup *records; /* of its launches (record.h), or NULL */
  int cuts;  /* runs with them one behind the other in which they were cut */
  int apart; /* so many runs to come go without them */
};

/* The tensors of a slot on one device; its own one, or the one that all micro-batches share. */
TsTensor **ts_mesh_slot(TsMeshRun *r, int slot, int place, int part, int k);
/* How many of these steps, of which the first is a join, are done at once with it. */
int ts_mesh_run_at_once(const TsMeshRun *r, const TsMeshStep *s, int most);
/* A step that is a join, and of the n from there on those that are done at once with it: how
 * many; -1. */
int ts_mesh_run_joins(TsMeshRun *r, const TsMeshStep *s, int n);
/* Notes what it sends, once a run. */
int ts_mesh_tell_join(TsMeshRun *r, const TsMeshStep *s);
void ts_mesh_drop_pending(TsMeshRun *r);

#endif
