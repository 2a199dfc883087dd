/* What the files of the lowering share: what becomes of each value of a graph, and in which order
 * its nodes run (vm/code/lower.c). Not for others; they use vm/code/lower.h. */
#ifndef TS_VM_LOWER_STATE_H
#define TS_VM_LOWER_STATE_H

#include "vm/code/lower.h"
#include "vm/code/rooms.h"

/* What becomes of one value. The layout is a tensor without bytes that has the strides
 * which the value will have, NULL where they are the caller's. */
typedef struct TsLoweringPlace {
  uint32_t reg;
  TsTensor *layout;
  TsTensor *known; /* a constant */
} TsLoweringPlace;

typedef struct TsLowering {
  TsContext *c;
  const TsGraph *g;
  TsCode *code;
  unsigned char *live;
  TsLoweringPlace *place; /* by start of the node's outputs */
  int *start;
  int nplace;
  const TsFusion *fusion; /* of g, or NULL */
  const TsFusion *all;    /* and of the functions inside */
  int *order, norder;     /* live nodes as they run; with kernels not in the graph's order */
  int *when;              /* by node: its place in the order */
  unsigned char *late;    /* by node: runs behind all that may fail (vm/code/lower_late.c) */
  int *last_use;          /* by node: the last place of a node that reads it or a view of it */
  uint32_t *target;       /* by value: the parameter it is written into, or NONE */
  const bool *donated;    /* by parameter, or NULL */
  TsAside was;            /* the program's state beside it */
  TsRooms rooms;          /* of values that are made in their places */
} TsLowering;

/* ---- vm/code/lower_constant.c */
int ts_lower_constants(TsLowering *l); /* computes them and gives them registers */

/* ---- vm/code/lower_order.c */
/* n joins what one kernel has written where it belongs: there is nothing left to do. */
bool ts_lower_is_joined(const TsLowering *l, const TsNode *n);
void ts_lower_order(TsLowering *l);

/* ---- vm/code/lower_late.c */
int ts_lower_late(TsLowering *l);

/* ---- vm/code/lower_place.c */
bool ts_lower_may_update(const TsLowering *l, int u); /* update u, but for the order of nodes */
void ts_lower_targets(TsLowering *l); /* which values are written over parameters */
/* Kernels write as they were made for, and read so what jit/build/build.c chose to lie with
 * strides. Of the VM's handlers those of pointwise rows write with strides. For
 * ts_rooms_open. */
int ts_lower_may_be_part(void *arg, const TsPart *p);

/* ---- short names of its files */
static inline int no_memory(TsLowering *l) { return ts_error_memory(&l->c->err); }

static inline int value_index(const TsLowering *l, TsVal v) {
  return l->start[v->node->id] + v->index;
}
static inline TsLoweringPlace *place_of(const TsLowering *l, TsVal v) {
  return &l->place[value_index(l, v)];
}

static inline const TsOpInfo *row_of(const TsNode *n) {
  return n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op) : NULL;
}

static inline bool is_view(const TsNode *n) {
  return row_of(n) && row_of(n)->cls == TS_CLASS_VIEW;
}

static inline int64_t node_nbytes(const TsNode *n) {
  int64_t sum = 0;
  for (int i = 0; i < n->nout; i++) sum += ts_meta_nbytes(&n->out[i].meta);
  return sum;
}

static inline const TsFusedGroup *fused_group(const TsLowering *l, const TsNode *n) {
  int k = l->fusion ? l->fusion->sched->of[n->id] : -1;
  return k >= 0 && l->fusion->of[k].fused ? &l->fusion->of[k] : NULL;
}

#endif
