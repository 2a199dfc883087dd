/* conv1d, conv2d, conv3d. The definition, for every output element of either layout:
 * one chain of fused multiply-adds from +0 over the channels of its group and, within a
 * channel, the positions of the window in row-major order; padding is zeros, and they
 * are elements of the chain. Then the epilogue's words, then one rounding. 16-bit
 * floats are summed in f32. Complex sums are those of the matrix product (vm/gemm/gemm.h)
 * with w as its left operand.
 *
 * It is a matrix product with one operand that exists only as a rule: [taps] x
 * [positions], or its transpose where channels stand last. Panels of it are gathered
 * from the padded image as the product asks for them. A window of one element at
 * stride one is the product itself. With few output channels in a group, as in
 * depthwise convolution, a row of outputs is summed in registers instead. Where images are small,
 * their positions are the columns of one product, so that weights are packed once. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/drive/conv_planes.h"
#include "vm/drive/epilogue.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum {
  ROWS = 4096,  /* outputs that are summed before they are rounded */
  TOGETHER = 16 /* rows that are turned round together for the layout nhwc */
};

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  TsConv c;
  bool last;                                   /* layout nhwc */
  int64_t taps, positions, channels_out, size; /* size: bytes of an accumulator */
  TsTensor *x, *w, *y;
  TsTensor *bias, *residual; /* in the accumulate type, adjacent; or NULL */
  TsEpilogueWord word[TS_EPILOGUE_MAX];
  TsConvImage image;
  int64_t *tap, step[2];
  const char *weights; /* [out channels][taps] */
  TsScratch scratch;
} Job;

/* ---- the epilogue, on part of a row: channel o of positions [p, p + n), or channels
 * [o, o + n) of one position */
static void finish_part(const Job *j, void *acc, int64_t image, int64_t o, int64_t p,
                        int64_t n) {
  bool along = !j->last; /* the run goes along positions */
  int64_t at = along ? (image * j->channels_out + o) * j->positions + p
                     : (image * j->positions + p) * j->channels_out + o;
  for (const TsEpilogueWord *w = j->word; *w; w++) {
    if (*w == TS_EPILOGUE_bias)
      ts_epilogue_add(j->k, j->c.acc, acc, (const char *)ts_tensor_read(j->bias) + o * j->size,
                      along, n);
    else if (*w == TS_EPILOGUE_residual)
      ts_epilogue_add(j->k, j->c.acc, acc,
                      (const char *)ts_tensor_read(j->residual) + at * j->size, false, n);
    else
      ts_epilogue_activate(j->k, *w, j->c.acc, acc, n);
  }
}

/* A piece of a row of the joined product: parts of several images. */
static void finish_joined(void *arg, void *acc, int64_t group, int64_t row, int64_t col,
                          int64_t n) {
  const Job *j = arg;
  for (int64_t m; n > 0; n -= m, col += m, acc = (char *)acc + m * j->size) {
    int64_t p = col % j->positions;
    m = j->positions - p < n ? j->positions - p : n;
    finish_part(j, acc, col / j->positions, group * j->c.og + row, p, m);
  }
}

static void finish(void *arg, void *acc, int64_t batch, int64_t row, int64_t col, int64_t n) {
  const Job *j = arg;
  int64_t image = batch / j->c.groups, o = batch % j->c.groups * j->c.og;
  if (j->last)
    finish_part(j, acc, image, o + col, row, n);
  else
    finish_part(j, acc, image, o + row, col, n);
}

/* ---- by the matrix product */
static void fill(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                 int64_t k0, int64_t nk) {
  const Job *j = arg;
  int64_t at[64], first = batch / j->c.groups * j->image.step_n +
                          batch % j->c.groups * j->c.cg * j->image.step_c;
  ts_conv_positions(&j->image, j->c.out, j->step, i0, n, at);
  j->k->conv.panel[j->size == 4 ? 0 : 1](dst, width, j->image.at + first * j->size, j->tap + k0,
                                         nk, at, n);
}

static void fill_joined(void *arg, void *dst, int width, int64_t group, int64_t i0, int64_t n,
                        int64_t k0, int64_t nk) {
  const Job *j = arg;
  int64_t at[64];
  ts_conv_joined(&j->image, j->c.out, j->step, i0, n, at);
  j->k->conv.panel[j->size == 4 ? 0 : 1](
      dst, width, j->image.at + group * j->c.cg * j->image.step_c * j->size, j->tap + k0, nk,
      at, n);
}

static int no_memory(const Job *j) { return ts_scratch_failed(j->call); }

/* Offsets of the groups' parts: of weights, of results, of images if given. */
static int set_batches(const Job *j, TsGemm *g, int64_t *at[3], bool images) {
  const TsConv *c = &j->c;
  g->batch = c->batch * c->groups;
  for (int i = 0; i < 3; i++)
    if (!(at[i] = ts_work_take((g->batch + 1) * 8))) return no_memory(j);
  for (int64_t i = 0; i < g->batch; i++) {
    int64_t n = i / c->groups, o = i % c->groups * c->og;
    at[0][i] = o * j->taps;
    at[1][i] = j->last ? n * j->positions * j->channels_out + o
                       : (n * j->channels_out + o) * j->positions;
    at[2][i] = images ? n * j->image.step_n + i % c->groups * c->cg * j->image.step_c : 0;
  }
  g->c_batch = at[1];
  *(j->last ? &g->b_batch : &g->a_batch) = at[0];
  if (images) *(j->last ? &g->a_batch : &g->b_batch) = at[2];
  return 0;
}

static void set_product(const Job *j, TsGemm *g, bool images) {
  const TsConv *c = &j->c;
  int64_t p_step = images ? j->step[0] : 0;
  if (j->last) {
    g->m = j->positions, g->n = c->og;
    g->b = j->weights, g->b_rs = 1, g->b_cs = j->taps;
    g->c_rs = j->channels_out, g->c_cs = 1;
    g->a_rs = p_step, g->a_cs = j->image.step_c;
  } else {
    g->m = c->og, g->n = j->positions;
    g->a = j->weights, g->a_rs = j->taps, g->a_cs = 1;
    g->c_rs = j->positions, g->c_cs = 1;
    g->b_rs = j->image.step_c, g->b_cs = p_step;
  }
  if (images) *(j->last ? &g->a : &g->b) = j->image.at;
}

/* One product for each group, over all images; its rows go to their images at the end. */
static int multiply_joined(Job *j) {
  const TsConv *c = &j->c;
  int64_t columns = c->batch * j->positions, size = ts_dtypes[j->y->meta.dtype].nbytes;
  TsGemm g = {.in = ts_gemm_type(c->acc),
              .out = ts_gemm_type(ts_tensor_dtype(j->y)),
              .batch = c->groups,
              .m = c->og,
              .n = columns,
              .k = j->taps,
              .a = j->weights,
              .a_rs = j->taps,
              .a_cs = 1,
              .c_rs = columns,
              .c_cs = 1,
              .fill_b = fill_joined,
              .fill_b_arg = j};
  int64_t *at[2] = {ts_work_take((c->groups + 1) * 8), ts_work_take((c->groups + 1) * 8)};
  char *y = ts_tensor_write(j->y), *rows = ts_work_take(j->channels_out * columns * size + 64);
  int failed = !y ? -1 : !at[0] || !at[1] || !rows ? no_memory(j) : 0;
  for (int64_t i = 0; i < c->groups && !failed; i++)
    at[0][i] = i * c->og * j->taps, at[1][i] = i * c->og * columns;
  g.a_batch = at[0], g.c_batch = at[1], g.c = rows;
  if (j->word[0]) g.finish = finish_joined, g.finish_arg = j;
  if (!failed) failed = ts_gemm(&g, &j->k->gemm) ? no_memory(j) : 0;
  if (!failed) ts_conv_apart(c->batch, j->channels_out, j->positions * size, y, rows);
  ts_work_give(at[0]), ts_work_give(at[1]), ts_work_give(rows);
  return failed ? -1 : 0;
}

/* images: the image itself is the other operand, j->step[0] from position to position. */
static int multiply(Job *j, bool images, TsGemmType in) {
  TsGemm g = {.in = in, .out = ts_gemm_type(ts_tensor_dtype(j->y)), .k = j->taps};
  int64_t *at[3] = {NULL, NULL, NULL};
  set_product(j, &g, images);
  int failed = !(g.c = ts_tensor_write(j->y)) || set_batches(j, &g, at, images);
  if (!images)
    *(j->last ? &g.fill_a : &g.fill_b) = fill, *(j->last ? &g.fill_a_arg : &g.fill_b_arg) = j;
  if (j->word[0]) g.finish = finish, g.finish_arg = j;
  if (!failed) failed = ts_gemm(&g, &j->k->gemm) ? no_memory(j) : 0;
  for (int i = 0; i < 3; i++) ts_work_give(at[i]);
  return failed ? -1 : 0;
}

/* ---- directly: an item is one row of outputs, of up to TOGETHER channels where they stand last */
static void sum_rows(const Job *j, char *to, int64_t image, int64_t o, int64_t row, int64_t n) {
  const TsConv *c = &j->c;
  int64_t at;
  ts_conv_positions(&j->image, c->out, j->step, row * c->out[2], 1, &at);
  at += image * j->image.step_n + o / c->og * c->cg * j->image.step_c;
  ts_conv_plane(j->k, j->size, to, n, c->out[2], j->image.at + at * j->size,
                j->step[1] * j->image.step[1], j->weights + o * j->taps * j->size, j->tap,
                j->taps);
}

/* As many of the rows lo .. hi as lie in one plane, and in the scratch if there is one. */
static void direct_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsConv *c = &j->c;
  TsDtype d = ts_tensor_dtype(j->y);
  int64_t width = c->out[2], size = ts_dtypes[d].nbytes;
  TsConvertFn *store = d == c->acc ? NULL : j->k->convert.convert[c->acc][d];
  char *acc = store ? ts_scratch_part(&j->scratch, worker) : NULL;
  char *y = (char *)j->y->storage->host + j->y->offset;
  for (int64_t i = lo, n; i < hi; i += n) {
    int64_t row = i % c->out[1], plane = i / c->out[1], image = plane / c->out[0];
    int64_t o = image % j->channels_out, first = (plane % c->out[0] * c->out[1] + row);
    image /= j->channels_out;
    n = c->out[1] - row < hi - i ? c->out[1] - row : hi - i;
    if (store && n * width > ROWS) n = width > ROWS ? 1 : ROWS / width;
    char *to = y + i * width * size, *sums = store ? acc : to;
    sum_rows(j, sums, image, o, first, n);
    finish_part(j, sums, image, o, first * width, n * width);
    if (store) store(n * width, to, sums);
  }
}

static void direct_lines(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsConv *c = &j->c;
  TsDtype d = ts_tensor_dtype(j->y);
  int64_t rows = c->out[0] * c->out[1], width = c->out[2], size = ts_dtypes[d].nbytes;
  int64_t blocks = (j->channels_out + TOGETHER - 1) / TOGETHER;
  TsConvertFn *store = d == c->acc ? NULL : j->k->convert.convert[c->acc][d];
  char *acc = ts_scratch_part(&j->scratch, worker);
  char *y = (char *)j->y->storage->host + j->y->offset;
  for (int64_t i = lo; i < hi; i++) {
    int64_t row = i % rows, o0 = i / rows % blocks * TOGETHER, image = i / rows / blocks;
    int64_t n = j->channels_out - o0 < TOGETHER ? j->channels_out - o0 : TOGETHER;
    for (int64_t o = o0; o < o0 + n; o++)
      sum_rows(j, acc + (o - o0) * width * j->size, image, o, row, 1);
    char *transposed = y + ((image * rows + row) * width * j->channels_out + o0) * size;
    if (!j->word[0] && !store) {
      j->k->copy.transpose(width, n, transposed, j->channels_out * size, acc, width * size,
                           (int)size, 0);
      continue;
    }
    /* Words and rounding want the channels of a position side by side. */
    for (int64_t p = 0; p < width; p++) {
      double line[TOGETHER], small[TOGETHER];
      j->k->copy.gather(n, line, acc + p * j->size, width * j->size, (int)j->size);
      finish_part(j, line, image, o0, row * width + p, n);
      if (store) store(n, small, line);
      memcpy(transposed + p * j->channels_out * size, store ? small : line, (size_t)(n * size));
    }
  }
}

static int direct(Job *j) {
  const TsConv *c = &j->c;
  int64_t at_once = j->last ? TOGETHER : 1, width = c->out[2];
  int64_t n = c->batch * ((j->channels_out + at_once - 1) / at_once) * c->out[0] * c->out[1];
  int64_t sums = j->last ? TOGETHER * width : width > ROWS ? width : ROWS;
  if (!ts_tensor_write(j->y)) return -1;
  if (ts_scratch_open(&j->scratch, sums * j->size)) return no_memory(j);
  ts_cpu_parallel(n, (1 << 18) / (width * j->taps * at_once + 1) + 1,
                  j->last ? direct_lines : direct_rows, j);
  ts_scratch_close(&j->scratch);
  return 0;
}

/* ---- depthwise over small planes */
static void finish_plane(void *arg, char *sums, int64_t image, int64_t channel) {
  const Job *j = arg;
  TsDtype d = ts_tensor_dtype(j->y);
  finish_part(j, sums, image, channel, 0, j->positions);
  if (d == j->c.acc) return;
  int64_t at = (image * j->channels_out + channel) * j->positions * ts_dtypes[d].nbytes;
  char *y = (char *)j->y->storage->host + j->y->offset;
  j->k->convert.convert[j->c.acc][d](j->positions, y + at, sums);
}

static int planes(Job *j, TsTensor *x, TsTensor *w) {
  bool whole = ts_tensor_dtype(j->y) == j->c.acc;
  TsConvPlanes p = {.c = &j->c, .k = j->k, .x = x, .w = ts_tensor_read(w), .arg = j};
  char *y = ts_tensor_write(j->y);
  if (!ts_tensor_read(x) || !p.w || !y) return -1;
  if (whole) p.y = y;
  if (!whole || j->word[0]) p.finish = finish_plane;
  return ts_conv_planes(&p) ? no_memory(j) : 0;
}

/* ---- depthwise with channels last: a lane for each channel, no padded image; a tap
 * beyond the border reads zeros */
typedef struct Lanes {
  const Job *j;
  const char *x; /* row-major */
  char *w;       /* [taps][channels] */
  void *zeros;
} Lanes;

static void find_taps(const Lanes *l, int64_t image, int64_t position, const void **tap) {
  const TsConv *c = &l->j->c;
  int64_t out[3] = {position / c->out[2] / c->out[1], position / c->out[2] % c->out[1],
                    position % c->out[2]};
  for (int64_t k = 0; k < l->j->taps; k++) {
    int64_t r = k, at = 0, step = 1;
    bool inside = true;
    for (int a = 2; a >= 0; a--) {
      int64_t p = out[a] * c->stride[a] + r % c->window[a] * c->dilation[a] - c->before[a];
      r /= c->window[a];
      inside = inside && p >= 0 && p < c->in[a];
      at += p * step, step *= c->in[a];
    }
    int64_t first = (image * step + at) * l->j->channels_out;
    tap[k] = inside ? l->x + first * l->j->size : l->zeros;
  }
}

static void lane_positions(void *arg, int64_t lo, int64_t hi, int worker) {
  const Lanes *l = arg;
  const Job *j = l->j;
  TsDtype d = ts_tensor_dtype(j->y);
  int64_t n = j->channels_out, size = ts_dtypes[d].nbytes;
  TsConvertFn *store = d == j->c.acc ? NULL : j->k->convert.convert[j->c.acc][d];
  const void **tap = ts_scratch_part(&j->scratch, worker);
  char *acc = (char *)(tap + j->taps), *y = (char *)j->y->storage->host + j->y->offset;
  for (int64_t i = lo; i < hi; i++) {
    char *to = store ? acc : y + i * n * size;
    find_taps(l, i / j->positions, i % j->positions, tap);
    j->k->conv.lanes[j->size == 8](to, n, tap, l->w, j->taps);
    finish_part(j, to, i / j->positions, 0, i % j->positions, n);
    if (store) store(n, y + i * n * size, acc);
  }
}

static int lanes(Job *j, const char *x, const char *w) {
  Lanes l = {.j = j, .x = x};
  int64_t n = j->channels_out, transposed = n * j->size, size = j->size;
  l.w = ts_work_take(j->taps * transposed + 64);
  l.zeros = ts_work_take(transposed);
  int failed = ts_scratch_open(&j->scratch, j->taps * 8 + transposed);
  failed = failed || !l.w || !l.zeros ? no_memory(j) : !ts_tensor_write(j->y) ? -1 : 0;
  if (!failed) {
    memset(l.zeros, 0, (size_t)transposed);
    j->k->copy.transpose(j->taps, n, l.w, transposed, w, j->taps * size, (int)size, 0);
    int64_t work = n * j->taps;
    ts_cpu_parallel(j->c.batch * j->positions, (1 << 18) / (work + 1) + 1, lane_positions, &l);
  }
  ts_work_give(l.w), ts_work_give(l.zeros), ts_scratch_close(&j->scratch);
  return failed;
}

static int depthwise_last(Job *j) {
  TsContext *ctx = j->call->ctx;
  TsTensor *x = ts_tensor_cast(ctx, j->x, j->c.acc), *w = ts_tensor_cast(ctx, j->w, j->c.acc);
  const char *xp = x ? ts_tensor_read(x) : NULL, *wp = w ? ts_tensor_read(w) : NULL;
  int failed = !xp || !wp || lanes(j, xp, wp);
  ts_tensor_unref(x);
  ts_tensor_unref(w);
  return failed ? -1 : 0;
}

/* ---- complex: the matrix of taps and positions is made, image by image */
static int complex_product(Job *j) {
  const TsConv *c = &j->c;
  int64_t P = j->positions;
  char *y = ts_tensor_write(j->y), *col = ts_work_take(j->taps * P * j->size + 64);
  int64_t *at = ts_work_take((P + 1) * 8);
  int failed = !y || !col || !at ? no_memory(j) : 0;
  if (!failed) ts_conv_positions(&j->image, c->out, j->step, 0, P, at);
  for (int64_t i = 0; i < c->batch * c->groups && !failed; i++) {
    int64_t n = i / c->groups, o = i % c->groups * c->og;
    int64_t first = n * j->image.step_n + i % c->groups * c->cg * j->image.step_c;
    j->k->conv.panel[j->size == 8 ? 1 : 2](col, P, j->image.at + first * j->size, j->tap,
                                           j->taps, at, P);
    TsGemm g = {.in = ts_gemm_type(c->acc),
                .out = ts_gemm_type(c->acc),
                .batch = 1,
                .m = c->og,
                .n = P,
                .k = j->taps,
                .a = j->weights + o * j->taps * j->size,
                .a_rs = j->taps,
                .a_cs = 1,
                .b = col,
                .b_rs = P,
                .b_cs = 1};
    g.c_rs = j->last ? 1 : P, g.c_cs = j->last ? j->channels_out : 1;
    g.c = y + (j->last ? n * P * j->channels_out + o : (n * j->channels_out + o) * P) * j->size;
    failed = ts_gemm(&g, &j->k->gemm) ? no_memory(j) : 0;
  }
  for (int64_t i = 0; i < c->batch * (j->last ? P : j->channels_out) && !failed && j->word[0];
       i++) {
    int64_t run = j->last ? j->channels_out : P, image = i / (j->last ? P : j->channels_out);
    finish_part(j, y + i * run * j->size, image, j->last ? 0 : i % j->channels_out,
                j->last ? i % P : 0, run);
  }
  ts_work_give(col), ts_work_give(at);
  return failed ? -1 : 0;
}

/* ---- setting up */
static void read_geometry(Job *j) {
  const TsAttr *a = j->call->attr;
  const TsMeta *x = &j->x->meta, *w = &j->w->meta, *y = &j->y->meta;
  TsConv *c = &j->c;
  int nd = x->ndim - 2, space = j->last ? 1 : 2, channel = j->last ? nd + 1 : 1;
  c->nd = nd, c->batch = x->dim[0], c->groups = a[3].i;
  c->cg = w->dim[channel], c->og = w->dim[0] / c->groups;
  ts_window_list(&a[0], nd, 1, c->stride);
  ts_window_list(&a[1], nd, 0, c->before);
  ts_window_list(&a[2], nd, 1, c->dilation);
  j->taps = c->cg, j->positions = 1, j->channels_out = w->dim[0];
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    c->in[i] = at < 0 ? 1 : x->dim[space + at];
    c->window[i] = at < 0 ? 1 : w->dim[space + at];
    c->out[i] = at < 0 ? 1 : y->dim[space + at];
    c->after[i] = c->before[i];
    j->taps *= c->window[i], j->positions *= c->out[i];
  }
}

/* Weights as [out channels][channel][window], row-major. */
static TsTensor *ordered_weights(Job *j, TsTensor *w) {
  if (!j->last) return ts_tensor_contiguous(j->call->ctx, w);
  TsMeta m = w->meta;
  int64_t stride[TS_MAX_RANK];
  int nd = j->c.nd;
  stride[0] = w->stride[0], stride[1] = w->stride[nd + 1], m.dim[1] = w->meta.dim[nd + 1];
  for (int i = 0; i < nd; i++)
    stride[2 + i] = w->stride[1 + i], m.dim[2 + i] = w->meta.dim[1 + i];
  TsTensor *view = ts_tensor_view(w, &m, stride, w->offset);
  TsTensor *t = view ? ts_tensor_contiguous(j->call->ctx, view) : NULL;
  ts_tensor_unref(view);
  return t;
}

static int make_taps(Job *j) {
  const TsConv *c = &j->c;
  int64_t n = 0, pos[3];
  j->tap = ts_work_take((j->taps + 1) * 8);
  if (!j->tap) return no_memory(j);
  for (int64_t ch = 0; ch < c->cg; ch++)
    for (int64_t d = 0; d < c->window[0]; d++)
      for (int64_t h = 0; h < c->window[1]; h++)
        for (int64_t w = 0; w < c->window[2]; w++) {
          pos[0] = d * c->dilation[0], pos[1] = h * c->dilation[1], pos[2] = w * c->dilation[2];
          j->tap[n++] = ts_conv_offset(&j->image, ch, pos);
        }
  j->step[0] = c->stride[0], j->step[1] = c->stride[1];
  return 0;
}

/* A window of one element that visits every position of an image without holes. */
static bool is_product(Job *j) {
  const TsConv *c = &j->c;
  int space = j->last ? 1 : 2, nd = c->nd;
  for (int i = 0; i < 3; i++)
    if (c->window[i] != 1 || c->stride[i] != 1 || c->before[i]) return false;
  for (int i = space; i + 1 < space + nd; i++)
    if (j->x->stride[i] != j->x->stride[i + 1] * j->x->meta.dim[i + 1]) return false;
  return !ts_dtype_is(c->acc, TS_KIND_C);
}

/* Operands in their storage type go straight into the product. */
static int plain_product(Job *j) {
  int nd = j->c.nd, channel = j->last ? nd + 1 : 1, end = j->last ? nd : nd + 1;
  j->image = (TsConvImage){.step_n = j->x->stride[0], .step_c = j->x->stride[channel]};
  j->step[0] = j->x->stride[end];
  if (!(j->image.at = ts_tensor_read(j->x)) || !(j->weights = ts_tensor_read(j->w))) return -1;
  return multiply(j, true, ts_gemm_type(ts_tensor_dtype(j->x)));
}

static bool joins(const Job *j) {
  return !j->last && j->c.batch > 1 && j->positions <= TS_CONV_SMALL;
}

static int convolve(Job *j) {
  TsContext *ctx = j->call->ctx;
  int channel = j->last ? j->c.nd + 1 : 1;
  bool depthwise = j->c.cg == 1 && j->c.og == 1 && !ts_dtype_is(j->c.acc, TS_KIND_C);
  if (j->last && depthwise) return depthwise_last(j);
  if (is_product(j)) return plain_product(j);
  TsTensor *x = ts_tensor_dtype(j->x) == j->c.acc ? ts_tensor_ref(j->x)
                                                  : ts_tensor_cast(ctx, j->x, j->c.acc);
  TsTensor *w = x ? ts_tensor_cast(ctx, j->w, j->c.acc) : NULL;
  if (w && !j->last && ts_conv_planes_fit(&j->c, x)) {
    int done = planes(j, x, w);
    ts_tensor_unref(x);
    ts_tensor_unref(w);
    return done;
  }
  int failed = !w ||
               ts_conv_image(j->call, &j->c, x, channel, j->last ? 1 : 2, true, &j->image) ||
               make_taps(j) || !(j->weights = ts_tensor_read(w));
  if (!failed && ts_dtype_is(j->c.acc, TS_KIND_C))
    failed = complex_product(j);
  else if (!failed)
    failed = j->c.og <= TS_CONV_FEW_CHANNELS ? direct(j)
             : joins(j)                      ? multiply_joined(j)
                                             : multiply(j, false, ts_gemm_type(j->c.acc));
  ts_work_give(j->image.own), ts_work_give(j->tap);
  ts_tensor_unref(x);
  ts_tensor_unref(w);
  return failed ? -1 : 0;
}

static int prepare(Job *j) {
  TsCall *call = j->call;
  TsContext *ctx = call->ctx;
  TsTensor *bias = call->nin > 2 ? call->in[2] : NULL,
           *residual = call->nin > 3 ? call->in[3] : NULL;
  TsDtype d = call->compute;
  j->c.acc = ts_dtype_is(d, TS_KIND_C) ? d : (TsDtype)ts_dtypes[d].accum;
  j->size = ts_dtypes[j->c.acc].nbytes;
  if (ts_epilogue_read(call, &call->attr[5], bias, residual, j->c.acc, j->word)) return -1;
  if (bias && !(j->bias = ts_tensor_cast(ctx, bias, j->c.acc))) return -1;
  if (residual && !(j->residual = ts_tensor_cast(ctx, residual, j->c.acc))) return -1;
  j->x = ts_tensor_dtype(call->in[0]) == d ? ts_tensor_ref(call->in[0])
                                           : ts_tensor_cast(ctx, call->in[0], d);
  TsTensor *w = j->x ? ts_tensor_cast(ctx, call->in[1], d) : NULL;
  if (!w) return -1;
  j->w = w;
  read_geometry(j);
  j->w = ordered_weights(j, w);
  ts_tensor_unref(w);
  return j->w ? 0 : -1;
}

static int conv(TsCall *call) {
  Job j = {.call = call, .k = call->ctx->k, .y = call->out[0], .last = call->attr[4].i == 1};
  if (ts_tensor_numel(j.y) == 0) return 0;
  int failed = prepare(&j) || convolve(&j);
  ts_tensor_unref(j.x);
  ts_tensor_unref(j.w);
  ts_tensor_unref(j.bias);
  ts_tensor_unref(j.residual);
  return failed ? -1 : 0;
}

int ts_exec_conv1d(TsCall *call) { return conv(call); }
int ts_exec_conv2d(TsCall *call) { return conv(call); }
int ts_exec_conv3d(TsCall *call) { return conv(call); }
