/* See jit/mesh/region.h. A function has a plan for each way in which its arguments have lain so far: the first
 * round of a loop may get them otherwise than the next ones. */
#include "jit/mesh/region.h"

#include <stdlib.h>
#include <string.h>

#include "jit/mesh/run.h"
#include "vm/mesh/expand.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"

enum { MOST_WAYS = 8 }; /* then the oldest one goes */

typedef struct Way {
  struct Way *next;
  TsGraph *g;
  TsMeshRun *run; /* NULL: it cannot be cut */
  int leaves, n;
  unsigned overlap;  /* TsContext.overlap_said when it was made */
  bool busy;         /* it runs: a function that calls itself has another one */
  uint16_t layout[]; /* by argument; 0: it lies on one device */
} Way;

static void free_way(Way *w) {
  ts_mesh_run_free(w->run);
  if (w->g) ts_graph_free(w->g);
  free(w);
}

static void forget(void *slot) {
  for (Way *w = slot, *next; w; w = next) {
    next = w->next;
    free_way(w);
  }
}

static bool fits(const Way *w, const TsContext *c, TsTensor *const *args) {
  if (w->leaves != c->leaves || w->overlap != c->overlap_said || w->busy) return false;
  for (int i = 0; i < w->n; i++)
    if (w->layout[i] != args[i]->meta.layout) return false;
  return true;
}

static void drop_oldest(void **slot) {
  int n = 0;
  Way **last = (Way **)slot;
  for (Way **at = last; *at; at = &(*at)->next) n += 1, last = at;
  if (n < MOST_WAYS || (*last)->busy) return;
  Way *old = *last;
  *last = NULL;
  free_way(old);
}

static Way *made(TsContext *c, void **slot, const TsGraph *g, TsTensor *const *args) {
  Way *w = calloc(1, sizeof *w + sizeof *w->layout * (size_t)(g->nparam + 1));
  if (!w) return ts_error_memory(&c->err), NULL;
  w->leaves = c->leaves, w->overlap = c->overlap_said, w->n = g->nparam;
  for (int i = 0; i < g->nparam; i++) w->layout[i] = args[i]->meta.layout;
  ts_error_clear(&c->err);
  w->g = ts_mesh_region(c, g, args);
  if (w->g) w->run = ts_mesh_run_new(c, w->g, NULL);
  if (c->err.code == TS_ERR_memory) return free_way(w), NULL;
  ts_error_clear(&c->err); /* what the calls say is said in its place */
  drop_oldest(slot);
  w->next = *slot;
  *slot = w;
  return w;
}

static bool is_meant(TsContext *c, const TsGraph *g, TsTensor *const *args) {
  bool spread = false;
  for (int i = 0; i < g->nparam; i++) {
    if (!args[i]) return false;
    spread |= args[i]->meta.layout != 0;
  }
  return spread && (c->planning || !ts_mesh_plans(c, g->nparam, args));
}

static int run(TsContext *c, void **slot, const TsGraph *g, TsTensor *const *args,
               TsTensor **results) {
  if (!is_meant(c, g, args)) return 0;
  Way *w = *slot;
  while (w && !fits(w, c, args)) w = w->next;
  if (!w && !(w = made(c, slot, g, args))) return -1;
  if (!w->run) return 0;
  if (c->planning) return c->step_told ? 0 : ts_mesh_run_tell(w->run, args) ? -1 : 2;
  uint64_t stream = c->stream;
  w->busy = true;
  int failed = ts_mesh_run(w->run, args, results);
  w->busy = false;
  c->stream = stream; /* it draws nothing */
  return failed ? -1 : 1;
}

const TsSpread ts_mesh_regions = {run, forget};
