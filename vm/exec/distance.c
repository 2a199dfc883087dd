/* cdist of calls that run at once, of order 2: the definition (ir/compose/product.c) without the
 * tensor of all differences. Points of y are packed in panels, a lane for each; each point of x
 * then goes through them. Sums that are not finite are made once more of small differences, as
 * those of norms are (vm/exec/reduce.c). */
#include <math.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/rows/reduce.h"

enum {
  PANEL = TS_DISTANCE_PANEL,
  GRAIN = 1 << 16 /* numbers that one thread takes at least */
};

typedef struct Job {
  const TsKernels *k;
  int64_t d, n, m, panels; /* numbers of a point; points of x and of y in one batch entry */
  int64_t size;
  bool wide;
  const char *x, *y;
  char *panel, *to;
} Job;

/* Two tensors of points of one type, the same batch before them. */
bool ts_fits_cdist(TsCall *call, TsMeta *out) {
  const TsMeta *x = &call->in[0]->meta, *y = &call->in[1]->meta;
  int nd = x->ndim;
  if (call->attr[0].f != 2 || nd < 2 || y->ndim != nd || x->dtype != y->dtype) return false;
  if (x->dtype != TS_DT_f32 && x->dtype != TS_DT_f64) return false;
  for (int i = 0; i < nd; i++)
    if (x->dim[i] < 1 || (i != nd - 2 && x->dim[i] != y->dim[i])) return false;
  if (y->dim[nd - 2] < 1 || x->dim[nd - 1] > TS_DISTANCE_LEAF) return false;
  call->compute = (TsDtype)x->dtype;
  call->nout = 1;
  out[0] = *x;
  out[0].dim[nd - 1] = y->dim[nd - 2];
  return !ts_meta_check_size(&out[0], "cdist", &call->ctx->err);
}

static void pack(const Job *j, const char *y) {
  int64_t row = j->d * j->size;
  for (int64_t p = 0; p < j->panels; p++) {
    int64_t n = j->m - p * PANEL < PANEL ? j->m - p * PANEL : PANEL;
    char *to = j->panel + p * PANEL * row;
    if (n < PANEL) memset(to, 0, (size_t)(PANEL * row));
    j->k->copy.transpose(j->d, n, to, PANEL * j->size, y + p * PANEL * row, row, (int)j->size,
                         0);
  }
}

/* Once more, where what is there is not finite. */
static void again(const Job *j, void *at, const char *x, const char *panel) {
  double small[PANEL], scale = ts_reduce_small(j->wide ? TS_DT_f64 : TS_DT_f32);
  j->k->distance.from[j->wide](j->d, small, x, panel, scale);
  for (int i = 0; i < PANEL; i++) {
    double *y = at;
    float *z = at;
    if (j->wide && !isfinite(y[i])) y[i] = small[i] * (1 / scale);
    if (!j->wide && !isfinite(z[i])) z[i] = ((float *)small)[i] * (float)(1 / scale);
  }
}

/* Points lo .. hi - 1 of x. */
static void distances(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t row = j->d * j->size;
  (void)worker;
  for (int64_t p = 0; p < j->panels && !ts_cpu_interrupted(); p++) {
    int64_t n = j->m - p * PANEL < PANEL ? j->m - p * PANEL : PANEL;
    const char *panel = j->panel + p * PANEL * row;
    for (int64_t i = lo; i < hi; i++) {
      double sums[PANEL];
      if (!j->k->distance.from[j->wide](j->d, sums, j->x + i * row, panel, 1))
        again(j, sums, j->x + i * row, panel);
      memcpy(j->to + (i * j->m + p * PANEL) * j->size, sums, (size_t)(n * j->size));
    }
  }
}

static int run(Job *j, int64_t batch) {
  int64_t row = j->d * j->size;
  for (int64_t b = 0; b < batch; b++) {
    pack(j, j->y);
    ts_cpu_parallel(j->n, GRAIN / (j->d * j->m) + 1, distances, j);
    j->x += j->n * row, j->y += j->m * row, j->to += j->n * j->m * j->size;
  }
  return 0;
}

int ts_exec_cdist(TsCall *call) {
  const TsMeta *x = &call->in[0]->meta;
  int nd = x->ndim;
  Job j = {.k = call->ctx->k, .d = x->dim[nd - 1], .n = x->dim[nd - 2]};
  j.wide = x->dtype == TS_DT_f64, j.size = j.wide ? 8 : 4;
  j.m = call->in[1]->meta.dim[nd - 2], j.panels = (j.m + PANEL - 1) / PANEL;
  TsTensor *in[2] = {ts_tensor_contiguous(call->ctx, call->in[0]), NULL};
  if (in[0]) in[1] = ts_tensor_contiguous(call->ctx, call->in[1]);
  int failed = !in[1] || !(j.x = ts_tensor_read(in[0])) || !(j.y = ts_tensor_read(in[1])) ||
               !(j.to = ts_tensor_write(call->out[0]));
  if (!failed && !(j.panel = ts_work_take(j.panels * PANEL * j.d * j.size + 64)))
    failed = ts_scratch_failed(call);
  if (!failed) failed = run(&j, ts_tensor_numel(in[0]) / (j.n * j.d));
  ts_work_give(j.panel);
  ts_tensor_unref(in[0]);
  ts_tensor_unref(in[1]);
  return failed ? -1 : 0;
}
