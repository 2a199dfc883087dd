/* lstm of calls that run at once: the definition's steps (ir/compose/nn.c) by the kernels of its
 * operators, over memory that stays. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/compose/compose.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/recurrence.h"

enum {
  GRAIN = 1 << 12,
  FEW = 4 /* steps: fewer are not worth packing the matrix */
};

typedef struct Job {
  const TsKernels *k;
  TsPointwiseFn *const *f;
  int64_t steps, batch, n, size;
  bool reverse;
  const char *x, *w, *first; /* [steps][batch][4 n], [4 n][n], [batch][n] */
  char *a, *c, *y;           /* of a step [batch][4 n]; the state; all results */
  const TsPanels *panels;
} Job;

bool ts_fits_lstm(TsCall *call, TsMeta *out) {
  const TsMeta *in[4];
  TsError unsaid = {0};
  for (int i = 0; i < 4; i++) in[i] = &call->in[i]->meta;
  for (int i = 0; i < 4; i++)
    if (in[i]->dtype != in[0]->dtype) return false;
  if (in[0]->dtype != TS_DT_f32 && in[0]->dtype != TS_DT_f64) return false;
  if (ts_lstm_check(in, &unsaid) || in[0]->dim[1] < 1 || in[1]->dim[1] < 1) return false;
  call->compute = (TsDtype)in[0]->dtype;
  call->nout = 3;
  out[0] = *in[0], out[0].dim[2] = in[1]->dim[1];
  out[1] = out[2] = *in[2];
  return true;
}

static void apply(const Job *j, int op, char *to, const void *x, const void *y, int64_t n) {
  const void *in[2] = {x, y};
  j->f[op](n, to, in, NULL, 0);
}

static int64_t place(const Job *j, int64_t i) { return j->reverse ? j->steps - 1 - i : i; }

/* The step's result, or before the first one what it begins with. */
static const char *result(const Job *j, int64_t i) {
  return i < 0 ? j->first : j->y + place(j, i) * j->batch * j->n * j->size;
}

/* The gates of rows lo .. hi - 1, in place of their sums. */
static void gates(void *arg, int64_t step, int64_t lo, int64_t hi) {
  const Job *j = arg;
  int64_t n = j->n, row = n * j->size, t = place(j, step);
  for (int64_t r = lo; r < hi; r++) {
    const char *x = j->x + (t * j->batch + r) * 4 * row;
    char *a = j->a + r * 4 * row, *i = a, *f = a + row, *g = f + row, *o = g + row;
    char *c = j->c + r * row, *h = j->y + (t * j->batch + r) * row;
    apply(j, TS_PW_add, a, x, a, 4 * n);
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

static void product(void *arg, int64_t i, int64_t lo, int64_t hi, int64_t from, int64_t to) {
  const Job *j = arg;
  int64_t row = j->n * j->size;
  ts_panels_multiply(j->panels, hi - lo, result(j, i - 1) + lo * row, j->n, j->a + lo * 4 * row,
                     4 * j->n, from, to);
}

typedef struct Step {
  Job *j;
  int64_t i;
} Step;

static void gates_of(void *arg, int64_t lo, int64_t hi, int worker) {
  const Step *s = arg;
  (void)worker;
  gates(s->j, s->i, lo, hi);
}

/* Where the matrix stays as it is. */
static int few_steps(Job *j, TsGemmType type) {
  TsGemm g = {.in = type,
              .out = type,
              .batch = 1,
              .m = j->batch,
              .n = 4 * j->n,
              .k = j->n,
              .a_rs = j->n,
              .a_cs = 1,
              .b = j->w,
              .b_rs = 1,
              .b_cs = j->n,
              .c = j->a,
              .c_rs = 4 * j->n,
              .c_cs = 1};
  for (Step s = {j, 0}; s.i < j->steps && !ts_cpu_interrupted(); s.i++) {
    g.a = result(j, s.i - 1);
    if (ts_gemm(&g, &j->k->gemm)) return -1;
    ts_cpu_parallel(j->batch, GRAIN / j->n + 1, gates_of, &s);
  }
  return 0;
}

static int walk(Job *j, TsGemmType type) {
  TsRecurrence r = {
      .steps = j->steps, .batch = j->batch, .product = product, .rows = gates, .arg = j};
  if (j->steps < FEW) return few_steps(j, type);
  if (ts_panels_open(&r.w, type, &j->k->gemm, j->n, 4 * j->n, j->w, 1, j->n)) return -1;
  j->panels = &r.w;
  ts_recurrence_run(&r);
  ts_panels_close(&r.w);
  return 0;
}

int ts_exec_lstm(TsCall *call) {
  const TsMeta *m = &call->in[2]->meta;
  Job j = {.k = call->ctx->k,
           .steps = call->in[0]->meta.dim[0],
           .batch = m->dim[0],
           .n = m->dim[1],
           .size = ts_dtypes[m->dtype].nbytes,
           .reverse = call->attr[0].i};
  int64_t nbytes = j.batch * j.n * j.size;
  j.f = m->dtype == TS_DT_f64 ? j.k->pointwise.f64 : j.k->pointwise.f32;
  TsTensor *in[4] = {NULL};
  const char *at[4];
  char *last = NULL;
  int failed = 0;
  for (int i = 0; i < 4 && !failed; i++)
    failed = !(in[i] = ts_tensor_contiguous(call->ctx, call->in[i])) ||
             !(at[i] = ts_tensor_read(in[i]));
  if (!failed)
    failed = !(j.y = ts_tensor_write(call->out[0])) ||
             !(last = ts_tensor_write(call->out[1])) || !(j.c = ts_tensor_write(call->out[2]));
  if (!failed && !(j.a = ts_work_take(4 * nbytes + 64))) failed = ts_scratch_failed(call);
  if (!failed) {
    j.x = at[0], j.w = at[1], j.first = at[2];
    memcpy(j.c, at[3], (size_t)nbytes);
    if (walk(&j, ts_gemm_type((TsDtype)m->dtype))) failed = ts_scratch_failed(call);
  }
  if (!failed) memcpy(last, result(&j, j.steps - 1), (size_t)nbytes);
  ts_work_give(j.a);
  for (int i = 0; i < 4; i++) ts_tensor_unref(in[i]);
  return failed ? -1 : 0;
}
