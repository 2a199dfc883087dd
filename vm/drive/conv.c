/* Images of convolutions: padding and layout. */
#include "vm/drive/conv.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/scratch.h"

typedef struct Padding {
  const TsConv *c;
  const TsCopyKernels *copy;
  const char *from;
  char *to;
  int64_t xs_n, xs_c, xs[3]; /* of x, in bytes */
  int64_t size;              /* bytes of an element */
  int64_t full[3], row;      /* padded sizes, elements of a row in all its phases */
  int64_t stride, phase;
  bool used[64]; /* phases that any tap reads */
} Padding;

/* One row, in phases: phase f holds positions f, f + stride, ... of the padded row. */
static void pad_row(const Padding *p, const char *x, char *y) {
  int64_t n = p->c->in[2], before = p->c->before[2];
  if (!x) {
    memset(y, 0, (size_t)(p->row * p->size));
    return;
  }
  for (int64_t f = 0; f < p->stride; f++, y += p->phase * p->size) {
    if (p->stride <= 64 && !p->used[f]) continue;
    int64_t first = before <= f ? 0 : (before - f + p->stride - 1) / p->stride;
    int64_t from = first * p->stride + f - before;
    int64_t count = from < n ? (n - from + p->stride - 1) / p->stride : 0;
    if (count > p->phase - first) count = p->phase - first;
    if (count < 0) count = 0;
    memset(y, 0, (size_t)(first * p->size));
    p->copy->gather(count, y + first * p->size, x + from * p->xs[2], p->stride * p->xs[2],
                    (int)p->size);
    memset(y + (first + count) * p->size, 0, (size_t)((p->phase - first - count) * p->size));
  }
}

/* Rows of neighbours into zeros. */
static void pad_plain(const Padding *p, const char *x, char *y) {
  const TsConv *c = p->c;
  int64_t row = p->row * p->size, bytes = c->in[2] * p->size;
  memset(y, 0, (size_t)(p->full[0] * p->full[1] * row));
  y += c->before[2] * p->size;
  for (int64_t d = 0; d < c->in[0]; d++)
    for (int64_t h = 0; h < c->in[1]; h++)
      memcpy(y + ((d + c->before[0]) * p->full[1] + h + c->before[1]) * row,
             x + d * p->xs[0] + h * p->xs[1], (size_t)bytes);
}

static void pad_planes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Padding *p = arg;
  const TsConv *c = p->c;
  int64_t channels = c->groups * c->cg, rows = p->full[0] * p->full[1];
  (void)worker;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    const char *x = p->from + i / channels * p->xs_n + i % channels * p->xs_c;
    char *y = p->to + i * rows * p->row * p->size;
    if (p->stride == 1 && p->xs[2] == p->size) {
      pad_plain(p, x, y);
      continue;
    }
    for (int64_t r = 0; r < rows; r++, y += p->row * p->size) {
      int64_t d = r / p->full[1] - c->before[0], h = r % p->full[1] - c->before[1];
      bool inside = d >= 0 && d < c->in[0] && h >= 0 && h < c->in[1];
      pad_row(p, inside ? x + d * p->xs[0] + h * p->xs[1] : NULL, y);
    }
  }
}

static void find_strides(const TsTensor *x, int channel, int space, int nd, int64_t size,
                         Padding *p) {
  p->xs_n = x->stride[0] * size, p->xs_c = x->stride[channel] * size;
  for (int i = 0; i < 3; i++)
    p->xs[i] = i < 3 - nd ? 0 : x->stride[space + i - (3 - nd)] * size;
}

static bool fits_as_it_is(const TsConv *c, const Padding *p) {
  for (int i = 0; i < 3; i++)
    if (c->before[i] || c->after[i]) return false;
  return p->stride == 1 && (p->xs[2] == p->size || c->in[2] <= 1);
}

/* The sizes may be beyond any memory, as a window of two may be dilated without end. */
static bool is_absurd(const TsConv *c, const Padding *p) {
  double n = (double)c->batch * (double)(c->groups * c->cg) * (double)p->size;
  for (int i = 0; i < 3; i++) n *= (double)(p->full[i] + p->stride);
  return n > 0x1p60;
}

int ts_conv_image(TsCall *call, const TsConv *c, TsTensor *x, int channel, int space,
                  bool phases, TsConvImage *m) {
  Padding p = {.c = c, .copy = &call->ctx->k->copy, .size = ts_dtypes[c->acc].nbytes};
  int64_t channels = c->groups * c->cg;
  p.from = ts_tensor_read(x);
  if (!p.from) return -1;
  find_strides(x, channel, space, c->nd, p.size, &p);
  p.stride = phases ? c->stride[2] : 1;
  *m = (TsConvImage){.at = p.from, .stride = p.stride};
  if (fits_as_it_is(c, &p)) {
    m->step_n = p.xs_n / p.size, m->step_c = p.xs_c / p.size;
    m->step[0] = p.xs[0] / p.size, m->step[1] = p.xs[1] / p.size;
    return 0;
  }
  for (int i = 0; i < 3; i++) p.full[i] = c->before[i] + c->in[i] + c->after[i];
  if (is_absurd(c, &p)) return ts_scratch_failed(call);
  for (int64_t k = 0; phases && k < c->window[2]; k++)
    if (p.stride <= 64) p.used[k * c->dilation[2] % p.stride] = true;
  if (!phases) p.used[0] = true;
  p.phase = (p.full[2] + p.stride - 1) / p.stride;
  p.row = p.phase * p.stride;
  m->phase = p.phase, m->step[1] = p.row, m->step[0] = p.row * p.full[1];
  m->step_c = m->step[0] * p.full[0], m->step_n = m->step_c * channels;
  p.to = m->own = ts_work_take(m->step_n * c->batch * p.size + 64);
  m->at = p.to;
  if (!p.to) return ts_scratch_failed(call);
  ts_cpu_parallel(c->batch * channels, (1 << 15) / (m->step_c + 1) + 1, pad_planes, &p);
  return 0;
}

int64_t ts_conv_offset(const TsConvImage *m, int64_t channel, const int64_t pos[3]) {
  return channel * m->step_c + pos[0] * m->step[0] + pos[1] * m->step[1] +
         pos[2] % m->stride * m->phase + pos[2] / m->stride;
}

void ts_conv_positions(const TsConvImage *m, const int64_t size[3], const int64_t step[2],
                       int64_t p, int64_t n, int64_t *at) {
  int64_t w = p % size[2], h = p / size[2] % size[1], d = p / size[2] / size[1];
  for (int64_t i = 0; i < n;) {
    int64_t row = d * step[0] * m->step[0] + h * step[1] * m->step[1];
    for (; i < n && w < size[2]; w++) at[i++] = row + w;
    w = 0;
    if (++h == size[1]) h = 0, d++;
  }
}

void ts_conv_joined(const TsConvImage *m, const int64_t size[3], const int64_t step[2],
                    int64_t p, int64_t n, int64_t *at) {
  int64_t whole = size[0] * size[1] * size[2];
  for (int64_t done = 0, part; done < n; done += part) {
    int64_t image = (p + done) / whole, first = (p + done) % whole;
    part = whole - first < n - done ? whole - first : n - done;
    ts_conv_positions(m, size, step, first, part, at + done);
    for (int64_t i = 0; i < part; i++) at[done + i] += image * m->step_n;
  }
}

typedef struct Apart {
  int64_t images, channels, nbytes;
  char *to;
  const char *from;
} Apart;

static void take_apart(void *arg, int64_t lo, int64_t hi, int worker) {
  const Apart *a = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++)
    for (int64_t c = 0; c < a->channels; c++)
      memcpy(a->to + (i * a->channels + c) * a->nbytes,
             a->from + (c * a->images + i) * a->nbytes, (size_t)a->nbytes);
}

void ts_conv_apart(int64_t images, int64_t channels, int64_t nbytes, char *to,
                   const char *from) {
  Apart a = {images, channels, nbytes, to, from};
  ts_cpu_parallel(images, (1 << 17) / (channels * nbytes + 1) + 1, take_apart, &a);
}

void ts_conv_plane(const TsKernels *k, int64_t size, char *y, int64_t rows, int64_t n,
                   const char *x, int64_t x_step, const char *w, const int64_t *tap,
                   int64_t ntap) {
  enum { WORK = 1 << 26, VECTORS = 64 };
  int64_t most = WORK / (ntap + 1) + 1, part = n <= most ? n : (most / VECTORS + 1) * VECTORS;
  int64_t together = most / (n + 1) + 1;
  for (int64_t r = 0; r < rows; r += together) {
    int64_t m = rows - r < together ? rows - r : together;
    for (int64_t i = 0; i < n && !ts_cpu_interrupted(); i += part)
      k->conv.plane[size == 8](y + (r * n + i) * size, n, m, n - i < part ? n - i : part,
                               x + (r * x_step + i) * size, x_step, w, tap, ntap);
  }
}
