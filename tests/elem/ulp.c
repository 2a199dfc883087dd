/* The accuracy of the pointwise float kernels: the largest error in ulp of every row of
 * lib/ops/pointwise.def for f32 and f64 against glibc and libquadmath, with the worst
 * input, and equal bits on all instruction sets. Exit status 1 if a bound is exceeded.
 *
 *   ulp [--step N] [--random N] [--out FILE] [row ...]
 *
 * step: every N-th f32 bit pattern of functions of one input (0: none). The table written
 * to FILE is part of the operator reference. Needs gcc, for __float128. */
#include <float.h>
#include <math.h>
#include <quadmath.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/kernels/pointwise/pointwise.h"

enum { ISA_avx512, ISA_avx2, ISA_base, ISA_COUNT };
static const char *const isa_names[ISA_COUNT] = {"avx512", "avx2", "base"};
static TsPointwiseKernels kernels[ISA_COUNT];

static int isas_first(void) {
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return ISA_avx512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? ISA_avx2 : ISA_base;
}

enum {
  KIND_same,
  KIND_real,
  KIND_float,
  KIND_arith,
  KIND_promote,
  KIND_angle,
  KIND_bool,
  KIND_compare,
  KIND_where,
  KIND_complex
};

typedef struct {
  const char *name;
  int id, inputs, params, kind;
} Row;

typedef struct {
  int64_t step, random;
} Options;

typedef struct {
  double error, got, at[3];
  int64_t count, unequal;
} Worst;

/* Gradients: slope_error in measure.inc. */
static int is_slope(const char *name) { return strstr(name, "_grad") != NULL; }

static uint64_t next_random(uint64_t *s) { /* splitmix64 */
  uint64_t z = *s += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

#define IF_F_F(...)    __VA_ARGS__
#define IF_F_FC(...)   __VA_ARGS__
#define IF_F_FI(...)   __VA_ARGS__
#define IF_F_FIB(...)  __VA_ARGS__
#define IF_F_FIC(...)  __VA_ARGS__
#define IF_F_FIBC(...) __VA_ARGS__
#define IF_F_I(...)
#define IF_F_IB(...)

#define IN_1   1, 0
#define IN_1p1 1, 1
#define IN_1p2 1, 2
#define IN_2   2, 0
#define IN_3   3, 0

static const Row rows[] = {
#define OP(name, class, arity, types, rule, ...)                                               \
  IF_F_##types({#name, TS_PW_##name, IN_##arity, KIND_##rule}, )
#include "lib/ops/pointwise.def"
#undef OP
};

/* The references of all rows but complex, which only moves its inputs: kernels.c. */
#define REF_same(name)    [TS_PW_##name] = REF(name),
#define REF_real(name)    REF_same(name)
#define REF_float(name)   REF_same(name)
#define REF_arith(name)   REF_same(name)
#define REF_promote(name) REF_same(name)
#define REF_angle(name)   REF_same(name)
#define REF_bool(name)    REF_same(name)
#define REF_compare(name) REF_same(name)
#define REF_where(name)   REF_same(name)
#define REF_complex(name)

#define T          float
#define U          uint32_t
#define R          double
#define RMAX       DBL_MAX
#define F(name)    name
#define REF(name)  ref32_##name
#define NAME(name) f32_##name
#define TYPE       "f32"
#define FN_TABLE   f32
#define NAN_BITS   0x7fc00000
#define MANT       24
#define EMAX       128
#define EMIN       -125
#include "tests/elem/ref.inc"
#include "tests/elem/measure.inc"
#undef T
#undef U
#undef R
#undef RMAX
#undef F
#undef REF
#undef NAME
#undef TYPE
#undef FN_TABLE
#undef NAN_BITS
#undef MANT
#undef EMAX
#undef EMIN

#define T          double
#define U          uint64_t
#define R          __float128
#define RMAX       FLT128_MAX
#define F(name)    name##q
#define REF(name)  ref64_##name
#define NAME(name) f64_##name
#define TYPE       "f64"
#define FN_TABLE   f64
#define NAN_BITS   0x7ff8000000000000
#define MANT       53
#define EMAX       1024
#define EMIN       -1021
#include "tests/elem/ref.inc"
#include "tests/elem/measure.inc"

/* ---- bounds in ulp: 0 where the result is exact, 1/2 where it is IEEE, else 1, but 2.5 where a
 * quotient comes behind */

static double bound_of(const char *name) {
  static const char *const exact[] = {
      "neg",         "abs",   "sign",     "floor",     "ceil",     "round",       "trunc",
      "clamp",       "relu",  "isnan",    "isinf",     "isfinite", "logical_not", "real",
      "imag",        "conj",  "floordiv", "mod",       "minimum",  "maximum",     "eq",
      "ne",          "lt",    "le",       "gt",        "ge",       "logical_and", "logical_or",
      "logical_xor", "where", "frac",     "heaviside", "truncdiv", "fmod",        "copysign"};
  static const char *const ieee[] = {"square", "reciprocal", "sqrt", "add",        "sub",
                                     "mul",    "div",        "fma",  "leaky_relu", "angle"};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if (!strcmp(name, exact[i])) return 0;
  for (size_t i = 0; i < sizeof ieee / sizeof *ieee; i++)
    if (!strcmp(name, ieee[i])) return 0.5000001; /* the reference is rounded, too */
  if (!strcmp(name, "softplus")) return 2.5;
  return is_slope(name) ? 3 : 1;
}

static int report(const Row *row, const char *type, const Worst *w, FILE *out) {
  int bad = w->error > bound_of(row->name) || w->unequal;
  char line[200];
  int n =
      snprintf(line, sizeof line, "%-12s %s %8.4f  at %a", row->name, type, w->error, w->at[0]);
  for (int j = 1; j < row->inputs; j++)
    n += snprintf(line + n, sizeof line - (size_t)n, ", %a", w->at[j]);
  printf("%s (%lld inputs)%s\n", line, (long long)w->count, bad ? "  FAIL" : "");
  if (bad) printf("    got %a, unequal bits: %lld\n", w->got, (long long)w->unequal);
  fflush(stdout);
  if (out) fprintf(out, "%s\n", line);
  return bad;
}

static int wanted(const char *name, int argc, char **argv, int first) {
  if (first == argc) return 1;
  for (int i = first; i < argc; i++)
    if (!strcmp(name, argv[i])) return 1;
  return 0;
}

int main(int argc, char **argv) {
  Options o = {100003, 200000};
  FILE *out = NULL;
  int first = 1, bad = 0;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    if (!strcmp(argv[first], "--step")) o.step = atoll(argv[first + 1]);
    if (!strcmp(argv[first], "--random")) o.random = atoll(argv[first + 1]);
    if (!strcmp(argv[first], "--out")) out = fopen(argv[first + 1], "w");
  }
  /* What fills a table is compiled for its instruction set as well. */
  int best = isas_first();
  skip_isas();
  if (best == ISA_avx512) ts_kernels_pointwise_avx512(&kernels[ISA_avx512]);
  if (best != ISA_base) ts_kernels_pointwise_avx2(&kernels[ISA_avx2]);
  ts_kernels_pointwise_base(&kernels[ISA_base]);
  if (out) fprintf(out, "row          type  max ulp, and the input where it is\n");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const Row *row = &rows[i];
    if (row->kind == KIND_complex || !wanted(row->name, argc, argv, first)) continue;
    Worst w32 = {.error = -1}, w64 = {.error = -1};
    f32_measure(row, &o, &w32);
    bad |= report(row, "f32", &w32, out);
    f64_measure(row, &o, &w64);
    bad |= report(row, "f64", &w64, out);
  }
  if (out) fclose(out);
  return bad;
}
