/* The pool: every item of a loop is worked on once, in ranges of whole grains, by
 * workers that exist, for all small sizes, grains and numbers of threads. */
#include "devices/cpu_pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 70, THREADS = 9 };

typedef struct Loop {
  int64_t n, grain;
  int threads;
  atomic_int times[2 * MOST]; /* items beyond n would show up here */
  atomic_int wrong;
} Loop;

static void count(void *arg, int64_t lo, int64_t hi, int worker) {
  Loop *l = arg;
  if (lo < 0 || hi > l->n || lo >= hi || worker < 0 || worker >= l->threads) l->wrong++;
  if (hi < l->n && (hi - lo) % l->grain) l->wrong++;
  for (int64_t i = lo; i < hi && i < 2 * MOST; i++) l->times[i]++;
}

static int check(int64_t n, int64_t grain, int threads) {
  static Loop l;
  memset(&l, 0, sizeof l);
  l.n = n, l.grain = grain, l.threads = threads;
  ts_cpu_parallel(n, grain, count, &l);
  int bad = l.wrong;
  for (int64_t i = 0; i < 2 * MOST; i++) bad += l.times[i] != (i < n);
  if (bad) printf("pool: %d items, grain %d, %d threads: wrong\n", (int)n, (int)grain, threads);
  return bad != 0;
}

int main(void) {
  int bad = 0, loops = 0;
  for (int threads = 1; threads <= THREADS; threads++) {
    ts_cpu_set_threads(threads);
    for (int64_t n = 0; n < MOST; n += 1 + n / 16)
      for (int64_t grain = 1; grain < MOST; grain += 1 + grain / 4, loops++)
        bad += check(n, grain, threads);
  }
  printf("pool: %d loops, %d wrong\n", loops, bad);
  return bad != 0;
}
