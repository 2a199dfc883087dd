/* Attention as a kernel of Tile IR in block form.
 *
 * Two phases. The first transposes the keys of each block of 128 to [d, key] in scratch, so
 * that a product reads vectors of keys; values go beside them where they are narrow or their
 * last block is short. In the second a round is a block of query rows of one head: it walks the
 * blocks of keys that some of its rows see, in order, and carries the rows' maximum, sum and
 * result. Scores of a round and a block are all that there is of the score matrix.
 *
 * Every operation is the one that vm/drive/attention.c defines, in its order. Where a row
 * does not take part in a block that its neighbours see, all of its scores there are -inf:
 * its maximum stays, alpha is 1 (or its sum and result are still zero) and its p are +0, so
 * that only the result has to be kept by a choice, against a NaN in a hidden value. Where
 * blocks of rows and of keys are cut at the same positions there are no such rows.
 *
 * On a matrix unit that makes squares (ir/tile/square.h) keys and values of 16 bits are
 * multiplied as they lie, p rounded to their type, so there is one phase. */
#include "ir/sched/attention.h"

#include <math.h>
#include <string.h>

#include "ir/sched/attention_forms.h"

enum {
  KEYS = 128,       /* of a block: the definition's */
  ROWS = 32,        /* query rows of a round; by a unit: */
  UNIT_KEYS = 64,   /* of a block; half as many as rows, so that values do not lie as sums do */
  UNIT_NARROW = 64, /* heads that are not wide */
  UNIT_LEAST = 16,  /* queries that are worth it */
  UNIT_WIDEST = 128,
  UNIT_WAVE = 16, /* rows of one */
  UNIT_WAVES = 8,
};

typedef struct Operand {
  TsVal v;
  bool moves[4]; /* along batch, head, row, column */
  TsTileVal param;
} Operand;

typedef struct Lower {
  const TsNode *n;
  TsLayoutFn *layout;
  void *arg;
  TsTile *k;
  TsTileBuild *b;
  int64_t batch, heads, kv_heads, s, t, d, dv;
  int64_t keys;         /* of a block */
  int64_t rows, nq, nb; /* rows of a round, rounds of a head, blocks of keys */
  int64_t window;       /* 0: none */
  bool causal, transposed;
  bool gpu;
  double scale;
  const char *unit; /* that multiplies, or NULL */
  bool early;       /* lanes have registers for values that are loaded beside keys */
  TsDtype dtype, wide;
  Operand q, key, val, mask, sink, y;
  TsTileVal packed_k, packed_v; /* scratch; packed_v NULL: values are read where they lie */
  /* of a round */
  TsTileVal at_b, at_h, at_kv, q0;
} Lower;

/* ---- parameters */
/* Strides of v along batch, head, row, column: 0 where it does not move. */
static void strides_of(Lower *l, const Operand *o, int64_t *out) {
  const TsMeta *m = &o->v->meta;
  int64_t own[TS_MAX_RANK];
  ts_sched_strides(o == &l->y ? NULL : l->layout, l->arg, o->v, own);
  for (int i = 0; i < 4; i++) out[i] = 0;
  for (int i = 0; i < m->ndim; i++) out[4 - m->ndim + i] = own[i];
  if (o == &l->sink) out[1] = own[0];
  if (o == &l->y && l->transposed) out[1] = l->dv, out[2] = l->dv * l->heads;
}

static void put_param(Lower *l, Operand *o, const char *name, const int64_t *dim,
                      bool written) {
  TsTileType t = {.dtype = o->v->meta.dtype};
  int64_t stride[4], step = 1;
  strides_of(l, o, stride);
  for (int i = 0; i < 4; i++)
    if (o->moves[i]) t.dim[t.rank] = dim[i], t.stride[t.rank++] = stride[i];
  for (int i = 4, k = t.rank; i-- > 0;) {
    if (!o->moves[i]) continue;
    if (t.stride[--k] != step && (i > 0 || l->batch > 1)) t.strided = true;
    step *= i ? dim[i] : 1;
  }
  if (!t.strided) memset(t.stride, 0, sizeof t.stride);
  o->param = ts_tile_param(l->k, name, &t, written);
}

static void put_params(Lower *l) {
  int64_t m = ts_tile_size(l->k, "M");
  put_param(l, &l->q, "q", (int64_t[]){m, l->heads, l->s, l->d}, false);
  put_param(l, &l->key, "k", (int64_t[]){m, l->kv_heads, l->t, l->d}, false);
  put_param(l, &l->val, "v", (int64_t[]){m, l->kv_heads, l->t, l->dv}, false);
  if (l->mask.v) put_param(l, &l->mask, "mask", (int64_t[]){m, l->heads, l->s, l->t}, false);
  if (l->sink.v) put_param(l, &l->sink, "sink", (int64_t[]){m, l->heads, l->s, l->t}, false);
  put_param(l, &l->y, "y", (int64_t[]){m, l->heads, l->s, l->dv}, true);
}

/* ---- loops over what is independent */
TsTileLoop ts_sched_attention_rounds(TsTileBuild *b, int64_t outer, int64_t inner,
                                     TsTileVal at[3]) {
  TsAttr first = {.type = TS_ATTR_int, .i = 0};
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsTileVal m = ts_tile_emit1(b, TS_TILE_dim, 0, NULL, &first, &index);
  TsTileVal n = ts_tile_op2(b, TS_OP_mul, m, ts_tile_index(b, outer * inner));
  TsTileLoop r = ts_tile_for(b, ts_tile_index(b, 0), n, 1, true, 0, NULL);
  at[2] = ts_tile_op2(b, TS_OP_mod, r.i, ts_tile_index(b, inner));
  TsTileVal rest = ts_tile_op2(b, TS_OP_floordiv, r.i, ts_tile_index(b, inner));
  at[1] = ts_tile_op2(b, TS_OP_mod, rest, ts_tile_index(b, outer));
  at[0] = ts_tile_op2(b, TS_OP_floordiv, rest, ts_tile_index(b, outer));
  return r;
}

static TsTileVal load_rows(Lower *l, const Operand *o, TsTileVal b, TsTileVal h, TsTileVal row,
                           int64_t nrow, int64_t ncol, bool edge) {
  TsTileVal at[4] = {b, h, row, num(l->b, 0)};
  TsTileType t = tile2(l->dtype, nrow, ncol);
  TsTileAccess a = {.edge = edge};
  return ts_tile_load(l->b, o->param, at, &t, &a);
}

/* ---- the first phase */
static TsTileVal scratch(Lower *l, int64_t nrow, int64_t ncol) {
  int64_t dim[5] = {ts_tile_dim(0), l->kv_heads, l->nb, nrow, ncol};
  TsTileType t = ts_tile_type(l->wide, 5, dim);
  return ts_tile_alloc(l->b, TS_SPACE_scratch, &t);
}

static void pack(Lower *l) {
  TsTileVal at[3];
  bool edge = l->t % l->keys != 0;
  l->packed_k = scratch(l, l->d, l->keys);
  if (edge || l->dtype != l->wide) l->packed_v = scratch(l, l->keys, l->dv);
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->kv_heads, l->nb, at);
  TsTileVal row = times(l->b, at[2], l->keys),
            to[5] = {at[0], at[1], at[2], num(l->b, 0), num(l->b, 0)};
  TsTileVal x = load_rows(l, &l->key, at[0], at[1], row, l->keys, l->d, edge);
  if (!l->gpu) x = ts_tile_cast(l->b, x, l->wide);
  x = ts_tile_transposed(l->b, x);
  if (l->gpu) x = ts_tile_cast(l->b, x, l->wide); /* what is turned lies in shared memory */
  ts_tile_store(l->b, l->packed_k, to, x, NULL);
  if (l->packed_v) {
    x = load_rows(l, &l->val, at[0], at[1], row, l->keys, l->dv, edge);
    ts_tile_store(l->b, l->packed_v, to, ts_tile_cast(l->b, x, l->wide), NULL);
  }
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- what a row sees of a block that begins at key */
static bool aligned(const Lower *l) {
  return !l->window && (!l->causal || (l->keys % l->rows == 0 && (l->t - l->s) % l->rows == 0));
}

/* For each row: its position among the keys, less that of the block, plus i. */
static TsTileVal place(Lower *l, TsTileVal key, int64_t i) {
  TsTileType t = ts_tile_vector(TS_DT_i32, l->rows);
  TsTileVal at = op2(l->b, TS_OP_sub, plus(l->b, l->q0, l->t - l->s + i), key);
  TsTileVal lane = ts_tile_emit1(l->b, TS_TILE_iota, 0, NULL, NULL, &t);
  return op2(l->b, TS_OP_add, lane, over_like(l->b, ts_tile_cast(l->b, at, TS_DT_i32), &t, 0));
}

/* Numbers of keys, [lo, hi) of the block, that each row sees by position; NULL: no limit. */
typedef struct Sight {
  TsTileVal lo, hi;
} Sight;

static Sight sight(Lower *l, TsTileVal key) {
  Sight s = {NULL, NULL};
  TsTileType t = ts_tile_vector(TS_DT_i32, l->rows);
  if (l->causal) s.hi = place(l, key, 1);
  if (l->t % l->keys) {
    TsTileVal left = ts_tile_cast(l->b, op2(l->b, TS_OP_sub, num(l->b, l->t), key), TS_DT_i32);
    left = over_like(l->b, left, &t, 0);
    s.hi = s.hi ? op2(l->b, TS_OP_minimum, s.hi, left) : left;
  }
  if (l->window) s.lo = place(l, key, 1 - l->window);
  return s;
}

static TsTileVal hide(Lower *l, const Sight *s, TsTileVal x) {
  TsTileType t = tile2(TS_DT_i32, l->rows, l->keys);
  TsAttr axis = {.type = TS_ATTR_int, .i = 1};
  TsTileVal least = full(l->b, -INFINITY, x->type);
  if (!s->lo && !s->hi) return x;
  TsTileVal key = ts_tile_emit1(l->b, TS_TILE_iota, 0, NULL, &axis, &t);
  if (s->hi)
    x = choose(l->b, op2(l->b, TS_OP_lt, key, over_like(l->b, s->hi, &t, 0)), x, least);
  if (s->lo)
    x = choose(l->b, op2(l->b, TS_OP_ge, key, over_like(l->b, s->lo, &t, 0)), x, least);
  return x;
}

/* Rows that see something of the block by position. */
static TsTileVal taking_part(Lower *l, const Sight *s) {
  TsTileType t = ts_tile_vector(TS_DT_i32, l->rows);
  TsTileVal zero = full(l->b, 0, t), end = full(l->b, l->keys, t);
  TsTileVal hi = s->hi ? op2(l->b, TS_OP_minimum, s->hi, end) : end;
  TsTileVal lo = s->lo ? op2(l->b, TS_OP_maximum, s->lo, zero) : zero;
  return op2(l->b, TS_OP_lt, lo, hi);
}

static TsTileVal load_mask(Lower *l, TsTileVal key) {
  const Operand *o = &l->mask;
  TsTileVal all[4] = {l->at_b, l->at_h, l->q0, key}, at[4];
  TsTileType t = ts_tile_scalar((TsDtype)o->v->meta.dtype),
             whole = tile2(l->wide, l->rows, l->keys);
  int64_t axes[2];
  int n = 0;
  for (int i = 0; i < 4; i++)
    if (o->moves[i]) at[n++] = all[i];
  if (o->moves[2]) axes[t.rank] = 0, t.dim[t.rank++] = l->rows;
  if (o->moves[3]) axes[t.rank] = 1, t.dim[t.rank++] = l->keys;
  bool edge = (o->moves[2] && l->s % l->rows) || (o->moves[3] && l->t % l->keys);
  TsTileAccess a = {.edge = edge};
  TsTileVal x = ts_tile_load(l->b, o->param, at, &t, &a);
  if (!x) return NULL;
  bool seen = x->type.dtype == TS_DT_bool;
  if (!seen) x = ts_tile_cast(l->b, x, l->wide);
  if (seen) whole.dtype = TS_DT_bool;
  return t.rank == 2 ? x : ts_tile_broadcast(l->b, x, &whole, axes);
}

/* Of the block, as [d, key]. */
static TsTileVal load_keys(Lower *l, TsTileVal block, TsTileVal key) {
  TsTileType t = tile2(l->wide, l->d, l->keys);
  TsTileVal at[5] = {l->at_b, l->at_kv, block, num(l->b, 0), num(l->b, 0)};
  if (!l->unit) return ts_tile_load(l->b, l->packed_k, at, &t, NULL);
  bool edge = l->t % l->keys != 0;
  return ts_tile_transposed(l->b,
                            load_rows(l, &l->key, l->at_b, l->at_kv, key, l->keys, l->d, edge));
}

/* Scores of the block: scaled, with the mask, -inf where hidden. */
static TsTileVal scores(Lower *l, TsTileVal q, TsTileVal k, TsTileVal key, const Sight *s) {
  TsTileType t = tile2(l->wide, l->rows, l->keys);
  TsTileVal x = product(l->b, l->unit, q, k, full(l->b, 0, t));
  x = op2(l->b, TS_OP_mul, x, full(l->b, l->scale, t));
  if (l->mask.v) {
    TsTileVal m = load_mask(l, key);
    if (m && m->type.dtype == TS_DT_bool)
      x = choose(l->b, m, x, full(l->b, -INFINITY, t));
    else
      x = op2(l->b, TS_OP_add, x, m);
  }
  return x ? hide(l, s, x) : NULL;
}

static TsTileVal load_values(Lower *l, TsTileVal block, TsTileVal key) {
  TsTileVal at[5] = {l->at_b, l->at_kv, block, num(l->b, 0), num(l->b, 0)};
  TsTileType t = tile2(l->wide, l->keys, l->dv);
  if (l->packed_v) return ts_tile_load(l->b, l->packed_v, at, &t, NULL);
  return load_rows(l, &l->val, l->at_b, l->at_kv, key, l->keys, l->dv,
                   l->unit && l->t % l->keys != 0);
}

/* state: maximum, sum, result */
static void step(Lower *l, TsTileVal q, TsTileVal block, TsTileVal *state) {
  TsTileVal key = times(l->b, block, l->keys), m = state[0], o = state[2];
  Sight s = sight(l, key);
  TsTileVal k = load_keys(l, block, key);
  TsTileVal early =
      l->unit && l->early ? load_values(l, block, key) : NULL; /* on its way meanwhile */
  TsTileVal t = scores(l, q, k, key, &s);
  if (!t || !m || !o) return;
  TsTileVal top = op2(l->b, TS_OP_maximum, m, reduced(l->b, TS_TILE_max, t)),
            base = base_of(l->b, top);
  TsTileVal alpha = exp_of(l->b, m, base),
            p = exp_of(l->b, t, over_like(l->b, base, &t->type, 0));
  TsTileVal sum = op2(l->b, TS_OP_mul, state[1], alpha);
  state[0] = top;
  state[1] = op2(l->b, TS_OP_add, sum, reduced(l->b, TS_TILE_sum, p));
  TsTileVal v = early ? early : load_values(l, block, key);
  if (l->unit) p = ts_tile_cast(l->b, p, l->dtype);
  TsTileVal scaled = op2(l->b, TS_OP_mul, o, over_like(l->b, alpha, &o->type, 0));
  state[2] = product(l->b, l->unit, p, v, scaled);
  if (!aligned(l) && state[2])
    state[2] = choose(l->b, over_like(l->b, taking_part(l, &s), &o->type, 0), state[2], o);
}

/* ---- the end of the rows */
static void add_sink(Lower *l, TsTileVal *state) {
  TsTileVal at[1] = {l->at_h}, m = state[0], o = state[2];
  TsTileType one = ts_tile_scalar((TsDtype)l->sink.v->meta.dtype);
  TsTileVal x = ts_tile_load(l->b, l->sink.param, l->sink.moves[1] ? at : NULL, &one, NULL);
  if (!m || !o || !x) return;
  x = over_like(l->b, ts_tile_cast(l->b, x, l->wide), &m->type, 0);
  TsTileVal base = base_of(l->b, op2(l->b, TS_OP_maximum, m, x)), r = exp_of(l->b, m, base);
  TsTileVal sum = op2(l->b, TS_OP_mul, state[1], r);
  state[1] = op2(l->b, TS_OP_add, sum, exp_of(l->b, x, base));
  state[2] = op2(l->b, TS_OP_mul, o, over_like(l->b, r, &o->type, 0));
}

static void finish(Lower *l, TsTileVal *state) {
  if (l->sink.v) add_sink(l, state);
  TsTileVal sum = state[1], o = state[2];
  if (!sum || !o) return;
  TsTileVal none = op2(l->b, TS_OP_eq, sum, full(l->b, 0, sum->type));
  TsTileVal r = op2(l->b, TS_OP_div, full(l->b, 1, sum->type), sum);
  TsTileVal y = op2(l->b, TS_OP_mul, o, over_like(l->b, r, &o->type, 0)),
            zero = full(l->b, 0, o->type);
  y = choose(l->b, over_like(l->b, none, &o->type, 0), zero, op2(l->b, TS_OP_add, y, zero));
  TsTileVal at[4] = {l->at_b, l->at_h, l->q0, num(l->b, 0)};
  TsTileAccess a = {.edge = l->s % l->rows != 0};
  ts_tile_store(l->b, l->y.param, at, ts_tile_cast(l->b, y, l->dtype), &a);
}

/* Blocks of keys that the round's rows see: [*lo, *hi). */
static void bounds(Lower *l, TsTileVal *lo, TsTileVal *hi) {
  *lo = num(l->b, 0), *hi = num(l->b, l->nb);
  if (l->window) {
    TsTileVal first = plus(l->b, l->q0, l->t - l->s - l->window + 1);
    *lo = op2(l->b, TS_OP_maximum, *lo, op2(l->b, TS_OP_floordiv, first, num(l->b, l->keys)));
  }
  if (!l->causal) return;
  TsTileVal last = plus(l->b, l->q0, l->rows - 1 + l->t - l->s);
  last = plus(l->b, op2(l->b, TS_OP_floordiv, last, num(l->b, l->keys)), 1);
  *hi = op2(l->b, TS_OP_minimum, *hi, last);
}

static void attend(Lower *l) {
  TsTileVal at[3], lo, hi;
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->heads, l->nq, at);
  l->at_b = at[0], l->at_h = at[1];
  int64_t group = l->heads / l->kv_heads;
  l->at_kv = group > 1 ? op2(l->b, TS_OP_floordiv, at[1], num(l->b, group)) : at[1];
  l->q0 = times(l->b, at[2], l->rows);
  TsTileVal q = load_rows(l, &l->q, at[0], at[1], l->q0, l->rows, l->d, l->s % l->rows != 0);
  if (!l->unit) q = ts_tile_cast(l->b, q, l->wide);
  TsTileType row = ts_tile_vector(l->wide, l->rows);
  TsTileVal state[3] = {full(l->b, -INFINITY, row), full(l->b, 0, row),
                        full(l->b, 0, tile2(l->wide, l->rows, l->dv))};
  bounds(l, &lo, &hi);
  TsTileLoop j = ts_tile_for(l->b, lo, hi, 1, false, 3, state);
  if (!j.carry) return;
  memcpy(state, j.carry, sizeof state);
  step(l, q, j.i, state);
  ts_tile_for_end(l->b, &j, state, state);
  finish(l, state);
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- the node */
static void set_moves(Operand *o, TsVal v) {
  o->v = v;
  for (int i = 0; v && i < v->meta.ndim; i++)
    o->moves[4 - v->meta.ndim + i] = v->meta.dim[i] > 1;
}

static void set_all(Operand *o, TsVal v) {
  o->v = v;
  for (int i = 0; i < 4; i++) o->moves[i] = true;
}

int64_t ts_sched_window(const TsAttr *option, int64_t positions) {
  int64_t w = option->type == TS_ATTR_int ? option->i : 0;
  return w > INT32_MAX / 2 && w >= positions ? 0 : w;
}

int64_t ts_sched_attention_window(const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta;
  int64_t s = q->dim[q->ndim - 2], t = k->dim[k->ndim - 2];
  return ts_sched_window(&n->attr[1], s > t ? s : t);
}

static void read_node(Lower *l, const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta;
  int nd = q->ndim;
  l->n = n, l->batch = nd > 3 ? q->dim[0] : 1;
  l->heads = nd > 2 ? q->dim[nd - 3] : 1, l->kv_heads = nd > 2 ? k->dim[nd - 3] : 1;
  l->s = q->dim[nd - 2], l->t = k->dim[nd - 2], l->d = q->dim[nd - 1];
  l->dv = n->in[2]->meta.dim[nd - 1];
  l->dtype = (TsDtype)q->dtype, l->wide = (TsDtype)ts_dtypes[q->dtype].accum;
  l->causal = n->attr[0].i;
  l->window = ts_sched_attention_window(n);
  l->scale = n->attr[2].type == TS_ATTR_f ? n->attr[2].f : 1 / sqrt((double)l->d);
  set_all(&l->q, n->in[0]), set_all(&l->key, n->in[1]), set_all(&l->val, n->in[2]);
  if (n->nin > 3) set_moves(&l->mask, n->in[3]);
  if (n->nin > 4 && n->in[4]) {
    l->sink.v = n->in[4];
    l->sink.moves[1] = true;
  }
  set_all(&l->y, (TsVal)(uintptr_t)&n->out[0]);
}

static bool has_kernel(const TsNode *n) {
  if (n->op != TS_OP_attention) return false;
  const TsMeta *q = &n->in[0]->meta;
  int nd = q->ndim;
  bool type = q->dtype == TS_DT_f32 || q->dtype == TS_DT_bf16 || q->dtype == TS_DT_f16 ||
              q->dtype == TS_DT_f64;
  if (!type || nd < 2 || nd > 4 || ts_meta_numel(&n->out[0].meta) == 0) return false;
  if (n->attr[4].i && q->dim[nd - 2] != n->in[1]->meta.dim[nd - 2]) return false;
  if (n->nin > 3 && n->in[3] && n->in[3]->meta.dtype != TS_DT_bool &&
      n->in[3]->meta.dtype != q->dtype)
    return false;
  return n->in[1]->meta.dim[nd - 2] > 0 && q->dim[nd - 1] > 0;
}

/* Rows of queries: with few of them a CPU reads keys where they lie. */
static bool decodes(const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta;
  return q->dim[q->ndim - 2] <= 8;
}

bool ts_sched_is_attention(const TsNode *n) {
  return ts_sched_is_attention_grad(n) || (has_kernel(n) && !decodes(n));
}

bool ts_sched_is_decode(const TsNode *n) { return has_kernel(n) && decodes(n); }

/* ---- the result transposed */
/* The axes that n exchanges, where it does nothing else. */
static bool exchanges_heads(const TsNode *n) {
  int nd = n->in[0]->meta.ndim;
  if (nd < 3) return false;
  if (n->op == TS_OP_transpose) {
    int64_t a = n->attr[0].i, b = n->attr[1].i;
    a += a < 0 ? nd : 0, b += b < 0 ? nd : 0;
    return (a == nd - 3 && b == nd - 2) || (a == nd - 2 && b == nd - 3);
  }
  if (n->op != TS_OP_permute || n->attr[0].n != nd) return false;
  for (int i = 0; i < nd; i++) {
    int64_t p = n->attr[0].ints[i], want = i == nd - 3 ? nd - 2 : i == nd - 2 ? nd - 3 : i;
    if (p + (p < 0 ? nd : 0) != want) return false;
  }
  return true;
}

static bool left(const TsGraph *g, TsVal v) {
  for (int i = 0; i < g->nresult; i++)
    if (g->result[i] == v) return true;
  for (int i = 0; i < g->nupdate; i++)
    if (g->update[i].value == v) return true;
  return false;
}

static bool reads(const TsNode *n, TsVal v) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] == v) return true;
  return false;
}

/* Somebody wants the elements of v in row-major order. */
static bool wanted_in_order(const TsGraph *g, const unsigned char *live, TsVal v) {
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    bool orders = n->op == TS_OP_reshape || n->op == TS_OP_flatten || n->op == TS_OP_contiguous;
    if (live[i] && orders && reads(n, v)) return true;
  }
  return false;
}

/* Measured against the VM and a copy, f32: 1.0 to 1.2 times as fast on AVX-512 and 1.15 to 1.4
 * on AVX2 for heads up to 64, 0.96 on AVX-512 for 128; bf16 and f64 0.9 to 1.1 on AVX-512.
 * Without fma products call functions. Kernels of a GPU write 16 bits wherever they are to
 * lie. */
static bool pays(const TsTarget *t, const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta;
  if (ts_target_gpu(t)) return ts_dtypes[q->dtype].nbytes == 2;
  if (q->dtype != TS_DT_f32) return false;
  return !t || (t->fma && (t->vector_bytes < 64 || q->dim[q->ndim - 1] <= 64));
}

bool ts_sched_transposed(const TsSched *s, const unsigned char *live, const TsNode *n) {
  const TsGraph *g = s->g;
  TsVal v = (TsVal)(uintptr_t)&n->out[0];
  bool some = false;
  if (n->op != TS_OP_attention || left(g, v) || !pays(s->target, n)) return false;
  for (int i = 0; i < g->nnode; i++) {
    TsNode *m = g->node[i];
    if (!live[i] || !reads(m, v) || m->op == TS_OP_attention_grad) continue;
    if (!exchanges_heads(m)) return false; /* the gradient reads it as it lies */
    some |= wanted_in_order(g, live, &m->out[0]);
  }
  return some;
}

static int give(Lower *l, TsSchedKernel *out) {
  Operand *o[] = {&l->q, &l->key, &l->val, &l->mask, &l->sink, &l->y};
  *out = (TsSchedKernel){
      .tile = l->k, .dim = {l->batch}, .took = {.rows = (int)l->rows}, .told = true};
  for (int i = 0, n = 0; i < 6; i++)
    if (o[i]->v) out->value[n++] = o[i]->v;
  return 0;
}

/* Sums and results of a round of wider heads have no room in a wave's registers. */
const char *ts_sched_attention_without(const TsSched *s, const TsNode *n) {
  const TsTarget *t = s->target;
  const TsMeta *q = &n->in[0]->meta;
  int64_t d = q->dim[q->ndim - 1], dv = n->in[2]->meta.dim[q->ndim - 1];
  if (q->dtype != TS_DT_bf16 && q->dtype != TS_DT_f16) return "its numbers have no 16 bits";
  if (!t || !t->matrix || !(t->factors & TS_FACTOR_half))
    return "the target has no unit for 16 bits";
  if (t->matrix == TS_MATRIX_cooperative)
    return "attention has no form for cooperative matrices";
  if (s->profile == TS_PROFILE_strict) return "sums are those of the CPU in profile strict";
  if (q->dim[q->ndim - 2] < UNIT_LEAST) return "there are fewer than 16 queries";
  if (d % 32 || dv % 32 || d > UNIT_WIDEST || dv > UNIT_WIDEST)
    return "heads are not of 32, 64, 96 or 128 numbers";
  return NULL;
}

static const char *unit_of(const TsSched *s, const TsNode *n) {
  if (ts_sched_attention_without(s, n)) return NULL;
  if (s->target->matrix == TS_MATRIX_dpas) return "dpas";
  return ts_target_has_chain(s->target) ? "mfma" : "wmma";
}

static bool is_wide(const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *v = &n->in[2]->meta;
  return q->dim[q->ndim - 1] > UNIT_NARROW || v->dim[v->ndim - 1] > UNIT_NARROW;
}

/* A lane of a wave of 32 has twice as many scores and sums, and registers for fewer keys; of
 * wide heads for fewer still beside a mask, or sums that rows which take no part keep. */
int64_t ts_sched_attention_keys(const TsTarget *t, const TsNode *n) {
  bool window = ts_sched_attention_window(n) != 0;
  if (t->lanes >= 64) return UNIT_KEYS;
  if (t->matrix == TS_MATRIX_dpas)
    return UNIT_KEYS / 2; /* with as many registers as two threads have */
  return is_wide(n) && (window || (n->nin > 3 && n->in[3])) ? UNIT_KEYS / 4 : UNIT_KEYS / 2;
}

/* Sub-groups of 16 lanes have 16 rows, or 32 where their registers have room: what is read of
 * keys and values is used twice then. */
static int threads_of(const TsTarget *t, const TsNode *n) {
  bool twice = !is_wide(n) && !(n->nin > 3 && n->in[3]);
  return UNIT_WAVES * (t->matrix != TS_MATRIX_dpas ? t->lanes
                       : twice                     ? UNIT_WAVE / 2
                                                   : UNIT_WAVE);
}

int ts_sched_lower_attention(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                             void *arg, TsSchedKernel *out, TsError *err) {
  Lower l = {.layout = layout, .arg = arg};
  read_node(&l, group->node[0]);
  l.transposed = group->transposed, l.unit = unit_of(s, l.n);
  l.gpu = ts_target_gpu(s->target), l.early = l.gpu && s->target->lanes >= 64;
  l.rows = l.unit ? UNIT_WAVE * UNIT_WAVES : group->choice.rows ? group->choice.rows : ROWS;
  if (l.gpu && l.wide == TS_DT_f64 && l.rows == ROWS) l.rows /= 2; /* as many bytes */
  if (l.rows > l.s && !l.unit) l.rows = l.s;
  l.keys = l.unit ? ts_sched_attention_keys(s->target, l.n) : KEYS;
  l.nb = (l.t + l.keys - 1) / l.keys, l.nq = (l.s + l.rows - 1) / l.rows;
  if (!(l.k = ts_tile_new("attention"))) return ts_error_memory(err);
  if (s->target) l.k->target = s->target->name;
  l.k->ntile = 2, l.k->tile[0] = l.rows, l.k->tile[1] = l.keys;
  ts_sched_choice_head(&group->choice, l.k);
  if (l.unit) l.k->threads = threads_of(s->target, l.n);
  put_params(&l);
  TsTileBuild b = ts_tile_build(l.k);
  l.b = &b;
  b.line = ts_tile_place(l.k, ts_graph_where(l.n));
  if (!l.unit) pack(&l);
  attend(&l);
  if (!l.k->failed) return give(&l, out);
  ts_tile_free(l.k);
  return ts_error_memory(err);
}
