/* Between strided memory and rows of work memory: loads, stores, transposition. Three
 * ways each: lanes adjacent (whole vectors), elements of a transform adjacent (square
 * transposes), and one by one. */
#ifndef TS_VM_KERNELS_FFT_MOVE_H
#define TS_VM_KERNELS_FFT_MOVE_H

#include "vm/kernels/fft/simd.h"

/* How many of the elements first, first + by, ... are below valid. */
static int64_t present(const TsFftPort *p, int64_t first, int64_t by, int64_t count) {
  if (first >= p->valid) return 0;
  int64_t n = (p->valid - first + by - 1) / by;
  return n < count ? n : count;
}

static const real *source(const TsFftPort *p, int lane, int64_t i) {
  return (const real *)(p->base + p->off[lane] + i * p->step);
}

static real *target(const TsFftPort *p, int lane, int64_t i) {
  return (real *)(p->base + p->off[lane] + i * p->step);
}

static void load_one(const TsFftPort *p, int64_t i, real *row) {
  memset(row, 0, sizeof(real) * LANES);
  for (int l = 0; l < p->lanes; l++) row[l] = *source(p, l, i);
}

/* count adjacent reals of every lane, transposed to rows; flip exchanges rows 2i, 2i+1. */
static void load_transposed(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                            real *dst, int64_t pitch, int flip) {
  int64_t k = 0;
  for (; k + W <= count; k += W)
    for (int g = 0; g < LANES; g += W) {
      vec v[W];
      UNROLL for (int i = 0; i < W; i++) v[i] = get(source(p, g + i, first + k * by));
      transpose_vecs(v);
      UNROLL for (int i = 0; i < W; i++) put(dst + (k + (i ^ flip)) * pitch + g, v[i]);
    }
  for (; k < count; k++) load_one(p, first + k * by, dst + (k ^ flip) * pitch);
}

static void load_rows(const TsFftPort *p, int64_t first, int64_t by, int64_t count, real *dst,
                      int64_t pitch, int flip) {
  int64_t n = present(p, first, by, count);
  if (p->lanes == LANES && p->step * by == (int)sizeof(real)) {
    load_transposed(p, first, by, n, dst, pitch, flip);
  } else {
    for (int64_t k = 0; k < n; k++) {
      real *row = dst + (k ^ flip) * pitch;
      if (p->adjacent && p->lanes == LANES)
        memcpy(row, source(p, 0, first + k * by), 64);
      else
        load_one(p, first + k * by, row);
    }
  }
  for (int64_t k = n; k < count; k++) memset(dst + (k ^ flip) * pitch, 0, 64);
}

static void load_real(const TsFftPort *p, int64_t first, int64_t by, int64_t count, void *dst,
                      int64_t pitch) {
  load_rows(p, first, by, count, dst, pitch / (int)sizeof(real), 0);
}

/* A complex array read along the axis is a real one of twice the length. */
static TsFftPort as_reals(const TsFftPort *p) {
  TsFftPort q = *p;
  q.step = sizeof(real);
  q.valid = 2 * p->valid;
  q.adjacent = 0;
  return q;
}

static void load_complex(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                         void *dst, int swap) {
  real *row = dst;
  int re = swap ? LANES : 0, im = LANES - re;
  if (p->lanes == LANES && p->step * by == 2 * (int)sizeof(real)) {
    TsFftPort q = as_reals(p);
    load_rows(&q, 2 * first, 1, 2 * count, dst, LANES, swap);
    return;
  }
  int64_t n = present(p, first, by, count);
  memset(row + n * ROW, 0, (size_t)(count - n) * TS_FFT_ROW);
  for (int64_t k = 0; k < n; k++, row += ROW) {
    const real *x = source(p, 0, first + k * by);
    real part[ROW];
    if (p->adjacent && p->lanes < LANES) {
      memset(part, 0, sizeof part);
      memcpy(part, x, sizeof(real) * 2 * (size_t)p->lanes);
      x = part;
    }
    if (p->adjacent) {
      for (int at = 0; at < LANES; at += W) {
        cvec v = get_line(x + 2 * at);
        put(row + re + at, v.re);
        put(row + im + at, v.im);
      }
    } else {
      memset(row, 0, TS_FFT_ROW);
      for (int l = 0; l < p->lanes; l++) {
        x = source(p, l, first + k * by);
        row[re + l] = x[0];
        row[im + l] = x[1];
      }
    }
  }
}

static void store_transposed(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                             const real *src, int64_t pitch, int flip, real f) {
  vec factor = all(f);
  int64_t k = 0;
  for (; k + W <= count; k += W)
    for (int g = 0; g < LANES; g += W) {
      vec v[W];
      UNROLL for (int i = 0; i < W; i++) v[i] =
          get(src + (k + (i ^ flip)) * pitch + g) * factor;
      transpose_vecs(v);
      UNROLL for (int i = 0; i < W; i++) put(target(p, g + i, first + k * by), v[i]);
    }
  for (; k < count; k++)
    for (int l = 0; l < LANES; l++)
      *target(p, l, first + k * by) = src[(k ^ flip) * pitch + l] * f;
}

static void store_rows(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                       const real *src, int64_t pitch, int flip, real f) {
  if (p->lanes == LANES && p->step * by == (int)sizeof(real)) {
    store_transposed(p, first, by, count, src, pitch, flip, f);
    return;
  }
  for (int64_t k = 0; k < count; k++) {
    const real *row = src + (k ^ flip) * pitch;
    if (p->adjacent && p->lanes == LANES) {
      real *y = target(p, 0, first + k * by);
      for (int at = 0; at < LANES; at += W) put(y + at, get(row + at) * all(f));
    } else {
      for (int l = 0; l < p->lanes; l++) *target(p, l, first + k * by) = row[l] * f;
    }
  }
}

static void store_real(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                       const void *src, int64_t pitch, double scale) {
  store_rows(p, first, by, count, src, pitch / (int)sizeof(real), 0, (real)scale);
}

static void store_complex(const TsFftPort *p, int64_t first, int64_t by, int64_t count,
                          const void *src, int swap, double scale) {
  const real *row = src;
  real f = (real)scale;
  int re = swap ? LANES : 0, im = LANES - re;
  if (p->lanes == LANES && p->step * by == 2 * (int)sizeof(real)) {
    TsFftPort q = as_reals(p);
    store_rows(&q, 2 * first, 1, 2 * count, src, LANES, swap, f);
    return;
  }
  for (int64_t k = 0; k < count; k++, row += ROW) {
    if (p->adjacent) {
      real part[ROW], *y = target(p, 0, first + k * by), *to = p->lanes < LANES ? part : y;
      for (int at = 0; at < LANES; at += W)
        put_line(to + 2 * at, (cvec){get(row + re + at) * all(f), get(row + im + at) * all(f)});
      if (to == part) memcpy(y, part, sizeof(real) * 2 * (size_t)p->lanes);
    } else {
      for (int l = 0; l < p->lanes; l++) {
        real *y = target(p, l, first + k * by);
        y[0] = row[re + l] * f;
        y[1] = row[im + l] * f;
      }
    }
  }
}

static void transpose(const void *xp, void *yp) {
  const real *x = xp;
  real *y = yp;
  for (int part = 0; part < ROW; part += LANES)
    for (int i = 0; i < LANES; i += W)
      for (int j = 0; j < LANES; j += W) {
        vec v[W];
        UNROLL for (int k = 0; k < W; k++) v[k] = get(x + (i + k) * ROW + part + j);
        transpose_vecs(v);
        UNROLL for (int k = 0; k < W; k++) put(y + (j + k) * ROW + part + i, v[k]);
      }
}

#endif
