/* From a captured graph to one that runs well: rewriting with the VM's own arithmetic for
 * constants. */
#ifndef TS_VM_COMPILE_H
#define TS_VM_COMPILE_H

#include "ir/graph/graph.h"
#include "vm/core/capture.h"

/* The rewritten graph, with references of its own to bound tensors. log: a line a rule, or
 * NULL. Rounding rules apply unless the context's profile is strict. Results share bytes where
 * those of g do (vm/code/alias.h). */
TsGraph *ts_compile_rewrite(TsContext *c, TsGraph *g, TsText *log);

/* n values of g, of which some are sums of derivatives of derivatives, by collapsed jets
 * (ir/jets/jets.h): v[i] becomes the new value. nx others may be differentiated by. Not in the
 * profile strict. 0, or -1 with the error. */
int ts_compile_jets(TsContext *c, TsGraph *g, int n, TsVal *v, int nx, const TsVal *x);
/* Notes why, if they are gradients and are about to be differentiated. 0, or -1 with the error. */
int ts_compile_jets_refused(TsContext *c, TsGraph *g, int n, const TsVal *v);

/* n values of g, to be differentiated by nx others or kept, by recognised operators
 * (ir/rules/recognise.h), while g is captured. Not in the strict profile: there a gradient is
 * that of the operators that the program wrote. -1 with the error. */
int ts_compile_recognise(TsContext *c, TsGraph *g, int n, TsVal *v, int nx, const TsVal *x);

/* The same with exact rules alone: of code whose author asked for nothing. */
TsGraph *ts_compile_exact(TsContext *c, const TsGraph *g);

#endif
