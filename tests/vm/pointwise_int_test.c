/* Integer and bool kernels against definitions in 128-bit integers, for all pairs of
 * 8-bit values and for edges and random values of the wider types. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/kernels/pointwise/int.h"

typedef __int128 Big;

static int failures;
static const char *isa;
static TsPointwiseIntKernels kernels;

static const struct {
  const char *name, *types, *rule;
  int arity;
} row[TS_PW_COUNT] = {
#define OP(name, class, arity, types, rule, ...)                                               \
  [TS_PW_##name] = {#name, #types, #rule, #arity[0] - '0'},
#include "lib/ops/pointwise.def"
#undef OP
};

static Big wrap(TsDtype d, Big v) {
  int bits = ts_dtypes[d].nbytes * 8;
  unsigned __int128 u = (unsigned __int128)v & (((unsigned __int128)1 << bits) - 1);
  if (d != TS_DT_u8 && d != TS_DT_bool && u >> (bits - 1)) return (Big)u - ((Big)1 << bits);
  return (Big)u;
}

static Big get(TsDtype d, const void *p, int64_t i) {
  switch (d) {
  case TS_DT_i8: return ((const int8_t *)p)[i];
  case TS_DT_i16: return ((const int16_t *)p)[i];
  case TS_DT_i32: return ((const int32_t *)p)[i];
  case TS_DT_i64: return ((const int64_t *)p)[i];
  default: return ((const uint8_t *)p)[i];
  }
}

static void put(TsDtype d, void *p, int64_t i, Big v) {
  switch (ts_dtypes[d].nbytes) {
  case 1: ((uint8_t *)p)[i] = (uint8_t)v; break;
  case 2: ((uint16_t *)p)[i] = (uint16_t)v; break;
  case 4: ((uint32_t *)p)[i] = (uint32_t)v; break;
  default: ((uint64_t *)p)[i] = (uint64_t)v;
  }
}

static Big floor_div(Big x, Big y) {
  if (y == 0) return 0;
  Big q = x / y;
  return q * y != x && (x < 0) != (y < 0) ? q - 1 : q;
}

static Big power(TsDtype d, Big x, Big y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  Big r = 1;
  for (int bit = 63; bit >= 0; bit--) {
    r = wrap(d, r * r);
    if (y >> bit & 1) r = wrap(d, r * x);
  }
  return r;
}

static Big clamp(TsDtype d, Big x, double min, double max) {
  int64_t lo, hi;
  ts_dtype_int_range(d, &lo, &hi);
  if (min == min && min > (double)x) x = min >= (double)hi ? hi : (Big)__builtin_ceil(min);
  if (max == max && max < (double)x) x = max <= (double)lo ? lo : (Big)__builtin_floor(max);
  return x;
}

#define IS(text) (!strcmp(name, text))

/* `known` becomes false for a row that has no definition here. */
static Big define(const char *name, TsDtype d, Big x, Big y, const double *par, int *known) {
  int width = ts_dtypes[d].nbytes * 8;
  Big shifted_out = x < 0 ? -1 : 0;
  if (IS("neg")) return -x;
  if (IS("abs")) return x < 0 ? -x : x;
  if (IS("sign")) return (x > 0) - (x < 0);
  if (IS("square")) return x * x;
  if (IS("floor") || IS("ceil") || IS("round") || IS("trunc") || IS("real") || IS("conj"))
    return x;
  if (IS("imag") || IS("isnan") || IS("isinf")) return 0;
  if (IS("isfinite")) return 1;
  if (IS("clamp")) return clamp(d, x, par[0], par[1]);
  if (IS("relu")) return x > 0 ? x : 0;
  if (IS("logical_not")) return !x;
  if (IS("bitwise_not")) return d == TS_DT_bool ? !x : -1 - x;
  if (IS("add")) return x + y;
  if (IS("sub")) return x - y;
  if (IS("mul")) return x * y;
  if (IS("floordiv")) return floor_div(x, y);
  if (IS("mod")) return y == 0 ? 0 : x - floor_div(x, y) * y;
  if (IS("truncdiv")) return y == 0 ? 0 : x / y;
  if (IS("fmod")) return y == 0 ? 0 : x % y;
  if (IS("pow")) return power(d, x, y);
  if (IS("minimum")) return x < y ? x : y;
  if (IS("maximum")) return x < y ? y : x;
  if (IS("heaviside")) return x < 0 ? 0 : x > 0 ? 1 : y;
  if (IS("eq")) return x == y;
  if (IS("ne")) return x != y;
  if (IS("lt")) return x < y;
  if (IS("le")) return x <= y;
  if (IS("gt")) return x > y;
  if (IS("ge")) return x >= y;
  if (IS("logical_and")) return x && y;
  if (IS("logical_or")) return x || y;
  if (IS("logical_xor")) return !x != !y;
  if (IS("bitwise_and")) return x & y;
  if (IS("bitwise_or")) return x | y;
  if (IS("bitwise_xor")) return x ^ y;
  if (IS("shift_left")) return y < 0 || y >= width ? 0 : x * ((Big)1 << y);
  if (IS("shift_right")) return y < 0 || y >= width ? shifted_out : floor_div(x, (Big)1 << y);
  *known = 0;
  return 0;
}

static int to_bool(const char *rule) {
  return !strcmp(rule, "compare") || !strcmp(rule, "bool");
}

static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

/* All values of 8 bits; else edges, small numbers and random ones of every size. */
static int64_t values(TsDtype d, Big *v) {
  int64_t lo, hi, n = 0;
  ts_dtype_int_range(d, &lo, &hi);
  if (ts_dtypes[d].nbytes == 1) {
    for (int64_t x = lo; x <= hi; x++) v[n++] = x;
    return n;
  }
  for (int x = -70; x <= 70; x++) v[n++] = x;
  for (int i = 0; i < 6; i++) v[n++] = (Big)lo + i, v[n++] = (Big)hi - i;
  while (n < 256) v[n++] = wrap(d, (Big)(draw() >> (draw() % 64)) * (draw() & 1 ? 1 : -1));
  return n;
}

static void *exact(const void *p, int64_t bytes) {
  void *q = malloc((size_t)bytes + 1);
  memcpy(q, p, (size_t)bytes);
  return q;
}

static void complain(int op, TsDtype d, Big x, Big y, Big got, Big want) {
  if (failures++ < 20)
    fprintf(stderr, "%s %s %s(%lld, %lld) = %lld, want %lld\n", isa, ts_dtype_name(d),
            row[op].name, (long long)x, (long long)y, (long long)got, (long long)want);
}

/* One call on n elements with the given operands as scalars. */
static void check(int op, TsDtype d, int64_t n, const Big *x, const Big *y, unsigned scalars,
                  const double *par, int in_place) {
  int bytes = ts_dtypes[d].nbytes, known = 1, bools = to_bool(row[op].rule);
  char *a = malloc((size_t)(n * bytes + 1)), *b = malloc((size_t)(n * bytes + 1));
  for (int64_t i = 0; i < n; i++) put(d, a, i, x[i]), put(d, b, i, y[i]);
  char *sa = exact(a, scalars & 1 ? bytes : n * bytes);
  char *sb = exact(b, scalars & 2 ? bytes : n * bytes);
  char *out = in_place ? sa : malloc((size_t)(n * bytes + 1));
  const void *in[] = {sa, sb};
  kernels.fn[d][op](n, out, in, par, scalars);
  for (int64_t i = 0; i < n; i++) {
    Big p = x[scalars & 1 ? 0 : i], q = y[scalars & 2 ? 0 : i];
    Big want = define(row[op].name, d, p, q, par, &known);
    Big got = get(bools ? TS_DT_bool : d, out, i);
    if (!bools) want = wrap(d, want);
    if (got != want) complain(op, d, p, q, got, want);
  }
  if (!known) {
    fprintf(stderr, "%s has no definition in this test\n", row[op].name);
    failures++;
  }
  if (!in_place) free(out);
  free(a), free(b), free(sa), free(sb);
}

static void check_where(TsDtype d, int64_t n, const Big *x, const Big *y) {
  int bytes = ts_dtypes[d].nbytes;
  uint8_t *cond = malloc((size_t)n);
  char *a = malloc((size_t)(n * bytes)), *b = malloc((size_t)(n * bytes));
  char *out = malloc((size_t)(n * bytes));
  for (int64_t i = 0; i < n; i++) cond[i] = draw() & 1, put(d, a, i, x[i]), put(d, b, i, y[i]);
  const void *in[] = {cond, a, b};
  for (unsigned scalars = 0; scalars < 8; scalars++) {
    kernels.fn[d][TS_PW_where](n, out, in, NULL, scalars);
    for (int64_t i = 0; i < n; i++) {
      Big p = x[scalars & 2 ? 0 : i], q = y[scalars & 4 ? 0 : i];
      Big want = cond[scalars & 1 ? 0 : i] ? p : q;
      if (get(d, out, i) != want) complain(TS_PW_where, d, p, q, get(d, out, i), want);
    }
  }
  free(cond), free(a), free(b), free(out);
}

static void check_row(int op, TsDtype d, int64_t n, const Big *x, const Big *y) {
  static const double bounds[][2] = {{-3, 5},
                                     {-__builtin_inf(), 3.7},
                                     {-2.5, __builtin_inf()},
                                     {__builtin_nan(""), 1e300},
                                     {-1e300, __builtin_nan("")},
                                     {6, 4},
                                     {-0x1p63, 0x1p63}};
  if (op == TS_PW_where) {
    check_where(d, n < 3000 ? n : 3000, x, y);
    return;
  }
  for (unsigned scalars = 0; scalars < (row[op].arity == 2 ? 4u : 2u); scalars++)
    check(op, d, scalars ? 1500 : n, x + scalars * 7, y + scalars * 11, scalars, bounds[0], 0);
  check(op, d, 999, x, y, 0, bounds[0], 1);
  for (int64_t few = 0; few < 4; few++) check(op, d, few, x, y, 0, bounds[0], 0);
  for (size_t i = 1; op == TS_PW_clamp && i < sizeof bounds / sizeof *bounds; i++)
    check(op, d, n, x, y, 0, bounds[i], 0);
}

static void check_type(TsDtype d) {
  enum { MANY = 256 * 256 };
  static Big v[256], x[MANY], y[MANY];
  int64_t count = values(d, v), n = 0;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < count; k++) x[n] = v[i], y[n++] = v[k];
  for (; n < 4096; n++) x[n] = v[n % count], y[n] = v[n / 2 % count];
  for (int op = 0; op < TS_PW_COUNT; op++) {
    int wanted = strchr(row[op].types, d == TS_DT_bool ? 'B' : 'I') != NULL;
    if (wanted != (kernels.fn[d][op] != NULL)) {
      fprintf(stderr, "%s %s: kernel %s\n", ts_dtype_name(d), row[op].name,
              wanted ? "missing" : "for a type that the row lacks");
      failures++;
    } else if (wanted) {
      check_row(op, d, n, x, y);
    }
  }
}

static void suite(const char *name, void fill(TsPointwiseIntKernels *)) {
  isa = name;
  memset(&kernels, 0, sizeof kernels);
  fill(&kernels);
  for (int d = TS_DT_bool; d <= TS_DT_i64; d++) check_type((TsDtype)d);
}

int main(void) {
  skip_isas();
  suite("base", ts_kernels_pointwise_int_base);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
    suite("avx2", ts_kernels_pointwise_int_avx2);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    suite("avx512", ts_kernels_pointwise_int_avx512);
  if (!failures) printf("pointwise_int: ok\n");
  return failures != 0;
}
