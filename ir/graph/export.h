/* Graphs for other programs: DOT for Graphviz, JSON for scripts. Names are those of the
 * text. */
#ifndef TS_IR_GRAPH_EXPORT_H
#define TS_IR_GRAPH_EXPORT_H

#include "ir/graph/graph.h"

/* g alone, its regions as boxes; a call is one node. `dot -Tsvg` draws it. */
void ts_graph_dot(const TsGraph *g, TsText *text);

/* {"graphs":[{"name","params":[{"name","type","captured"}],
 *             "nodes":[{"op","in":[..],"out":[{"name","type"}],"attributes":{..},
 *                       "call":name,"regions":[graph without name..],"place"}],
 *             "results":[..],"updates":[{"param","value"}]}]}
 * in the order of the text; a type is {"dtype","shape"}; operands are "%name", numbers, or null
 * where absent. Numbers that JSON lacks are "inf", "-inf", "nan", "-nan". Members without
 * content are left out. */
void ts_graph_json(const TsGraph *g, TsText *text);

#endif
