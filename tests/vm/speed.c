/* What bounds the operators over rows: `make rows-speed`. No test. The same number of elements
 * as one matrix of 64 MiB and as a small one again and again, which stays in the second-level
 * cache, on one thread; the copy is by streaming stores. An operator that takes as long in the
 * cache as the copy takes in memory is bound by its own work. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "devices/cpu_pool.h"
#include "vm/core/kernels.h"
#include "vm/rows/rows.h"

enum { N = 4096, ROWS = 4096, FEW = 16, TURNS = 15, COPY = TS_ROWS_rmsnorm + 1, WORKS };

static const char *const names[WORKS] = {"softmax", "log_softmax", "layernorm", "rmsnorm",
                                         "copy"};
static float *x, *y, *w;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_size(const void *a, const void *b) {
  double d = *(const double *)a - *(const double *)b;
  return d < 0 ? -1 : d > 0;
}

/* Milliseconds for ROWS rows, `rows` at a time. */
static double once(const TsKernels *k, int work, int64_t rows) {
  int64_t stride = N;
  TsRowsTables tables = {&k->reduce, &k->rows, &k->convert, &k->copy};
  TsRows r = {.op = (TsRowsOp)work,
              .dtype = TS_DT_f32,
              .nouter = 1,
              .outer_dim = &rows,
              .x_stride = &stride,
              .y_stride = &stride,
              .n = N,
              .x_step = 1,
              .y_step = 1,
              .x = x,
              .y = y,
              .w = work >= TS_ROWS_layernorm ? w : NULL,
              .b = work == TS_ROWS_layernorm ? w : NULL,
              .eps = 1e-5};
  double from = now();
  for (int64_t i = 0; i < ROWS; i += rows) {
    if (work == COPY)
      k->copy.stream(rows * N * 4, y, x);
    else if (ts_rows(&r, &tables))
      exit(1);
  }
  ts_copy_fence();
  return now() - from;
}

/* On huge pages, as the program's own. */
static float *matrix(void) {
  enum { HUGE = 2 << 20 };
  float *p = aligned_alloc(HUGE, (size_t)N * ROWS * 4);
  if (!p) exit(1);
  madvise(p, (size_t)N * ROWS * 4, MADV_HUGEPAGE);
  return p;
}

int main(void) {
  const TsKernels *k = ts_kernels_use(NULL);
  double msec[WORKS][2][TURNS];
  x = matrix(), y = matrix();
  w = aligned_alloc(64, (size_t)N * 4);
  if (!w) return 1;
  ts_cpu_set_threads(1);
  for (int64_t i = 0; i < N * ROWS; i++) y[i] = 0, x[i] = (float)rand() / 1e9f;
  for (int i = 0; i < N; i++) w[i] = 1;
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < 2 * WORKS; i++)
      msec[i / 2][i % 2][t] = once(k, i / 2, i % 2 ? FEW : ROWS);
  for (int i = 0; i < WORKS; i++) {
    for (int c = 0; c < 2; c++) qsort(msec[i][c], TURNS, sizeof(double), by_size);
    printf("%-12s %s  in memory %5.2f ms", names[i], k->isa, msec[i][0][TURNS / 2]);
    if (i != COPY) printf("  in the cache %5.2f ms", msec[i][1][TURNS / 2]);
    printf("\n");
  }
  return 0;
}
