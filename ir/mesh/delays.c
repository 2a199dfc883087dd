/* See ir/mesh/delays.h. */
#include "ir/mesh/delays.h"

#include <stdlib.h>

static int64_t bytes_of(const TsNode *n) {
  int64_t sum = 0;
  for (int i = 0; i < n->nout; i++) sum += ts_meta_nbytes(&n->out[i].meta);
  return sum;
}

int ts_delays_open(TsDelays *d, int nnode, TsError *err) {
  *d = (TsDelays){.n = nnode};
  d->level = malloc(sizeof *d->level * 2 * ((size_t)nnode + 1));
  d->stays = calloc((size_t)nnode + 1, sizeof *d->stays);
  if (!d->level || !d->stays) {
    ts_delays_close(d);
    return ts_error_memory(err);
  }
  d->least = d->level + nnode;
  for (int i = 0; i < nnode; i++) d->level[i] = -1; /* a parameter, or nobody's */
  return 0;
}

void ts_delays_close(TsDelays *d) {
  free(d->level);
  free(d->edge);
  free(d->stays);
}

void ts_delays_note(TsDelays *d, int from, int to, int level) {
  if (d->level[from] < 0) return;
  if (d->nedge == d->cap) {
    int cap = d->cap ? 2 * d->cap : 256;
    void *more = realloc(d->edge, sizeof *d->edge * (size_t)cap);
    if (!more) {
      d->failed = true;
      return;
    }
    d->edge = more, d->cap = cap;
  }
  int by = level - d->level[from];
  d->edge[d->nedge].from = from, d->edge[d->nedge].to = to, d->edge[d->nedge++].by = by;
}

void ts_delays_found(TsDelays *d, int node, int level) { d->level[node] = level; }

void ts_delays_keep(TsDelays *d, int node) { d->stays[node] = true; }

/* One that gives less than it reads there, as a loss of logits does, stands with what it reads: that would
 * have to be kept for it, and be read again. */
static void come_back(TsDelays *d, const TsGraph *g) {
  for (int e = 0, end; e < d->nedge; e = end) {
    int to = d->edge[e].to, early = 0;
    int64_t reads = 0;
    for (end = e; end < d->nedge && d->edge[end].to == to; end++) {
      int from = d->edge[end].from, at = d->least[from] + d->edge[end].by;
      if (at > early) early = at, reads = 0;
      if (at == early && !d->edge[end].by) reads += bytes_of(g->node[from]);
    }
    if (early < d->least[to] && reads > bytes_of(g->node[to])) d->least[to] = early;
  }
}

const int *ts_delays_least(TsDelays *d, const TsGraph *g, TsError *err) {
  int last = 0;
  if (d->failed) return ts_error_memory(err), NULL;
  for (int i = 0; i < d->n; i++)
    if (d->level[i] > last) last = d->level[i];
  for (int i = 0; i < d->n; i++) d->least[i] = d->stays[i] ? d->level[i] : last;
  for (int e = d->nedge; e-- > 0;) { /* readers come behind what they read */
    int at = d->least[d->edge[e].to] - d->edge[e].by, *least = &d->least[d->edge[e].from];
    if (at < *least) *least = at;
  }
  come_back(d, g);
  for (int i = 0; i < d->n; i++) d->moved |= d->level[i] >= 0 && d->least[i] != d->level[i];
  return d->least;
}
