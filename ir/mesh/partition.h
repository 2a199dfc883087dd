/* From a graph whose values are spread over a mesh to graphs of single devices.
 *
 * The plan has stages. In each a device runs a graph of its own on its parts, and between two stages
 * devices send each other what later ones need: parts under another layout (a move), or
 * summands (a sum). A node stands in the first stage in which all its operands are there, so what
 * needs nothing of the others is in one stage, and what is sent for it goes together. */
#ifndef TS_IR_MESH_PARTITION_H
#define TS_IR_MESH_PARTITION_H

#include "ir/graph/graph.h"
#include "lib/shard.h"

/* A value as parts: a slot of a tensor for each device. */
typedef struct TsMeshSlot {
  TsMeta meta;  /* of the whole, with the layout under which it lies; */
  int summand;  /* or which subtree's sum, of those that a device has; -1: it is none */
  int stage;    /* whose graphs make it; -1: it is there, or comes by a join */
  int last;     /* the last stage that reads it */
} TsMeshSlot;

/* What one device runs in one stage. */
typedef struct TsMeshPiece {
  TsGraph *g; /* NULL: nothing */
  int *in, *out; /* slots of its parameters and results */
  int nin, nout, capin, capout;
} TsMeshPiece;

/* What is sent before a stage. */
typedef struct TsMeshJoin {
  int stage, from, to;  /* slots; of a sum from is the first of its summands */
  bool sum;
  TsFactorKind kind;    /* how summands are combined, */
  int leaves;           /* leaves of their tree, */
  uint8_t naxis, axis[TS_MESH_AXES]; /* and who has which: the mesh axes of the factor */
  const TsNode *node;   /* that asks for it */
} TsMeshJoin;

typedef struct TsMeshPlan {
  const TsMesh *mesh;
  const TsGraph *g;
  int nstage, nslot, njoin;
  TsMeshSlot *slot;
  TsMeshPiece *piece; /* by stage, then by part */
  TsMeshJoin *join;   /* by stage */
  int *param, *result, *update; /* slots; -1: a parameter that nobody reads */
} TsMeshPlan;

/* The plan of g, whose parameters have layouts of one mesh, or none: those are the same for all.
 * leaves: declared by the program (TsContext.leaves). NULL with the error, or without one where
 * the graph has nodes that run as a whole (control operators, functions from outside). */
TsMeshPlan *ts_mesh_partition(const TsGraph *g, int leaves, TsError *err);
void ts_mesh_plan_free(TsMeshPlan *p);
/* How many subtrees of the tree part p has, and leaves lo..hi. */
int ts_mesh_join_leaves(const TsMeshPlan *p, const TsMeshJoin *j, int part, int *lo, int *hi);
/* A line for each stage and join. */
void ts_mesh_plan_text(const TsMeshPlan *p, TsText *t);

#endif
