/* Conventions of transforms. See lib/fft.h. */
#include "lib/fft.h"

#include <math.h>

int ts_fft_norm(int64_t word) {
  static const int of[] = {TS_FFT_ortho, TS_FFT_backward, TS_FFT_forward};
  return of[word];
}

TsFftScale ts_fft_scale(int kind, bool inverse, int64_t length, int norm) {
  TsFftScale s = {1, 1};
  bool cosine = kind >= TS_FFT_dct2;
  bool plus = kind == TS_FFT_c2r || kind == TS_FFT_dct3 || (kind == TS_FFT_c2c && inverse);
  long double n = (long double)length * (cosine ? 2 : 1);
  if (norm == TS_FFT_ortho) {
    s.scale = (double)(1 / sqrtl(n));
    if (kind == TS_FFT_dct2) s.dc = (double)sqrtl(0.5L);
    if (kind == TS_FFT_dct3) s.dc = (double)sqrtl(2);
  } else if (norm == (plus ? TS_FFT_backward : TS_FFT_forward)) {
    s.scale = (double)(1 / n);
  }
  return s;
}
