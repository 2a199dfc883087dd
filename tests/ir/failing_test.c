/* Memory that runs out at any allocation on the way through ir/: an error, nothing stays behind, and
 * nothing that was freed is read (failing.h). */
#include <stdio.h>

#include "ir/compose/build.h"
#include "ir/graph/copy.h"
#include "ir/graph/graph.h"
#include "ir/lower/lower.h"
#include "lib/arena.h"
#include "tests/ir/failing.h"

static int failed;

static void copied(const TsGraph *g, TsError *err) { ts_graph_free(ts_graph_clone(g, err)); }

/* A device's kernel that is several: each is given to their whole. */
static void lowered(const TsGraph *g, TsError *err) {
  TsSchedKernel k = {.tile = NULL};
  TsSched *s = ts_sched_new(g, ts_target_with(TS_UNIT_roles), 1, err);
  if (!s) return;
  s->processors = 100, s->profile = TS_PROFILE_deterministic;
  ts_lower_group(s, s->group[0], NULL, NULL, &k, err);
  ts_tile_free(k.tile);
  ts_sched_free(s);
}

static void each(const char *what, void (*f)(const TsGraph *, TsError *), const TsGraph *g) {
  TsError err = {0};
  long n = 0;
  int good = failed;
  f(g, &err); /* what is made once and kept */
  for (bool over = false; !over && failed < good + 5; n++) {
    long before = live;
    err = (TsError){0};
    until = n;
    f(g, &err);
    over = until >= 0;
    until = -1;
    if (live != before)
      failed++,
          printf("%s: %ld blocks stay when allocation %ld fails\n", what, live - before, n);
    if (err.code != TS_OK && err.code != TS_ERR_memory)
      failed++, printf("%s: allocation %ld: %s\n", what, n, err.message);
  }
  if (n < 10) failed++, printf("%s: %ld allocations\n", what, n);
}

int main(void) {
  TsError err = {0};
  TsMeta rows = {.dtype = TS_DT_f32, .ndim = 2, .dim = {512, 64}};
  TsAttr along[TS_MAX_ATTR] = {{.type = TS_ATTR_int, .i = 0}, {.type = TS_ATTR_bool}};
  int nout = 0;
  TsVal y[TS_MAX_OUT];
  ts_arena_single(true);
  TsGraph *g = ts_graph_new("f", &err);
  g->apart = true;
  TsVal x = ts_graph_param(g, &rows, NULL, NULL);
  ts_graph_emit(g, TS_OP_sort, 1, &x, along, y, &nout);
  ts_graph_results(g, nout, y);
  each("a copy", copied, g);
  each("a device's kernels", lowered, g);
  ts_graph_free(g);
  return failed != 0;
}
