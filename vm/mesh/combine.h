/* Summands of devices become sums. */
#ifndef TS_VM_MESH_COMBINE_H
#define TS_VM_MESH_COMBINE_H

#include "vm/mesh/leaves.h"

/* Parts whose places differ along `axes` alone have summands of one sum: sum[p][0..nsum[p]) of
 * part p, subtrees of a tree of so many leaves. out[p]: the sum, rounded to dtype, on its device;
 * a reference each. 0, or -1 with what was made in out. */
int ts_mesh_combine(TsContext *c, const TsMesh *m, uint8_t axes, TsFactorKind kind, int leaves,
                    TsDtype dtype, TsLeafSum *const *sum, const int *nsum, TsTensor **out);
/* The same where each part gets its piece of the sum alone: summands lie as `from` says, the
 * sum, of type whole, under whole's layout. */
int ts_mesh_combine_scattered(TsContext *c, const TsMeta *whole, const TsLayout *from,
                              uint8_t axes, TsFactorKind kind, int leaves,
                              TsLeafSum *const *sum, const int *nsum, TsTensor **out);

#endif
