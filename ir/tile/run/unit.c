/* Sums of products of 16-bit floats as the matrix units of compute capability 9.0 make them, to
 * the bit, for the interpreter of Tile IR.
 *
 * A step takes the sum so far and 16 products, which are exact. Let e be the largest exponent of
 * all 17, that of a product being the sum of its factors' exponents. Each is cut, towards zero,
 * to a multiple of 2^(e - 25), they are added exactly, and the sum is cut to f32, towards zero;
 * what is cut to nothing is +0, what is too large infinite. mma.sync and wgmma give the same.
 * Found by measuring on an H200, as others did for older units (Fasi, Higham, Mikaitis, Pranesh,
 * "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330, 2021);
 * tests/ir/unit_vectors.h has what the device gave. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "ir/tile/run/state.h"
#include "lib/convert_bits.h"

enum {
  STEP = 16,      /* products that are added at once */
  KEPT = 25,      /* bits below the largest exponent */
  LANES = 16,     /* columns side by side */
  NONE = -0x2000, /* the exponent of zero: below that of any sum of two */
  FAR = 31        /* a cut by so many bits leaves nothing */
};

/* The two types, and f32 for the sum. */
typedef struct Layout {
  int bits, mantissa, bias;
} Layout;
static const Layout bf16 = {16, 7, 127}, f16 = {16, 10, 15}, single = {32, 23, 127};

/* (-1)^negative magnitude 2^(exponent - mantissa bits); subnormal numbers stay as they are. */
typedef struct Parts {
  uint32_t magnitude;
  int32_t sign; /* 0 or -1 */
  int32_t exponent;
  bool infinite, nan;
} Parts;

static Parts parts_of(const Layout *l, uint32_t x) {
  uint32_t biased = x << (32 - l->bits) << 1 >> (33 - l->bits) >> l->mantissa;
  uint32_t fraction = x & ((1u << l->mantissa) - 1);
  uint32_t most = (1u << (l->bits - 1 - l->mantissa)) - 1;
  Parts p = {.sign = x >> (l->bits - 1) & 1 ? -1 : 0};
  p.infinite = biased == most && !fraction;
  p.nan = biased == most && fraction;
  p.magnitude = biased ? fraction | 1u << l->mantissa : fraction;
  p.exponent = p.magnitude ? (biased ? (int32_t)biased : 1) - l->bias : NONE;
  return p;
}

/* ---- one step, of any numbers */
typedef struct Sum {
  bool nan, above, below; /* infinite ones */
  int32_t e;
  int n;
  struct {
    uint32_t magnitude;
    int32_t sign, exponent, up; /* cut: magnitude 2^up >> (e - exponent) */
  } term[STEP + 1];
} Sum;

static void add_term(Sum *s, uint32_t magnitude, int32_t sign, int32_t exponent, int up) {
  if (!magnitude) return;
  if (exponent > s->e) s->e = exponent;
  s->term[s->n].magnitude = magnitude, s->term[s->n].sign = sign;
  s->term[s->n].exponent = exponent, s->term[s->n].up = up;
  s->n++;
}

static void add_infinity(Sum *s, int32_t sign) { *(sign ? &s->below : &s->above) = true; }

static void add_product(Sum *s, const Layout *l, uint16_t x, uint16_t y) {
  Parts a = parts_of(l, x), b = parts_of(l, y);
  bool infinite = a.infinite || b.infinite;
  if (a.nan || b.nan || (infinite && (!a.magnitude || !b.magnitude)))
    s->nan = true;
  else if (infinite)
    add_infinity(s, a.sign ^ b.sign);
  else
    add_term(s, a.magnitude * b.magnitude, a.sign ^ b.sign, a.exponent + b.exponent,
             KEPT - 2 * l->mantissa);
}

/* q 2^unit, cut to f32. */
static float cut(int64_t q, int unit) {
  uint64_t left = (uint64_t)(q < 0 ? -q : q);
  if (!left) return 0;
  int top = 63 - __builtin_clzll(left), drop = top - single.mantissa;
  int least = 1 - single.bias - single.mantissa - unit; /* so many bits are below f32's last */
  if (drop < least) drop = least;
  if (top + unit > single.bias) return q < 0 ? -INFINITY : INFINITY;
  left = drop > 63 ? 0 : drop > 0 ? left >> drop : left << -drop;
  float f = scalbnf((float)left, unit + drop);
  return left && q < 0 ? -f : f;
}

static float one_step(const Layout *l, const uint16_t *a, const uint16_t *b, int64_t b_stride,
                      float acc) {
  Sum s = {.e = 2 * NONE};
  Parts c = parts_of(&single, bits_of_f32(acc));
  for (int i = 0; i < STEP; i++) add_product(&s, l, a[i], b[i * b_stride]);
  s.nan |= c.nan;
  if (c.infinite)
    add_infinity(&s, c.sign);
  else if (!c.nan)
    add_term(&s, c.magnitude, c.sign, c.exponent, KEPT - single.mantissa);
  if (s.nan || (s.above && s.below)) return f32_of_bits(0x7fffffff);
  if (s.above || s.below) return s.above ? INFINITY : -INFINITY;
  int64_t q = 0;
  for (int i = 0; i < s.n; i++) {
    int32_t far = s.e - s.term[i].exponent;
    int64_t v = far > FAR ? 0 : (int64_t)s.term[i].magnitude << s.term[i].up >> far;
    q += s.term[i].sign ? -v : v;
  }
  return cut(q, s.e - KEPT);
}

/* ---- many columns side by side, of sums far from f32's ends. Products are exact in f32, and to
 * cut one is to convert it to a whole number of 2^(e - KEPT). Between LEAST and MOST of e products
 * and what they are scaled by are no subnormal numbers, nor infinite. */
enum { LEAST = -100, MOST = 125 };

typedef uint16_t Shorts __attribute__((vector_size(2 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef double Doubles __attribute__((vector_size(8 * LANES)));
typedef int64_t Longs __attribute__((vector_size(8 * LANES)));

/* a[m,k] by element, b[k,n] by vectors of columns: values and exponents. */
typedef struct Factors {
  const Layout *l;
  int64_t steps, blocks;
  const uint16_t *a, *b; /* whole: k and n rounded up */
  Floats *fa, *fb;
  Ints *ea, *eb;
} Factors;

/* The compiler picks what the processor has; the bits are the same. */
#if defined __x86_64__ && defined __gnu_linux__ && !defined __clang__ &&                       \
    !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define FOR_ALL_SETS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_ALL_SETS
#endif

/* -1 where it holds, else 0, of numbers whose difference does not overflow: by arithmetic, which
 * is vector code for every set. */
#define BELOW(x, y)  (((x) - (y)) >> 31)
#define LARGER(x, y) ((x) - (((x) - (y)) & BELOW(x, y)))
#define TOWARDS_ZERO ((int64_t)0xffffffffe0000000ull) /* of an f64: what f32 has of it */

/* Row `row` of the result. Blocks of columns with a number that this arithmetic is not for are
 * left alone, and their bit is set. */
FOR_ALL_SETS static uint64_t row_of(const Factors *f, int64_t row, float *acc) {
  uint64_t rare = 0;
  for (int64_t block = 0; block < f->blocks; block++) {
    Floats sum;
    Ints odd = {0};
    memcpy(&sum, acc + block * LANES, sizeof sum);
    const float *fa = (const float *)f->fa + row * f->steps * STEP;
    const int32_t *ea = (const int32_t *)f->ea + row * f->steps * STEP;
    const Floats *fb = f->fb + block;
    const Ints *eb = f->eb + block;
    for (int64_t s = 0; s < f->steps; s++, fa += STEP, ea += STEP) {
      Ints size = (Ints)sum & 0x7fffffff, e = (size >> 23) - 127;
      odd |= BELOW(0x7f7fffff, size) | (BELOW(size, 0x00800000) & BELOW(0, size));
      e += BELOW(size, 1) & (NONE + 127);
      for (int k = 0; k < STEP; k++) {
        Ints x = eb[k * f->blocks] + ea[k];
        e = LARGER(x, e);
      }
      odd |= BELOW(MOST, e) | (BELOW(e, LEAST) & BELOW(NONE / 2, e));
      e = LARGER(e, LEAST);
      Floats up = (Floats)((KEPT + 127 - e) << 23);
      Words low = (Words) __builtin_convertvector(sum * up, Ints), high = {0};
      for (int k = 0; k < STEP / 2; k++, fb += f->blocks)
        low += (Words) __builtin_convertvector(*fb * fa[k] * up, Ints);
      for (int k = STEP / 2; k < STEP; k++, fb += f->blocks)
        high += (Words) __builtin_convertvector(*fb * fa[k] * up, Ints);
      eb += STEP * f->blocks;
      Doubles q = __builtin_convertvector((Ints)low, Doubles) +
                  __builtin_convertvector((Ints)high, Doubles);
      q = (Doubles)((Longs)q & TOWARDS_ZERO);
      q *= (Doubles)((__builtin_convertvector(e, Longs) + (1023 - KEPT)) << 52);
      sum = __builtin_convertvector(q, Floats);
      size = ((Ints)sum >> 23) & 255;
      Words some = low ^ -high;
      odd |= BELOW(size, 1) & (Ints)(some | -some);
    }
    bool any = false;
    for (int i = 0; i < LANES; i++) any |= odd[i] < 0;
    if (any)
      rare |= 1ull << block;
    else
      memcpy(acc + block * LANES, &sum, sizeof sum);
  }
  return rare;
}

static void row_of_any(const Factors *f, int64_t row, int64_t block, float *acc) {
  int64_t k = f->steps * STEP, n = f->blocks * LANES;
  for (int64_t j = block * LANES; j < (block + 1) * LANES; j++)
    for (int64_t s = 0; s < k; s += STEP)
      acc[j] = one_step(f->l, f->a + row * k + s, f->b + s * n + j, n, acc[j]);
}

/* Values and exponents of n numbers, a multiple of LANES. Whether all are finite. */
FOR_ALL_SETS static bool take_apart(const Layout *l, int64_t n, const uint16_t *x,
                                    Floats *value, Ints *exponent) {
  Ints odd = {0};
  const int most = (1 << (15 - l->mantissa)) - 1;
  const int up = single.mantissa - l->mantissa;
  const float scale = l == &f16 ? 0x1p112f : 1; /* f32's exponents begin so much lower */
  for (int64_t i = 0; i < n; i += LANES, x += LANES) {
    Shorts narrow;
    memcpy(&narrow, x, sizeof narrow);
    Ints u = __builtin_convertvector(narrow, Ints), size = u & 0x7fff;
    Ints biased = size >> l->mantissa;
    odd |= BELOW(most - 1, biased);
    *value++ = (Floats)((Ints)((Floats)(size << up) * scale) | (u >> 15) << 31);
    biased = LARGER(biased, 1) - l->bias;
    *exponent++ = biased + (BELOW(size, 1) & (NONE - biased));
  }
  for (int i = 1; i < LANES; i++) odd[0] |= odd[i];
  return !odd[0];
}

/* Rows of `from` with zeros behind them. */
static uint16_t *widened(TsArena *arena, const uint16_t *from, int64_t rows, int64_t cols,
                         int64_t whole_rows, int64_t whole_cols) {
  uint16_t *to = ts_arena_alloc(arena, (size_t)(whole_rows * whole_cols) * sizeof *to);
  for (int64_t i = 0; to && i < rows; i++)
    memcpy(to + i * whole_cols, from + i * cols, (size_t)cols * sizeof *to);
  return to;
}

static void *room(TsArena *arena, int64_t n) {
  enum { ALIGN = sizeof(Ints) };
  uintptr_t at = (uintptr_t)ts_arena_alloc(arena, (size_t)n * sizeof(int32_t) + ALIGN);
  return at ? (void *)((at + ALIGN - 1) / ALIGN * ALIGN) : NULL;
}

/* Rows of one product. */
typedef struct Job {
  const Factors *f;
  int64_t n;
  bool finite;
  float *acc;
  atomic_llong done;
} Job;

enum { BLOCKS = 64 /* of columns, at most */ };

static void some_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *job = arg;
  float line[BLOCKS * LANES] __attribute__((aligned(64))) = {0};
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    memcpy(line, job->acc + i * job->n, (size_t)job->n * sizeof *line);
    uint64_t rare = job->finite ? row_of(job->f, i, line) : ~0ull;
    for (int64_t j = 0; j < job->f->blocks; j++)
      if (rare >> j & 1) row_of_any(job->f, i, j, line);
    memcpy(job->acc + i * job->n, line, (size_t)job->n * sizeof *line);
  }
  atomic_fetch_add(&job->done, hi - lo);
}

int ts_tile_run_unit(TsDtype d, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                     float *acc, TsTileSpread *spread) {
  enum { WORTH = 1 << 18 /* products that a thread is woken for */ };
  TsArena arena = {0};
  Factors f = {.l = d == TS_DT_f16 ? &f16 : &bf16};
  f.steps = (k + STEP - 1) / STEP, f.blocks = (n + LANES - 1) / LANES;
  int64_t wk = f.steps * STEP, wn = f.blocks * LANES;
  if ((d != TS_DT_f16 && d != TS_DT_bf16) || f.blocks > BLOCKS) return -1;
  f.a = widened(&arena, a, m, k, m, wk), f.b = widened(&arena, b, k, n, wk, wn);
  f.fa = room(&arena, m * wk), f.ea = room(&arena, m * wk);
  f.fb = room(&arena, wk * wn), f.eb = room(&arena, wk * wn);
  bool well = f.a && f.b && f.fa && f.ea && f.fb && f.eb;
  Job job = {.f = &f, .n = n, .acc = acc};
  if (well) {
    job.finite =
        take_apart(f.l, m * wk, f.a, f.fa, f.ea) && take_apart(f.l, wk * wn, f.b, f.fb, f.eb);
    if (spread)
      spread(m, WORTH / (wk * wn) + 1, some_rows, &job);
    else
      some_rows(&job, 0, m, 0);
  }
  ts_arena_free(&arena);
  return atomic_load(&job.done) == m ? 0 : -1;
}
