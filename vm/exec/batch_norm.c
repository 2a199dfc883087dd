/* batch_norm of calls that run at once: the definition (ir/compose/nn.c) in one walk over x,
 * with its roundings: (x - mean) / sqrt(var + eps) * weight + bias, channels on axis 1. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum {
  X,
  MEAN,
  VAR,
  WEIGHT,
  BIAS,
  SHORT = 16,          /* rows of fewer positions are walked with their channels as one */
  GRAIN = 1 << 15,     /* elements that one thread takes at least */
  STREAM = 12 << 20,   /* bytes of a result that goes past the caches .. */
  STREAM_BLOCK = 1024, /* .. by so many elements at a time, if rows are not shorter */
};

typedef struct Job {
  const TsKernels *k;
  int64_t rows, n, channels; /* rows of n elements; rows of one image */
  int size;
  const char *x, *of[4]; /* mean, std, weight, bias; NULL where there is none */
  char *y;
  bool wide, columns, stream; /* columns: a row is an image */
} Job;

/* Plain operands of one type that the definition computes in. */
bool ts_fits_batch_norm(TsCall *call, TsMeta *out) {
  const TsMeta *x = &call->in[X]->meta;
  if (x->ndim < 2 || (x->dtype != TS_DT_f32 && x->dtype != TS_DT_f64)) return false;
  for (int i = MEAN; i < call->nin; i++) {
    const TsMeta *m = call->in[i] ? &call->in[i]->meta : NULL;
    if (m && (m->dtype != x->dtype || m->ndim != 1 || m->dim[0] != x->dim[1])) return false;
  }
  call->compute = (TsDtype)x->dtype;
  call->nout = 1;
  out[0] = *x;
  return true;
}

/* n elements of a row by numbers from `of`, by way of the first cache. */
static void stream_row(const Job *j, char *y, const char *x, const void **of) {
  const TsBatchNormKernels *k = &j->k->batch_norm;
  _Alignas(64) char block[STREAM_BLOCK * 8];
  for (int64_t i = 0; i < j->n; i += STREAM_BLOCK) {
    int64_t n = j->n - i < STREAM_BLOCK ? j->n - i : STREAM_BLOCK, at = i * j->size;
    if (j->columns)
      k->columns[j->wide](n, block, x + at, of);
    else
      k->rows[j->wide](1, n, block, x + at, of);
    j->k->copy.stream(n * j->size, y + at, block);
    for (int p = 0; p < 4 && j->columns; p++)
      if (of[p]) of[p] = (const char *)of[p] + n * j->size;
  }
}

static void norm_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const TsBatchNormKernels *k = &j->k->batch_norm;
  (void)worker;
  for (int64_t i = lo, n; i < hi; i += n) {
    int64_t channel = j->columns ? 0 : i % j->channels, at = i * j->n * j->size;
    const void *of[4];
    for (int p = 0; p < 4; p++) of[p] = j->of[p] ? j->of[p] + channel * j->size : NULL;
    n = j->columns || j->stream          ? 1
        : j->channels - channel < hi - i ? j->channels - channel
                                         : hi - i;
    if (j->stream)
      stream_row(j, j->y + at, j->x + at, of);
    else if (j->columns)
      k->columns[j->wide](j->n, j->y + at, j->x + at, of);
    else
      k->rows[j->wide](n, j->n, j->y + at, j->x + at, of);
  }
  if (j->stream) ts_copy_fence();
}

/* sqrt(var + eps), by the kernels of the operators. */
static void deviations(const Job *j, const void *var, double eps, void *std) {
  TsPointwiseFn *const *f = j->wide ? j->k->pointwise.f64 : j->k->pointwise.f32;
  float narrow = (float)eps;
  const void *in[2] = {var, j->wide ? (const void *)&eps : &narrow};
  f[TS_PW_add](j->channels, std, in, NULL, 2);
  in[0] = std;
  f[TS_PW_sqrt](j->channels, std, in, NULL, 0);
}

/* Each channel's numbers for all of its positions: few positions make short rows. */
static void spread(Job *j, char *to, int64_t space) {
  int64_t nbytes = j->channels * space * j->size;
  for (int p = 0; p < 4; p++) {
    if (!j->of[p]) continue;
    for (int64_t i = 0; i < j->channels * space; i++)
      memcpy(to + i * j->size, j->of[p] + i / space * j->size, (size_t)j->size);
    j->of[p] = to, to += nbytes;
  }
}

static int norm(Job *j, TsCall *call, TsTensor *const *in) {
  const TsMeta *m = &call->in[X]->meta;
  int64_t space = 1;
  for (int i = 2; i < m->ndim; i++) space *= m->dim[i];
  j->wide = m->dtype == TS_DT_f64, j->size = j->wide ? 8 : 4;
  j->channels = m->dim[1], j->columns = space < SHORT;
  j->rows = m->dim[0] * (j->columns ? 1 : j->channels);
  j->n = j->columns ? j->channels * space : space;
  j->stream = j->rows * j->n * j->size >= STREAM && j->n >= STREAM_BLOCK;
  int64_t numbers = j->channels * j->size * (1 + (j->columns && space > 1 ? 4 * space : 0));
  char *own = ts_work_take(numbers + 64);
  if (!own) return ts_scratch_failed(call);
  for (int i = 0; i < 4; i++) j->of[i] = in[MEAN + i] ? ts_tensor_read(in[MEAN + i]) : NULL;
  deviations(j, j->of[1], call->attr[0].f, own);
  j->of[1] = own;
  if (j->columns && space > 1) spread(j, own + j->channels * j->size, space);
  j->x = ts_tensor_read(in[X]), j->y = ts_tensor_write(call->out[0]);
  int failed = !j->x || !j->y;
  if (!failed) ts_cpu_parallel(j->rows, GRAIN / (j->n + 1) + 1, norm_rows, j);
  ts_work_give(own);
  return failed;
}

int ts_exec_batch_norm(TsCall *call) {
  TsTensor *in[5] = {NULL};
  int failed = 0;
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  for (int i = 0; i < call->nin && !failed; i++)
    if (call->in[i])
      failed =
          !(in[i] = ts_tensor_contiguous(call->ctx, call->in[i])) || !ts_tensor_read(in[i]);
  Job j = {.k = call->ctx->k};
  if (!failed) failed = norm(&j, call, in);
  for (int i = 0; i < 5; i++) ts_tensor_unref(in[i]);
  return failed ? -1 : 0;
}
