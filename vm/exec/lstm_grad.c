/* lstm_grad: the steps of lstm backwards, by the kernels of the operators that the derivative of its
 * definition (ir/compose/nn.c) consists of, in their order: the bits are those of that derivative.
 *
 * The results of all steps are there, so the sums of all gates are one product, and the gates have
 * their place where the gradient of x will be. A step backwards leaves in it the gradients of the
 * sums, from which a product with the weights makes the gradient of the result before. The gradient of the
 * weights is the sum of a product for each step, the last step's first; strips of its rows stay in
 * the cache while all steps are added. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/recurrence.h"

enum {
  GRAIN = 1 << 18
}; /* multiply-adds of a strip of weights' gradients not worth a thread */

typedef struct Job {
  const TsKernels *k;
  TsPointwiseFn *const *f;
  TsGemmType type;
  int64_t steps, batch, n, size;
  bool reverse;
  const char *x, *w, *h, *c, *y; /* as of lstm */
  const char *gy, *gh, *gc;      /* or NULL */
  char *dx, *dw, *dh, *dc;
  char *cs, *tanhs, *temp; /* states behind each step and their tanh; [batch][4 n] */
  const TsPanels *panels;
  TsScratch strips;
} Job;

static int64_t place(const Job *j, int64_t i) { return j->reverse ? j->steps - 1 - i : i; }

/* Row r of step i: of what has `width` times n numbers a row. */
static int64_t at(const Job *j, int64_t i, int64_t r, int64_t width) {
  return (place(j, i) * j->batch + r) * width * j->n * j->size;
}

static const char *before(const Job *j, const char *first, const char *all, int64_t i,
                          int64_t r) {
  return i ? all + at(j, i - 1, r, 1) : first + r * j->n * j->size;
}

static void apply(const Job *j, int op, char *to, const void *x, const void *y, int64_t n) {
  const void *in[2] = {x, y};
  j->f[op](n, to, in, NULL, 0);
}

static const void *one(const Job *j) {
  static const float narrow = 1;
  static const double wide = 1;
  return j->size == 8 ? (const void *)&wide : (const void *)&narrow;
}

/* ---- the gates, and the states */
static int sums(const Job *j) {
  int64_t plane = j->batch * j->n * j->size, rest = j->steps - 1;
  TsGemm g = {.in = j->type,
              .out = j->type,
              .batch = 1,
              .m = j->batch,
              .n = 4 * j->n,
              .k = j->n,
              .a = j->h,
              .a_rs = j->n,
              .a_cs = 1,
              .b = j->w,
              .b_rs = 1,
              .b_cs = j->n,
              .c = j->dx + place(j, 0) * 4 * plane,
              .c_rs = 4 * j->n,
              .c_cs = 1};
  if (ts_gemm(&g, &j->k->gemm)) return -1;
  g.m = rest * j->batch;
  g.a = j->y + (j->reverse ? plane : 0);
  g.c = j->dx + (j->reverse ? 0 : 4 * plane);
  return rest && ts_gemm(&g, &j->k->gemm) ? -1 : 0;
}

static void gates(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t n = j->n, row = n * j->size;
  (void)worker;
  for (int64_t i = 0; i < j->steps && !ts_cpu_interrupted(); i++)
    for (int64_t r = lo; r < hi; r++) {
      char *a = j->dx + at(j, i, r, 4), *g = a + 2 * row, *c = j->cs + at(j, i, r, 1);
      char *fresh = j->temp + r * 4 * row;
      apply(j, TS_PW_add, a, j->x + at(j, i, r, 4), a, 4 * n);
      apply(j, TS_PW_sigmoid, a, a, NULL, 2 * n);
      apply(j, TS_PW_tanh, g, g, NULL, n);
      apply(j, TS_PW_sigmoid, g + row, g + row, NULL, n);
      apply(j, TS_PW_mul, c, a + row, before(j, j->c, j->cs, i, r), n);
      apply(j, TS_PW_mul, fresh, a, g, n);
      apply(j, TS_PW_add, c, c, fresh, n);
      apply(j, TS_PW_tanh, j->tanhs + at(j, i, r, 1), c, NULL, n);
    }
}

/* ---- backwards */
/* to: that times the slope of a sigmoid y; y is lost. */
static void by_sigmoid(const Job *j, char *to, char *y, char *temp, int64_t n) {
  const void *in[2] = {one(j), y};
  j->f[TS_PW_sub](n, temp, in, NULL, 1);
  apply(j, TS_PW_mul, y, y, temp, n);
  apply(j, TS_PW_mul, to, to, y, n);
}

/* to: that times the slope of a tanh y. */
static void by_tanh(const Job *j, char *to, const char *y, char *temp, int64_t n) {
  const void *in[3] = {y, temp, one(j)};
  apply(j, TS_PW_neg, temp, y, NULL, n);
  j->f[TS_PW_fma](n, temp, in, NULL, 4);
  apply(j, TS_PW_mul, to, to, temp, n);
}

/* The gradient of the step's result, which becomes that of its output gate's sum, and what of it
 * arrives at the state. */
static void of_result(const Job *j, int64_t i, int64_t r, char *o) {
  int64_t n = j->n, row = n * j->size;
  char *dh = j->dh + r * row, *dc = j->dc + r * row, *temp = j->temp + r * 4 * row;
  const char *tanh = j->tanhs + at(j, i, r, 1);
  bool last = i == j->steps - 1, arrives = !last || j->gc;
  if (last && j->gh) memcpy(dh, j->gh + r * row, (size_t)row);
  if (j->gy && last && !j->gh)
    memcpy(dh, j->gy + at(j, i, r, 1), (size_t)row);
  else if (j->gy)
    apply(j, TS_PW_add, dh, dh, j->gy + at(j, i, r, 1), n);
  if (last && j->gc) memcpy(dc, j->gc + r * row, (size_t)row);
  if (last && !j->gh && !j->gy) {
    memset(o, 0, (size_t)row);
    return;
  }
  char *of_state = temp, *of_gate = temp + row;
  apply(j, TS_PW_mul, of_state, dh, o, n);
  by_tanh(j, of_state, tanh, temp + 2 * row, n);
  if (arrives)
    apply(j, TS_PW_add, dc, dc, of_state, n);
  else
    memcpy(dc, of_state, (size_t)row);
  apply(j, TS_PW_mul, of_gate, dh, tanh, n);
  by_sigmoid(j, of_gate, o, temp + 2 * row, n);
  memcpy(o, of_gate, (size_t)row);
}

static void back(void *arg, int64_t step, int64_t lo, int64_t hi) {
  const Job *j = arg;
  int64_t n = j->n, row = n * j->size, i = j->steps - 1 - step;
  for (int64_t r = lo; r < hi; r++) {
    char *a = j->dx + at(j, i, r, 4), *f = a + row, *g = f + row;
    char *dc = j->dc + r * row, *temp = j->temp + r * 4 * row;
    of_result(j, i, r, g + row);
    /* Of the gates i and f, then of g; the state's before. */
    apply(j, TS_PW_mul, temp, dc, g, n);
    apply(j, TS_PW_mul, temp + row, dc, before(j, j->c, j->cs, i, r), n);
    apply(j, TS_PW_mul, temp + 2 * row, dc, a, n);
    apply(j, TS_PW_mul, dc, dc, f, n);
    by_tanh(j, temp + 2 * row, g, temp + 3 * row, n);
    memcpy(g, temp + 2 * row, (size_t)row);
    by_sigmoid(j, temp, a, temp + 2 * row, 2 * n);
    memcpy(a, temp, (size_t)(2 * row));
  }
}

/* The gradient of the result before. */
static void product(void *arg, int64_t step, int64_t lo, int64_t hi, int64_t from, int64_t to) {
  const Job *j = arg;
  const char *a = j->dx + at(j, j->steps - 1 - step, lo, 4);
  ts_panels_multiply(j->panels, hi - lo, a, 4 * j->n, j->dh + lo * j->n * j->size, j->n, from,
                     to);
}

/* ---- weights: strips of as many rows as a tile has */
static void strip(const Job *j, int64_t row, int rows, char *temp) {
  const TsGemmAcc *acc = j->panels->acc;
  int64_t n = j->n, nr = acc->nr;
  char *sum = j->dw + row * n * j->size;
  for (int64_t i = j->steps; i-- > 0 && !ts_cpu_interrupted();) {
    char *to = i == j->steps - 1 ? sum : temp;
    const char *h = before(j, j->h, j->y, i, 0), *a = j->dx + at(j, i, 0, 4) + row * j->size;
    for (int64_t col = 0; col < n; col += nr) {
      int cols = (int)(n - col < nr ? n - col : nr);
      acc->tile(rows, cols, j->batch, a, 1, 4 * n, h + col * j->size, n, to + col * j->size, n,
                false);
    }
    if (to == temp) apply(j, TS_PW_add, sum, sum, temp, rows * n);
  }
}

static void weights(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t mr = j->panels->acc->mr;
  for (int64_t s = lo; s < hi && !ts_cpu_interrupted(); s++) {
    int64_t rest = 4 * j->n - s * mr;
    strip(j, s * mr, (int)(rest < mr ? rest : mr), ts_scratch_part(&j->strips, worker));
  }
}

static void run(Job *j, TsPanels *w) {
  TsRecurrence r = {.steps = j->steps,
                    .batch = j->batch,
                    .w = *w,
                    .product = product,
                    .rows = back,
                    .arg = j,
                    .behind = true};
  int64_t mr = w->acc->mr, strips = (4 * j->n + mr - 1) / mr;
  j->panels = &r.w;
  ts_cpu_parallel(j->batch, GRAIN / (64 * j->n * j->steps) + 1, gates, j);
  ts_recurrence_run(&r);
  ts_cpu_parallel(strips, GRAIN / (mr * j->n * j->batch * j->steps + 1) + 1, weights, j);
}

/* The work memory in a row; its size where *mem is NULL. */
static void carve(Job *j, char **mem) {
  int64_t state = j->batch * j->n * j->size;
  j->cs = ts_scratch_carve(mem, j->steps * state);
  j->tanhs = ts_scratch_carve(mem, j->steps * state);
  j->temp = ts_scratch_carve(mem, 4 * state);
}

static int compute(TsCall *call, Job *j) {
  char *mem = NULL, *own;
  TsPanels w = {NULL};
  carve(j, &mem);
  if (!(own = mem = ts_work_take(mem - (char *)NULL))) return ts_scratch_failed(call);
  carve(j, &mem);
  int failed =
      sums(j) || ts_panels_open(&w, j->type, &j->k->gemm, 4 * j->n, j->n, j->w, j->n, 1);
  if (!failed) failed = ts_scratch_open(&j->strips, w.acc->mr * j->n * j->size);
  if (!failed) {
    run(j, &w);
    ts_scratch_close(&j->strips);
  }
  ts_panels_close(&w);
  ts_work_give(own);
  return failed ? ts_scratch_failed(call) : 0;
}

/* ---- the call */
static int clear(int n, TsTensor *const *out) {
  for (int i = 0; i < n; i++) {
    void *at = ts_tensor_write(out[i]);
    if (!at) return -1;
    memset(at, 0, (size_t)ts_meta_nbytes(&out[i]->meta));
  }
  return 0;
}

static int open(TsCall *call, Job *j, TsDtype d, TsTensor **in, TsTensor **out) {
  const char **from[8] = {&j->x, &j->w, &j->h, &j->c, &j->y, &j->gy, &j->gh, &j->gc};
  char **to[4] = {&j->dx, &j->dw, &j->dh, &j->dc};
  for (int i = 0; i < call->nin; i++) {
    if (!call->in[i]) continue;
    TsTensor *t = ts_tensor_cast(call->ctx, call->in[i], d);
    in[i] = t ? ts_tensor_contiguous(call->ctx, t) : NULL;
    ts_tensor_unref(t);
    if (!in[i] || !(*from[i] = ts_tensor_read(in[i]))) return -1;
  }
  for (int i = 0; i < 4; i++) {
    TsMeta m = call->out[i]->meta;
    bool same = m.dtype == d;
    m.dtype = (uint8_t)d;
    out[i] = same ? ts_tensor_ref(call->out[i]) : ts_tensor_new(call->ctx, &m);
    if (!out[i] || !(*to[i] = ts_tensor_write(out[i]))) return -1;
  }
  return 0;
}

int ts_exec_lstm_grad(TsCall *call) {
  TsContext *c = call->ctx;
  const TsMeta *m = &call->in[0]->meta;
  TsDtype d = (TsDtype)ts_dtypes[call->out[0]->meta.dtype].compute;
  Job j = {.k = c->k,
           .steps = m->dim[0],
           .batch = m->dim[1],
           .n = m->dim[2] / 4,
           .size = ts_dtypes[d].nbytes,
           .type = ts_gemm_type(d),
           .reverse = call->attr[0].i};
  TsTensor *in[8] = {NULL}, *out[4] = {NULL};
  j.f = d == TS_DT_f64 ? j.k->pointwise.f64 : j.k->pointwise.f32;
  int failed = open(call, &j, d, in, out);
  bool nothing = ts_meta_numel(m) == 0 || (!j.gy && !j.gh && !j.gc);
  if (!failed) failed = nothing ? clear(4, out) : compute(call, &j);
  for (int i = 0; i < 4 && !failed; i++)
    if (out[i] != call->out[i]) failed = ts_vm_assign(c, call->out[i], out[i]);
  for (int i = 0; i < 8; i++) ts_tensor_unref(in[i]);
  for (int i = 0; i < 4; i++) ts_tensor_unref(out[i]);
  return failed ? -1 : 0;
}
