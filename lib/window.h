/* Lists of numbers for the space axes of windows: pools, convolutions. Space axes are always three; an axis
 * that is not there has size 1. */
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

#endif
