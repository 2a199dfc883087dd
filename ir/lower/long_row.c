/* Norms of order 2 of one long row, as of the gradients of a matrix: leaves of the canonical
 * order by blocks of their own, then in pairs. By itself a row is one block (ir/lower/reduce.c,
 * which has the definition). */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"
#include "lib/reduce.h"

typedef TsTileVal V;

enum {
  LEAF = TS_RED_LEAF,
  LEAST = 8,   /* leaves that are worth two kernels */
  MOST = 8192, /* that one block pairs */
};

typedef struct Long {
  TsDtype in, acc, out;
  int64_t n, leaves;
} Long;

static V along(TsTileBuild *b, int op, V x) {
  TsAttr axis = {.type = TS_ATTR_int};
  if (!x) return NULL;
  TsTileType t = ts_tile_scalar((TsDtype)x->type.dtype);
  return ts_tile_emit1(b, op, 1, &x, &axis, &t);
}

static V number(TsTileBuild *b, V like, double v) {
  return like ? ts_tile_const(b, v, &like->type) : NULL;
}

/* Sums of squares of each leaf, of the elements and of small ones. */
static TsTile *leaves(const Long *s) {
  TsTile *k = ts_tile_new("norm_leaves");
  if (!k) return NULL;
  V x = ts_short_param(k, "x", s->in, s->n, false);
  V y = ts_short_param(k, "y", s->acc, s->leaves, true);
  V z = ts_short_param(k, "z", s->acc, s->leaves, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(s->in, LEAF);
  TsTileAccess edge = {.edge = s->n % LEAF != 0};
  V zero = ts_tile_index(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, ts_tile_index(&b, s->leaves), 1, true, 0, NULL);
  V at = ts_tile_op2(&b, TS_OP_mul, l.i, ts_tile_index(&b, LEAF));
  V v = ts_tile_cast(&b, ts_tile_load(&b, x, &at, &t, &edge), s->acc);
  V small = ts_tile_op2(&b, TS_OP_mul, v, number(&b, v, ts_reduce_small(s->acc)));
  V sum = along(&b, TS_TILE_sum, ts_tile_op2(&b, TS_OP_mul, v, v));
  if (sum) ts_tile_store(&b, y, &l.i, sum, NULL);
  sum = along(&b, TS_TILE_sum, ts_tile_op2(&b, TS_OP_mul, small, small));
  if (sum) ts_tile_store(&b, z, &l.i, sum, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static V root(TsTileBuild *b, V memory, int64_t n) {
  TsTileType t = ts_tile_vector((TsDtype)memory->type.dtype, n);
  V zero = ts_tile_index(b, 0), x = ts_tile_load(b, memory, &zero, &t, NULL);
  return ts_tile_op1(b, TS_OP_sqrt, along(b, TS_TILE_pairs, x));
}

static TsTile *pairs(const Long *s) {
  TsTile *k = ts_tile_new("norm_pairs");
  if (!k) return NULL;
  V y = ts_short_param(k, "y", s->acc, s->leaves, false);
  V z = ts_short_param(k, "z", s->acc, s->leaves, false);
  V out = ts_short_param(k, "out", s->out, 1, true);
  TsTileBuild b = ts_tile_build(k);
  V zero = ts_tile_index(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, ts_tile_index(&b, 1), 1, true, 0, NULL);
  V whole = root(&b, y, s->leaves), small = root(&b, z, s->leaves);
  small = ts_tile_op2(&b, TS_OP_mul, small, number(&b, small, 1 / ts_reduce_small(s->acc)));
  V finite =
      ts_tile_op2(&b, TS_OP_eq, ts_tile_op2(&b, TS_OP_sub, whole, whole), number(&b, whole, 0));
  V v = ts_tile_op3(&b, TS_OP_where, finite, whole, small);
  if (v) ts_tile_store(&b, out, &zero, ts_tile_cast(&b, v, s->out), NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

int ts_lower_long_row(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *m = &n->in[0]->meta;
  TsDtype d = (TsDtype)m->dtype;
  if (n->attr[0].f != 2 || !ts_dtype_is(d, TS_KIND_F) || ts_dtype_in_blocks(d)) return 0;
  if (d != TS_DT_f32 && d != TS_DT_f64 && d != TS_DT_bf16) return 0;
  Long s = {.in = d, .acc = (TsDtype)ts_dtypes[d].accum, .n = ts_meta_numel(m)};
  s.out = (TsDtype)n->out[0].meta.dtype, s.leaves = (s.n + LEAF - 1) / LEAF;
  if (ts_meta_numel(&n->out[0].meta) != 1 || s.leaves < LEAST || s.leaves > MOST) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int from = ts_steps_in(&x, 0, NULL), size = ts_dtypes[s.acc].nbytes;
  int sums = ts_steps_temp(&x, s.leaves * size), small = ts_steps_temp(&x, s.leaves * size);
  ts_steps_add(&x, leaves(&s), (int[]){from, sums, small}, NULL);
  ts_steps_add(&x, pairs(&s), (int[]){sums, small, ts_steps_out(&x, 0, NULL)}, NULL);
  return ts_steps_end(&x, out);
}
