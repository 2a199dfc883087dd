/* cdist of calls that run at once, of order 2: the definition (ir/compose/product.c) without the
 * tensor of all differences. Points of y are packed in panels, a lane for each; the points of x
 * then go through them. Sums that are not finite are made once more of small differences, as
 * those of norms are (vm/exec/reduce.c). */
#include <math.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/rows/reduce.h"

enum {
  PANEL = TS_DISTANCE_PANEL,
  PART = 64,      /* points of x that the panels meet together */
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
  TsError unsaid = {0};
  return !ts_meta_check_size(&out[0], "cdist", &unsaid);
}

/* Panels lo .. hi - 1 of the batch entry. */
static void pack(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t row = j->d * j->size;
  (void)worker;
  for (int64_t p = lo; p < hi && !ts_cpu_interrupted(); p++) {
    int64_t n = j->m - p * PANEL < PANEL ? j->m - p * PANEL : PANEL;
    char *to = j->panel + p * PANEL * row;
    if (n < PANEL) memset(to, 0, (size_t)(PANEL * row));
    j->k->copy.transpose(j->d, n, to, PANEL * j->size, j->y + p * PANEL * row, row,
                         (int)j->size, 0);
  }
}

/* Once more, point by point, where what is there is not finite. */
static void again(const Job *j, TsDistances t) {
  double small[PANEL], scale = ts_reduce_small(j->wide ? TS_DT_f64 : TS_DT_f32);
  TsDistances one = t;
  one.points = 1, one.y = small, one.scale = scale;
  for (int64_t p = 0; p < t.points; p++) {
    double *y = (double *)t.y + p * t.y_row;
    float *z = (float *)t.y + p * t.y_row;
    one.x = (const char *)t.x + p * j->d * j->size;
    j->k->distance.from[j->wide](j->d, &one);
    for (int64_t i = 0; i < t.n; i++)
      if (j->wide && !isfinite(y[i]))
        y[i] = small[i] * (1 / scale);
      else if (!j->wide && !isfinite(z[i]))
        z[i] = ((float *)small)[i] * (float)(1 / scale);
  }
}

/* Points lo .. hi - 1 of x, in parts that stay in the caches while the panels pass. */
static void distances(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t row = j->d * j->size;
  (void)worker;
  for (int64_t i = lo; i < hi; i += PART) {
    for (int64_t p = 0; p < j->panels && !ts_cpu_interrupted(); p++) {
      TsDistances t = {.x = j->x + i * row, .panel = j->panel + p * PANEL * row, .scale = 1};
      t.y = j->to + (i * j->m + p * PANEL) * j->size, t.y_row = j->m;
      t.points = hi - i < PART ? hi - i : PART;
      t.n = j->m - p * PANEL < PANEL ? j->m - p * PANEL : PANEL;
      if (!j->k->distance.from[j->wide](j->d, &t)) again(j, t);
    }
  }
}

/* The job of batch entry b, with the panels of a worker. */
static Job entry(const Job *all, int64_t b, int worker) {
  Job j = *all;
  j.x += b * j.n * j.d * j.size, j.y += b * j.m * j.d * j.size, j.to += b * j.n * j.m * j.size;
  j.panel += worker * j.panels * PANEL * j.d * j.size;
  return j;
}

static void entries(void *arg, int64_t lo, int64_t hi, int worker) {
  for (int64_t b = lo; b < hi && !ts_cpu_interrupted(); b++) {
    Job j = entry(arg, b, worker);
    pack(&j, 0, j.panels, worker);
    distances(&j, 0, j.n, worker);
  }
}

/* Threads share out a long batch; else each of its entries. */
static void run(const Job *all, int64_t batch, int threads) {
  int64_t least = GRAIN / (all->d * all->m) + 1;
  if (threads > 1) return ts_cpu_parallel(batch, least / all->n + 1, entries, (void *)all);
  for (int64_t b = 0; b < batch && !ts_cpu_interrupted(); b++) {
    Job j = entry(all, b, 0);
    ts_cpu_parallel(j.panels, GRAIN / (PANEL * j.d) + 1, pack, &j);
    ts_cpu_parallel(j.n, least, distances, &j);
  }
}

int ts_exec_cdist(TsCall *call) {
  const TsMeta *x = &call->in[0]->meta;
  int nd = x->ndim;
  Job j = {.k = call->ctx->k, .d = x->dim[nd - 1], .n = x->dim[nd - 2]};
  j.wide = x->dtype == TS_DT_f64, j.size = j.wide ? 8 : 4;
  j.m = call->in[1]->meta.dim[nd - 2], j.panels = (j.m + PANEL - 1) / PANEL;
  int64_t batch = ts_meta_numel(x) / (j.n * j.d);
  int threads = batch >= ts_cpu_threads() ? ts_cpu_threads() : 1;
  TsTensor *in[2] = {ts_tensor_contiguous(call->ctx, call->in[0]), NULL};
  if (in[0]) in[1] = ts_tensor_contiguous(call->ctx, call->in[1]);
  int failed = !in[1] || !(j.x = ts_tensor_read(in[0])) || !(j.y = ts_tensor_read(in[1])) ||
               !(j.to = ts_tensor_write(call->out[0]));
  if (!failed && !(j.panel = ts_work_take(threads * j.panels * PANEL * j.d * j.size + 64)))
    failed = ts_scratch_failed(call);
  if (!failed) run(&j, batch, threads);
  ts_work_give(j.panel);
  ts_tensor_unref(in[0]);
  ts_tensor_unref(in[1]);
  return failed ? -1 : 0;
}
