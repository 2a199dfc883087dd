/* Derivatives that are not jets, and why: what `f:rewrites()` says of gradients of
 * gradients. */
#include <stdlib.h>
#include <string.h>

#include "ir/jets/jets.h"

/* A gradient of a sum over rows is the derivative of each row only if no row depends on another
 * one, which the program does not say; a derivative along a direction is one whatever rows
 * do. */
static const char why[] = "a derivative of a gradient stays nested, since rows may depend on each "
                          "other; graph.jvp of graph.jvp along directions becomes jets";

static const TsNode *reversed(const TsGraph *g, int n, const TsVal *v, bool *memory) {
  unsigned char *mark = calloc((size_t)g->nnode + 1, 1);
  const TsNode *found = NULL;
  if (!mark) return *memory = true, NULL;
  for (int i = 0; i < n; i++)
    if (v[i] && v[i]->graph == g) mark[v[i]->node->id] = 1;
  for (int i = g->nnode; i-- > 0 && !found;) {
    if (!mark[i]) continue;
    if (g->node[i]->reversed) found = g->node[i];
    for (int k = 0; k < g->node[i]->nin; k++) {
      TsVal in = g->node[i]->in[k];
      if (in && in->graph == g) mark[in->node->id] = 1;
    }
  }
  free(mark);
  return found;
}

int ts_jets_refused(const TsGraph *g, int n, const TsVal *v, TsText *log) {
  bool memory = false;
  if (!g->reverses || (log->at && strstr(log->at, why))) return 0;
  const TsNode *r = reversed(g, n, v, &memory);
  if (memory) return ts_error_memory(g->err);
  if (!r) return 0;
  const char *where = r->line > 0 && r->line < g->module->nplace ? g->module->place[r->line] : "";
  ts_text_format(log, "collapsed_jets%s%s: not here: %s\n", *where ? " at " : "", where, why);
  return 0;
}
