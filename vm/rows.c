/* The driver of softmax and the norms. Rows in place where they are contiguous; panels
 * of columns for softmax along another axis; anything else goes through scratch rows. A
 * row too long for one thread goes through its passes leaf by leaf on all of them. */
#include "vm/rows.h"

#include "devices/cpu_pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  GRAIN = 1 << 15,  /* elements worth a thread */
  SHARED = 1 << 18, /* a row of so many elements may occupy all threads */
  CACHED = 1 << 18, /* bytes that stay in L2 between the passes of a row */
  PAST = 1 << 23,   /* bytes of output from which stores go past the caches */
  SEGMENT = 8 * TS_RED_LEAF,
  SHORT = 256,      /* rows up to this length go in blocks .. */
  SHORT_BLOCK = 64, /* .. of at most so many */
};

typedef struct Job {
  const TsRows *r;
  const TsReduceKernels *red;
  const TsRowsKernels *k;
  const TsCopyKernels *copy;
  TsLoad *load, *store; /* NULL: x and y are of the statistics' type */
  int acc, esize, tsize;
  int64_t outer;
  int past;
  bool failed;
  /* of a shared row: */
  const char *row;
  char *to, *part;
  double m, s;
} Job;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* The statistics' type: what the double holds after one operation on two such values
 * is rounded once more, which for f32 gives the f32 operation's result. */
static double rounded(const Job *j, double x) { return j->acc == TS_RED_F32 ? (float)x : x; }

static double value_at(const Job *j, const void *p, int64_t i) {
  return j->acc == TS_RED_F32 ? ((const float *)p)[i] : ((const double *)p)[i];
}

static void spread(int64_t items, int64_t work, TsTask *task, void *arg) {
  if (items <= 1 || items * work <= 2 * GRAIN)
    task(arg, 0, items, 0);
  else
    ts_cpu_parallel(items, work >= GRAIN ? 1 : GRAIN / work, task, arg);
}

/* ---- the canonical sum of a row: leaves on a stack that merges like a counter */

typedef struct Sum {
  double stack[64];
  int depth;
  int64_t count;
} Sum;

static void sum_push(const Job *j, Sum *s, double x) {
  for (int64_t c = s->count++; c & 1; c >>= 1) x = rounded(j, s->stack[--s->depth] + x);
  s->stack[s->depth++] = x;
}

static double sum_end(const Job *j, Sum *s) {
  double x = s->stack[--s->depth];
  while (s->depth > 0) x = rounded(j, s->stack[--s->depth] + x);
  return x;
}

/* The sums of `leaves` leaves of n elements each, to out. */
static void leaf_sums(const Job *j, int map, const void *x, int64_t leaves, int64_t n, double c,
                      void *out) {
  float c32 = (float)c;
  TsReduceRows a = {TS_RED_SUM, map, x, leaves, TS_RED_LEAF, n, &c, 0, 0, out};
  if (j->acc == TS_RED_F32) a.c = &c32;
  j->red->rows[j->acc](&a);
}

static double row_sum(const Job *j, int map, const char *x, int64_t n, double c) {
  double part[16];
  Sum s = {.depth = 0, .count = 0};
  while (n > 0) {
    int64_t k = min64(n / TS_RED_LEAF, 16), len = TS_RED_LEAF;
    if (k == 0) k = 1, len = n;
    leaf_sums(j, map, x, k, len, c, part);
    for (int64_t i = 0; i < k; i++) sum_push(j, &s, value_at(j, part, i));
    x += k * len * j->tsize, n -= k * len;
  }
  return sum_end(j, &s);
}

/* e = exp(x - m), one leaf at a time, and its sum; e of a leaf only if !keep. Touches
 * the row at `ahead`, if any. */
static double exp_sum(const Job *j, const char *x, char *e, int64_t n, double m, bool keep,
                      const char *ahead) {
  double part;
  Sum s = {.depth = 0, .count = 0};
  for (int64_t i = 0; i < n; i += TS_RED_LEAF) {
    int64_t k = min64(n - i, TS_RED_LEAF), at = i * j->tsize;
    char *to = keep ? e + at : e;
    j->k->exp[j->acc](to, x + at, k, m, ahead ? ahead + at : NULL);
    leaf_sums(j, TS_MAP_none, to, 1, k, 0, &part);
    sum_push(j, &s, value_at(j, &part, 0));
  }
  return sum_end(j, &s);
}

/* ---- one row */

static double row_scale(const Job *j, double square_sum) {
  double v = rounded(j, square_sum / (double)j->r->n);
  return rounded(j, 1 / rounded(j, sqrt(rounded(j, v + rounded(j, j->r->eps)))));
}

/* x and y in the statistics' type; e is scratch for the row, or y itself. */
static void one_row(const Job *j, const char *x, char *y, char *e, int past,
                    const char *ahead) {
  const TsRows *r = j->r;
  int64_t n = r->n;
  double m, s;
  switch (r->op) {
  case TS_ROWS_softmax:
    m = j->k->max[j->acc](x, n);
    s = exp_sum(j, x, e, n, m, true, ahead);
    j->k->scale[j->acc](y, e, n, rounded(j, 1 / s), past);
    break;
  case TS_ROWS_log_softmax: {
    double leaf[TS_RED_LEAF];
    m = j->k->max[j->acc](x, n);
    s = exp_sum(j, x, (char *)leaf, n, m, false, ahead);
    j->k->shift[j->acc](y, x, n, m, j->k->log[j->acc](s), past);
    break;
  }
  case TS_ROWS_layernorm:
    m = rounded(j, row_sum(j, TS_MAP_none, x, n, 0) / (double)n);
    s = row_scale(j, row_sum(j, TS_MAP_sqdev, x, n, m));
    j->k->affine[j->acc](y, x, n, m, s, r->w, r->b, past, ahead);
    break;
  case TS_ROWS_rmsnorm:
    s = row_scale(j, row_sum(j, TS_MAP_square, x, n, 0));
    j->k->affine[j->acc](y, x, n, 0, s, r->w, r->b, past, ahead);
    break;
  }
}

static void offsets(const TsRows *r, int64_t o, int64_t *x, int64_t *y) {
  *x = *y = 0;
  for (int d = r->nouter - 1; d >= 0; d--) {
    int64_t i = o % r->outer_dim[d];
    o /= r->outer_dim[d];
    *x += i * r->x_stride[d];
    *y += i * r->y_stride[d];
  }
}

/* ---- contiguous rows, each by one thread */

/* k short rows at once: their sums come from one call. Scratch e holds their exps. */
static void short_rows(const Job *j, const char *x, int64_t ldx, char *y, int64_t ldy,
                       int64_t k, char *e) {
  const TsRows *r = j->r;
  int64_t n = r->n, ts = j->tsize;
  double m[SHORT_BLOCK], s[SHORT_BLOCK], c[SHORT_BLOCK]; /* s and c: of the statistics' type */
  bool soft = r->op == TS_ROWS_softmax || r->op == TS_ROWS_log_softmax;
  TsReduceRows a = {TS_RED_SUM, TS_MAP_none, e, k, n, n, c, 1, 0, s};
  if (soft) {
    for (int64_t i = 0; i < k; i++) {
      m[i] = j->k->max[j->acc](x + i * ldx * ts, n);
      j->k->exp[j->acc](e + i * n * ts, x + i * ldx * ts, n, m[i], NULL);
    }
  } else {
    a.x = x, a.ld = ldx;
    for (int64_t i = 0; i < k; i++) m[i] = 0;
    if (r->op == TS_ROWS_layernorm) {
      a.out = c;
      j->red->rows[j->acc](&a);
      for (int64_t i = 0; i < k; i++) {
        m[i] = rounded(j, value_at(j, c, i) / (double)n);
        if (j->acc == TS_RED_F32)
          ((float *)(void *)c)[i] = (float)m[i];
        else
          c[i] = m[i];
      }
      a.out = s, a.map = TS_MAP_sqdev;
    } else {
      a.map = TS_MAP_square;
    }
  }
  j->red->rows[j->acc](&a);
  for (int64_t i = 0; i < k; i++) {
    const char *xi = x + i * ldx * ts, *ei = e + i * n * ts;
    char *yi = y + i * ldy * ts;
    double si = value_at(j, s, i);
    if (r->op == TS_ROWS_softmax)
      j->k->scale[j->acc](yi, ei, n, rounded(j, 1 / si), 0);
    else if (r->op == TS_ROWS_log_softmax)
      j->k->shift[j->acc](yi, xi, n, m[i], j->k->log[j->acc](si), 0);
    else
      j->k->affine[j->acc](yi, xi, n, m[i], row_scale(j, si), r->w, r->b, 0, NULL);
  }
}

/* Rows lo .. hi-1 in blocks within the last outer axis. */
static void short_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsRows *r = j->r;
  double e[TS_RED_LEAF];
  int last = r->nouter - 1;
  int64_t run = r->nouter ? r->outer_dim[last] : 1, block = TS_RED_LEAF / r->n, ox, oy;
  (void)worker;
  if (block > SHORT_BLOCK) block = SHORT_BLOCK;
  for (int64_t o = lo, k; o < hi; o += k) {
    k = min64(min64(block, hi - o), run - o % run);
    offsets(r, o, &ox, &oy);
    short_rows(j, (const char *)r->x + ox * j->esize, r->nouter ? r->x_stride[last] : 0,
               (char *)r->y + oy * j->esize, r->nouter ? r->y_stride[last] : 0, k, (char *)e);
  }
}

/* ---- rows past the caches, each by one thread: the last pass of a row, which stores, goes
 * together with one of the next row's that computes, so that memory and arithmetic have work
 * at the same time */

typedef struct Row {
  const char *x;
  char *y;
  double m, s; /* y is a function of x, or of its exps, and these */
} Row;

static Row row_at(const Job *j, int64_t o) {
  int64_t ox, oy;
  offsets(j->r, o, &ox, &oy);
  return (Row){(const char *)j->r->x + ox * j->esize, (char *)j->r->y + oy * j->esize, 0, 0};
}

/* The sum of the exps of a row, while the last one, if any, is finished. e holds the exps of
 * the last row of a softmax, then those of this. */
static double soft_pass(const Job *j, const Row *last, const Row *row, char *e,
                        const char *ahead) {
  bool keep = j->r->op == TS_ROWS_softmax;
  double part;
  Sum s = {.depth = 0, .count = 0};
  for (int64_t i = 0; i < j->r->n; i += TS_RED_LEAF) {
    int64_t k = min64(j->r->n - i, TS_RED_LEAF), at = i * j->tsize;
    char *to = keep ? e + at : e;
    if (!last->y)
      j->k->exp[j->acc](to, row->x + at, k, row->m, ahead + at);
    else if (keep)
      j->k->scale_exp[j->acc](last->y + at, to, row->x + at, k, last->s, row->m, ahead + at);
    else
      j->k->shift_exp[j->acc](last->y + at, last->x + at, to, row->x + at, k, last->m, last->s,
                              row->m, ahead + at);
    leaf_sums(j, TS_MAP_none, to, 1, k, 0, &part);
    sum_push(j, &s, value_at(j, &part, 0));
  }
  return sum_end(j, &s);
}

static void soft_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  bool keep = j->r->op == TS_ROWS_softmax;
  char local[TS_RED_LEAF * 8] __attribute__((aligned(64)));
  int64_t n = j->r->n, room = (keep ? n : min64(n, TS_RED_LEAF)) * j->tsize;
  char *e = room <= (int64_t)sizeof local ? local : malloc((size_t)room);
  Row last = {.y = NULL};
  (void)worker;
  if (!e) j->failed = true;
  for (int64_t o = lo; o < hi && e; o++) {
    Row row = row_at(j, o);
    row.m = j->k->max[j->acc](row.x, n);
    double s = soft_pass(j, &last, &row, e, row_at(j, min64(o + 1, hi - 1)).x);
    row.s = keep ? rounded(j, 1 / s) : j->k->log[j->acc](s);
    last = row;
  }
  if (last.y && keep)
    j->k->scale[j->acc](last.y, e, n, last.s, 1);
  else if (last.y)
    j->k->shift[j->acc](last.y, last.x, n, last.m, last.s, 1);
  if (e != local) free(e);
  ts_copy_fence();
}

/* The sum of squared deviations of a row, while the last one is finished. */
static double norm_pass(const Job *j, const Row *last, const Row *row, const char *ahead) {
  enum { LANES = 1024 }; /* bytes */
  const char *w = j->r->w;
  double part, lanes[LANES / sizeof(double)];
  Sum s = {.depth = 0, .count = 0};
  for (int64_t i = 0; i < j->r->n; i += TS_RED_LEAF) {
    int64_t k = min64(j->r->n - i, TS_RED_LEAF), at = i * j->tsize;
    j->k->affine_sqdev[j->acc](last->y + at, last->x + at, k, last->m, last->s, w + at,
                               row->x + at, row->m, lanes, ahead + at);
    leaf_sums(j, TS_MAP_none, lanes, 1, LANES / j->tsize, 0, &part);
    sum_push(j, &s, value_at(j, &part, 0));
  }
  return sum_end(j, &s);
}

static void norm_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsRows *r = j->r;
  Row last = {.y = NULL};
  (void)worker;
  for (int64_t o = lo; o < hi; o++) {
    Row row = row_at(j, o);
    if (r->op == TS_ROWS_layernorm)
      row.m = rounded(j, row_sum(j, TS_MAP_none, row.x, r->n, 0) / (double)r->n);
    if (last.y)
      row.s = norm_pass(j, &last, &row, row_at(j, min64(o + 1, hi - 1)).x);
    else
      row.s = row_sum(j, TS_MAP_sqdev, row.x, r->n, row.m);
    row.s = row_scale(j, row.s);
    last = row;
  }
  if (last.y) j->k->affine[j->acc](last.y, last.x, r->n, last.m, last.s, r->w, r->b, 1, NULL);
  ts_copy_fence();
}

/* ---- contiguous rows otherwise */

static void rows_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  const TsRows *r = j->r;
  char local[TS_RED_LEAF * 4] __attribute__((aligned(64)));
  int64_t nbytes = r->n * j->tsize, ox, oy;
  bool in_y = !j->load && (!j->past || r->op != TS_ROWS_softmax || nbytes > CACHED);
  int past = j->past && !(in_y && r->op == TS_ROWS_softmax) && !j->load;
  char *e = in_y || nbytes <= (int64_t)sizeof local ? local : malloc((size_t)nbytes);
  (void)worker;
  if (!e) j->failed = true;
  for (int64_t o = lo; o < hi && e; o++) {
    offsets(r, o, &ox, &oy);
    const char *x = (const char *)r->x + ox * j->esize, *ahead = NULL;
    char *y = (char *)r->y + oy * j->esize;
    if (j->load) {
      j->load(r->n, e, x);
      one_row(j, e, e, e, 0, NULL);
      j->store(r->n, y, e);
      continue;
    }
    if (o + 1 < hi) offsets(r, o + 1, &ox, &oy), ahead = (const char *)r->x + ox * j->esize;
    one_row(j, x, y, in_y ? y : e, past, ahead);
  }
  if (e != local) free(e);
  if (j->past) ts_copy_fence();
}

/* ---- one long row by all threads, in segments of some leaves */

typedef void Piece(Job *j, int64_t first, int64_t n);

typedef struct Shared {
  Job *j;
  Piece *piece;
} Shared;

static void shared_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Shared *s = arg;
  int64_t first = lo * SEGMENT;
  (void)worker;
  s->piece(s->j, first, min64(hi * SEGMENT, s->j->r->n) - first);
}

static void share(Job *j, Piece *piece) {
  Shared s = {j, piece};
  ts_cpu_parallel((j->r->n + SEGMENT - 1) / SEGMENT, 1, shared_task, &s);
}

static void piece_load(Job *j, int64_t i, int64_t n) {
  j->load(n, j->to + i * j->tsize, j->row + i * j->esize);
}

static void piece_max(Job *j, int64_t i, int64_t n) {
  for (int64_t k = 0; k < n; k += SEGMENT) {
    double m = j->k->max[j->acc](j->row + (i + k) * j->tsize, min64(SEGMENT, n - k));
    memcpy(j->part + (i + k) / SEGMENT * 8, &m, sizeof m);
  }
}

/* Leaf sums of exp(x - m), of x, or of a map of x, to part. */
static void piece_sums(Job *j, int64_t i, int64_t n, int map) {
  bool exps = j->r->op == TS_ROWS_softmax || j->r->op == TS_ROWS_log_softmax;
  double leaf[TS_RED_LEAF];
  for (int64_t k = i; k < i + n; k += TS_RED_LEAF) {
    int64_t len = min64(TS_RED_LEAF, i + n - k);
    const char *x = j->row + k * j->tsize;
    char *out = j->part + k / TS_RED_LEAF * j->tsize;
    char *e = j->r->op == TS_ROWS_softmax ? j->to + k * j->tsize : (char *)leaf;
    if (exps) j->k->exp[j->acc](e, x, len, j->m, NULL), x = e;
    leaf_sums(j, map, x, 1, len, j->m, out);
  }
}

static void piece_sum(Job *j, int64_t i, int64_t n) { piece_sums(j, i, n, TS_MAP_none); }
static void piece_sqdev(Job *j, int64_t i, int64_t n) { piece_sums(j, i, n, TS_MAP_sqdev); }
static void piece_square(Job *j, int64_t i, int64_t n) { piece_sums(j, i, n, TS_MAP_square); }

static void piece_finish(Job *j, int64_t i, int64_t n) {
  const TsRows *r = j->r;
  int64_t at = i * j->tsize;
  const char *x = j->row + at, *w = r->w, *b = r->b;
  char *y = j->to + at;
  if (r->op == TS_ROWS_softmax)
    j->k->scale[j->acc](y, y, n, j->s, 0);
  else if (r->op == TS_ROWS_log_softmax)
    j->k->shift[j->acc](y, x, n, j->m, j->s, j->past);
  else
    j->k->affine[j->acc](y, x, n, j->m, j->s, w ? w + at : NULL, b ? b + at : NULL, j->past, x);
  if (j->past) ts_copy_fence();
}

static void piece_store(Job *j, int64_t i, int64_t n) {
  j->store(n, (char *)j->part + i * j->esize, j->to + i * j->tsize);
}

static double shared_sum(Job *j, Piece *piece) {
  share(j, piece);
  j->red->tree[j->acc](TS_RED_SUM, j->part, (j->r->n + TS_RED_LEAF - 1) / TS_RED_LEAF, 1);
  return value_at(j, j->part, 0);
}

static void shared_passes(Job *j) {
  int64_t n = j->r->n, segments = (n + SEGMENT - 1) / SEGMENT;
  j->m = 0;
  if (j->r->op == TS_ROWS_softmax || j->r->op == TS_ROWS_log_softmax) {
    share(j, piece_max);
    const double *m = (const double *)(void *)j->part;
    j->m = m[0];
    for (int64_t i = 1; i < segments; i++) j->m = j->m < m[i] ? m[i] : j->m;
    j->s = shared_sum(j, piece_sum);
    j->s = j->r->op == TS_ROWS_softmax ? rounded(j, 1 / j->s) : j->k->log[j->acc](j->s);
  } else if (j->r->op == TS_ROWS_layernorm) {
    j->m = rounded(j, shared_sum(j, piece_sum) / (double)n);
    j->s = row_scale(j, shared_sum(j, piece_sqdev));
  } else {
    j->s = row_scale(j, shared_sum(j, piece_square));
  }
  share(j, piece_finish);
}

static int shared_rows(Job *j) {
  const TsRows *r = j->r;
  int64_t leaves = (r->n + TS_RED_LEAF - 1) / TS_RED_LEAF, ox, oy;
  char *part = malloc((size_t)leaves * 8);
  char *wide = j->load ? malloc((size_t)(r->n * j->tsize)) : NULL;
  if (!part || (j->load && !wide)) j->failed = true;
  if (j->load) j->past = 0;
  for (int64_t o = 0; o < j->outer && !j->failed; o++) {
    offsets(r, o, &ox, &oy);
    char *y = (char *)r->y + oy * j->esize;
    j->part = part;
    j->row = (const char *)r->x + ox * j->esize;
    j->to = j->load ? wide : y;
    if (j->load) share(j, piece_load), j->row = wide;
    shared_passes(j);
    j->part = y;
    if (j->load) share(j, piece_store);
  }
  free(part), free(wide);
  return j->failed ? -1 : 0;
}

/* ---- softmax along another axis: panels of columns, copied to dense rows that stay in
 * the second-level cache between the passes */

static int64_t panel_width(const Job *j, int64_t columns) {
  int64_t w = 2048 / j->tsize, line = 64 / j->tsize;
  while (w > 2 * line &&
         (w * j->r->n * j->tsize > 2 * CACHED || (columns + w - 1) / w < 2 * ts_cpu_threads()))
    w /= 2;
  return w;
}

/* The sums of the panel's w columns (map exp: of exp(e - c)), leaf by leaf, to part. */
static void panel_sums(const Job *j, int map, const char *e, int64_t w, const void *c,
                       char *part) {
  int64_t n = j->r->n, leaves = 0;
  for (int64_t i = 0; i < n; i += TS_RED_LEAF, leaves++) {
    TsReduceCols a = {TS_RED_SUM,
                      map,
                      e + i * w * j->tsize,
                      min64(TS_RED_LEAF, n - i),
                      w,
                      w,
                      NULL,
                      NULL,
                      j->tsize,
                      c,
                      0,
                      part + leaves * w * j->tsize};
    j->red->cols[j->acc](&a);
  }
  j->red->tree[j->acc](TS_RED_SUM, part, leaves, w);
}

static void one_panel(const Job *j, const char *x, char *y, int64_t w, char *e, char *m,
                      char *part) {
  const TsRows *r = j->r;
  j->k->panel_max[j->acc](e, x, r->x_step, r->n, w, m);
  if (r->op == TS_ROWS_log_softmax) {
    panel_sums(j, TS_MAP_exp, e, w, m, part);
    j->k->logv[j->acc](part, part, w);
    j->k->panel_shift[j->acc](y, r->y_step, e, r->n, w, m, part, j->past);
    return;
  }
  j->k->panel_exp[j->acc](e, r->n, w, m);
  panel_sums(j, TS_MAP_none, e, w, NULL, part);
  float *s32 = (float *)(void *)part;
  double *s64 = (double *)(void *)part;
  for (int64_t i = 0; i < w; i++) {
    if (j->acc == TS_RED_F32)
      s32[i] = 1 / s32[i];
    else
      s64[i] = 1 / s64[i];
  }
  j->k->panel_scale[j->acc](y, r->y_step, e, r->n, w, part, j->past);
}

typedef struct Panels {
  Job *j;
  int64_t width, count, columns;
} Panels;

static void panel_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Panels *p = arg;
  Job *j = p->j;
  int64_t leaves = (j->r->n + TS_RED_LEAF - 1) / TS_RED_LEAF, ox, oy;
  int64_t row = p->width * j->tsize;
  char *e = aligned_alloc(64, (size_t)((j->r->n + 1 + leaves) * row));
  (void)worker;
  if (!e) j->failed = true;
  for (int64_t i = lo; i < hi && e; i++) {
    int64_t col = i % p->count * p->width, w = min64(p->width, p->columns - col);
    offsets(j->r, i / p->count * p->columns + col, &ox, &oy);
    one_panel(j, (const char *)j->r->x + ox * j->esize, (char *)j->r->y + oy * j->esize, w, e,
              e + j->r->n * row, e + (j->r->n + 1) * row);
  }
  free(e);
  if (j->past) ts_copy_fence();
}

/* ---- any layout and type, through scratch rows */

typedef struct Scratch {
  Job *j;
  int64_t batch; /* rows staged together */
} Scratch;

/* k rows from o on, k within the last outer axis, to rows of n elements and back. */
static void stage_in(const Job *j, int64_t o, int64_t k, char *raw) {
  const TsRows *r = j->r;
  int64_t ox, oy, e = j->esize;
  offsets(r, o, &ox, &oy);
  const char *x = (const char *)r->x + ox * e;
  int64_t next = r->nouter ? r->x_stride[r->nouter - 1] : 0;
  if (next == 1 && k > 1) {
    j->copy->transpose(k, r->n, raw, r->n * e, x, r->x_step * e, (int)e, 0);
    return;
  }
  for (int64_t i = 0; i < k; i++)
    j->copy->gather(r->n, raw + i * r->n * e, x + i * next * e, r->x_step * e, (int)e);
}

static void stage_out(const Job *j, int64_t o, int64_t k, const char *raw) {
  const TsRows *r = j->r;
  int64_t ox, oy, e = j->esize;
  offsets(r, o, &ox, &oy);
  char *y = (char *)r->y + oy * e;
  int64_t next = r->nouter ? r->y_stride[r->nouter - 1] : 0;
  if (next == 1 && k > 1) {
    j->copy->transpose(r->n, k, y, r->y_step * e, raw, r->n * e, (int)e, 0);
    return;
  }
  for (int64_t i = 0; i < k; i++)
    j->copy->scatter(r->n, y + i * next * e, r->y_step * e, raw + i * r->n * e, (int)e);
}

static void scratch_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Scratch *s = arg;
  Job *j = s->j;
  const TsRows *r = j->r;
  int64_t last = r->nouter ? r->outer_dim[r->nouter - 1] : 1, n = r->n;
  char *wide = malloc((size_t)(s->batch * n * (j->tsize + j->esize)));
  char *raw = wide && j->load ? wide + s->batch * n * j->tsize : wide;
  (void)worker;
  if (!wide) j->failed = true;
  for (int64_t o = lo, k; o < hi && wide; o += k) {
    k = min64(min64(hi - o, s->batch), last - o % last);
    stage_in(j, o, k, raw);
    if (j->load) j->load(k * n, wide, raw);
    for (int64_t i = 0; i < k; i++) {
      char *row = wide + i * n * j->tsize;
      one_row(j, row, row, row, 0, NULL);
    }
    if (j->load) j->store(k * n, raw, wide);
    stage_out(j, o, k, raw);
  }
  free(wide);
}

/* ---- the choice */

/* Rows of y are whole lines past the caches, and short enough to stay in L2. */
static bool overlaps(const Job *j) {
  const TsRows *r = j->r;
  int64_t odd = (int64_t)(uintptr_t)r->y | r->n * j->esize;
  for (int d = 0; d < r->nouter; d++) odd |= r->y_stride[d] * j->esize;
  return j->past && !j->load && odd % 64 == 0 && r->n * j->tsize <= CACHED;
}

static TsTask *task_of(const Job *j) {
  const TsRows *r = j->r;
  if (r->n <= SHORT && !j->load) return short_task;
  if (!overlaps(j)) return rows_task;
  if (r->op == TS_ROWS_softmax || r->op == TS_ROWS_log_softmax) return soft_task;
  /* With a bias there is one stream more than pays. */
  bool norms = r->w && !r->b && j->k->affine_sqdev[j->acc] && r->n * j->tsize % 1024 == 0;
  return norms ? norm_task : rows_task;
}

static int run_panels(Job *j) {
  int64_t columns = j->r->outer_dim[j->r->nouter - 1], w = panel_width(j, columns);
  Panels p = {j, w, (columns + w - 1) / w, columns};
  spread(j->outer / columns * p.count, w * j->r->n, panel_task, &p);
  return j->failed ? -1 : 0;
}

static int run_scratch(Job *j) {
  int64_t batch = CACHED / (j->r->n * j->tsize + 1);
  Scratch s = {j, batch < 16 ? 16 : batch > 64 ? 64 : batch};
  if (j->r->n > SHARED) s.batch = 1;
  /* A range of at least a batch, so that neighbouring rows are staged together. */
  int64_t grain = j->r->n >= GRAIN ? 1 : GRAIN / j->r->n;
  ts_cpu_parallel(j->outer, grain < s.batch ? s.batch : grain, scratch_task, &s);
  return j->failed ? -1 : 0;
}

int ts_rows(const TsRows *r, const TsRowsTables *t) {
  Job j = {.r = r, .red = t->reduce, .k = t->rows, .copy = t->copy, .outer = 1};
  for (int d = 0; d < r->nouter; d++) j.outer *= r->outer_dim[d];
  if (j.outer == 0 || r->n == 0) return 0;
  TsDtype wide = (TsDtype)ts_dtypes[r->dtype].accum;
  j.acc = wide == TS_DT_f64 ? TS_RED_F64 : TS_RED_F32;
  j.esize = ts_dtypes[r->dtype].nbytes;
  j.tsize = ts_dtypes[wide].nbytes;
  if (wide != r->dtype) {
    j.load = t->convert->convert[r->dtype][wide];
    j.store = t->convert->convert[wide][r->dtype];
  }
  j.past = j.outer * r->n * j.esize >= PAST && r->x != r->y;
  bool rows = (r->x_step == 1 && r->y_step == 1) || r->n == 1;
  int last = r->nouter - 1;
  bool soft = r->op == TS_ROWS_softmax || r->op == TS_ROWS_log_softmax;
  bool columns = r->nouter > 0 && r->x_stride[last] == 1 && r->y_stride[last] == 1 &&
                 r->outer_dim[last] >= 16;
  if (rows && r->n >= SHARED && j.outer < 4 * ts_cpu_threads()) return shared_rows(&j);
  if (rows) {
    spread(j.outer, r->n, task_of(&j), &j);
    return j.failed ? -1 : 0;
  }
  if (columns && soft && !j.load) return run_panels(&j);
  return run_scratch(&j);
}
