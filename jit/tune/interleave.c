/* See jit/tune/interleave.h. */
#include "jit/tune/interleave.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "jit/tune/state.h"

enum { SAMPLES = 10, FEWEST = 3 };
static const double SHORTEST_USEC = 0.5;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_value);
  return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* The medians of n candidates; false: the time was up, usec is 0 or of fewer samples. The first run
 * of all warms up. */
static bool measure(const TsTuneInterleave *t, int n, const int *candidate, double *usec) {
  double x[TS_SCHED_CHOICES][SAMPLES], once = t->sample(t->arg, candidate[0], 1);
  for (int k = 0; k < n; k++) usec[k] = 0;
  if (once < 0 || (once = t->sample(t->arg, candidate[0], 1)) < 0) return false;
  if (once < SHORTEST_USEC) once = SHORTEST_USEC;
  int times = once < t->usec ? (int)(t->usec / once) + 1 : 1;
  int all = 0; /* rounds in which each had its sample */
  for (bool fine = true; fine && all < SAMPLES; all += fine)
    for (int k = 0; k < n && fine; k++)
      fine = (x[k][all] = t->sample(t->arg, candidate[k], times)) >= 0;
  for (int k = 0; k < n && all >= FEWEST; k++) usec[k] = median(x[k], all);
  return all == SAMPLES;
}

static bool better(const TsTuneInterleave *t, double usec, double than) {
  return usec * (100 + t->percent) <= than * 100;
}

/* Ctrl-C ended the samples, and there are enough of them all the same: what is known counts. */
static bool enough(const double *usec) { return ts_cpu_interrupted() && usec[0] > 0; }

static const char *too_early(void) {
  return ts_cpu_interrupted() ? "interrupted" : "the time was up";
}

/* The winner, confirmed by itself against the usual one. */
void ts_tune_interleave(const TsTuneInterleave *t, int n, const int *entry, TsTuneRecord *r) {
  int all[TS_SCHED_CHOICES] = {0}, best = 0;
  double usec[TS_SCHED_CHOICES];
  for (int i = 0; i < n; i++) all[i] = i;
  bool whole = measure(t, n, all, usec);
  for (int i = 0; i < n; i++) {
    r->at[entry[i]].usec = usec[i];
    if (!usec[i]) strcpy(r->at[entry[i]].why, ts_tune_untried("not measured: the time was up"));
  }
  if (!whole) return (void)strcpy(r->why, too_early());
  for (int i = 0; i < n; i++) {
    if (usec[i] < usec[best]) best = i;
  }
  if (!best || !better(t, usec[best], usec[0])) return;
  if (!measure(t, 2, (int[]){0, best}, usec) && !enough(usec))
    return (void)strcpy(r->why, too_early());
  if (better(t, usec[1], usec[0])) r->best = entry[best];
}
