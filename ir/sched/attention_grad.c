/* The gradients of attention as a kernel of Tile IR in block form: the definition of
 * vm/drive/attention_grad.c, whose score matrix is never in memory.
 *
 * Three phases. The first transposes keys and values of each block of 128 to [d, key], so that
 * scores and dp read vectors of keys. In the second a round is a block of 32 query rows of one
 * head: it makes the rows' statistics u, r, delta (over blocks of 128 keys, as the forward
 * pass), leaves them in memory, and walks the keys once more for dq. In the third a round is 32
 * keys of one kv head: it walks the query heads and rows upwards and carries dk and dv. So no
 * two rounds add to one element, and each chain is in its order.
 *
 * The definition lets a row and a key meet where the row sees something of the key's group
 * of 32. Blocks here are such groups, cut at multiples of 32, so that all rows of a block see a
 * group or none does, and what is not walked needs no choice. Other sizes, masks, windows and
 * sinks are the VM's. */
#include <math.h>
#include <string.h>

#include "ir/sched/attention.h"
#include "ir/sched/attention_forms.h"

enum { KEYS = 128, GROUP = 32 };

const int ts_sched_attention_grad_reads[5] = {0, 1, 2, 5, 6};

typedef struct Lower {
  const TsNode *n;
  TsTile *k;
  TsTileBuild *b;
  int64_t batch, heads, kv_heads, s, t, d, dv;
  bool causal;
  double scale;
  TsTileVal in[5], out[3];                           /* q k v out g; dq dk dv */
  TsTileVal transposed_k, transposed_v, u, r, delta; /* scratch */
} Lower;

/* A block of query rows and one of keys. */
typedef struct Pair {
  TsTileVal b, h, kv, row, key; /* positions */
  TsTileVal q, g, u, r, delta;  /* of the rows */
} Pair;

/* ---- short forms */
static TsTileType rows_type(void) { return ts_tile_vector(TS_DT_f32, GROUP); }

static TsTileVal load(Lower *l, TsTileVal m, TsTileVal b, TsTileVal h, TsTileVal row,
                      int64_t nrow, int64_t ncol) {
  TsTileVal at[4] = {b, h, row, num(l->b, 0)};
  TsTileType t = tile2(TS_DT_f32, nrow, ncol);
  return ts_tile_load(l->b, m, at, &t, NULL);
}

static void store(Lower *l, TsTileVal m, TsTileVal b, TsTileVal h, TsTileVal row, TsTileVal x) {
  TsTileVal at[4] = {b, h, row, num(l->b, 0)};
  ts_tile_store(l->b, m, at, x, NULL);
}

/* ---- parameters */
/* [M, heads, rows, numbers], where what reads v has it. */
static TsTileVal param(TsTile *k, TsVal v, const char *name, TsLayoutFn *layout, void *arg,
                       bool written) {
  const TsMeta *m = &v->meta;
  int64_t own[TS_MAX_RANK], size = ts_tile_size(k, "M");
  TsTileType t = {.dtype = m->dtype, .rank = 4};
  bool known = layout && layout(arg, v, own);
  if (!known) ts_meta_strides(m, own);
  for (int i = 0; i < 4; i++) {
    int axis = i - (4 - m->ndim);
    t.dim[i] = axis < 0 ? 1 : m->dim[axis];
    t.stride[i] = axis < 0 ? ts_meta_numel(m) : own[axis];
  }
  t.dim[0] = size;
  t.strided = known;
  if (!known) memset(t.stride, 0, sizeof t.stride);
  return ts_tile_param(k, name, &t, written);
}

void ts_sched_attention_grad_params(const TsNode *n, TsTile *k, TsLayoutFn *layout, void *arg,
                                    TsTileVal in[5], TsTileVal out[3]) {
  static const char *const read[] = {"q", "k", "v", "out", "g"}, *const made[] = {"dq", "dk",
                                                                                  "dv"};
  for (int i = 0; i < 5; i++)
    in[i] = param(k, n->in[ts_sched_attention_grad_reads[i]], read[i], layout, arg, false);
  for (int i = 0; i < 3; i++)
    out[i] = param(k, (TsVal)(uintptr_t)&n->out[i], made[i], NULL, NULL, true);
}

void ts_sched_attention_grad_values(const TsNode *n, TsVal value[8]) {
  for (int i = 0; i < 5; i++) value[i] = n->in[ts_sched_attention_grad_reads[i]];
  for (int i = 0; i < 3; i++) value[5 + i] = (TsVal)(uintptr_t)&n->out[i];
}

static TsTileVal scratch(Lower *l, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(TS_DT_f32, rank, dim);
  return ts_tile_alloc(l->b, TS_SPACE_scratch, &t);
}

static void put_scratch(Lower *l) {
  int64_t m = ts_tile_dim(0), nb = l->t / KEYS;
  l->transposed_k = scratch(l, 5, (int64_t[]){m, l->kv_heads, nb, l->d, KEYS});
  l->transposed_v = scratch(l, 5, (int64_t[]){m, l->kv_heads, nb, l->dv, KEYS});
  TsTileVal *list[3] = {&l->u, &l->r, &l->delta};
  for (int i = 0; i < 3; i++) *list[i] = scratch(l, 3, (int64_t[]){m, l->heads, l->s});
}

/* ---- the first phase */
static void pack(Lower *l) {
  TsTileVal at[3];
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->kv_heads, l->t / KEYS, at);
  TsTileVal row = times(l->b, at[2], KEYS),
            to[5] = {at[0], at[1], at[2], num(l->b, 0), num(l->b, 0)};
  TsTileVal k = load(l, l->in[1], at[0], at[1], row, KEYS, l->d);
  ts_tile_store(l->b, l->transposed_k, to, ts_tile_transposed(l->b, k), NULL);
  TsTileVal v = load(l, l->in[2], at[0], at[1], row, KEYS, l->dv);
  ts_tile_store(l->b, l->transposed_v, to, ts_tile_transposed(l->b, v), NULL);
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- scores */
/* The n keys from `key` on, of memory with blocks of [width, 128]. */
static TsTileVal load_transposed(Lower *l, TsTileVal m, const Pair *p, TsTileVal key,
                                 int64_t width, int64_t n) {
  TsTileVal block = op2(l->b, TS_OP_floordiv, key, num(l->b, KEYS));
  TsTileVal col = n == KEYS ? num(l->b, 0) : op2(l->b, TS_OP_mod, key, num(l->b, KEYS));
  TsTileVal at[5] = {p->b, p->kv, block, num(l->b, 0), col};
  TsTileType t = tile2(TS_DT_f32, width, n);
  return ts_tile_load(l->b, m, at, &t, NULL);
}

/* Which of n keys from `key` on each row sees; NULL: all. */
static TsTileVal seen(Lower *l, const Pair *p, TsTileVal key, int64_t n) {
  if (!l->causal) return NULL;
  TsTileType row = ts_tile_vector(TS_DT_i32, GROUP),
             t = ts_tile_type(TS_DT_i32, 2, (int64_t[]){GROUP, n});
  TsAttr axis[2] = {{.type = TS_ATTR_int, .i = 0}, {.type = TS_ATTR_int, .i = 1}};
  TsTileVal last = op2(l->b, TS_OP_sub, plus(l->b, p->row, l->t - l->s), key);
  last = ts_tile_broadcast(l->b, ts_tile_cast(l->b, last, TS_DT_i32), &row, NULL);
  last = op2(l->b, TS_OP_add, last, ts_tile_emit1(l->b, TS_TILE_iota, 0, NULL, &axis[0], &row));
  TsTileVal i = ts_tile_emit1(l->b, TS_TILE_iota, 0, NULL, &axis[1], &t);
  return op2(l->b, TS_OP_le, i, over(l->b, last, n));
}

static TsTileVal scores(Lower *l, const Pair *p, TsTileVal key, int64_t n) {
  TsTileType t = tile2(TS_DT_f32, GROUP, n);
  TsTileVal x = product(l->b, NULL, p->q, load_transposed(l, l->transposed_k, p, key, l->d, n),
                        full(l->b, 0, t));
  return x ? op2(l->b, TS_OP_mul, x, full(l->b, l->scale, t)) : NULL;
}

/* p and dt of the rows and the 32 keys from p->key on. */
static void slopes(Lower *l, const Pair *p, TsTileVal *prob, TsTileVal *dt) {
  TsTileType t = tile2(TS_DT_f32, GROUP, GROUP);
  TsTileVal x = scores(l, p, p->key, GROUP), see = seen(l, p, p->key, GROUP),
            zero = full(l->b, 0, t);
  TsTileVal e = exp_of(l->b, x, over(l->b, p->u, GROUP));
  e = op2(l->b, TS_OP_mul, e, over(l->b, p->r, GROUP));
  TsTileVal v = load_transposed(l, l->transposed_v, p, p->key, l->dv, GROUP);
  TsTileVal dp = product(l->b, NULL, p->g, v, full(l->b, 0, t));
  *dt = op2(l->b, TS_OP_mul, e, op2(l->b, TS_OP_sub, dp, over(l->b, p->delta, GROUP)));
  if (see) *dt = choose(l->b, see, *dt, zero), e = choose(l->b, see, e, zero);
  *prob = e;
}

/* ---- the second phase */
/* Groups of n keys that a block of rows sees: [0, ..). */
static TsTileVal groups_seen(Lower *l, const Pair *p, int64_t n) {
  if (!l->causal) return num(l->b, l->t / n);
  TsTileVal end = plus(l->b, p->row, l->t - l->s + GROUP + n - 1);
  return op2(l->b, TS_OP_maximum, op2(l->b, TS_OP_floordiv, end, num(l->b, n)), num(l->b, 0));
}

/* u and r */
static void statistics(Lower *l, Pair *p) {
  TsTileType row = rows_type();
  TsTileVal state[2] = {full(l->b, -INFINITY, row), full(l->b, 0, row)};
  TsTileLoop j = ts_tile_for(l->b, num(l->b, 0), groups_seen(l, p, KEYS), 1, false, 2, state);
  if (!j.carry) return;
  TsTileVal key = times(l->b, j.i, KEYS), x = scores(l, p, key, KEYS),
            see = seen(l, p, key, KEYS);
  if (x && see) x = choose(l->b, see, x, full(l->b, -INFINITY, x->type));
  TsTileVal m = op2(l->b, TS_OP_maximum, j.carry[0], reduced(l->b, TS_TILE_max, x)),
            base = base_of(l->b, m);
  TsTileVal alpha = exp_of(l->b, j.carry[0], base);
  TsTileVal e = exp_of(l->b, x, over(l->b, base, KEYS));
  TsTileVal sum = op2(l->b, TS_OP_mul, j.carry[1], alpha);
  TsTileVal next[2] = {m, op2(l->b, TS_OP_add, sum, reduced(l->b, TS_TILE_sum, e))};
  ts_tile_for_end(l->b, &j, next, state);
  p->u = base_of(l->b, state[0]);
  TsTileVal none = op2(l->b, TS_OP_eq, state[1], full(l->b, 0, row));
  TsTileVal r = op2(l->b, TS_OP_div, full(l->b, 1, row), state[1]);
  p->r = choose(l->b, none, full(l->b, 0, row), r);
}

static void keep(Lower *l, const Pair *p) {
  TsTileVal at[3] = {p->b, p->h, p->row};
  ts_tile_store(l->b, l->u, at, p->u, NULL);
  ts_tile_store(l->b, l->r, at, p->r, NULL);
  ts_tile_store(l->b, l->delta, at, p->delta, NULL);
}

static void load_rows(Lower *l, Pair *p) {
  p->q = load(l, l->in[0], p->b, p->h, p->row, GROUP, l->d);
  p->g = load(l, l->in[4], p->b, p->h, p->row, GROUP, l->dv);
}

static void of_queries(Lower *l) {
  TsTileVal at[3], prob, dt, dq = NULL;
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->heads, l->s / GROUP, at);
  int64_t group = l->heads / l->kv_heads;
  Pair p = {.b = at[0], .h = at[1], .kv = at[1], .row = times(l->b, at[2], GROUP)};
  if (group > 1) p.kv = op2(l->b, TS_OP_floordiv, at[1], num(l->b, group));
  load_rows(l, &p);
  TsTileVal out = load(l, l->in[3], p.b, p.h, p.row, GROUP, l->dv);
  p.delta = reduced(l->b, TS_TILE_sum, op2(l->b, TS_OP_mul, p.g, out));
  statistics(l, &p);
  keep(l, &p);
  TsTileVal start = full(l->b, 0, tile2(TS_DT_f32, GROUP, l->d));
  TsTileLoop j =
      ts_tile_for(l->b, num(l->b, 0), groups_seen(l, &p, GROUP), 1, false, 1, &start);
  if (!j.carry) return;
  p.key = times(l->b, j.i, GROUP);
  slopes(l, &p, &prob, &dt);
  TsTileVal k = load(l, l->in[1], p.b, p.kv, p.key, GROUP, l->d);
  TsTileVal next = product(l->b, NULL, dt, k, j.carry[0]);
  ts_tile_for_end(l->b, &j, &next, &dq);
  store(l, l->out[0], p.b, p.h, p.row, ended(l->b, dq, l->scale));
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- the third phase */
static TsTileVal load_numbers(Lower *l, TsTileVal m, const Pair *p) {
  TsTileVal at[3] = {p->b, p->h, p->row};
  TsTileType t = rows_type();
  return ts_tile_load(l->b, m, at, &t, NULL);
}

static void of_keys(Lower *l) {
  TsTileVal at[3], sums[2], prob, dt;
  TsTileLoop r = ts_sched_attention_rounds(l->b, l->kv_heads, l->t / GROUP, at);
  int64_t group = l->heads / l->kv_heads, nrow = l->s / GROUP;
  Pair p = {.b = at[0], .kv = at[1], .key = times(l->b, at[2], GROUP)};
  TsTileVal first = num(l->b, 0);
  if (l->causal) /* the block of rows whose last one sees the first key */
    first = op2(l->b, TS_OP_maximum, first, plus(l->b, at[2], -(l->t - l->s) / GROUP));
  sums[0] = full(l->b, 0, tile2(TS_DT_f32, GROUP, l->d)),
  sums[1] = full(l->b, 0, tile2(TS_DT_f32, GROUP, l->dv));
  TsTileLoop h = ts_tile_for(l->b, num(l->b, 0), num(l->b, group), 1, false, 2, sums);
  if (!h.carry) return;
  p.h = group > 1 ? op2(l->b, TS_OP_add, times(l->b, at[1], group), h.i) : at[1];
  TsTileLoop j = ts_tile_for(l->b, first, num(l->b, nrow), 1, false, 2, h.carry);
  if (!j.carry) return;
  p.row = times(l->b, j.i, GROUP);
  load_rows(l, &p);
  p.u = load_numbers(l, l->u, &p), p.r = load_numbers(l, l->r, &p);
  p.delta = load_numbers(l, l->delta, &p);
  slopes(l, &p, &prob, &dt);
  TsTileVal next[2] = {product(l->b, NULL, ts_tile_transposed(l->b, dt), p.q, j.carry[0]),
                       product(l->b, NULL, ts_tile_transposed(l->b, prob), p.g, j.carry[1])};
  ts_tile_for_end(l->b, &j, next, sums);
  ts_tile_for_end(l->b, &h, sums, sums);
  store(l, l->out[1], p.b, p.kv, p.key, ended(l->b, sums[0], l->scale));
  store(l, l->out[2], p.b, p.kv, p.key, ended(l->b, sums[1], 1));
  ts_tile_for_end(l->b, &r, NULL, NULL);
}

/* ---- the node */
bool ts_sched_is_attention_grad(const TsNode *n) {
  if (n->op != TS_OP_attention_grad || n->nin != 7 || n->nout != 3) return false;
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta, *v = &n->in[2]->meta;
  int nd = q->ndim;
  if (nd < 2 || nd > 4 || n->in[3] || n->in[4] || ts_sched_attention_window(n)) return false;
  for (int i = 0; i < 7; i++)
    if (n->in[i] && n->in[i]->meta.dtype != TS_DT_f32) return false;
  int64_t s = q->dim[nd - 2], t = k->dim[nd - 2];
  return !(n->attr[4].i && s != t) && ts_meta_numel(q) > 0 && ts_meta_numel(v) > 0 && s > 0 &&
         t > 0 && s % GROUP == 0 && t % KEYS == 0;
}

static void read_node(Lower *l, const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta;
  int nd = q->ndim;
  l->n = n;
  l->batch = nd > 3 ? q->dim[0] : 1;
  l->heads = nd > 2 ? q->dim[nd - 3] : 1, l->kv_heads = nd > 2 ? k->dim[nd - 3] : 1;
  l->s = q->dim[nd - 2], l->t = k->dim[nd - 2], l->d = q->dim[nd - 1];
  l->dv = n->in[2]->meta.dim[nd - 1];
  l->causal = n->attr[0].i;
  l->scale = n->attr[2].type == TS_ATTR_f ? n->attr[2].f : 1 / sqrt((double)l->d);
  l->scale = (double)(float)l->scale;
}

int ts_sched_lower_attention_grad(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                                  void *arg, TsSchedKernel *out, TsError *err) {
  Lower l = {.n = NULL};
  if (group->nout != 3)
    return ts_error_set(err, TS_ERR_value, "a gradient of attention that nobody wants");
  read_node(&l, group->node[0]);
  if (!(l.k = ts_tile_new("attention_grad"))) return ts_error_memory(err);
  if (s->target) l.k->target = s->target->name;
  l.k->ntile = 2, l.k->tile[0] = GROUP, l.k->tile[1] = GROUP;
  ts_sched_choice_head(&group->choice, l.k);
  ts_sched_attention_grad_params(l.n, l.k, layout, arg, l.in, l.out);
  TsTileBuild b = ts_tile_build(l.k);
  l.b = &b;
  b.line = ts_tile_place(l.k, ts_graph_where(l.n));
  put_scratch(&l);
  pack(&l);
  of_queries(&l);
  of_keys(&l);
  if (l.k->failed) {
    ts_tile_free(l.k);
    return ts_error_memory(err);
  }
  *out = (TsSchedKernel){.tile = l.k, .dim = {l.batch}};
  ts_sched_attention_grad_values(l.n, out->value);
  return 0;
}
