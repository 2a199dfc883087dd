/* The driver of the reductions: one or two passes over the array, each a loop over
 * (output, leaf) or (leaf, panel of columns) that the threads share. */
#include "vm/rows/reduce.h"

#include "devices/cpu_pool.h"
#include "vm/rows/reduce_plan.h"
#include "vm/core/scratch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  GRAIN = 1 << 16,
  PANEL_BYTES = 4096,
  CACHED = 1 << 17,
  FAR = 48 << 20 /* bytes that no cache holds */
};

typedef TsReducePlan Plan;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Elements of leaf j. */
static int64_t leaf_size(const Plan *p, int64_t j) {
  return min64(TS_RED_LEAF, p->n - j * TS_RED_LEAF);
}

/* Runs items of `work` elements each, here when there are few. */
static void spread(int64_t items, int64_t work, TsTask *task, void *arg) {
  if (items <= 1 || items * work <= 2 * GRAIN)
    task(arg, 0, items, 0);
  else
    ts_cpu_parallel(items, work >= GRAIN ? 1 : GRAIN / work, task, arg);
}

/* ---- one result from elements in a row */

/* `rows` outputs from o on, `count` elements each at x, ld apart, to dst. The map's
 * values are those of o, o+1, .. or (leaf) all that of o. */
static void call_rows(const Plan *p, const void *x, int64_t rows, int64_t ld, int64_t count,
                      int64_t o, bool leaf, void *dst) {
  bool far = p->outer * p->n * p->esize >= FAR;
  TsReduceRows a = {p->op, p->map, x, rows, ld, count, NULL, !leaf, p->p, dst, far};
  if (p->c) a.c = p->c + o * p->osize;
  p->k->rows[p->acc](&a);
}

/* Argmax of count elements, the first having index `first`, in row-wise storage. */
static void call_arg(const Plan *p, const char *x, int64_t count, int64_t first,
                     TsReduceArg *best) {
  p->k->arg_row[p->acc](p->op, x, count, first, best);
}

typedef struct Pass {
  const Plan *p;
  char *part; /* a result for each (output, leaf), or NULL: one leaf, straight to out */
  int64_t panel, panels;
} Pass;

static int part_size(const Plan *p) {
  return p->kind == TS_KIND_arg ? (int)sizeof(TsReduceArg) : p->osize;
}

static int64_t call_test(const Plan *p, const char *x, int64_t n) {
  int64_t c = p->k->count[p->dtype](x, n);
  return p->op == TS_RED_SUM ? c : p->op == TS_RED_MAX ? c > 0 : c == n;
}

/* Leaves j0 .. j1-1 of output o. */
static void leaves_of(const Plan *p, int64_t o, int64_t j0, int64_t j1, char *part) {
  char buf[TS_RED_LEAF * 16] __attribute__((aligned(64)));
  const char *x = p->x + ts_reduce_plan_offset(p, o) * p->esize;
  for (int64_t j = j0, k; j < j1; j += k) {
    int64_t first = j * TS_RED_LEAF, n = leaf_size(p, j);
    char *dst = part + (j - j0) * part_size(p);
    const char *src = x + first * p->esize;
    k = 1;
    if (p->path == TS_PATH_staged) ts_reduce_plan_stage(p, x, first, n, buf), src = buf;
    if (p->kind == TS_KIND_arg) {
      ((TsReduceArg *)(void *)dst)->index = -1;
      call_arg(p, src, n, first, (TsReduceArg *)(void *)dst);
    } else if (p->kind == TS_KIND_cprod) {
      p->k->cprod[p->acc](src, n, 1, dst);
    } else if (p->kind == TS_KIND_test) {
      int64_t c = call_test(p, src, n);
      memcpy(dst, &c, sizeof c);
    } else {
      if (p->path == TS_PATH_rows && n == TS_RED_LEAF) k = min64(j1, p->n / TS_RED_LEAF) - j;
      call_rows(p, src, k, TS_RED_LEAF, n, o, true, dst);
    }
  }
}

static void leaf_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Pass *pass = arg;
  const Plan *p = pass->p;
  (void)worker;
  while (lo < hi) {
    int64_t o = lo / p->leaves, j = lo % p->leaves, k = min64(hi - lo, p->leaves - j);
    leaves_of(p, o, j, j + k, pass->part + lo * part_size(p));
    lo += k;
  }
}

/* Outputs lo .. hi-1, each of one leaf. */
static void rows_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Plan *p = ((const Pass *)arg)->p;
  int64_t run = p->nouter ? p->odim[p->nouter - 1] : 1;
  int64_t ld = p->nouter ? p->ostride[p->nouter - 1] : 0;
  (void)worker;
  while (lo < hi) {
    int64_t k = min64(hi - lo, run - lo % run);
    const char *x = p->x + ts_reduce_plan_offset(p, lo) * p->esize;
    call_rows(p, x, k, ld, p->n, lo, false, p->out + lo * p->osize);
    lo += k;
  }
}

static void staged_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Plan *p = ((const Pass *)arg)->p;
  char buf[TS_RED_LEAF * 8] __attribute__((aligned(64)));
  int size = p->acc == TS_RED_F32 ? 4 : 8;
  (void)worker;
  while (lo < hi) {
    int64_t k = min64(hi - lo, TS_RED_LEAF / p->n);
    for (int64_t r = 0; r < k; r++) {
      const char *x = p->x + ts_reduce_plan_offset(p, lo + r) * p->esize;
      ts_reduce_plan_stage(p, x, 0, p->n, buf + r * p->n * size);
    }
    call_rows(p, buf, k, p->n, p->n, lo, false, p->out + lo * p->osize);
    lo += k;
  }
}

static void arg_best(const TsReduceArg *part, int64_t m, int64_t n, int64_t *out) {
  TsReduceArg best = part[0];
  for (int64_t j = 1; j < m; j++)
    if (part[j * n].key > best.key) best = part[j * n]; /* leaves come in index order */
  *out = best.index;
}

/* Outputs of a kind that has no batched kernel, one leaf each. */
static void single_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Plan *p = ((const Pass *)arg)->p;
  (void)worker;
  for (int64_t o = lo; o < hi; o++) {
    TsReduceArg best;
    if (p->kind == TS_KIND_arg) {
      leaves_of(p, o, 0, 1, (char *)&best);
      memcpy(p->out + o * p->osize, &best.index, sizeof best.index);
    } else {
      leaves_of(p, o, 0, 1, p->out + o * p->osize);
    }
  }
}

/* m results of n neighbours each, at part, to one row at out. */
static void combine(const Plan *p, char *part, int64_t m, int64_t n, char *out) {
  if (p->kind == TS_KIND_arg) {
    for (int64_t i = 0; i < n; i++)
      arg_best((const TsReduceArg *)(void *)part + i, m, n, (int64_t *)(void *)out + i);
    return;
  }
  if (p->kind == TS_KIND_cprod)
    p->k->cprod_tree[p->acc](part, m);
  else
    p->k->tree[p->acc](p->op, part, m, n);
  memcpy(out, part, (size_t)(n * p->osize));
}

static int pass_rows(const Plan *p) {
  Pass pass = {p, NULL, 0, 0};
  if (p->leaves == 1) {
    spread(p->outer, p->n,
           p->kind != TS_KIND_tree   ? single_task
           : p->path == TS_PATH_rows ? rows_task
                                     : staged_task,
           &pass);
    return 0;
  }
  int64_t items = p->outer * p->leaves, size = part_size(p);
  char local[2048] __attribute__((aligned(64)));
  pass.part = items * size <= (int64_t)sizeof local ? local : ts_work_take(items * size);
  if (!pass.part) return -1;
  spread(items, TS_RED_LEAF, leaf_task, &pass);
  for (int64_t o = 0; o < p->outer; o++)
    combine(p, pass.part + o * p->leaves * size, p->leaves, 1, p->out + o * p->osize);
  if (pass.part != local) ts_work_give(pass.part);
  return 0;
}

/* ---- neighbouring results */

/* Columns col .. col+n-1 of leaf j of the matrix whose first output is o. */
static void call_cols(const Plan *p, int64_t o, int64_t j, int64_t col, int64_t n, char *dst) {
  int64_t at[TS_RED_LEAF], m = leaf_size(p, j), first = j * TS_RED_LEAF;
  const char *x = p->x + (ts_reduce_plan_offset(p, o) + col) * p->esize;
  TsReduceCols a = {p->op, p->map, x, m, n, 0, NULL, p->load, p->esize, NULL, p->p, dst};
  if (p->c) a.c = p->c + (o + col) * p->osize;
  if (p->ninner == 1) {
    a.ld = p->istride[0];
    a.x = x + first * a.ld * p->esize;
  } else {
    ts_reduce_plan_inner(p, first, m, at);
    a.at = at;
  }
  if (p->kind == TS_KIND_tree) {
    p->k->cols[p->acc](&a);
    return;
  }
  TsReduceArg *best = (TsReduceArg *)(void *)dst;
  for (int64_t i = 0; i < n; i++) best[i].index = -1;
  p->k->arg_cols[p->acc](p->op, &a, first, best);
}

static void cols_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Pass *pass = arg;
  const Plan *p = pass->p;
  int64_t n = p->odim[p->nouter - 1], size = part_size(p);
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t col = i % pass->panels * pass->panel, row = i / pass->panels;
    int64_t lead = row / p->leaves, j = row % p->leaves, k = min64(pass->panel, n - col);
    char *dst =
        pass->part ? pass->part + (row * n + col) * size : p->out + (lead * n + col) * p->osize;
    call_cols(p, lead * n, j, col, k, dst);
  }
}

/* Panels of full width unless there would be too few for the threads. */
static void choose_panels(Pass *pass, int64_t n, int64_t rows) {
  int threads = ts_cpu_threads();
  pass->panel = PANEL_BYTES / (pass->p->acc == TS_RED_F32 ? 4 : 8);
  while (pass->panel > 64 && n > 64 && (n + pass->panel - 1) / pass->panel * rows < 2 * threads)
    pass->panel /= 2;
  pass->panels = (n + pass->panel - 1) / pass->panel;
}

static int pass_cols(const Plan *p) {
  int64_t n = p->odim[p->nouter - 1], lead = p->outer / n, rows = lead * p->leaves;
  int64_t size = part_size(p);
  Pass pass = {p, NULL, 0, 0};
  choose_panels(&pass, n, rows);
  if (p->leaves > 1 || p->kind == TS_KIND_arg) {
    pass.part = ts_work_take(rows * n * size);
    if (!pass.part) return -1;
  }
  spread(rows * pass.panels, min64(p->n, TS_RED_LEAF) * min64(n, pass.panel), cols_task, &pass);
  if (!pass.part) return 0;
  for (int64_t l = 0; l < lead; l++)
    combine(p, pass.part + l * p->leaves * n * size, p->leaves, n, p->out + l * n * p->osize);
  ts_work_give(pass.part);
  return 0;
}

/* ---- whole reductions */

static void fill_empty(const Plan *p, TsReduceOp op) {
  double f = op == TS_REDUCE_prod  ? 1
             : op == TS_REDUCE_min ? INFINITY
             : op == TS_REDUCE_max ? -INFINITY
                                   : 0;
  int64_t i = op == TS_REDUCE_prod || op == TS_REDUCE_all ? 1
              : op == TS_REDUCE_min                       ? INT64_MAX
              : op == TS_REDUCE_max                       ? INT64_MIN
                                                          : 0;
  if (p->kind == TS_KIND_arg) i = -1;
  for (int64_t o = 0; o < p->outer; o++) {
    char *out = p->out + o * p->osize;
    float f32[2] = {(float)f, 0};
    double f64[2] = {f, 0};
    if (p->kind == TS_KIND_arg || p->acc == TS_RED_I64)
      memcpy(out, &i, 8);
    else if (p->acc == TS_RED_F32)
      memcpy(out, f32, (size_t)p->osize);
    else
      memcpy(out, f64, (size_t)p->osize);
  }
}

static int pass_of(const Plan *p, TsReduceOp op) {
  if (p->outer == 0) return 0;
  if (p->n == 0) {
    fill_empty(p, op);
    return 0;
  }
  return p->path == TS_PATH_cols ? pass_cols(p) : pass_rows(p);
}

static void divide(int acc, void *x, int64_t n, double by) {
  float *f = x, d = (float)by;
  double *g = x;
  for (int64_t i = 0; i < n; i++) {
    if (acc == TS_RED_F32)
      f[i] /= d;
    else
      g[i] /= by;
  }
}

static void square_root(int acc, void *x, int64_t n) {
  float *f = x;
  double *g = x;
  for (int64_t i = 0; i < n; i++) {
    if (acc == TS_RED_F32)
      f[i] = sqrtf(f[i]);
    else
      g[i] = sqrt(g[i]);
  }
}

static void zero_infinite(int acc, void *x, int64_t n) {
  float *f = x;
  double *g = x;
  for (int64_t i = 0; i < n; i++) {
    if (acc == TS_RED_F32)
      f[i] = isfinite(f[i]) ? f[i] : 0;
    else
      g[i] = isfinite(g[i]) ? g[i] : 0;
  }
}

/* The two passes of var, std and logsumexp: c of the first goes into the second. */
typedef struct Two {
  Plan first, second;
  const TsReduce *r;
  int rc;
} Two;

/* What becomes of outputs o .. o+n-1 after each pass. */
static void after_first(const Two *t, int64_t o, int64_t n) {
  char *c = t->first.out + o * t->first.osize;
  if (t->r->op == TS_REDUCE_logsumexp)
    zero_infinite(t->first.acc, c, n);
  else
    divide(t->first.acc, c, n, (double)t->first.n);
}

static void after_second(const Two *t, int64_t o, int64_t n) {
  const Plan *p = &t->second;
  char *out = p->out + o * p->osize;
  double count = (double)p->n - t->r->correction;
  if (t->r->op == TS_REDUCE_logsumexp)
    p->k->log_add[p->acc](out, p->c + o * p->osize, n);
  else
    divide(p->acc, out, n, count > 0 ? count : 0);
  if (t->r->op == TS_REDUCE_std) square_root(p->acc, out, n);
}

/* Rows of one leaf take both passes while they are in the cache. */
static void two_task(void *arg, int64_t lo, int64_t hi, int worker) {
  const Two *t = arg;
  Pass first = {&t->first, NULL, 0, 0}, second = {&t->second, NULL, 0, 0};
  int64_t block = CACHED / (t->first.n * t->first.esize) + 1;
  for (int64_t o = lo, k; o < hi; o += k) {
    k = min64(block, hi - o);
    rows_task(&first, o, o + k, worker);
    after_first(t, o, k);
    rows_task(&second, o, o + k, worker);
    after_second(t, o, k);
  }
}

static int two_passes(Plan *p, const TsReduce *r) {
  char local[1024] __attribute__((aligned(64)));
  int64_t nbytes = p->outer * p->osize;
  char *c = nbytes <= (int64_t)sizeof local ? local : ts_work_take(nbytes);
  if (!c) return -1;
  bool lse = r->op == TS_REDUCE_logsumexp;
  Two t = {*p, *p, r, 0};
  t.first.out = c, t.first.op = lse ? TS_RED_MAX : TS_RED_SUM;
  t.second.c = c, t.second.op = TS_RED_SUM, t.second.map = lse ? TS_MAP_exp : TS_MAP_sqdev;
  if (p->path == TS_PATH_rows && p->leaves == 1 && p->outer > 0) {
    spread(p->outer, p->n, two_task, &t);
  } else {
    t.rc = pass_of(&t.first, lse ? TS_REDUCE_max : TS_REDUCE_sum);
    after_first(&t, 0, p->outer);
    if (t.rc == 0) t.rc = pass_of(&t.second, TS_REDUCE_sum);
    after_second(&t, 0, p->outer);
  }
  if (c != local) ts_work_give(c);
  return t.rc;
}

int ts_reduce(const TsReduce *r, const TsReduceTables *t) {
  Plan p;
  ts_reduce_plan(&p, r, t);
  if (r->op == TS_REDUCE_var || r->op == TS_REDUCE_std || r->op == TS_REDUCE_logsumexp)
    return two_passes(&p, r);
  int rc = pass_of(&p, r->op);
  if (r->op == TS_REDUCE_mean) divide(p.acc, p.out, p.outer, (double)p.n);
  return rc;
}
