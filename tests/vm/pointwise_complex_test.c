/* Complex kernels: simple rows against their formulas, functions against the C library
 * in extended precision (quotients in binary128), special values against the C library's
 * annex G, all instruction sets against each other bit for bit. With an argument, prints
 * the largest error of each function in ulps of its part. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/kernels/pointwise/complex.h"

typedef long double Real;
typedef long double complex Wide;

static int failures;
static int verbose;

static const struct {
  const char *name, *types;
  int arity;
} row[TS_PW_COUNT] = {
#define OP(name, class, arity, types, ...) [TS_PW_##name] = {#name, #types, #arity[0] - '0'},
#include "lib/ops/pointwise.def"
#undef OP
};

static struct {
  const char *isa;
  TsPointwiseComplexKernels k;
} set[3];
static int nset;

#define IS(text) (!strcmp(name, text))

static Wide pair(Real re, Real im) {
  Wide z;
  Real part[2] = {re, im};
  memcpy(&z, part, sizeof z);
  return z;
}

/* ---- definitions */
static Wide quotient(Wide a, Wide b) {
  __float128 ar = creall(a), ai = cimagl(a), br = creall(b), bi = cimagl(b);
  __float128 d = br * br + bi * bi;
  return pair((Real)((ar * br + ai * bi) / d), (Real)((ai * br - ar * bi) / d));
}

static Wide function(const char *name, Wide z, Wide w) {
  if (IS("abs")) return cabsl(z);
  if (IS("angle")) return cargl(z);
  if (IS("sign")) return pair(creall(z) / cabsl(z), cimagl(z) / cabsl(z));
  if (IS("reciprocal")) return quotient(1, z);
  if (IS("div")) return quotient(z, w);
  if (IS("sqrt")) return csqrtl(z);
  if (IS("exp")) return cexpl(z);
  if (IS("log")) return clogl(z);
  if (IS("sin")) return csinl(z);
  if (IS("cos")) return ccosl(z);
  if (IS("sinh")) return csinhl(z);
  if (IS("cosh")) return ccoshl(z);
  if (IS("tanh")) return ctanhl(z);
  if (IS("pow")) return cpowl(z, w);
  return pair(NAN, NAN);
}

/* The bound of each function's error in ulps of the part; pow's, whose parts cancel, in
 * ulps of the modulus. */
static const struct {
  const char *name;
  double c64, c128;
} bound[] = {
    {"abs", 0.51, 0.55}, {"angle", 0.51, 1},  {"sign", 0.51, 1.6}, {"reciprocal", 0.51, 4.5},
    {"div", 0.51, 4.5},  {"sqrt", 0.51, 2.5}, {"exp", 0.51, 2},    {"log", 0.51, 1.5},
    {"sin", 0.51, 2.5},  {"cos", 0.51, 2.5},  {"sinh", 0.51, 2.5}, {"cosh", 0.51, 2.5},
    {"tanh", 0.51, 5},   {"pow", 0.51, 150},
};

/* ---- inputs */
static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

static double uniform(double lo, double hi) {
  return lo + (hi - lo) * ((double)(draw() >> 11) * 0x1p-53);
}

static double spread_out(int exponent) {
  return ldexp(uniform(-2, 2), (int)(draw() % (unsigned)(2 * exponent)) - exponent);
}

enum { MANY = 20011 };
static double z[2 * MANY], w[2 * MANY];

/* kind 0: the whole range of `exponent`; 1: moderate; 2: near the unit circle. */
static void fill_inputs(int kind, int exponent, int is_float) {
  for (int i = 0; i < MANY; i++) {
    if (kind == 0) {
      for (int k = 0; k < 2; k++)
        z[2 * i + k] = spread_out(exponent), w[2 * i + k] = spread_out(exponent);
    } else {
      double angle = uniform(-4, 4),
             r = kind == 2 ? 1 + ldexp(uniform(-1, 1), -(int)(draw() % 50)) : 6;
      z[2 * i] = kind == 2 ? r * cos(angle) : uniform(-r, r);
      z[2 * i + 1] = kind == 2 ? r * sin(angle) : uniform(-r, r);
      w[2 * i] = uniform(-3, 3), w[2 * i + 1] = i % 3 ? uniform(-3, 3) : 0;
    }
  }
  if (!is_float) return;
  for (int i = 0; i < 2 * MANY; i++) z[i] = (float)z[i], w[i] = (float)w[i];
}

/* z, w as operands of a type, and back */
static void *as_type(int type, const double *v, int n) {
  char *p = malloc((size_t)n * 16 + 16);
  if (type)
    memcpy(p, v, (size_t)n * 16);
  else
    for (int i = 0; i < 2 * n; i++) ((float *)p)[i] = (float)v[i];
  return p;
}

static double part_of(int type, const void *p, int64_t i) {
  return type ? ((const double *)p)[i] : ((const float *)p)[i];
}

static double ulps(int type, double got, Real want) {
  Real least = type ? 0x1p-1074L : 0x1p-149L, top = type ? 0x1p1024L : 0x1p128L;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : 1e9;
  if (fabsl(want) >= top - ldexpl(top, type ? -54 : -25)) return isinf(got) ? 0 : 1e9;
  if (isinf(got)) return fabsl(want) > top * (1 - (type ? 0x1p-50L : 0x1p-21L)) ? 1 : 1e9;
  Real ulp = want == 0 ? least : ldexpl(1, ilogbl(want) - (type ? 52 : 23));
  return (double)(fabsl((Real)got - want) / (ulp < least ? least : ulp));
}

static double modulus_ulps(Real part, Real modulus) {
  return part == 0 ? 0 : (double)ldexpl(1, ilogbl(part) - ilogbl(modulus));
}

static int real_result(const char *name) {
  return IS("abs") || IS("angle") || IS("real") || IS("imag");
}

/* ---- functions */
static double check_function(int op, int type, int s, double limit) {
  int real = real_result(row[op].name);
  double most = 0;
  void *a = as_type(type, z, MANY), *b = as_type(type, w, MANY), *out = malloc(MANY * 16);
  const void *in[] = {a, b};
  set[s].k.fn[type][op](MANY, out, in, NULL, 0);
  for (int i = 0; i < MANY; i++) {
    Wide want =
        function(row[op].name, pair(z[2 * i], z[2 * i + 1]), pair(w[2 * i], w[2 * i + 1]));
    Real part[2] = {creall(want), cimagl(want)};
    for (int k = 0; k < 2 - real; k++) {
      double got = part_of(type, out, real ? i : 2 * i + k), e = ulps(type, got, part[k]);
      if (op == TS_PW_pow && type && e < 1e9) e *= modulus_ulps(part[k], cabsl(want));
      if (e > most) most = e;
      if (e > limit && failures++ < 20)
        fprintf(stderr, "%s %s %s(%a%+ai, %a%+ai) part %d: %a, want %La (%g ulp)\n", set[s].isa,
                type ? "complex128" : "complex64", row[op].name, z[2 * i], z[2 * i + 1],
                w[2 * i], w[2 * i + 1], k, got, part[k], e);
    }
  }
  free(a), free(b), free(out);
  return most;
}

static int row_named(const char *name) {
  for (int op = 0; op < TS_PW_COUNT; op++)
    if (IS(row[op].name)) return op;
  abort();
}

static void check_functions(void) {
  for (size_t f = 0; f < sizeof bound / sizeof *bound; f++)
    for (int type = 0; type < 2; type++) {
      double most = 0, limit = type ? bound[f].c128 : bound[f].c64;
      int op = row_named(bound[f].name), is_pow = op == TS_PW_pow;
      int is_div =
          op == TS_PW_div || op == TS_PW_reciprocal; /* scales lose parts 2^-1022 apart */
      for (int kind = 0; kind < 3; kind++) {
        fill_inputs(kind, is_pow ? 4 : type ? is_div ? 490 : 1000 : 120, !type);
        double e = check_function(op, type, nset - 1, limit);
        if (e > most) most = e;
      }
      if (verbose) printf("%-10s %s %.3f\n", bound[f].name, type ? "c128" : "c64", most);
    }
}

/* ---- simple rows */
static int simple(const char *name, double x, double xi, double y, double yi, double *re,
                  double *im) {
  *im = 0;
  if (IS("neg")) return *re = -x, *im = -xi, 1;
  if (IS("conj")) return *re = x, *im = -xi, 1;
  if (IS("real")) return *re = x, 1;
  if (IS("imag")) return *re = xi, 1;
  if (IS("add")) return *re = x + y, *im = xi + yi, 1;
  if (IS("sub")) return *re = x - y, *im = xi - yi, 1;
  return 0;
}

static int test_of(const char *name, Wide a, Wide b) {
  Real x = creall(a), xi = cimagl(a), y = creall(b), yi = cimagl(b);
  int p = x != 0 || xi != 0, q = y != 0 || yi != 0;
  if (IS("isnan")) return isnan(x) || isnan(xi);
  if (IS("isinf")) return isinf(x) || isinf(xi);
  if (IS("isfinite")) return isfinite(x) && isfinite(xi);
  if (IS("logical_not")) return !p;
  if (IS("logical_and")) return p && q;
  if (IS("logical_or")) return p || q;
  if (IS("logical_xor")) return p != q;
  if (IS("eq")) return x == y && xi == yi;
  if (IS("ne")) return !(x == y && xi == yi);
  return -1;
}

static void complain(int s, int type, int op, int64_t i) {
  if (failures++ < 20)
    fprintf(stderr, "%s %s %s: element %lld\n", set[s].isa, type ? "complex128" : "complex64",
            row[op].name, (long long)i);
}

static double rounded(int type, double x) { return type ? x : (double)(float)x; }

static void product(int type, const double *x, const double *y, double *re, double *im) {
  volatile double p = rounded(type, x[0] * y[0]), q = rounded(type, x[1] * y[1]);
  volatile double r = rounded(type, x[0] * y[1]), t = rounded(type, x[1] * y[0]);
  *re = rounded(type, p - q), *im = rounded(type, r + t);
}

static void check_simple(int op, int type, int s, unsigned scalars) {
  const char *name = row[op].name;
  void *a = as_type(type, z, MANY), *b = as_type(type, w, MANY), *out = malloc(MANY * 16);
  const void *in[] = {a, b};
  set[s].k.fn[type][op](MANY, out, in, NULL, scalars);
  for (int i = 0; i < MANY; i++) {
    double *x = z + (scalars & 1 ? 0 : 2 * i), *y = w + (scalars & 2 ? 0 : 2 * i), re, im;
    int test = test_of(name, pair(x[0], x[1]), pair(y[0], y[1]));
    if (test >= 0) {
      if (((uint8_t *)out)[i] != test) complain(s, type, op, i);
      continue;
    }
    if (IS("mul"))
      product(type, x, y, &re, &im);
    else if (IS("square"))
      product(type, x, x, &re, &im);
    else if (!simple(name, x[0], x[1], y[0], y[1], &re, &im))
      break;
    if (real_result(name)) {
      if (part_of(type, out, i) != rounded(type, re)) complain(s, type, op, i);
    } else if (part_of(type, out, 2 * i) != rounded(type, re) ||
               part_of(type, out, 2 * i + 1) != rounded(type, im)) {
      complain(s, type, op, i);
    }
  }
  free(a), free(b), free(out);
}

/* ---- special values */
static int kind_of(double x) {
  if (isnan(x)) return 3;
  if (isinf(x)) return x > 0 ? 2 : -2;
  return x == 0 ? 0 : x > 0 ? 1 : -1;
}

static Wide library(const char *name, double complex x) {
  return IS("sqrt")   ? csqrt(x)
         : IS("exp")  ? cexp(x)
         : IS("log")  ? clog(x)
         : IS("sin")  ? csin(x)
         : IS("cos")  ? ccos(x)
         : IS("sinh") ? csinh(x)
         : IS("cosh") ? ccosh(x)
                      : ctanh(x);
}

static void check_special(void) {
  static const double v[] = {0,     -0.0,   1,        -1,        2.5, -2.5,
                             1e308, -1e308, INFINITY, -INFINITY, NAN};
  static const char *const list[] = {"sqrt", "exp",  "log",  "sin",
                                     "cos",  "sinh", "cosh", "tanh"};
  enum { N = sizeof v / sizeof *v };
  for (size_t f = 0; f < sizeof list / sizeof *list; f++)
    for (int i = 0; i < N * N; i++) {
      double x[2] = {v[i / N], v[i % N]}, y[2];
      double complex c;
      const void *in[] = {x};
      memcpy(&c, x, sizeof c);
      set[nset - 1].k.fn[1][row_named(list[f])](1, y, in, NULL, 0);
      Wide want = library(list[f], c);
      double part[2] = {(double)creall(want), (double)cimagl(want)};
      for (int k = 0; k < 2; k++)
        if (abs(kind_of(part[k])) != abs(kind_of(y[k])) ||
            (!isnan(part[k]) && isfinite(x[0]) && isfinite(x[1]) &&
             signbit(part[k]) != signbit(y[k])))
          if (failures++ < 60)
            fprintf(stderr, "%s(%g%+gi) = %g%+gi, want %g%+gi\n", list[f], x[0], x[1], y[0],
                    y[1], part[0], part[1]);
    }
}

/* ---- all sets, lengths and scalars give the same bits */
static void canonical(int type, char *p, int64_t parts) {
  for (int64_t i = 0; i < parts; i++)
    if (type) {
      if (isnan(((double *)p)[i])) ((double *)p)[i] = 0x1.234p-3;
    } else if (isnan(((float *)p)[i])) {
      ((float *)p)[i] = 0x1.234p-3f;
    }
}

static void check_equal(int op, int type) {
  static const double v[] = {0,      -0.0,     1,         -1,  2.5,  1e308,
                             1e-310, INFINITY, -INFINITY, NAN, 3e38, 1e-40};
  for (int i = 0; i < 600; i++) z[i] = v[draw() % 12], w[i] = v[draw() % 12];
  char *a = as_type(type, z, MANY), *b = as_type(type, w, MANY);
  uint8_t *cond = malloc(MANY);
  for (int i = 0; i < MANY; i++) cond[i] = draw() & 1;
  int tests = test_of(row[op].name, 0, 0) >= 0, bytes = type ? 16 : 8,
      is_where = op == TS_PW_where;
  if (real_result(row[op].name)) bytes /= 2;
  if (tests) bytes = 1;
  for (unsigned scalars = 0; scalars < 1u << row[op].arity; scalars++)
    for (int n = 0; n < 1200; n = n < 20 ? n + 1 : n * 3) {
      char *out[3];
      for (int s = 0; s < nset; s++) {
        const void *in[] = {is_where ? (void *)cond : a, is_where ? a : b, b};
        out[s] = malloc((size_t)n * 16 + 64);
        memset(out[s], 0x5a, (size_t)n * 16 + 64);
        set[s].k.fn[type][op](n, out[s], in, NULL, scalars);
        if (!tests) canonical(type, out[s], (int64_t)n * bytes / (type ? 8 : 4));
        if (memcmp(out[s], out[0], (size_t)n * 16 + 64)) complain(s, type, op, n);
      }
      for (int s = 0; s < nset; s++) free(out[s]);
    }
  char *copy = malloc(MANY * 16), *out = malloc(MANY * 16);
  memcpy(copy, a, MANY * (size_t)(type ? 16 : 8));
  const void *in[] = {a, b, b}, *same[] = {copy, b, b};
  if (!is_where) {
    set[nset - 1].k.fn[type][op](MANY, out, in, NULL, 0);
    set[nset - 1].k.fn[type][op](MANY, copy, same, NULL, 0);
    if (memcmp(out, copy, MANY * (size_t)bytes)) complain(nset - 1, type, op, -1);
  }
  free(a), free(b), free(cond), free(copy), free(out);
}

static void check_where(int type) {
  void *a = as_type(type, z, MANY), *b = as_type(type, w, MANY), *out = malloc(MANY * 16);
  uint8_t cond[MANY];
  for (int i = 0; i < MANY; i++) cond[i] = draw() & 1;
  const void *in[] = {cond, a, b};
  size_t bytes = type ? 16 : 8;
  for (int s = 0; s < nset; s++) {
    set[s].k.fn[type][TS_PW_where](MANY, out, in, NULL, 0);
    for (size_t i = 0; i < MANY; i++)
      if (memcmp((char *)out + i * bytes, (char *)(cond[i] ? a : b) + i * bytes, bytes))
        complain(s, type, TS_PW_where, (int64_t)i);
  }
  free(a), free(b), free(out);
}

static void add_set(const char *isa, void fill(TsPointwiseComplexKernels *)) {
  set[nset].isa = isa;
  fill(&set[nset++].k);
}

int main(int argc, char **argv) {
  (void)argv;
  verbose = argc > 1;
  skip_isas();
  add_set("base", ts_kernels_pointwise_complex_base);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    add_set("avx2", ts_kernels_pointwise_complex_avx2);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    add_set("avx512", ts_kernels_pointwise_complex_avx512);
  check_functions();
  check_special();
  for (int type = 0; type < 2; type++) {
    fill_inputs(0, type ? 500 : 60, !type);
    for (int i = 0; i < 400; i++) z[i * 5] = w[i * 7], z[i * 3] = 0, w[i * 3] = i % 2 ? 0 : 1;
    check_where(type);
    for (int op = 0; op < TS_PW_COUNT; op++) {
      int wanted = strchr(row[op].types, 'C') != NULL;
      if (wanted != (set[0].k.fn[type][op] != NULL)) complain(0, type, op, -2);
      for (int s = 0; s < nset && wanted; s++)
        for (unsigned scalars = 0; scalars < (row[op].arity == 2 ? 4u : 2u); scalars++)
          if (op != TS_PW_where) check_simple(op, type, s, scalars);
    }
    for (int op = 0; op < TS_PW_COUNT; op++)
      if (set[0].k.fn[type][op]) check_equal(op, type);
  }
  if (!failures) printf("pointwise_complex: ok\n");
  return failures != 0;
}
