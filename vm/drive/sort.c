/* Radix sorting and selection. A key of up to 32 bits travels with its index in one
 * word, key above index. Longer keys are first tried by one of their halves, which
 * sorts most rows that occur; else key and index travel as a pair. */
#include "vm/drive/sort.h"

#include <string.h>

#include "devices/cpu_pool.h"

enum { RADIX = 256, SMALL = 64, CHUNKS = 32, FEW = 32 };

/* Counts become the places where each digit's records begin, first by digit and then by
 * chunk. True if one digit has all n. */
static bool places(int64_t *count, int64_t nchunk, int64_t n) {
  int64_t at = 0;
  for (int d = 0; d < RADIX; d++) {
    int64_t before = at;
    for (int64_t c = 0; c < nchunk; c++) {
      int64_t here = count[c * RADIX + d];
      count[c * RADIX + d] = at;
      at += here;
    }
    if (n && at - before == n) return true;
  }
  return false;
}

#define NAME(f)         word_##f
#define REC             uint64_t
#define DIGIT(r, shift) ((r) >> (32 + (shift)) & 255)
#define LESS(a, b)      ((a) < (b))
#include "vm/drive/sort_radix.inc"
#undef NAME
#undef REC
#undef DIGIT
#undef LESS

typedef struct Pair {
  uint64_t key;
  int64_t index;
} Pair;

#define NAME(f)         pair_##f
#define REC             Pair
#define DIGIT(r, shift) ((r).key >> (shift)&255)
#define LESS(a, b)      ((a).key < (b).key)
#include "vm/drive/sort_radix.inc"
#undef NAME
#undef REC
#undef DIGIT
#undef LESS

/* ---- keys */
#define FLIP_BITS(u, sign) ((u) & (sign) ? (u) ^ (2 * (sign)-1) : (u) ^ (sign))

/* u: the pattern; inf: the pattern above which a magnitude is NaN. */
#define FLOAT_KEYS(U, sign, inf)                                                               \
  TS_CPU_LOOKING(i, 0, n) {                                                                    \
    U u = ((const U *)x)[i], a = u & (U)((sign)-1);                                            \
    U k = (U)FLIP_BITS(u, (U)(sign));                                                          \
    k = a == 0 ? (U)(sign) : k;                                                                \
    k = a > (U)(inf) ? (U)-1 : k;                                                              \
    key[i] = (U)(k ^ (U)flip);                                                                 \
  }

#define INT_KEYS(U, sign)                                                                      \
  TS_CPU_LOOKING(i, 0, n) key[i] = (U)(((const U *)x)[i] ^ (U)(sign) ^ (U)flip);

/* Largest pattern that is a number or infinity. */
static uint64_t last_number(TsDtype d) {
  switch ((int)d) {
  case TS_DT_f64: return 0x7ff0000000000000;
  case TS_DT_f32: return 0x7f800000;
  case TS_DT_f16: return 0x7c00;
  case TS_DT_bf16: return 0x7f80;
  case TS_DT_fp8_e5m2: return 0x7c;
  default: return 0x7e; /* fp8_e4m3 has no infinity */
  }
}

void ts_sort_keys(TsDtype d, bool descending, int64_t n, const void *x, uint64_t *key) {
  uint64_t flip = descending ? UINT64_MAX : 0, last = last_number(d);
  switch ((int)d) {
  case TS_DT_bool:
  case TS_DT_u8: INT_KEYS(uint8_t, 0); break;
  case TS_DT_i8: INT_KEYS(uint8_t, 0x80); break;
  case TS_DT_i16: INT_KEYS(uint16_t, 0x8000); break;
  case TS_DT_i32: INT_KEYS(uint32_t, 0x80000000); break;
  case TS_DT_i64: INT_KEYS(uint64_t, 0x8000000000000000); break;
  case TS_DT_fp8_e4m3:
  case TS_DT_fp8_e5m2: FLOAT_KEYS(uint8_t, 0x80u, last); break;
  case TS_DT_f16:
  case TS_DT_bf16: FLOAT_KEYS(uint16_t, 0x8000u, last); break;
  case TS_DT_f32: FLOAT_KEYS(uint32_t, 0x80000000u, last); break;
  default: FLOAT_KEYS(uint64_t, 0x8000000000000000u, last); break;
  }
}

uint64_t ts_sort_pattern(TsDtype d, uint64_t key) {
  uint64_t all = UINT64_MAX >> (64 - ts_sort_bits(d)), sign = all ^ all >> 1;
  if (ts_dtype_is(d, TS_KIND_B | TS_KIND_U)) return key;
  if (ts_dtype_is(d, TS_KIND_I)) return key ^ sign;
  return key & sign ? key ^ sign : key ^ all;
}

/* ---- sorting */
int64_t ts_sort_spare(int64_t n, int bits) {
  return (bits <= 32 && n <= UINT32_MAX ? 2 : 5) * 8 * n;
}

static uint64_t *sort_words(int64_t n, int bits, uint64_t *a, uint64_t *b, bool together) {
  return together ? word_parallel(n, bits, a, b) : word_serial(n, bits, a, b);
}

/* The lower `bits` bits of the keys, whose upper half is the same in all. */
static void sort_lower(int64_t n, int bits, uint64_t *key, int64_t *index, uint64_t *spare,
                       bool together) {
  uint64_t upper = n ? key[0] >> 32 << 32 : 0;
  TS_CPU_LOOKING(i, 0, n) key[i] = key[i] << 32 | (uint64_t)i;
  const uint64_t *r = sort_words(n, bits, key, spare, together);
  TS_CPU_LOOKING(i, 0, n) {
    uint64_t word = r[i];
    index[i] = (int64_t)(word & UINT32_MAX);
    key[i] = upper | word >> 32;
  }
}

static void sort_run(int64_t n, const uint64_t *key, int64_t *index) {
  for (int64_t i = 1; i < n; i++) {
    int64_t x = index[i], at = i;
    for (; at > 0 && key[x] < key[index[at - 1]]; at--) index[at] = index[at - 1];
    index[at] = x;
  }
}

/* Whether a sample of the keys differs in the upper halves. */
static bool is_spread(int64_t n, const uint64_t *key) {
  enum { SAMPLE = 64 };
  uint32_t seen[SAMPLE];
  for (int i = 0; i < SAMPLE; i++) {
    seen[i] = (uint32_t)(key[n / SAMPLE * i] >> 32);
    for (int k = 0; k < i; k++)
      if (seen[k] == seen[i]) return false;
  }
  return true;
}

/* By the upper halves, then runs of equal ones by insertion. Gives up, with the keys as
 * they were, where a run is long. */
static bool sort_upper(int64_t n, uint64_t *key, int64_t *index, uint64_t *spare,
                       bool together) {
  uint64_t *a = spare, *b = spare + n;
  TS_CPU_LOOKING(i, 0, n) a[i] = key[i] >> 32 << 32 | (uint64_t)i;
  const uint64_t *r = sort_words(n, 32, a, b, together);
  TS_CPU_LOOKING(i, 0, n) index[i] = (int64_t)(r[i] & UINT32_MAX);
  int64_t start = 0;
  TS_CPU_LOOKING(i, 1, n + 1) {
    if (i < n && r[i] >> 32 == r[start] >> 32) continue;
    if (i - start > FEW) return false;
    sort_run(i - start, key, index + start);
    start = i;
  }
  TS_CPU_LOOKING(i, 0, n) spare[i] = key[index[i]];
  if (ts_cpu_interrupted()) return true;
  TS_CPU_LOOKING(i, 0, n) key[i] = spare[i];
  return true;
}

static void sort_pairs(int64_t n, uint64_t *key, int64_t *index, Pair *a, bool together) {
  TS_CPU_LOOKING(i, 0, n) a[i] = (Pair){key[i], i};
  const Pair *r = together ? pair_parallel(n, 64, a, a + n) : pair_serial(n, 64, a, a + n);
  TS_CPU_LOOKING(i, 0, n) key[i] = r[i].key, index[i] = r[i].index;
}

static void sort(int64_t n, int bits, uint64_t *key, int64_t *index, void *spare,
                 bool together) {
  uint64_t differ = 0;
  TS_CPU_LOOKING(i, 0, bits > 32 ? n : 0) differ |= key[i] ^ key[0];
  if (n <= UINT32_MAX && differ >> 32 == 0)
    sort_lower(n, bits < 32 ? bits : 32, key, index, spare, together);
  else if (n <= SMALL || n > UINT32_MAX || !is_spread(n, key) ||
           !sort_upper(n, key, index, spare, together))
    sort_pairs(n, key, index, spare, together);
}

void ts_sort_index(int64_t n, int bits, uint64_t *key, int64_t *index, void *spare) {
  sort(n, bits, key, index, spare, false);
}

void ts_sort_index_parallel(int64_t n, int bits, uint64_t *key, int64_t *index, void *spare) {
  sort(n, bits, key, index, spare, n >= 1 << 16 && ts_cpu_threads() > 1);
}

/* ---- selection */
uint64_t ts_sort_select(int64_t n, int64_t k, int bits, uint64_t *key) {
  for (int shift = bits - 8; shift >= 0 && n > 1; shift -= 8) {
    int64_t count[RADIX] = {0}, m = 0;
    uint64_t d = 0;
    TS_CPU_LOOKING(i, 0, n) count[key[i] >> shift & 255]++;
    if (ts_cpu_interrupted()) break;
    for (; k >= count[d]; d++) k -= count[d];
    if (count[d] == n) continue;
    TS_CPU_LOOKING(i, 0, n)
    if ((key[i] >> shift & 255) == d) key[m++] = key[i];
    n = m;
  }
  return key[0];
}

/* ---- the first k of a row: what may be among them is kept while the row goes by in blocks, so
 * that its keys need not be stored. No key behind k kept ones that is as large as the largest of
 * them comes in. */
enum { BLOCK = 2048 };

typedef struct Kept {
  uint64_t *key, *work;
  int64_t *place; /* in the row, increasing */
  int64_t n;
} Kept;

static int64_t kept_room(int64_t k) { return 2 * k + BLOCK + 1; }

int64_t ts_sort_first_bytes(int64_t k, int bits) {
  return 8 * (3 * kept_room(k) + BLOCK) + ts_sort_spare(k, bits);
}

/* The k-th key parts those before it from equal ones, of which the first stay. They keep their
 * order, so that the sort is stable. */
static uint64_t keep_first(Kept *c, int64_t k, int bits) {
  memcpy(c->work, c->key, (size_t)c->n * sizeof *c->key);
  uint64_t last = ts_sort_select(c->n, k - 1, bits, c->work);
  int64_t before = 0, m = 0;
  for (int64_t i = 0; i < c->n; i++) before += c->key[i] < last;
  int64_t equal = k - before;
  for (int64_t i = 0; i < c->n && m < k; i++) {
    bool same = c->key[i] == last;
    if (c->key[i] > last || (same && equal == 0)) continue;
    equal -= same;
    c->key[m] = c->key[i];
    c->place[m++] = c->place[i];
  }
  c->n = k;
  return last;
}

static void keep_all(Kept *c, const uint64_t *key, int64_t n, int64_t from) {
  memcpy(c->key + c->n, key, (size_t)n * sizeof *key);
  for (int64_t i = 0; i < n; i++) c->place[c->n + i] = from + i;
  c->n += n;
}

static void keep_below(Kept *c, uint64_t bound, const uint64_t *key, int64_t n, int64_t from) {
  enum { SOME = 32 };
  for (int64_t i = 0; i < n; i += SOME) {
    int64_t end = i + SOME < n ? i + SOME : n;
    uint64_t any = 0;
    for (int64_t j = i; j < end; j++) any |= key[j] < bound;
    for (int64_t j = i; any && j < end; j++) {
      c->key[c->n] = key[j], c->place[c->n] = from + j;
      c->n += key[j] < bound;
    }
  }
}

/* Few: the first of what has passed, sorted. Most keys are no better than the last. */
static int few_of(uint64_t *best, int have, int k, const uint64_t *key, int64_t n, int64_t from,
                  int64_t *index) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = key[i];
    if (have == k && x >= best[k - 1]) continue;
    int at = have < k ? have++ : k - 1;
    for (; at > 0 && x < best[at - 1]; at--) best[at] = best[at - 1], index[at] = index[at - 1];
    best[at] = x, index[at] = from + i;
  }
  return have;
}

static void first_few(TsDtype d, bool descending, int64_t n, const char *x, int k,
                      int64_t *index, uint64_t *block) {
  uint64_t best[FEW];
  int have = 0;
  for (int64_t i = 0; i < n && k > 0 && !ts_cpu_interrupted(); i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    ts_sort_keys(d, descending, m, x + i * ts_dtypes[d].nbytes, block);
    have = few_of(best, have, k, block, m, i, index);
  }
}

void ts_sort_first(TsDtype d, bool descending, int64_t n, const void *x, int64_t k,
                   int64_t *index, void *spare) {
  if (k <= FEW) {
    first_few(d, descending, n, x, (int)k, index, spare);
    return;
  }
  int64_t room = kept_room(k), size = ts_dtypes[d].nbytes;
  int bits = ts_sort_bits(d);
  uint64_t *block = spare, bound = 0;
  Kept c = {.key = block + BLOCK};
  c.work = c.key + room, c.place = (int64_t *)(c.work + room);
  bool full = false;
  for (int64_t i = 0; i < n && !ts_cpu_interrupted(); i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    ts_sort_keys(d, descending, m, (const char *)x + i * size, block);
    if (full)
      keep_below(&c, bound, block, m, i);
    else
      keep_all(&c, block, m, i);
    if (c.n <= 2 * k || i + m == n) continue;
    bound = keep_first(&c, k, bits);
    full = true;
  }
  if (c.n > k) keep_first(&c, k, bits);
  ts_sort_index(k, bits, c.key, index, c.place + room);
  if (ts_cpu_interrupted()) return; /* index may be anything */
  for (int64_t i = 0; i < k; i++) index[i] = c.place[index[i]];
}
