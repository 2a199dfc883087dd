/* Losses of rows with a target: vm/exec/loss.c and vm/exec/loss_grad.c in terms of tiles.
 *
 * The number at a target's place is the largest of the row's numbers with all others at -inf:
 * the row may be made in the kernel, and is gone over for its maximum anyway. A mean over rows
 * needs two more loops: the rows that count are counted before, and losses, which the rounds
 * leave in memory, are added up after. Targets out of range are refused before the kernel runs
 * (TsSchedGuard), by whoever calls it; the kernel itself takes any. */
#include "ir/sched/loss.h"

#include <math.h>

enum { MEAN, SUM, NONE, MOST_ROWS = 1 << 24 /* f32 counts exactly up to there */ };

static bool grad(const TsNode *n) { return n->op == TS_OP_cross_entropy_grad; }

static bool is_loss(const TsNode *n) { return n->op == TS_OP_cross_entropy || grad(n); }

static bool indexed(const TsNode *n) {
  return !is_loss(n) || !ts_dtype_is(n->in[1]->meta.dtype, TS_KIND_F);
}

bool ts_loss_reduced(const TsNode *n) {
  return n->op == TS_OP_cross_entropy && n->attr[0].i != NONE;
}

static bool divides(const TsNode *n) { return is_loss(n) && n->attr[0].i == MEAN; }

bool ts_loss_counts(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (is_loss(g->node[i]) && (ts_loss_reduced(g->node[i]) || divides(g->node[i])))
      return true;
  return false;
}

/* ---- tiles */
static TsTileVal along(TsRowCall *c, int op, TsTileVal x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType t = ts_tile_scalar((TsDtype)(x ? x->type.dtype : TS_DT_f32));
  return x ? ts_tile_emit1(c->b, op, 1, &x, &axis, &t) : NULL;
}

static TsTileVal number(TsRowCall *c, double v) {
  TsTileType t = ts_tile_scalar((TsDtype)c->in[0]->type.dtype);
  return ts_tile_const(c->b, t.dtype == TS_DT_f32 ? (double)(float)v : v, &t);
}

static TsTileVal choose(TsRowCall *c, TsTileVal cond, TsTileVal x, TsTileVal y) {
  return ts_tile_op3(c->b, TS_OP_where, ts_row_spread(c, cond), ts_row_spread(c, x),
                     ts_row_spread(c, y));
}

/* Where the row is at its target: [n]. A target that is none is nowhere. */
static TsTileVal at_target(TsRowCall *c) {
  TsTileVal to = c->in[1], zero = ts_tile_index(c->b, 0);
  if (c->node->op == TS_OP_gather) /* from the end */
    to = ts_tile_op3(c->b, TS_OP_where, ts_tile_op2(c->b, TS_OP_lt, to, zero),
                     ts_tile_op2(c->b, TS_OP_add, to, ts_tile_index(c->b, c->n)), to);
  TsTileType t = ts_tile_vector(TS_DT_i32, c->n);
  TsTileVal i = ts_tile_emit1(c->b, TS_TILE_iota, 0, NULL, NULL, &t);
  return ts_row_op2(c, TS_OP_eq, i, ts_tile_cast(c->b, to, TS_DT_i32));
}

static TsTileVal picked(TsRowCall *c) {
  if (c->at_target) return c->at_target;
  return along(c, TS_TILE_max, choose(c, at_target(c), c->in[0], number(c, -INFINITY)));
}

static TsTileVal ignored(TsRowCall *c) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  TsTileVal none = ts_tile_bits(c->b, (uint64_t)c->node->attr[1].i, &t);
  return ts_tile_op2(c->b, TS_OP_eq, c->in[1], none);
}

static double smoothing(const TsRowCall *c) { return c->node->attr[2].f; }

/* p', the probabilities with what smoothing takes and gives. */
static TsTileVal probabilities(TsRowCall *c) {
  double e = smoothing(c);
  if (e == 0) return c->in[1];
  TsTileVal p = ts_row_op2(c, TS_OP_mul, c->in[1], number(c, 1 - e));
  return ts_row_op2(c, TS_OP_add, p, number(c, e / (double)c->n));
}

/* x - max, and the sum of e to it. */
static TsTileVal exps(TsRowCall *c, TsTileVal *d, TsTileVal *m, TsTileVal *s) {
  *m = along(c, TS_TILE_max, c->in[0]);
  *d = ts_row_op2(c, TS_OP_sub, c->in[0], *m);
  TsTileVal e = ts_tile_op1(c->b, TS_OP_exp, *d);
  *s = along(c, TS_TILE_sum, e);
  return e;
}

static void cross_entropy(TsRowCall *c) {
  TsTileVal d, m, s, e = smoothing(c) != 0 ? c->in[0] : NULL;
  exps(c, &d, &m, &s);
  s = ts_tile_op1(c->b, TS_OP_log, s);
  TsTileVal shifted = ts_row_op2(c, TS_OP_sub, d, s);
  if (!indexed(c->node)) {
    shifted = ts_row_op2(c, TS_OP_mul, shifted, probabilities(c));
    c->out[0] = ts_tile_op1(c->b, TS_OP_neg, along(c, TS_TILE_sum, shifted));
    return;
  }
  TsTileVal n = ts_row_op2(c, TS_OP_sub, ts_row_op2(c, TS_OP_add, m, s), picked(c));
  if (e) {
    TsTileVal q = ts_tile_op1(c->b, TS_OP_neg, along(c, TS_TILE_sum, shifted));
    n = ts_row_op2(c, TS_OP_mul, n, number(c, 1 - smoothing(c)));
    n = ts_row_op2(c, TS_OP_add, n,
                   ts_row_op2(c, TS_OP_mul, q, number(c, smoothing(c) / (double)c->n)));
  }
  c->out[0] = ts_tile_op3(c->b, TS_OP_where, ignored(c), number(c, 0), n);
}

static void cross_entropy_grad(TsRowCall *c) {
  TsTileVal d, m, s, e = exps(c, &d, &m, &s), g = c->in[2];
  TsTileVal y = ts_row_op2(c, TS_OP_mul, e, ts_row_op2(c, TS_OP_div, number(c, 1), s));
  if (!indexed(c->node)) {
    TsTileVal p = probabilities(c);
    y = ts_row_op2(c, TS_OP_sub, ts_row_op2(c, TS_OP_mul, y, along(c, TS_TILE_sum, p)), p);
    c->out[0] = ts_row_op2(c, TS_OP_mul, y, g);
    return;
  }
  y = ts_row_op2(c, TS_OP_sub, y, number(c, smoothing(c) / (double)c->n));
  y = choose(c, at_target(c), ts_row_op2(c, TS_OP_sub, y, number(c, 1 - smoothing(c))), y);
  y = ts_row_op2(c, TS_OP_mul, y, g);
  c->out[0] = choose(c, ignored(c), number(c, 0), y);
}

static void gather(TsRowCall *c) { c->out[0] = picked(c); }

/* ---- which */
static bool last_of_row(const TsNode *n) {
  const TsMeta *x = &n->in[0]->meta, *i = &n->in[1]->meta;
  int64_t axis = n->attr[0].i;
  if (axis != -1 && axis != x->ndim - 1) return false;
  if (x->ndim == 0 || i->dim[i->ndim - 1] != 1) return false;
  for (int k = 0; k < x->ndim - 1; k++)
    if (x->dim[k] != i->dim[k]) return false;
  return true;
}

TsRowFn *ts_loss_row(const TsNode *n) {
  if (n->op >= TS_OP_COUNT || n->nin < 2) return NULL;
  const TsMeta *x = &n->in[0]->meta;
  if (!x->ndim || x->dim[x->ndim - 1] >= INT32_MAX || ts_meta_numel(x) == 0) return NULL;
  switch (n->op) {
  case TS_OP_gather: return last_of_row(n) ? gather : NULL;
  case TS_OP_cross_entropy:
  case TS_OP_cross_entropy_grad:
    if (ts_meta_numel(x) / x->dim[x->ndim - 1] > MOST_ROWS) return NULL;
    return grad(n) ? cross_entropy_grad : cross_entropy;
  default: return NULL;
  }
}

bool ts_sched_indexes(const TsNode *n, TsVal v) {
  bool row = n->op == TS_OP_gather || is_loss(n);
  return row && n->nin > 1 && n->in[1] == v && indexed(n) && ts_sched_row(n);
}

/* ---- before and after the rows */
static int64_t rows_of(const TsLower *l) {
  int64_t n = 1;
  for (int i = 0; i < l->space.naxis - l->space.nrow; i++) n *= l->space.axis[i];
  return n;
}

static TsDtype wide_of(const TsNode *n) {
  return ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
}

/* How many rows count, in n's wide type: of all targets at once. */
static TsTileVal count(TsLower *l, const TsNode *n) {
  TsTileType one = ts_tile_scalar(wide_of(n)), scalar = ts_tile_scalar(TS_DT_i64);
  int64_t rows = rows_of(l);
  if (!indexed(n)) return ts_tile_const(&l->b, (double)rows, &one);
  TsAccess *a = ts_access_of(l, n, n->in[1]);
  TsTileVal zero = ts_tile_index(&l->b, 0);
  if (!a || a->param->type.rank > 1) return ts_lower_refuse(l, "targets that lie apart"), NULL;
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType t = ts_tile_vector((TsDtype)a->v->meta.dtype, rows);
  if (!a->param->type.rank) t = ts_tile_scalar((TsDtype)t.dtype); /* one row */
  TsTileVal x = ts_tile_load(&l->b, a->param, &zero, &t, NULL);
  if (!(x = ts_tile_cast(&l->b, x, TS_DT_i64))) return NULL;
  TsTileVal none = ts_tile_bits(&l->b, (uint64_t)n->attr[1].i, &x->type);
  x = ts_tile_cast(&l->b, ts_tile_op2(&l->b, TS_OP_ne, x, none), TS_DT_i64);
  if (x && x->type.rank) x = ts_tile_emit1(&l->b, TS_TILE_sum, 1, &x, &axis, &scalar);
  return ts_tile_cast(&l->b, x, wide_of(n));
}

static TsTileVal scratch(TsLower *l, TsDtype d, int64_t n) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_alloc(&l->b, TS_SPACE_scratch, &t);
}

static TsTileLoop once(TsLower *l) {
  return ts_tile_for(&l->b, ts_tile_index(&l->b, 0), ts_tile_index(&l->b, 1), 1, true, 0, NULL);
}

int ts_loss_open(TsLower *l) {
  bool any = false;
  l->kept = ts_arena_alloc(&l->k->arena, sizeof *l->kept * (size_t)l->g->nnode);
  if (!l->kept) return ts_error_memory(l->err);
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (ts_loss_reduced(n)) l->kept[k] = scratch(l, wide_of(n), rows_of(l));
    if (grad(n) && divides(n)) l->kept[k] = scratch(l, wide_of(n), 1), any = true;
  }
  if (!any) return 0;
  TsTileLoop loop = once(l);
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (!grad(n) || !l->kept[k]) continue;
    TsTileVal zero = ts_tile_index(&l->b, 0), x = count(l, n);
    if (!x) return -1;
    ts_tile_store(&l->b, l->kept[k], &zero, x, NULL);
  }
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return 0;
}

/* The loss of all rows. */
static TsTileVal total(TsLower *l, int k) {
  const TsNode *n = l->g->node[k];
  TsTileType t = ts_tile_vector(wide_of(n), rows_of(l)), one = ts_tile_scalar(wide_of(n));
  TsTileVal zero = ts_tile_index(&l->b, 0);
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileVal x = ts_tile_load(&l->b, l->kept[k], &zero, &t, NULL);
  x = ts_tile_emit1(&l->b, TS_TILE_sum, 1, &x, &axis, &one);
  if (!divides(n)) return x;
  TsTileVal c = count(l, n);
  return c ? ts_tile_op2(&l->b, TS_OP_div, x, c) : NULL;
}

int ts_loss_close(TsLower *l) {
  TsTileLoop loop = {0};
  for (int i = 0; i < l->naccess; i++) {
    TsAccess *a = &l->access[i];
    if (!a->written || !ts_loss_reduced(a->v->node)) continue;
    if (!loop.stmt) loop = once(l);
    TsTileVal x = total(l, ts_nodes_index(l, a->v->node));
    if (!x) return -1;
    ts_access_store(l, a, ts_tile_cast(&l->b, x, (TsDtype)a->v->meta.dtype));
  }
  if (loop.stmt) ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return 0;
}

/* ---- a round */
static TsTileVal row_index(TsLower *l) {
  TsTileVal at = NULL;
  int64_t step = 1;
  for (int i = l->space.naxis - l->space.nrow; i-- > 0; step *= l->space.axis[i]) {
    if (l->space.axis[i] == 1) continue;
    TsTileVal x = l->at[i];
    if (step > 1) x = ts_tile_op2(&l->b, TS_OP_mul, x, ts_tile_index(&l->b, step));
    at = at ? ts_tile_op2(&l->b, TS_OP_add, at, x) : x;
  }
  return at ? at : ts_tile_index(&l->b, 0);
}

/* The gradient of a row's loss. */
static TsTileVal gradient(TsLower *l, const TsNode *n, TsTileVal g) {
  TsTileType t = ts_tile_scalar(wide_of(n));
  TsTileVal zero = ts_tile_index(&l->b, 0);
  if (!g || !divides(n)) return g;
  TsTileVal c = ts_tile_load(&l->b, l->kept[ts_nodes_index(l, n)], &zero, &t, NULL);
  return ts_tile_op2(&l->b, TS_OP_div, g, c);
}

/* Element `at` of a row that was loaded, and perhaps converted: one load more, not another walk.
 * NULL: it is made in the kernel. */
static TsTileVal element(TsLower *l, TsTileVal x, TsTileVal at) {
  const TsTileStmt *s = x ? x->stmt : NULL;
  TsTileVal place[TS_TILE_RANK];
  if (s && s->op == TS_TILE_cast)
    return ts_tile_cast(&l->b, element(l, s->in[0], at), (TsDtype)x->type.dtype);
  if (!s || s->op != TS_TILE_load || x->type.rank != 1 || ts_tile_attr(s, "edge")->i)
    return NULL;
  const TsAttr *axes = ts_tile_attr(s, "axes");
  int last = s->in[0]->type.rank - 1;
  if (axes->type == TS_ATTR_ints && axes->n && axes->ints[0] != last) return NULL;
  for (int i = 0; i <= last; i++) place[i] = s->in[1 + i];
  place[last] = ts_tile_op2(&l->b, TS_OP_add, place[last], at);
  TsTileType t = ts_tile_scalar((TsDtype)x->type.dtype);
  return ts_tile_load(&l->b, s->in[0], place, &t, NULL);
}

/* A GPU walks a long row once more for each of its reductions. A target that is none is the
 * first element: nobody looks at what comes of it. */
static TsTileVal element_at_target(TsLower *l, const TsRowCall *c) {
  bool gpu = ts_target_gpu(l->s->target);
  if (!gpu || !indexed(c->node) || !c->in[1] || c->in[1]->type.rank) return NULL;
  TsTileVal to = c->in[1], zero = ts_tile_index(&l->b, 0), n = ts_tile_index(&l->b, c->n);
  if (c->node->op == TS_OP_gather) /* from the end */
    to = ts_tile_op3(&l->b, TS_OP_where, ts_tile_op2(&l->b, TS_OP_lt, to, zero),
                     ts_tile_op2(&l->b, TS_OP_add, to, n), to);
  TsTileVal in = ts_tile_op2(&l->b, TS_TILE_ult, to, n);
  return element(l, c->in[0], ts_tile_op3(&l->b, TS_OP_where, in, to, zero));
}

int ts_loss_put(TsLower *l, const TsNode *n) {
  TsRowCall c = {.b = &l->b, .node = n, .n = l->n};
  for (int i = 0; i < n->nin; i++) {
    TsDtype d = i == 1 && indexed(n) ? TS_DT_i64 : wide_of(n);
    if (!(c.in[i] = ts_nodes_operand(l, n, n->in[i], d))) return -1;
  }
  if (!(c.in[0] = ts_row_spread(&c, c.in[0]))) return ts_error_memory(l->err);
  if (grad(n)) c.in[2] = gradient(l, n, c.in[2]);
  c.at_target = n->op == TS_OP_cross_entropy_grad ? NULL : element_at_target(l, &c);
  ts_loss_row(n)(&c);
  int k = ts_nodes_index(l, n);
  if (ts_loss_reduced(n)) {
    TsTileVal at = row_index(l);
    ts_tile_store(&l->b, l->kept[k], &at, c.out[0], NULL);
  } else {
    l->made[k * TS_MAX_OUT] = ts_tile_cast(&l->b, c.out[0], (TsDtype)n->out[0].meta.dtype);
  }
  return 0;
}

/* ---- targets in range */
void ts_loss_guards(const TsLower *l, TsSchedKernel *out) {
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (n->nin < 2 || !ts_sched_indexes(n, n->in[1])) continue;
    for (int i = 0; i < l->k->nin; i++)
      if (out->value[i] == n->in[1] && out->nguard < TS_SCHED_GUARDS) {
        out->guard[out->nguard++] = (TsSchedGuard){i, n, 1};
        break;
      }
  }
}
