/* Which numbers a position is in some round: the pass goes by register tiles from where a block
 * begins, so its blocks must be told to begin at multiples of their size, inside of the matrix. What
 * cannot be told so from constants and loops is a product for the vectoriser. */
#include "ir/tile/product/state.h"

/* Multiples of `of` from lo to hi; of 0: lo alone. */
typedef struct Span {
  int64_t lo, hi, of;
} Span;

enum { PATIENCE = 1000 /* values that are looked at: what is used twice, twice */ };

static int64_t common(int64_t a, int64_t b) {
  while (b) {
    int64_t c = a % b;
    a = b, b = c;
  }
  return a;
}

/* Both are known to be multiples of the result. */
static int64_t divisor(const Span *x, const Span *y) {
  return common(x->of ? x->of : x->lo, y->of ? y->of : y->lo);
}

static bool span_of(const TsTileValue *v, int *left, Span *y);

static bool loop_span(const TsTileValue *v, int *left, Span *y) {
  const TsTileStmt *s = v->region->owner;
  Span lo, hi;
  if (!s || s->op != TS_TILE_for || v->index) return false;
  if (!span_of(s->in[0], left, &lo) || !span_of(s->in[1], left, &hi)) return false;
  if (hi.hi <= lo.lo) return *y = (Span){.lo = lo.lo, .hi = lo.lo}, true; /* no round */
  int64_t step = ts_tile_attr(s, "step")->i;
  *y = (Span){lo.lo, hi.hi - 1, common(step, lo.of ? lo.of : lo.lo)};
  return step > 0;
}

static bool product_of(const Span *x, const Span *y, Span *z) {
  if (y->of) {
    const Span *swap = x;
    x = y, y = swap;
  }
  if (y->of || __builtin_mul_overflow(x->lo, y->lo, &z->lo) ||
      __builtin_mul_overflow(x->hi, y->lo, &z->hi) ||
      __builtin_mul_overflow(x->of, y->lo, &z->of))
    return false;
  return true;
}

static bool sum_of(const Span *x, const Span *y, Span *z) {
  z->of = x->of || y->of ? divisor(x, y) : 0;
  return !__builtin_add_overflow(x->lo, y->lo, &z->lo) &&
         !__builtin_add_overflow(x->hi, y->hi, &z->hi);
}

/* By a number above 0. */
static bool quotient_of(const Span *x, const Span *y, Span *z) {
  if (y->of || y->lo <= 0) return false;
  *z = (Span){x->lo / y->lo, x->hi / y->lo, x->of % y->lo ? 1 : x->of / y->lo};
  return true;
}

static bool rest_of(const Span *x, const Span *y, Span *z) {
  if (y->of || y->lo <= 0) return false;
  if (!x->of || x->hi < y->lo) {
    *z = (Span){x->of ? x->lo : x->lo % y->lo, x->of ? x->hi : x->lo % y->lo, x->of};
    return true;
  }
  int64_t of = common(x->of, y->lo);
  *z = (Span){0, y->lo - of, of};
  return true;
}

/* One of the two. */
static bool either(const TsTileStmt *s, const Span *x, const Span *y, Span *z) {
  bool least = s->op == TS_OP_minimum;
  int64_t lo[2] = {x->lo, y->lo}, hi[2] = {x->hi, y->hi};
  z->lo = (lo[0] < lo[1]) == least ? lo[0] : lo[1];
  z->hi = (hi[0] < hi[1]) == least ? hi[0] : hi[1];
  z->of = z->lo == z->hi ? 0 : divisor(x, y);
  return true;
}

static bool result_of(const TsTileStmt *s, const Span *x, const Span *y, Span *z) {
  switch (s->op) {
  case TS_OP_add: return sum_of(x, y, z);
  case TS_OP_mul: return product_of(x, y, z);
  case TS_OP_floordiv: return quotient_of(x, y, z);
  case TS_OP_mod: return rest_of(x, y, z);
  case TS_OP_minimum:
  case TS_OP_maximum: return either(s, x, y, z);
  default: return false;
  }
}

/* Numbers from 0 on: what is below is no position, and need not be known to be rounded down. */
static bool span_of(const TsTileValue *v, int *left, Span *y) {
  const TsTileStmt *s = v->stmt;
  Span a, b;
  int64_t n;
  if (v->type.rank || v->type.dtype != TS_DT_i64 || --*left < 0) return false;
  if (ts_tile_is_number(v, &n)) return *y = (Span){n, n, 0}, n >= 0;
  if (!s && (!v->region || !loop_span(v, left, y))) return false;
  if (s && (s->op >= TS_OP_COUNT || s->nin != 2 || !span_of(s->in[0], left, &a) ||
            !span_of(s->in[1], left, &b) || !result_of(s, &a, &b, y)))
    return false;
  if (y->of) y->hi -= y->hi % y->of;
  if (y->lo >= y->hi) y->of = 0;
  return y->lo >= 0;
}

bool ts_tile_product_whole(const TsTileValue *v, int64_t size, int64_t block) {
  int left = PATIENCE;
  Span x;
  return span_of(v, &left, &x) && x.hi < size && (x.of ? x.of : x.lo) % block == 0;
}
