/* The driver of the scans. The kernel walks chains side by side; where the axis is the
 * last one, tiles of rows are turned round in L1 on the way in and out. */
#include "vm/drive/scan.h"

#include "devices/cpu_pool.h"

#include <stdlib.h>
#include <string.h>

enum {
  TILE = 64,
  PANEL = 512,
  ROWS = 1 << 14 /* between looks for interrupts */,
  GRAIN = 1 << 15
};

typedef struct Job {
  const TsScan *s;
  const TsCopyKernels *copy;
  TsConvertFn *load, *store;
  void (*scan)(const TsScanArgs *a);
  void (*along)(bool product, bool fresh, int n, int64_t m, const void *x, int64_t ldx, void *y,
                int64_t ldy);
  int esize, tsize, ysize; /* bytes of x, of the accumulator, of y */
  int64_t panels, columns;
} Job;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static void offsets(const TsScan *s, int64_t o, int64_t *x, int64_t *y) {
  *x = *y = 0;
  for (int d = s->nouter - 1; d >= 0; d--) {
    int64_t i = o % s->outer_dim[d];
    o /= s->outer_dim[d];
    *x += i * s->x_stride[d];
    *y += i * s->y_stride[d];
  }
}

/* ---- chains that lie side by side in x and y */

static void panel_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsScan *s = j->s;
  char acc[PANEL * 8] __attribute__((aligned(64)));
  int64_t index[PANEL], ox, oy;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t col = i % j->panels * PANEL;
    offsets(s, i / j->panels * j->columns + col, &ox, &oy);
    TsScanArgs a = {.op = (int)s->op, .acc = acc, .index = index};
    a.n = min64(PANEL, j->columns - col), a.ldx = s->x_step, a.ldy = s->y_step;
    for (int64_t r = 0; r < s->n && !ts_cpu_interrupted(); r += ROWS) {
      a.base = r, a.m = min64(ROWS, s->n - r);
      a.x = (const char *)s->x + (ox + r * s->x_step) * j->esize;
      a.y = (char *)s->y + (oy + r * s->y_step) * j->ysize;
      a.yi = s->index ? s->index + oy + r * s->y_step : NULL;
      j->scan(&a);
    }
  }
}

/* ---- sums and products of chains that lie along memory in x and y */

static void along_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsScan *s = j->s;
  (void)worker;
  for (int64_t o = lo, n; o < hi; o += n) {
    int64_t ox, oy, nx, ny, ldx = 0, ldy = 0;
    offsets(s, o, &ox, &oy);
    for (n = 1; n < TS_SCAN_CHAINS && o + n < hi; n++) { /* neighbours equally far apart */
      offsets(s, o + n, &nx, &ny);
      if (n == 1) ldx = nx - ox, ldy = ny - oy;
      if (nx - ox != n * ldx || ny - oy != n * ldy) break;
    }
    for (int64_t r = 0; r < s->n && !ts_cpu_interrupted(); r += ROWS)
      j->along(s->op == TS_SCAN_prod, !r, (int)n, min64(ROWS, s->n - r),
               (const char *)s->x + (ox + r) * j->esize, ldx,
               (char *)s->y + (oy + r) * j->ysize, ldy);
  }
}

/* ---- tiles: up to TILE chains by TILE elements */

typedef struct Tile {
  char raw[TILE * TILE * 8], rows[TILE * TILE * 8], cols[TILE * TILE * 8];
  char acc[TILE * 8];
  int64_t index[TILE], at[TILE * TILE], at_rows[TILE * TILE];
} Tile;

/* The k elements of chain o from i on, converted, to dst. */
static void chain_in(const Job *j, Tile *t, int64_t o, int64_t i, int64_t k, char *dst) {
  const TsScan *s = j->s;
  int64_t ox, oy;
  offsets(s, o, &ox, &oy);
  const char *x = (const char *)s->x + (ox + i * s->x_step) * j->esize;
  char *to = j->load ? t->raw : dst;
  j->copy->gather(k, to, x, s->x_step * j->esize, j->esize);
  if (j->load) j->load(k, dst, to);
}

static void chain_out(const Job *j, Tile *t, int64_t o, int64_t i, int64_t k, const char *src,
                      const int64_t *at) {
  const TsScan *s = j->s;
  int64_t ox, oy;
  offsets(s, o, &ox, &oy);
  oy += i * s->y_step;
  if (j->store) j->store(k, t->raw, src), src = t->raw;
  j->copy->scatter(k, (char *)s->y + oy * j->ysize, s->y_step * j->ysize, src, j->ysize);
  if (s->index) j->copy->scatter(k, s->index + oy, s->y_step * 8, at, 8);
}

/* Chains o .. o+k-1, elements i .. i+m-1. */
static void one_tile(const Job *j, Tile *t, int64_t o, int64_t k, int64_t i, int64_t m) {
  const TsScan *s = j->s;
  int e = j->tsize;
  for (int64_t r = 0; r < k; r++) chain_in(j, t, o + r, i, m, t->rows + r * m * e);
  j->copy->transpose(m, k, t->cols, k * e, t->rows, m * e, e, 0);
  TsScanArgs a = {(int)s->op, t->acc, t->index, t->cols, t->cols, s->index ? t->at : NULL,
                  m,          k,      k,        k,       i};
  j->scan(&a);
  j->copy->transpose(k, m, t->rows, m * e, t->cols, k * e, e, 0);
  if (s->index) j->copy->transpose(k, m, t->at_rows, m * 8, t->at, k * 8, 8, 0);
  for (int64_t r = 0; r < k; r++)
    chain_out(j, t, o + r, i, m, t->rows + r * m * e, t->at_rows + r * m);
}

static void tile_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  Tile t;
  (void)worker;
  for (int64_t o = lo; o < hi; o += TILE)
    for (int64_t i = 0; i < j->s->n && !ts_cpu_interrupted(); i += TILE)
      one_tile(j, &t, o, min64(TILE, hi - o), i, min64(TILE, j->s->n - i));
}

void ts_scan(const TsScan *s, const TsRowsKernels *rows, const TsConvertKernels *convert,
             const TsCopyKernels *copy) {
  TsDtype acc = (TsDtype)ts_dtypes[s->dtype].accum;
  Job j = {.s = s, .copy = copy, .columns = 1};
  int64_t outer = 1;
  for (int d = 0; d < s->nouter; d++) outer *= s->outer_dim[d];
  if (outer == 0 || s->n == 0) return;
  j.load = s->dtype == acc ? NULL : convert->convert[s->dtype][acc];
  j.store = s->dtype_y == acc ? NULL : convert->convert[acc][s->dtype_y];
  int kind = acc == TS_DT_f32 ? 0 : acc == TS_DT_f64 ? 1 : 2;
  j.scan = rows->scan[kind], j.along = rows->chains[kind];
  j.esize = ts_dtypes[s->dtype].nbytes;
  j.tsize = ts_dtypes[acc].nbytes;
  j.ysize = ts_dtypes[s->dtype_y].nbytes;
  int last = s->nouter - 1;
  if (last >= 0 && s->x_stride[last] == 1 && s->y_stride[last] == 1)
    j.columns = s->outer_dim[last];
  if (j.columns >= 16 && !j.load && !j.store) {
    j.panels = (j.columns + PANEL - 1) / PANEL;
    int64_t work = s->n * min64(j.columns, PANEL), items = outer / j.columns * j.panels;
    ts_cpu_parallel(items, work >= GRAIN ? 1 : GRAIN / work, panel_task, &j);
    return;
  }
  int64_t grain = s->n * TILE >= GRAIN ? TILE : GRAIN / s->n;
  int threads = ts_cpu_threads();
  if (outer < 2 * TILE * threads) grain = (outer + threads - 1) / threads;
  bool simple = s->op == TS_SCAN_sum || s->op == TS_SCAN_prod;
  if (simple && !j.load && !j.store && s->x_step == 1 && s->y_step == 1) {
    ts_cpu_parallel(outer, grain, along_task, &j);
    return;
  }
  ts_cpu_parallel(outer, grain, tile_task, &j);
}
