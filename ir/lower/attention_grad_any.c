/* The gradients of attention of any numbers of queries and keys, with masks and windows: the
 * definition of vm/drive/attention_grad.c in block form, so that the bits are the VM's. What
 * has kernels of its own (ir/sched/attention_grad.c, those of matrix units) does not come here.
 *
 * Three phases. The first lays keys and values of each block of 128 out as [d, key], in the
 * wide type, zeros behind the last one. In the second a round is a block of query rows of one
 * head: it makes the rows' u, r and delta, leaves them in memory, and walks groups of keys for
 * dq. In the third a round is a group of keys of one kv head, which walks the query heads and
 * rows upwards and carries dk and dv.
 *
 * A row and a key meet where the row sees something of the key's group of 32. Where rows of a
 * block differ in that, those that see nothing keep their dq, and are zeros where dk and dv
 * take them in, as the product of two zeros changes no sum. */
#include "ir/lower/row.h"

#include <math.h>

#include "ir/graph/graph.h"
#include "ir/lower/attention_mask.h"
#include "ir/sched/attention.h"
#include "ir/sched/attention_forms.h"

enum { KEYS = 128, GROUP = 32, WIDEST = 256, INPUTS = 7, RESULTS = 3 };
enum { LONGEST = 16384 }; /* elements of a sum, which are in registers: of a sink's gradient */

typedef TsTileVal V;

typedef struct Lower {
  const TsNode *n;
  TsTile *k;
  TsTileBuild *b;
  int64_t batch, heads, kv_heads, s, t, d, dv;
  int64_t place, window; /* of the first query among the keys; 0: none */
  int64_t rows;          /* of a block */
  bool causal, apart;    /* rows of a block may see different groups */
  double scale;
  TsDtype dtype, wide;
  TsAttentionMask mask;
  V scores;             /* the gradient of scores, or NULL */
  V sink, dsink, sinks; /* NULL: none; of its gradient each query's part, scratch */
  V in[5], out[3];      /* q k v out g; dq dk dv */
  V turned_k, turned_v, u, r, delta; /* scratch */
} Lower;

/* A block of query rows and keys from `key` on. */
typedef struct Pair {
  V b, h, kv, row, key; /* positions */
  V q, g, u, r, delta;  /* of the rows */
  V lo, hi;             /* which keys each row sees, from `key` on; NULL: no limit */
} Pair;

/* ---- short forms */
static TsTileType rows_type(Lower *l) { return ts_tile_vector(l->wide, l->rows); }
static V wide(Lower *l, V x) { return ts_tile_cast(l->b, x, l->wide); }

static V load(Lower *l, V m, V b, V h, V row, int64_t nrow, int64_t of, int64_t ncol) {
  V at[4] = {b, h, row, num(l->b, 0)};
  TsTileType t = tile2(l->dtype, nrow, ncol);
  TsTileAccess a = {.edge = of % KEYS != 0 || of % nrow != 0};
  return ts_tile_load(l->b, m, at, &t, &a);
}

/* x scale + 0, as the result has it. */
static void store(Lower *l, V m, V b, V h, V row, int64_t of, V x, double scale) {
  if (!x) return;
  V at[4] = {b, h, row, num(l->b, 0)};
  TsTileAccess a = {.edge = of % x->type.dim[0] != 0};
  ts_tile_store(l->b, m, at, ts_tile_cast(l->b, ended(l->b, x, scale), l->dtype), &a);
}

/* ---- the first phase */
static int64_t blocks(const Lower *l) { return (l->t + KEYS - 1) / KEYS; }

static V scratch(Lower *l, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(l->wide, rank, dim);
  return ts_tile_alloc(l->b, TS_SPACE_scratch, &t);
}

static void put_scratch(Lower *l) {
  int64_t m = ts_tile_dim(0);
  l->turned_k = scratch(l, 5, (int64_t[]){m, l->kv_heads, blocks(l), l->d, KEYS});
  l->turned_v = scratch(l, 5, (int64_t[]){m, l->kv_heads, blocks(l), l->dv, KEYS});
  V *list[3] = {&l->u, &l->r, &l->delta};
  for (int i = 0; i < 3; i++) *list[i] = scratch(l, 3, (int64_t[]){m, l->heads, l->s});
  if (l->sink) l->sinks = scratch(l, 3, (int64_t[]){l->heads, l->batch, l->s});
}

/* A group of keys a round, those behind the last block's end too: they are zeros. */
static void turn(Lower *l, V from, V to, const V *at, int64_t width) {
  V row = times(l->b, at[2], GROUP);
  V x = ts_tile_transposed(l->b, load(l, from, at[0], at[1], row, GROUP, l->t, width));
  V col = op2(l->b, TS_OP_mod, row, num(l->b, KEYS));
  V place[5] = {at[0], at[1], by(l->b, row, KEYS), num(l->b, 0), col};
  ts_tile_store(l->b, to, place, wide(l, x), NULL);
}

static void pack(Lower *l) {
  V at[3];
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->kv_heads, blocks(l) * (KEYS / GROUP), at);
  turn(l, l->in[1], l->turned_k, at, l->d);
  turn(l, l->in[2], l->turned_v, at, l->dv);
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- what rows see */
/* For each row, its position among the keys, less the first key, plus i. */
static V position(Lower *l, const Pair *p, int64_t i) {
  TsTileType t = ts_tile_vector(TS_DT_i32, l->rows);
  V at = op2(l->b, TS_OP_sub, plus(l->b, p->row, l->place + i), p->key);
  V lane = ts_tile_emit1(l->b, TS_TILE_iota, 0, NULL, NULL, &t);
  at = ts_tile_broadcast(l->b, ts_tile_cast(l->b, at, TS_DT_i32), &t, NULL);
  return op2(l->b, TS_OP_add, lane, at);
}

static void set_sight(Lower *l, Pair *p) {
  TsTileType t = ts_tile_vector(TS_DT_i32, l->rows);
  p->lo = p->hi = NULL;
  if (l->causal) p->hi = position(l, p, 1);
  if (l->t % KEYS) {
    V left = ts_tile_cast(l->b, op2(l->b, TS_OP_sub, num(l->b, l->t), p->key), TS_DT_i32);
    left = ts_tile_broadcast(l->b, left, &t, NULL);
    p->hi = p->hi ? op2(l->b, TS_OP_minimum, p->hi, left) : left;
  }
  if (l->window) p->lo = position(l, p, 1 - l->window);
}

/* Which of n keys each row sees; NULL: all. */
static V seen(Lower *l, const Pair *p, int64_t n) {
  TsTileType t = tile2(TS_DT_i32, l->rows, n);
  TsAttr axis = {.type = TS_ATTR_int, .i = 1};
  V key = p->lo || p->hi ? ts_tile_emit1(l->b, TS_TILE_iota, 0, NULL, &axis, &t) : NULL;
  V below = p->hi ? op2(l->b, TS_OP_lt, key, over(l->b, p->hi, n)) : NULL;
  V from = p->lo ? op2(l->b, TS_OP_ge, key, over(l->b, p->lo, n)) : NULL;
  return below && from ? op2(l->b, TS_OP_logical_and, below, from) : below ? below : from;
}

/* Rows that see something of the group, over n columns. */
static V taking_part(Lower *l, const Pair *p, int64_t n) {
  TsTileType t = ts_tile_vector(TS_DT_i32, l->rows);
  V zero = full(l->b, 0, t), end = full(l->b, GROUP, t);
  V hi = p->hi ? op2(l->b, TS_OP_minimum, p->hi, end) : end;
  V lo = p->lo ? op2(l->b, TS_OP_maximum, p->lo, zero) : zero;
  return over(l->b, op2(l->b, TS_OP_lt, lo, hi), n);
}

/* Groups, or blocks, of n keys that a block of rows sees: [*lo, *hi). */
static void keys_seen(Lower *l, const Pair *p, int64_t n, V *lo, V *hi) {
  *lo = num(l->b, 0), *hi = num(l->b, (l->t + n - 1) / n);
  if (l->window) {
    V first = by(l->b, plus(l->b, p->row, l->place - l->window + 1), n);
    *lo = op2(l->b, TS_OP_maximum, *lo, first);
  }
  if (!l->causal) return;
  V end = plus(l->b, by(l->b, plus(l->b, p->row, l->place + l->rows - 1), n), 1);
  *hi = op2(l->b, TS_OP_maximum, op2(l->b, TS_OP_minimum, *hi, end), num(l->b, 0));
}

/* Blocks of rows that see a group of keys. */
static void rows_seeing(Lower *l, const Pair *p, V *lo, V *hi) {
  *lo = num(l->b, 0), *hi = num(l->b, (l->s + l->rows - 1) / l->rows);
  if (l->causal)
    *lo = op2(l->b, TS_OP_maximum, *lo, by(l->b, plus(l->b, p->key, -l->place), l->rows));
  if (!l->window) return;
  V last = plus(l->b, p->key, GROUP - 1 - l->place + l->window - 1);
  *hi = op2(l->b, TS_OP_minimum, *hi, plus(l->b, by(l->b, last, l->rows), 1));
}

/* ---- scores */
/* The n keys from p->key on, of memory with blocks of [width, 128]. */
static V load_turned(Lower *l, V m, const Pair *p, int64_t width, int64_t n) {
  V col = n == KEYS ? num(l->b, 0) : op2(l->b, TS_OP_mod, p->key, num(l->b, KEYS));
  V at[5] = {p->b, p->kv, by(l->b, p->key, KEYS), num(l->b, 0), col};
  TsTileType t = tile2(l->wide, width, n);
  return ts_tile_load(l->b, m, at, &t, NULL);
}

static V scores(Lower *l, const Pair *p, int64_t n) {
  TsTileType t = tile2(l->wide, l->rows, n);
  V x = product(l->b, NULL, p->q, load_turned(l, l->turned_k, p, l->d, n), full(l->b, 0, t));
  if (!x) return NULL;
  TsMaskBlock at = {.b = p->b, .h = p->h, .query = p->row, .key = p->key};
  at.queries = l->rows, at.keys = n;
  x = op2(l->b, TS_OP_mul, x, full(l->b, l->scale, t));
  return ts_attention_mask_apply(&l->mask, l->b, &at, x);
}

/* p and dt of the rows and a group of keys. */
static void slopes(Lower *l, const Pair *p, V *prob, V *dt) {
  TsTileType t = tile2(l->wide, l->rows, GROUP);
  V x = scores(l, p, GROUP), see = seen(l, p, GROUP), zero = full(l->b, 0, t);
  V e = exp_of(l->b, x, over(l->b, p->u, GROUP));
  e = op2(l->b, TS_OP_mul, e, over(l->b, p->r, GROUP));
  V dp =
      product(l->b, NULL, p->g, load_turned(l, l->turned_v, p, l->dv, GROUP), full(l->b, 0, t));
  *dt = op2(l->b, TS_OP_mul, e, op2(l->b, TS_OP_sub, dp, over(l->b, p->delta, GROUP)));
  /* Of a row whose sum is 0 both are zeros, whatever delta is. */
  V some = over(l->b, op2(l->b, TS_OP_ne, p->r, full(l->b, 0, rows_type(l))), GROUP);
  see = see ? op2(l->b, TS_OP_logical_and, see, some) : some;
  *prob = choose(l->b, see, e, zero), *dt = choose(l->b, see, *dt, zero);
}

/* ---- the second phase */

/* The sink of the head as one key more: state is maximum and sum. Its probability is e /
 * sum. */
static V add_sink(Lower *l, const Pair *p, V *state) {
  TsTileType one = ts_tile_scalar((TsDtype)l->sink->type.dtype), row = rows_type(l);
  V x = wide(l, ts_tile_load(l->b, l->sink, &p->h, &one, NULL));
  x = x ? ts_tile_broadcast(l->b, x, &row, NULL) : NULL;
  V m = op2(l->b, TS_OP_maximum, state[0], x), base = base_of(l->b, m);
  V r = exp_of(l->b, state[0], base);
  V e = exp_of(l->b, x, base);
  state[0] = m;
  state[1] = op2(l->b, TS_OP_add, op2(l->b, TS_OP_mul, state[1], r), e);
  return e;
}

static void keep_sink(Lower *l, const Pair *p, V e) {
  V at[3] = {p->h, p->b, p->row}, own = op2(l->b, TS_OP_mul, e, p->r);
  TsTileAccess a = {.edge = l->s % l->rows != 0};
  own = op2(l->b, TS_OP_mul, ts_tile_op1(l->b, TS_OP_neg, own), p->delta);
  ts_tile_store(l->b, l->sinks, at, own, &a);
}

static void statistics(Lower *l, Pair *p) {
  TsTileType row = rows_type(l);
  V state[2] = {full(l->b, -INFINITY, row), full(l->b, 0, row)}, lo, hi;
  keys_seen(l, p, KEYS, &lo, &hi);
  TsTileLoop j = ts_tile_for(l->b, lo, hi, 1, false, 2, state);
  if (!j.carry) return;
  p->key = times(l->b, j.i, KEYS);
  set_sight(l, p);
  V x = scores(l, p, KEYS), see = seen(l, p, KEYS);
  if (x && see) x = choose(l->b, see, x, full(l->b, -INFINITY, x->type));
  V m = op2(l->b, TS_OP_maximum, j.carry[0], reduced(l->b, TS_TILE_max, x)),
    base = base_of(l->b, m);
  V alpha = exp_of(l->b, j.carry[0], base);
  V e = exp_of(l->b, x, over(l->b, base, KEYS));
  V sum = op2(l->b, TS_OP_mul, j.carry[1], alpha);
  V next[2] = {m, op2(l->b, TS_OP_add, sum, reduced(l->b, TS_TILE_sum, e))};
  ts_tile_for_end(l->b, &j, next, state);
  V sunk = l->sink ? add_sink(l, p, state) : NULL;
  p->u = base_of(l->b, state[0]);
  V none = op2(l->b, TS_OP_eq, state[1], full(l->b, 0, row));
  p->r = choose(l->b, none, full(l->b, 0, row),
                op2(l->b, TS_OP_div, full(l->b, 1, row), state[1]));
  if (sunk) keep_sink(l, p, sunk);
}

static void keep(Lower *l, const Pair *p) {
  V at[3] = {p->b, p->h, p->row}, list[3] = {p->u, p->r, p->delta};
  V to[3] = {l->u, l->r, l->delta};
  TsTileAccess a = {.edge = l->s % l->rows != 0};
  for (int i = 0; i < 3; i++) ts_tile_store(l->b, to[i], at, list[i], &a);
}

static void load_rows(Lower *l, Pair *p) {
  p->q = wide(l, load(l, l->in[0], p->b, p->h, p->row, l->rows, l->s, l->d));
  p->g = wide(l, load(l, l->in[4], p->b, p->h, p->row, l->rows, l->s, l->dv));
}

/* The gradient of scores of a group, or zeros. */
static void store_scores(Lower *l, const Pair *p, V group, V dt) {
  TsTileType t = tile2(l->dtype, l->rows, GROUP);
  V at[4] = {p->b, p->h, p->row, times(l->b, group, GROUP)};
  TsTileAccess a = {.edge = l->s % l->rows || l->t % GROUP};
  V x = dt ? ts_tile_cast(l->b, dt, l->dtype) : full(l->b, 0, t);
  ts_tile_store(l->b, l->scores, at, x, &a);
}

static void zero_scores(Lower *l, const Pair *p, V lo, V hi) {
  TsTileLoop j = ts_tile_for(l->b, lo, hi, 1, false, 0, NULL);
  store_scores(l, p, j.i, NULL);
  ts_tile_for_end(l->b, &j, NULL, NULL);
}

static void of_queries(Lower *l) {
  V at[3], prob, dt, dq = NULL, lo, hi;
  int64_t group = l->heads / l->kv_heads;
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->heads, (l->s + l->rows - 1) / l->rows, at);
  Pair p = {.b = at[0], .h = at[1], .kv = at[1], .row = times(l->b, at[2], l->rows)};
  if (group > 1) p.kv = by(l->b, at[1], group);
  load_rows(l, &p);
  V out = wide(l, load(l, l->in[3], p.b, p.h, p.row, l->rows, l->s, l->dv));
  p.delta = reduced(l->b, TS_TILE_sum, op2(l->b, TS_OP_mul, p.g, out));
  statistics(l, &p);
  keep(l, &p);
  V start = full(l->b, 0, tile2(l->wide, l->rows, l->d));
  keys_seen(l, &p, GROUP, &lo, &hi);
  if (l->scores &&
      l->window) /* windows may end before the first key, and begin behind the last */
    zero_scores(l, &p, num(l->b, 0),
                op2(l->b, TS_OP_minimum, lo, num(l->b, (l->t + GROUP - 1) / GROUP)));
  if (l->scores && l->causal)
    zero_scores(l, &p, op2(l->b, TS_OP_maximum, lo, hi), num(l->b, (l->t + GROUP - 1) / GROUP));
  TsTileLoop j = ts_tile_for(l->b, lo, hi, 1, false, 1, &start);
  if (!j.carry) return;
  p.key = times(l->b, j.i, GROUP);
  set_sight(l, &p);
  slopes(l, &p, &prob, &dt);
  if (l->scores && dt) store_scores(l, &p, j.i, dt);
  V k = wide(l, load(l, l->in[1], p.b, p.kv, p.key, GROUP, l->t, l->d));
  V next = product(l->b, NULL, dt, k, j.carry[0]);
  if (l->apart) next = choose(l->b, taking_part(l, &p, l->d), next, j.carry[0]);
  ts_tile_for_end(l->b, &j, &next, &dq);
  store(l, l->out[0], p.b, p.h, p.row, l->s, dq, l->scale);
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- the third phase */
static V load_numbers(Lower *l, V m, const Pair *p) {
  V at[3] = {p->b, p->h, p->row};
  TsTileType t = rows_type(l);
  TsTileAccess a = {.edge = l->s % l->rows != 0};
  return ts_tile_load(l->b, m, at, &t, &a);
}

static void of_keys(Lower *l) {
  V at[3], sums[2], prob, dt, lo, hi;
  int64_t group = l->heads / l->kv_heads;
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->kv_heads, (l->t + GROUP - 1) / GROUP, at);
  Pair p = {.b = at[0], .kv = at[1], .key = times(l->b, at[2], GROUP)};
  sums[0] = full(l->b, 0, tile2(l->wide, GROUP, l->d));
  sums[1] = full(l->b, 0, tile2(l->wide, GROUP, l->dv));
  rows_seeing(l, &p, &lo, &hi);
  TsTileLoop h = ts_tile_for(l->b, num(l->b, 0), num(l->b, group), 1, false, 2, sums);
  if (!h.carry) return;
  p.h = group > 1 ? op2(l->b, TS_OP_add, times(l->b, at[1], group), h.i) : at[1];
  TsTileLoop j = ts_tile_for(l->b, lo, hi, 1, false, 2, h.carry);
  if (!j.carry) return;
  p.row = times(l->b, j.i, l->rows);
  set_sight(l, &p);
  load_rows(l, &p);
  p.u = load_numbers(l, l->u, &p), p.r = load_numbers(l, l->r, &p);
  p.delta = load_numbers(l, l->delta, &p);
  slopes(l, &p, &prob, &dt);
  V q = p.q, g = p.g;
  if (l->apart && q && g) {
    q = choose(l->b, taking_part(l, &p, l->d), q, full(l->b, 0, q->type));
    g = choose(l->b, taking_part(l, &p, l->dv), g, full(l->b, 0, g->type));
  }
  V next[2] = {product(l->b, NULL, ts_tile_transposed(l->b, dt), q, j.carry[0]),
               product(l->b, NULL, ts_tile_transposed(l->b, prob), g, j.carry[1])};
  ts_tile_for_end(l->b, &j, next, sums);
  ts_tile_for_end(l->b, &h, sums, sums);
  store(l, l->out[1], p.b, p.kv, p.key, l->t, sums[0], l->scale);
  store(l, l->out[2], p.b, p.kv, p.key, l->t, sums[1], 1);
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- the fourth phase: over all queries of a head */
static void of_sinks(Lower *l) {
  int64_t n = l->batch * l->s;
  TsTileType all = ts_tile_type(l->wide, 2, (int64_t[]){l->heads, n});
  TsTileType row = ts_tile_vector(l->wide, n), one = ts_tile_scalar(l->wide);
  TsAttr axis = {.type = TS_ATTR_int};
  all.space = TS_SPACE_scratch;
  TsTileLoop h = ts_tile_for(l->b, num(l->b, 0), num(l->b, l->heads), 1, true, 0, NULL);
  V lines = ts_tile_emit1(l->b, TS_TILE_view, 1, &l->sinks, NULL, &all);
  V x = ts_tile_load(l->b, lines, (V[]){h.i, num(l->b, 0)}, &row, NULL);
  V sum = x ? ts_tile_emit1(l->b, TS_TILE_sum, 1, &x, &axis, &one) : NULL;
  if (sum)
    ts_tile_store(l->b, l->dsink, &h.i, ts_tile_cast(l->b, sum, (TsDtype)l->dsink->type.dtype),
                  NULL);
  ts_tile_for_end(l->b, &h, NULL, NULL);
}

static V heads_param(Lower *l, TsVal v, const char *name, TsLayoutFn *layout, void *arg,
                     bool written) {
  TsTileType t = ts_tile_vector((TsDtype)v->meta.dtype, l->heads);
  int64_t stride[TS_MAX_RANK] = {1};
  if (!written) ts_sched_strides(layout, arg, v, stride);
  if (l->heads > 1 && stride[0] != 1) t.strided = true, t.stride[0] = stride[0];
  return ts_tile_param(l->k, name, &t, written);
}

static void put_scores(Lower *l) {
  if (!l->n->attr[3].i) return;
  TsTileType t =
      ts_tile_type(l->dtype, 4, (int64_t[]){ts_tile_size(l->k, "M"), l->heads, l->s, l->t});
  l->scores = ts_tile_param(l->k, "scores", &t, true);
}

/* ---- the node */
static bool takes(const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *v = &n->in[2]->meta;
  int nd = q->ndim;
  TsDtype d = (TsDtype)q->dtype;
  TsVal sink = n->nin == INPUTS ? n->in[4] : NULL;
  if (n->nin != INPUTS || nd < 2 || nd > 4) return false;
  if (n->nout != RESULTS + (sink ? 1 : 0) + (n->attr[3].i ? 1 : 0)) return false;
  if (n->attr[3].i && n->out[RESULTS].meta.dtype != d) return false;
  if (sink && !ts_dtype_is((TsDtype)sink->meta.dtype, TS_KIND_F)) return false;
  if (sink &&
      (sink->node->op == TS_NODE_number || ts_dtype_in_blocks((TsDtype)sink->meta.dtype)))
    return false;
  if (d != TS_DT_f32 && d != TS_DT_f64 && d != TS_DT_bf16 && d != TS_DT_f16) return false;
  for (int i = 0; i < 5; i++)
    if (n->in[ts_sched_attention_grad_reads[i]]->meta.dtype != d) return false;
  TsVal mask = n->in[3];
  if (mask && mask->meta.dtype != TS_DT_bool && mask->meta.dtype != d) return false;
  bool narrow = q->dim[nd - 1] <= WIDEST && v->dim[nd - 1] <= WIDEST;
  return narrow && ts_meta_numel(q) > 0 && ts_meta_numel(v) > 0 &&
         ts_meta_numel(&n->in[1]->meta) > 0 && ts_meta_numel(&n->out[0].meta) > 0;
}

static void read_node(Lower *l, const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta;
  int nd = q->ndim;
  l->n = n;
  l->batch = nd > 3 ? q->dim[0] : 1;
  l->heads = nd > 2 ? q->dim[nd - 3] : 1, l->kv_heads = nd > 2 ? k->dim[nd - 3] : 1;
  l->s = q->dim[nd - 2], l->t = k->dim[nd - 2], l->d = q->dim[nd - 1];
  l->dv = n->in[2]->meta.dim[nd - 1];
  l->dtype = (TsDtype)q->dtype, l->wide = (TsDtype)ts_dtypes[q->dtype].accum;
  l->causal = n->attr[0].i;
  l->window = ts_sched_attention_window(n);
  l->scale = n->attr[2].type == TS_ATTR_f ? n->attr[2].f : 1 / sqrt((double)l->d);
  if (l->wide == TS_DT_f32) l->scale = (double)(float)l->scale;
  l->place = n->attr[4].i ? 0 : l->t - l->s;
  l->rows = l->wide == TS_DT_f64 ? GROUP / 2 : GROUP; /* as many bytes */
  l->apart = l->window || (l->causal && l->place % l->rows);
}

int ts_lower_attention_grad_any(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                                void *arg, TsSchedKernel *out, TsError *err) {
  Lower l = {.n = NULL};
  const TsNode *n = group->node[0];
  if (ts_sched_is_attention_grad(n) || !takes(n)) return 0;
  read_node(&l, n);
  if (n->in[4] && l.batch * l.s > LONGEST) return 0;
  if (!(l.k = ts_tile_new("attention_grad"))) return ts_error_memory(err), -1;
  l.k->target = s->target->name;
  l.k->ntile = 2, l.k->tile[0] = l.rows, l.k->tile[1] = GROUP;
  ts_attention_mask_params(&l.mask, l.k, n->in[3], layout, arg,
                           (int64_t[]){l.batch, l.heads, l.s, l.t});
  if (n->in[4]) l.sink = heads_param(&l, n->in[4], "sink", layout, arg, false);
  ts_sched_attention_grad_params(n, l.k, layout, arg, l.in, l.out);
  put_scores(&l);
  TsVal dsink = n->in[4] ? (TsVal)(uintptr_t)&n->out[n->nout - 1] : NULL;
  if (dsink) l.dsink = heads_param(&l, dsink, "dsink", NULL, NULL, true);
  TsTileBuild b = ts_tile_build(l.k);
  l.b = &b;
  b.line = ts_tile_place(l.k, ts_graph_where(n));
  put_scratch(&l);
  pack(&l);
  of_queries(&l);
  of_keys(&l);
  if (l.sink) of_sinks(&l);
  if (l.k->failed) {
    ts_tile_free(l.k);
    return ts_error_memory(err), -1;
  }
  *out = (TsSchedKernel){.tile = l.k, .dim = {l.batch}};
  TsVal *value = out->value + ts_attention_mask_values(&l.mask, out->value);
  if (l.sink) *value++ = n->in[4];
  ts_sched_attention_grad_values(n, value);
  for (int i = RESULTS; i < n->nout; i++) value[5 + i] = (TsVal)(uintptr_t)&n->out[i];
  return 1;
}
