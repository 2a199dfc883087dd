/* From a graph whose values are spread over a mesh to graphs of single devices.
 *
 * The plan has groups of nodes. For each group a device runs a graph of its own on its parts, and between
 * two groups devices send each other what later ones need: parts under another layout (a move), or
 * summands (a sum). A node stands in the first group in which all its operands are there, so what
 * needs nothing of the others is in one group, and what is sent for it goes together. Where the
 * program wants it (ir/mesh/how.h), a group belongs to a chunk of a pipeline, and runs once for each
 * micro-batch. The steps of the plan are these runs, and what is sent, in their order
 * (ir/mesh/order.h). */
#ifndef TS_IR_MESH_PARTITION_H
#define TS_IR_MESH_PARTITION_H

#include "ir/graph/graph.h"
#include "ir/mesh/overlap.h"
#include "ir/mesh/space.h"
#include "lib/shard/shard.h"

typedef enum TsPhase {
  TS_PHASE_data, /* numbers of the batch alone, as of the rows that count: all there before others */
  TS_PHASE_forward,
  TS_PHASE_backward,
  TS_PHASE_update,
} TsPhase;

/* A value as parts: a slot of a tensor for each device, and if it is split by them for each
 * micro-batch. */
typedef struct TsMeshSlot {
  TsMeta meta; /* of the whole, with the layout under which it lies over the plan's mesh; */
  int summand; /* or which subtree's sum, of those that a device has; -1: it is none */
  int group;   /* whose graphs make it; -1: it is there, or comes by a join */
  int place;   /* of the pipeline; -1: it is at each of them */
  bool micro;  /* each micro-batch has its own */
  bool read;   /* somebody does */
} TsMeshSlot;

typedef struct TsMeshGroup {
  int chunk, place, level; /* what it needs of other groups is of lower levels, */
  TsPhase phase;           /* or of this one and an earlier phase */
  bool micro;              /* it runs for each micro-batch */
  int stage;               /* its number among groups, in the order in which they first run */
  int64_t bytes; /* of sums of gradients that it has summands of, on one device; when they are */
  bool closed;   /* enough (ir/mesh/buckets.h) more nodes stand in another one behind it */
} TsMeshGroup;

/* What one device runs of a group, for one micro-batch. */
typedef struct TsMeshPiece {
  TsGraph *g;    /* NULL: nothing */
  int *in, *out; /* slots of its parameters and results */
  int nin, nout, capin, capout;
  int like; /* the first piece with an equal graph, of this device */
} TsMeshPiece;

typedef enum TsMeshJoinKind {
  TS_JOIN_move, /* to another layout */
  TS_JOIN_sum,  /* summands of devices are added; from is the first of them */
  TS_JOIN_fold, /* those of micro-batches, as far as one device has neighbours: from, to are firsts */
  TS_JOIN_send, /* to another place of the pipeline, or to all */
  TS_JOIN_call, /* `to` is what the node gives of `from`: a draw, whose parts are boxes of the whole */
} TsMeshJoinKind;

/* What is sent before groups of a level. */
typedef struct TsMeshJoin {
  TsMeshJoinKind kind;
  int level, from, to;               /* slots */
  int chunk;                         /* of whoever asks for it, */
  TsPhase phase;                     /* in which */
  bool micro;                        /* each micro-batch for itself */
  TsFactorKind combine;              /* how summands are combined, */
  int leaves;                        /* leaves of their tree, */
  uint8_t naxis, axis[TS_MESH_AXES]; /* and who has which: the mesh axes of the factor */
  int nfrom;                         /* slots from there on that are read: of a fold, a sum */
  int nto;                           /* and written: of a fold */
  int stage;                         /* of the group that runs behind it, */
  int begins;                        /* and of the first that runs beside it, or the same */
  int row, nrow, along; /* of a sum that is sent in nrow chunks along an axis: which; else nrow 0 */
  const TsNode *node;                /* that asks for it */
} TsMeshJoin;

typedef enum TsStepDoes {
  TS_STEP_all,
  TS_STEP_start, /* of a join: from then on it is on its way, */
  TS_STEP_done,  /* and from then on what it gives is there, and what it reads may go */
} TsStepDoes;

/* A group or a join that runs, for one micro-batch, or as a whole (-1). Behind it nobody needs
 * the slots that die[dies..dies + ndie) names, as slot * micro-batches + number. */
typedef struct TsMeshStep {
  bool join, again; /* again: for a backward pass that computes forward values once more */
  TsStepDoes does;
  int at, k, dies, ndie;
} TsMeshStep;

typedef struct TsMeshPlan {
  TsMeshSpace space;
  TsMeshHow how;
  TsOverlap overlap;
  const TsGraph *g;
  int ngroup, nslot, njoin, nstep;
  TsMeshGroup *group;
  TsMeshSlot *slot;
  TsMeshPiece *piece; /* by group, then by part of the plan's mesh */
  TsMeshJoin *join;   /* by level */
  TsMeshStep *step;
  int *die;
  int *param, *result, *update; /* slots: each parameter has one, also where nobody reads it */
  bool alike;  /* pieces are those of the first micro-batch: others would be the same */
  bool sampled; /* devices are only planned with: the first part has graphs, which stand for all */
  bool *batch; /* by parameter: micro-batches are of its first axis */
  int *chunk;  /* by parameter, of the pipeline; -1: it is of none */
  /* What is known of its steps before they run: */
  int turned;    /* steps that were not in the order of the schedule; */
  double bubble; /* share of the time in which places wait, by what operators cost; */
  int64_t *peak,
      *held;   /* bytes by part of the graph's mesh: at most, and of what it begins with */
  char *turns; /* the schedule, a line for each place */
  TsText remarks; /* lines on what is sent beside what is computed, and why not */
} TsMeshPlan;

/* The plan of g, whose parameters have layouts of one mesh, or none: those are the same for all.
 * leaves: declared by the program (TsContext.leaves). how: or NULL. overlap: NULL: what is sent is sent in
 * its place. NULL with the error, or without one where the graph has nodes that run as a whole (control
 * operators, functions from outside). */
TsMeshPlan *ts_mesh_partition(const TsGraph *g, int leaves, const TsMeshHow *how,
                              const TsOverlap *overlap, TsError *err);
void ts_mesh_plan_free(TsMeshPlan *p);
/* How many subtrees of the tree of a sum, whose summands lie along these axes of m, part p has,
 * and leaves lo..hi. */
int ts_mesh_join_leaves(const TsMesh *m, const TsMeshJoin *j, int p, int *lo, int *hi);
static inline int ts_plan_parts(const TsMeshPlan *p) { return p->sampled ? 1 : p->space.n; }
static inline int ts_mesh_piece(const TsMeshPlan *p, int group, int part, int k) {
  if (p->sampled) part = 0;
  return (group * p->space.n + part) * p->space.nmicro + (p->alike ? 0 : k);
}
/* A line for each group and join; what is sent to whom, and the graphs. */
void ts_mesh_plan_text(const TsMeshPlan *p, TsText *t);
/* The pipeline in short: chunks, the order of their turns, what waits, and memory. */
void ts_mesh_plan_summary(const TsMeshPlan *p, TsText *t);

#endif
