/* scaled_linear where nobody asks for the steps of its definition: weights become f32 as they are
 * used, rows of a tile that stays in the caches, or panels of vm/gemm/gemm.h. So they are those that
 * dequantize makes, and the chains are matmul's. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/gemm/gemm.h"

enum { X, W, SCALE, ZERO, BIAS };
enum {
  FEW = 8,         /* rows of x for which tiles are made */
  TILE = 64 << 10, /* bytes of a tile, about */
  ROWS = 8,        /* of a panel, at a time */
  STEPS = 512
};

/* Numbers of rows of weights: that of element (r, c) is at[r / rows * row + c / columns * step]. */
typedef struct Numbers {
  const float *at;
  int64_t rows, columns, row, step;
} Numbers;

typedef struct Weights {
  const TsKernels *k;
  const char *at;
  TsConvertFn *read;
  void (*halves)(int64_t n, float *y, const void *q); /* or NULL */
  int64_t row_nbytes, n, depth;
  Numbers scale, zero;
} Weights;

static bool is_float(const TsMeta *m) {
  return m->dtype == TS_DT_f32 || m->dtype == TS_DT_bf16 || m->dtype == TS_DT_f16;
}

static int64_t pieces(int64_t n, int64_t size) { return n / size + (n % size != 0); }

/* Whether the numbers of m go with w [n, depth] by these blocks. */
static bool place(const TsMeta *m, const TsAttr *block, int64_t n, int64_t depth, Numbers *s) {
  if (block->type != TS_ATTR_ints) {
    int64_t rows = m->ndim > 1 ? m->dim[m->ndim - 2] : 1,
            columns = m->ndim ? m->dim[m->ndim - 1] : 1;
    if (m->ndim > 2 || (rows != 1 && rows != n) || (columns != 1 && columns != depth))
      return false;
    s->rows = 1, s->row = rows == 1 ? 0 : columns;
    s->step = columns > 1, s->columns = columns > 1 ? 1 : depth;
    return true;
  }
  int64_t size[2] = {1, 1};
  if (block->n > 2 || m->ndim != 2) return false;
  for (int i = 0; i < block->n; i++)
    if ((size[2 - block->n + i] = block->ints[i]) < 1) return false;
  s->rows = size[0], s->columns = size[1];
  s->row = pieces(depth, size[1]), s->step = 1;
  return m->dim[0] == pieces(n, size[0]) && m->dim[1] == s->row;
}

static bool open_weights(const TsCall *call, Weights *w) {
  const TsMeta *m = &call->in[W]->meta, *zero = NULL;
  bool packed = call->attr[1].i;
  bool bytes = m->dtype == TS_DT_i8 || m->dtype == TS_DT_u8;
  if (!bytes && (packed || (m->dtype != TS_DT_fp8_e4m3 && m->dtype != TS_DT_fp8_e5m2)))
    return false;
  if (m->ndim != 2 || !ts_meta_numel(m)) return false;
  if (call->nin > ZERO && call->in[ZERO]) zero = &call->in[ZERO]->meta;
  *w =
      (Weights){.n = m->dim[0], .row_nbytes = m->dim[1], .depth = m->dim[1] * (packed ? 2 : 1)};
  if (!is_float(&call->in[SCALE]->meta)) return false;
  if (zero && !is_float(zero) && zero->dtype != TS_DT_i8 && zero->dtype != TS_DT_u8)
    return false;
  return place(&call->in[SCALE]->meta, &call->attr[0], w->n, w->depth, &w->scale) &&
         (!zero || place(zero, &call->attr[0], w->n, w->depth, &w->zero));
}

bool ts_fits_scaled_linear(TsCall *call, TsMeta *out) {
  const TsMeta *x = &call->in[X]->meta, *bias = NULL;
  Weights w;
  if (call->nin > BIAS && call->in[BIAS]) bias = &call->in[BIAS]->meta;
  if (!is_float(x) || !open_weights(call, &w)) return false;
  if (x->ndim < 1 || x->dim[x->ndim - 1] != w.depth || !ts_meta_numel(x)) return false;
  if (bias && (!is_float(bias) || bias->ndim != 1 || bias->dim[0] != w.n)) return false;
  call->compute = TS_DT_f32;
  call->nout = 1;
  out[0] = *x;
  out[0].dim[x->ndim - 1] = w.n;
  return true;
}

/* ---- weights as f32 */

/* n numbers of a row from column c on. */
static void scale_part(const Weights *w, int64_t row, int64_t c, int64_t n, float *y) {
  const Numbers *s = &w->scale, *z = &w->zero;
  while (n > 0) {
    int64_t group = s->columns;
    if (z->at && z->columns < group) group = z->columns;
    int64_t part = c % group ? group - c % group : n; /* up to where a group begins */
    if (part > n) part = n;
    TsScaledGroups g = {.size = group, .step = s->step, .zero_step = z->step};
    g.scale = s->at + row / s->rows * s->row + c / s->columns * s->step;
    if (z->at) g.zero = z->at + row / z->rows * z->row + c / z->columns * z->step;
    if (c % group) g.size = part;
    w->k->scaled.apply(part, y, &g);
    y += part, c += part, n -= part;
  }
}

/* Columns c .. c + n - 1 of a row, of which c is even. */
static void read_part(const Weights *w, int64_t row, int64_t c, int64_t n, float *y) {
  const char *q = w->at + row * w->row_nbytes;
  if (w->halves)
    w->halves(n / 2, y, q + c / 2);
  else
    w->read(n, y, q + c);
  scale_part(w, row, c, n, y);
}

/* ---- a few rows of x: tiles of rows of weights */
typedef struct Few {
  const Weights *w;
  TsGemm g;
  char *tiles;
  int64_t rows;  /* of a tile */
  int64_t csize; /* bytes of an element of the result */
  int failed;
} Few;

static void multiply_tiles(void *arg, int64_t lo, int64_t hi, int worker) {
  Few *f = arg;
  const Weights *w = f->w;
  float *tile = (float *)(void *)(f->tiles + worker * f->rows * w->depth * 4);
  for (int64_t t = lo; t < hi && !ts_cpu_interrupted(); t++) {
    int64_t first = t * f->rows, n = w->n - first < f->rows ? w->n - first : f->rows;
    for (int64_t i = 0; i < n; i++)
      for (int64_t c = 0; c < w->depth; c += STEPS)
        read_part(w, first + i, c, w->depth - c < STEPS ? w->depth - c : STEPS,
                  tile + i * w->depth + c);
    TsGemm g = f->g;
    g.n = n, g.b = tile, g.b_rs = 1, g.b_cs = w->depth, g.alone = true;
    g.c = (char *)g.c + first * f->csize;
    if (g.bias) g.bias = (const float *)g.bias + first;
    if (ts_gemm(&g, &w->k->gemm)) __atomic_store_n(&f->failed, 1, __ATOMIC_RELAXED);
  }
}

static int multiply_few(TsCall *call, const Weights *w, const TsGemm *g, int64_t csize) {
  Few f = {.w = w, .g = *g, .rows = TILE / (w->depth * 4) / 8 * 8, .csize = csize};
  if (f.rows < 8) f.rows = 8;
  f.tiles = ts_work_take(ts_cpu_threads() * f.rows * w->depth * 4 + 64);
  if (!f.tiles) return ts_scratch_failed(call);
  ts_cpu_parallel(pieces(w->n, f.rows), 1, multiply_tiles, &f);
  ts_work_give(f.tiles);
  return f.failed ? ts_scratch_failed(call) : 0;
}

/* ---- more rows: panels */
static void fill(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                 int64_t k0, int64_t nk) {
  const Weights *w = arg;
  float buf[ROWS][STEPS + 2], *to = dst;
  (void)batch;
  if (n < width) memset(dst, 0, (size_t)(width * nk) * 4);
  for (int64_t k = k0; k < k0 + nk;) {
    int64_t base = k & ~INT64_C(1), end = base + STEPS;
    if (end > k0 + nk) end = k0 + nk;
    int64_t some = end - base + (end & 1 && w->halves);
    for (int64_t i = 0; i < n; i += ROWS) {
      int rows = (int)(n - i < ROWS ? n - i : ROWS);
      for (int r = 0; r < rows; r++) read_part(w, i0 + i + r, base, some, buf[r]);
      for (int64_t c = k; c < end; c++)
        for (int r = 0; r < rows; r++) to[(c - k0) * width + i + r] = buf[r][c - base];
    }
    k = end;
  }
}

static int multiply(TsCall *call, Weights *w, TsTensor *const *in) {
  const float *at[5] = {NULL};
  TsTensor *y = call->out[0];
  TsDtype d = ts_tensor_dtype(call->in[W]);
  for (int i = 0; i < 5; i++)
    if (in[i] && !(at[i] = ts_tensor_read(in[i]))) return -1;
  w->k = call->ctx->k;
  w->at = (const char *)at[W], w->scale.at = at[SCALE], w->zero.at = at[ZERO];
  w->read = w->k->convert.convert[d][TS_DT_f32];
  if (call->attr[1].i) w->halves = w->k->scaled.halves[d == TS_DT_u8];
  TsGemm g = {.in = TS_GEMM_f32,
              .out = ts_gemm_type(ts_tensor_dtype(y)),
              .batch = 1,
              .m = ts_tensor_numel(in[X]) / w->depth,
              .n = w->n,
              .k = w->depth,
              .a = at[X],
              .a_rs = w->depth,
              .a_cs = 1,
              .c = ts_tensor_write(y),
              .c_rs = w->n,
              .c_cs = 1,
              .bias = at[BIAS],
              .bias_stride = 1};
  if (!g.c) return -1;
  if (g.m <= FEW) return multiply_few(call, w, &g, ts_dtypes[y->meta.dtype].nbytes);
  g.fill_b = fill, g.fill_b_arg = w;
  return ts_gemm(&g, &w->k->gemm) ? ts_scratch_failed(call) : 0;
}

int ts_exec_scaled_linear(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *in[5] = {NULL};
  Weights w;
  int failed = !open_weights(call, &w);
  TS_ASSERT(!failed);
  for (int i = 0; i < call->nin && !failed; i++) {
    if (!call->in[i]) continue;
    in[i] = i == W ? ts_tensor_contiguous(c, call->in[i])
                   : ts_tensor_cast(c, call->in[i], TS_DT_f32);
    failed = !in[i];
  }
  if (!failed) failed = multiply(call, &w, in);
  for (int i = 0; i < 5; i++) ts_tensor_unref(in[i]);
  return failed ? -1 : 0;
}
