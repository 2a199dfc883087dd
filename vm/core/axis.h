/* Rows along one axis: what works on rows sees them contiguous, whatever the strides
 * and the axis. */
#ifndef TS_VM_AXIS_H
#define TS_VM_AXIS_H

#include "vm/core/vm.h"

typedef struct TsAxisRows {
  TsTensor *t; /* one reference; axis is its last */
  const char *at;
  int64_t rows, n; /* n elements in each */
} TsAxisRows;

/* axis < 0: one row of all elements; a scalar is a row of one. -1 with the error filled. */
int ts_axis_read(TsContext *c, TsTensor *x, int axis, TsAxisRows *rows);

/* Room for an output in row form: its own storage where axis is the last one, else
 * scratch that _close copies to its place and frees. */
typedef struct TsAxisOut {
  TsTensor *t;
  int axis;
  char *at;
  int64_t scratch; /* bytes, or 0 */
} TsAxisOut;

int ts_axis_open(TsContext *c, TsTensor *out, int axis, TsAxisOut *o);
void ts_axis_close(TsAxisOut *o);

#endif
