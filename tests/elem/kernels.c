/* The calling contract of the pointwise float kernels: every length around the vector
 * width, unaligned arrays, scalar inputs and results in place give the bits of the
 * portable kernel called element by element, and nothing is written outside. Exit status 1
 * if not. The values themselves are the business of ulp.c. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/kernels/pointwise/pointwise.h"

enum { MOST = 70, GUARD = 64 };

static const char *const names[] = {
#define OP(name, ...) #name,
#include "lib/ops/pointwise.def"
#undef OP
};

/* inputs, parameters and the kind of result of each row */
enum { IN_1 = 1, IN_1p1 = 1, IN_1p2 = 1, IN_2 = 2, IN_3 = 3 };
static const int inputs[] = {
#define OP(name, class, arity, ...) IN_##arity,
#include "lib/ops/pointwise.def"
#undef OP
};

enum {
  OUT_same,
  OUT_real,
  OUT_float,
  OUT_arith,
  OUT_promote,
  OUT_angle,
  OUT_where,
  OUT_bool,
  OUT_compare,
  OUT_complex
};
static const int results[] = {
#define OP(name, class, arity, types, rule, ...) OUT_##rule,
#include "lib/ops/pointwise.def"
#undef OP
};

static const double values[] = {1.5, -2.25, 0, 3, -0.75, 1e30, 7, -1e-30, 0.1, 100, -7.5};

/* Bytes of one element, by table: f32 or f64. */
typedef struct {
  TsPointwiseFn **fn, **plain; /* the kernels, and the portable ones */
  size_t size;
  const char *isa, *type;
} Set;

static void put(void *to, size_t size, double v) {
  float f = (float)v;
  if (size == 4)
    memcpy(to, &f, 4);
  else
    memcpy(to, &v, 8);
}

/* NaN is one value: its bits may differ. */
static int same(const uint8_t *a, const uint8_t *b, size_t nbytes, size_t size) {
  for (size_t i = 0; i < nbytes; i += size) {
    float f[2];
    double d[2];
    if (!memcmp(a + i, b + i, size)) continue;
    if (size == 1) return 0;
    memcpy(size == 4 ? (void *)&f[0] : (void *)&d[0], a + i, size);
    memcpy(size == 4 ? (void *)&f[1] : (void *)&d[1], b + i, size);
    if (size == 4 ? f[0] == f[0] || f[1] == f[1] : d[0] == d[0] || d[1] == d[1]) return 0;
  }
  return 1;
}

static int check(const Set *s, int id, int n, unsigned scalars, int in_place, int shift) {
  static uint8_t store[3][(MOST + 4) * 8], want[MOST * 16], got[GUARD + MOST * 16 + GUARD];
  const double par[2] = {-0.5, 1.5};
  int bytes = results[id] == OUT_bool || results[id] == OUT_compare;
  size_t size = bytes ? 1 : s->size, width = results[id] == OUT_complex ? 2 * size : size;
  const void *in[3];
  for (int j = 0; j < inputs[id]; j++) {
    int cond = results[id] == OUT_where && j == 0;
    uint8_t *at = store[j] + (size_t)shift * s->size;
    in[j] = at;
    for (int i = 0; i < MOST; i++) {
      double v = values[(unsigned)(i * (2 * j + 1) + 3 * j + id) % 11];
      if (cond)
        at[i] = v > 1;
      else
        put(at + (size_t)i * s->size, s->size, v);
    }
  }
  for (int i = 0; i < n; i++) {
    const void *one[3];
    for (int j = 0; j < inputs[id]; j++) {
      size_t step = results[id] == OUT_where && j == 0 ? 1 : s->size;
      one[j] = (const uint8_t *)in[j] + (scalars >> j & 1 ? 0 : (size_t)i * step);
    }
    s->plain[id](1, want + (size_t)i * width, one, par, 0);
  }

  int last = inputs[id] - 1; /* the input that the result replaces */
  uint8_t *out = in_place ? store[last] + (size_t)shift * s->size : got + GUARD + shift;
  memset(got, 0xa5, sizeof got);
  s->fn[id](n, out, in, par, scalars);
  int ok = same(out, want, (size_t)n * width, size);
  for (size_t i = 0; !in_place && i < sizeof got; i++)
    if (got + i < out || got + i >= out + (size_t)n * width) ok &= got[i] == 0xa5;
  if (!ok)
    printf("%s %s %s: n = %d, scalars %u, in place %d, shift %d\n", names[id], s->type, s->isa,
           n, scalars, in_place, shift);
  return !ok;
}

static int check_row(const Set *s, int id) {
  int bad = 0, plain = results[id] < OUT_bool; /* the result has the type of the last input */
  for (int n = 0; n <= MOST - 2; n++) {
    for (unsigned scalars = 0; scalars < 1u << inputs[id]; scalars++)
      bad |= check(s, id, n, scalars, 0, n % 3);
    if (plain) bad |= check(s, id, n, 0, 1, n % 3);
  }
  return bad;
}

int main(void) {
  static TsPointwiseKernels k[3];
  int bad = 0;
  int has[3] = {1, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")};
  static const char *const isas[] = {"base", "avx2", "avx512"};
  skip_isas();
  ts_kernels_pointwise_base(&k[0]);
  if (has[1]) ts_kernels_pointwise_avx2(&k[1]);
  if (has[2]) ts_kernels_pointwise_avx512(&k[2]);
  for (int isa = 0; isa < 3; isa++) {
    if (!has[isa]) continue;
    Set f32 = {k[isa].f32, k[0].f32, 4, isas[isa], "f32"};
    Set f64 = {k[isa].f64, k[0].f64, 8, isas[isa], "f64"};
    for (int id = 0; id < TS_PW_COUNT; id++) {
      if (!f32.fn[id] != !f64.fn[id]) bad = 1;
      if (!f32.fn[id]) continue;
      bad |= check_row(&f32, id) | check_row(&f64, id);
    }
  }
  /* the one row that ulp.c does not look at */
  float re[3] = {1, 2, 3}, im[3] = {4, 5, 6}, out[6];
  const void *in[2] = {re, im};
  k[0].f32[TS_PW_complex](3, out, in, NULL, 0);
  static const float pairs[6] = {1, 4, 2, 5, 3, 6};
  return bad | (memcmp(out, pairs, sizeof out) != 0);
}
