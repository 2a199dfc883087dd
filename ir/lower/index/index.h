/* What reads, writes and adds at indices on a device shares: where an element of the index
 * leads, and indices in range. */
#ifndef TS_IR_LOWER_INDEX_H
#define TS_IR_LOWER_INDEX_H

#include "ir/lower/sort/order.h"

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
TsIndexMap ts_index_map_slices(const TsStepsAxis *a, int64_t count, TsDtype index);
int64_t ts_index_map_count(const TsIndexMap *m);
/* e: i64; -1 where the index is out of range, or e is not in [0, count). */
TsTileVal ts_index_map_at(TsTileBuild *b, const TsIndexMap *m, TsTileVal index, TsTileVal e);

bool ts_index_takes(const TsMeta *index); /* whole numbers */

#endif
