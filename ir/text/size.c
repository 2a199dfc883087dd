/* Packing, evaluating, printing and fitting symbolic sizes. */
#include "ir/text/size.h"

#include <stdlib.h>
#include <string.h>

const char ts_size_symbol[TS_SYMBOLS + 1] = "BTNM";

/* Bits from below: num 16, den 6, off 12, powers 4 x 2, inverse 1; then 1 so that no
 * expression is all zeros. Sizes have bit 63 set and bits 62 to 44 clear: numbers of programs
 * and texts that lie there, beside INT64_MIN, whose other bits are zero, are refused. */
enum { BITS = 44 };
static const uint64_t TAG = UINT64_C(1) << 63, NAN_TAG = UINT64_C(0x7ff8) << 48;

static uint64_t pack(const TsSize *s) {
  uint64_t v = (uint64_t)(s->num & 0xffff) | (uint64_t)(s->den & 0x3f) << 16 |
               (uint64_t)(s->off & 0xfff) << 22;
  for (int i = 0; i < TS_SYMBOLS; i++) v |= (uint64_t)(s->power[i] & 3) << (34 + 2 * i);
  return v | (uint64_t)s->inverse << 42 | UINT64_C(1) << 43;
}

static TsSize unpack(uint64_t v) {
  TsSize s = {.num = (int16_t)(v & 0xffff),
              .den = (int)(v >> 16 & 0x3f),
              .off = (int)(v >> 22 & 0xfff)};
  if (s.off >= 0x800) s.off -= 0x1000;
  for (int i = 0; i < TS_SYMBOLS; i++) s.power[i] = (int)(v >> (34 + 2 * i) & 3);
  s.inverse = v >> 42 & 1;
  return s;
}

bool ts_size_is(int64_t v) {
  return (uint64_t)v >> BITS == TAG >> BITS && ((uint64_t)v >> 43 & 1);
}
int64_t ts_size_pack(const TsSize *s) { return (int64_t)(pack(s) | TAG); }
TsSize ts_size_unpack(int64_t v) { return unpack((uint64_t)v); }

bool ts_number_is_size(double v) {
  uint64_t u;
  memcpy(&u, &v, 8);
  return u >> BITS == NAN_TAG >> BITS && (u >> 43 & 1);
}

double ts_number_pack(const TsSize *s) {
  uint64_t u = pack(s) | NAN_TAG;
  double v;
  memcpy(&v, &u, 8);
  return v;
}

TsSize ts_number_unpack(double v) {
  uint64_t u;
  memcpy(&u, &v, 8);
  return unpack(u);
}

bool ts_size_value(const TsSize *s, const int64_t value[TS_SYMBOLS], int64_t *out) {
  int64_t v = s->num;
  for (int i = 0; i < TS_SYMBOLS; i++)
    for (int k = 0; k < s->power[i]; k++)
      if (!value[i] || __builtin_mul_overflow(v, value[i], &v)) return false;
  return !(v % s->den) && !__builtin_add_overflow(v / s->den, (int64_t)s->off, out);
}

void ts_size_text(const TsSize *s, TsText *t) {
  const char *between = "";
  if (s->inverse) ts_text_str(t, "1/(");
  if (s->num == -1)
    ts_text_char(t, '-');
  else if (s->num != 1)
    ts_text_format(t, "%d", s->num), between = "*";
  for (int i = 0; i < TS_SYMBOLS; i++)
    for (int k = 0; k < s->power[i]; k++) {
      ts_text_format(t, "%s%c", between, ts_size_symbol[i]);
      between = "*";
    }
  if (s->den != 1) ts_text_format(t, "/%d", s->den);
  if (s->off) ts_text_format(t, "%+d", s->off);
  if (s->inverse) ts_text_char(t, ')');
}

/* ---- fitting */
static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a < 0 ? -a : a;
}

static bool product(const TsSize *s, const int64_t *value, int64_t *out) {
  int64_t v = 1;
  for (int i = 0; i < TS_SYMBOLS; i++)
    for (int k = 0; k < s->power[i]; k++)
      if (__builtin_mul_overflow(v, value[i], &v)) return false;
  *out = v;
  return true;
}

/* num v / den, if that is whole. */
static bool scaled(const TsSize *s, int64_t v, int64_t *out) {
  if (__builtin_mul_overflow(v, (int64_t)s->num, &v) || v % s->den) return false;
  *out = v / s->den;
  return true;
}

static bool set_fraction(TsSize *s, int64_t num, int64_t den) {
  int64_t g = gcd(num, den);
  if (!g) return false;
  num /= g, den /= g;
  if (den < 0) num = -num, den = -den;
  if (num == 0 || num < -32767 || num > 32767 || den > 63) return false;
  s->num = (int)num, s->den = (int)den;
  return true;
}

/* Fewer symbols, then a smaller fraction, then no sum. */
static int cost(const TsSize *s) {
  int c = abs(s->num) + 4 * s->den + (s->off ? 40 + 3 * abs(s->off) : 0);
  for (int i = 0; i < TS_SYMBOLS; i++) c += 100 * s->power[i];
  return c;
}

static void consider(TsSize *best, bool *found, const TsSize *s) {
  if (*found && cost(best) <= cost(s)) return;
  *best = *s;
  *found = true;
}

static void try_monomial(TsSize *s, const int64_t *a, const int64_t *b, int64_t va, int64_t vb,
                         TsSize *best, bool *found) {
  int64_t ma, mb, na, nb, dv, dm, off;
  if (!product(s, a, &ma) || !product(s, b, &mb)) return;
  s->den = 1, s->off = 0;
  if ((__int128)va * mb == (__int128)vb * ma && va && set_fraction(s, va, ma))
    consider(best, found, s);
  if (__builtin_sub_overflow(vb, va, &dv) || __builtin_sub_overflow(mb, ma, &dm)) return;
  if (!dm || !set_fraction(s, dv, dm) || !scaled(s, ma, &na) || !scaled(s, mb, &nb)) return;
  if (__builtin_sub_overflow(va, na, &off) || off < -2000 || off > 2000 || vb - off != nb)
    return;
  s->off = (int)off;
  consider(best, found, s);
}

bool ts_size_fit(int nsymbol, const int64_t *a, const int64_t *b, int64_t va, int64_t vb,
                 TsSize *out) {
  bool found = false;
  for (int code = 1; code < 1 << (2 * nsymbol); code++) {
    TsSize s = {.den = 1};
    int total = 0;
    for (int i = 0; i < nsymbol; i++) total += s.power[i] = code >> (2 * i) & 3;
    if (total <= 3) try_monomial(&s, a, b, va, vb, out, &found);
  }
  return found;
}
