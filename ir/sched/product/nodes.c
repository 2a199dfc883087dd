/* Nodes of a group with a product as tiles of a round: what makes its operands, the product
 * with its epilogue, what follows it. See ir/sched/product/state.h. */
#include "ir/sched/product/state.h"

#include <string.h>

/* ---- tiles */
static void put_shape(TsProductLower *l, TsSide side) {
  l->now = side;
  l->shape[0] = side == TS_SIDE_b ? l->k : l->block[0];
  l->shape[1] = side == TS_SIDE_a ? l->k : l->block[1];
}

static TsTileType block_type(const TsProductLower *l, TsDtype d) {
  return ts_tile_type(d, 2, l->shape);
}

static TsTileVal spread(TsProductLower *l, TsTileVal x, const int64_t *axes) {
  if (!x || x->type.rank == 2) return x;
  TsTileType t = block_type(l, (TsDtype)x->type.dtype);
  return ts_tile_broadcast(&l->b, x, &t, axes);
}

/* Where a tile begins along axis i of its two. */
static TsTileVal position(TsProductLower *l, int i) {
  bool whole = l->now == (i ? TS_SIDE_a : TS_SIDE_b); /* along k */
  return whole ? ts_tile_index(&l->b, 0) : l->at[l->naxis - 2 + i];
}

/* What an operand has in this block: for each element, or one number. */
static TsTileVal load(TsProductLower *l, TsProductAccess *a) {
  TsTileVal at[TS_TILE_RANK];
  TsTileType t = {.dtype = a->v->meta.dtype};
  int batch = l->naxis - 2, n = 0;
  int64_t axes[2];
  if (a->tile) return a->tile;
  for (int i = 0; i < batch; i++)
    if (a->moves[i]) at[n++] = l->at[i];
  for (int i = 0; i < 2; i++) {
    if (!(l->now == TS_SIDE_result ? a->moves[batch + i] != 0 : a->has[i])) continue;
    at[n++] = position(l, i);
    axes[t.rank] = i;
    t.dim[t.rank++] = l->shape[i];
  }
  TsTileAccess how = {.edge = t.rank > 0};
  TsTileVal x = ts_tile_load(&l->b, a->param, at, &t, &how);
  return a->tile = t.rank ? spread(l, x, axes) : x;
}

static TsTileVal *made(TsProductLower *l, TsVal v) {
  const TsNode *n = ts_sched_root(v)->node;
  for (int i = 0; i < l->g->nnode; i++)
    if (l->g->node[i] == n) return &l->made[i];
  return NULL;
}

static TsTileVal operand(TsProductLower *l, const TsNode *n, TsVal v, TsDtype d) {
  int64_t moves[TS_TILE_RANK] = {0};
  if (ts_product_weak(v)) {
    TsTileType t = ts_tile_scalar(d);
    return ts_tile_const(&l->b, v->node->number, &t);
  }
  if (ts_product_inside(l, v)) return ts_tile_cast(&l->b, *made(l, v), d);
  if (l->now != TS_SIDE_result)
    return ts_tile_cast(&l->b, load(l, ts_product_part(l, l->now, v)), d);
  if (ts_product_moves(l, &n->out[0].meta, v, moves)) return NULL;
  return ts_tile_cast(&l->b, load(l, ts_product_access(l, v, moves)), d);
}

/* ---- the product */
static TsTileVal factor(TsProductLower *l, TsSide side) {
  TsVal v = l->product->in[side];
  if (ts_product_inside(l, v)) return ts_tile_cast(&l->b, *made(l, v), l->factor);
  put_shape(l, side);
  TsTileVal x = load(l, ts_product_part(l, side, v));
  put_shape(l, TS_SIDE_result);
  return ts_tile_cast(&l->b, x, l->factor);
}

static int put_word(TsProductLower *l, const char *word, size_t n, TsTileVal *sum) {
  const TsNode *p = l->product;
  TsVal side = NULL;
  int op = 0;
  if (n == 4 && !memcmp(word, "bias", n))
    side = p->nin > 2 ? p->in[2] : NULL;
  else if (n == 8 && !memcmp(word, "residual", n))
    side = p->nin > 3 ? p->in[3] : NULL;
  else if (n == 4 && !memcmp(word, "relu", n))
    op = TS_OP_relu;
  else if (n == 4 && !memcmp(word, "silu", n))
    op = TS_OP_silu;
  else if (n == 4 && !memcmp(word, "gelu", n))
    op = TS_OP_gelu_erf;
  else if (n == 4 && !memcmp(word, "none", n))
    return 0;
  else
    return ts_product_refuse(l, "an epilogue that is not known");
  if (op) {
    *sum = ts_tile_op1(&l->b, op, *sum);
    return 0;
  }
  TsTileVal x = side ? operand(l, p, side, l->d) : NULL;
  if (!x) return ts_product_refuse(l, "an epilogue without its operand");
  *sum = ts_tile_op2(&l->b, TS_OP_add, *sum, spread(l, x, NULL));
  return 0;
}

/* Along all of k at once. */
static TsTileVal sums(TsProductLower *l) {
  TsTileType t = block_type(l, l->d);
  TsTileVal zero = ts_tile_const(&l->b, 0, &t);
  TsTileVal a = factor(l, TS_SIDE_a), b = factor(l, TS_SIDE_b);
  TsAttr unit = {.type = l->unit ? TS_ATTR_str : TS_ATTR_none, .str = l->unit};
  return ts_tile_emit1(&l->b, TS_TILE_mma, 3, (TsTileVal[]){a, b, zero}, &unit, &t);
}

static int put_product(TsProductLower *l, TsTileVal *out) {
  const TsNode *p = l->product;
  const TsAttr *words = &p->attr[2];
  TsTileVal sum = l->square ? ts_product_square_sums(l) : sums(l);
  bool given = words->type == TS_ATTR_str;
  const char *w = given ? words->str : "";
  for (size_t n; *w; w += n + (w[n] == '_'))
    if (put_word(l, w, n = strcspn(w, "_"), &sum)) return -1;
  if (!given && p->nin > 2 && p->in[2] && put_word(l, "bias", 4, &sum)) return -1;
  if (!given && p->nin > 3 && p->in[3] && put_word(l, "residual", 8, &sum)) return -1;
  *out = ts_tile_cast(&l->b, sum, (TsDtype)p->out[0].meta.dtype);
  return 0;
}

/* ---- what follows */
static TsDtype compute_of(TsDtype d) { return (TsDtype)ts_dtypes[d].compute; }

static int put_pointwise(TsProductLower *l, const TsNode *n, TsTileVal *out) {
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  TsTileVal in[TS_MAX_IN + TS_MAX_ATTR];
  TsDtype d;
  int count = 0;
  if (ts_nodes_infer(n, &d, l->err)) return -1;
  d = compute_of(d);
  for (int i = 0; i < n->nin; i++) {
    bool condition = n->op == TS_OP_where && i == 0;
    if (!(in[count++] = operand(l, n, n->in[i], condition ? TS_DT_bool : d))) return -1;
  }
  for (int i = 0; i < o->npar; i++) {
    const TsAttr *a = &n->attr[i];
    in[count++] = ts_nodes_number(&l->b, a->type == TS_ATTR_f ? a->f : (double)a->i, d);
  }
  for (int i = 0; i < count; i++) in[i] = spread(l, in[i], NULL);
  TsTileType t = block_type(l, compute_of((TsDtype)n->out[0].meta.dtype));
  TsTileVal y = ts_tile_emit1(&l->b, n->op, count, in, NULL, &t);
  *out = ts_tile_cast(&l->b, y, (TsDtype)n->out[0].meta.dtype);
  return 0;
}

int ts_product_put(TsProductLower *l, int i) {
  const TsNode *n = l->g->node[i];
  l->b.line = ts_tile_place(l->tile, ts_graph_where(n));
  put_shape(l, (TsSide)l->side[i]);
  if (n == l->product) return put_product(l, &l->made[i]);
  if (n->op != TS_OP_cast) return put_pointwise(l, n, &l->made[i]);
  TsTileVal x = operand(l, n, n->in[0], (TsDtype)n->in[0]->meta.dtype);
  l->made[i] = ts_tile_cast(&l->b, spread(l, x, NULL), (TsDtype)n->out[0].meta.dtype);
  return x ? 0 : -1;
}

void ts_product_store(TsProductLower *l, const TsProductAccess *a) {
  TsTileVal at[TS_TILE_RANK];
  int n = 0;
  for (int i = 0; i < l->naxis; i++)
    if (a->moves[i]) at[n++] = l->at[i];
  TsTileAccess how = {.edge = true};
  ts_tile_store(&l->b, a->param, at, spread(l, *made(l, a->v), NULL), &how);
}
