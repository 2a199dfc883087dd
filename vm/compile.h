/* From a captured graph to one that runs well: rewriting with the VM's own arithmetic for
 * constants. */
#ifndef TS_VM_COMPILE_H
#define TS_VM_COMPILE_H

#include "ir/graph.h"
#include "vm/capture.h"

/* The rewritten graph, with references of its own to bound tensors. log: a line a rule, or
 * NULL. Rounding rules apply unless the context's profile is strict. */
TsGraph *ts_compile_rewrite(TsContext *c, const TsGraph *g, TsText *log);

#endif
