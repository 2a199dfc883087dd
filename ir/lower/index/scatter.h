/* Kernels of what writes and adds at indices, for ir/lower/index/scatter.c. */
#ifndef TS_IR_LOWER_SCATTER_H
#define TS_IR_LOWER_SCATTER_H

#include "ir/lower/index/index.h"

typedef enum TsMeet { MEET_last, MEET_sum, MEET_mean, MEET_prod, MEET_min, MEET_max } TsMeet;

typedef struct TsScatter {
  TsOp op;
  TsMeet meet;
  TsDtype d, src, acc; /* of x and y; of what is added; in which it is */
  bool begins;         /* sums begin with the first element, and there is no x */
  uint64_t empty;      /* of acc's bits, where there is none then */
  TsIndexMap map;
  int axis;             /* of the map that is indexed; of slices 1 */
  int64_t outer, inner; /* slices */
} TsScatter;

/* Where each element leads: parameters index, to (i32). Sizes I, N. Those out of range lead
 * behind y's last element, whose number is size Y. */
TsTile *ts_scatter_leads(const TsScatter *s);
/* Chains side by side, one after the other along the axis: index, src, y. Sizes I, S, Y,
 * lines. */
TsTile *ts_scatter_lines(const TsScatter *s);
/* y by its elements: key, place, src, x?, y. Sizes N, Y, S, steps. */
TsTile *ts_scatter_owners(const TsScatter *s);
/* Where the runs of equal keys begin: key, start (i32[Y + 1]). Sizes N, Y, Y + 1, steps. */
TsTile *ts_scatter_starts(const TsScatter *s);
/* y by its slices: start, place, src [outer, N, inner], x?, y [outer, Y, inner]. Sizes N, Y,
 * Y + 1. */
TsTile *ts_scatter_slices(const TsScatter *s);

#endif
