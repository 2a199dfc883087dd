/* Every item of a loop once and none outside, for all sizes, grains and numbers of threads. */
#include "devices/cpu_pool.h"

#include <stdatomic.h>
#include <stdio.h>

enum { MOST = 70, PAD = 300 };

static atomic_int seen[MOST + PAD];

static void visit(void *arg, int64_t lo, int64_t hi, int worker) {
  (void)arg, (void)worker;
  for (int64_t i = lo; i < hi && i < MOST + PAD; i++) atomic_fetch_add(&seen[i], 1);
}

int main(void) {
  int failures = 0;
  for (int threads = 1; threads <= 5; threads++) {
    ts_cpu_set_threads(threads);
    for (int n = 1; n <= MOST; n++)
      for (int grain = 1; grain <= n + 1; grain++) {
        for (int i = 0; i < MOST + PAD; i++) atomic_store(&seen[i], 0);
        ts_cpu_parallel(n, grain, visit, NULL);
        for (int i = 0; i < MOST + PAD; i++)
          if (atomic_load(&seen[i]) != (i < n) && failures++ < 10)
            printf("%d threads, %d items by %d: item %d\n", threads, n, grain, i);
      }
  }
  if (!failures) printf("cpu_pool: ok\n");
  return failures != 0;
}
