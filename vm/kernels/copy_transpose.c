/* Transposes of elements by size: dst[i * dr + j] = src[i + j * sc].
 *
 * Inside the caches, and into packed tiles, columns of dst are cut into panels, and a
 * panel is walked along src's rows in blocks whose sides are a cache line, so that every
 * line of src and dst is touched once, with the lines eight blocks ahead on their way to
 * the second-level cache: rows that lie a power of two apart share a few sets of the first,
 * which keeps fewer lines than a panel has rows. Long rows of src are streams of their own,
 * few to a panel. Short rows adjoin, so a panel is four blocks wide and the next panel's
 * lines come early.
 *
 * Past the caches memory bounds, and it wants neighbouring lines on both sides and fetching
 * that never pauses: blocks are rows of src by some lines, larger than a square of one line,
 * and each line that is stored asks for one of the next block, in the order of its rows.
 * Where rows of dst are long, deep blocks are best, for 512 bytes of each; their rows of src
 * are too many for the sets of the first cache, so they are first copied to where they
 * adjoin. Where rows of dst are short their ends adjoin anyway, shallow blocks are as good
 * and go without the copy. The sizes are the best of sides from 16 to 256 by one to eight
 * lines; walking down src instead, collecting whole rows of a block before they are stored,
 * and fetching in one go were slower by 5 to 40%. Moving the same lines without turning
 * them is no faster. */
#include <stdbool.h>
#include <string.h>

#include "vm/kernels/copy.h"
#include "vm/kernels/copy_element.h"
#include "vm/kernels/copy_tiles.h"

enum {
  SHORT_ROW = 4096, /* bytes of a row of src that count as adjoining the next */
  PREFETCH = 8,     /* blocks fetched ahead inside the caches */
  PAGES = 16 << 10, /* bytes fetched ahead at least where rows adjoin */
  PACK = 16 << 10   /* bytes of a deep block at most: half of the first cache */
};

/* Lines of a deep block, by size, and of a shallow one; ts_copy_deep() has the rows. */
enum { DEEP_1 = 1, DEEP_2 = 4, DEEP_4 = 2, DEEP_8 = 4, DEEP_16 = 4, SHALLOW = 4 };

#define BLOCK(bytes)                                                                           \
  INLINE void block##bytes(char *d, int64_t dr, const char *s, int64_t sc, int nt) {           \
    for (int i = 0; i < LINE / bytes; i += SIDE_##bytes)                                       \
      for (int j = 0; j < LINE / bytes; j += SIDE_##bytes)                                     \
        TILE_##bytes(d + i * dr + j * bytes, dr, s + j * sc + i * bytes, sc, nt);              \
  }

BLOCK(4)
BLOCK(8)
BLOCK(16)

/* Blocks of small elements have up to 64 rows, which may all map to the same few sets
 * of L1: rows go through a copy in which they adjoin, on both sides, or on dst's where src
 * is packed already. */
#if defined TS_ISA_avx512
#define PACKED_BLOCK(bytes)                                                                    \
  INLINE void packed_block##bytes(char *d, int64_t dr, const char *s, int64_t sc, int nt) {    \
    for (int i = 0; i < LINE / bytes; i += 16 / bytes)                                         \
      LINES_##bytes(d + i * dr, dr, s + i * bytes, sc, nt);                                    \
  }
#else
#define PACKED_BLOCK(bytes)                                                                    \
  static void packed_block##bytes(char *d, int64_t dr, const char *s, int64_t sc, int nt) {    \
    enum { SIDE = LINE / bytes };                                                              \
    _Alignas(LINE) char out[SIDE * LINE];                                                      \
    for (int i = 0; i < SIDE; i += SIDE_##bytes)                                               \
      for (int j = 0; j < SIDE; j += SIDE_##bytes)                                             \
        TILE_##bytes(out + i * LINE + j * bytes, LINE, s + j * sc + i * bytes, sc, 0);         \
    for (int i = 0; i < SIDE; i++)                                                             \
      if (nt)                                                                                  \
        stream_line(d + i * dr, out + i * LINE);                                               \
      else                                                                                     \
        copy_line(d + i * dr, out + i * LINE);                                                 \
  }
#endif

#define BLOCK_COPIED(bytes)                                                                    \
  PACKED_BLOCK(bytes)                                                                          \
  static void block##bytes(char *d, int64_t dr, const char *s, int64_t sc, int nt) {           \
    enum { SIDE = LINE / bytes };                                                              \
    _Alignas(LINE) char in[SIDE * LINE];                                                       \
    for (int j = 0; j < SIDE; j++) copy_line(in + j * LINE, s + j * sc);                       \
    packed_block##bytes(d, dr, in, LINE, nt);                                                  \
  }

BLOCK_COPIED(1)
BLOCK_COPIED(2)

/* Parts of a line are collected before they pass the caches. */
#if !defined TS_ISA_avx512
PACKED_BLOCK(4)
PACKED_BLOCK(8)
#else
#define packed_block4 block4
#define packed_block8 block8
#endif
#define packed_block16 block16

/* `lines` lines of each of n rows, to rows that adjoin. */
INLINE void pack_rows(int64_t n, int lines, char *to, const char *s, int64_t sc) {
  for (int64_t j = 0; j < n; j++, s += sc)
    for (int i = 0; i < lines; i++, to += LINE) copy_line(to, s + i * LINE);
}

/* Lines that will be wanted: of rows `step` bytes apart. */
typedef struct Prefetch {
  const char *at;
  int64_t step;
} Prefetch;

/* Asks for `lines` lines of each of n rows. */
INLINE void fetch(Prefetch *a, int n, int lines) {
  for (int j = 0; j < n; j++, a->at += a->step)
    for (int i = 0; i < lines; i++) __builtin_prefetch(a->at + i * LINE + LINE - 1, 0, 2);
}

/* What to ask for during the block at byte `at`, `wide` bytes wide, of a panel: n rows of
 * nbytes at s. That is the next block, in the next panel at least some pages on; where rows
 * adjoin and begin in lines of all kinds, it is what lies as far ahead in memory. */
INLINE Prefetch prefetch_at(const char *s, int64_t sc, int64_t n, int64_t nbytes, int64_t at,
                            int64_t wide) {
  int64_t next = n * sc < PAGES ? PAGES : n * sc;
  if (sc == nbytes && !ts_copy_clash(sc) && next <= 8 * PAGES)
    return (Prefetch){s + next + n * at, wide};
  if (at + wide < nbytes || sc > SHORT_ROW) return (Prefetch){s + at + wide, sc};
  return (Prefetch){s + next, sc};
}

#define TRANSPOSE(bytes)                                                                       \
  static void edge##bytes(int64_t ni, int64_t nj, char *d, int64_t dr, const char *s,          \
                          int64_t sc) {                                                        \
    int64_t i0 = ni / SIDE_##bytes * SIDE_##bytes, j0 = nj / SIDE_##bytes * SIDE_##bytes;      \
    for (int64_t i = 0; i < i0; i += SIDE_##bytes)                                             \
      for (int64_t j = 0; j < j0; j += SIDE_##bytes)                                           \
        TILE_##bytes(d + i * dr + j * bytes, dr, s + j * sc + i * bytes, sc, 0);               \
    for (int64_t i = i0; i < ni; i++)                                                          \
      strided##bytes(nj, d + i * dr, bytes, s + i * bytes, sc);                                \
    for (int64_t j = j0; j < nj; j++)                                                          \
      strided##bytes(i0, d + j * bytes, dr, s + j * sc, bytes);                                \
  }                                                                                            \
  static void panel##bytes(int64_t ni, int64_t nj, char *d, int64_t dr, const char *s,         \
                           int64_t sc) {                                                       \
    enum { SIDE = LINE / bytes };                                                              \
    int64_t i = 0, prefetch = PREFETCH * LINE,                                                 \
            next = sc <= SHORT_ROW ? nj * sc - ni * bytes : 0;                                 \
    for (; i + SIDE <= ni; i += SIDE, d += SIDE * dr, s += LINE) {                             \
      int64_t j = 0, there = prefetch + (i + PREFETCH * SIDE < ni ? 0 : next);                 \
      for (; j + SIDE <= nj; j += SIDE) {                                                      \
        for (int q = 0; q < SIDE; q++) __builtin_prefetch(s + (j + q) * sc + there, 0, 2);     \
        block##bytes(d + j * bytes, dr, s + j * sc, sc, 0);                                    \
      }                                                                                        \
      if (j < nj) edge##bytes(SIDE, nj - j, d + j * bytes, dr, s + j * sc, sc);                \
    }                                                                                          \
    if (i < ni) edge##bytes(ni - i, nj, d, dr, s, sc);                                         \
  }                                                                                            \
  /* Past the caches: nj rows of src, whole lines of dst. */                                   \
  INLINE void stream_block##bytes(bool deep, int lines, int64_t nj, char *d, int64_t dr,       \
                                  const char *s, int64_t sc, Prefetch there) {                 \
    enum { SIDE = LINE / bytes };                                                              \
    _Alignas(LINE) char in[PACK];                                                              \
    if (deep) pack_rows(nj, lines, in, s, sc);                                                 \
    for (int i = 0; i < lines; i++, d += SIDE * dr)                                            \
      for (int64_t j = 0; j < nj; j += SIDE) {                                                 \
        fetch(&there, SIDE / lines, lines);                                                    \
        if (deep)                                                                              \
          packed_block##bytes(d + j * bytes, dr, in + (j * lines + i) * LINE, lines * LINE,    \
                              1);                                                              \
        else                                                                                   \
          block##bytes(d + j * bytes, dr, s + j * sc + i * LINE, sc, 1);                       \
      }                                                                                        \
  }                                                                                            \
  /* The last ni < SIDE columns of src. */                                                     \
  static void stream_part##bytes(int64_t ni, int64_t nj, char *d, int64_t dr, const char *s,   \
                                 int64_t sc, Prefetch there) {                                 \
    enum { SIDE = LINE / bytes };                                                              \
    _Alignas(LINE) char in[SIDE * LINE] = {0}, out[SIDE * LINE];                               \
    for (int64_t j = 0; j < nj; j += SIDE) {                                                   \
      fetch(&there, there.step == LINE ? (int)ni : SIDE, 1);                                   \
      for (int q = 0; q < SIDE; q++)                                                           \
        memcpy(in + q * LINE, s + (j + q) * sc, (size_t)(ni * bytes));                         \
      packed_block##bytes(out, LINE, in, LINE, 0);                                             \
      for (int64_t i = 0; i < ni; i++) stream_line(d + i * dr + j * bytes, out + i * LINE);    \
    }                                                                                          \
  }                                                                                            \
  INLINE void stream_panel##bytes(bool deep, int lines, int64_t ni, int64_t nj, char *d,       \
                                  int64_t dr, const char *s, int64_t sc) {                     \
    enum { SIDE = LINE / bytes };                                                              \
    int64_t wide = lines * SIDE, i = 0;                                                        \
    for (; i + wide <= ni; i += wide)                                                          \
      stream_block##bytes(deep, lines, nj, d + i * dr, dr, s + i * bytes, sc,                  \
                          prefetch_at(s, sc, nj, ni * bytes, i * bytes, wide * bytes));        \
    for (; i + SIDE <= ni; i += SIDE)                                                          \
      stream_block##bytes(deep, 1, nj, d + i * dr, dr, s + i * bytes, sc,                      \
                          prefetch_at(s, sc, nj, ni * bytes, i * bytes, LINE));                \
    if (i < ni)                                                                                \
      stream_part##bytes(ni - i, nj, d + i * dr, dr, s + i * bytes, sc,                        \
                         prefetch_at(s, sc, nj, ni * bytes, i * bytes, LINE));                 \
  }                                                                                            \
  /* d is aligned, dr whole lines. */                                                          \
  static void stream_transpose##bytes(int64_t rows, int64_t cols, char *d, int64_t dr,         \
                                      const char *s, int64_t sc) {                             \
    enum { SIDE = LINE / bytes };                                                              \
    int64_t whole = cols / SIDE * SIDE, step = ts_copy_deep(bytes, dr, sc);                    \
    bool deep = ts_copy_is_deep(bytes, dr, sc);                                                \
    for (int64_t j = 0; j < whole; j += step) {                                                \
      int64_t nj = whole - j < step ? whole - j : step;                                        \
      if (deep)                                                                                \
        stream_panel##bytes(true, DEEP_##bytes, rows, nj, d + j * bytes, dr, s + j * sc, sc);  \
      else                                                                                     \
        stream_panel##bytes(false, SHALLOW, rows, nj, d + j * bytes, dr, s + j * sc, sc);      \
    }                                                                                          \
    if (whole < cols)                                                                          \
      edge##bytes(rows, cols - whole, d + whole * bytes, dr, s + whole * sc, sc);              \
  }                                                                                            \
  static void transpose##bytes(int64_t rows, int64_t cols, char *d, int64_t dr, const char *s, \
                               int64_t sc, int nt) {                                           \
    enum { SIDE = LINE / bytes, STREAMS = SIDE > 16 ? SIDE : 16 };                             \
    int64_t off = -(int64_t)(uintptr_t)d & (LINE - 1), head = off / bytes;                     \
    if (nt && dr % LINE == 0 && off % bytes == 0) {                                            \
      head = head < cols ? head : cols;                                                        \
      if (head) edge##bytes(rows, head, d, dr, s, sc);                                         \
      stream_transpose##bytes(rows, cols - head, d + head * bytes, dr, s + head * sc, sc);     \
      return;                                                                                  \
    }                                                                                          \
    int64_t wide = sc <= SHORT_ROW ? 4 * SIDE : STREAMS;                                       \
    for (int64_t j = 0; j < cols; j += wide)                                                   \
      panel##bytes(rows, cols - j < wide ? cols - j : wide, d + j * bytes, dr, s + j * sc,     \
                   sc);                                                                        \
  }

TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)
TRANSPOSE(16)

void TS_ISA(ts_copy_transpose)(int64_t rows, int64_t cols, void *dst, int64_t dr,
                               const void *src, int64_t sc, int bytes, int past_cache) {
  BY_SIZE(bytes, transpose, rows, cols, dst, dr, src, sc, past_cache)
}
