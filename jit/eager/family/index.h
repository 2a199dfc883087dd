/* What reads, writes and adds at indices on a device shares: where an element of the index
 * leads, and indices in range. */
#ifndef TS_JIT_OFFLOAD_INDEX_H
#define TS_JIT_OFFLOAD_INDEX_H

#include "jit/eager/family/order.h"

/* Element e of [dim..] leads to index[sum of c istride] step + sum of c stride, c being e's
 * coordinates. */
typedef struct TsIndexMap {
  int ndim;
  int64_t dim[TS_MAX_RANK], stride[TS_MAX_RANK], istride[TS_MAX_RANK];
  int64_t step, size; /* size: of the axis; negative indices count from its end */
  TsDtype index;
} TsIndexMap;

/* along: of the index, the axis that is indexed. `shape` is that of x, row-major. */
TsIndexMap ts_index_map(const TsMeta *shape, const TsMeta *index, int axis);
/* Of slices: [outer, count, inner] of an index of one axis. */
TsIndexMap ts_index_map_slices(const TsOwnAxis *a, int64_t count, TsDtype index);
int64_t ts_index_map_count(const TsIndexMap *m);
void ts_index_map_words(TsOwn *k, const TsIndexMap *m);
/* e: i64; -1 where the index is out of range, or e is not in [0, count). */
TsTileVal ts_index_map_at(TsTileBuild *b, const TsIndexMap *m, TsTileVal index, TsTileVal e);

bool ts_index_takes(const TsTensor *index); /* whole numbers */

/* Input `input` of the call holds numbers below size, as ts_index_open has them: 1, or it will
 * be told (jit/eager/guard.c); 0: it does not, the VM says so; -1. */
int ts_offload_in_range(TsOffloader *o, const TsCall *call, int device, int input, int axis,
                        int64_t size);

#endif
