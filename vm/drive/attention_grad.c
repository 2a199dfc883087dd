/* The gradients of attention: the driver around the product's tiles and
 * vm/kernels/attention/grad.h.
 *
 * The definition, in the wide type W; every operation is rounded once. For query row i of
 * head h, which sees the keys [lo, hi) by causal and window: t[j], m, l are those of
 * vm/drive/attention.c, sink included, so that a target may keep m and l from the forward pass
 * instead of computing them again. Then, u = m, but 0 if m is -inf:
 *
 *   r = 1 / l, but 0 if l is 0 (then all of the row's p and dt are +0)
 *   delta = sum of g[c] * out[c] in the canonical order of dv elements
 *   p[j] = exp(t[j] - u) * r;                     +0 outside [lo, hi)
 *   dp[j] = chain of fma(g[c], v[j][c], dp) for c ascending from +0
 *   dt[j] = p[j] * (dp[j] - delta);               +0 outside [lo, hi)
 *   dq[c] = (chain of fma(dt[j], k[j][c], dq) for j ascending) * scale + 0
 * and of key j of a kv head, for its query heads ascending and their rows ascending:
 *   dk[c] = (chain of fma(dt, q[c], dk)) * scale + 0
 *   dv[c] = (chain of fma(p, g[c], dv)) + 0
 *   scores: dt, of hidden keys +0
 *   sink[h] = the canonical sum over batch, then i, of -(exp(x - u) * r) * delta
 *
 * The chains take a row and a key together where the row sees at least one key of the
 * group of 32 that the key stands in. For finite values the others would be no-ops, as
 * adding +0 at the end makes one of the two zeros; a NaN in a hidden group does no harm.
 *
 * Neither tiles nor threads, blocks of rows or of keys can be seen in the result: a chain
 * goes on where it was left. A device does the same by letting one block of work own a
 * block of keys and walk the queries upwards, and by adding each block's part of dq in
 * increasing order of keys, one chain stored and loaded again. Matrix units round dt
 * and p to 16 bits; this definition does not. The alternative, the logarithm of l and one
 * exponential exp(t - m - log l), saves a product and loses 2 to 3 bits of p.
 *
 * An item of work is a kv head with all of its query rows, 132 at a time, which needs five
 * products for a pair of row and key. Are there fewer kv heads than threads, then dq and
 * the statistics come from items of some rows, and dk and dv from items of 128 keys,
 * which computes two products twice. Scores of a block of rows stay in the cache between
 * the statistics and their use where they fit, else they are made again. */
#include "vm/drive/attention_grad.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/scratch.h"
#include "vm/rows/leaf_sum.h"

enum {
  KEYS = TS_ATTENTION_KEYS,
  GROUP = 32, /* keys that take part together; a multiple of every nr */
  GROUPS = KEYS / GROUP,
  ROWS = 132,           /* query rows of a block: full tiles of 12, 6 and 4 */
  KEEP_BYTES = 1 << 20, /* scores that a block of rows may keep */
};

typedef struct Job {
  const TsAttentionGrad *g;
  const TsAttention *a;
  const TsKernels *k;
  const TsGemmAcc *acc;
  TsGemmPack *pack_a, *pack_b; /* of W */
  TsConvertFn *load, *store;   /* NULL where the storage type is W */
  int w;                       /* index of W's kernels */
  int64_t size, wide;          /* bytes of an element in storage, in W */
  int64_t group, blocks;       /* query heads of a kv head, blocks of keys */
  bool keep, split;
  char *m, *r, *delta; /* [batch][heads][s], where split */
  char *sink;          /* [heads][batch][s], or NULL */
  int64_t worker_bytes;
  char *mem;
} Job;

/* A matrix of W in memory: the tensor itself, or scratch. */
typedef struct Rows {
  const char *at;
  int64_t step; /* elements from one row to the next */
} Rows;

typedef struct Item {
  const Job *j;
  /* scratch */
  char *kp, *vp, *kw, *vw, *dk, *dv, *qw, *qp, *gw, *gp, *ow, *s, *dp, *dq, *m, *l, *delta;
  char *sinks;
  /* the kv head, and which of its keys */
  int64_t head;
  int block0, block1;
  bool for_q, for_k;
  Rows keys;
  char *dk_to, *dv_to;
  /* a block of rows of one query head */
  int64_t query_head, first;
  int rows;
  Rows q, gr;
  int64_t lo[ROWS], hi[ROWS];
} Item;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/* ---- operands in W */

/* n rows of d elements: in place where they are of W, else converted to scratch. */
static Rows widened(const Job *j, const void *from, int64_t at, int64_t step, int64_t n,
                    int64_t d, char *to) {
  const char *x = (const char *)from + at * j->size;
  if (!j->load) return (Rows){x, step};
  for (int64_t i = 0; i < n; i++) j->load(d, to + i * d * j->wide, x + i * step * j->size);
  return (Rows){to, d};
}

/* Panels of nr rows, k ascending within each. */
static void pack_keys(const Job *j, Rows x, int64_t n, int64_t d, char *to) {
  int64_t nr = j->acc->nr;
  for (int64_t i = 0; i < n; i += nr)
    j->pack_b(to + i * d * j->wide, (int)nr, x.at + i * x.step * j->wide, x.step, 1,
              min64(nr, n - i), d);
}

static void pack_queries(const Job *j, Rows x, int64_t n, int64_t d, char *to) {
  int64_t mr = j->acc->mr;
  for (int64_t i = 0; i < n; i += mr)
    j->pack_a(to + i * d * j->wide, (int)mr, x.at + i * x.step * j->wide, x.step, 1,
              min64(mr, n - i), d);
}

static void open_head(Item *t, int64_t head) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  int64_t first = t->block0 * KEYS, n = min64(a->t, t->block1 * KEYS) - first, w = j->wide;
  t->head = head;
  t->keys = widened(j, a->k, a->k_at[head] + first * a->k_step, a->k_step, n, a->d, t->kw);
  Rows values = widened(j, a->v, a->v_at[head] + first * a->v_step, a->v_step, n, a->dv, t->vw);
  pack_keys(j, t->keys, n, a->d, t->kp);
  pack_keys(j, values, n, a->dv, t->vp);
  if (!t->for_k) return;
  bool in_place = !j->store;
  t->dk_to = in_place ? (char *)j->g->dk + (head * a->t + first) * a->d * w : t->dk;
  t->dv_to = in_place ? (char *)j->g->dv + (head * a->t + first) * a->dv * w : t->dv;
  memset(t->dk_to, 0, (size_t)(n * a->d * w));
  memset(t->dv_to, 0, (size_t)(n * a->dv * w));
}

static void close_head(Item *t) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  int64_t first = t->block0 * KEYS, n = min64(a->t, t->block1 * KEYS) - first;
  int64_t at = t->head * a->t + first;
  if (!t->for_k) return;
  j->k->attention_grad.scale[j->w](t->dk_to, n * a->d, a->scale);
  j->k->attention_grad.scale[j->w](t->dv_to, n * a->dv, 1);
  if (!j->store) return;
  j->store(n * a->d, (char *)j->g->dk + at * a->d * j->size, t->dk_to);
  j->store(n * a->dv, (char *)j->g->dv + at * a->dv * j->size, t->dv_to);
}

/* ---- rows */
static void put(const Job *j, char *to, int64_t i, double v) { ts_leaf_put(j->w, to, i, v); }
static double get(const Job *j, const char *from, int64_t i) {
  return ts_leaf_get(j->w, from, i);
}

/* delta of each row */
static void set_deltas(Item *t, Rows out) {
  const Job *j = t->j;
  for (int i = 0; i < t->rows; i += TS_GRAD_ROWS) {
    int n = (int)min64(TS_GRAD_ROWS, t->rows - i);
    const void *x[TS_GRAD_ROWS], *y[TS_GRAD_ROWS];
    for (int r = 0; r < n; r++) {
      x[r] = t->gr.at + (i + r) * t->gr.step * j->wide;
      y[r] = out.at + (i + r) * out.step * j->wide;
    }
    TsRowSums a = {.rows = n, .n = j->a->dv, .x = x, .g = y, .out = t->delta + i * j->wide};
    ts_leaf_rows(j->w, j->k->rows_grad.dot[j->w], &a);
  }
}

static void open_rows(Item *t) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  const TsAttentionGrad *g = j->g;
  int64_t head = t->query_head;
  t->q = widened(j, a->q, a->q_at[t->query_head] + t->first * a->q_step, a->q_step, t->rows,
                 a->d, t->qw);
  t->gr =
      widened(j, g->g, g->g_at[head] + t->first * g->g_step, g->g_step, t->rows, a->dv, t->gw);
  pack_queries(j, t->q, t->rows, a->d, t->qp);
  pack_queries(j, t->gr, t->rows, a->dv, t->gp);
  for (int i = 0; i < t->rows; i++) {
    int64_t place = t->first + i + a->place;
    t->lo[i] = a->window ? max64(0, min64(a->t, place - a->window + 1)) : 0;
    t->hi[i] = a->causal ? max64(0, min64(a->t, place + 1)) : a->t;
  }
  if (!t->for_q) return;
  Rows out = widened(j, g->out, g->out_at[head] + t->first * g->out_step, g->out_step, t->rows,
                     a->dv, t->ow);
  set_deltas(t, out);
  for (int i = 0; i < t->rows; i++) put(j, t->m, i, -__builtin_inf());
  memset(t->l, 0, (size_t)(t->rows * j->wide));
  memset(t->dq, 0, (size_t)(t->rows * a->d * j->wide));
}

/* Groups of keys in which row i sees something: [from, to); if none, [INT64_MAX, 0). */
static int64_t group_from(const Item *t, int i) {
  return t->lo[i] < t->hi[i] ? t->lo[i] / GROUP : INT64_MAX;
}
static int64_t group_to(const Item *t, int i) {
  return t->lo[i] < t->hi[i] ? (t->hi[i] + GROUP - 1) / GROUP : 0;
}

/* ---- one key block and at most mr rows */
typedef struct Tile {
  int64_t first; /* key */
  int block, n, row, rows;
  int from, to; /* keys of the block, in whole groups, that some row sees */
  int32_t lo[TS_ATTENTION_ROWS], hi[TS_ATTENTION_ROWS];
  char *s, *dp;
} Tile;

/* False if no row sees anything. */
static bool look(const Item *t, Tile *b) {
  int64_t from = KEYS, to = 0;
  for (int i = 0; i < b->rows; i++) {
    int64_t lo = max64(0, min64(b->n, t->lo[b->row + i] - b->first));
    int64_t hi = max64(lo, min64(b->n, t->hi[b->row + i] - b->first));
    b->lo[i] = (int32_t)lo, b->hi[i] = (int32_t)hi;
    if (lo < hi) from = min64(from, lo), to = max64(to, hi);
  }
  b->from = (int)(from / GROUP * GROUP), b->to = (int)min64(b->n, up(to, GROUP));
  return b->from < b->to;
}

/* y[row][key] = chains over d of packed rows and packed keys. */
static void products(const Item *t, const Tile *b, const char *rows, const char *keys,
                     int64_t d, char *y) {
  const TsGemmAcc *acc = t->j->acc;
  int64_t w = t->j->wide, nr = acc->nr;
  TsGemmTile *tile = b->rows == acc->mr ? acc->full : acc->tile;
  rows += b->row * d * w;
  keys += (int64_t)(b->block - t->block0) * KEYS * d * w;
  for (int64_t i = b->from; i < b->to; i += nr)
    tile(b->rows, (int)nr, d, rows, 1, acc->mr, keys + i * d * w, nr, y + i * w, KEYS, false);
}

static TsAttentionGradRows row_args(const Item *t, const Tile *b) {
  const TsAttention *a = t->j->a;
  int64_t w = t->j->wide;
  TsAttentionGradRows r = {.s = b->s,
                           .dp = b->dp,
                           .rows = b->rows,
                           .lo = b->lo,
                           .hi = b->hi,
                           .scale = a->scale,
                           .step = a->mask_key_step,
                           .m = t->m + b->row * w,
                           .l = t->l + b->row * w,
                           .r = t->l + b->row * w,
                           .delta = t->delta + b->row * w};
  r.keep = r.kept = t->j->blocks == 1 && !a->sink && !t->j->split;
  for (int i = 0; i < b->rows && a->mask_at; i++) {
    int64_t at = a->mask_at[t->query_head] + (t->first + b->row + i) * a->mask_step +
                 b->first * a->mask_key_step;
    if (a->bias) r.bias[i] = (const char *)a->bias + at * w;
    if (a->seen) r.seen[i] = a->seen + at;
  }
  return r;
}

static char *scores_at(const Item *t, int block, int row) {
  int64_t i = t->j->keep ? block - t->block0 : 0;
  return t->s + (i * ROWS + row) * KEYS * t->j->wide;
}

static void statistics(Item *t, int block) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  Tile b = {.block = block, .first = block * KEYS, .n = (int)min64(KEYS, a->t - block * KEYS)};
  for (b.row = 0; b.row < t->rows; b.row += j->acc->mr) {
    b.rows = (int)min64(j->acc->mr, t->rows - b.row);
    if (!look(t, &b)) continue;
    b.s = scores_at(t, block, b.row);
    products(t, &b, t->qp, t->kp, a->d, b.s);
    TsAttentionGradRows r = row_args(t, &b);
    j->k->attention_grad.scores[j->w](&r);
  }
}

/* l becomes r, m becomes u; the sink's share of the gradient. */
static void end_statistics(Item *t) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  int64_t head = t->query_head % a->heads, batch = t->query_head / a->heads, w = j->wide;
  const char *sink = a->sink ? (const char *)a->sink + head * w : NULL;
  j->k->attention_grad.ends[j->w](t->m, t->l, sink, t->sinks, t->rows);
  for (int i = 0; sink && i < t->rows; i++)
    put(j, j->sink, (head * a->batch + batch) * a->s + t->first + i,
        -get(j, t->sinks, i) * get(j, t->delta, i));
  if (!j->split) return;
  int64_t at = (t->query_head * a->s + t->first) * w;
  memcpy(j->m + at, t->m, (size_t)(t->rows * w));
  memcpy(j->r + at, t->l, (size_t)(t->rows * w));
  memcpy(j->delta + at, t->delta, (size_t)(t->rows * w));
}

static void load_statistics(Item *t) {
  const Job *j = t->j;
  int64_t at = (t->query_head * j->a->s + t->first) * j->wide;
  memcpy(t->m, j->m + at, (size_t)(t->rows * j->wide));
  memcpy(t->l, j->r + at, (size_t)(t->rows * j->wide));
  memcpy(t->delta, j->delta + at, (size_t)(t->rows * j->wide));
}

/* ---- the chains */

/* y[i][c] = chain over k of a[i][k] b[k][c], going on from y. */
static void chains(const Job *j, int rows, int64_t n, int64_t nk, const char *a, int64_t ars,
                   int64_t acs, Rows b, char *y) {
  int64_t nr = j->acc->nr, w = j->wide;
  for (int64_t c = 0; c < n; c += nr)
    j->acc->tile(rows, (int)min64(nr, n - c), nk, a, ars, acs, b.at + c * w, b.step, y + c * w,
                 n, true);
}

/* dq of rows [row, row + rows) of the tile takes the groups [from, to) in. */
static void add_keys(const Item *t, const Tile *b, int row, int rows, int64_t from,
                     int64_t to) {
  const Job *j = t->j;
  int64_t w = j->wide, k = from * GROUP - b->first, n = min64(to * GROUP - b->first, b->n) - k;
  int64_t key = from * GROUP - t->block0 * KEYS;
  Rows keys = {t->keys.at + key * t->keys.step * w, t->keys.step};
  chains(j, rows, j->a->d, n, b->dp + (row * KEYS + k) * w, KEYS, 1, keys,
         t->dq + (b->row + row) * j->a->d * w);
}

/* Groups that all rows see go together, the others one by one and by runs of rows. */
static void add_to_queries(const Item *t, const Tile *b) {
  int last = b->row + b->rows - 1;
  int64_t from = (b->first + b->from) / GROUP, to = (b->first + b->to + GROUP - 1) / GROUP;
  int64_t all_from = max64(from, group_from(t, last)), all_to = min64(to, group_to(t, b->row));
  for (int64_t g = from; g < to;) {
    if (g >= all_from && g < all_to) {
      add_keys(t, b, 0, b->rows, g, all_to);
      g = all_to;
      continue;
    }
    int row = 0, end;
    while (row < b->rows &&
           !(group_from(t, b->row + row) <= g && g < group_to(t, b->row + row)))
      row++;
    for (end = row;
         end < b->rows && group_from(t, b->row + end) <= g && g < group_to(t, b->row + end);)
      end++;
    if (row < end) add_keys(t, b, row, end - row, g, g + 1);
    g++;
  }
}

/* The rows that see group g: [*from, *to). Both ends grow with g. */
static void rows_of(const Item *t, int64_t g, int *from, int *to) {
  int i = 0;
  while (i < t->rows && group_to(t, i) <= g) i++;
  *from = i;
  while (i < t->rows && group_from(t, i) <= g) i++;
  *to = i;
}

/* dk and dv of keys [k, k + n) of the block take rows [from, to) in. */
static void add_rows(const Item *t, int block, int64_t k, int64_t n, int from, int to,
                     const char *p, const char *dt) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  int64_t w = j->wide, mr = j->acc->mr, key = (int64_t)(block - t->block0) * KEYS + k;
  Rows g = {t->gr.at + from * t->gr.step * w, t->gr.step};
  Rows q = {t->q.at + from * t->q.step * w, t->q.step};
  int64_t at = (from * KEYS + k) * w;
  for (int64_t i = 0; i < n; i += mr) {
    int rows = (int)min64(mr, n - i);
    char *dv = t->dv_to + (key + i) * a->dv * w, *dk = t->dk_to + (key + i) * a->d * w;
    chains(j, rows, a->dv, to - from, p + at + i * w, 1, KEYS, g, dv);
    chains(j, rows, a->d, to - from, dt + at + i * w, 1, KEYS, q, dk);
  }
}

static void add_to_keys(const Item *t, int block, const char *p, const char *dt) {
  int64_t n = min64(KEYS, t->j->a->t - block * KEYS), g = block * GROUPS;
  for (int64_t k = 0, size; k < n; k += size) {
    int from, to, next_from, next_to;
    rows_of(t, g + k / GROUP, &from, &to);
    for (size = GROUP; k + size < n; size += GROUP) {
      rows_of(t, g + (k + size) / GROUP, &next_from, &next_to);
      if (next_from != from || next_to != to) break;
    }
    size = min64(size, n - k);
    if (from < to) add_rows(t, block, k, size, from, to, p, dt);
  }
}

static void store_scores(const Item *t, const Tile *b) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  for (int i = 0; i < b->rows; i++) {
    int64_t row = t->query_head * a->s + t->first + b->row + i;
    char *to = (char *)j->g->scores + (row * a->t + b->first) * j->size;
    const char *from = b->dp + i * KEYS * j->wide;
    if (j->store)
      j->store(b->n, to, from);
    else
      memcpy(to, from, (size_t)(b->n * j->wide));
  }
}

static void block_of_keys(Item *t, int block) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  Tile b = {.block = block, .first = block * KEYS, .n = (int)min64(KEYS, a->t - block * KEYS)};
  bool made = j->keep && t->for_q;
  for (b.row = 0; b.row < t->rows; b.row += j->acc->mr) {
    b.rows = (int)min64(j->acc->mr, t->rows - b.row);
    if (!look(t, &b)) continue;
    b.s = scores_at(t, block, b.row), b.dp = t->dp + b.row * KEYS * j->wide;
    TsAttentionGradRows r = row_args(t, &b);
    if (!made) {
      products(t, &b, t->qp, t->kp, a->d, b.s);
      j->k->attention_grad.rescore[j->w](&r);
    }
    products(t, &b, t->gp, t->vp, a->dv, b.dp);
    j->k->attention_grad.finish[j->w](&r);
    if (t->for_q) add_to_queries(t, &b);
    if (t->for_q && j->g->scores) store_scores(t, &b);
  }
  if (t->for_k) add_to_keys(t, block, scores_at(t, block, 0), t->dp);
}

/* ---- items */
static void close_rows(Item *t) {
  const Job *j = t->j;
  int64_t d = j->a->d, at = (t->query_head * j->a->s + t->first) * d;
  if (!t->for_q) return;
  j->k->attention_grad.scale[j->w](t->dq, t->rows * d, j->a->scale);
  char *to = (char *)j->g->dq + at * j->size;
  if (j->store)
    j->store(t->rows * d, to, t->dq);
  else
    memcpy(to, t->dq, (size_t)(t->rows * d * j->wide));
}

static void block_of_rows(Item *t, int64_t query_head, int64_t first) {
  int64_t lo = t->j->a->t, hi = 0;
  t->query_head = query_head, t->first = first;
  t->rows = (int)min64(ROWS, t->j->a->s - first);
  open_rows(t);
  for (int i = 0; i < t->rows; i++)
    if (t->lo[i] < t->hi[i]) lo = min64(lo, t->lo[i]), hi = max64(hi, t->hi[i]);
  int from = (int)max64(t->block0, lo / KEYS), to = (int)min64(t->block1, up(hi, KEYS) / KEYS);
  for (int b = from; b < to && t->for_q && !ts_cpu_interrupted(); b++) statistics(t, b);
  if (t->for_q)
    end_statistics(t);
  else
    load_statistics(t);
  for (int b = from; b < to && !ts_cpu_interrupted(); b++) block_of_keys(t, b);
  close_rows(t);
}

/* Lays out a worker's scratch; from NULL, its size. */
static int64_t lay_out(const Job *j, char *mem, Item *t) {
  const TsAttention *a = j->a;
  char *start = mem;
  int64_t keys = up(a->t, KEYS) * j->wide, rows = (ROWS + 16) * j->wide;
  int64_t copies = j->load ? 1 : 0;
  t->kp = ts_scratch_carve(&mem, keys * a->d + 64); /* packing stores whole vectors */
  t->vp = ts_scratch_carve(&mem, keys * a->dv + 64);
  t->kw = ts_scratch_carve(&mem, copies * keys * a->d);
  t->vw = ts_scratch_carve(&mem, copies * keys * a->dv);
  t->dk = ts_scratch_carve(&mem, copies * keys * a->d);
  t->dv = ts_scratch_carve(&mem, copies * keys * a->dv);
  t->qw = ts_scratch_carve(&mem, copies * rows * a->d);
  t->gw = ts_scratch_carve(&mem, copies * rows * a->dv);
  t->ow = ts_scratch_carve(&mem, copies * rows * a->dv);
  t->qp = ts_scratch_carve(&mem, rows * a->d + 64);
  t->gp = ts_scratch_carve(&mem, rows * a->dv + 64);
  t->dq = ts_scratch_carve(&mem, rows * a->d);
  t->m = ts_scratch_carve(&mem, rows);
  t->l = ts_scratch_carve(&mem, rows);
  t->delta = ts_scratch_carve(&mem, rows);
  t->sinks = ts_scratch_carve(&mem, rows);
  t->dp = ts_scratch_carve(&mem, rows * KEYS);
  t->s = ts_scratch_carve(&mem, rows * KEYS * (j->keep ? j->blocks : 1));
  return mem - start;
}

static void whole_heads(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsAttention *a = j->a;
  Item t = {.j = j, .block1 = (int)j->blocks, .for_q = true, .for_k = true};
  lay_out(j, j->mem + worker * j->worker_bytes, &t);
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    open_head(&t, i);
    int64_t first = i / a->kv_heads * a->heads + i % a->kv_heads * j->group;
    for (int64_t h = 0; h < j->group; h++)
      for (int64_t r = 0; r < a->s && !ts_cpu_interrupted(); r += ROWS)
        block_of_rows(&t, first + h, r);
    close_head(&t);
  }
}

static void some_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsAttention *a = j->a;
  int64_t per_head = (a->s + ROWS - 1) / ROWS, open = -1;
  Item t = {.j = j, .block1 = (int)j->blocks, .for_q = true};
  lay_out(j, j->mem + worker * j->worker_bytes, &t);
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    int64_t h = i / per_head, kv = h / a->heads * a->kv_heads + h % a->heads / j->group;
    if (open != kv) open_head(&t, kv);
    open = kv;
    block_of_rows(&t, h, i % per_head * ROWS);
  }
}

static void some_keys(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsAttention *a = j->a;
  Item t = {.j = j, .for_k = true};
  lay_out(j, j->mem + worker * j->worker_bytes, &t);
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    int64_t kv = i / j->blocks,
            first = kv / a->kv_heads * a->heads + kv % a->kv_heads * j->group;
    t.block0 = (int)(i % j->blocks), t.block1 = t.block0 + 1;
    open_head(&t, kv);
    for (int64_t h = 0; h < j->group; h++)
      for (int64_t r = 0; r < a->s && !ts_cpu_interrupted(); r += ROWS)
        block_of_rows(&t, first + h, r);
    close_head(&t);
  }
}

static void sum_sinks(const Job *j) {
  const TsAttention *a = j->a;
  int64_t n = a->batch * a->s;
  for (int64_t h = 0; h < a->heads; h++)
    put(j, j->g->sink, h,
        ts_leaf_row(j->w, j->k->rows_grad.sum[j->w], j->sink + h * n * j->wide, NULL, n));
}

static void set_kernels(Job *j) {
  TsDtype d = j->a->dtype, wide = (TsDtype)ts_dtypes[d].accum;
  j->w = wide == TS_DT_f64;
  TsGemmType type = j->w ? TS_GEMM_f64 : TS_GEMM_f32;
  j->acc = j->w ? j->k->gemm.f64 : j->k->gemm.f32;
  j->pack_a = j->acc->pack_a[type], j->pack_b = j->acc->pack_b[type];
  j->size = ts_dtypes[d].nbytes, j->wide = ts_dtypes[wide].nbytes;
  if (d != wide) {
    j->load = j->k->convert.convert[d][wide];
    j->store = j->k->convert.convert[wide][d];
  }
}

static int take_memory(Job *j, int threads) {
  const TsAttention *a = j->a;
  Item t;
  int64_t rows = a->batch * a->heads * a->s * j->wide;
  j->worker_bytes = up(lay_out(j, NULL, &t), 64);
  j->mem = ts_work_take(threads * j->worker_bytes);
  if (j->split) {
    j->m = ts_work_take(3 * rows);
    j->r = j->m + rows, j->delta = j->r + rows;
    if (!j->m) return -1;
  }
  if (a->sink && !(j->sink = ts_work_take(rows))) return -1;
  return j->mem ? 0 : -1;
}

static void run(Job *j) {
  const TsAttention *a = j->a;
  int64_t heads = a->batch * a->heads, kv_heads = a->batch * a->kv_heads;
  double pairs = (double)a->s * (double)a->t * (double)(a->d + a->dv);
  int64_t grain = pairs > 1e6 ? 1 : (int64_t)(1e6 / (pairs + 1)) + 1;
  if (!j->split) {
    ts_cpu_parallel(kv_heads, grain, whole_heads, j);
  } else {
    ts_cpu_parallel(heads * ((a->s + ROWS - 1) / ROWS), 1, some_rows, j);
    ts_cpu_parallel(kv_heads * j->blocks, 1, some_keys, j);
  }
  if (a->sink) sum_sinks(j);
}

int ts_attention_grad(const TsAttentionGrad *g, const TsKernels *k) {
  const TsAttention *a = &g->a;
  Job j = {.g = g, .a = a, .k = k};
  int threads = ts_cpu_threads();
  set_kernels(&j);
  j.group = a->heads / a->kv_heads;
  j.blocks = (a->t + KEYS - 1) / KEYS;
  j.keep = j.blocks * ROWS * KEYS * j.wide <= KEEP_BYTES;
  j.split = a->batch * a->kv_heads < threads && a->s * a->t > KEYS * KEYS;
  int failed = take_memory(&j, threads);
  if (!failed) run(&j);
  ts_work_give(j.mem), ts_work_give(j.m), ts_work_give(j.sink);
  return failed;
}
