/* What the files that lower a group of pointwise rows and reductions share: operands in memory
 * (ir/sched/access.c), nodes as tile operations (ir/sched/nodes.c), the loops around them
 * (ir/sched/lower.c, ir/sched/columns.c). Not for others. */
#ifndef TS_IR_SCHED_LOWER_H
#define TS_IR_SCHED_LOWER_H

#include "ir/sched/sched.h"
#include "ir/sched/space.h"

enum {
  TS_LOWER_LEAF = 4096, /* of the canonical sum (vm/kernels/rows/reduce_tree.h) */
  TS_LOWER_LEAVES = 8,  /* so many whole ones are worth two loops */
};

/* A value in memory as one node reads it, or as the group writes it. */
typedef struct TsAccess {
  TsVal v;
  int64_t from[TS_TILE_RANK];  /* strides along the group's axes, in elements */
  int64_t moves[TS_TILE_RANK]; /* along the merged axes */
  bool written;
  TsTileVal param;
  TsTileVal tile; /* once loaded */
} TsAccess;

/* Tiles of a round are [m, n], [n] or numbers; groups of columns have m, and maps of a GPU
 * whose last axis is short. */
typedef struct TsLower {
  const TsSched *s;
  const TsGroup *g;
  TsLayoutFn *layout;
  void *arg;
  TsError *err;
  TsAccess access[TS_SCHED_PARAMS];
  int naccess;
  TsSpaceAxes space; /* after merging: at most one row axis, or one axis before the columns' */
  bool row;          /* the last axis is whole in a round */
  bool one_size;     /* no axis is of symbolic size */
  bool columns;      /* the first axis is, or a leaf of it */
  bool transposed;   /* tiles have two axes, since operands have another fastest one */
  int across;        /* the axis along which tiles have m elements, or -1 */
  int64_t m, n;      /* elements of a round along that axis, and along the last one */
  TsTileVal *made;   /* by node of the group and output: [TS_MAX_OUT] each */
  TsTile *k;
  TsTileBuild b;
  TsTileVal at[TS_TILE_RANK]; /* the round's position along each axis */
  TsTileVal *kept; /* by node: what is counted or reduced over rows (ir/sched/loss.c) */
  TsSchedDraw draw[TS_SCHED_DRAWS];
  int ndraw;
  TsVal number[TS_TILE_DIMS]; /* by symbolic size: the number that it is, or NULL */
} TsLower;

int ts_lower_refuse(TsLower *l, const char *why);

/* ---- ir/sched/access.c */
int ts_access_find(TsLower *l); /* what the group reads and writes, along merged axes */
void ts_access_params(TsLower *l);
bool ts_access_symbolic(const TsLower *l, int axis);
/* Operand v of n, which is no part of the group; NULL: refused. */
TsAccess *ts_access_of(TsLower *l, const TsNode *n, TsVal v);
TsTileVal ts_access_load(TsLower *l, TsAccess *a);
void ts_access_store(TsLower *l, TsAccess *a, TsTileVal x);
bool ts_access_inside(const TsLower *l, TsVal v);
bool ts_access_full(const TsLower *l, const TsMeta *m); /* covers the space */
/* n covers the space and wants what columns of it were reduced to. */
bool ts_access_again(const TsLower *l, const TsNode *n);

/* ---- ir/sched/nodes.c */
int ts_nodes_put(TsLower *l, const TsNode *n);
/* Results that cover the space, or those that do not, are stored. */
void ts_nodes_store(TsLower *l, bool full);
/* What follows from sums of columns, and storing it. */
int ts_nodes_put_ends(TsLower *l);
/* The type that a row computes in, before the kernel's. */
int ts_nodes_infer(const TsNode *n, TsDtype *out, TsError *err);
int ts_nodes_index(const TsLower *l, const TsNode *n);
TsTileVal *ts_nodes_made(TsLower *l, TsVal v);
/* Operand v of n as tiles of type d; bare numbers become constants. */
TsTileVal ts_nodes_operand(TsLower *l, const TsNode *n, TsVal v, TsDtype d);
TsTileVal ts_nodes_spread(TsLower *l, TsTileVal x, int rank);
TsTileType ts_nodes_type(const TsLower *l, TsDtype d, int rank);
TsDtype ts_nodes_compute(TsDtype d);
/* A bound that is none is the end of an integer's range, as in clamp without it. */
TsTileVal ts_nodes_number(TsTileBuild *b, double v, TsDtype d);
/* A reduction along the first axis of x. */
TsTileVal ts_nodes_reduce(TsLower *l, int op, TsTileVal x);

/* ---- ir/sched/columns.c */
int ts_columns_put(TsLower *l);

/* ---- ir/sched/few.c: for a GPU, of few rows */
bool ts_few_fit(TsLower *l);
int ts_few_put(TsLower *l);

/* ---- ir/sched/lanes.c: the same for a GPU; must: there is no other way */
bool ts_lanes_fit(TsLower *l, bool *must);
int ts_lanes_put(TsLower *l);

#endif
