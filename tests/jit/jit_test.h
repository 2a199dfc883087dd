/* What the tests of jit/ share: building kernels in few words, numbers, checks. */
#ifndef TS_TESTS_JIT_TEST_H
#define TS_TESTS_JIT_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jit/compile/compile.h"
#include "jit/compile/llvm.h"

static int failed;

#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static inline uint64_t rnd(void) {
  static uint64_t seed = 1;
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 20;
}

static inline int64_t upto(int64_t n) { return 1 + (int64_t)(rnd() % (uint64_t)n); }

/* Where n pieces begin that are `step` apart. */
static inline int64_t *steps(int64_t n, int64_t step) {
  int64_t *p = malloc((size_t)(n + 1) * sizeof *p);
  for (int64_t i = 0; i < n; i++) p[i] = i * step;
  return p;
}

/* A kernel under construction: parameters are made before the body begins. */
typedef struct Made {
  TsTile *k;
  TsTileBuild b;
} Made;

static inline Made make(const char *name) {
  Made m = {.k = ts_tile_new(name)};
  m.k->form = TS_FORM_explicit;
  m.b = ts_tile_build(m.k);
  return m;
}

static inline TsTileVal param(Made *m, TsDtype d, int rank, const int64_t *dim, bool written) {
  TsTileType t = ts_tile_type(d, rank, dim);
  return ts_tile_param(m->k, "p", &t, written);
}

/* Of this thread: the machine may be busy with other work. */
static inline double msec(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Compiles, runs on one set of arguments, frees both. */
static inline void run(Made *m, const TsTarget *t, void *const *arg, const int64_t *dim) {
  TsError err = {0};
  double begun = msec();
  TsKernel *kernel = ts_kernel_compile(m->k, t, &err);
  if (getenv("JIT_TIMES") && kernel)
    printf("%s %s %.1f ms %zu bytes\n", m->k->name, t->name, msec() - begun,
           kernel->object_bytes);
  if (!kernel)
    failed++, printf("%s: %s: %s\n", m->k->name, t->name, err.message);
  else if (ts_kernel_run(kernel, arg, dim, &err))
    failed++, printf("%s\n", err.message);
  ts_kernel_free(kernel);
  ts_tile_free(m->k);
}

/* Equal bits, but that a NaN is a NaN. */
static inline bool same_number(TsDtype d, const void *a, const void *b) {
  if (d == TS_DT_f32) {
    float x, y;
    memcpy(&x, a, 4), memcpy(&y, b, 4);
    if (x != x && y != y) return true;
  }
  if (d == TS_DT_f64) {
    double x, y;
    memcpy(&x, a, 8), memcpy(&y, b, 8);
    if (x != x && y != y) return true;
  }
  return !memcmp(a, b, ts_dtypes[d].nbytes);
}

static inline bool same(const char *what, const TsTarget *t, TsDtype d, int64_t n,
                        const void *got, const void *want) {
  int size = ts_dtypes[d].nbytes;
  for (int64_t i = 0; i < n; i++) {
    const char *x = (const char *)got + i * size, *y = (const char *)want + i * size;
    if (same_number(d, x, y)) continue;
    uint64_t u = 0, v = 0;
    memcpy(&u, x, (size_t)size), memcpy(&v, y, (size_t)size);
    printf("%s: %s: %s: element %lld: %llx, not %llx\n", what, t->name, ts_dtype_name(d),
           (long long)i, (unsigned long long)u, (unsigned long long)v);
    return failed++, false;
  }
  return true;
}

static inline float special_f32(int i) {
  static const float x[] = {0.0f,
                            -0.0f,
                            1,
                            -1,
                            0.5f,
                            -0.5f,
                            1.5f,
                            2.5f,
                            -2.5f,
                            3,
                            -7,
                            INFINITY,
                            -INFINITY,
                            NAN,
                            0x1p-149f,
                            -0x1p-149f,
                            0x1p-126f,
                            0x1.fffffep127f,
                            8388607.5f,
                            8388609,
                            65504,
                            65519.99f,
                            65520,
                            448,
                            464,
                            1e-7f,
                            255.5f,
                            -128.7f,
                            2147483648.0f,
                            -2147483648.0f,
                            9223372036854775808.0f,
                            1e30f};
  if (i < (int)(sizeof x / sizeof *x)) return x[i];
  uint32_t u = (uint32_t)rnd();
  float f;
  if (i % 2) return (float)((int)(u % 4001) - 2000) / 8;
  memcpy(&f, &u, 4);
  return f;
}

static inline void fill_numbers(TsDtype d, int64_t n, void *to) {
  for (int64_t i = 0; i < n; i++) {
    static const int64_t whole[] = {
        0,         1,         -1,        2,         -2,      7,
        -7,        127,       -128,      255,       32767,   -32768,
        INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1 << 24, ((int64_t)1 << 53) + 1};
    int64_t v = i < 18  ? whole[i]
                : i % 2 ? (int64_t)(rnd() % 2001) - 1000
                        : (int64_t)(rnd() << 22 ^ rnd());
    float f = special_f32((int)i);
    double g = i % 3 ? (double)f : (double)f * (1 + 0x1p-40 * (double)(rnd() % 4096));
    if (d == TS_DT_f32)
      ((float *)to)[i] = f;
    else if (d == TS_DT_f64)
      ((double *)to)[i] = g;
    else if (d == TS_DT_bool)
      ((uint8_t *)to)[i] = (uint8_t)(rnd() & 1);
    else if (ts_dtype_is(d, TS_KIND_F))
      v = (int64_t)rnd(), memcpy((char *)to + i * ts_dtypes[d].nbytes, &v, ts_dtypes[d].nbytes);
    else
      memcpy((char *)to + i * ts_dtypes[d].nbytes, &v, ts_dtypes[d].nbytes);
  }
}

#endif
