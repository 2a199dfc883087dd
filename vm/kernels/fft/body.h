/* The Fourier kernels for one type, included once by vm/kernels/fft/f32.c and
 * vm/kernels/fft/f64.c: products with constants, packing of real transforms, cosine
 * transforms (sections 3 to 7 of the definition in fft.h), and the table. Each step has two
 * forms with the same arithmetic: on rows (a lane is a transform) and on a line (one
 * transform in contiguous memory). */
#ifndef TS_VM_KERNELS_FFT_BODY_H
#define TS_VM_KERNELS_FFT_BODY_H

#include "vm/kernels/fft/move.h"
#include "vm/kernels/fft/radix.h"

typedef struct one {
  real re, im;
} one;

INLINE one cmul1(one a, real wr, real wi) {
  return (one){fma1(a.re, wr, -(a.im * wi)), fma1(a.re, wi, a.im * wr)};
}

INLINE cvec get_row(const real *row) { return (cvec){get(row), get(row + LANES)}; }
INLINE void put_row(real *row, cvec v) {
  put(row, v.re);
  put(row + LANES, v.im);
}

static void mul_rows(void *xp, const void *wp, int64_t n, int swap_in, int swap_out) {
  real *x = xp;
  const real *w = wp;
  for (int64_t i = 0; i < n; i++, x += ROW)
    for (int at = 0; at < LANES; at += W) {
      cvec a = get_row(x + at);
      if (swap_in) a = (cvec){a.im, a.re};
      a = cmul(a, all(w[2 * i]), all(w[2 * i + 1]));
      if (swap_out) a = (cvec){a.im, a.re};
      put_row(x + at, a);
    }
}

static void mul_line(const void *xp, const void *wp, void *yp, int64_t n, int swap_in,
                     int swap_out, double scale) {
  const real *x = xp, *w = wp;
  real *y = yp, f = (real)scale;
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    cvec a = get_line(x + 2 * i), c = get_line(w + 2 * i);
    if (swap_in) a = (cvec){a.im, a.re};
    a = cmul(a, c.re, c.im);
    if (swap_out) a = (cvec){a.im, a.re};
    put_line(y + 2 * i, (cvec){a.re * all(f), a.im * all(f)});
  }
  for (; i < n; i++) {
    one a = {x[2 * i + swap_in], x[2 * i + 1 - swap_in]};
    a = cmul1(a, w[2 * i], w[2 * i + 1]);
    y[2 * i + swap_out] = a.re * f;
    y[2 * i + 1 - swap_out] = a.im * f;
  }
}

/* With a rounding at every step, as the pointwise kernel of complex products has them. */
INLINE cvec product(cvec a, cvec c) {
  return (cvec){a.re * c.re - a.im * c.im, a.re * c.im + a.im * c.re};
}

static void filter_rows(void *xp, const void *hp, int64_t n, int each, int swap_out,
                        double scale) {
  real *x = xp;
  const real *h = hp;
  vec f = all((real)scale);
  for (int64_t i = 0; i < n; i++, x += ROW)
    for (int at = 0; at < LANES; at += W) {
      cvec a = get_row(x + at);
      cvec c = each ? get_row(h + i * ROW + at) : (cvec){all(h[2 * i]), all(h[2 * i + 1])};
      a = product((cvec){a.re * f, a.im * f}, c);
      if (swap_out) a = (cvec){a.im, a.re};
      put_row(x + at, a);
    }
}

/* The rest goes through vectors too: of a loop over pairs gcc makes fused operations. */
static void filter_line(void *xp, const void *hp, int64_t n) {
  real *x = xp, part[4 * W] = {0};
  const real *h = hp;
  for (; n >= W; n -= W, x += 2 * W, h += 2 * W) put_line(x, product(get_line(x), get_line(h)));
  size_t rest = sizeof(real) * 2 * (size_t)n;
  memcpy(part, x, rest);
  memcpy(part + 2 * W, h, rest);
  put_line(part, product(get_line(part), get_line(part + 2 * W)));
  memcpy(x, part, rest);
}

/* Bins k and h - k of a half spectrum out of the same of the packed transform. */
INLINE void split_pair(cvec *a, cvec *b, vec wr, vec wi) {
  vec h = all((real)0.5);
  cvec e = {h * (a->re + b->re), h * (a->im - b->im)};
  cvec o = {h * (a->im + b->im), h * (b->re - a->re)};
  cvec p = cmul(o, wr, wi);
  *a = add(e, p);
  *b = (cvec){e.re - p.re, p.im - e.im};
}

/* And back; the results have re and im exchanged. */
INLINE void merge_pair(cvec *a, cvec *b, vec wr, vec wi) {
  cvec e = {a->re + b->re, a->im - b->im}, g = {a->re - b->re, a->im + b->im};
  cvec p = cmul(g, wr, -wi);
  *a = (cvec){e.im + p.re, e.re - p.im};
  *b = (cvec){p.re - e.im, e.re + p.im};
}

static void split_rows(void *zp, const void *wp, int64_t h) {
  real *z = zp, *top = z + h * ROW, *mid = z + h / 2 * ROW;
  const real *w = wp;
  for (int at = 0; at < LANES; at += W) {
    cvec a = get_row(z + at);
    put_row(z + at, (cvec){a.re + a.im, (vec){0}});
    put_row(top + at, (cvec){a.re - a.im, (vec){0}});
    if (h % 2 == 0) put(mid + LANES + at, -get(mid + LANES + at));
  }
  for (int64_t k = 1; 2 * k < h; k++)
    for (int at = 0; at < LANES; at += W) {
      real *x = z + k * ROW + at, *y = z + (h - k) * ROW + at;
      cvec a = get_row(x), b = get_row(y);
      split_pair(&a, &b, all(w[2 * k]), all(w[2 * k + 1]));
      put_row(x, a);
      put_row(y, b);
    }
}

static void merge_rows(void *xp, const void *wp, int64_t h) {
  real *x = xp, *top = x + h * ROW, *mid = x + h / 2 * ROW;
  const real *w = wp;
  vec two = all(2);
  for (int at = 0; at < LANES; at += W) {
    vec a = get(x + at), b = get(top + at);
    put_row(x + at, (cvec){a - b, a + b});
    if (h % 2 == 0) {
      cvec c = get_row(mid + at);
      put_row(mid + at, (cvec){-(c.im * two), c.re * two});
    }
  }
  for (int64_t k = 1; 2 * k < h; k++)
    for (int at = 0; at < LANES; at += W) {
      real *y = x + k * ROW + at, *z = x + (h - k) * ROW + at;
      cvec a = get_row(y), b = get_row(z);
      merge_pair(&a, &b, all(w[2 * k]), all(w[2 * k + 1]));
      put_row(y, a);
      put_row(z, b);
    }
}

/* Up to W pairs of bins of a line, those from k and those down from m; the others of a
 * vector are left as they are. */
INLINE void line_pairs(const real *z, const real *w, real *x, int64_t k, int64_t m, int n,
                       int merge, vec f) {
  real part[6 * W];
  const real *lo = z + 2 * k, *hi = z + 2 * (m - W + 1), *root = w + 2 * k;
  real *to_lo = x + 2 * k, *to_hi = x + 2 * (m - W + 1);
  if (n < W) {
    memset(part, 0, sizeof part);
    memcpy(part, lo, sizeof(real) * 2 * (size_t)n);
    memcpy(part + 4 * W - 2 * n, z + 2 * (m - n + 1), sizeof(real) * 2 * (size_t)n);
    memcpy(part + 4 * W, root, sizeof(real) * 2 * (size_t)n);
    lo = to_lo = part;
    hi = to_hi = part + 2 * W;
    root = part + 4 * W;
  }
  cvec a = get_line(lo), b = get_line(hi), c = get_line(root);
  b = (cvec){back(b.re), back(b.im)};
  if (merge)
    merge_pair(&a, &b, c.re, c.im);
  else
    split_pair(&a, &b, c.re, c.im);
  put_line(to_lo, (cvec){a.re * f, a.im * f});
  put_line(to_hi, (cvec){back(b.re) * f, back(b.im) * f});
  if (n < W) {
    memcpy(x + 2 * k, part, sizeof(real) * 2 * (size_t)n);
    memcpy(x + 2 * (m - n + 1), part + 4 * W - 2 * n, sizeof(real) * 2 * (size_t)n);
  }
}

INLINE void line_loop(const real *z, const real *w, real *x, int64_t h, int merge, vec f) {
  int64_t pairs = (h - 1) / 2, k = 1;
  for (; k + W <= pairs + 1; k += W) line_pairs(z, w, x, k, h - k, W, merge, f);
  if (k <= pairs) line_pairs(z, w, x, k, h - k, (int)(pairs + 1 - k), merge, f);
}

static void split_line(const void *zp, const void *w, void *xp, int64_t h, double scale) {
  const real *z = zp;
  real *x = xp, f = (real)scale, a = z[0], b = z[1];
  if (h % 2 == 0) {
    real re = z[h], im = -z[h + 1];
    x[h] = re * f;
    x[h + 1] = im * f;
  }
  x[0] = (a + b) * f;
  x[1] = 0 * f;
  x[2 * h] = (a - b) * f;
  x[2 * h + 1] = 0 * f;
  line_loop(z, w, x, h, 0, all(f));
}

static void merge_line(const void *xp, const void *w, void *zp, int64_t h) {
  const real *x = xp;
  real *z = zp, a = x[0], b = x[2 * h];
  if (h % 2 == 0) {
    real re = x[h], im = x[h + 1];
    z[h] = -(im * 2);
    z[h + 1] = re * 2;
  }
  z[0] = a - b;
  z[1] = a + b;
  line_loop(x, w, z, h, 1, all(1));
}

static void dct2_rows(const void *vp, const void *wp, void *yp, int64_t n, double scale,
                      double dc) {
  const real *v = vp, *w = wp;
  real *y = yp, f = (real)(2 * scale), f0 = (real)(2 * scale * dc);
  for (int at = 0; at < LANES; at += W) put(y + at, get(v + at) * all(f0));
  for (int64_t k = 1; 2 * k <= n; k++)
    for (int at = 0; at < LANES; at += W) {
      cvec p = cmul(get_row(v + k * ROW + at), all(w[2 * k]), all(w[2 * k + 1]));
      put(y + (n - k) * LANES + at, -p.im * all(f));
      put(y + k * LANES + at, p.re * all(f));
    }
}

static void dct2_line(const void *vp, const void *wp, void *yp, int64_t n, double scale,
                      double dc) {
  const real *v = vp, *w = wp;
  real *y = yp, f = (real)(2 * scale), f0 = (real)(2 * scale * dc);
  y[0] = v[0] * f0;
  for (int64_t k = 1; 2 * k <= n; k++) {
    one p = cmul1((one){v[2 * k], v[2 * k + 1]}, w[2 * k], w[2 * k + 1]);
    y[n - k] = -p.im * f;
    y[k] = p.re * f;
  }
}

static void dct3_rows(const void *xp, const void *wp, void *vp, int64_t n, double dc) {
  const real *x = xp, *w = wp;
  real *v = vp, f = (real)dc;
  for (int at = 0; at < LANES; at += W) put_row(v + at, (cvec){get(x + at) * all(f), (vec){0}});
  for (int64_t k = 1; 2 * k <= n; k++)
    for (int at = 0; at < LANES; at += W) {
      cvec a = {get(x + k * LANES + at), -get(x + (n - k) * LANES + at)};
      put_row(v + k * ROW + at, cmul(a, all(w[2 * k]), all(-w[2 * k + 1])));
    }
}

static void dct3_line(const void *xp, const void *wp, void *vp, int64_t n, double dc) {
  const real *x = xp, *w = wp;
  real *v = vp, f = (real)dc;
  v[0] = x[0] * f;
  v[1] = 0;
  for (int64_t k = 1; 2 * k <= n; k++) {
    one p = cmul1((one){x[k], -x[n - k]}, w[2 * k], -w[2 * k + 1]);
    v[2 * k] = p.re;
    v[2 * k + 1] = p.im;
  }
}

static void fill(TsFftReal *k) {
  *k = (TsFftReal){.chain = chain,
                   .load_real = load_real,
                   .load_complex = load_complex,
                   .store_real = store_real,
                   .store_complex = store_complex,
                   .transpose = transpose,
                   .mul_rows = mul_rows,
                   .mul_line = mul_line,
                   .filter_rows = filter_rows,
                   .filter_line = filter_line,
                   .split_rows = split_rows,
                   .split_line = split_line,
                   .merge_rows = merge_rows,
                   .merge_line = merge_line,
                   .dct2_rows = dct2_rows,
                   .dct2_line = dct2_line,
                   .dct3_rows = dct3_rows,
                   .dct3_line = dct3_line};
}

#endif
