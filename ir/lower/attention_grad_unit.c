/* The gradients of attention of 16-bit floats on a matrix unit that makes squares
 * (ir/tile/square.h), in block form. The definition is vm/drive/attention_grad.c's, but that p
 * and dt are rounded to the inputs' type before they are multiplied, and that products are the
 * unit's.
 *
 * Four phases. The first leaves delta of each row, the second u and r, over blocks of keys in
 * order as the forward pass walks them (ir/sched/attention.c): they are its numbers. In the
 * third a round is a block of query rows of one head, which walks the keys for dq; in the
 * fourth a block of keys of one key head, which walks the query heads and blocks of rows
 * upwards and carries dk and dv. There tiles have keys as their rows, so p and dt are operands
 * as they are made. Each element is one chain of one round, and what a row does not see adds
 * +0, so that no bit depends on how blocks are cut; on the blocks of keys over which l is
 * summed alone, which the target and the heads decide. Where dt is wanted as the gradient of
 * the scores, the third phase walks all keys and leaves it. With a sink a fifth phase has a
 * round for each head, which adds up what all rows give.
 *
 * Operands that a loop does not change (queries and their gradients, keys and values) lie in
 * shared memory before it. Rounds have so many rows that these and what a step adds fit in 64
 * KiB. Rows of the second phase are whole ones of a wave; those of later phases are shared by
 * two waves where heads are wide or waves narrow, since a lane has half as many sums then. Of
 * "dpas" a sub-group of 16 lanes has whole rows in all phases (jit/emit/simt/intel_rows.c), 16
 * of them, of the second 32. */
#include <math.h>
#include <string.h>

#include "ir/lower/attention_mask.h"
#include "ir/lower/row.h"
#include "ir/sched/attention.h"
#include "ir/sched/attention_forms.h"

typedef TsTileVal V;

enum {
  WAVES = 8,    /* of a block */
  OWN = 128,    /* rows of a round, 16 for each of them; half as many of wide heads */
  NARROW = 64,  /* heads up to this are not wide */
  WIDEST = 128, /* heads for which lanes have registers */
  FEW = 32,  /* of a step on waves of 32 lanes, each of which has twice as many sums; of a round
                   as of wide heads */
  SUMS = 32, /* rows of a round that makes delta; blocks of rows are multiples */
  WHOLE = 32, /* of which heads are multiples: steps of the deepest unit */
};

typedef struct Lower {
  const TsNode *n;
  TsTile *k;
  TsTileBuild *b;
  int64_t batch, heads, kv_heads, s, t, d, dv, window;
  int64_t own, step; /* of a phase: rows of a round, and of what goes by, queries or keys */
  bool wide, causal;
  double scale;
  const char *unit;
  TsDtype dtype;
  V in[5], out[3]; /* q k v out g; dq dk dv */
  V scores;        /* all of dt, or NULL */
  V sink, dsink;   /* of each head, or NULL */
  TsAttentionMask mask;
  V u, r, delta;       /* scratch, of whole rounds */
  V at_b, at_h, at_kv; /* of a round */
} Lower;

/* ---- short forms */
static V narrow(Lower *l, V x) { return ts_tile_cast(l->b, x, l->dtype); }

static V iota(Lower *l, int64_t axis, TsTileType t) {
  TsAttr a = {.type = TS_ATTR_int, .i = axis};
  return ts_tile_emit1(l->b, TS_TILE_iota, 0, NULL, &a, &t);
}

/* ---- memory */
static int64_t blocks(int64_t n, int64_t each) { return (n + each - 1) / each; }

static void put_scratch(Lower *l) {
  int64_t dim[] = {ts_tile_dim(0), l->heads, blocks(l->s, OWN) * OWN};
  TsTileType t = ts_tile_type(TS_DT_f32, 3, dim);
  V *list[3] = {&l->u, &l->r, &l->delta};
  for (int i = 0; i < 3; i++) *list[i] = ts_tile_alloc(l->b, TS_SPACE_scratch, &t);
}

/* In front of what is written. */
static void put_mask(Lower *l, TsLayoutFn *layout, void *arg) {
  int64_t size[] = {l->batch, l->heads, l->s, l->t};
  ts_attention_mask_params(&l->mask, l->k, l->n->in[3], layout, arg, size);
}

/* The same. */
static void put_sink(Lower *l, TsLayoutFn *layout, void *arg) {
  int64_t stride[TS_MAX_RANK];
  TsVal v = l->n->in[4];
  if (!v) return;
  TsTileType t = ts_tile_vector((TsDtype)v->meta.dtype, l->heads);
  ts_sched_strides(layout, arg, v, stride);
  if (l->heads > 1 && stride[0] != 1) t.strided = true, t.stride[0] = stride[0];
  l->sink = ts_tile_param(l->k, "sink", &t, false);
}

static void put_sink_slope(Lower *l) {
  if (!l->sink) return;
  TsTileType t = ts_tile_vector((TsDtype)l->n->out[l->n->nout - 1].meta.dtype, l->heads);
  l->dsink = ts_tile_param(l->k, "dsink", &t, true);
}

static void put_all_slopes(Lower *l) {
  if (!l->n->attr[3].i) return;
  TsTileType t =
      ts_tile_type(l->dtype, 4, (int64_t[]){ts_tile_size(l->k, "M"), l->heads, l->s, l->t});
  l->scores = ts_tile_param(l->k, "scores", &t, true);
}

/* Behind the last row are zeros. */
static V load(Lower *l, V m, V h, V row, int64_t nrow, int64_t ncol) {
  V at[4] = {l->at_b, h, row, num(l->b, 0)};
  bool keys = m == l->in[1] || m == l->in[2];
  TsTileType t = tile2(l->dtype, nrow, ncol);
  TsTileAccess a = {.edge = keys ? l->t % nrow != 0 : l->s % (nrow == SUMS ? OWN : nrow) != 0};
  return ts_tile_load(l->b, m, at, &t, &a);
}

static V load_queries(Lower *l, V row, int64_t n) {
  return load(l, l->in[0], l->at_h, row, n, l->d);
}
static V load_slopes(Lower *l, V row, int64_t n) {
  return load(l, l->in[4], l->at_h, row, n, l->dv);
}
static V load_keys(Lower *l, V key, int64_t n) {
  return load(l, l->in[1], l->at_kv, key, n, l->d);
}
static V load_values(Lower *l, V key, int64_t n) {
  return load(l, l->in[2], l->at_kv, key, n, l->dv);
}

static V load_numbers(Lower *l, V m, V row, int64_t n) {
  V at[3] = {l->at_b, l->at_h, row};
  TsTileType t = ts_tile_vector(TS_DT_f32, n);
  return ts_tile_load(l->b, m, at, &t, NULL);
}

static void store_numbers(Lower *l, V m, V row, V x) {
  V at[3] = {l->at_b, l->at_h, row};
  if (x) ts_tile_store(l->b, m, at, x, NULL);
}

/* x scale + 0 */
static void store(Lower *l, V m, V h, V row, V x, double scale) {
  V at[4] = {l->at_b, h, row, num(l->b, 0)};
  TsTileAccess a = {.edge = (m == l->out[0] ? l->s : l->t) % l->own != 0};
  ts_tile_store(l->b, m, at, narrow(l, ended(l->b, x, scale)), &a);
}

/* ---- what is seen */
/* Columns [lo, hi) of a tile that each of its rows sees; NULL: no limit. */
typedef struct Sight {
  V lo, hi;
} Sight;

/* For each row of a round: first + i. */
static V numbered(Lower *l, V first) {
  TsTileType t = ts_tile_vector(TS_DT_i32, l->own);
  TsTileVal x = ts_tile_broadcast(l->b, ts_tile_cast(l->b, first, TS_DT_i32), &t, NULL);
  return op2(l->b, TS_OP_add, x, iota(l, 0, t));
}

static V least(Lower *l, V x, V y) { return x ? op2(l->b, TS_OP_minimum, x, y) : y; }

/* Of rows that are queries: keys of the block. */
static Sight of_query(Lower *l, V row, V key) {
  Sight s = {NULL, NULL};
  V at = op2(l->b, TS_OP_sub, plus(l->b, row, l->t - l->s), key);
  TsTileType t = ts_tile_vector(TS_DT_i32, l->own);
  if (l->causal) s.hi = numbered(l, plus(l->b, at, 1));
  if (l->window) s.lo = numbered(l, plus(l->b, at, 1 - l->window));
  if (l->t % l->step) {
    V left = ts_tile_cast(l->b, op2(l->b, TS_OP_sub, num(l->b, l->t), key), TS_DT_i32);
    s.hi = least(l, s.hi, ts_tile_broadcast(l->b, left, &t, NULL));
  }
  return s;
}

/* Of rows that are keys: queries of the block. Those behind the last one are zeros. */
static Sight of_key(Lower *l, V key, V row) {
  Sight s = {NULL, NULL};
  V at = op2(l->b, TS_OP_sub, plus(l->b, key, l->s - l->t), row);
  if (l->causal) s.lo = numbered(l, at);
  if (l->window) s.hi = numbered(l, plus(l->b, at, l->window));
  return s;
}

static V shown(Lower *l, const Sight *s, V x, double hidden) {
  TsTileType t = tile2(TS_DT_i32, l->own, l->step);
  if (!x || (!s->lo && !s->hi)) return x;
  V i = iota(l, 1, t), none = full(l->b, hidden, x->type);
  if (s->hi) x = choose(l->b, op2(l->b, TS_OP_lt, i, over_like(l->b, s->hi, &t, 0)), x, none);
  if (s->lo) x = choose(l->b, op2(l->b, TS_OP_ge, i, over_like(l->b, s->lo, &t, 0)), x, none);
  return x;
}

/* What rows that see nothing of the block had: a NaN there does them no harm. */
static V taken(Lower *l, const Sight *s, V now, V before) {
  TsTileType t = ts_tile_vector(TS_DT_i32, l->own);
  if (!now || (!l->causal && !l->window)) return now;
  V zero = full(l->b, 0, t), end = full(l->b, l->step, t);
  V hi = least(l, s->hi, end), lo = s->lo ? op2(l->b, TS_OP_maximum, s->lo, zero) : zero;
  return choose(l->b, over_like(l->b, op2(l->b, TS_OP_lt, lo, hi), &now->type, 0), now, before);
}

/* Blocks of keys that some query of a round sees, or all: [*lo, *hi). */
static void keys_seen(Lower *l, V row, bool all, V *lo, V *hi) {
  *lo = num(l->b, 0), *hi = num(l->b, blocks(l->t, l->step));
  if (all) return;
  if (l->window) {
    V first = plus(l->b, row, l->t - l->s - l->window + 1);
    *lo = op2(l->b, TS_OP_maximum, *lo, op2(l->b, TS_OP_floordiv, first, num(l->b, l->step)));
  }
  if (!l->causal) return;
  V last = plus(l->b, row, l->own - 1 + l->t - l->s);
  last = plus(l->b, op2(l->b, TS_OP_floordiv, last, num(l->b, l->step)), 1);
  *hi = op2(l->b, TS_OP_minimum, *hi, last);
}

/* Blocks of queries that see some key of a round. */
static void queries_seen(Lower *l, V key, V *lo, V *hi) {
  *lo = num(l->b, 0), *hi = num(l->b, blocks(l->s, l->step));
  V at = plus(l->b, key, l->s - l->t);
  if (l->causal)
    *lo = op2(l->b, TS_OP_maximum, *lo, op2(l->b, TS_OP_floordiv, at, num(l->b, l->step)));
  if (!l->window) return;
  V last =
      op2(l->b, TS_OP_floordiv, plus(l->b, at, l->own + l->window - 2), num(l->b, l->step));
  *hi = op2(l->b, TS_OP_minimum, *hi, plus(l->b, last, 1));
}

/* ---- the first phase */
/* Rounds of a phase: of blocks of queries or keys of each head. */
static TsTileLoop open(Lower *l, int64_t heads, int64_t rows, V at[3]) {
  TsTileLoop r = ts_sched_attention_rounds(l->b, heads, blocks(rows, l->own), at);
  l->at_b = at[0], l->at_h = at[1];
  return r;
}

static TsTileLoop open_queries(Lower *l, int64_t rows, V at[3]) {
  TsTileLoop r = open(l, l->heads, rows, at);
  int64_t group = l->heads / l->kv_heads;
  l->at_kv = group > 1 ? op2(l->b, TS_OP_floordiv, at[1], num(l->b, group)) : at[1];
  return r;
}

/* All that are there, for rounds of any size behind it. */
static int64_t padded(const Lower *l) { return blocks(l->s, OWN) * OWN; }

static void deltas(Lower *l) {
  V at[3];
  TsTileLoop r = open_queries(l, padded(l), at);
  V row = times(l->b, at[2], l->own), g = load_slopes(l, row, l->own);
  V out = load(l, l->in[3], l->at_h, row, l->own, l->dv);
  g = ts_tile_cast(l->b, g, TS_DT_f32), out = ts_tile_cast(l->b, out, TS_DT_f32);
  store_numbers(l, l->delta, row, reduced(l->b, TS_TILE_sum, op2(l->b, TS_OP_mul, g, out)));
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- the second phase */
static V scores(Lower *l, V a, V b, const TsMaskBlock *at) {
  TsTileType t = tile2(TS_DT_f32, l->own, l->step);
  V x = product(l->b, l->unit, a, ts_tile_transposed(l->b, b), full(l->b, 0, t));
  x = x ? op2(l->b, TS_OP_mul, x, full(l->b, l->scale, t)) : NULL;
  return ts_attention_mask_apply(&l->mask, l->b, at, x);
}

static TsMaskBlock of_rows(const Lower *l, V row, V key) {
  return (TsMaskBlock){l->at_b, l->at_h, row, key, l->own, l->step, false};
}

/* The head's, for each of a round's rows. */
static V sink_of(Lower *l) {
  TsTileType one = ts_tile_scalar((TsDtype)l->sink->type.dtype),
             t = ts_tile_vector(TS_DT_f32, l->own);
  V x = ts_tile_load(l->b, l->sink, &l->at_h, &one, NULL);
  return ts_tile_broadcast(l->b, ts_tile_cast(l->b, x, TS_DT_f32), &t, NULL);
}

/* As of one more key, which comes last. state: maximum, sum */
static void add_sink(Lower *l, V state[2]) {
  V x = sink_of(l), m = op2(l->b, TS_OP_maximum, state[0], x), base = base_of(l->b, m);
  V sum = op2(l->b, TS_OP_mul, state[1], exp_of(l->b, state[0], base));
  state[0] = m, state[1] = op2(l->b, TS_OP_add, sum, exp_of(l->b, x, base));
}

static void statistics(Lower *l) {
  V at[3], lo, hi;
  TsTileLoop round = open_queries(l, padded(l), at);
  TsTileType t = ts_tile_vector(TS_DT_f32, l->own);
  V state[2] = {full(l->b, -INFINITY, t), full(l->b, 0, t)}, row = times(l->b, at[2], l->own);
  V q = load_queries(l, row, l->own);
  keys_seen(l, row, false, &lo, &hi);
  TsTileLoop j = ts_tile_for(l->b, lo, hi, 1, false, 2, state);
  if (!j.carry) return;
  V key = times(l->b, j.i, l->step);
  Sight s = of_query(l, row, key);
  TsMaskBlock at_mask = of_rows(l, row, key);
  V x = shown(l, &s, scores(l, q, load_keys(l, key, l->step), &at_mask), -INFINITY);
  V m = op2(l->b, TS_OP_maximum, j.carry[0], reduced(l->b, TS_TILE_max, x)),
    base = base_of(l->b, m);
  if (!x || !base) return;
  V alpha = exp_of(l->b, j.carry[0], base),
    e = exp_of(l->b, x, over_like(l->b, base, &x->type, 0));
  V sum = op2(l->b, TS_OP_mul, j.carry[1], alpha);
  V next[2] = {m, op2(l->b, TS_OP_add, sum, reduced(l->b, TS_TILE_sum, e))};
  ts_tile_for_end(l->b, &j, next, state);
  if (l->sink) add_sink(l, state);
  V none = op2(l->b, TS_OP_eq, state[1], full(l->b, 0, t)), one = full(l->b, 1, t);
  V r = choose(l->b, none, full(l->b, 0, t), op2(l->b, TS_OP_div, one, state[1]));
  store_numbers(l, l->u, row, base_of(l->b, state[0])), store_numbers(l, l->r, row, r);
  ts_tile_for_end(l->b, &round, NULL, NULL);
}

/* ---- the third phase */
/* Numbers of the queries, which are rows of a tile (axis 0) or its columns. */
typedef struct Numbers {
  V u, r, delta;
  int64_t axis;
} Numbers;

/* p of scores x, and dt with dp, or NULL */
static void slopes(Lower *l, const Numbers *n, const Sight *s, V x, V dp, V *p, V *dt) {
  if (!x) return;
  V e = exp_of(l->b, x, over_like(l->b, n->u, &x->type, n->axis));
  e = op2(l->b, TS_OP_mul, e, over_like(l->b, n->r, &x->type, n->axis));
  *p = narrow(l, shown(l, s, e, 0));
  if (!dp) return;
  V by = op2(l->b, TS_OP_sub, dp, over_like(l->b, n->delta, &x->type, n->axis));
  *dt = narrow(l, shown(l, s, op2(l->b, TS_OP_mul, e, by), 0));
}

static Numbers numbers(Lower *l, V row, int64_t n, int64_t axis) {
  return (Numbers){load_numbers(l, l->u, row, n), load_numbers(l, l->r, row, n),
                   load_numbers(l, l->delta, row, n), axis};
}

static void store_slopes(Lower *l, V row, V key, V dt) {
  V at[4] = {l->at_b, l->at_h, row, key};
  TsTileAccess a = {.edge = l->s % l->own || l->t % l->step};
  ts_tile_store(l->b, l->scores, at, dt, &a);
}

static void of_queries(Lower *l) {
  V at[3], lo, hi, p = NULL, dt = NULL, dq = NULL;
  TsTileLoop round = open_queries(l, l->s, at);
  V row = times(l->b, at[2], l->own), q = load_queries(l, row, l->own);
  V g = load_slopes(l, row, l->own), start = full(l->b, 0, tile2(TS_DT_f32, l->own, l->d));
  Numbers n = numbers(l, row, l->own, 0);
  keys_seen(l, row, l->scores != NULL, &lo, &hi);
  TsTileLoop j = ts_tile_for(l->b, lo, hi, 1, false, 1, &start);
  if (!j.carry) return;
  V key = times(l->b, j.i, l->step), k = load_keys(l, key, l->step);
  V v = load_values(l, key, l->step);
  Sight s = of_query(l, row, key);
  TsTileType t = tile2(TS_DT_f32, l->own, l->step);
  TsMaskBlock at_mask = of_rows(l, row, key);
  V x = scores(l, q, k, &at_mask),
    dp = product(l->b, l->unit, g, ts_tile_transposed(l->b, v), full(l->b, 0, t));
  slopes(l, &n, &s, x, dp, &p, &dt);
  if (l->scores && dt) store_slopes(l, row, key, dt);
  V next = taken(l, &s, product(l->b, l->unit, dt, k, j.carry[0]), j.carry[0]);
  ts_tile_for_end(l->b, &j, &next, &dq);
  store(l, l->out[0], at[1], row, dq, l->scale);
  ts_tile_for_end(l->b, &round, NULL, NULL);
}

/* ---- the fourth phase */
/* What a round makes: dk, dv, or both. */
typedef struct Keys {
  V k, v, key;
  bool dk, dv;
} Keys;

static void step(Lower *l, const Keys *o, V row, V *sum) {
  V p = NULL, dt = NULL, q = load_queries(l, row, l->step), g = load_slopes(l, row, l->step);
  Numbers n = numbers(l, row, l->step, 1);
  Sight s = of_key(l, o->key, row);
  TsTileType t = tile2(TS_DT_f32, l->own, l->step);
  TsMaskBlock at_mask = {l->at_b, l->at_h, row, o->key, l->step, l->own, true};
  V x = scores(l, o->k, q, &at_mask), dp = NULL;
  if (o->dk) dp = product(l->b, l->unit, o->v, ts_tile_transposed(l->b, g), full(l->b, 0, t));
  slopes(l, &n, &s, x, dp, &p, &dt);
  if (o->dv) sum[o->dk] = taken(l, &s, product(l->b, l->unit, p, g, sum[o->dk]), sum[o->dk]);
  if (o->dk) sum[0] = taken(l, &s, product(l->b, l->unit, dt, q, sum[0]), sum[0]);
}

/* One loop over all blocks of all query heads, so that keys and values go to shared memory
 * once; where it is, it carries. */
static void of_keys(Lower *l, bool dk, bool dv) {
  V at[3], lo, hi, now[4], zero = num(l->b, 0);
  int n = dk + dv;
  TsTileLoop round = open(l, l->kv_heads, l->t, at);
  l->at_kv = at[1];
  int64_t group = l->heads / l->kv_heads;
  Keys o = {.key = times(l->b, at[2], l->own), .dk = dk, .dv = dv};
  o.k = load_keys(l, o.key, l->own), o.v = dk ? load_values(l, o.key, l->own) : NULL;
  queries_seen(l, o.key, &lo, &hi);
  V each = op2(l->b, TS_OP_maximum, op2(l->b, TS_OP_sub, hi, lo), zero);
  if (dk) now[0] = full(l->b, 0, tile2(TS_DT_f32, l->own, l->d));
  if (dv) now[dk] = full(l->b, 0, tile2(TS_DT_f32, l->own, l->dv));
  now[n] = times(l->b, at[1], group), now[n + 1] = lo;
  TsTileLoop j = ts_tile_for(l->b, zero, times(l->b, each, group), 1, false, n + 2, now);
  if (!j.carry) return;
  memcpy(now, j.carry, sizeof *now * (size_t)(n + 2));
  l->at_h = now[n];
  step(l, &o, times(l->b, now[n + 1], l->step), now);
  V next = plus(l->b, now[n + 1], 1), ends = op2(l->b, TS_OP_ge, next, hi);
  now[n] = choose(l->b, ends, plus(l->b, now[n], 1), now[n]);
  now[n + 1] = choose(l->b, ends, lo, next);
  ts_tile_for_end(l->b, &j, now, now);
  if (dk) store(l, l->out[1], at[1], o.key, now[0], l->scale);
  if (dv) store(l, l->out[2], at[1], o.key, now[dk], 1);
  ts_tile_for_end(l->b, &round, NULL, NULL);
}

/* ---- the fifth phase */
/* Of a head's sink: row i of each block of rows, of all batches upwards, to lane i. Rows behind
 * the last one have delta 0. */
static void of_sinks(Lower *l) {
  int64_t each = padded(l) / l->own;
  TsTileType t = ts_tile_vector(TS_DT_f32, l->own);
  V start = full(l->b, 0, t), sum = NULL;
  TsTileLoop round = ts_tile_for(l->b, num(l->b, 0), num(l->b, l->heads), 1, true, 0, NULL);
  l->at_h = round.i;
  V x = sink_of(l);
  TsAttr first = {.type = TS_ATTR_int, .i = 0};
  TsTileType index = ts_tile_scalar(TS_DT_i64), one = ts_tile_scalar(TS_DT_f32);
  V batch = ts_tile_emit1(l->b, TS_TILE_dim, 0, NULL, &first, &index);
  TsTileLoop j = ts_tile_for(l->b, num(l->b, 0), times(l->b, batch, each), 1, false, 1, &start);
  if (!j.carry) return;
  l->at_b = op2(l->b, TS_OP_floordiv, j.i, num(l->b, each));
  V row = times(l->b, op2(l->b, TS_OP_mod, j.i, num(l->b, each)), l->own);
  Numbers n = numbers(l, row, l->own, 0);
  V p = op2(l->b, TS_OP_mul, exp_of(l->b, x, n.u), n.r);
  V next = op2(l->b, TS_OP_sub, j.carry[0], op2(l->b, TS_OP_mul, p, n.delta));
  ts_tile_for_end(l->b, &j, &next, &sum);
  sum = sum ? ts_tile_emit1(l->b, TS_TILE_sum, 1, &sum, &first, &one) : NULL;
  sum = ts_tile_cast(l->b, sum, (TsDtype)l->dsink->type.dtype);
  if (sum) ts_tile_store(l->b, l->dsink, &round.i, sum, NULL);
  ts_tile_for_end(l->b, &round, NULL, NULL);
}

/* ---- the node */
static void read_node(Lower *l, const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta;
  int nd = q->ndim;
  l->n = n, l->dtype = (TsDtype)q->dtype;
  l->batch = nd > 3 ? q->dim[0] : 1;
  l->heads = nd > 2 ? q->dim[nd - 3] : 1, l->kv_heads = nd > 2 ? k->dim[nd - 3] : 1;
  l->s = q->dim[nd - 2], l->t = k->dim[nd - 2], l->d = q->dim[nd - 1];
  l->dv = n->in[2]->meta.dim[nd - 1];
  l->causal = n->attr[0].i;
  l->window = ts_sched_attention_window(n);
  l->scale = n->attr[2].type == TS_ATTR_f ? n->attr[2].f : 1 / sqrt((double)l->d);
  l->scale = (double)(float)l->scale;
  l->wide = l->d > NARROW || l->dv > NARROW;
}

const char *ts_lower_attention_grad_without(const TsSched *s, const TsNode *n) {
  const TsTarget *t = s->target;
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta, *v = &n->in[2]->meta;
  int nd = q->ndim;
  if (q->dtype != TS_DT_bf16 && q->dtype != TS_DT_f16) return "its numbers have no 16 bits";
  if (t->matrix == TS_MATRIX_none || !(t->factors & TS_FACTOR_half))
    return "the target has no unit for 16 bits";
  if (t->matrix == TS_MATRIX_cooperative)
    return "gradients have no form for cooperative matrices";
  if (s->profile == TS_PROFILE_strict) return "sums are those of the CPU in profile strict";
  if (n->in[3] && n->in[3]->meta.dtype != TS_DT_bool && n->in[3]->meta.dtype != q->dtype)
    return "the mask is of another type";
  for (int i = 0; i < 5; i++)
    if (n->in[ts_sched_attention_grad_reads[i]]->meta.dtype != q->dtype)
      return "operands have several types";
  if (nd < 2 || nd > 4 || !ts_meta_numel(q) || !ts_meta_numel(k) || !ts_meta_numel(v))
    return "there is nothing to multiply";
  if (n->attr[4].i && q->dim[nd - 2] != k->dim[nd - 2])
    return "there are not as many keys as queries";
  int64_t d = q->dim[nd - 1], dv = v->dim[nd - 1];
  if (d % WHOLE || dv % WHOLE || d > WIDEST || dv > WIDEST)
    return "heads are not of 32, 64, 96 or 128 numbers";
  return NULL;
}

int ts_lower_attention_grad_unit(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                                 void *arg, TsSchedKernel *out, TsError *err) {
  Lower l = {.n = NULL};
  if (ts_lower_attention_grad_without(s, group->node[0])) return 0;
  read_node(&l, group->node[0]);
  bool dpas = s->target->matrix == TS_MATRIX_dpas;
  l.unit = dpas ? "dpas" : ts_target_has_chain(s->target) ? "mfma" : "wmma";
  if (!(l.k = ts_tile_new("attention_grad"))) return ts_error_memory(err), -1;
  l.k->target = s->target->name;
  bool few = s->target->lanes < 64;
  int64_t own = l.wide || few ? OWN / 2 : OWN, step = few ? FEW : own / 2;
  l.k->ntile = 2, l.k->tile[0] = own, l.k->tile[1] = step;
  l.k->threads = dpas ? (int)own : WAVES * s->target->lanes; /* sub-groups of 16 rows */
  put_mask(&l, layout, arg);
  put_sink(&l, layout, arg);
  ts_sched_attention_grad_params(l.n, l.k, layout, arg, l.in, l.out);
  put_all_slopes(&l);
  put_sink_slope(&l);
  TsTileBuild b = ts_tile_build(l.k);
  l.b = &b;
  b.line = ts_tile_place(l.k, ts_graph_where(l.n));
  put_scratch(&l);
  l.own = SUMS, deltas(&l);
  l.own = OWN, l.step = ts_sched_attention_keys(s->target, l.n), statistics(&l);
  l.own = own, l.step = step, of_queries(&l);
  bool apart = l.wide && few; /* both together spill there */
  if (dpas && !apart) l.step = step / 2;
  of_keys(&l, true, !apart);
  if (apart) of_keys(&l, false, true);
  if (l.sink) l.own = OWN, of_sinks(&l);
  if (l.k->failed) {
    ts_tile_free(l.k);
    return ts_error_memory(err), -1;
  }
  *out = (TsSchedKernel){.tile = l.k, .dim = {l.batch}};
  TsVal *value = out->value + ts_attention_mask_values(&l.mask, out->value);
  if (l.sink) *value++ = l.n->in[4];
  ts_sched_attention_grad_values(l.n, value);
  for (int i = 3; i < l.n->nout; i++) value[5 + i] = (TsVal)(uintptr_t)&l.n->out[i];
  return 1;
}
