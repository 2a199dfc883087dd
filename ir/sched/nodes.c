/* A node of a group as tile operations of a round. */
#include <math.h>

#include "ir/sched/loss.h"
#include "ir/sched/lower.h"
#include "ir/sched/norm_grad.h"
#include "ir/sched/random.h"
#include "ir/sched/rows.h"

TsTileType ts_nodes_type(const TsLower *l, TsDtype d, int rank) {
  int64_t dim[2] = {rank == 2 ? l->m : l->n, l->n};
  return ts_tile_type(d, rank, dim);
}

int ts_nodes_index(const TsLower *l, const TsNode *n) {
  for (int i = 0; i < l->g->nnode; i++)
    if (l->g->node[i] == n) return i;
  return -1;
}

TsTileVal *ts_nodes_made(TsLower *l, TsVal v) {
  TsVal root = ts_sched_root(v);
  return &l->made[ts_nodes_index(l, root->node) * TS_MAX_OUT + root->index];
}

/* A number that is a size of the kernel. */
static TsTileVal varying(TsLower *l, TsVal v, TsDtype d) {
  static const char *const name[TS_TILE_DIMS] = {"a0", "a1", "a2", "a3", "a4",
                                                 "a5", "a6", "a7", "a8"};
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  int k = 0;
  while (k < l->k->ndim && l->number[k] != v) k++;
  if (k == TS_TILE_DIMS) return ts_lower_refuse(l, "more numbers than a kernel takes"), NULL;
  if (k == l->k->ndim) ts_tile_size(l->k, name[k]);
  l->number[k] = v;
  TsAttr which = {.type = TS_ATTR_int, .i = k};
  TsTileVal bits = ts_tile_emit1(&l->b, TS_TILE_dim, 0, NULL, &which, &index);
  return ts_tile_cast(&l->b, ts_tile_bitcast(&l->b, bits, TS_DT_f64), d);
}

TsTileVal ts_nodes_operand(TsLower *l, const TsNode *n, TsVal v, TsDtype d) {
  if (v->node->op == TS_NODE_number && l->s->numbers_vary) return varying(l, v, d);
  if (v->node->op == TS_NODE_number) {
    TsTileType t = ts_tile_scalar(d);
    return ts_tile_const(&l->b, v->node->number, &t);
  }
  if (ts_access_inside(l, v)) return ts_tile_cast(&l->b, *ts_nodes_made(l, v), d);
  TsAccess *a = ts_access_of(l, n, v);
  return a ? ts_tile_cast(&l->b, ts_access_load(l, a), d) : NULL;
}

/* Tiles of one axis lie along the last one. */
TsTileVal ts_nodes_spread(TsLower *l, TsTileVal x, int rank) {
  if (!x || x->type.rank >= rank) return x;
  TsTileType t = ts_nodes_type(l, (TsDtype)x->type.dtype, rank);
  return ts_tile_broadcast(&l->b, x, &t, x->type.rank ? (int64_t[]){1} : NULL);
}

TsDtype ts_nodes_compute(TsDtype d) { return (TsDtype)ts_dtypes[d].compute; }

static TsTileVal *result(TsLower *l, const TsNode *n) {
  return &l->made[ts_nodes_index(l, n) * TS_MAX_OUT];
}

int ts_nodes_infer(const TsNode *n, TsDtype *out, TsError *err) {
  const TsMeta *m[TS_MAX_IN];
  for (int i = 0; i < n->nin; i++) m[i] = n->in[i] ? &n->in[i]->meta : NULL;
  TsInfer inf = {.op = (TsOp)n->op, .nin = n->nin, .in = m, .attr = n->attr, .err = err};
  if (ts_op_infer(&inf)) return -1;
  *out = inf.compute;
  return 0;
}

TsTileVal ts_nodes_number(TsTileBuild *b, double v, TsDtype d) {
  static const double MOST_EXACT = 9007199254740992.0; /* 2^53, of constants */
  TsTileType t = ts_tile_scalar(d);
  int64_t lo, hi;
  if (!ts_dtype_is(d, TS_KIND_I | TS_KIND_U)) return ts_tile_const(b, v, &t);
  ts_dtype_int_range(d, &lo, &hi);
  int64_t i = v >= (double)hi ? hi : v <= (double)lo ? lo : (int64_t)v;
  if (v > (double)lo && v < (double)hi && v != (double)i) return ts_tile_const(b, v, &t);
  if (fabs((double)i) <= MOST_EXACT) return ts_tile_const(b, (double)i, &t);
  return ts_tile_bits(b, (uint64_t)i, &t);
}

/* An operand of a row that computes in type, by a kernel that does in d. */
static TsTileVal operand_of(TsLower *l, const TsNode *n, int i, TsDtype type, TsDtype d) {
  if (n->op == TS_OP_where && i == 0) return ts_nodes_operand(l, n, n->in[i], TS_DT_bool);
  if (!n->in[i]->meta.weak || type == d || !ts_op_info((TsOp)n->op)->picks)
    return ts_nodes_operand(l, n, n->in[i], d);
  if (n->in[i]->node->op == TS_NODE_number && !l->s->numbers_vary) {
    TsTileType t = ts_tile_scalar(d);
    return ts_tile_const(&l->b, ts_dtype_stored(type, n->in[i]->node->number), &t);
  }
  TsTileVal v = ts_nodes_operand(l, n, n->in[i], type);
  return v ? ts_tile_cast(&l->b, v, d) : NULL;
}

static int put_pointwise(TsLower *l, const TsNode *n) {
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  TsTileVal in[TS_MAX_IN + TS_MAX_ATTR];
  TsDtype type, d, made = ts_nodes_compute((TsDtype)n->out[0].meta.dtype);
  int rank = 0, count = 0;
  if (ts_nodes_infer(n, &type, l->err)) return -1;
  d = ts_nodes_compute(type);
  for (int i = 0; i < n->nin; i++) {
    if (!(in[count] = operand_of(l, n, i, type, d))) return -1;
    if (in[count]->type.rank > rank) rank = in[count]->type.rank;
    count++;
  }
  for (int i = 0; i < o->npar; i++) {
    const TsAttr *a = &n->attr[i];
    double v = a->type == TS_ATTR_f ? a->f : (double)a->i;
    if (ts_op_info((TsOp)n->op)->picks) v = ts_dtype_stored(type, v);
    in[count++] = ts_nodes_number(&l->b, v, d);
  }
  for (int i = 0; i < count; i++) in[i] = ts_nodes_spread(l, in[i], rank);
  TsTileType t = ts_nodes_type(l, made, rank);
  TsTileVal y = ts_tile_emit1(&l->b, n->op, count, in, NULL, &t);
  *result(l, n) = ts_tile_cast(&l->b, y, (TsDtype)n->out[0].meta.dtype);
  return 0;
}

static int put_cast(TsLower *l, const TsNode *n) {
  TsTileVal x = ts_nodes_operand(l, n, n->in[0], (TsDtype)n->in[0]->meta.dtype);
  *result(l, n) = ts_tile_cast(&l->b, x, (TsDtype)n->out[0].meta.dtype);
  return x ? 0 : -1;
}

static int put_row(TsLower *l, const TsNode *n) {
  TsRowCall c = {.b = &l->b, .node = n, .n = l->n};
  TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i]) continue;
    if (!(c.in[i] = ts_nodes_operand(l, n, n->in[i], d))) return -1;
    c.in[i] = ts_nodes_spread(l, c.in[i], 1);
  }
  ts_sched_row(n)(&c);
  for (int i = 0; i < n->nout; i++)
    result(l, n)[i] = ts_tile_cast(&l->b, c.out[i], (TsDtype)n->out[i].meta.dtype);
  return 0;
}

TsTileVal ts_nodes_reduce(TsLower *l, int op, TsTileVal x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  if (!x) return NULL;
  TsTileType t = ts_nodes_type(l, (TsDtype)x->type.dtype, x->type.rank - 1);
  return ts_tile_emit1(&l->b, op, 1, &x, &axis, &t);
}

static int put_column(TsLower *l, const TsNode *n) {
  TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
  TsTileVal x = ts_nodes_operand(l, n, n->in[0], d);
  TsTileVal y = ts_nodes_reduce(l, ts_sched_column(n), ts_nodes_spread(l, x, 2));
  if (y && n->op == TS_OP_mean)
    y = ts_tile_op2(&l->b, TS_OP_div, y, ts_tile_const(&l->b, (double)l->m, &y->type));
  *result(l, n) = ts_tile_cast(&l->b, y, (TsDtype)n->out[0].meta.dtype);
  return x ? 0 : -1;
}

static int put_draw(TsLower *l, const TsNode *n) {
  TsTileVal y = ts_sched_draw(l, n);
  *result(l, n) = ts_tile_cast(&l->b, y, (TsDtype)n->out[0].meta.dtype);
  return y ? 0 : -1;
}

int ts_nodes_put(TsLower *l, const TsNode *n) {
  l->b.line = ts_tile_place(l->k, ts_graph_where(n));
  if (l->columns && ts_sched_column(n)) return put_column(l, n);
  if (ts_loss_row(n)) return ts_loss_put(l, n);
  if (ts_sched_row(n)) return put_row(l, n);
  if (ts_sched_draws(n)) return put_draw(l, n);
  return n->op == TS_OP_cast ? put_cast(l, n) : put_pointwise(l, n);
}

void ts_nodes_store(TsLower *l, bool full) {
  for (int i = 0; i < l->naccess; i++) {
    TsAccess *a = &l->access[i];
    if (a->written && ts_access_full(l, &a->v->meta) == full)
      ts_access_store(l, a, *ts_nodes_made(l, a->v));
  }
}

int ts_nodes_put_ends(TsLower *l) {
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (ts_sched_norm_grad(n) || ts_sched_column(n) || ts_access_full(l, ts_sched_at(n)))
      continue;
    if (ts_nodes_put(l, n)) return -1;
  }
  ts_nodes_store(l, false);
  return 0;
}
