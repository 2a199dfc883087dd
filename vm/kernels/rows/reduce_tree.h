/* Sums and products of floats in the canonical order. A template: reduce_f32.c and
 * reduce_f64.c define T, V, W, LANES, LEVELS, the v* operations and map_row, then
 * include reduce_order.h and it.
 *
 * The order is a function of the logical length alone:
 *
 *   a leaf is 4096 elements; its element i belongs to lane i mod LANES;
 *   a lane starts at the identity and takes its elements in increasing i;
 *   lanes combine by halves: lane l with lane l + h, h = LANES/2 .. 1
 *     (a leaf of n < LANES elements: from pow2ceil(n)/2);
 *   leaves combine pairwise level by level, an unpaired last one going up as it is.
 *
 * The identity of + is -0.0 (x + -0.0 is x for every x, +0.0 + -0.0 is not -0.0), so
 * that lanes and leaves that do not exist may be skipped or filled at will. A leaf in
 * memory order is LANES/W registers; a matrix column by column walks its rows in
 * bit-reversed lane order, so that the halves become the merges of a binary counter
 * and only log2(LANES) partial rows are alive. The first step of a chain is not
 * peeled off: the processor's stride prefetcher learns by instruction address, and
 * a peeled load halves the speed of rows of a few KB. */

enum {
  REGS = LANES / W,
  FLAT = 64,                   /* columns up to which all lanes of all fit in L2 */
  PANEL = 2048 / sizeof(T),    /* columns of a wider matrix that go together */
  CHUNK = 2048 / sizeof(T),    /* accumulators of the flat kernel between two prefetches */
  PREFETCH = 8192 / sizeof(T), /* prefetch of rows, elements */
  TOUCH = 12,                  /* prefetch of panels, rows; into L2, which has room for more
                               misses at once than L1: 28 instead of 15 GB/s on Zen 4 */
};

INLINE V map_v(int map, V x, V c) {
  if (map == TS_MAP_square) return x * x;
  if (map == TS_MAP_abs) return vabs(x);
  if (map == TS_MAP_sqdev) return (x - c) * (x - c);
  return x;
}

INLINE V op_v(int op, V a, V b) { return op == TS_RED_PROD ? a * b : a + b; }
INLINE T op_s(int op, T a, T b) { return op == TS_RED_PROD ? a * b : a + b; }
INLINE T identity(int op) { return op == TS_RED_PROD ? (T)1 : -(T)0; }

/* One last step of k < LANES elements into the first `regs` registers. */
INLINE void step_part(int op, int map, V *a, int regs, const T *x, int64_t k, V c, V e) {
  UNROLL for (int v = 0; v < regs; v++) {
    int64_t left = k - v * W;
    if (left >= W)
      a[v] = op_v(op, a[v], map_v(map, vload(x + v * W), c));
    else if (left > 0 && map == TS_MAP_none)
      a[v] = op_v(op, a[v], vloadn(x + v * W, left, e));
    else if (left > 0) {
      T t[W] __attribute__((aligned(REG)));
      vstore(t, map_v(map, vloadn(x + v * W, left, e), c));
      a[v] = op_v(op, a[v], vloadn(t, left, e));
    }
  }
}

INLINE V halve_regs(int op, V *a, int regs) {
  UNROLL for (int v = 0; v < regs / 2; v++) a[v] = op_v(op, a[v], a[v + regs / 2]);
  return a[0];
}

/* A short leaf of n <= regs * W elements. What lies beyond n are identities, so that halves
 * from more lanes than pow2ceil(n) change nothing. */
INLINE V fold_short(int op, int map, int regs, const T *x, int64_t n, V c) {
  V e = vset(identity(op)), a[32];
  UNROLL for (int v = 0; v < regs; v++) a[v] = e;
  step_part(op, map, a, regs, x, n, c, e);
  for (int h = regs; h > 1; h /= 2) halve_regs(op, a, h);
  return a[0];
}

#if defined TS_ISA_avx512
/* All lanes in registers, one sum after the other, so that loads go upwards. From memory the
 * sums stay in the first cache instead: with loads as fast as the processor can, its misses
 * leave no room for what it would fetch by itself (one thread, 64 MiB of f32: 24 to 29 GB/s
 * on a Zen 4), and more is asked for (41 to 52 on a Zen 5). */
INLINE int64_t fold_steps(int op, int map, int far, V *a, const T *x, int64_t n, V c) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) UNROLL for (int v = 0; v < REGS; v++) {
      if (far) __builtin_prefetch(x + i + v * W + PREFETCH);
      V sum = op_v(op, a[v], map_v(map, vload(x + i + v * W), c));
      if (!far) __asm__ volatile("" : "+v"(sum));
      a[v] = sum;
      if (far) __asm__ volatile("" : "+m"(a[v]));
    }
  return i;
}
#else
enum { SOON_PREFETCH = 2048 / sizeof(T) };
/* Lanes in L1, four steps of a lane each time it is in a register; from memory in its order. */
INLINE int64_t fold_steps(int op, int map, int far, V *a, const T *x, int64_t n, V c) {
  int64_t i = 0;
  for (; !far && i + 4 * LANES <= n; i += 4 * LANES)
    for (int v = 0; v < REGS; v++) {
      const T *p = x + i + v * W;
      V s = op_v(op, a[v], map_v(map, vload(p), c));
      s = op_v(op, s, map_v(map, vload(p + LANES), c));
      s = op_v(op, s, map_v(map, vload(p + 2 * LANES), c));
      a[v] = op_v(op, s, map_v(map, vload(p + 3 * LANES), c));
      for (int64_t j = 0; j < 4 * REG; j += 64)
        __builtin_prefetch((const char *)(x + i + PREFETCH + v * 4 * W) + j);
    }
  for (; i + LANES <= n; i += LANES)
    for (int v = 0; v < REGS; v++) {
      if (far && v % (64 / REG) == 0) __builtin_prefetch(x + i + v * W + SOON_PREFETCH);
      a[v] = op_v(op, a[v], map_v(map, vload(x + i + v * W), c));
    }
  return i;
}
#endif

/* A leaf down to one register. */
INLINE V fold_long(int op, int map, int far, const T *x, int64_t n, V c) {
  V e = vset(identity(op)), a[REGS];
  UNROLL for (int v = 0; v < REGS; v++) a[v] = e;
  int64_t i = fold_steps(op, map, far, a, x, n, c);
  if (i < n) step_part(op, map, a, REGS, x + i, n - i, c, e);
  for (int h = REGS; h > 1; h /= 2) halve_regs(op, a, h);
  return a[0];
}

/* Halves a full set of W registers, each a row, to one register of W results. */
INLINE V transpose_fold(int op, V *f) {
  UNROLL for (int level = 0, n = W; level < LEVELS; level++, n /= 2) for (int i = 0; i < n / 2;
                                                                          i++) {
    V l, h;
    halves(level, f[2 * i], f[2 * i + 1], &l, &h);
    f[i] = op_v(op, l, h);
  }
  return f[0];
}

INLINE T self_fold(int op, V v) {
  UNROLL for (int level = 0; level < LEVELS; level++) {
    V l, h;
    halves(level, v, v, &l, &h);
    v = op_v(op, l, h);
  }
  return v[0];
}

static __attribute__((noinline)) void store_few(int op, T *out, V *f, int64_t k) {
  for (int64_t r = 0; r < k; r++)
    out[r] = op == TS_RED_SUM ? self_fold(TS_RED_SUM, f[r]) : self_fold(TS_RED_PROD, f[r]);
}

/* W rows at a time, so that their last halves are done together. */
#define EACH_ROW(fold)                                                                         \
  for (int64_t r0 = 0; r0 < a->rows; r0 += W) {                                                \
    int64_t k = a->rows - r0 < W ? a->rows - r0 : W;                                           \
    V f[W];                                                                                    \
    for (int64_t r = 0; r < k; r++) {                                                          \
      const T *row = x + (r0 + r) * a->ld;                                                     \
      V c = vset(map == TS_MAP_sqdev ? cs[(r0 + r) * a->cstep] : 0);                           \
      f[k == W ? feed[r] : r] = fold;                                                          \
    }                                                                                          \
    if (k == W)                                                                                \
      vstore(out + r0, transpose_fold(op, f));                                                 \
    else                                                                                       \
      store_few(op, out + r0, f, k);                                                           \
  }

INLINE void rows_of(int op, int map, int far, const TsReduceRows *a) {
  const T *x = a->x, *cs = a->c;
  T *out = a->out;
  int64_t n = a->n;
  if (n > LANES / 2) {
    EACH_ROW(fold_long(op, map, far, row, n, c))
  } else if (n <= W) {
    EACH_ROW(fold_short(op, map, 1, row, n, c))
  } else if (n <= 2 * W) {
    EACH_ROW(fold_short(op, map, 2, row, n, c))
  } else if (n <= 4 * W) {
    EACH_ROW(fold_short(op, map, 4, row, n, c))
  } else if (n <= 8 * W) {
    EACH_ROW(fold_short(op, map, 8, row, n, c))
  } else if (n <= 16 * W) {
    EACH_ROW(fold_short(op, map, 16, row, n, c))
  } else {
    EACH_ROW(fold_short(op, map, 32, row, n, c))
  }
}
#undef EACH_ROW

/* The dear maps go through a leaf in L1. */
static void rows_mapped(const TsReduceRows *a) {
  T buf[TS_RED_LEAF] __attribute__((aligned(64)));
  TsReduceRows s = {a->op, TS_MAP_none, buf, 1, 0, a->n, 0, 0, 0, 0, 0};
  for (int64_t r = 0; r < a->rows; r++) {
    double c = a->c ? (double)((const T *)a->c)[r * a->cstep] : 0;
    map_row(a->map, buf, (const T *)a->x + r * a->ld, a->n, c, a->p);
    s.out = (T *)a->out + r;
    if (a->op >= TS_RED_MIN)
      order_rows(&s);
    else if (a->op == TS_RED_PROD)
      rows_of(TS_RED_PROD, TS_MAP_none, 0, &s);
    else
      rows_of(TS_RED_SUM, TS_MAP_none, 0, &s);
  }
}

/* By itself, as its sums lie in memory. */
static __attribute__((noinline)) void sums_from_memory(const TsReduceRows *a) {
  rows_of(TS_RED_SUM, TS_MAP_none, 1, a);
}

static void tree_rows(const TsReduceRows *a) {
  if (a->op == TS_RED_SUM && a->map == TS_MAP_none && a->far)
    sums_from_memory(a);
  else if (a->op == TS_RED_SUM && a->map == TS_MAP_none)
    rows_of(TS_RED_SUM, TS_MAP_none, 0, a);
  else if (a->op == TS_RED_SUM && a->map == TS_MAP_square)
    rows_of(TS_RED_SUM, TS_MAP_square, 0, a);
  else if (a->op == TS_RED_SUM && a->map == TS_MAP_abs)
    rows_of(TS_RED_SUM, TS_MAP_abs, 0, a);
  else if (a->op == TS_RED_SUM && a->map == TS_MAP_sqdev)
    rows_of(TS_RED_SUM, TS_MAP_sqdev, 0, a);
  else if (a->op == TS_RED_PROD && a->map == TS_MAP_none)
    rows_of(TS_RED_PROD, TS_MAP_none, 0, a);
  else if (a->map == TS_MAP_none)
    order_rows(a);
  else
    rows_mapped(a);
}

/* ---- columns */

INLINE int64_t row_at(const TsReduceCols *a, int64_t i) { return a->at ? a->at[i] : i * a->ld; }

INLINE int64_t bit_reverse(int64_t q, int64_t w) {
  int64_t r = 0;
  for (; w > 1; w /= 2, q /= 2) r = r * 2 + (q & 1);
  return r;
}

/* Vectors of partial rows, one for each height of the tree. */
typedef struct Stack {
  V level[9][PANEL / W];
} Stack;

/* Places a finished subtree of 2^from lanes: the merges of a counter at q. */
INLINE void push(int op, Stack *s, int v, V x, int64_t q, int from) {
  int l = from;
  for (; q >> l & 1; l++) x = op_v(op, s->level[l][v], x);
  s->level[l][v] = x;
}

/* The rows of a leaf in the order of a panel's walk: lane after lane, each lane's rows
 * upwards, lanes in bit-reversed order. */
typedef struct Walk {
  int64_t w; /* lanes: LANES or pow2ceil(m) */
  uint16_t row[TS_RED_LEAF + TOUCH];
} Walk;

static void walk_of(Walk *k, int64_t m) {
  int64_t pos = 0;
  for (k->w = LANES; k->w / 2 >= m;) k->w /= 2;
  for (int64_t q = 0; q < k->w; q++)
    for (int64_t i = bit_reverse(q, k->w); i < m; i += LANES) k->row[pos++] = (uint16_t)i;
  for (int j = 0; j < TOUCH; j++) k->row[pos + j] = k->row[pos - 1];
}

/* One panel: n columns in nv registers, the last of them partial if `part`. */
typedef struct Panel {
  const TsReduceCols *a;
  const T *x;
  int nv, part;
  V e, c[PANEL / W];
} Panel;

INLINE const T *panel_row(const Panel *p, int i) { return p->x + row_at(p->a, i); }

INLINE V panel_load(const Panel *p, const T *row, int v) {
  return p->part && v == p->nv - 1 ? vloadn(row + v * W, p->part, p->e) : vload(row + v * W);
}

INLINE void touch(const T *row, int v) {
  if (REG == 64 || v % (64 / REG) == 0) __builtin_prefetch(row + v * W, 0, 2);
}

/* The chain of one lane: k rows. `full` panels have all their registers. */
INLINE void panel_lane(int op, int map, bool full, Stack *s, const Panel *p,
                       const uint16_t *row, int64_t k, int64_t q) {
  int nv = full ? PANEL / W : p->nv;
  V acc[PANEL / W];
  for (int v = 0; v < nv; v++) acc[v] = p->e;
  for (int64_t j = 0; j < k; j++) {
    const T *x = panel_row(p, row[j]), *prefetch = panel_row(p, row[j + TOUCH]);
    for (int v = 0; v < nv; v++) {
      V t = full ? vload(x + v * W) : panel_load(p, x, v);
      acc[v] = op_v(op, acc[v], map_v(map, t, p->c[v]));
      touch(prefetch, v);
    }
  }
  for (int v = 0; v < nv; v++) push(op, s, v, acc[v], q, 0);
}

/* Four lanes of one row each merge in registers, and then with `merges` subtrees that wait:
 * how many is the same for all vectors of a row, and known where there are few. */
INLINE void quad_merged(int op, int map, bool full, int merges, Stack *s, const Panel *p,
                        const uint16_t *row) {
  int nv = full ? PANEL / W : p->nv;
  const T *x[4], *prefetch[4];
  for (int i = 0; i < 4; i++)
    x[i] = panel_row(p, row[i]), prefetch[i] = panel_row(p, row[i + TOUCH]);
  for (int v = 0; v < nv; v++) {
    V t[4];
    for (int i = 0; i < 4; i++) {
      t[i] = map_v(map, full ? vload(x[i] + v * W) : panel_load(p, x[i], v), p->c[v]);
      touch(prefetch[i], v);
    }
    V sum = op_v(op, op_v(op, t[0], t[1]), op_v(op, t[2], t[3]));
    for (int l = 2; l < 2 + merges; l++) sum = op_v(op, s->level[l][v], sum);
    s->level[2 + merges][v] = sum;
  }
}

INLINE void panel_quad(int op, int map, bool full, Stack *s, const Panel *p,
                       const uint16_t *row, int64_t q) {
  int merges = __builtin_ctzll(~((uint64_t)q >> 2));
  if (merges == 0)
    quad_merged(op, map, full, 0, s, p, row);
  else if (merges == 1)
    quad_merged(op, map, full, 1, s, p, row);
  else
    quad_merged(op, map, full, merges, s, p, row);
}

INLINE void panel_walk(int op, int map, bool full, Stack *s, const Panel *p, const Walk *walk) {
  int64_t m = p->a->m, w = walk->w;
  const uint16_t *row = walk->row;
  for (int64_t q = 0; q < w;) {
    int64_t lane = bit_reverse(q, w);
    if (m <= LANES && q % 4 == 0 && lane + w / 4 * 3 < m && w >= 4) {
      panel_quad(op, map, full, s, p, row, q);
      q += 4, row += 4;
    } else {
      int64_t k = (m - lane + LANES - 1) / LANES;
      panel_lane(op, map, full, s, p, row, k, q);
      q += 1, row += k;
    }
  }
}

INLINE void store_panel(T *out, const V *s, int64_t n) {
  int64_t v = 0;
  for (; (v + 1) * W <= n; v++) vstore(out + v * W, s[v]);
  if (v * W < n) memcpy(out + v * W, s + v, (size_t)(n - v * W) * sizeof(T));
}

INLINE void panel_of(int op, int map, const TsReduceCols *a, const Walk *walk, int64_t col,
                     int64_t n) {
  Stack s;
  Panel p = {.a = a, .x = (const T *)a->x + col, .e = vset(identity(op))};
  p.nv = (int)((n + W - 1) / W), p.part = (int)(n % W);
  if (map == TS_MAP_sqdev) memcpy(p.c, (const T *)a->c + col, (size_t)n * sizeof(T));
  if (n == PANEL)
    panel_walk(op, map, true, &s, &p, walk);
  else
    panel_walk(op, map, false, &s, &p, walk);
  store_panel((T *)a->out + col, s.level[__builtin_ctzll((uint64_t)walk->w)], n);
}

/* Few adjacent columns: memory order, with all lanes of all columns as one flat row
 * of accumulators. The same loop serves complex numbers (two columns). */
INLINE T map_s(int map, T x, T c) {
  if (map == TS_MAP_square) return x * x;
  if (map == TS_MAP_abs) return sabs(x);
  if (map == TS_MAP_sqdev) return (x - c) * (x - c);
  return x;
}

/* Four steps of k accumulators; touches the four pieces of the next chunk. */
INLINE void flat_steps(int op, int map, T *acc, const T *x, const T *c, int64_t step,
                       int64_t k) {
  for (int64_t j = 0; j < k; j += 64 / (int64_t)sizeof(T))
    for (int64_t s = 0; s < 4; s++) __builtin_prefetch(x + s * step + k + j, 0, 2);
  for (int64_t j = 0; j < k; j++) {
    const T *p = x + j;
    T s = op_s(op, acc[j], map_s(map, p[0], c[j]));
    s = op_s(op, s, map_s(map, p[step], c[j]));
    s = op_s(op, s, map_s(map, p[2 * step], c[j]));
    acc[j] = op_s(op, s, map_s(map, p[3 * step], c[j]));
  }
}

INLINE void flat_of(int op, int map, const TsReduceCols *a) {
  T acc[LANES * FLAT] __attribute__((aligned(64))),
      c[LANES * FLAT] __attribute__((aligned(64)));
  const T *x = a->x;
  int64_t n = a->n, w = LANES, step, total = a->m * n;
  while (w / 2 >= a->m) w /= 2;
  step = w * n;
  for (int64_t i = 0; i < step; i++) acc[i] = identity(op);
  if (map == TS_MAP_sqdev)
    for (int64_t i = 0; i < w; i++) memcpy(c + i * n, a->c, (size_t)n * sizeof(T));
  int64_t i = 0;
  for (; i + 4 * step <= total; i += 4 * step)
    for (int64_t j = 0; j < step; j += CHUNK)
      flat_steps(op, map, acc + j, x + i + j, c + j, step, step - j < CHUNK ? step - j : CHUNK);
  for (; i < total; i += step) {
    int64_t k = total - i < step ? total - i : step;
    for (int64_t j = 0; j < k; j++) acc[j] = op_s(op, acc[j], map_s(map, x[i + j], c[j]));
  }
  for (int64_t h = step / 2; h >= n; h /= 2)
    for (int64_t j = 0; j < h; j++) acc[j] = op_s(op, acc[j], acc[j + h]);
  memcpy(a->out, acc, (size_t)n * sizeof(T));
}

#include "vm/kernels/rows/reduce_beside.h"

INLINE void cols_of(int op, int map, const TsReduceCols *a) {
  if (a->n <= FLAT && a->ld == a->n && !a->at) {
    flat_of(op, map, a);
    return;
  }
  if (!a->at && a->m >= BESIDE * LANES && a->n >= PANEL / 2) {
    for (int64_t col = 0; col < a->n; col += PIECE)
      beside_of(op, map, a, col, a->n - col < PIECE ? a->n - col : PIECE);
    return;
  }
  Walk walk;
  walk_of(&walk, a->m);
  for (int64_t col = 0; col < a->n; col += PANEL)
    panel_of(op, map, a, &walk, col, a->n - col < PANEL ? a->n - col : PANEL);
}

/* Converted or dearly mapped columns: a piece of a row at a time through L1. */
INLINE void staged_lane(int op, T *acc, const TsReduceCols *a, int64_t col, int64_t n,
                        int64_t lane) {
  T buf[PANEL] __attribute__((aligned(64)));
  for (int64_t j = 0; j < n; j++) acc[j] = identity(op);
  for (int64_t i = lane; i < a->m; i += LANES) {
    const char *src = (const char *)a->x + (row_at(a, i) + col) * a->esize;
    if (a->load)
      a->load(n, buf, src);
    else
      memcpy(buf, src, (size_t)n * sizeof(T));
    if (a->map == TS_MAP_exp || a->map == TS_MAP_sqdev) {
      const T *c = (const T *)a->c + col;
      for (int64_t j = 0; j < n; j++) buf[j] = buf[j] - c[j];
      map_row(a->map == TS_MAP_exp ? TS_MAP_exp : TS_MAP_square, buf, buf, n, 0, 0);
    } else if (a->map)
      map_row(a->map, buf, buf, n, 0, a->p);
    for (int64_t j = 0; j < n; j++) acc[j] = op_s(op, acc[j], buf[j]);
  }
}

INLINE void cols_staged(int op, const TsReduceCols *a) {
  T s[9][PANEL] __attribute__((aligned(64)));
  int64_t w = LANES, top = 0;
  while (w / 2 >= a->m) w /= 2;
  while (w >> top > 1) top++;
  for (int64_t col = 0; col < a->n; col += PANEL) {
    int64_t n = a->n - col < PANEL ? a->n - col : PANEL;
    for (int64_t q = 0; q < w; q++) {
      int l = __builtin_ctzll(~(uint64_t)q);
      T *acc = s[l];
      T lane[PANEL] __attribute__((aligned(64)));
      staged_lane(op, lane, a, col, n, bit_reverse(q, w));
      for (int i = 0; i < l; i++)
        for (int64_t j = 0; j < n; j++) lane[j] = op_s(op, s[i][j], lane[j]);
      memcpy(acc, lane, (size_t)n * sizeof(T));
    }
    memcpy((T *)a->out + col, s[top], (size_t)n * sizeof(T));
  }
}

static void tree_cols(const TsReduceCols *a) {
  int op = a->op, map = a->map;
  bool plain = !a->load && map <= TS_MAP_sqdev;
  if (op >= TS_RED_MIN)
    order_cols(a);
  else if (op == TS_RED_PROD && plain && !map)
    cols_of(TS_RED_PROD, TS_MAP_none, a);
  else if (op == TS_RED_PROD)
    cols_staged(TS_RED_PROD, a);
  else if (!plain)
    cols_staged(TS_RED_SUM, a);
  else if (map == TS_MAP_none)
    cols_of(TS_RED_SUM, TS_MAP_none, a);
  else if (map == TS_MAP_square)
    cols_of(TS_RED_SUM, TS_MAP_square, a);
  else if (map == TS_MAP_abs)
    cols_of(TS_RED_SUM, TS_MAP_abs, a);
  else
    cols_of(TS_RED_SUM, TS_MAP_sqdev, a);
}

static void tree_tree(int op, void *s_, int64_t m, int64_t n) {
  T *s = s_;
  for (; m > 1; m = (m + 1) / 2) {
    for (int64_t i = 0; i < m / 2; i++) {
      T *d = s + i * n, *a = s + 2 * i * n, *b = a + n;
      if (op == TS_RED_SUM)
        for (int64_t j = 0; j < n; j++) d[j] = a[j] + b[j];
      else if (op == TS_RED_PROD)
        for (int64_t j = 0; j < n; j++) d[j] = a[j] * b[j];
      else
        for (int64_t j = 0; j < n; j++) d[j] = order_pick(op, a[j], b[j]);
    }
    if (m % 2) memcpy(s + m / 2 * n, s + (m - 1) * n, (size_t)n * sizeof(T));
  }
}
