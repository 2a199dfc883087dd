/* Kernels in memory: their outline, loading, running. No word of LLVM here. */
#include "jit/code/kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
#include <x86intrin.h>
#endif

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "ir/tile/marks.h"
#include "vm/core/profile.h"
#include "lib/clock.h"

/* ---- the outline */
int ts_kernel_phases(const TsTile *k, TsTileStmt *phase[TS_KERNEL_PHASES]) {
  int n = 0;
  for (TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_for) continue;
    if (n < TS_KERNEL_PHASES) phase[n] = s;
    n++;
  }
  return n;
}

static bool is_local(const TsTileStmt *s) {
  return s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_local;
}

/* Places local memory from `at` on; gives the end. With `want`, stops there. */
static int64_t place_local(const TsTileRegion *r, int64_t at, const TsTileValue *want,
                           int64_t *found) {
  int64_t most = at;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (is_local(s)) {
      if (s->out[0] == want) *found = at;
      const TsTileType *t = &s->out[0]->type;
      at += (ts_tile_numel(t) * ts_dtypes[t->dtype].nbytes + 63) & -64;
      if (at > most) most = at;
    }
    for (int i = 0; i < s->nregion; i++) {
      int64_t end = place_local(s->region[i], at, want, found);
      if (end > most) most = end;
    }
  }
  return most;
}

int64_t ts_kernel_local_at(const TsTile *k, const TsTileValue *alloc) {
  int64_t found = -1;
  place_local(k->body, 0, alloc, &found);
  return found;
}

int64_t ts_kernel_marks_at(const TsTile *k) {
  int64_t found;
  return place_local(k->body, 0, NULL, &found);
}

static int64_t constant(const TsTileValue *v, int64_t otherwise) {
  if (!v->stmt || v->stmt->op != TS_TILE_const) return otherwise;
  return (int64_t)ts_tile_attr(v->stmt, "value")->f;
}

/* Roughly the elements that one round computes; loops of unknown length count as 32 rounds. */
static double cost(const TsTileRegion *r) {
  double sum = 1;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_for) {
      int64_t lo = constant(s->in[0], 0), step = ts_tile_attr(s, "step")->i;
      int64_t hi = constant(s->in[1], lo + 32 * step);
      sum += cost(s->region[0]) * (double)((hi - lo) / (step > 0 ? step : 1) + 1);
      continue;
    }
    for (int i = 0; i < s->nregion; i++) sum += cost(s->region[i]);
    double most = 1;
    for (int i = 0; i < s->nin; i++)
      if (!ts_tile_memory(&s->in[i]->type)) {
        double n = (double)ts_tile_numel(&s->in[i]->type);
        most = n > most ? n : most;
      }
    sum += s->nout && !ts_tile_memory(&s->out[0]->type)
               ? (double)ts_tile_numel(&s->out[0]->type)
               : most;
  }
  return sum;
}

static int outline_marks(TsKernel *kernel, const TsTile *k, TsError *err) {
  TsTileMark mark[TS_TILE_MARKS];
  int n = ts_tile_marks(k, mark);
  kernel->marks_at = kernel->local_bytes;
  if (!n) return 0;
  kernel->mark = calloc((size_t)n, sizeof *kernel->mark);
  if (!kernel->mark) return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  for (int i = 0; i < n; i++) {
    TsKernelMark *m = &kernel->mark[i];
    m->stage = ts_tile_stage_name(mark[i].stage);
    snprintf(m->what, sizeof m->what, "%s", mark[i].what ? mark[i].what : "");
    snprintf(m->place, sizeof m->place, "%s", k->place[mark[i].stmt->line]);
  }
  kernel->nmark = n;
  kernel->local_bytes += (int64_t)sizeof(TsKernelClock) * n;
  return 0;
}

static int outline_memory(TsKernel *kernel, const TsTile *k, TsError *err) {
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_alloc || s->out[0]->type.space != TS_SPACE_scratch) continue;
    if (kernel->nscratch == TS_KERNEL_SCRATCH)
      return ts_error_set(err, TS_ERR_device, "jit: @%.40s has more than %d scratch buffers",
                          k->name, TS_KERNEL_SCRATCH),
             ts_error_hint(
                 err, "one buffer may hold several: alloc of space scratch, with an axis more");
    kernel->scratch[kernel->nscratch++] = s->out[0]->type;
  }
  kernel->local_bytes = ts_kernel_marks_at(k);
  return outline_marks(kernel, k, err);
}

int ts_kernel_check_phases(const TsTile *k, int n, TsError *err) {
  if (n && n <= TS_KERNEL_PHASES) return 0;
  ts_error_set(err, TS_ERR_device, "@%.40s has %d phases, compiled kernels have 1 to %d",
               k->name, n, TS_KERNEL_PHASES);
  return ts_error_hint(
      err, n ? "each loop over the grid is a phase: join some, or make several kernels"
             : "a kernel works in a loop over its grid: for %%r in 0..%%n parallel");
}

int ts_kernel_outline(TsKernel *kernel, const TsTile *k, const TsTarget *t, TsError *err) {
  TsTileStmt *phase[TS_KERNEL_PHASES];
  *kernel = (TsKernel){.target = t->name, .nparam = k->nparam, .ndim = k->ndim};
  kernel->nphase = ts_kernel_phases(k, phase);
  if (ts_kernel_check_phases(k, kernel->nphase, err)) return -1;
  for (int i = 0; i < kernel->nphase; i++) {
    double each = cost(phase[i]->region[0]);
    kernel->grain[i] = k->grain ? k->grain : each > 16384 ? 1 : (int64_t)(16384 / each) + 1;
  }
  return outline_memory(kernel, k, err);
}

/* ---- loading */
int ts_kernel_load(TsKernel *kernel, const void *elf, size_t nbytes, TsError *err) {
  char text[TS_KERNEL_PHASES][24];
  const char *name[TS_KERNEL_PHASES] = {NULL};
  void *at[TS_KERNEL_PHASES];
  int n = kernel->nphase;
  for (int i = 0; i < n; i++) {
    snprintf(text[i], sizeof text[i], "rounds%d", i);
    name[i] = text[i];
  }
  if (ts_object_load(&kernel->object, elf, nbytes, n, name, at, err)) return -1;
  for (int i = 0; i < n; i++) kernel->phase[i] = (TsPhaseFn *)(uintptr_t)at[i];
  kernel->object_bytes = nbytes;
  return 0;
}

void ts_kernel_free(TsKernel *kernel) {
  if (!kernel) return;
  ts_object_unload(&kernel->object);
  free(kernel->mark);
  free(kernel);
}

/* ---- running */
/* One block of each thread, which grows and is freed with the thread: kernels are short. */
typedef struct Local {
  void *at;
  int64_t nbytes;
} Local;

static pthread_key_t local_key;

static void free_local(void *p) {
  Local *l = p;
  free(l->at);
  free(l);
}

static void make_key(void) { pthread_key_create(&local_key, free_local); }

static void *local_memory(int64_t nbytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static _Thread_local Local *mine;
  if (!nbytes) return NULL;
  if (mine && mine->nbytes >= nbytes) return mine->at;
  pthread_once(&once, make_key);
  if (!mine) {
    if (!(mine = calloc(1, sizeof *mine))) return NULL;
    pthread_setspecific(local_key, mine);
  }
  free(mine->at);
  mine->nbytes = (nbytes + 4095) & -4096;
  mine->at = aligned_alloc(64, (size_t)mine->nbytes);
  if (!mine->at) mine->nbytes = 0;
  return mine->at;
}

typedef struct Run {
  const TsKernel *kernel;
  TsPhaseFn *phase;
  void *const *arg;
  const int64_t *dim;
  bool failed;
  int at;         /* phase */
  TsSpans *spans; /* or NULL */
} Run;

static int64_t cycles(void) {
#if defined __x86_64__
  return (int64_t)__rdtsc();
#else
  return ts_clock_nsec();
#endif
}

/* What the clocks say, in the time that the call took as a whole. */
static void add_marks(const Run *r, const TsKernelClock *clock, const TsSpan *whole,
                      int64_t cycles) {
  double nsec = cycles > 0 ? (double)(whole->end - whole->start) / (double)cycles : 1;
  for (int i = 0; i < r->kernel->nmark; i++) {
    const TsKernelMark *m = &r->kernel->mark[i];
    if (!clock[i].count) continue;
    TsSpan span = *whole;
    span.end = span.start + (int64_t)((double)clock[i].cycles * nsec);
    span.stage = m->stage, span.what = m->what, span.place = m->place;
    span.count = clock[i].count;
    ts_spans_add(r->spans, &span);
  }
}

static void run_timed(Run *r, int64_t lo, int64_t hi, int worker, void *local) {
  TsKernelClock *clock = (TsKernelClock *)((char *)local + r->kernel->marks_at);
  if (r->kernel->nmark) memset(clock, 0, sizeof *clock * (size_t)r->kernel->nmark);
  int64_t start = ts_clock_nsec(), from = cycles();
  r->phase(r->arg, r->dim, lo, hi, local);
  TsSpan span = {.start = start, .phase = r->at, .thread = worker};
  int64_t took = cycles() - from;
  span.end = ts_clock_nsec();
  if (r->kernel->nmark) add_marks(r, clock, &span, took);
  ts_spans_add(r->spans, &span);
}

static void run_rounds(void *p, int64_t lo, int64_t hi, int worker) {
  Run *r = p;
  void *local = local_memory(r->kernel->local_bytes);
  int64_t step = r->kernel->grain[r->at] > 1 ? hi - lo : 1; /* long rounds one by one */
  if (!local && r->kernel->local_bytes)
    __atomic_store_n(&r->failed, true, __ATOMIC_RELAXED);
  else if (r->spans)
    run_timed(r, lo, hi, worker, local);
  else
    for (; lo < hi && !ts_cpu_interrupted(); lo += step)
      r->phase(r->arg, r->dim, lo, lo + step < hi ? lo + step : hi, local);
}

int64_t ts_kernel_scratch_bytes(const TsKernel *kernel, int i, const int64_t *dim) {
  return ts_tile_dense_bytes(&kernel->scratch[i], dim);
}

static void *take_scratch(const TsKernel *kernel, const int64_t *dim, void **at) {
  int64_t total = 64, used = 0;
  for (int i = 0; i < kernel->nscratch; i++)
    total += (ts_kernel_scratch_bytes(kernel, i, dim) + 63) & -64;
  char *block = ts_work_take(total);
  for (int i = 0; block && i < kernel->nscratch; i++) {
    at[i] = block + used;
    used += (ts_kernel_scratch_bytes(kernel, i, dim) + 63) & -64;
  }
  return block;
}

static int run_phases(const TsKernel *kernel, void *const *arg, const int64_t *dim,
                      TsSpans *spans) {
  Run run = {.kernel = kernel, .arg = arg, .dim = dim, .spans = spans};
  for (int i = 0; i < kernel->nphase && !run.failed; i++) {
    run.phase = kernel->phase[i];
    run.at = i;
    int64_t rounds = run.phase(NULL, dim, 0, 0, NULL);
    ts_cpu_parallel(rounds, kernel->grain[i], run_rounds, &run);
  }
  return run.failed ? -1 : 0;
}

int ts_kernel_run_timed(const TsKernel *kernel, void *const *arg, const int64_t *dim,
                        TsSpans *spans, TsError *err) {
  enum { FEW = 64 };
  void *few[FEW], **all = few, *block = NULL;
  int n = kernel->nparam + kernel->nscratch, failed = 0;
  if (!kernel->nscratch) {
    failed = run_phases(kernel, arg, dim, spans);
  } else {
    if (n > FEW && !(all = malloc(sizeof *all * (size_t)n)))
      return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
    memcpy(all, arg, sizeof *arg * (size_t)kernel->nparam);
    block = take_scratch(kernel, dim, all + kernel->nparam);
    failed = block ? run_phases(kernel, all, dim, spans) : -1;
  }
  ts_work_give(block);
  if (all != few) free(all);
  return failed ? ts_error_set(err, TS_ERR_memory, "jit: out of memory for a kernel's buffers")
                : 0;
}

int ts_kernel_run(const TsKernel *kernel, void *const *arg, const int64_t *dim, TsError *err) {
  return ts_kernel_run_timed(kernel, arg, dim, NULL, err);
}
