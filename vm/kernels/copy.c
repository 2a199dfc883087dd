/* Gathers, scatters, fills and streams of elements by size. Transposes: copy_transpose.c. */
#include "vm/kernels/copy.h"

#include <string.h>

#include "vm/kernels/copy_element.h"
#include "vm/kernels/simd/isa.h"

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
/* A long src is in memory: asking for its lines ahead gains a tenth. */
enum { FETCHED = 32 << 10, PREFETCH = 2048 };

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
  if (nbytes >= FETCHED)
    for (; i + LINE <= nbytes; i += LINE) {
      __builtin_prefetch(s + i + PREFETCH, 0, 3);
      stream_line(d + i, s + i);
    }
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
      .transpose = TS_ISA(ts_copy_transpose),
  };
}
