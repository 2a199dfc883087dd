/* Graphs with symbolic sizes: made from two graphs of one function at different shapes, and
 * made concrete again for others. */
#ifndef TS_IR_SYMBOLIC_H
#define TS_IR_SYMBOLIC_H

#include "ir/graph/graph.h"
#include "ir/text/size.h"

typedef struct TsSymbolic {
  TsGraph *g; /* with packed sizes; a module of its own */
  int nsymbol;
} TsSymbolic;

/* The graph of which a and b are two cases: symbols are the sizes of parameters that differ,
 * all other differences must follow from them. NULL with the reason in why (not an error)
 * where they do not. Bound tensors are not counted. */
TsSymbolic *ts_graph_generalise(const TsGraph *a, const TsGraph *b, TsText *why);
void ts_symbolic_free(TsSymbolic *s);

/* The symbols' values for the given types of its unbound parameters; false where these are no
 * case of it. */
bool ts_symbolic_solve(const TsSymbolic *s, int n, const TsMeta *const *arg,
                       int64_t value[TS_SYMBOLS]);
/* The case for these values, inferred and checked anew. NULL with the error. */
TsGraph *ts_symbolic_at(const TsSymbolic *s, const int64_t value[TS_SYMBOLS], TsError *err);
/* "B % 4 == 0" for each division that the sizes need, after "where"; nothing if there is
 * none. */
void ts_symbolic_constraints(const TsSymbolic *s, TsText *t);

#endif
