/* Operators along rows as tile operations. Every operation rounds once, sums are canonical;
 * the definitions stand in vm/rows/rows.h, vm/rows/reduce.h, vm/exec/rows_grad.c and
 * vm/exec/norm_grad.c. */
#include "ir/sched/rows.h"

#include "ir/sched/loss.h"

#include <string.h>

static TsTileVal along(TsRowCall *c, int op, TsTileVal x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  if (!x) return NULL;
  TsTileType t = ts_tile_scalar((TsDtype)x->type.dtype);
  return ts_tile_emit1(c->b, op, 1, &x, &axis, &t);
}

TsTileVal ts_row_spread(TsRowCall *c, TsTileVal x) {
  if (!x || x->type.rank) return x;
  TsTileType t = ts_tile_vector((TsDtype)x->type.dtype, c->n);
  return ts_tile_broadcast(c->b, x, &t, NULL);
}

TsTileVal ts_row_op2(TsRowCall *c, int op, TsTileVal x, TsTileVal y) {
  if (x && y && x->type.rank != y->type.rank) x = ts_row_spread(c, x), y = ts_row_spread(c, y);
  return ts_tile_op2(c->b, op, x, y);
}

static TsTileVal number(TsRowCall *c, double value) {
  TsTileType t = ts_tile_scalar((TsDtype)c->in[0]->type.dtype);
  return ts_tile_const(c->b, value, &t);
}

static TsTileVal mean_of(TsRowCall *c, TsTileVal x) {
  return ts_row_op2(c, TS_OP_div, along(c, TS_TILE_sum, x), number(c, (double)c->n));
}

static void sum(TsRowCall *c) { c->out[0] = along(c, TS_TILE_sum, c->in[0]); }
static void prod(TsRowCall *c) { c->out[0] = along(c, TS_TILE_prod, c->in[0]); }
static void max(TsRowCall *c) { c->out[0] = along(c, TS_TILE_max, c->in[0]); }
static void min(TsRowCall *c) { c->out[0] = along(c, TS_TILE_min, c->in[0]); }
static void mean(TsRowCall *c) { c->out[0] = mean_of(c, c->in[0]); }

/* e^(x - max) and its sum. */
static TsTileVal shifted(TsRowCall *c, TsTileVal *d) {
  *d = ts_row_op2(c, TS_OP_sub, c->in[0], along(c, TS_TILE_max, c->in[0]));
  return ts_tile_op1(c->b, TS_OP_exp, *d);
}

static void softmax(TsRowCall *c) {
  TsTileVal d, e = shifted(c, &d), s = along(c, TS_TILE_sum, e);
  c->out[0] = ts_row_op2(c, TS_OP_mul, e, ts_row_op2(c, TS_OP_div, number(c, 1), s));
}

static void log_softmax(TsRowCall *c) {
  TsTileVal d, e = shifted(c, &d), s = along(c, TS_TILE_sum, e);
  c->out[0] = ts_row_op2(c, TS_OP_sub, d, ts_tile_op1(c->b, TS_OP_log, s));
}

/* 1 / sqrt(q + eps) */
static TsTileVal rstd(TsRowCall *c, TsTileVal q, double eps) {
  TsTileVal r = ts_tile_op1(c->b, TS_OP_sqrt, ts_row_op2(c, TS_OP_add, q, number(c, eps)));
  return ts_row_op2(c, TS_OP_div, number(c, 1), r);
}

static double eps_of(const TsRowCall *c) { return c->node->attr[1].f; }

static void layernorm(TsRowCall *c) {
  TsTileVal d = ts_row_op2(c, TS_OP_sub, c->in[0], mean_of(c, c->in[0]));
  TsTileVal r = rstd(c, mean_of(c, ts_row_op2(c, TS_OP_mul, d, d)), eps_of(c));
  TsTileVal y = ts_row_op2(c, TS_OP_mul, d, r);
  if (c->in[1]) y = ts_row_op2(c, TS_OP_mul, y, c->in[1]);
  if (c->in[2]) y = ts_row_op2(c, TS_OP_add, y, c->in[2]);
  c->out[0] = y;
}

static void rmsnorm(TsRowCall *c) {
  TsTileVal x = c->in[0];
  TsTileVal r = rstd(c, mean_of(c, ts_row_op2(c, TS_OP_mul, x, x)), eps_of(c));
  TsTileVal y = ts_row_op2(c, TS_OP_mul, x, r);
  c->out[0] = c->in[1] ? ts_row_op2(c, TS_OP_mul, y, c->in[1]) : y;
}

static void softmax_grad(TsRowCall *c) {
  TsTileVal y = c->in[0], g = c->in[1];
  TsTileVal s = along(c, TS_TILE_sum, ts_row_op2(c, TS_OP_mul, y, g));
  c->out[0] = ts_row_op2(c, TS_OP_mul, y, ts_row_op2(c, TS_OP_sub, g, s));
}

static void log_softmax_grad(TsRowCall *c) {
  TsTileVal y = c->in[0], g = c->in[1], s = along(c, TS_TILE_sum, g);
  TsTileVal e = ts_tile_op1(c->b, TS_OP_exp, y);
  c->out[0] = ts_row_op2(c, TS_OP_sub, g, ts_row_op2(c, TS_OP_mul, e, s));
}

/* The row is the last axis, or the last `dims` axes. */
static bool last_axis(const TsNode *n) {
  int ndim = n->in[0]->meta.ndim;
  return ndim > 0 && (n->attr[0].i == -1 || n->attr[0].i == ndim - 1);
}

static bool last_axes(const TsNode *n) {
  const TsAttr *a = &n->attr[0];
  int ndim = n->in[0]->meta.ndim, count = a->type == TS_ATTR_ints ? a->n : ndim;
  bool reduced[TS_MAX_RANK] = {false};
  for (int i = 0; a->type == TS_ATTR_ints && i < count; i++)
    reduced[a->ints[i] < 0 ? a->ints[i] + ndim : a->ints[i]] = true;
  if (a->type != TS_ATTR_ints) return ndim > 0;
  for (int i = ndim - count; i < ndim; i++)
    if (i < 0 || !reduced[i]) return false;
  return count > 0;
}

static const struct {
  TsOp op;
  TsRowFn *fn;
  bool (*fits)(const TsNode *n);
} table[] = {
    {TS_OP_sum, sum, last_axes},
    {TS_OP_prod, prod, last_axes},
    {TS_OP_max, max, last_axes},
    {TS_OP_min, min, last_axes},
    {TS_OP_mean, mean, last_axes},
    {TS_OP_softmax, softmax, last_axis},
    {TS_OP_log_softmax, log_softmax, last_axis},
    {TS_OP_layernorm, layernorm, NULL},
    {TS_OP_rmsnorm, rmsnorm, NULL},
    {TS_OP_softmax_grad, softmax_grad, last_axis},
    {TS_OP_log_softmax_grad, log_softmax_grad, last_axis},
};

/* The types in which rows are computed: f32 for narrower floats, or f64. */
TsRowFn *ts_sched_row(const TsNode *n) {
  if (n->op >= TS_OP_COUNT || !n->nin || !ts_dtype_is(n->in[0]->meta.dtype, TS_KIND_F))
    return NULL;
  if (ts_loss_row(n)) return ts_loss_row(n);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].op == (TsOp)n->op)
      return !table[i].fits || table[i].fits(n) ? table[i].fn : NULL;
  return NULL;
}

/* Columns fewer than a vector holds are faster as the VM walks them, several rows at a time:
 * 100000 x 3 in a third of the time. */
enum { NARROW = 16 };

static bool leading_axes(const TsNode *n) {
  const TsAttr *a = &n->attr[0];
  const TsMeta *m = &n->in[0]->meta;
  bool reduced[TS_MAX_RANK] = {false};
  if (a->type != TS_ATTR_ints || a->n >= m->ndim) return false;
  for (int i = 0; i < a->n; i++)
    reduced[a->ints[i] < 0 ? a->ints[i] + m->ndim : a->ints[i]] = true;
  for (int i = 0; i < a->n; i++)
    if (!reduced[i]) return false;
  int64_t width = ts_meta_numel(&n->out[0].meta);
  return width >= NARROW && ts_meta_numel(m) > width;
}

int ts_sched_column(const TsNode *n) {
  if (n->op >= TS_OP_COUNT || !n->nin || !ts_dtype_is(n->in[0]->meta.dtype, TS_KIND_F))
    return 0;
  switch (n->op) {
  case TS_OP_sum:
  case TS_OP_mean: return leading_axes(n) ? TS_TILE_sum : 0;
  case TS_OP_prod: return leading_axes(n) ? TS_TILE_prod : 0;
  case TS_OP_max: return leading_axes(n) ? TS_TILE_max : 0;
  case TS_OP_min: return leading_axes(n) ? TS_TILE_min : 0;
  default: return 0;
  }
}

const TsMeta *ts_sched_at(const TsNode *n) {
  return ts_sched_row(n) || ts_sched_column(n) ? &n->in[0]->meta : &n->out[0].meta;
}

/* One element a row, where the node's own shape has a row of them. */
const TsMeta *ts_sched_operand_at(const TsNode *n, TsVal v) {
  const TsMeta *at = ts_sched_at(n);
  bool lists = n->op == TS_OP_cross_entropy || n->op == TS_OP_cross_entropy_grad;
  return lists && v->meta.ndim == at->ndim - 1 ? &v->meta : at;
}

int64_t ts_sched_row_length(const TsNode *n) {
  const TsMeta *m = &n->in[0]->meta;
  int64_t length = 1;
  int count = 1;
  if (n->op == TS_OP_layernorm || n->op == TS_OP_rmsnorm)
    count = (int)n->attr[0].i;
  else if (ts_op_info((TsOp)n->op)->cls == TS_CLASS_REDUCE)
    count = n->attr[0].type == TS_ATTR_ints ? n->attr[0].n : m->ndim;
  for (int i = m->ndim - count; i < m->ndim; i++) length *= m->dim[i];
  return length;
}
