/* Which values of a graph share bytes: as views of one another, of parameters, or of a result. */
#ifndef TS_VM_ALIAS_H
#define TS_VM_ALIAS_H

#include "ir/graph/graph.h"
#include "vm/core/tensor.h"

/* The tensor that the view n makes of `from`, which needs no bytes. False, and *out NULL, if its
 * elements would have to be copied. */
bool ts_alias_view(TsContext *c, const TsNode *n, TsTensor *from, TsTensor **out);

/* What v looks at in the end, itself if it is no view: a value that is given, whose tensor
 * given(arg, value) tells, or one that is no view or is copied. NULL with the error. The layout,
 * unless NULL, gets a tensor that lies as v does. */
TsVal ts_alias_root(TsContext *c, TsVal v, TsTensor *(*given)(void *arg, TsVal v), void *arg,
                    TsTensor **layout);

/* g's results share what its views say from now on (ts_graph_result_bytes), unless it says
 * already what they do: before anything is rewritten. -1 with the error. */
int ts_alias_note(TsContext *c, TsGraph *g);

/* Results that share bytes in g, rewritten, but shall not, are copies from now on: `clone` nodes
 * behind all others. -1 with the error. */
int ts_alias_part(TsContext *c, TsGraph *g);

#endif
