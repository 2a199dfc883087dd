/* The space of a group: axes that divide the shapes of its nodes. */
#ifndef TS_IR_SCHED_SPACE_H
#define TS_IR_SCHED_SPACE_H

#include "ir/sched/sched.h"

typedef struct TsSpaceAxes {
  int naxis, nrow;
  bool columns; /* the last nrow axes are columns, the others are reduced */
  int64_t axis[TS_TILE_RANK];
} TsSpaceAxes;

/* The coarsest axes of which both a's and m's sizes are products, with a boundary before the
 * last `row` elements if row > 0. False if there are none, or too many. */
bool ts_space_refine(const TsSpaceAxes *a, const TsMeta *m, int64_t row, TsSpaceAxes *out);

/* How an operand of a node moves along the axes, in elements: the node has shape `at` and covers
 * all axes, or all but the rows', or the columns alone (by its size); the operand is broadcast
 * to it and lies with these strides (NULL: row-major). False where its sizes do not divide the
 * axes. */
bool ts_space_strides(const TsSpaceAxes *a, const TsMeta *at, const TsMeta *operand,
                      const int64_t *stride, int64_t *out);
/* The same for something row-major that covers all axes, or those of row values. */
void ts_space_own(const TsSpaceAxes *a, bool full, int64_t *out);

#endif
