/* What a text says in place of addresses: names of graphs and values. A graph has the names
 * its values were given, made legal, and unique by .1, .2; values without a name are numbered
 * in the order of the lines. A region names its values by itself, as it is closed. */
#ifndef TS_IR_GRAPH_NAMES_H
#define TS_IR_GRAPH_NAMES_H

#include "ir/graph/graph.h"
#include "ir/text/map.h"

typedef struct TsNames {
  TsArena arena;
  TsTextMap name;        /* by the address of a graph or value */
  const TsGraph **graph; /* those called, each before its callers, and last the one opened */
  int ngraph, capgraph;
  bool recursive; /* a graph calls itself */
} TsNames;

/* -1: out of memory. In both cases for _close. */
int ts_names_open(TsNames *m, const TsGraph *g);
void ts_names_close(TsNames *m);
/* Without the sigil; "?" of what is not there. */
const char *ts_names_of(const TsNames *m, const void *value_or_graph);

#endif
