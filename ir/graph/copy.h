/* Copying graphs: into another graph in place of a call, and without what nothing uses. */
#ifndef TS_IR_GRAPH_COPY_H
#define TS_IR_GRAPH_COPY_H

#include "ir/graph/graph.h"

/* Nodes of g that its results and updates need, and those that run anyway: mark[id], for the
 * caller to free. NULL when memory runs out. */
unsigned char *ts_graph_live(const TsGraph *g);

/* Parameters by which v can be differentiated: mark[i], for the caller to free. NULL likewise. */
unsigned char *ts_graph_moves(const TsGraph *g, TsVal v);

/* The nodes that from's results need, emitted into g with args for the parameters. Random
 * calls of another module get streams of their own; of the same one they keep theirs, so that
 * a second copy repeats the first. Updates are not copied. */
int ts_graph_inline(TsGraph *g, const TsGraph *from, const TsVal *args, TsVal *results);
/* The same where g runs from stream 0 on and repeats a run of from that began at this seed
 * and stream. What the updates give stands behind the results. */
int ts_graph_inline_run(TsGraph *g, const TsGraph *from, const TsVal *args, TsVal *results,
                        uint64_t seed, uint64_t stream);

/* The same where from belongs to g's function: random calls keep their streams. */
int ts_graph_inline_part(TsGraph *g, const TsGraph *from, const TsVal *args, TsVal *results);

/* from in a module of its own: parameters, live nodes, results, updates. */
TsGraph *ts_graph_clone(const TsGraph *from, TsError *err);

/* ---- for passes that build a graph from another */
typedef struct TsGraphMap {
  TsGraph *to;
  const TsGraph *from;
  TsVal *value;         /* by (start of the node's outputs) */
  int *start;           /* by node id */
  int64_t stream;       /* added to the streams of random calls */
  const uint64_t *seed; /* of those that have none, or NULL */
} TsGraphMap;

int ts_graph_map_open(TsGraphMap *m, TsGraph *to, const TsGraph *from);
void ts_graph_map_close(TsGraphMap *m);
static inline TsVal ts_graph_mapped(const TsGraphMap *m, TsVal v) {
  return v ? m->value[m->start[v->node->id] + v->index] : NULL;
}
static inline void ts_graph_map_set(TsGraphMap *m, TsVal from, TsVal to) {
  m->value[m->start[from->node->id] + from->index] = to;
}
/* Copies one node whose operands are mapped, and maps its outputs. */
int ts_graph_map_node(TsGraphMap *m, const TsNode *n);
/* A graph like from without nodes but its parameters, which are mapped. */
TsGraph *ts_graph_map_shell(TsGraphMap *m, TsModule *u, const TsGraph *from, TsError *err);
/* Results and updates through the map. */
int ts_graph_map_finish(TsGraphMap *m);

#endif
