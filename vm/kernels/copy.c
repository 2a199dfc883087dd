/* Gathers, scatters, fills, streams and transposes of elements by size. */
#include "vm/kernels/copy.h"

#include <string.h>

#include "vm/kernels/copy_tiles.h"
#include "vm/kernels/isa.h"

enum { LINE = 64, SHORT_ROW = 4096, AHEAD = 8 };

/* Elements at any address, by size. */
typedef uint8_t elem1;
typedef uint16_t __attribute__((aligned(1), may_alias)) elem2;
typedef uint32_t __attribute__((aligned(1), may_alias)) elem4;
typedef uint64_t __attribute__((aligned(1), may_alias)) elem8;
typedef __m128i_u elem16;

/* call(1, args) to call(16, args) by elem_bytes */
#define BY_SIZE(bytes, call, ...)                                                              \
  switch (bytes) {                                                                             \
  case 1: call##1(__VA_ARGS__); break;                                                         \
  case 2: call##2(__VA_ARGS__); break;                                                         \
  case 4: call##4(__VA_ARGS__); break;                                                         \
  case 8: call##8(__VA_ARGS__); break;                                                         \
  default: call##16(__VA_ARGS__);                                                              \
  }

/* ---- strided */
#define STRIDED(bytes)                                                                         \
  INLINE void strided##bytes(int64_t n, char *d, int64_t ds, const char *s, int64_t ss) {      \
    for (; n >= 4; n -= 4, d += 4 * ds, s += 4 * ss) {                                         \
      elem##bytes a = *(const elem##bytes *)s, b = *(const elem##bytes *)(s + ss);             \
      elem##bytes c = *(const elem##bytes *)(s + 2 * ss);                                      \
      elem##bytes e = *(const elem##bytes *)(s + 3 * ss);                                      \
      *(elem##bytes *)d = a, *(elem##bytes *)(d + ds) = b;                                     \
      *(elem##bytes *)(d + 2 * ds) = c, *(elem##bytes *)(d + 3 * ds) = e;                      \
    }                                                                                          \
    for (; n > 0; n--, d += ds, s += ss) *(elem##bytes *)d = *(const elem##bytes *)s;          \
  }                                                                                            \
  INLINE void gather##bytes(int64_t n, char *d, const char *s, int64_t ss) {                   \
    strided##bytes(n, d, bytes, s, ss);                                                        \
  }                                                                                            \
  INLINE void scatter##bytes(int64_t n, char *d, int64_t ds, const char *s) {                  \
    strided##bytes(n, d, ds, s, bytes);                                                        \
  }

STRIDED(1)
STRIDED(2)
STRIDED(4)
STRIDED(8)
STRIDED(16)

/* Steps of -1 and 2 elements, and up to 4 arrays interleaved or parted: the compiler
 * makes shuffles of these. */
#define SHUFFLED(bytes)                                                                        \
  static void reverse##bytes(int64_t n, void *dst, const void *src) {                          \
    elem##bytes *restrict d = dst;                                                             \
    const elem##bytes *restrict s = src;                                                       \
    for (int64_t i = 0; i < n; i++) d[i] = s[-i];                                              \
  }                                                                                            \
  static void every_other##bytes(int64_t n, void *dst, const void *src) {                      \
    elem##bytes *restrict d = dst;                                                             \
    const elem##bytes *restrict s = src;                                                       \
    for (int64_t i = 0; i < n; i++) d[i] = s[2 * i];                                           \
  }                                                                                            \
  static void weave##bytes(int64_t n, int count, void *dst, const char *src, int64_t ss) {     \
    elem##bytes *restrict d = dst;                                                             \
    const elem##bytes *restrict a = (const void *)src, *restrict b = (const void *)(src + ss); \
    const elem##bytes *restrict c = (const void *)(src + 2 * ss);                              \
    const elem##bytes *restrict e = (const void *)(src + 3 * ss);                              \
    if (count == 2)                                                                            \
      for (int64_t i = 0; i < n; i++) d[2 * i] = a[i], d[2 * i + 1] = b[i];                    \
    else if (count == 3)                                                                       \
      for (int64_t i = 0; i < n; i++)                                                          \
        d[3 * i] = a[i], d[3 * i + 1] = b[i], d[3 * i + 2] = c[i];                             \
    else                                                                                       \
      for (int64_t i = 0; i < n; i++)                                                          \
        d[4 * i] = a[i], d[4 * i + 1] = b[i], d[4 * i + 2] = c[i], d[4 * i + 3] = e[i];        \
  }                                                                                            \
  static void part##bytes(int64_t n, int count, char *dst, int64_t ds, const void *src) {      \
    const elem##bytes *restrict s = src;                                                       \
    elem##bytes *restrict a = (void *)dst, *restrict b = (void *)(dst + ds);                   \
    elem##bytes *restrict c = (void *)(dst + 2 * ds), *restrict e = (void *)(dst + 3 * ds);    \
    if (count == 2)                                                                            \
      for (int64_t i = 0; i < n; i++) a[i] = s[2 * i], b[i] = s[2 * i + 1];                    \
    else if (count == 3)                                                                       \
      for (int64_t i = 0; i < n; i++)                                                          \
        a[i] = s[3 * i], b[i] = s[3 * i + 1], c[i] = s[3 * i + 2];                             \
    else                                                                                       \
      for (int64_t i = 0; i < n; i++)                                                          \
        a[i] = s[4 * i], b[i] = s[4 * i + 1], c[i] = s[4 * i + 2], e[i] = s[4 * i + 3];        \
  }

SHUFFLED(1)
SHUFFLED(2)
SHUFFLED(4)
SHUFFLED(8)
SHUFFLED(16)

static void weave(int64_t n, int count, void *dst, const void *src, int64_t ss, int bytes) {
  BY_SIZE(bytes, weave, n, count, dst, src, ss)
}

static void part(int64_t n, int count, void *dst, int64_t ds, const void *src, int bytes) {
  BY_SIZE(bytes, part, n, count, dst, ds, src)
}

static void gather(int64_t n, void *dst, const void *src, int64_t ss, int bytes) {
  if (ss == bytes)
    memcpy(dst, src, (size_t)(n * bytes));
  else if (ss == -bytes && n >= 16)
    BY_SIZE(bytes, reverse, n, dst, src)
  else if (ss == 2 * bytes && n >= 16)
    BY_SIZE(bytes, every_other, n, dst, src)
  else
    BY_SIZE(bytes, gather, n, dst, src, ss)
}

static void scatter(int64_t n, void *dst, int64_t ds, const void *src, int bytes) {
  if (ds == bytes)
    memcpy(dst, src, (size_t)(n * bytes));
  else
    BY_SIZE(bytes, scatter, n, dst, ds, src)
}

static void strided(int64_t n, void *dst, int64_t ds, const void *src, int64_t ss, int bytes) {
  if (ds == bytes)
    gather(n, dst, src, ss, bytes);
  else
    BY_SIZE(bytes, strided, n, dst, ds, src, ss)
}

/* ---- fill: a pattern of 64 bytes holds whole elements at every multiple of 16 */
static void splat(int64_t n, void *dst, const void *value, int bytes) {
  _Alignas(LINE) char pattern[LINE];
  for (int i = 0; i < 16; i += bytes) memcpy(pattern + i, value, (size_t)bytes);
  __m128i x = _mm_load_si128((const void *)pattern);
  char *d = dst;
  int64_t size = n * bytes;
  for (; size >= LINE; size -= LINE, d += LINE)
    for (int i = 0; i < LINE; i += 16) _mm_storeu_si128((void *)(d + i), x);
  for (; size >= 16; size -= 16, d += 16) _mm_storeu_si128((void *)d, x);
  if (size) memcpy(d, pattern, (size_t)size);
}

/* ---- short runs: two moves that may overlap cover any length between one and two
 * of their size. The loop stands inside the choice of the size. */
#define TWO(T)                                                                                 \
  for (int64_t i = 0; i < n; i++, d += ds, s += ss) {                                          \
    T a = *(const T *)s, b = *(const T *)(s + nbytes - sizeof(T));                             \
    *(T *)d = a, *(T *)(d + nbytes - sizeof(T)) = b;                                           \
  }

static void runs(int64_t n, int64_t nbytes, void *dst, int64_t ds, const void *src,
                 int64_t ss) {
  char *d = dst;
  const char *s = src;
  if (nbytes > 256) {
    for (int64_t i = 0; i < n; i++, d += ds, s += ss) memcpy(d, s, (size_t)nbytes);
  } else if (nbytes > 32) {
    for (int64_t i = 0; i < n; i++, d += ds, s += ss) {
      int64_t at = 0;
      for (; at < nbytes - 32; at += 32) memcpy(d + at, s + at, 32);
      memcpy(d + nbytes - 32, s + nbytes - 32, 32);
    }
  } else if (nbytes >= 16) {
    TWO(elem16)
  } else if (nbytes >= 8) {
    TWO(elem8)
  } else if (nbytes >= 4) {
    TWO(elem4)
  } else if (nbytes >= 2) {
    TWO(elem2)
  } else if (nbytes == 1) {
    strided1(n, d, ds, s, ss);
  }
}

/* ---- past the caches */
static void stream_line(char *d, const char *s) {
#if defined TS_ISA_avx512
  _mm512_stream_si512((void *)d, _mm512_loadu_si512((const void *)s));
#elif defined TS_ISA_avx2
  __m256i a = _mm256_loadu_si256((const void *)s),
          b = _mm256_loadu_si256((const void *)(s + 32));
  _mm256_stream_si256((void *)d, a);
  _mm256_stream_si256((void *)(d + 32), b);
#else
  for (int i = 0; i < LINE; i += 16)
    _mm_stream_si128((void *)(d + i), _mm_loadu_si128((const void *)(s + i)));
#endif
}

static void stream(int64_t nbytes, void *dst, const void *src) {
  char *d = dst;
  const char *s = src;
  int64_t head = -(int64_t)(uintptr_t)d & (LINE - 1);
  if (nbytes < head + LINE) {
    memcpy(d, s, (size_t)nbytes);
    return;
  }
  if (head) memcpy(d, s, (size_t)head);
  int64_t i = head;
  for (; i + LINE <= nbytes; i += LINE) stream_line(d + i, s + i);
  if (i < nbytes) memcpy(d + i, s + i, (size_t)(nbytes - i));
}

/* Runs of 64 bytes or more that adjoin in dst. The rest of a run waits in front of the
 * next one's beginning until the line is whole. */
static void stream_runs(int64_t n, int64_t nbytes, void *dst, const void *src, int64_t ss) {
  _Alignas(LINE) char buf[2 * LINE];
  char *d = dst;
  const char *s = src;
  int64_t rest = 0, skip = -(int64_t)(uintptr_t)d & (LINE - 1);
  memcpy(d, s, (size_t)skip);
  d += skip;
  for (int64_t i = 0; i < n; i++, s += ss, skip = 0) {
    int64_t at = skip;
    if (rest) {
      memcpy(buf + LINE, s, LINE);
      stream_line(d, buf + LINE - rest);
      d += LINE, at = LINE - rest;
    }
    for (; at + LINE <= nbytes; at += LINE, d += LINE) stream_line(d, s + at);
    rest = nbytes - at;
    if (rest) memcpy(buf, s + nbytes - LINE, LINE);
  }
  memcpy(d, buf + LINE - rest, (size_t)rest);
}

/* ---- transpose: blocks whose sides are a cache line, so that every line of src and
 * dst is touched once. Columns are cut into panels, and a panel is walked along src's
 * rows with the lines eight blocks ahead on their way, to the second-level cache: rows
 * that lie a power of two apart share a few sets of the first, which keeps fewer lines
 * than a panel has rows. Long rows of src are streams of their own: 32 of them make a
 * panel, so that two lines of dst adjoin; what goes to a packed tile has no use of that.
 * Short rows adjoin, so a panel is four blocks wide and the next panel's lines come
 * early. */
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
 * of L1: rows go through a copy in which they adjoin, on both sides. */
#define BLOCK_COPIED(bytes)                                                                    \
  static void block##bytes(char *d, int64_t dr, const char *s, int64_t sc, int nt) {           \
    enum { SIDE = LINE / bytes };                                                              \
    _Alignas(LINE) char in[SIDE * LINE], out[SIDE * LINE];                                     \
    for (int j = 0; j < SIDE; j++) memcpy(in + j * LINE, s + j * sc, LINE);                    \
    for (int i = 0; i < SIDE; i += SIDE_##bytes)                                               \
      for (int j = 0; j < SIDE; j += SIDE_##bytes)                                             \
        TILE_##bytes(out + i * LINE + j * bytes, LINE, in + j * LINE + i * bytes, LINE, 0);    \
    for (int i = 0; i < SIDE; i++)                                                             \
      if (nt)                                                                                  \
        stream_line(d + i * dr, out + i * LINE);                                               \
      else                                                                                     \
        memcpy(d + i * dr, out + i * LINE, LINE);                                              \
  }

BLOCK_COPIED(1)
BLOCK_COPIED(2)

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
  INLINE void panel##bytes(int64_t ni, int64_t nj, char *d, int64_t dr, const char *s,         \
                           int64_t sc, int nt) {                                               \
    enum { SIDE = LINE / bytes };                                                              \
    int64_t i = 0, ahead = AHEAD * LINE, next = sc <= SHORT_ROW ? nj * sc - ni * bytes : 0;    \
    for (; i + SIDE <= ni; i += SIDE, d += SIDE * dr, s += LINE) {                             \
      int64_t j = 0, there = ahead + (i + AHEAD * SIDE < ni ? 0 : next);                       \
      for (; j + SIDE <= nj; j += SIDE) {                                                      \
        for (int q = 0; q < SIDE; q++) __builtin_prefetch(s + (j + q) * sc + there, 0, 2);     \
        block##bytes(d + j * bytes, dr, s + j * sc, sc, nt);                                   \
      }                                                                                        \
      if (j < nj) edge##bytes(SIDE, nj - j, d + j * bytes, dr, s + j * sc, sc);                \
    }                                                                                          \
    if (i < ni) edge##bytes(ni - i, nj, d, dr, s, sc);                                         \
  }                                                                                            \
  static void transpose##bytes(int64_t rows, int64_t cols, char *d, int64_t dr, const char *s, \
                               int64_t sc, int nt) {                                           \
    enum { SIDE = LINE / bytes, STREAMS = SIDE > 16 ? SIDE : 16 };                             \
    int64_t off = -(int64_t)(uintptr_t)d & (LINE - 1), head = off / bytes;                     \
    nt = nt && dr % LINE == 0 && off % bytes == 0;                                             \
    int64_t wide = sc <= SHORT_ROW ? 4 * SIDE : nt ? 2 * STREAMS : STREAMS;                    \
    if (nt && head) {                                                                          \
      head = head < cols ? head : cols;                                                        \
      edge##bytes(rows, head, d, dr, s, sc);                                                   \
      cols -= head, d += head * bytes, s += head * sc;                                         \
    }                                                                                          \
    for (int64_t j = 0; j < cols; j += wide) {                                                 \
      int64_t nj = cols - j < wide ? cols - j : wide;                                          \
      if (nt)                                                                                  \
        panel##bytes(rows, nj, d + j * bytes, dr, s + j * sc, sc, 1);                          \
      else                                                                                     \
        panel##bytes(rows, nj, d + j * bytes, dr, s + j * sc, sc, 0);                          \
    }                                                                                          \
  }

TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)
TRANSPOSE(16)

static void transpose(int64_t rows, int64_t cols, void *dst, int64_t dr, const void *src,
                      int64_t sc, int bytes, int past_cache) {
  BY_SIZE(bytes, transpose, rows, cols, dst, dr, src, sc, past_cache)
}

void TS_ISA(ts_kernels_copy)(TsCopyKernels *k) {
  *k = (TsCopyKernels){
      .gather = gather,
      .scatter = scatter,
      .strided = strided,
      .splat = splat,
      .runs = runs,
      .weave = weave,
      .part = part,
      .stream = stream,
      .stream_runs = stream_runs,
      .transpose = transpose,
  };
}
