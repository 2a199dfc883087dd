/* See vm/drive/quantized.h. The panels of vm/gemm/gemm.h are filled with weights as they are
 * read from their blocks. So a weight has the number that its cast to f32 has, and the chains
 * are matmul's. */
#include "vm/drive/quantized.h"

#include <stdint.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/scratch.h"
#include "vm/gemm/gemm.h"

enum { ROWS = 8, STEPS = 512 /* whole blocks */ };
enum { MXFP4_STEPS = 32, MXFP4_NBYTES = 17 }; /* of a block whose scale stands apart */

typedef struct Weights {
  const char *at;
  const uint8_t *scales; /* or NULL; codes then */
  TsConvertFn *read;     /* to f32, or f64 */
  int64_t row_nbytes, k;
  int block, nbytes; /* elements and bytes of a block */
  bool wide;
} Weights;

/* Blocks first .. last - 1 of a row: the scale in front of its codes. */
static const char *join(const Weights *w, int64_t row, int64_t first, int64_t last, char *to) {
  int codes = w->nbytes - 1;
  const char *from = w->at + row * (w->k / 2);
  const uint8_t *scale = w->scales + row * (w->k / w->block);
  for (int64_t i = first; i < last; i++) {
    char *block = to + (i - first) * w->nbytes;
    *block = (char)scale[i];
    memcpy(block + 1, from + i * codes, (size_t)codes);
  }
  return to;
}

/* Elements k0 .. k0 + nk of a row, from whole blocks: those before k0 are read, too. */
static void read_row(const Weights *w, int64_t row, int64_t k0, int64_t nk, void *to) {
  int64_t first = k0 / w->block, last = (k0 + nk + w->block - 1) / w->block;
  const char *at = w->at + row * w->row_nbytes + first * w->nbytes;
  char joined[STEPS / MXFP4_STEPS * MXFP4_NBYTES];
  if (w->scales) at = join(w, row, first, last, joined);
  w->read((last - first) * w->block, to, at);
}

/* Rows i0 .. i0 + n, side by side as columns of a panel. */
#define PUT(name, T)                                                                           \
  static void name(const Weights *w, T *dst, int width, int64_t i0, int n, int64_t k0,         \
                   int64_t nk) {                                                               \
    T buf[ROWS][STEPS];                                                                        \
    for (int64_t k = k0; k < k0 + nk;) {                                                       \
      int64_t base = k / w->block * w->block, end = base + STEPS;                              \
      if (end > k0 + nk) end = k0 + nk;                                                        \
      for (int i = 0; i < n; i++) read_row(w, i0 + i, base, end - base, buf[i]);               \
      for (; k < end; k++)                                                                     \
        for (int i = 0; i < n; i++) dst[(k - k0) * width + i] = buf[i][k - base];              \
    }                                                                                          \
  }
PUT(put_f32, float)
PUT(put_f64, double)

static void fill(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                 int64_t k0, int64_t nk) {
  const Weights *w = arg;
  int64_t size = w->wide ? 8 : 4;
  (void)batch;
  if (n < width) memset(dst, 0, (size_t)(width * nk * size));
  for (int64_t i = 0; i < n; i += ROWS) {
    int rows = (int)(n - i < ROWS ? n - i : ROWS);
    if (w->wide)
      put_f64(w, (double *)dst + i, width, i0 + i, rows, k0, nk);
    else
      put_f32(w, (float *)dst + i, width, i0 + i, rows, k0, nk);
  }
}

/* ---- a few rows of x, for which the weights are read as they lie */
typedef struct Few {
  const Weights *w;
  TsBlocksDotFn *dot;
  int lanes, m;
  int64_t n;
  const float *x, *bias;
  float *y;
  TsScratch joined; /* of codes apart from scales: room for a lot of rows in blocks */
} Few;

enum { FEW = 2 * TS_BLOCKS_DOT_ROWS, GRAIN_NBYTES = 16 << 10, SIDES = 4 /* lots of lanes */ };

/* Rows j .. j + n - 1 in blocks: where they lie, or are put. */
static const char *rows_at(const Few *f, int64_t j, int64_t n, int worker) {
  const Weights *w = f->w;
  if (!w->scales) return w->at + j * w->row_nbytes;
  char *to = ts_scratch_part(&f->joined, worker);
  for (int64_t i = 0; i < n; i++) join(w, j + i, 0, w->k / w->block, to + i * w->row_nbytes);
  return to;
}

static void multiply_some(void *arg, int64_t lo, int64_t hi, int worker) {
  const Few *f = arg;
  for (int64_t at = lo; at < hi && !ts_cpu_interrupted(); at += SIDES) {
    int64_t j = at * f->lanes, end = (hi - at < SIDES ? hi : at + SIDES) * f->lanes,
            n = (end < f->n ? end : f->n) - j;
    const char *w = rows_at(f, j, n, worker);
    for (int i = 0; i < f->m; i += TS_BLOCKS_DOT_ROWS) {
      int m = f->m - i < TS_BLOCKS_DOT_ROWS ? f->m - i : TS_BLOCKS_DOT_ROWS;
      float *y = f->y + i * f->n + j;
      f->dot(w, f->w->row_nbytes, n, f->w->k, m, f->x + i * f->w->k, f->w->k, y, f->n);
      for (int r = 0; f->bias && r < m; r++)
        for (int64_t c = 0; c < n; c++) y[r * f->n + c] += f->bias[j + c];
    }
  }
}

/* False: there is no such way, or no room for it. */
static bool multiply_few(const TsKernels *k, const Weights *w, TsDtype d, const TsGemm *g) {
  Few f = {.w = w,
           .dot = k->blocks_dot.dot[d],
           .lanes = k->blocks_dot.lanes,
           .m = (int)g->m,
           .n = g->n,
           .x = g->a,
           .bias = g->bias,
           .y = g->c};
  if (!f.dot || g->m > FEW || g->in != TS_GEMM_f32 || g->out != TS_GEMM_f32) return false;
  if (w->row_nbytes > INT32_MAX / f.lanes) return false;
  int64_t step = f.lanes * w->row_nbytes, grain = (GRAIN_NBYTES + step - 1) / (step ? step : 1);
  if (w->scales && ts_scratch_open(&f.joined, SIDES * step)) return false;
  int64_t lots = (f.n + f.lanes - 1) / f.lanes;
  ts_cpu_parallel(lots, grain, multiply_some, &f);
  if (w->scales) ts_scratch_close(&f.joined);
  return true;
}

int ts_quantized(const TsQuantized *q, const TsKernels *k) {
  TsDtype d = q->blocks;
  Weights of = {.wide = q->in == TS_DT_f64,
                .at = q->w,
                .scales = q->scales,
                .block = ts_dtypes[d].block,
                .nbytes = ts_dtypes[d].nbytes,
                .k = q->k,
                .row_nbytes = ts_dtype_nbytes(d, q->k)};
  of.read = k->convert.convert[d][of.wide ? TS_DT_f64 : TS_DT_f32];
  TsGemm g = {.in = ts_gemm_type(q->in),
              .out = ts_gemm_type(q->out),
              .batch = 1,
              .m = q->m,
              .n = q->n,
              .k = q->k,
              .a = q->x,
              .a_rs = q->k,
              .a_cs = 1,
              .c = q->y,
              .c_rs = q->n,
              .c_cs = 1,
              .fill_b = fill,
              .fill_b_arg = &of,
              .bias = q->bias,
              .bias_stride = 1};
  return multiply_few(k, &of, d, &g) ? 0 : ts_gemm(&g, &k->gemm);
}
