/* conv_weight_grad: the gradient of w in conv(x, w). The definition, for the element of
 * output channel o, channel c of its group and place k of the window: one chain of fused
 * multiply-adds from +0 over the images and, within an image, the output positions p in
 * row-major order, of g[o, p] times the element of x that tap (c, k) meets at p; padding
 * is zeros, and they are elements of the chain. Then one rounding. 16-bit floats are summed
 * in f32. Complex sums are those of the matrix product (vm/gemm/gemm.h) with g as its left
 * operand.
 *
 * So it is a matrix product [channels out] x [positions] x [taps], of which the right
 * operand exists only as a rule. The image is laid out with channels last: then a position
 * has all its channels side by side, and the taps of a row of the window are runs of
 * neighbours. (With channels first a panel of taps would be gathered number by number.)
 * Operands without a window stay channels first, their panels being transposes. Depthwise,
 * a lane is a channel and a tap is a sum. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/drive/conv.h"
#include "vm/core/copy.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum { WINDOW, STRIDE, PADDING, DILATION, GROUPS, LAYOUT };
enum { TOGETHER = 128 }; /* positions whose offsets are listed at once */

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  TsConv c;
  bool last;    /* layout nhwc */
  int64_t taps; /* of one group; channels of x; places in an image of g and in all */
  int64_t channels, positions, steps, size;
  /* Row-major, in the accumulate type; channels last but for operands of planes. */
  TsTensor *x, *g;
  bool planes_x, planes_g;
  const char *image;
  int64_t at_step[3], at_image; /* elements of the image from place to place of g */
  int64_t *tap;
} Job;

static int no_memory(const Job *j) { return ts_scratch_failed(j->call); }

/* ---- operands with channels last */
static TsTensor *moved(TsTensor *x, bool last) {
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK];
  int n = m.ndim;
  memcpy(stride, x->stride, sizeof stride);
  for (int i = 1; i < n && !last; i++) {
    int from = i + 1 < n ? i + 1 : 1;
    m.dim[i] = x->meta.dim[from], stride[i] = x->stride[from];
  }
  return ts_tensor_view(x, &m, stride, x->offset);
}

/* Zeros at both ends of each space axis. */
static void clear_borders(const Job *j, char *at, const TsMeta *m) {
  int64_t stride[TS_MAX_RANK], bytes[TS_MAX_RANK];
  static const char zero[16];
  int nd = j->c.nd;
  ts_meta_strides(m, stride);
  for (int i = 0; i < m->ndim; i++) bytes[i] = stride[i] * j->size;
  for (int a = 0; a < nd; a++) {
    int64_t dim[TS_MAX_RANK], pad = j->c.before[3 - nd + a];
    memcpy(dim, m->dim, sizeof dim);
    dim[1 + a] = pad;
    ts_fill_nd(m->ndim, dim, at, bytes, (int)j->size, zero);
    ts_fill_nd(m->ndim, dim, at + (m->dim[1 + a] - pad) * bytes[1 + a], bytes, (int)j->size,
               zero);
  }
}

/* The view of x (channels last) within zeros, in the accumulate type. */
static TsTensor *padded(const Job *j, TsTensor *x) {
  TsContext *ctx = j->call->ctx;
  TsMeta m = x->meta;
  int nd = j->c.nd;
  bool needed = false;
  for (int a = 0; a < nd; a++) needed |= j->c.before[3 - nd + a] > 0;
  if (!needed) return ts_tensor_cast(ctx, x, j->c.acc);
  for (int a = 0; a < nd; a++) m.dim[1 + a] += 2 * j->c.before[3 - nd + a];
  m.dtype = (uint8_t)j->c.acc, m.weak = 0;
  TsTensor *t = ts_tensor_new(ctx, &m), *inside = NULL;
  char *at = t ? ts_tensor_write(t) : NULL;
  if (at) {
    TsMeta part = x->meta;
    int64_t offset = t->offset;
    part.dtype = m.dtype, part.weak = 0;
    for (int a = 0; a < nd; a++) offset += j->c.before[3 - nd + a] * t->stride[1 + a] * j->size;
    clear_borders(j, at, &m);
    inside = ts_tensor_view(t, &part, t->stride, offset);
  }
  int failed = !inside || ts_vm_assign(ctx, inside, x);
  ts_tensor_unref(inside);
  if (!failed) return t;
  ts_tensor_unref(t);
  return NULL;
}

static bool has_window(const TsConv *c) {
  for (int i = 0; i < 3; i++)
    if (c->window[i] != 1 || c->stride[i] != 1 || c->before[i] || c->in[i] != c->out[i])
      return true;
  return false;
}

static int ready(Job *j) {
  TsContext *ctx = j->call->ctx;
  TsTensor *x = moved(j->call->in[0], j->last || j->planes_x);
  TsTensor *g = moved(j->call->in[1], j->last || j->planes_g);
  if (x && g) {
    j->x = padded(j, x);
    j->g = j->x ? ts_tensor_cast(ctx, g, j->c.acc) : NULL;
  }
  ts_tensor_unref(x);
  ts_tensor_unref(g);
  return j->g && (j->image = ts_tensor_read(j->x)) && ts_tensor_read(j->g) ? 0 : -1;
}

/* Offsets in the image of the places [p, p + n) of g, counted through all images. */
static void list_positions(const Job *j, int64_t p, int64_t n, int64_t *at) {
  const int64_t *out = j->c.out, *step = j->at_step;
  int64_t w = p % out[2], h = p / out[2] % out[1], d = p / out[2] / out[1] % out[0];
  int64_t i = p / j->positions;
  for (int64_t t = 0; t < n; t++) {
    at[t] = i * j->at_image + d * step[0] + h * step[1] + w * step[2];
    if (++w < out[2]) continue;
    w = 0;
    if (++h < out[1]) continue;
    h = 0;
    if (++d < out[0]) continue;
    d = 0, i++;
  }
}

/* Taps of a group in the order place of the window, channel. */
static int list_taps(Job *j) {
  const TsConv *c = &j->c;
  int64_t n = 0, width = c->in[2] + 2 * c->before[2], height = c->in[1] + 2 * c->before[1];
  j->tap = ts_work_take((j->taps + 1) * 8);
  if (!j->tap) return no_memory(j);
  for (int64_t d = 0; d < c->window[0]; d++)
    for (int64_t h = 0; h < c->window[1]; h++)
      for (int64_t w = 0; w < c->window[2]; w++)
        for (int64_t ch = 0; ch < c->cg; ch++)
          j->tap[n++] = ((d * c->dilation[0] * height + h * c->dilation[1]) * width +
                         w * c->dilation[2]) *
                            j->channels +
                        ch;
  j->at_step[2] = c->stride[2] * j->channels;
  j->at_step[1] = c->stride[1] * width * j->channels;
  j->at_step[0] = c->stride[0] * height * width * j->channels;
  j->at_image = (c->in[0] + 2 * c->before[0]) * height * width * j->channels;
  return 0;
}

/* ---- by the matrix product, into y [channels out][window][channels of the group] */
static void fill(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                 int64_t k0, int64_t nk) {
  const Job *j = arg;
  const char *image = j->image + batch * j->c.cg * j->size;
  int64_t at[TOGETHER];
  for (int64_t k = 0; k < nk; k += TOGETHER) {
    int64_t m = nk - k < TOGETHER ? nk - k : TOGETHER;
    list_positions(j, k0 + k, m, at);
    j->k->conv.panel[j->size == 4 ? 0 : 1]((char *)dst + k * width * j->size, width, image, at,
                                           m, j->tap + i0, n);
  }
}

/* Positions [k0, k0 + nk), through all images, of n channels from `first` of an operand
 * [images][channels][positions]. */
static void fill_planes(const Job *j, char *dst, int width, TsTensor *x, int64_t first,
                        int64_t n, int64_t k0, int64_t nk) {
  int64_t channels = x->meta.dim[1], P = j->positions;
  const char *from = (const char *)x->storage->host + x->offset;
  for (int64_t k = 0, m; k < nk; k += m) {
    int64_t image = (k0 + k) / P, p = (k0 + k) % P;
    m = P - p < nk - k ? P - p : nk - k;
    j->k->copy.transpose(m, n, dst + k * width * j->size, width * j->size,
                         from + ((image * channels + first) * P + p) * j->size, P * j->size,
                         (int)j->size, 0);
  }
  for (int64_t k = 0; k < nk && n < width; k++)
    memset(dst + (k * width + n) * j->size, 0, (size_t)((width - n) * j->size));
}

static void fill_g(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                   int64_t k0, int64_t nk) {
  const Job *j = arg;
  fill_planes(j, dst, width, j->g, batch * j->c.og + i0, n, k0, nk);
}

static void fill_x(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                   int64_t k0, int64_t nk) {
  const Job *j = arg;
  fill_planes(j, dst, width, j->x, batch * j->c.cg + i0, n, k0, nk);
}

static TsGemm product(const Job *j, TsTensor *y) {
  const TsConv *c = &j->c;
  return (TsGemm){.in = ts_gemm_type(c->acc),
                  .out = ts_gemm_type(ts_tensor_dtype(y)),
                  .batch = 1,
                  .m = c->og,
                  .n = j->taps,
                  .k = j->steps,
                  .a = ts_tensor_read(j->g),
                  .a_rs = 1,
                  .a_cs = c->og * c->groups,
                  .c_rs = j->taps,
                  .c_cs = 1};
}

static int multiply(Job *j, TsTensor *y) {
  TsGemm g = product(j, y);
  int64_t *at[2] = {NULL, NULL};
  g.batch = j->c.groups, g.fill_b = j->planes_x ? fill_x : fill, g.fill_b_arg = j;
  if (j->planes_g) g.fill_a = fill_g, g.fill_a_arg = j;
  int failed = !(g.c = ts_tensor_write(y)) ? -1 : 0;
  for (int i = 0; i < 2 && !failed; i++) {
    at[i] = ts_work_take(g.batch * 8);
    if (!at[i]) failed = no_memory(j);
    for (int64_t b = 0; b < g.batch && !failed; b++) at[i][b] = b * j->c.og * (i ? j->taps : 1);
  }
  g.a_batch = at[0], g.c_batch = at[1];
  if (!failed) failed = ts_gemm(&g, &j->k->gemm) ? no_memory(j) : 0;
  ts_work_give(at[0]), ts_work_give(at[1]);
  return failed;
}

/* Complex: the right operand is made, group by group. */
static int complex_product(Job *j, TsTensor *y) {
  TsGemm g = product(j, y);
  int64_t *at = ts_work_take((j->steps + 1) * 8);
  char *columns = ts_work_take(j->steps * j->taps * j->size + 64), *to = ts_tensor_write(y);
  const char *left = g.a;
  int failed = !to ? -1 : !at || !columns ? no_memory(j) : 0;
  if (!failed) list_positions(j, 0, j->steps, at);
  for (int64_t i = 0; i < j->c.groups && !failed && !ts_cpu_interrupted(); i++) {
    j->k->conv.panel[j->size == 8 ? 1 : 2](columns, j->taps, j->image + i * j->c.cg * j->size,
                                           at, j->steps, j->tap, j->taps);
    g.a = left + i * j->c.og * j->size, g.b = columns, g.b_rs = j->taps, g.b_cs = 1;
    g.c = to + i * j->c.og * j->taps * j->size;
    failed = ts_gemm(&g, &j->k->gemm) ? no_memory(j) : 0;
  }
  ts_work_give(at), ts_work_give(columns);
  return failed;
}

/* ---- depthwise, into y [window][channels] */
typedef struct Lanes {
  Job *j;
  char *y;
} Lanes;

/* Taps lo .. hi - 1; the sums of a stretch of positions stand in the first cache. */
static void lane_taps(void *arg, int64_t lo, int64_t hi, int worker) {
  const Lanes *l = arg;
  const Job *j = l->j;
  int64_t at[TOGETHER], row = j->channels * j->size;
  const char *g = ts_tensor_read(j->g);
  char *y = l->y + lo * row;
  (void)worker;
  memset(y, 0, (size_t)((hi - lo) * row));
  for (int64_t p = 0; p < j->steps && !ts_cpu_interrupted(); p += TOGETHER) {
    int64_t n = j->steps - p < TOGETHER ? j->steps - p : TOGETHER;
    list_positions(j, p, n, at);
    j->k->conv.lane_sums[j->size == 8](y, j->channels, j->image, at, g + p * row, n,
                                       j->tap + lo, hi - lo);
  }
}

static int depthwise(Job *j, TsTensor *y) {
  Lanes l = {j, ts_tensor_write(y)};
  if (!l.y) return -1;
  ts_cpu_parallel(j->taps, (1 << 18) / (j->steps * j->channels + 1) + 1, lane_taps, &l);
  return 0;
}

/* ---- results */
/* A tensor for [channels out][window][channels], or depthwise [window][channels out]. */
static TsTensor *ordered(const Job *j, bool lanes) {
  TsMeta m = j->call->out[0]->meta;
  int nd = j->c.nd, at = 0;
  if (lanes) m.dtype = (uint8_t)j->c.acc;
  if (!lanes) m.dim[at++] = j->channels / j->c.cg * j->c.og;
  for (int i = 0; i < nd; i++) m.dim[at++] = j->c.window[3 - nd + i];
  m.dim[at++] = lanes ? j->channels : j->c.cg;
  m.ndim = (uint8_t)at;
  return ts_tensor_new(j->call->ctx, &m);
}

/* From there to the result's order. */
static int put(const Job *j, TsTensor *t, bool lanes) {
  TsTensor *y = j->call->out[0];
  TsMeta m = y->meta;
  int64_t stride[TS_MAX_RANK];
  int nd = j->c.nd, channel = j->last ? nd + 1 : 1, space = j->last ? 1 : 2;
  m.dtype = t->meta.dtype;
  stride[0] = t->stride[lanes ? nd : 0], stride[channel] = 1;
  for (int i = 0; i < nd; i++) stride[space + i] = t->stride[i + (lanes ? 0 : 1)];
  TsTensor *view = ts_tensor_view(t, &m, stride, t->offset);
  int failed = !view || ts_vm_assign(j->call->ctx, y, view);
  ts_tensor_unref(view);
  return failed ? -1 : 0;
}

static void read_geometry(Job *j) {
  const TsAttr *a = j->call->attr;
  const TsMeta *x = &j->call->in[0]->meta, *g = &j->call->in[1]->meta;
  TsConv *c = &j->c;
  int nd = x->ndim - 2, space = j->last ? 1 : 2, channel = j->last ? nd + 1 : 1;
  j->channels = x->dim[channel];
  c->nd = nd, c->batch = x->dim[0], c->groups = a[GROUPS].i;
  c->cg = j->channels / c->groups, c->og = g->dim[channel] / c->groups;
  ts_window_list(&a[WINDOW], nd, 1, c->window);
  ts_window_list(&a[STRIDE], nd, 1, c->stride);
  ts_window_list(&a[PADDING], nd, 0, c->before);
  ts_window_list(&a[DILATION], nd, 1, c->dilation);
  j->taps = c->cg, j->positions = 1;
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    c->in[i] = at < 0 ? 1 : x->dim[space + at];
    c->out[i] = at < 0 ? 1 : g->dim[space + at];
    j->taps *= c->window[i], j->positions *= c->out[i];
  }
  j->steps = c->batch * j->positions;
}

int ts_exec_conv_weight_grad(TsCall *call) {
  Job j = {.call = call, .k = call->ctx->k, .last = call->attr[LAYOUT].i == 1};
  TsTensor *y = call->out[0];
  TsDtype d = call->compute;
  j.c.acc = ts_dtype_is(d, TS_KIND_C) ? d : (TsDtype)ts_dtypes[d].accum;
  j.size = ts_dtypes[j.c.acc].nbytes;
  if (ts_tensor_numel(y) == 0) return 0;
  read_geometry(&j);
  if (j.steps == 0) {
    void *at = ts_tensor_write(y);
    if (at) memset(at, 0, (size_t)ts_meta_nbytes(&y->meta));
    return at ? 0 : -1;
  }
  bool complex = ts_dtype_is(d, TS_KIND_C), lanes = j.c.cg == 1 && j.c.og == 1 && !complex;
  bool direct = j.last && !lanes;
  TsTensor *t = direct ? ts_tensor_ref(y) : ordered(&j, lanes);
  j.planes_g = !j.last && !lanes && !complex;
  j.planes_x = j.planes_g && !has_window(&j.c);
  int failed = !t || ready(&j) || list_taps(&j);
  if (!failed)
    failed = lanes ? depthwise(&j, t) : complex ? complex_product(&j, t) : multiply(&j, t);
  if (!failed && !direct) failed = put(&j, t, lanes);
  ts_work_give(j.tap);
  ts_tensor_unref(t);
  ts_tensor_unref(j.x);
  ts_tensor_unref(j.g);
  return failed ? -1 : 0;
}
