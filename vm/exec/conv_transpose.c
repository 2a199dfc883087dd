/* conv_transpose, the adjoint of conv, in gathered form. The definition, for every
 * output element: one chain of fused multiply-adds from +0 over the channels of its
 * group and, within a channel, those positions k of the window in row-major order that
 * meet an input along every axis, that is, where q + padding - k * dilation is a
 * multiple of the stride for output position q. Inputs beyond the borders are zeros,
 * and they are elements of the chain. Then the bias, then one rounding.
 *
 * Outputs whose q leaves the same remainders by the stride, one phase, are met by the
 * same positions k, at inputs that step by one: each phase is a convolution of stride
 * one with fewer taps, a matrix product or direct sums as in vm/exec/conv.c. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/drive/conv.h"
#include "vm/drive/epilogue.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum {
  BLOCK = 16, /* output channels whose weights are turned together */
  SOON = 12,  /* channels whose weights are asked for ahead */
  LINE = 64,
  WOVEN = 4 /* most phases of a row that are put into it together */
};

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  TsConv c;
  TsTensor *x, *w, *bias; /* in the accumulate type; w row-major */
  TsConvImage image;
  char *y; /* [batch][channels][..] in the accumulate type */
  int64_t size, channels_out, padding[3];
  /* of a phase: */
  int64_t first[3], count[3], positions, taps;
  int64_t *tap, *at[2], step[2];
  int64_t used;                /* of the window's positions */
  bool in_place;               /* weights are packed where they lie, not turned before */
  char *weights, *sums, *part; /* sums: this phase's of part */
  int64_t woven, apart; /* phases whose outputs lie between each other's; bytes between */
  bool joined;          /* part is [channels][batch][..], the images' positions side by side */
} Job;

static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

static int no_memory(const Job *j) { return ts_scratch_failed(j->call); }

static void fill(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                 int64_t k0, int64_t nk) {
  const Job *j = arg;
  int64_t at[64], first = batch / j->c.groups * j->image.step_n +
                          batch % j->c.groups * j->c.cg * j->image.step_c;
  ts_conv_positions(&j->image, j->count, j->step, i0, n, at);
  j->k->conv.panel[j->size == 4 ? 0 : 1](dst, width, j->image.at + first * j->size, j->tap + k0,
                                         nk, at, n);
}

/* Weights of output channels i0 .. i0 + n - 1 of a group: of each channel a block of rows. */
static void fill_weights(void *arg, void *dst, int width, int64_t batch, int64_t i0, int64_t n,
                         int64_t k0, int64_t nk) {
  const Job *j = arg;
  const TsConv *c = &j->c;
  TsGemmPack *pack =
      j->size == 8 ? j->k->gemm.f64->pack_a[TS_GEMM_f64] : j->k->gemm.f32->pack_a[TS_GEMM_f32];
  int64_t window = c->window[0] * c->window[1] * c->window[2], used = j->used;
  int64_t first = batch % c->groups * c->cg;
  const char *w = ts_tensor_read(j->w);
  for (int64_t k = k0, m; k < k0 + nk; k += m) {
    int64_t t = k % used, at = ((first + k / used) * c->og + i0) * window + j->at[0][0] + t;
    m = used - t < k0 + nk - k ? used - t : k0 + nk - k;
    const char *soon = w + (at + SOON * c->og * window) * j->size;
    for (int64_t b = 0; b < n * window * j->size && k + SOON * used < k0 + nk; b += LINE)
      __builtin_prefetch(soon + b);
    pack((char *)dst + (k - k0) * width * j->size, width, w + at * j->size, window, 1, n, m);
  }
}

static void finish(void *arg, void *acc, int64_t batch, int64_t row, int64_t col, int64_t n) {
  const Job *j = arg;
  int64_t o = batch % j->c.groups * j->c.og + row;
  (void)col;
  ts_epilogue_add(j->k, j->c.acc, acc, (const char *)ts_tensor_read(j->bias) + o * j->size,
                  true, n);
}

static void fill_joined(void *arg, void *dst, int width, int64_t group, int64_t i0, int64_t n,
                        int64_t k0, int64_t nk) {
  const Job *j = arg;
  int64_t at[64];
  ts_conv_joined(&j->image, j->count, j->step, i0, n, at);
  j->k->conv.panel[j->size == 4 ? 0 : 1](
      dst, width, j->image.at + group * j->c.cg * j->image.step_c * j->size, j->tap + k0, nk,
      at, n);
}

/* ---- weights: [in channel][out channel of the group][window] to
 * [out channel][in channel][taps] */
typedef struct Turn {
  const Job *j;
  const char *from;
  int64_t window, used;
} Turn;

/* Copies of elements of 4, 8 and 16 bytes, most often nine of them. */
#define TURN(name, T)                                                                          \
  static void name(const Turn *t, int64_t o, int64_t channels) {                               \
    const Job *j = t->j;                                                                       \
    const int64_t cg = j->c.cg, og = j->c.og, *kept = j->at[0];                                \
    const int64_t used = t->used, window = t->window;                                          \
    for (int64_t i = o, n; i < o + channels; i += n) {                                         \
      int64_t own = i % og; /* those of one group */                                           \
      n = og - own < o + channels - i ? og - own : o + channels - i;                           \
      const T *from = (const T *)(const void *)t->from + (i / og * cg * og + own) * window;    \
      T *to = (T *)(void *)j->weights + i * cg * used;                                         \
      for (int64_t c = 0; c < cg; c++, from += og * window, to += used)                        \
        for (int64_t r = 0; r < n; r++)                                                        \
          for (int64_t k = 0; k < used; k++)                                                   \
            to[r * cg * used + k] = from[r * window + kept[k]];                                \
    }                                                                                          \
  }

typedef struct Pair {
  uint64_t part[2];
} Pair;

TURN(turn_4, uint32_t)
TURN(turn_8, uint64_t)
TURN(turn_16, Pair)

/* Items are blocks of output channels: of an input channel theirs lie side by side. */
static void turn_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Turn *t = arg;
  (void)worker;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    int64_t o = i * BLOCK, n = t->j->channels_out - o < BLOCK ? t->j->channels_out - o : BLOCK;
    (t->j->size == 4 ? turn_4 : t->j->size == 8 ? turn_8 : turn_16)(t, o, n);
  }
}

/* Positions that lie side by side in the window, as all of them at stride one, need not be turned:
 * of a product for all images each weight is packed once. (Turning 9 MB for 8 images of 2 x 2 took
 * more than half of the time.) */
static bool packs_in_place(const Job *j) {
  const TsConv *c = &j->c;
  const int64_t *kept = j->at[0];
  if (ts_dtype_is(c->acc, TS_KIND_C) || c->og <= TS_CONV_FEW_CHANNELS) return false;
  return (j->joined || c->batch == 1) && j->used > 1 &&
         kept[j->used - 1] - kept[0] == j->used - 1;
}

/* Taps of the phase: offsets in the padded image and the weights that go with them,
 * [out channel][channel, position] for each group. */
static void list_taps(Job *j) {
  const TsConv *c = &j->c;
  const char *w = ts_tensor_read(j->w);
  int64_t window = c->window[0] * c->window[1] * c->window[2], used = 0;
  int64_t *kept = j->at[0], *base = j->at[1]; /* scratch of `window` numbers each */
  for (int64_t k = 0; k < window; k++) {
    int64_t pos[3], r = k;
    bool meets = true;
    for (int a = 2; a >= 0; a--) {
      int64_t reach = j->first[a] + j->padding[a] - r % c->window[a] * c->dilation[a];
      r /= c->window[a];
      meets = meets && reach - floor_div(reach, c->stride[a]) * c->stride[a] == 0;
      pos[a] = floor_div(reach, c->stride[a]) + c->before[a];
    }
    if (!meets) continue;
    kept[used] = k;
    base[used++] = ts_conv_offset(&j->image, 0, pos);
  }
  j->taps = used * c->cg;
  for (int64_t i = 0; i < j->taps; i++) j->tap[i] = i / used * j->image.step_c + base[i % used];
  j->used = used, j->in_place = packs_in_place(j);
  if (j->in_place) return;
  Turn t = {j, w, window, used};
  ts_cpu_parallel((j->channels_out + BLOCK - 1) / BLOCK, (1 << 13) / (j->taps + 1) + 1,
                  turn_blocks, &t);
}

/* A window of one element at stride one: the image itself is the right operand. */
static bool is_product(const Job *j) {
  const TsConv *c = &j->c;
  for (int i = 0; i < 3; i++)
    if (c->window[i] != 1 || c->stride[i] != 1 || j->padding[i] || c->in[i] != c->out[i])
      return false;
  return true;
}

static int multiply(Job *j) {
  const TsConv *c = &j->c;
  TsGemmType type = ts_gemm_type(c->acc);
  int64_t columns = j->positions * (j->joined ? c->batch : 1);
  TsGemm g = {.in = type,
              .out = type,
              .batch = j->joined ? c->groups : c->batch * c->groups,
              .m = c->og,
              .n = columns,
              .k = j->taps,
              .a = j->weights,
              .a_rs = j->taps,
              .a_cs = 1,
              .c = j->sums,
              .c_rs = columns,
              .c_cs = 1,
              .fill_b = j->joined ? fill_joined : fill,
              .fill_b_arg = j};
  int64_t *at[3];
  int failed = 0;
  for (int i = 0; i < 3; i++)
    if (!(at[i] = ts_work_take((g.batch + 1) * 8))) failed = no_memory(j);
  for (int64_t i = 0; i < g.batch && !failed; i++) {
    at[0][i] = i % c->groups * c->og * j->taps;
    at[1][i] = i * c->og * columns;
    at[2][i] = i / c->groups * j->image.step_n + i % c->groups * c->cg * j->image.step_c;
  }
  if (!j->joined && is_product(j)) {
    g.fill_b = NULL;
    g.b = j->image.at, g.b_rs = j->image.step_c, g.b_cs = 1, g.b_batch = at[2];
  }
  g.a_batch = at[0], g.c_batch = at[1];
  if (j->in_place) g.fill_a = fill_weights, g.fill_a_arg = j;
  if (j->bias) g.finish = finish, g.finish_arg = j;
  if (!failed) failed = ts_gemm(&g, &j->k->gemm) ? no_memory(j) : 0;
  for (int i = 0; i < 3; i++) ts_work_give(at[i]);
  return failed;
}

/* Complex: the matrix of taps and positions is made, image by image. */
static int complex_product(Job *j) {
  const TsConv *c = &j->c;
  int64_t *at = ts_work_take((j->positions + 1) * 8);
  char *columns = ts_work_take(j->taps * j->positions * j->size + 64);
  int failed = !at || !columns ? no_memory(j) : 0;
  if (!failed) ts_conv_positions(&j->image, j->count, j->step, 0, j->positions, at);
  for (int64_t i = 0; i < c->batch * c->groups && !failed && !ts_cpu_interrupted(); i++) {
    int64_t first = i / c->groups * j->image.step_n + i % c->groups * c->cg * j->image.step_c;
    j->k->conv.panel[j->size == 8 ? 1 : 2](columns, j->positions, j->image.at + first * j->size,
                                           j->tap, j->taps, at, j->positions);
    TsGemm g = {.in = ts_gemm_type(c->acc),
                .out = ts_gemm_type(c->acc),
                .batch = 1,
                .m = c->og,
                .n = j->positions,
                .k = j->taps,
                .a_rs = j->taps,
                .a_cs = 1,
                .b = columns,
                .b_rs = j->positions,
                .b_cs = 1,
                .c_rs = j->positions,
                .c_cs = 1};
    g.a = j->weights + i % c->groups * c->og * j->taps * j->size;
    g.c = j->sums + i * c->og * j->positions * j->size;
    failed = ts_gemm(&g, &j->k->gemm) ? no_memory(j) : 0;
    for (int64_t o = 0; o < c->og && !failed && j->bias; o++)
      finish((void *)j, (char *)g.c + o * j->positions * j->size, i, o, 0, j->positions);
  }
  ts_work_give(at), ts_work_give(columns);
  return failed;
}

/* With few output channels in a group: rows of outputs are summed in registers. */
static void direct_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsConv *c = &j->c;
  int64_t rows = j->count[0] * j->count[1], width = j->count[2];
  (void)worker;
  for (int64_t i = lo, m; i < hi; i += m) {
    int64_t o = i / rows % j->channels_out, n = i / rows / j->channels_out, at;
    int64_t left = j->count[1] - i % j->count[1];
    m = left < hi - i ? left : hi - i;
    ts_conv_positions(&j->image, j->count, j->step, i % rows * width, 1, &at);
    at += n * j->image.step_n + o / c->og * c->cg * j->image.step_c;
    char *to = j->sums + i * width * j->size;
    ts_conv_plane(j->k, j->size, to, m, width, j->image.at + at * j->size,
                  j->step[1] * j->image.step[1], j->weights + o * j->taps * j->size, j->tap,
                  j->taps);
    if (j->bias) finish((void *)j, to, n * c->groups + o / c->og, o % c->og, 0, m * width);
  }
}

static int sum_up(Job *j) {
  const TsConv *c = &j->c;
  if (ts_dtype_is(c->acc, TS_KIND_C)) return complex_product(j);
  if (c->og > TS_CONV_FEW_CHANNELS) return multiply(j);
  int64_t rows = c->batch * j->channels_out * j->count[0] * j->count[1];
  ts_cpu_parallel(rows, (1 << 15) / (j->count[2] * j->taps + 1) + 1, direct_rows, j);
  return 0;
}

/* The phase's outputs to their places; of those phases that lie in the same rows together, if they
 * are woven. */
static void spread_plane(const Job *j, char *to, const char *from) {
  const TsConv *c = &j->c;
  const TsCopyKernels *copy = &j->k->copy;
  int64_t n = j->count[2], size = j->size;
  for (int64_t d = 0; d < j->count[0]; d++)
    for (int64_t h = 0; h < j->count[1]; h++, from += n * size) {
      int64_t row =
          (j->first[0] + d * c->stride[0]) * c->out[1] + j->first[1] + h * c->stride[1];
      char *at = to + row * c->out[2] * size;
      if (j->woven > 1)
        copy->weave(n, (int)j->woven, at, from, j->apart, (int)size);
      else
        copy->scatter(n, at + j->first[2] * size, c->stride[2] * size, from, (int)size);
    }
}

static void spread_planes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsConv *c = &j->c;
  int64_t plane = c->out[0] * c->out[1] * c->out[2];
  (void)worker;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    int64_t n = i / j->channels_out, o = i % j->channels_out;
    int64_t at = (j->joined ? o * c->batch + n : i) * j->positions;
    spread_plane(j, j->y + i * plane * j->size, j->part + at * j->size);
  }
}

/* Phases that have outputs: strides may be larger than the image. */
static int phases(Job *j) {
  const TsConv *c = &j->c;
  int64_t n = 1, each[3];
  for (int a = 0; a < 3; a++)
    n *= each[a] = c->stride[a] < c->out[a] ? c->stride[a] : c->out[a];
  for (int64_t i = 0; i < n; i++) {
    int64_t r = i;
    j->positions = 1;
    for (int a = 2; a >= 0; a--) {
      j->first[a] = r % each[a], r /= each[a];
      j->count[a] = (c->out[a] - j->first[a] + c->stride[a] - 1) / c->stride[a];
      j->positions *= j->count[a];
    }
    int64_t turn = i % j->woven;
    j->sums = j->part + turn * j->apart;
    list_taps(j);
    if (sum_up(j)) return -1;
    if (j->part != j->y && turn == j->woven - 1)
      ts_cpu_parallel(c->batch * j->channels_out, (1 << 15) / j->positions + 1, spread_planes,
                      j);
  }
  return 0;
}

static void read_geometry(Job *j) {
  const TsAttr *a = j->call->attr;
  const TsMeta *x = &j->call->in[0]->meta, *w = &j->call->in[1]->meta,
               *y = &j->call->out[0]->meta;
  TsConv *c = &j->c;
  c->nd = x->ndim - 2, c->batch = x->dim[0], c->groups = a[4].i;
  c->cg = x->dim[1] / c->groups, c->og = w->dim[1], j->channels_out = y->dim[1];
  ts_window_list(&a[0], c->nd, 1, c->stride);
  ts_window_list(&a[1], c->nd, 0, j->padding);
  ts_window_list(&a[3], c->nd, 1, c->dilation);
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - c->nd);
    c->in[i] = at < 0 ? 1 : x->dim[2 + at];
    c->window[i] = at < 0 ? 1 : w->dim[2 + at];
    c->out[i] = at < 0 ? 1 : y->dim[2 + at];
    /* The inputs that outputs 0 and out - 1 reach for. */
    int64_t low = floor_div(j->padding[i] - c->dilation[i] * (c->window[i] - 1), c->stride[i]);
    int64_t high = floor_div(c->out[i] - 1 + j->padding[i], c->stride[i]);
    c->before[i] = low < 0 ? -low : 0;
    c->after[i] = high > c->in[i] - 1 ? high - (c->in[i] - 1) : 0;
  }
  j->step[0] = j->step[1] = 1;
}

/* Scratch for the largest phase. */
static int take_memory(Job *j) {
  const TsConv *c = &j->c;
  int64_t window = c->window[0] * c->window[1] * c->window[2], most = 1;
  bool single = c->stride[0] * c->stride[1] * c->stride[2] == 1;
  for (int i = 0; i < 3; i++) most *= (c->out[i] + c->stride[i] - 1) / c->stride[i];
  j->tap = ts_work_take((window * c->cg + 1) * 8);
  for (int i = 0; i < 2; i++) j->at[i] = ts_work_take((window + 1) * 8);
  j->weights = ts_work_take(window * c->cg * j->channels_out * j->size + 64);
  /* Many weights are better packed once than results left where they are. */
  bool few = most <= TS_CONV_SMALL || most <= window * c->cg / 4;
  j->joined = c->batch > 1 && few && c->og > TS_CONV_FEW_CHANNELS &&
              !ts_dtype_is(c->acc, TS_KIND_C) && !is_product(j);
  j->apart = c->batch * j->channels_out * most * j->size;
  bool equal = c->out[2] % c->stride[2] == 0 && c->stride[2] <= WOVEN;
  j->woven = equal && j->size <= 8 ? c->stride[2] : 1;
  /* A single phase is the result. */
  j->part = single && !j->joined ? j->y : ts_work_take(j->woven * j->apart + 64);
  bool all = j->tap && j->at[0] && j->at[1] && j->weights && j->part;
  return all ? 0 : no_memory(j);
}

static int run(Job *j) {
  TsConv *c = &j->c;
  TsTensor *y = j->call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  int64_t n = ts_tensor_numel(y);
  char *to = ts_tensor_write(y);
  read_geometry(j);
  if (!to || ts_conv_image(j->call, c, j->x, 1, 2, false, &j->image)) return -1;
  j->y = d == c->acc ? to : ts_work_take(n * j->size + 64);
  int failed = !j->y ? no_memory(j) : take_memory(j) || phases(j);
  if (!failed && d != c->acc) j->k->convert.convert[c->acc][d](n, to, j->y);
  if (j->part != j->y) ts_work_give(j->part);
  if (j->y != to) ts_work_give(j->y);
  ts_work_give(j->tap), ts_work_give(j->at[0]), ts_work_give(j->at[1]),
      ts_work_give(j->weights);
  ts_work_give(j->image.own);
  return failed ? -1 : 0;
}

int ts_exec_conv_transpose(TsCall *call) {
  TsContext *ctx = call->ctx;
  Job j = {.call = call, .k = ctx->k};
  TsTensor *bias = call->nin > 2 ? call->in[2] : NULL;
  j.c.acc = ts_dtype_is(call->compute, TS_KIND_C) ? call->compute
                                                  : (TsDtype)ts_dtypes[call->compute].accum;
  j.size = ts_dtypes[j.c.acc].nbytes;
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  j.x = ts_tensor_cast(ctx, call->in[0], j.c.acc);
  j.w = j.x ? ts_tensor_cast(ctx, call->in[1], j.c.acc) : NULL;
  if (j.w && bias) j.bias = ts_tensor_cast(ctx, bias, j.c.acc);
  int failed = !j.w || (bias && !j.bias) || run(&j);
  ts_tensor_unref(j.x);
  ts_tensor_unref(j.w);
  ts_tensor_unref(j.bias);
  return failed ? -1 : 0;
}
