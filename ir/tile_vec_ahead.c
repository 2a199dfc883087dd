/* Rows to come: while the pass of a row that computes most is at work, the next round's row is
 * asked for, since the processor's own prefetching stops at the end of a row that is read in
 * several passes. In a pass that only writes, requests and stores would crowd each other
 * out. */
#include "ir/tile_vec.h"

enum { LINE = 64 };

/* The axis along which the load follows the parallel loop, or -1: it must read a whole row of a
 * parameter. */
static int round_axis(const TsTileStmt *s) {
  const TsTileType *memory = &s->in[0]->type, *tile = &s->out[0]->type;
  if (s->op != TS_TILE_load || memory->space != TS_SPACE_global || tile->rank != 1) return -1;
  if (memory->strided || memory->rank < 2) return -1;
  for (int i = 0; i < memory->rank - 1; i++) {
    const TsTileValue *at = s->in[1 + i];
    const TsTileStmt *loop = at->region ? at->region->owner : NULL;
    if (loop && loop->op == TS_TILE_for && at->index == 0 && ts_tile_attr(loop, "parallel")->i)
      return i;
  }
  return -1;
}

/* element: of the chunk. The pass asks for one of 2^shift lines, those at the row's beginning. */
static void ask(TsVec *v, const TsTileStmt *s, int axis, int shift, int64_t element) {
  TsTileVal in[TS_TILE_RANK + 1];
  int n = s->in[0]->type.rank, last = v->at.vec;
  for (int i = 0; i <= n; i++) in[i] = ts_tile_vec_of(v, s->in[i])->now;
  in[0] = ts_tile_vec_of(v, s->in[0])->now;
  in[1 + axis] = ts_tile_op2(&v->b, TS_OP_add, in[1 + axis], ts_tile_vec_int(v, 1));
  TsTileVal base = v->at.base[last];
  if (base && shift) base = ts_tile_op2(&v->b, TS_TILE_shr, base, ts_tile_vec_int(v, shift));
  in[n] = ts_tile_vec_sum(v, in[n], base, (v->at.plus[last] + element) >> shift);
  for (int i = 0; i <= n; i++)
    if (!in[i]) return;
  TsAttr hint[2] = {{.type = TS_ATTR_bool, .i = false}, {.type = TS_ATTR_bool, .i = true}};
  ts_tile_emit(&v->b, TS_TILE_prefetch, n + 1, in, hint, 0, NULL);
}

/* Needs: levels of the stretch. Gives: the pass that asks, 0 for none, and for how much. A cheap
 * pass is over before a whole row can come from memory: there half of it is asked for, and the
 * processor's own prefetching, which then has begun, does the rest (rmsnorm of 16 KiB rows 31
 * instead of 26 GB/s; a softmax asks for all: 19 instead of 14). */
void ts_tile_vec_ahead_plan(TsVec *v) {
  int most = 0;
  v->ahead = 0;
  for (int p = 1; p < v->npass; p++) {
    int cost = 0;
    bool walks = false;
    for (int i = 0; i < v->nroot; i++) walks |= v->root[i].pass == p && v->root[i].space.rank;
    for (int i = 0; i < v->nstmt; i++)
      if (v->stmt[i]->nout && ts_tile_vec_of(v, v->stmt[i]->out[0])->level == p &&
          v->stmt[i]->out[0]->type.rank)
        cost += ts_tile_vec_cost(v->stmt[i]->op);
    if (!walks || cost < most) continue;
    most = cost;
    v->ahead = p;
  }
  v->ahead_shift = most < VEC_DEAR;
}

void ts_tile_vec_ahead(TsVec *v) {
  if (v->pass == 0 || v->pass != v->ahead || v->rows || v->at.edge) return;
  for (int i = 0; i < v->nstmt; i++) {
    const TsTileStmt *s = v->stmt[i];
    int axis = s->op == TS_TILE_load ? round_axis(s) : -1;
    if (axis < 0) continue;
    int64_t line = LINE / ts_dtypes[s->in[0]->type.dtype].nbytes;
    for (int64_t k = 0; k < v->at.lanes; k += line) {
      int64_t lines = (v->at.plus[v->at.vec] + k) / line;
      if (lines % (1 << v->ahead_shift) == 0) ask(v, s, axis, v->ahead_shift, k);
    }
  }
}
