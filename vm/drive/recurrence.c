/* Recurrences over threads. A row of the batch needs no other one, so threads that have some rows
 * each go through all steps without waiting for each other. Where rows are few, or the matrix is
 * more than a thread's second cache holds and each would read all of it, threads share a step
 * instead: its columns, then its rows. */
#include "vm/drive/recurrence.h"

#include "devices/cpu_pool.h"

enum {
  GRAIN = 1 << 12,       /* elements of a row's own work not worth a second thread */
  SERIAL_WORK = 1 << 20, /* multiply-adds that are not */
  OWN_BYTES = 1 << 20,   /* of the matrix, that each thread may read for itself */
  ROWS = 2               /* of a thread, at least: one alone waits for its own chains */
};

typedef struct Run {
  const TsRecurrence *r;
  int64_t pieces, step;
} Run;

static void all_steps(void *arg, int64_t lo, int64_t hi, int worker) {
  const Run *s = arg;
  const TsRecurrence *r = s->r;
  (void)worker;
  for (int64_t p = lo; p < hi; p++) {
    int64_t row = p * r->batch / s->pieces, end = (p + 1) * r->batch / s->pieces;
    for (int64_t i = 0; i < r->steps && !ts_cpu_interrupted(); i++) {
      if (!r->behind) r->product(r->arg, i, row, end, 0, r->w.count);
      r->rows(r->arg, i, row, end);
      if (r->behind) r->product(r->arg, i, row, end, 0, r->w.count);
    }
  }
}

static void some_panels(void *arg, int64_t lo, int64_t hi, int worker) {
  const Run *s = arg;
  (void)worker;
  s->r->product(s->r->arg, s->step, 0, s->r->batch, lo, hi);
}

static void some_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Run *s = arg;
  (void)worker;
  s->r->rows(s->r->arg, s->step, lo, hi);
}

static void step_by_step(Run *s) {
  const TsRecurrence *r = s->r;
  int64_t grain = GRAIN / (r->w.k + r->w.n) + 1;
  for (s->step = 0; s->step < r->steps && !ts_cpu_interrupted(); s->step++) {
    if (!r->behind) ts_cpu_parallel(r->w.count, 1, some_panels, s);
    ts_cpu_parallel(r->batch, grain, some_rows, s);
    if (r->behind) ts_cpu_parallel(r->w.count, 1, some_panels, s);
  }
}

void ts_recurrence_run(const TsRecurrence *r) {
  int64_t threads = ts_cpu_threads(), most = (r->batch + ROWS - 1) / ROWS;
  double work = (double)r->batch * (double)r->w.n * (double)r->w.k;
  Run s = {.r = r, .pieces = most < threads ? most : threads};
  bool large = r->w.count * r->w.step > OWN_BYTES;
  if (work * (double)r->steps < SERIAL_WORK) s.pieces = threads = 1;
  if (threads > 1 && (large || (s.pieces < threads && work >= SERIAL_WORK)))
    step_by_step(&s);
  else
    ts_cpu_parallel(s.pieces, 1, all_steps, &s);
}
