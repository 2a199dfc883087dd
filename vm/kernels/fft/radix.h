/* Butterflies and passes of a chain (definition: fft.h). A pass is one inlined function
 * of the radix and of the kind of roots behind it, so that each pair becomes straight
 * code; odd primes above 7 share one with a variable radix. */
#ifndef TS_VM_KERNELS_FFT_RADIX_H
#define TS_VM_KERNELS_FFT_RADIX_H

#include "vm/kernels/fft/simd.h"

typedef struct Pass {
  const real *x, *w, *root, *tw;
  real *y;
  int64_t xs, ys, tws, m, s; /* strides of rows, in reals */
} Pass;

/* What multiplies the outputs of a pass. */
enum { INNER, PLAIN, ONE, EACH };

INLINE cvec add(cvec a, cvec b) { return (cvec){a.re + b.re, a.im + b.im}; }
INLINE cvec sub(cvec a, cvec b) { return (cvec){a.re - b.re, a.im - b.im}; }
/* a - i b and a + i b. */
INLINE cvec sub_i(cvec a, cvec b) { return (cvec){a.re + b.im, a.im - b.re}; }
INLINE cvec add_i(cvec a, cvec b) { return (cvec){a.re - b.im, a.im + b.re}; }

INLINE void four(cvec *a0, cvec *a1, cvec *a2, cvec *a3) {
  cvec t0 = add(*a0, *a2), t1 = sub(*a0, *a2), t2 = add(*a1, *a3), t3 = sub(*a1, *a3);
  *a0 = add(t0, t2);
  *a1 = sub_i(t1, t3);
  *a2 = sub(t0, t2);
  *a3 = add_i(t1, t3);
}

INLINE void eight(cvec *a) {
  vec h = all((real)0.70710678118654752440), g = -h;
  four(&a[0], &a[2], &a[4], &a[6]);
  four(&a[1], &a[3], &a[5], &a[7]);
  cvec e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6], o0 = a[1], o1 = a[3], o2 = a[5], o3 = a[7];
  a[0] = add(e0, o0);
  a[4] = sub(e0, o0);
  a[2] = sub_i(e2, o2);
  a[6] = add_i(e2, o2);
  vec s = o1.re + o1.im, d = o1.im - o1.re;
  a[1] = (cvec){fma3(h, s, e1.re), fma3(h, d, e1.im)};
  a[5] = (cvec){fma3(g, s, e1.re), fma3(g, d, e1.im)};
  s = o3.re + o3.im, d = o3.im - o3.re;
  a[3] = (cvec){fma3(h, d, e3.re), fma3(g, s, e3.im)};
  a[7] = (cvec){fma3(g, d, e3.re), fma3(h, s, e3.im)};
}

/* Odd r: root holds r cosines, then r sines. */
INLINE void odd_radix(int r, const real *root, cvec *a, cvec *y) {
  int half = r / 2;
  cvec sum = a[0];
  UNROLL for (int j = 1; j <= half; j++) {
    cvec p = add(a[j], a[r - j]), d = sub(a[j], a[r - j]);
    sum = add(sum, p);
    a[j] = p;
    a[r - j] = d;
  }
  y[0] = sum;
  UNROLL for (int k = 1; k <= half; k++) {
    vec s1 = all(root[r + k]);
    cvec c = a[0], e = {s1 * a[r - 1].re, s1 * a[r - 1].im};
    c.re = fma3(all(root[k]), a[1].re, c.re);
    c.im = fma3(all(root[k]), a[1].im, c.im);
    UNROLL for (int j = 2; j <= half; j++) {
      vec cs = all(root[j * k % r]), sn = all(root[r + j * k % r]);
      c.re = fma3(cs, a[j].re, c.re);
      c.im = fma3(cs, a[j].im, c.im);
      e.re = fma3(sn, a[r - j].re, e.re);
      e.im = fma3(sn, a[r - j].im, e.im);
    }
    y[k] = sub_i(c, e);
    y[r - k] = add_i(c, e);
  }
}

INLINE void butterfly(int r, const real *root, cvec *a, cvec *y) {
  if (r == 2) {
    y[0] = add(a[0], a[1]);
    y[1] = sub(a[0], a[1]);
  } else if (r == 4) {
    four(&a[0], &a[1], &a[2], &a[3]);
    UNROLL for (int j = 0; j < 4; j++) y[j] = a[j];
  } else if (r == 8) {
    eight(a);
    UNROLL for (int j = 0; j < 8; j++) y[j] = a[j];
  } else {
    odd_radix(r, root, a, y);
  }
}

INLINE cvec twist(int kind, const Pass *f, int64_t p, int r, int j, int64_t row, cvec v,
                  int at) {
  if (kind == INNER && j > 0 && p > 0) {
    const real *w = f->w + 2 * ((p - 1) * (r - 1) + j - 1);
    v = cmul(v, all(w[0]), all(w[1]));
  } else if (kind == ONE) {
    const real *w = f->tw + row * f->tws;
    v = cmul(v, all(w[0]), all(w[LANES]));
  } else if (kind == EACH) {
    const real *w = f->tw + row * f->tws + at;
    v = cmul(v, get(w), get(w + LANES));
  }
  return v;
}

INLINE void pass(int r, int kind, const Pass *f) {
  int64_t m = f->m, s = f->s;
  for (int64_t p = 0; p < m; p++)
    for (int64_t q = 0; q < s; q++)
      for (int at = 0; at < LANES; at += W) {
        cvec a[8], y[8];
        const real *x = f->x + (q + s * p) * f->xs + at;
        int64_t row = q + s * r * p, step = s * m * f->xs;
        UNROLL for (int j = 0; j < r; j++) a[j] =
            (cvec){get(x + j * step), get(x + j * step + LANES)};
        butterfly(r, f->root, a, y);
        if (kind == INNER && p > 0) {
          UNROLL for (int j = 1; j < r; j++) y[j] = twist(kind, f, p, r, j, 0, y[j], at);
        }
        UNROLL for (int j = 0; j < r; j++) {
          cvec v = kind >= ONE ? twist(kind, f, p, r, j, row + s * j, y[j], at) : y[j];
          real *o = f->y + (row + s * j) * f->ys + at;
          put(o, v.re);
          put(o + LANES, v.im);
        }
      }
}

#define PASSES(r)                                                                              \
  static void inner_##r(const Pass *f) { pass(r, INNER, f); }                                  \
  static void plain_##r(const Pass *f) { pass(r, PLAIN, f); }                                  \
  static void one_##r(const Pass *f) { pass(r, ONE, f); }                                      \
  static void each_##r(const Pass *f) { pass(r, EACH, f); }
PASSES(2)
PASSES(3)
PASSES(4)
PASSES(5)
PASSES(7)
PASSES(8)
#undef PASSES

/* odd_radix for one output pair of a radix known only now; a holds a0, sums, differences. */
static void any_output(int r, int k, const real *root, const cvec *a, cvec *y) {
  vec s1 = all(root[r + k]);
  cvec c = a[0], e = {s1 * a[r - 1].re, s1 * a[r - 1].im};
  c.re = fma3(all(root[k]), a[1].re, c.re);
  c.im = fma3(all(root[k]), a[1].im, c.im);
  for (int j = 2, at = 2 * k % r; j <= r / 2; j++) {
    vec cs = all(root[at]), sn = all(root[r + at]);
    c.re = fma3(cs, a[j].re, c.re);
    c.im = fma3(cs, a[j].im, c.im);
    e.re = fma3(sn, a[r - j].re, e.re);
    e.im = fma3(sn, a[r - j].im, e.im);
    at = at + k < r ? at + k : at + k - r;
  }
  y[k] = sub_i(c, e);
  y[r - k] = add_i(c, e);
}

static void any_butterfly(int r, const real *root, cvec *a, cvec *y) {
  cvec sum = a[0];
  for (int j = 1; j <= r / 2; j++) {
    cvec p = add(a[j], a[r - j]), d = sub(a[j], a[r - j]);
    sum = add(sum, p);
    a[j] = p;
    a[r - j] = d;
  }
  y[0] = sum;
  for (int k = 1; k <= r / 2; k++) any_output(r, k, root, a, y);
}

static void any_radix(int r, int kind, const Pass *f) {
  for (int64_t p = 0; p < f->m; p++)
    for (int64_t q = 0; q < f->s; q++)
      for (int at = 0; at < LANES; at += W) {
        cvec a[TS_FFT_PRIME], y[TS_FFT_PRIME];
        const real *x = f->x + (q + f->s * p) * f->xs + at;
        int64_t row = q + f->s * r * p, step = f->s * f->m * f->xs;
        for (int j = 0; j < r; j++) a[j] = (cvec){get(x + j * step), get(x + j * step + LANES)};
        any_butterfly(r, f->root, a, y);
        for (int j = 0; j < r; j++) {
          cvec v = twist(kind, f, p, r, j, row + f->s * j, y[j], at);
          real *o = f->y + (row + f->s * j) * f->ys + at;
          put(o, v.re);
          put(o + LANES, v.im);
        }
      }
}

static void run_pass(int r, int kind, const Pass *f) {
  typedef void Run(const Pass *);
  static Run *const table[9][4] = {
      [2] = {inner_2, plain_2, one_2, each_2}, [3] = {inner_3, plain_3, one_3, each_3},
      [4] = {inner_4, plain_4, one_4, each_4}, [5] = {inner_5, plain_5, one_5, each_5},
      [7] = {inner_7, plain_7, one_7, each_7}, [8] = {inner_8, plain_8, one_8, each_8}};
  if (r <= 8)
    table[r][kind](f);
  else
    any_radix(r, kind, f);
}

/* All passes over one row of lanes: the first reads x, the last writes y, those between
 * stay in two L1 buffers. */
static void chain(const TsFftChain *c, const void *x, int64_t xs, void *y, int64_t ys,
                  const TsFftTwist *tw) {
  real buffer[2][TS_FFT_LEAF * ROW] __attribute__((aligned(64)));
  int size = (int)sizeof(real);
  Pass f = {.x = x, .xs = xs / size, .s = 1, .m = c->n};
  if (c->n == 1) memcpy(y, x, TS_FFT_ROW); /* never inside a node, so without roots */
  for (int i = 0; i < c->count; i++) {
    int r = c->radix[i], last = i == c->count - 1, kind = INNER;
    f.m /= r;
    f.w = c->w[i];
    f.root = c->root[i];
    f.y = last ? (real *)y : buffer[i & 1];
    f.ys = last ? ys / size : ROW;
    if (last) {
      kind = !tw->w ? PLAIN : tw->each ? EACH : ONE;
      f.tw = (const real *)tw->w;
      f.tws = tw->step / size;
    }
    run_pass(r, kind, &f);
    f.s *= r;
    f.x = f.y;
    f.xs = ROW;
  }
}

#endif
