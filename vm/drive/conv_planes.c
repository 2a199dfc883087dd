/* Planes of depthwise convolutions, one after another. Images of 7 x 7 take a tenth of a microsecond
 * each: what is done for a plane, such as dividing its number into image and channel, counts. */
#include "vm/drive/conv_planes.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/scratch.h"

enum {
  PLANE_BYTES = 16 << 10, /* of a padded plane */
  PLANE_WORK = 1 << 20,   /* multiply-adds of one, between looks for interrupts */
  GRAIN = 1 << 18
};

typedef struct Job {
  const TsConvPlanes *p;
  const char *x;
  int64_t size, taps, positions, step_n, step_c, step; /* of x, in bytes */
  int64_t row, padded;                                 /* elements of a padded row, of all */
  int64_t *tap;
  TsScratch scratch; /* the padded plane; sums, where there is no y */
} Job;

static int64_t padded_rows(const TsConv *c) { return c->before[1] + c->in[1] + c->after[1]; }
static int64_t padded_row(const TsConv *c) { return c->before[2] + c->in[2] + c->after[2]; }

bool ts_conv_planes_fit(const TsConv *c, const TsTensor *x) {
  if (c->cg != 1 || c->og != 1 || ts_dtype_is(c->acc, TS_KIND_C)) return false;
  if (c->in[0] != 1 || c->window[0] != 1 || c->before[0] || c->stride[2] != 1) return false;
  if (x->stride[x->meta.ndim - 1] != 1) return false;
  double bytes = (double)padded_rows(c) * (double)padded_row(c) * ts_dtypes[c->acc].nbytes;
  double work = (double)(c->out[1] * c->out[2]) * (double)(c->window[1] * c->window[2]);
  return bytes <= PLANE_BYTES && work <= PLANE_WORK;
}

static void planes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsConvPlanes *p = j->p;
  const TsConv *c = p->c;
  bool wide = j->size == 8, plain = j->padded == c->in[1] * c->in[2];
  char *mem = ts_scratch_part(&j->scratch, worker),
       *own = ts_scratch_carve(&mem, j->padded * j->size);
  char *inside = own + (c->before[1] * j->row + c->before[2]) * j->size, *sums = mem;
  int64_t image = lo / c->groups, channel = lo % c->groups;
  if (!plain) memset(own, 0, (size_t)(j->padded * j->size));
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    const char *x = j->x + image * j->step_n + channel * j->step_c;
    int64_t step = j->step / j->size;
    if (!plain) p->k->conv.lay[wide](inside, j->row, c->in[1], c->in[2], x, step);
    char *to = p->y ? p->y + i * j->positions * j->size : sums;
    p->k->conv.plane[wide](to, c->out[2], c->out[1], c->out[2], plain ? x : own,
                           c->stride[1] * (plain ? step : j->row),
                           p->w + channel * j->taps * j->size, j->tap, j->taps);
    if (p->finish) p->finish(p->arg, to, image, channel);
    if (++channel == c->groups) channel = 0, image++;
  }
}

int ts_conv_planes(const TsConvPlanes *p) {
  const TsConv *c = p->c;
  const TsTensor *x = p->x;
  int64_t size = ts_dtypes[c->acc].nbytes;
  Job j = {.p = p,
           .x = ts_tensor_read((TsTensor *)(uintptr_t)x),
           .size = size,
           .taps = c->window[1] * c->window[2],
           .positions = c->out[1] * c->out[2],
           .step_n = x->stride[0] * size,
           .step_c = x->stride[1] * size,
           .step = x->meta.ndim > 3 ? x->stride[x->meta.ndim - 2] * size : 0,
           .row = padded_row(c)};
  j.padded = j.row * padded_rows(c);
  bool plain = j.padded == c->in[1] * c->in[2];
  j.tap = ts_work_take((j.taps + 1) * 8);
  int failed =
      !j.x || !j.tap || ts_scratch_open(&j.scratch, (j.padded + j.positions) * size + 2 * 64);
  for (int64_t k = 0; k < j.taps && !failed; k++)
    j.tap[k] = k / c->window[2] * c->dilation[1] * (plain ? j.step / size : j.row) +
               k % c->window[2] * c->dilation[2];
  if (!failed) {
    ts_cpu_parallel(c->batch * c->groups, GRAIN / (j.positions * j.taps + 1) + 1, planes, &j);
    ts_scratch_close(&j.scratch);
  }
  ts_work_give(j.tap);
  return failed ? -1 : 0;
}
