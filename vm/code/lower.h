/* Graph IR to bytecode. */
#ifndef TS_VM_LOWER_H
#define TS_VM_LOWER_H

#include "ir/graph/graph.h"
#include "vm/code/bytecode.h"
#include "vm/core/capture.h"
#include "vm/code/fused.h"

/* The same with arguments that the caller gives away: results may take over their bytes. One
 * flag for each parameter. */
TsCode *ts_lower_donating(TsContext *c, const TsGraph *g, const bool *donated);

/* The same with kernels for groups of nodes (NULL: none). */
TsCode *ts_lower_fused(TsContext *c, const TsGraph *g, const bool *donated,
                       const TsFusion *fusion);

/* The code of g: live nodes in their order, constants computed now, updates in place where
 * the old value is not needed, planned and verified. Bound parameters keep their tensors. */
TsCode *ts_lower(TsContext *c, const TsGraph *g);

#endif
