/* A binary counter of subtrees: the q-th one merges with those before it as a carry runs
 * through the trailing ones of q, so that at any time level l holds at most one tree of 2^l of
 * them. At the end those that are left combine from the smallest: an unpaired one goes up
 * unchanged. */
#include "ir/tile/pass/vec.h"

enum { LEVELS = 40 };

static TsTileVal i64_of(TsVec *v, int64_t c) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  return ts_tile_bits(&v->b, (uint64_t)c, &t);
}

/* A power of two below 2^63 is a float whose exponent is its logarithm. */
TsTileVal ts_tile_vec_log2(TsVec *v, TsTileVal power) {
  TsTileType t = ts_tile_scalar(TS_DT_i32);
  TsTileVal b = ts_tile_bitcast(&v->b, ts_tile_cast(&v->b, power, TS_DT_f32), TS_DT_i32);
  b = ts_tile_op2(&v->b, TS_TILE_shr, b, ts_tile_bits(&v->b, 23, &t));
  b = ts_tile_op2(&v->b, TS_OP_sub, b, ts_tile_bits(&v->b, 127, &t));
  return ts_tile_cast(&v->b, b, TS_DT_i64);
}

TsTileVal ts_tile_vec_ones(TsVec *v, TsTileVal q) {
  TsTileVal next = ts_tile_op2(&v->b, TS_OP_add, q, i64_of(v, 1));
  TsTileVal bit =
      ts_tile_op2(&v->b, TS_OP_bitwise_and, ts_tile_op1(&v->b, TS_OP_bitwise_not, q), next);
  return ts_tile_vec_log2(v, bit);
}

VecCounter ts_tile_vec_counter(TsVec *v, const VecFold *f, int n) {
  VecCounter c = {.fold = f, .n = n, .type = ts_tile_vec_type(v, f->dtype)};
  int64_t width = c.type.rank ? c.type.dim[0] : 1;
  c.level = ts_tile_vec_local(v, f->dtype, 2, (int64_t[]){LEVELS, width * n});
  return c;
}

static TsTileVal node_at(VecCounter *c, int i, TsVec *v) {
  return i64_of(v, i * (c->type.rank ? c->type.dim[0] : 1));
}

static TsTileVal load_node(TsVec *v, VecCounter *c, TsTileVal level, int i) {
  return ts_tile_load(&v->b, c->level, (TsTileVal[]){level, node_at(c, i, v)}, &c->type, NULL);
}

static void store_node(TsVec *v, VecCounter *c, TsTileVal level, int i, TsTileVal x) {
  ts_tile_store(&v->b, c->level, (TsTileVal[]){level, node_at(c, i, v)}, x, NULL);
}

void ts_tile_vec_counter_push(TsVec *v, VecCounter *c, TsTileVal q, const TsTileVal *x) {
  TsTileVal ones = ts_tile_vec_ones(v, q), next[32], sum[32];
  TsTileLoop l = ts_tile_for(&v->b, i64_of(v, 0), ones, 1, false, c->n, x);
  for (int i = 0; i < c->n && l.carry; i++)
    next[i] = ts_tile_vec_fold_two(v, c->fold, load_node(v, c, l.i, i), l.carry[i]);
  ts_tile_for_end(&v->b, &l, next, sum);
  for (int i = 0; i < c->n; i++) store_node(v, c, ones, i, sum[i]);
}

/* What lies at a level. */
void ts_tile_vec_counter_at(TsVec *v, VecCounter *c, TsTileVal level, TsTileVal *x) {
  for (int i = 0; i < c->n; i++) x[i] = load_node(v, c, level, i);
}

/* Level l holds a tree where bit l of count is set. */
void ts_tile_vec_counter_end(TsVec *v, VecCounter *c, TsTileVal count, TsTileVal *x) {
  TsTileVal start[32], next[32];
  TsTileType out[32];
  for (int i = 0; i < c->n; i++) {
    start[i] = ts_tile_vec_fold_start(v, c->fold, 0, &c->type);
    out[i] = start[i] ? start[i]->type : c->type;
  }
  TsTileLoop l = ts_tile_for(&v->b, i64_of(v, 0), i64_of(v, LEVELS), 1, false, c->n, start);
  if (!l.carry || v->k->failed) return;
  TsTileVal bit = ts_tile_op2(&v->b, TS_OP_bitwise_and,
                              ts_tile_op2(&v->b, TS_TILE_shr, count, l.i), i64_of(v, 1));
  TsTileVal set = ts_tile_op2(&v->b, TS_OP_ne, bit, i64_of(v, 0));
  TsTileStmt *s = ts_tile_emit(&v->b, TS_TILE_if, 1, &set, NULL, c->n, out);
  TsTileBuild here = v->b;
  if (!s) return;
  v->b.at = s->region[0];
  for (int i = 0; i < c->n; i++)
    next[i] = ts_tile_vec_fold_two(v, c->fold, load_node(v, c, l.i, i), l.carry[i]);
  ts_tile_emit(&v->b, TS_TILE_yield, c->n, next, NULL, 0, NULL);
  v->b.at = s->region[1];
  ts_tile_emit(&v->b, TS_TILE_yield, c->n, l.carry, NULL, 0, NULL);
  v->b = here;
  ts_tile_for_end(&v->b, &l, s->out, x);
}
