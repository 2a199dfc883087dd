/* Rewriting what is about to be differentiated: the part of a graph between given values and
 * what is differentiated by, before the reverse pass reads it. So attention, norms and losses
 * that are written out get the gradients of the operators that they are, and nothing keeps
 * the values in between for the reverse pass. */
#ifndef TS_IR_GRAPH_RECOGNISE_H
#define TS_IR_GRAPH_RECOGNISE_H

#include "ir/rules/rewrite.h"

/* The n values v of g, computed from nx values x, once more by the rules of o: v[i] becomes
 * the new value. The old one stays what the program reads until the function is complete, and
 * has the new one as its `instead`. All of v must be wanted: no rule takes one away. */
int ts_graph_recognise(TsGraph *g, int n, TsVal *v, int nx, const TsVal *x,
                       const TsRewriteOptions *o);

/* A complete graph with all values replaced that have others instead, so that there is one
 * forward pass: g itself if none has, else a graph in a module of its own with g's bound
 * handles. NULL with the error. */
TsGraph *ts_graph_settle(TsGraph *g);

#endif
