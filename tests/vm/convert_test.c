/* Conversions against their definition in x87 extended precision, which holds every
 * value of every type: all 8 and 16-bit patterns, and for the wider types all values,
 * midpoints and neighbours of the 16-bit formats, limits of the integers, and patterns
 * spread over the range. Bits must be equal on every instruction set, except that of
 * NaN in f32 and f64 only that it is one counts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/kernels/convert.h"

typedef long double Real;

static int failures;

/* ---- the definition */
typedef struct Format {
  int mantissa, bias, bits;
  uint64_t nan;
  int has_inf;
} Format;

static const Format formats[TS_DT_COUNT] = {
    [TS_DT_fp8_e4m3] = {3, 7, 8, 0x7f, 0},
    [TS_DT_fp8_e5m2] = {2, 15, 8, 0x7e, 1},
    [TS_DT_f16] = {10, 15, 16, 0x7e00, 1},
    [TS_DT_bf16] = {7, 127, 16, 0x7fc0, 1},
    [TS_DT_f32] = {23, 127, 32, 0x7fc00000, 1},
    [TS_DT_f64] = {52, 1023, 64, 0x7ff8000000000000, 1},
};

static Real decode(const Format *f, uint64_t u) {
  uint64_t sign = u >> (f->bits - 1), top = ((uint64_t)1 << (f->bits - 1 - f->mantissa)) - 1;
  uint64_t m = u & (((uint64_t)1 << f->mantissa) - 1), e = (u >> f->mantissa) & top;
  Real x;
  if (f->has_inf && e == top)
    x = m ? (Real)NAN : (Real)INFINITY;
  else if (!f->has_inf && e == top && m == 7)
    x = NAN;
  else if (e)
    x = ldexpl((Real)(m | (uint64_t)1 << f->mantissa), (int)e - f->bias - f->mantissa);
  else
    x = ldexpl((Real)m, 1 - f->bias - f->mantissa);
  return sign ? -x : x;
}

static uint64_t encode(const Format *f, Real x) {
  if (x != x) return f->nan;
  uint64_t sign = (uint64_t)(signbit(x) != 0) << (f->bits - 1),
           top = (uint64_t)1 << (f->bits - 1 - f->mantissa);
  uint64_t inf = (top - 1) << f->mantissa, most = f->has_inf ? inf - 1 : 0x7e;
  Real a = fabsl(x);
  if (a == 0) return sign;
  int e = isinf(a) ? 2000 : ilogbl(a);
  if (e < 1 - f->bias) e = 1 - f->bias;
  if (e > f->bias + 1) return sign | (f->has_inf ? inf : most); /* e4m3 saturates */
  /* The scaled value is exact, rintl rounds it to nearest even. */
  uint64_t units = (uint64_t)rintl(ldexpl(a, f->mantissa - e));
  uint64_t u = units + ((uint64_t)(e + f->bias - 1) << f->mantissa);
  if (u > most) return sign | (f->has_inf ? inf : most);
  return sign | u;
}

static uint64_t load(const void *p, int bytes) {
  uint64_t u = 0;
  memcpy(&u, p, (size_t)bytes);
  return u;
}

static void value_of(TsDtype d, const char *p, Real part[2]) {
  part[1] = 0;
  switch (d) {
  case TS_DT_bool:
  case TS_DT_u8: part[0] = *(const uint8_t *)p; break;
  case TS_DT_i8: part[0] = *(const int8_t *)p; break;
  case TS_DT_i16: part[0] = (int16_t)load(p, 2); break;
  case TS_DT_i32: part[0] = (int32_t)load(p, 4); break;
  case TS_DT_i64: part[0] = (int64_t)load(p, 8); break;
  case TS_DT_complex64:
  case TS_DT_complex128: {
    TsDtype real = ts_dtype_real(d);
    int bytes = ts_dtypes[real].nbytes;
    part[0] = decode(&formats[real], load(p, bytes));
    part[1] = decode(&formats[real], load(p + bytes, bytes));
    break;
  }
  default: part[0] = decode(&formats[d], load(p, ts_dtypes[d].nbytes));
  }
}

static int is_int(TsDtype d) { return d <= TS_DT_i64; }

static int64_t to_int(TsDtype to, TsDtype from, Real x) {
  int64_t lo, hi;
  if (is_int(from)) return (int64_t)x; /* the caller cuts it to the type: wraps */
  ts_dtype_int_range(to, &lo, &hi);
  return x != x ? 0 : x >= (Real)hi ? hi : x <= (Real)lo ? lo : (int64_t)x;
}

/* The bytes that src (of type `from`) must become; returns their number. */
static int define(TsDtype to, TsDtype from, const char *src, char *want) {
  Real part[2];
  value_of(from, src, part);
  int bytes = ts_dtypes[to].nbytes;
  if (to == from) {
    memcpy(want, src, (size_t)bytes);
  } else if (to == TS_DT_bool) {
    want[0] = part[0] != 0 || part[1] != 0;
  } else if (is_int(to)) {
    int64_t v = to_int(to, from, part[0]);
    memcpy(want, &v, (size_t)bytes);
  } else {
    TsDtype real = ts_dtype_real(to);
    int each = ts_dtypes[real].nbytes;
    uint64_t re = encode(&formats[real], part[0]), im = encode(&formats[real], part[1]);
    memcpy(want, &re, (size_t)each);
    if (to != real) memcpy(want + each, &im, (size_t)each);
  }
  return bytes;
}

static int same(TsDtype to, const char *a, const char *b) {
  int bytes = ts_dtypes[to].nbytes;
  if (!memcmp(a, b, (size_t)bytes)) return 1;
  TsDtype real = ts_dtype_real(to);
  if (real != TS_DT_f32 && real != TS_DT_f64) return 0;
  Real x[2], y[2];
  value_of(to, a, x), value_of(to, b, y);
  for (int i = 0; i < 2; i++)
    if (!(x[i] == y[i] && signbit(x[i]) == signbit(y[i])) && !(x[i] != x[i] && y[i] != y[i]))
      return 0;
  return 1;
}

/* ---- inputs */
static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

typedef struct List {
  char *at;
  int64_t n;
} List;

enum { MOST = 3 << 20 };

static void push(List *l, TsDtype d, uint64_t u) {
  int bytes = ts_dtypes[d].nbytes;
  memcpy(l->at + l->n++ * bytes, &u, (size_t)bytes);
}

/* Values and midpoints of a 16-bit format, and their neighbours in d. */
static void push_format(List *l, TsDtype d, TsDtype narrow, int every) {
  const Format *f = &formats[narrow];
  for (uint32_t u = 0; u < 1u << 16; u += (uint32_t)every) {
    Real x = decode(f, u), next = decode(f, u + 1);
    if (x != x || isinf(x)) continue;
    if (isinf(next) || next != next) next = x * 2;
    uint64_t at = encode(&formats[d], x), middle = encode(&formats[d], (x + next) / 2);
    for (int k = -1; k <= 1; k++)
      push(l, d, at + (uint64_t)k), push(l, d, middle + (uint64_t)k);
  }
}

static void push_limits(List *l, TsDtype d) {
  for (int e = -2; e <= 64; e++)
    for (int k = -40; k <= 40; k++)
      for (int sign = -1; sign <= 1; sign += 2) {
        Real x = sign * (ldexpl(1, e) + k * (Real)0.5);
        push(l, d, encode(&formats[d], x));
      }
}

static void push_ints(List *l, TsDtype d) {
  for (int e = 0; e < 64; e++) {
    for (int k = -3; k <= 3; k++)
      push(l, d, ((uint64_t)1 << e) + (uint64_t)k),
          push(l, d, -((uint64_t)1 << e) + (uint64_t)k);
    /* 8, 11 and 24-bit midpoints at this size, and their neighbours */
    for (int i = 0; i < 300; i++) {
      int bits = i % 3 == 0 ? 8 : i % 3 == 1 ? 11 : 24;
      if (i % 7 == 0) bits = 3 + i % 2;
      uint64_t u = (draw() | (uint64_t)1 << 63) >> (63 - e);
      if (e >= bits) {
        uint64_t half = (uint64_t)1 << (e - bits);
        u = ((u & ~(half * 2 - 1)) | half) + (uint64_t)(i / 3 % 3) - 1;
      }
      push(l, d, u), push(l, d, -u);
    }
  }
}

static List inputs(TsDtype d) {
  int bytes = ts_dtypes[d].nbytes;
  List l = {calloc(MOST, (size_t)bytes), 0};
  if (bytes <= 2) {
    int64_t count = d == TS_DT_bool ? 2 : 1 << 8 * bytes;
    for (int64_t u = 0; u < count; u++) push(&l, d, (uint64_t)u);
  } else if (d == TS_DT_i32 || d == TS_DT_i64) {
    push_ints(&l, d);
    for (int i = 0; i < 100000; i++) push(&l, d, draw());
  } else if (d == TS_DT_f32 || d == TS_DT_f64) {
    push_format(&l, d, TS_DT_f16, 1);
    push_format(&l, d, TS_DT_bf16, 1);
    push_limits(&l, d);
    uint64_t step = d == TS_DT_f32 ? 4099 : 0x40000000000b * 3 / 2, u = 0;
    for (int64_t i = 0; i < 1 << 18; i++, u += d == TS_DT_f32 ? step * 4 : step) push(&l, d, u);
  } else {
    TsDtype real = ts_dtype_real(d);
    for (int i = 0; i < 2 * 20000; i++) {
      uint64_t v = i % 97 == 0 ? 0 : i % 101 == 0 ? formats[real].nan : draw();
      memcpy(l.at + i * bytes / 2, &v, (size_t)bytes / 2);
    }
    l.n = 20000;
  }
  return l;
}

/* ---- the kernels */
typedef struct Set {
  const char *isa;
  TsConvertKernels k;
} Set;

static Set set[3];
static int nset;

static void show(const char *what, const Set *s, TsDtype to, TsDtype from, const char *src,
                 const char *got, const char *want) {
  if (failures++ >= 20) return;
  Real in[2], g[2], w[2];
  value_of(from, src, in), value_of(to, got, g), value_of(to, want, w);
  fprintf(stderr, "%s %s: %s %.20Lg -> %s %.20Lg, want %.20Lg\n", s->isa, what,
          ts_dtype_name(from), in[0], ts_dtype_name(to), g[0], w[0]);
}

static void check_pair(TsDtype to, TsDtype from, const List *l) {
  int db = ts_dtypes[to].nbytes, sb = ts_dtypes[from].nbytes;
  char *want = malloc((size_t)(l->n * db + 1)), *got = malloc((size_t)(l->n * db + 1));
  for (int64_t i = 0; i < l->n; i++) define(to, from, l->at + i * sb, want + i * db);
  for (int s = 0; s < nset; s++) {
    TsConvertFn *convert = set[s].k.convert[from][to];
    if (!convert) {
      fprintf(stderr, "%s: no conversion of %s to %s\n", set[s].isa, ts_dtype_name(from),
              ts_dtype_name(to));
      failures++;
      continue;
    }
    convert(l->n, got, l->at);
    for (int64_t i = 0; i < l->n; i++)
      if (!same(to, got + i * db, want + i * db))
        show("all at once", &set[s], to, from, l->at + i * sb, got + i * db, want + i * db);
    for (int64_t n = 0; n < 70 && n < l->n; n++) {
      int64_t at = n * 37 % (l->n - n);
      memset(got, 0x5a, (size_t)((n + 1) * db));
      convert(n, got, l->at + at * sb);
      for (int64_t i = 0; i < n; i++)
        if (!same(to, got + i * db, want + (at + i) * db))
          show("few", &set[s], to, from, l->at + (at + i) * sb, got + i * db,
               want + (at + i) * db);
      for (int64_t i = n * db; i < (n + 1) * db; i++)
        if (got[i] != 0x5a)
          failures++, fprintf(stderr, "%s: writes past the end\n", set[s].isa);
    }
  }
  free(want), free(got);
}

/* ---- mxfp4 */
static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

static Real mx_value(uint8_t scale, int code) {
  if (scale == 0xff) return NAN;
  return ldexpl((Real)(code & 8 ? -e2m1[code & 7] : e2m1[code & 7]), scale - 127);
}

static void check_unpack(TsDtype to) {
  int bytes = ts_dtypes[to].nbytes;
  char want[16], got[32 * 8 + 1];
  for (int s = 0; s < nset; s++)
    for (int scale = 0; scale < 256; scale++) {
      uint8_t block[17] = {(uint8_t)scale};
      for (int i = 0; i < 16; i++) block[1 + i] = (uint8_t)(i * 16 + (i * 7 + 3) % 16);
      set[s].k.convert[TS_DT_mxfp4][to](32, got, block);
      for (int i = 0; i < 32; i++) {
        int code = block[1 + i / 2] >> (i % 2 * 4) & 15;
        uint64_t u = encode(&formats[to], mx_value((uint8_t)scale, code));
        memcpy(want, &u, 8);
        if (!same(to, got + i * bytes, want)) {
          if (failures++ < 20)
            fprintf(stderr, "%s: mxfp4 2^%d code %d -> %s\n", set[s].isa, scale - 127, code,
                    ts_dtype_name(to));
        }
      }
    }
}

/* Nearest of the 8 magnitudes, ties to an even code. */
static int mx_code(Real a) {
  int best = 0;
  for (int c = 1; c < 8; c++) {
    Real far = fabsl(a - (Real)e2m1[c]), near = fabsl(a - (Real)e2m1[best]);
    if (far < near || (far == near && c % 2 == 0)) best = c;
  }
  return best;
}

static void define_block(const float *x, uint8_t *block) {
  float most = 0;
  int special = 0;
  for (int i = 0; i < 32; i++) {
    special |= !isfinite(x[i]);
    most = fmaxf(most, fabsf(x[i]));
  }
  memset(block, 0, 17);
  if (special) {
    block[0] = 0xff;
    return;
  }
  int e = most == 0 ? -127 : ilogbf(most) - 2;
  if (e < -127) e = -127;
  block[0] = (uint8_t)(e + 127);
  for (int i = 0; i < 32; i++) {
    int code = mx_code(ldexpl(fabsf(x[i]), -e)) | (signbit(x[i]) ? 8 : 0);
    block[1 + i / 2] |= (uint8_t)(code << (i % 2 * 4));
  }
}

static void check_pack(void) {
  for (int round = 0; round < 20000; round++) {
    float x[64];
    uint8_t got[34], want[34];
    int span = 1 + (int)(draw() % 12), base = (int)(draw() % 280) - 150;
    for (int i = 0; i < 64; i++) {
      x[i] = ldexpf((float)((int)(draw() % 129) - 64), base - (int)(draw() % (unsigned)span));
      if (draw() % 3000 == 0) x[i] = draw() & 1 ? NAN : -INFINITY;
      if (round % 50 == 0) x[i] = i % 2 ? -0.0f : 0.0f;
    }
    define_block(x, want), define_block(x + 32, want + 17);
    for (int s = 0; s < nset; s++) {
      set[s].k.convert[TS_DT_f32][TS_DT_mxfp4](64, got, x);
      if (memcmp(got, want, 34) && failures++ < 20)
        fprintf(stderr, "%s: f32 -> mxfp4\n", set[s].isa);
    }
  }
}

static void add_set(const char *isa, void fill(TsConvertKernels *)) {
  set[nset].isa = isa;
  fill(&set[nset++].k);
}

int main(void) {
  skip_isas();
  add_set("base", ts_kernels_convert_base);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    add_set("avx2", ts_kernels_convert_avx2);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    add_set("avx512", ts_kernels_convert_avx512);
  for (int from = 0; from < TS_DT_mxfp4; from++) {
    List l = inputs((TsDtype)from);
    for (int to = 0; to < TS_DT_mxfp4; to++) check_pair((TsDtype)to, (TsDtype)from, &l);
    free(l.at);
  }
  check_unpack(TS_DT_f16), check_unpack(TS_DT_bf16);
  check_unpack(TS_DT_f32), check_unpack(TS_DT_f64);
  check_pack();
  if (!failures) printf("convert: ok\n");
  return failures != 0;
}
