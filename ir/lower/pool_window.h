/* The geometry of a pool on a device, as pools and their gradients have it. */
#ifndef TS_IR_LOWER_POOL_WINDOW_H
#define TS_IR_LOWER_POOL_WINDOW_H

#include "lib/window.h"

typedef struct TsPoolWindow {
  bool last; /* channels are the last axis */
  int64_t batch, channels, in[3], out[3], window[3], stride[3], padding[3], dilation[3];
} TsPoolWindow;

static inline int64_t ts_pool_numel(const int64_t n[3]) { return n[0] * n[1] * n[2]; }

/* Of images x and windows y; a: the window, and behind it stride, padding, dilation, and whether
 * channels are last. False: a window is too large to be written out. */
static inline bool ts_pool_window(TsPoolWindow *w, const TsMeta *x, const TsMeta *y,
                                  const TsAttr *a) {
  enum { TAPS = 121 };
  *w = (TsPoolWindow){.last = a[4].i};
  int nd = x->ndim - 2, space = w->last ? 1 : 2;
  w->batch = x->dim[0], w->channels = x->dim[w->last ? nd + 1 : 1];
  ts_window_list(&a[0], nd, 1, w->window);
  ts_window_list(a[1].type == TS_ATTR_ints ? &a[1] : &a[0], nd, 1, w->stride);
  ts_window_list(&a[2], nd, 0, w->padding);
  ts_window_list(&a[3], nd, 1, w->dilation);
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    w->in[i] = at < 0 ? 1 : x->dim[space + at];
    w->out[i] = at < 0 ? 1 : y->dim[space + at];
  }
  return ts_pool_numel(w->window) <= TAPS;
}

#endif
