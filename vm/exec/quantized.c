/* quantized_matmul: a product with weights that are stored in blocks, which the panels of
 * vm/gemm/gemm.h are filled with as they are read. So a weight has the number that its cast to f32 has, and the
 * chains are matmul's. */
#include <stdint.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/gemm/gemm.h"

enum { ROWS = 8, STEPS = 512 /* whole blocks */ };

typedef struct Weights {
  const char *at;
  TsConvertFn *read; /* to f32, or f64 */
  int64_t row_nbytes, k;
  int block, nbytes; /* elements and bytes of a block */
  bool wide;
} Weights;

/* Elements k0 .. k0 + nk of a row, from whole blocks: those before k0 are read, too. */
static void read_row(const Weights *w, int64_t row, int64_t k0, int64_t nk, void *to) {
  int64_t first = k0 / w->block, last = (k0 + nk + w->block - 1) / w->block;
  w->read((last - first) * w->block, to, w->at + row * w->row_nbytes + first * w->nbytes);
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
} Few;

enum { FEW = 2 * TS_BLOCKS_DOT_ROWS, GRAIN_NBYTES = 16 << 10, SIDES = 4 /* lots of lanes */ };

static void multiply_some(void *arg, int64_t lo, int64_t hi, int worker) {
  const Few *f = arg;
  (void)worker;
  for (int64_t at = lo; at < hi && !ts_cpu_interrupted(); at += SIDES) {
    int64_t j = at * f->lanes, end = (hi - at < SIDES ? hi : at + SIDES) * f->lanes,
            n = (end < f->n ? end : f->n) - j;
    for (int i = 0; i < f->m; i += TS_BLOCKS_DOT_ROWS) {
      int m = f->m - i < TS_BLOCKS_DOT_ROWS ? f->m - i : TS_BLOCKS_DOT_ROWS;
      float *y = f->y + i * f->n + j;
      f->dot(f->w->at + j * f->w->row_nbytes, f->w->row_nbytes, n, f->w->k, m,
             f->x + i * f->w->k, f->w->k, y, f->n);
      for (int r = 0; f->bias && r < m; r++)
        for (int64_t c = 0; c < n; c++) y[r * f->n + c] += f->bias[j + c];
    }
  }
}

/* False: there is no such way. */
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
  ts_cpu_parallel((f.n + f.lanes - 1) / f.lanes, grain, multiply_some, &f);
  return true;
}

static int multiply(TsCall *call, TsTensor *x, TsTensor *bias) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0], *w = call->in[1];
  TsDtype d = ts_tensor_dtype(w);
  Weights of = {.wide = ts_tensor_dtype(x) == TS_DT_f64,
                .block = ts_dtypes[d].block,
                .nbytes = ts_dtypes[d].nbytes,
                .k = w->meta.dim[1]};
  of.row_nbytes = ts_dtype_nbytes(d, of.k);
  of.read = c->k->convert.convert[d][of.wide ? TS_DT_f64 : TS_DT_f32];
  int64_t rows = of.k ? ts_tensor_numel(x) / of.k : ts_tensor_numel(y) / w->meta.dim[0];
  TsGemm g = {.in = ts_gemm_type(ts_tensor_dtype(x)),
              .out = ts_gemm_type(ts_tensor_dtype(y)),
              .batch = 1,
              .m = rows,
              .n = w->meta.dim[0],
              .k = of.k,
              .a_rs = of.k,
              .a_cs = 1,
              .c_rs = w->meta.dim[0],
              .c_cs = 1,
              .fill_b = fill,
              .fill_b_arg = &of,
              .bias_stride = 1};
  if (!(g.a = ts_tensor_read(x)) || !(of.at = ts_tensor_read(w)) ||
      !(g.c = ts_tensor_write(y)) || (bias && !(g.bias = ts_tensor_read(bias))))
    return -1;
  if (multiply_few(c->k, &of, d, &g)) return 0;
  return ts_gemm(&g, &c->k->gemm)
             ? ts_error_set(&c->err, TS_ERR_memory, "quantized_matmul: out of memory")
             : 0;
}

int ts_exec_quantized_matmul(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *given = call->nin > 2 ? call->in[2] : NULL;
  if (!ts_tensor_numel(call->out[0])) return 0;
  TsDtype acc = call->compute == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  TsTensor *typed = ts_tensor_cast(c, call->in[0], call->compute);
  TsTensor *x = typed ? ts_tensor_contiguous(c, typed) : NULL, *cast = NULL, *bias = NULL;
  if (x && given) cast = ts_tensor_cast(c, given, acc);
  if (cast) bias = ts_tensor_contiguous(c, cast);
  int failed = !x || (given && !bias) ? -1 : multiply(call, x, bias);
  ts_tensor_unref(typed);
  ts_tensor_unref(x);
  ts_tensor_unref(cast);
  ts_tensor_unref(bias);
  return failed;
}
