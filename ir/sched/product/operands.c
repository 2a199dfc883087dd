/* What a kernel with a product reads and writes, and the axes of its space. See
 * ir/sched/product/state.h. */
#include "ir/sched/product/state.h"

#include <string.h>

#include "ir/sched/space.h"

int64_t ts_product_rows(const TsNode *n) {
  const TsMeta *a = &n->in[0]->meta;
  return a->ndim > 1 ? a->dim[a->ndim - 2] : 1;
}

int64_t ts_product_columns(const TsNode *n) {
  const TsMeta *b = &n->in[1]->meta;
  return b->ndim > 1 ? b->dim[b->ndim - 1] : 1;
}

static int batch_of(const TsMeta *operand) { return operand->ndim > 1 ? operand->ndim - 2 : 0; }

int ts_product_refuse(TsProductLower *l, const char *why) {
  return ts_error_set(l->err, TS_ERR_value, "%s", why);
}

static void strides_of(TsProductLower *l, TsVal v, int64_t *stride) {
  ts_sched_strides(l->layout, l->arg, v, stride);
}

/* An operand of the product, or of what makes it: how it moves along the batch, whose axes are
 * those of the result that are not 1. */
static TsProductAccess *along_batch(TsProductLower *l, TsSide side, TsVal v,
                                    const int64_t *stride) {
  const TsNode *n = l->product;
  const TsMeta *y = &n->out[0].meta, *m = &v->meta;
  int batch = y->ndim - (n->in[0]->meta.ndim > 1) - (n->in[1]->meta.ndim > 1);
  TsProductAccess *a = &l->access[l->naccess++];
  *a = (TsProductAccess){.v = v, .side = side};
  for (int i = 0, axis = 0; i < batch; i++) {
    int own = i - (batch - batch_of(m));
    if (y->dim[i] == 1) continue;
    a->moves[axis++] = own >= 0 && m->dim[own] > 1 ? stride[own] : 0;
  }
  return a;
}

static void matrix(TsProductLower *l, TsSide side) {
  TsVal v = l->product->in[side];
  const TsMeta *m = &v->meta;
  int64_t stride[TS_MAX_RANK];
  strides_of(l, v, stride);
  TsProductAccess *a = along_batch(l, side, v, stride);
  a->has[0] = a->has[1] = true;
  if (m->ndim > 1)
    a->step[0] = stride[m->ndim - 2], a->step[1] = stride[m->ndim - 1];
  else
    a->step[side == TS_SIDE_a] = stride[0];
}

int ts_product_moves(TsProductLower *l, const TsMeta *at, TsVal v, int64_t *moves) {
  TsSpaceAxes a = {.naxis = l->g->naxis};
  int64_t stride[TS_MAX_RANK];
  memcpy(a.axis, l->g->axis, sizeof a.axis);
  strides_of(l, v, stride);
  if (ts_space_strides(&a, at, &v->meta, stride, moves)) return 0;
  return ts_product_refuse(l, "the axes of an operand do not divide those of the group");
}

TsProductAccess *ts_product_part(TsProductLower *l, TsSide side, TsVal v) {
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].side == side && l->access[i].v == v) return &l->access[i];
  return NULL;
}

/* What a prologue reads: all of its operand's elements, or it is broadcast to them. */
static int add_part(TsProductLower *l, TsSide side, TsVal v) {
  const TsMeta *m = &v->meta;
  int64_t stride[TS_MAX_RANK];
  if (ts_product_part(l, side, v)) return 0;
  if (l->naccess == TS_PRODUCT_OPERANDS)
    return ts_product_refuse(l, "more operands than a kernel takes");
  strides_of(l, v, stride);
  TsProductAccess *a = along_batch(l, side, v, stride);
  for (int i = 0; i < 2; i++) {
    int own = m->ndim - 2 + i;
    a->has[i] = own >= 0 && m->dim[own] > 1;
    a->step[i] = a->has[i] ? stride[own] : 0;
  }
  return 0;
}

TsProductAccess *ts_product_access(TsProductLower *l, TsVal v, const int64_t *moves) {
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].side == TS_SIDE_result && !l->access[i].written && l->access[i].v == v &&
        !memcmp(l->access[i].from, moves, sizeof *moves * (size_t)l->g->naxis))
      return &l->access[i];
  return NULL;
}

static int add(TsProductLower *l, const TsMeta *at, TsVal v, bool written) {
  int64_t moves[TS_TILE_RANK] = {0};
  if (ts_product_moves(l, at, v, moves)) return -1;
  if (!written && ts_product_access(l, v, moves)) return 0;
  if (l->naccess == TS_PRODUCT_OPERANDS)
    return ts_product_refuse(l, "more operands than a kernel takes");
  TsProductAccess *a = &l->access[l->naccess++];
  *a = (TsProductAccess){.v = v, .side = TS_SIDE_result, .written = written};
  memcpy(a->from, moves, sizeof moves);
  memcpy(a->moves, moves, sizeof moves);
  return 0;
}

static int find_factor(TsProductLower *l, TsSide side) {
  int first = l->naccess;
  if (!ts_product_inside(l, l->product->in[side])) return matrix(l, side), 0;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    for (int i = 0; l->side[k] == side && i < n->nin; i++) {
      TsVal v = n->in[i];
      if (v && !ts_product_weak(v) && !ts_product_inside(l, v) && add_part(l, side, v))
        return -1;
    }
  }
  for (int i = first; i < l->naccess; i++)
    if (l->access[i].has[0] && l->access[i].has[1]) return 0;
  return ts_product_refuse(l, "an operand is made of parts only");
}

int ts_product_operands(TsProductLower *l) {
  if (find_factor(l, TS_SIDE_a) || find_factor(l, TS_SIDE_b)) return -1;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (l->side[k] != TS_SIDE_result) continue;
    for (int i = n == l->product ? 2 : 0; i < n->nin; i++) {
      TsVal v = n->in[i];
      if (v && !ts_product_weak(v) && !ts_product_inside(l, v) &&
          add(l, &n->out[0].meta, v, false))
        return -1;
    }
  }
  for (int i = 0; i < l->g->nout; i++)
    if (add(l, &l->g->out[i]->meta, l->g->out[i], true)) return -1;
  return 0;
}

/* ---- axes */
static bool joins(const TsProductLower *l, int i) { /* batch axis i and the one behind it */
  bool rows = i == l->naxis - 3;
  for (int k = 0; k < l->naccess; k++) {
    const TsProductAccess *a = &l->access[k];
    int64_t behind = !rows || a->side == TS_SIDE_result ? a->moves[i + 1]
                     : a->side == TS_SIDE_a             ? a->step[0]
                                                        : 0;
    if (a->moves[i] != behind * l->axis[i + 1]) return false;
  }
  return true;
}

static void join_axis(TsProductLower *l, int i) {
  l->axis[i] *= l->axis[i + 1];
  for (int k = i + 1; k + 1 < l->naxis; k++) l->axis[k] = l->axis[k + 1];
  for (int x = 0; x < l->naccess; x++) {
    TsProductAccess *a = &l->access[x];
    /* A's rows are in step[], not in moves[]. */
    bool rows = a->side != TS_SIDE_result && i == l->naxis - 3;
    for (int k = i; !rows && k + 1 < l->naxis; k++) a->moves[k] = a->moves[k + 1];
    if (rows) a->moves[i] = 0;
  }
  l->naxis--;
}

/* An axis of one element, which no group has: the results move along it. */
static void insert_axis(TsProductLower *l, int at, int64_t stride) {
  for (int k = l->naxis; k > at; k--) l->axis[k] = l->axis[k - 1];
  l->axis[at] = 1;
  for (int x = 0; x < l->naccess; x++) {
    int64_t *moves = l->access[x].moves;
    if (l->access[x].side != TS_SIDE_result) continue;
    for (int k = l->naxis; k > at; k--) moves[k] = moves[k - 1];
    moves[at] = l->access[x].written ? stride : 0;
  }
  l->naxis++;
}

/* One row for each matrix of A, and one B for all: the last axis of the batch has the rows. */
static bool are_rows(const TsProductLower *l) {
  int last = l->g->naxis - 2; /* of the batch; behind it are the columns */
  for (int x = 0; x < l->naccess && last >= 0; x++) {
    const TsProductAccess *a = &l->access[x];
    if (a->side == TS_SIDE_b ? a->moves[last] != 0 : a->side == TS_SIDE_a && !a->has[0])
      return false;
  }
  return last >= 0;
}

static void be_rows(TsProductLower *l) {
  int last = l->g->naxis - 2;
  for (int x = 0; x < l->naccess; x++) {
    TsProductAccess *a = &l->access[x];
    if (a->side != TS_SIDE_a) continue;
    a->step[0] = a->moves[last], a->moves[last] = 0;
  }
}

void ts_product_axes(TsProductLower *l) {
  int64_t rows = ts_product_rows(l->product), cols = ts_product_columns(l->product);
  l->naxis = l->g->naxis;
  memcpy(l->axis, l->g->axis, sizeof l->axis);
  if (cols == 1) insert_axis(l, l->naxis, 1);
  if (rows == 1 && cols > 1 && are_rows(l))
    be_rows(l);
  else if (rows == 1)
    insert_axis(l, l->naxis - 1, cols);
  for (int i = l->naxis - 3; i >= 0; i--)
    if (joins(l, i)) join_axis(l, i);
}
