/* See lib/resample.h. */
#include "lib/resample.h"

#include <math.h>

int ts_resample_taps(int mode) {
  static const int taps[] = {1, 2, 4, 1};
  return taps[mode];
}

static void cubic_weights(double t, double w[4]) {
  const double a = -0.75;
  double u = 1 - t, far0 = t + 1, far1 = u + 1;
  w[0] = ((a * far0 - 5 * a) * far0 + 8 * a) * far0 - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
  w[3] = ((a * far1 - 5 * a) * far1 + 8 * a) * far1 - 4 * a;
}

static double position(const TsResample *r, int64_t o) {
  double p;
  if (r->corners)
    return r->out > 1 ? (double)o * (double)(r->in - 1) / (double)(r->out - 1) : 0;
  double step = r->scale > 0 ? 1 / r->scale : (double)r->in / (double)r->out;
  p = ((double)o + 0.5) * step - 0.5;
  return r->mode == TS_RESAMPLE_linear && p < 0 ? 0 : p;
}

static int64_t nearest(const TsResample *r, int64_t o) {
  bool exact = r->mode == TS_RESAMPLE_nearest_exact;
  double place = exact ? (double)o + 0.5 : (double)o;
  int64_t halves = exact ? 2 * o + 1 : 2 * o;
  int64_t i = r->scale > 0 ? (int64_t)floor(place / r->scale) : halves * r->in / (2 * r->out);
  return i < r->in ? i : r->in - 1;
}

void ts_resample_at(const TsResample *r, int64_t o, int64_t at[TS_RESAMPLE_TAPS],
                    double w[TS_RESAMPLE_TAPS]) {
  int64_t first = 0;
  w[0] = 1;
  if (ts_resample_taps(r->mode) == 1) {
    first = nearest(r, o);
  } else {
    double p = position(r, o), i = floor(p);
    first = (int64_t)i - (r->mode == TS_RESAMPLE_cubic);
    if (r->mode == TS_RESAMPLE_cubic)
      cubic_weights(p - i, w);
    else
      w[1] = p - i, w[0] = 1 - w[1];
  }
  for (int t = 0; t < ts_resample_taps(r->mode); t++) {
    int64_t i = first + t;
    at[t] = i < 0 ? 0 : i >= r->in ? r->in - 1 : i;
  }
}
