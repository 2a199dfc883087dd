/* Windows over space axes: pools, convolutions. Space axes are always three; an axis that is
 * not there has size 1. */
#ifndef TS_LIB_WINDOW_H
#define TS_LIB_WINDOW_H

#include "lib/op.h"

/* An attribute's list, one number meaning all nd axes, right-aligned to three. */
static inline void ts_window_list(const TsAttr *a, int nd, int64_t absent, int64_t out[3]) {
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    out[i] = at < 0 ? absent : a->ints[a->n == 1 ? 0 : at];
  }
}

/* The geometry of a convolution. */
typedef struct TsConv {
  TsDtype acc; /* of its sums */
  int nd;
  int64_t batch, groups, cg, og; /* channels of one group in and out */
  int64_t in[3], out[3], window[3], stride[3], before[3], after[3], dilation[3];
} TsConv;

#endif
