/* lstm of calls that run at once: the definition's steps (ir/compose/nn.c) by the kernels of its
 * operators, over memory that stays. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/gemm/gemm.h"

enum { GRAIN = 1 << 12, STEPS = 512 };

typedef struct Job {
  const TsKernels *k;
  TsPointwiseFn *const *f;
  int64_t batch, n, size;
  const char *x;   /* of the step: [batch][4 n] */
  char *a, *c, *h; /* [batch][4 n]; the state [batch][n]; the step's result */
} Job;

bool ts_fits_lstm(TsCall *call, TsMeta *out) {
  const TsMeta *x = &call->in[0]->meta, *w = &call->in[1]->meta;
  if (x->ndim != 3 || w->ndim != 2 || w->dim[0] != 4 * w->dim[1] || x->dim[2] != w->dim[0])
    return false;
  if (x->dim[0] < 1 || x->dim[0] > STEPS || x->dim[1] < 1 || w->dim[1] < 1) return false;
  for (int i = 0; i < 4; i++) {
    const TsMeta *m = &call->in[i]->meta;
    if (m->dtype != x->dtype || (m->dtype != TS_DT_f32 && m->dtype != TS_DT_f64)) return false;
    if (i >= 2 && (m->ndim != 2 || m->dim[0] != x->dim[1] || m->dim[1] != w->dim[1]))
      return false;
  }
  call->compute = (TsDtype)x->dtype;
  call->nout = 3;
  out[0] = *x, out[0].dim[2] = w->dim[1];
  out[1] = out[2] = call->in[2]->meta;
  return true;
}

static void apply(const Job *j, int op, char *to, const void *x, const void *y, int64_t n) {
  const void *in[2] = {x, y};
  j->f[op](n, to, in, NULL, 0);
}

/* The gates of rows lo .. hi - 1, in place of their sums. */
static void gates(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t n = j->n, row = n * j->size;
  (void)worker;
  for (int64_t r = lo; r < hi; r++) {
    char *a = j->a + r * 4 * row, *i = a, *f = a + row, *g = f + row, *o = g + row;
    char *c = j->c + r * row, *h = j->h + r * row;
    apply(j, TS_PW_add, a, j->x + r * 4 * row, a, 4 * n);
    apply(j, TS_PW_sigmoid, a, a, NULL, 2 * n);
    apply(j, TS_PW_tanh, g, g, NULL, n);
    apply(j, TS_PW_sigmoid, o, o, NULL, n);
    apply(j, TS_PW_mul, c, f, c, n);
    apply(j, TS_PW_mul, i, i, g, n);
    apply(j, TS_PW_add, c, c, i, n);
    apply(j, TS_PW_tanh, g, c, NULL, n);
    apply(j, TS_PW_mul, h, o, g, n);
  }
}

static int walk(Job *j, TsCall *call, const char *x, const char *w, const char *h, char *y) {
  int64_t steps = call->in[0]->meta.dim[0], row = j->batch * j->n * j->size;
  TsGemmType type = ts_gemm_type(call->compute);
  TsGemm g = {.in = type,
              .out = type,
              .batch = 1,
              .m = j->batch,
              .n = 4 * j->n,
              .k = j->n,
              .a_rs = j->n,
              .a_cs = 1,
              .b = w,
              .b_rs = 1,
              .b_cs = j->n,
              .c = j->a,
              .c_rs = 4 * j->n,
              .c_cs = 1};
  for (int64_t i = 0; i < steps && !ts_cpu_interrupted(); i++) {
    int64_t t = call->attr[0].i ? steps - 1 - i : i;
    g.a = h;
    if (ts_gemm(&g, &j->k->gemm)) return ts_scratch_failed(call);
    j->x = x + t * 4 * row, j->h = y + t * row;
    ts_cpu_parallel(j->batch, GRAIN / j->n + 1, gates, j);
    h = j->h;
  }
  char *last = ts_tensor_write(call->out[1]);
  if (!last) return -1;
  memcpy(last, h, (size_t)row);
  return 0;
}

int ts_exec_lstm(TsCall *call) {
  const TsMeta *m = &call->in[2]->meta;
  Job j = {.k = call->ctx->k, .batch = m->dim[0], .n = m->dim[1]};
  j.size = ts_dtypes[m->dtype].nbytes;
  j.f = m->dtype == TS_DT_f64 ? j.k->pointwise.f64 : j.k->pointwise.f32;
  TsTensor *in[4] = {NULL};
  const char *at[4];
  int failed = 0;
  for (int i = 0; i < 4 && !failed; i++)
    failed = !(in[i] = ts_tensor_contiguous(call->ctx, call->in[i])) ||
             !(at[i] = ts_tensor_read(in[i]));
  char *y = failed ? NULL : ts_tensor_write(call->out[0]);
  if (!failed) failed = !y || !(j.c = ts_tensor_write(call->out[2]));
  if (!failed && !(j.a = ts_work_take(j.batch * 4 * j.n * j.size + 64)))
    failed = ts_scratch_failed(call);
  if (!failed) memcpy(j.c, at[3], (size_t)(j.batch * j.n * j.size));
  if (!failed) failed = walk(&j, call, at[0], at[1], at[2], y);
  ts_work_give(j.a);
  for (int i = 0; i < 4; i++) ts_tensor_unref(in[i]);
  return failed ? -1 : 0;
}
