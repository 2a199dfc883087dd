/* When nodes have to stand, if they stand as late as may be.
 *
 * A node stands in the first group in which all its operands are there. But what a group gives to a
 * later one has to be kept as a tensor, and is not fused with who reads it: a forward pass alone,
 * because the backward pass waits for the number of rows that count, leaves all of its values. So
 * nodes go to the latest group in which nobody waits for them, by the levels of a first plan, unless they
 * give less than they read: then that is kept, and they are fused with who makes it. */
#ifndef TS_IR_MESH_DELAYS_H
#define TS_IR_MESH_DELAYS_H

#include <stdbool.h>

#include "ir/graph/graph.h"

typedef struct TsDelays {
  int n, nedge, cap;
  int *level, *least; /* by node */
  struct {
    int from, to, by; /* a node, who reads it, and by how many levels that stands behind it */
  } *edge;            /* by reader */
  bool *stays;        /* by node: it stands as early as it can */
  bool moved, failed; /* some go elsewhere; there was no memory */
} TsDelays;

int ts_delays_open(TsDelays *d, int nnode, TsError *err);
void ts_delays_close(TsDelays *d);
/* `to` reads what `from` gives, which is there at this level. */
void ts_delays_note(TsDelays *d, int from, int to, int level);
void ts_delays_found(TsDelays *d, int node, int level);
/* What devices add up is sent while others are computed: such a node stays where it is. */
void ts_delays_keep(TsDelays *d, int node);
/* By node of g the level at which it is to stand at least: lives as long as d. NULL with the error. */
const int *ts_delays_least(TsDelays *d, const TsGraph *g, TsError *err);

#endif
