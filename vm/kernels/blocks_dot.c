/* See vm/kernels/blocks_dot.h. Lanes are rows of the matrix, so a lane's chain is one element of the result. 32 elements of
 * each row become eight vectors of codes, whose bytes are four elements of the lane's row: they are cut out of 4, 5 or 6 bits
 * for four elements at once, and none of that is left for the step of a chain: a byte goes to the top of its lane, becomes a
 * float, is scaled, and is multiplied and added. Where a vector has 16 lanes, and so a register is a table of what four bits stand
 * for, such codes are not cut out: a look-up takes the lowest four bits of a lane. A step has to wait for the one before, as long as a fused
 * multiply-add takes, so several vectors of rows, or several rows of x, go side by side. */
#include "vm/kernels/blocks_dot.h"

#include <string.h>

#include "vm/kernels/blocks.h"
#include "vm/kernels/blocks_read.h"
#include "vm/kernels/simd/isa.h"

#if defined TS_ISA_avx512 || defined TS_ISA_avx2
#include "vm/kernels/blocks_dot_simd.h"

typedef uint8_t u8;

#define INLINE static inline __attribute__((always_inline))
/* Shifts and words are constants then, and sums stay in registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

enum {
  SIDES = 4, /* vectors of rows side by side, for one row of x, at most */
  PART = 32  /* elements whose codes are made at once, at most */
};

/* How the codes of a part stand: each a byte, which may be signed; or as four bits of table's element, below and above in
 * the bytes of 16 elements, or below in those of all 32. */
typedef enum Codes { ALONE, HALVES, BELOW } Codes;

/* 32 elements of a vector of rows: code k is byte k % 4 of word k / 4. */
typedef struct Part {
  I code[8];
  F by[2]; /* of 16 elements each; times 2^-24 where codes are ALONE, since they stand in a top byte */
  F from;
} Part;

#define IN_BYTES_OF(n) (!TABLES ? ALONE : (n) == 16 ? HALVES : BELOW)

typedef struct At {
  const u8 *s;        /* the block of lane 0 */
  const int32_t *row; /* of the lanes' rows in w, bytes */
  int64_t step;       /* from row to row, */
  bool full;          /* if none of them stands twice */
  I q[4];             /* of blocks of 256, what their parts have in common */
  F d;
} At;

/* 16 bytes of each lane's row as four words a lane: loads and a transpose of four by four, which are
 * less work than four gathers. Where all rows are there, their distance says where, which takes no look at a list. */
INLINE I every_fourth(const At *a, int from, int lane) {
  const u8 *s = a->s + from;
#define AT(i)  (a->full ? s + 4 * (i)*a->step + lane * a->step : s + a->row[4 * (i) + lane])
#define ROW(i) _mm_loadu_si128((const void *)AT(i))
#if defined TS_ISA_avx512
  I x = _mm512_inserti32x4(_mm512_castsi128_si512(ROW(0)), ROW(1), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(x, ROW(2), 2), ROW(3), 3);
#else
  return _mm256_inserti128_si256(_mm256_castsi128_si256(ROW(0)), ROW(1), 1);
#endif
#undef ROW
#undef AT
}

INLINE void quads(const At *a, int from, I *q) {
  I x = every_fourth(a, from, 0), y = every_fourth(a, from, 1), z = every_fourth(a, from, 2),
    t = every_fourth(a, from, 3);
  I xy = ZIP(lo_epi32, x, y), zt = ZIP(lo_epi32, z, t), XY = ZIP(hi_epi32, x, y),
    ZT = ZIP(hi_epi32, z, t);
  q[0] = ZIP(lo_epi64, xy, zt), q[1] = ZIP(hi_epi64, xy, zt);
  q[2] = ZIP(lo_epi64, XY, ZT), q[3] = ZIP(hi_epi64, XY, ZT);
}

/* Byte j of each word, which is a number from 0 on, as a float. */
INLINE F float_of(I words, int j) { return FLOAT(AND(RIGHT(words, 8 * j), WORD(255))); }

/* What a code that stands in the top byte of a word is scaled by. */
INLINE F scale_of(F d) { return MUL(d, SPLAT(0x1p-24f)); }

/* The scale of a block of 32, in the lower half of a word. */
INLINE void scale_in(I word, Codes codes, Part *p) {
  F d = half(word);
  p->by[0] = p->by[1] = codes == ALONE ? scale_of(d) : d;
}

/* Four bits of each byte. */
INLINE I low_four(I words) { return AND(words, BYTES(15)); }
INLINE I high_four(I words) { return AND(RIGHT(words, 4), BYTES(15)); }
/* The codes of 16 bytes, whose lower halves come first. */
INLINE void sixteen(const At *a, int from, Codes codes, Part *p) {
  I q[4];
  quads(a, from, q);
  UNROLL for (int j = 0; j < 4; j++) {
    p->code[j] = codes == ALONE ? low_four(q[j]) : q[j];
    p->code[4 + j] = codes == ALONE ? high_four(q[j]) : q[j];
  }
}
INLINE void from_zero(Part *p, int zero) {
  UNROLL for (int j = 0; j < 8; j++) p->code[j] = LESS(p->code[j], BYTES(zero));
}
/* A fifth bit of each, from a word a lane with one for each of 32 elements: the byte with the bits of four goes to all
 * bytes of the lane, each of which looks at its own. Codes are from 16 on, or from 0 on. */
INLINE void with_fifth(Part *p, I bits, bool from_16) {
  UNROLL for (int j = 0; j < 8; j++) {
    I own = SHUFFLE(bits, SAME_BYTE(j / 2));
    int one = j % 2 ? (int)0x80402010 : 0x08040201;
    p->code[j] =
        from_16 ? less_unless(p->code[j], own, WORD(one)) : more_if(p->code[j], own, WORD(one));
  }
}

/* ---- blocks of 32, in one part or two. What stands in front of codes is transposed as these are, which takes less than to
 * bring it together number by number, and is under way with all the rest. */
INLINE void nothing(const At *a) { (void)a; }
#define q4_0_open   nothing
#define q4_1_open   nothing
#define q5_0_open   nothing
#define q5_1_open   nothing
#define iq4_nl_open nothing

INLINE void q4_0_part(const At *a, int i, Part *p) {
  (void)i;
  I head[4];
  quads(a, 0, head);
  sixteen(a, 2, IN_BYTES_OF(16), p);
  if (!TABLES) from_zero(p, 8);
  scale_in(head[0], IN_BYTES_OF(16), p);
}

INLINE void q4_1_part(const At *a, int i, Part *p) {
  (void)i;
  I head[4];
  quads(a, 0, head);
  sixteen(a, 4, IN_BYTES_OF(16), p);
  scale_in(head[0], IN_BYTES_OF(16), p);
  p->from = half(RIGHT(head[0], 16));
}

INLINE void q5_0_part(const At *a, int i, Part *p) {
  (void)i;
  I head[4], bits[4];
  quads(a, 0, head), quads(a, 2, bits);
  sixteen(a, 6, ALONE, p);
  with_fifth(p, bits[0], true);
  scale_in(head[0], ALONE, p);
}

INLINE void q5_1_part(const At *a, int i, Part *p) {
  (void)i;
  I head[4];
  quads(a, 0, head);
  sixteen(a, 8, ALONE, p);
  with_fifth(p, head[1], false);
  scale_in(head[0], ALONE, p);
  p->from = half(RIGHT(head[0], 16));
}

INLINE void q8_0_open(At *a) {
  I head[4];
  quads(a, 0, head);
  a->d = scale_of(half(head[0]));
}

/* Half of a block. */
INLINE void q8_0_part(const At *a, int i, Part *p) {
  quads(a, 2 + 16 * i, p->code);
  p->by[0] = a->d;
}

INLINE void iq4_nl_part(const At *a, int i, Part *p) {
  (void)i;
  I head[4];
  quads(a, 0, head);
  sixteen(a, 2, IN_BYTES_OF(16), p);
  if (!TABLES) {
    UNROLL for (int j = 0; j < 8; j++) p->code[j] = LOOK_UP(ts_block_iq4, p->code[j]);
  }
  scale_in(head[0], IN_BYTES_OF(16), p);
}

/* ---- blocks of 256, in eight parts */
/* Both f16, then scales and minima as ts_block_scale has them. */
INLINE void q4_k_open(At *a) { quads(a, 0, a->q); }
INLINE void q5_k_open(At *a) { quads(a, 0, a->q); }

INLINE void k_scales(const At *a, int i, Codes codes, Part *p) {
  const I *q = a->q;
  I scale, under;
  if (i < 4) {
    scale = AND(RIGHT(q[1], 8 * i), WORD(63)), under = AND(RIGHT(q[2], 8 * i), WORD(63));
  } else {
    int at = 8 * (i - 4);
    I rest = RIGHT(q[3], at);
    scale = OR(AND(rest, WORD(15)), AND(RIGHT(RIGHT(q[1], at), 2), WORD(48)));
    under = OR(AND(RIGHT(rest, 4), WORD(15)), AND(RIGHT(RIGHT(q[2], at), 2), WORD(48)));
  }
  F d = MUL(half(q[0]), FLOAT(scale));
  p->by[0] = p->by[1] = codes == ALONE ? scale_of(d) : d;
  p->from = FNMADD(half(RIGHT(q[0], 16)), FLOAT(under), SPLAT(-0.0f));
}

INLINE void thirty_two(const At *a, int from, int upper, Codes codes, Part *p) {
  quads(a, from, p->code), quads(a, from + 16, p->code + 4);
  UNROLL for (int j = 0; j < 8; j++) {
    if (upper) p->code[j] = RIGHT(p->code[j], 4);
    if (codes == ALONE) p->code[j] = low_four(p->code[j]);
  }
}

/* Half of what has one scale. */
INLINE void q4_k_part(const At *a, int i, Part *p) {
  k_scales(a, i / 2, IN_BYTES_OF(32), p);
  quads(a, 16 + i / 4 * 32 + i % 2 * 16, p->code);
  bool upper = i / 2 % 2;
  UNROLL for (int j = 0; j < 4; j++) {
    if (upper) p->code[j] = RIGHT(p->code[j], 4);
    if (IN_BYTES_OF(32) == ALONE) p->code[j] = low_four(p->code[j]);
  }
}

INLINE void q5_k_part(const At *a, int i, Part *p) {
  k_scales(a, i, ALONE, p);
  thirty_two(a, 48 + i / 2 * 32, i % 2, ALONE, p);
  I high[8];
  quads(a, 16, high), quads(a, 32, high + 4);
  UNROLL for (int j = 0; j < 8; j++) {
    p->code[j] = OR(p->code[j], LEFT(AND(RIGHT(high[j], i), BYTES(1)), 4));
  }
}

INLINE void q6_k_open(At *a) {
  quads(a, 194, a->q);
  a->d = half(RIGHT(a->q[3], 16)); /* of bytes 206 to 209 */
  quads(a, 192, a->q);
}

INLINE void q6_k_part(const At *a, int i, Part *p) {
  int quarter = i % 4;
  I high[8];
  UNROLL for (int j = 0; j < 2; j++) {
    I scale = SIGNED(LEFT(a->q[i / 2], 24 - 16 * (i % 2) - 8 * j), 24);
    p->by[j] = scale_of(MUL(a->d, FLOAT(scale)));
  }
  thirty_two(a, i / 4 * 64 + i % 2 * 32, quarter / 2, ALONE, p);
  quads(a, 128 + i / 4 * 32, high), quads(a, 144 + i / 4 * 32, high + 4);
  UNROLL for (int j = 0; j < 8; j++) {
    p->code[j] = OR(p->code[j], LEFT(AND(RIGHT(high[j], 2 * quarter), BYTES(3)), 4));
  }
  from_zero(p, 32);
}

/* ---- steps */
/* What four bits stand for. */
static const float from_0[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const float around[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
static const float iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};

INLINE F code_of(const Part *p, Codes codes, F table, int k) {
  I word = p->code[k / 4];
  if (codes == ALONE) return FLOAT(TOP_BYTE(word, k % 4));
  return IN_TABLE(table, RIGHT(word, k % 4 * 8 + (codes == HALVES ? k / 16 * 4 : 0)));
}

typedef struct Sums {
  F of[SIDES][TS_BLOCKS_DOT_ROWS];
} Sums;

/* next: nbytes of the rows behind those at work, which are read next and lie in a row: loads of lanes that are far from each other
 * show the processor no order that it could foresee. They are asked for one by one between steps, since it waits for as many
 * at once as it has places for what is on its way. */
INLINE void add_part(const Part *p, int part, int sides, Codes codes, F table, bool from,
                     const float *x, int64_t x_step, int m, Sums *sums, const u8 *next,
                     int64_t nbytes) {
  UNROLL for (int k = 0; k < part; k++) {
    for (int64_t at = 64 * k; at < nbytes; at += 64 * part) {
      _mm_prefetch((const char *)next + at, _MM_HINT_T1);
    }
    UNROLL for (int c = 0; c < sides; c++) {
      F code = code_of(&p[c], codes, table, k), by = p[c].by[k / 16];
      F w = from ? FMA(by, code, p[c].from) : MUL(by, code);
      UNROLL for (int i = 0; i < m; i++) {
        sums->of[c][i] = FMA(SPLAT(x[i * x_step + k]), w, sums->of[c][i]);
      }
    }
  }
}

/* A row of w behind the last one is the last one, and is not stored. */
#define DOT(name, size, bytes, part, from, codes, table, S, M)                                 \
  static void name##_##S##_##M(const u8 *w, int64_t step, int n, int64_t k, const float *x,    \
                               int64_t x_step, float *y, int64_t y_step) {                     \
    int32_t row[LANES];                                                                        \
    float out[LANES];                                                                          \
    Sums sums;                                                                                 \
    Part p[S];                                                                                 \
    F in = SPLAT(0);                                                                           \
    if ((codes) != ALONE) in = LOAD_F(table);                                                  \
                                                                                               \
    for (int i = 0; i < LANES; i++) row[i] = (int32_t)((i < n ? i : n - 1) * step);            \
    UNROLL for (int c = 0; c < (S); c++) UNROLL for (int i = 0; i < (M); i++) sums.of[c][i] =  \
        SPLAT(0);                                                                              \
    const u8 *next = w + (S)*LANES * step;                                                     \
    for (int64_t count = k / (size); count > 0; count--, w += (bytes)) {                       \
      At at[S];                                                                                \
      UNROLL for (int c = 0; c < (S); c++) {                                                   \
        at[c].s = w + c * LANES * step, at[c].row = row, at[c].step = step,                    \
        at[c].full = (S) > 1;                                                                  \
        name##_open(&at[c]);                                                                   \
      }                                                                                        \
      for (int i = 0; i < (size) / (part); i++, x += (part)) {                                 \
        UNROLL for (int c = 0; c < (S); c++) name##_part(&at[c], i, &p[c]);                    \
        add_part(p, part, S, codes, in, from, x, x_step, M, &sums, next,                       \
                 (S)*LANES *(bytes) * (part) / (size));                                        \
        next += (S)*LANES * (bytes) * (part) / (size);                                         \
      }                                                                                        \
    }                                                                                          \
    UNROLL for (int c = 0; c < (S); c++) {                                                     \
      UNROLL for (int i = 0; i < (M); i++) {                                                   \
        STORE(out, sums.of[c][i]);                                                             \
        int64_t left = n - c * LANES;                                                          \
        memcpy(y + i * y_step + c * LANES, out,                                                \
               sizeof *out * (size_t)(left < LANES ? left : LANES));                           \
      }                                                                                        \
    }                                                                                          \
  }
#define DOTS(...) DOTS_OF(__VA_ARGS__)
#define DOTS_OF(name, S, size, bytes, part, from, codes, table)                                \
  DOT(name, size, bytes, part, from, codes, table, S, 1)                                       \
  DOT(name, size, bytes, part, from, codes, table, 1, 1)                                       \
  DOT(name, size, bytes, part, from, codes, table, 2, 2)                                       \
  DOT(name, size, bytes, part, from, codes, table, 1, 2)                                       \
  DOT(name, size, bytes, part, from, codes, table, 1, 3)                                       \
  DOT(name, size, bytes, part, from, codes, table, 1, 4)                                       \
  static void name(const void *w, int64_t step, int64_t n, int64_t k, int m, const float *x,   \
                   int64_t x_step, float *y, int64_t y_step) {                                 \
    int64_t sides = m == 1 ? (S) : m == 2 ? 2 : 1;                                             \
    for (int64_t j = 0; j < n;) {                                                              \
      const u8 *at = (const u8 *)w + j * step;                                                 \
      bool whole = n - j >= sides * LANES;                                                     \
      int some = (int)(whole ? sides * LANES : n - j < LANES ? n - j : LANES);                 \
      if (m == 1 && whole) name##_##S##_1(at, step, some, k, x, x_step, y + j, y_step);        \
      if (m == 1 && !whole) name##_1_1(at, step, some, k, x, x_step, y + j, y_step);           \
      if (m == 2 && whole) name##_2_2(at, step, some, k, x, x_step, y + j, y_step);            \
      if (m == 2 && !whole) name##_1_2(at, step, some, k, x, x_step, y + j, y_step);           \
      if (m == 3) name##_1_3(at, step, some, k, x, x_step, y + j, y_step);                     \
      if (m == 4) name##_1_4(at, step, some, k, x, x_step, y + j, y_step);                     \
      j += some;                                                                               \
    }                                                                                          \
  }
/* format, vectors side by side, elements, bytes; elements whose codes are made at once; whether there is a least number; codes.
 * Chains of two vectors wait for each other's steps; of four, codes of 16 elements stay in registers and those of 32 of a byte each
 * do not. Where a part takes more work, more vectors do not pay. */
DOTS(q4_0, 4, 32, 18, 32, false, IN_BYTES_OF(16), around)
DOTS(q4_1, 4, 32, 20, 32, true, IN_BYTES_OF(16), from_0)
DOTS(q5_0, 2, 32, 22, 32, false, ALONE, from_0)
DOTS(q5_1, 2, 32, 24, 32, true, ALONE, from_0)
DOTS(q8_0, 4, 32, 34, 16, false, ALONE, from_0)
DOTS(iq4_nl, 4, 32, 18, 32, false, IN_BYTES_OF(16), iq4)
DOTS(q4_k, 4, 256, 144, 16, true, IN_BYTES_OF(32), from_0)
DOTS(q5_k, 2, 256, 176, 32, true, ALONE, from_0)
DOTS(q6_k, 2, 256, 210, 32, false, ALONE, from_0)

void TS_ISA(ts_kernels_blocks_dot)(TsBlocksDotKernels *k) {
  *k = (TsBlocksDotKernels){.lanes = LANES,
                            .dot = {[TS_DT_q4_0] = q4_0,
                                    [TS_DT_q4_1] = q4_1,
                                    [TS_DT_q5_0] = q5_0,
                                    [TS_DT_q5_1] = q5_1,
                                    [TS_DT_q8_0] = q8_0,
                                    [TS_DT_iq4_nl] = iq4_nl,
                                    [TS_DT_q4_k] = q4_k,
                                    [TS_DT_q5_k] = q5_k,
                                    [TS_DT_q6_k] = q6_k}};
}

#else

void TS_ISA(ts_kernels_blocks_dot)(TsBlocksDotKernels *k) {
  *k = (TsBlocksDotKernels){.lanes = 1};
}

#endif
