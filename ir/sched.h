/* Schedule IR: how a graph is cut into kernels.
 *
 *   schedule @block target avx512 threads 2 {
 *     vm     %h                                                          // matmul
 *     rows   %t, %n, %y  space [1536,128] row 1 in %h, %b, %w out %y     // 1.5 MiB, 3 MFLOP
 *     vm     %z
 *   }
 *
 * A schedule stands over a graph and never changes it. Every live node that is no view belongs
 * to one group; groups run in their order, and each needs only what groups before it made. A
 * group is one node that the VM runs as it is, or several that become one kernel.
 *
 * The nodes of a kernel share a space: axes, walked in row-major order, of which the last `nrow`
 * make a row. A value of the group is full (an element for every point of the space), a row value
 * (one for every row) or a number. Shapes may differ as long as they are products of the same
 * axes: [6,4] and [2,3,4] share the space [2,3,4]. */
#ifndef TS_IR_SCHED_H
#define TS_IR_SCHED_H

#include "ir/graph.h"
#include "ir/tile.h"

typedef enum TsGroupKind {
  TS_GROUP_vm,   /* one node, by the VM's handler */
  TS_GROUP_map,  /* pointwise rows over the space */
  TS_GROUP_rows, /* and reductions along rows, and what is done with their results */
} TsGroupKind;

typedef struct TsGroup {
  uint8_t kind;
  int index; /* in the schedule */
  int nnode, capnode;
  const TsNode **node; /* in the order of the graph */
  int nin, nout;
  TsVal *in, *out; /* read from and written to memory */
  int naxis, nrow;
  int64_t axis[TS_TILE_RANK];
  double bytes, flops; /* moved and done at least; a function of lib/elem counts as its steps */
  double usec;         /* expected on the target */
} TsGroup;

typedef struct TsSched {
  TsArena arena;
  const TsGraph *g;
  const TsTarget *target;
  int threads;
  int ngroup, capgroup;
  TsGroup **group;
  int *of; /* by node: its group, or -1: a parameter, a view, a constant, dead */
} TsSched;

/* Strides of a value in elements where it is memory; NULL or false: row-major. */
typedef bool TsLayoutFn(void *arg, TsVal v, int64_t *stride);

/* Cuts g (concrete sizes) into groups. NULL with the error when memory runs out. */
TsSched *ts_sched_new(const TsGraph *g, const TsTarget *target, int threads, TsError *err);
void ts_sched_free(TsSched *s);
int ts_sched_fuse(TsSched *s, TsError *err); /* the pass that makes the groups */
void ts_sched_cost(TsSched *s);              /* fills bytes, flops, usec of every group */
int ts_sched_check(const TsSched *s, TsError *err);
void ts_sched_text(const TsSched *s, TsText *text);

/* The kernel of a group, in block form. value: for each parameter the value of the graph that it
 * is; one stands twice where nodes look at it in different ways. dim: the symbolic sizes for this
 * graph's shapes. */
enum { TS_SCHED_PARAMS = 40 };
typedef struct TsSchedKernel {
  TsTile *tile;
  TsVal value[TS_SCHED_PARAMS];
  int64_t dim[TS_TILE_DIMS];
} TsSchedKernel;

/* -1 with the error, which says why there is no kernel. */
int ts_sched_lower(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err);

/* ---- for passes */
/* A node without anything to do: it gives the elements of its input in another shape. */
bool ts_sched_is_view(const TsNode *n);
/* v, or what it shows through views that keep the row-major order of the elements. */
TsVal ts_sched_root(TsVal v);
/* How a node can be part of a kernel: map, rows, or vm if it cannot. */
TsGroupKind ts_sched_kind(const TsNode *n);

typedef enum TsRole { TS_ROLE_full, TS_ROLE_row, TS_ROLE_number, TS_ROLE_none } TsRole;
/* What a value of this shape is in the group's space: from its size alone. */
TsRole ts_sched_role(const TsGroup *group, const TsMeta *m);

#endif
