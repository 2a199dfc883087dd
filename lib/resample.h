/* Where an output of interpolate takes its elements from along one axis: the definition that
 * the VM (vm/exec/interpolate.c, which says it in words) and tables of kernels share. */
#ifndef TS_LIB_RESAMPLE_H
#define TS_LIB_RESAMPLE_H

#include <stdbool.h>
#include <stdint.h>

/* In the order of the attribute's words. */
enum {
  TS_RESAMPLE_nearest,
  TS_RESAMPLE_linear,
  TS_RESAMPLE_cubic,
  TS_RESAMPLE_nearest_exact,
  TS_RESAMPLE_TAPS = 4 /* at most */
};

typedef struct TsResample {
  int mode;
  bool corners;
  int64_t in, out; /* elements */
  double scale;    /* as the call gave it; 0: by the sizes */
} TsResample;

int ts_resample_taps(int mode);
/* Elements and weights of output o, which is below out. */
void ts_resample_at(const TsResample *r, int64_t o, int64_t at[TS_RESAMPLE_TAPS],
                    double w[TS_RESAMPLE_TAPS]);

#endif
