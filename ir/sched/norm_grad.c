/* Gradients of norms in a round of one row: vm/exec/norm_grad.c in terms of tiles. Sums over
 * rows are chains that go on from row to row (ir/sched/lanes.c has their order). */
#include "ir/sched/norm_grad.h"

#include "ir/sched/lower.h"

enum { MOST = 8192 /* elements of a row: threads of a block hold it, and two sums of rows */ };

static int64_t row_length(const TsNode *n) {
  const TsMeta *m = &n->in[0]->meta;
  int64_t length = 1;
  for (int i = m->ndim - (int)n->attr[0].i; i < m->ndim; i++) length *= m->dim[i];
  return length;
}

int64_t ts_sched_norm_grad(const TsNode *n) {
  bool norm = n->op == TS_OP_layernorm_grad || n->op == TS_OP_rmsnorm_grad;
  if (!norm || !ts_dtype_is(n->in[0]->meta.dtype, TS_KIND_F)) return 0;
  int64_t length = row_length(n), rows = ts_meta_numel(&n->in[0]->meta) / (length ? length : 1);
  return length > 1 && length <= MOST && rows > 1 ? length : 0;
}

/* ---- short forms */
static TsTileVal number(TsRowCall *c, double v) {
  TsTileType t = ts_tile_scalar((TsDtype)c->in[0]->type.dtype);
  return ts_tile_const(c->b, v, &t);
}

static TsTileVal sum(TsRowCall *c, TsTileVal x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  if (!x) return NULL;
  TsTileType t = ts_tile_scalar((TsDtype)x->type.dtype);
  return ts_tile_emit1(c->b, TS_TILE_sum, 1, &x, &axis, &t);
}

static TsTileVal mean(TsRowCall *c, TsTileVal x) {
  return ts_row_op2(c, TS_OP_div, sum(c, x), number(c, (double)c->n));
}

static TsTileVal fma3(TsRowCall *c, TsTileVal x, TsTileVal y, TsTileVal z) {
  return ts_tile_op3(c->b, TS_OP_fma, ts_row_spread(c, x), ts_row_spread(c, y),
                     ts_row_spread(c, z));
}

/* 1 / sqrt(q + eps) */
static TsTileVal rstd(TsRowCall *c, TsTileVal q) {
  TsTileVal r = ts_row_op2(c, TS_OP_add, q, number(c, c->node->attr[1].f));
  return ts_row_op2(c, TS_OP_div, number(c, 1), ts_tile_op1(c->b, TS_OP_sqrt, r));
}

void ts_norm_grad_row(TsRowCall *c, TsTileVal *sums) {
  bool layer = c->node->op == TS_OP_layernorm_grad;
  TsTileVal x = c->in[0], w = c->in[1], g = c->in[2];
  if (layer) x = ts_row_op2(c, TS_OP_sub, x, mean(c, x));
  TsTileVal r = rstd(c, mean(c, ts_row_op2(c, TS_OP_mul, x, x)));
  TsTileVal gw = w ? ts_row_op2(c, TS_OP_mul, g, w) : g;
  TsTileVal c2 = ts_row_op2(c, TS_OP_mul, sum(c, ts_row_op2(c, TS_OP_mul, gw, x)), r);
  c2 = ts_row_op2(c, TS_OP_mul, ts_row_op2(c, TS_OP_div, c2, number(c, (double)c->n)), r);
  TsTileVal y = layer ? ts_row_op2(c, TS_OP_sub, gw, mean(c, gw)) : gw;
  y = fma3(c, ts_tile_op1(c->b, TS_OP_neg, x), c2, y);
  c->out[0] = ts_row_op2(c, TS_OP_mul, y, r);
  int next = 0;
  if (w && sums[next]) sums[next] = fma3(c, ts_row_op2(c, TS_OP_mul, g, x), r, sums[next]);
  next += w != NULL;
  if (layer && c->node->attr[2].i && sums[next])
    sums[next] = ts_row_op2(c, TS_OP_add, sums[next], g);
}
