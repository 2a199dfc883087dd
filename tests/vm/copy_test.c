/* Strided copies, fills and conversions against a loop over single elements, for
 * random shapes and strides and for the shapes of each fast path. The buffers are
 * compared whole, so a byte written outside is a failure too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "tests/skip.h"
#include "vm/core/copy.h"

static int failures;
static const char *isa;
static TsConvertKernels conversions;
static TsCopyKernels kernels;

static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

static int64_t below(int64_t n) { return (int64_t)(draw() >> 11) % n; }

enum { MAX = 5, PAD = 192 };

typedef struct Side {
  int64_t stride[MAX], lo, size; /* lowest offset, bytes from there to the end */
  char *mem, *first;
} Side;

typedef struct Case {
  int ndim;
  int64_t dim[MAX];
  Side d, s;
  int db, sb;
} Case;

static int64_t elements(const Case *c) {
  int64_t n = 1;
  for (int i = 0; i < c->ndim; i++) n *= c->dim[i];
  return n;
}

/* Finds the extent of the strides and a buffer with room around it. */
static void place(const Case *c, Side *x, int bytes, int64_t shift) {
  int64_t hi = 0;
  x->lo = 0;
  for (int i = 0; i < c->ndim; i++) {
    int64_t end = x->stride[i] * (c->dim[i] - 1);
    if (c->dim[i] > 0) *(end < 0 ? &x->lo : &hi) += end;
  }
  x->size = hi - x->lo + bytes + 2 * PAD;
  char *base = aligned_alloc(64, (size_t)((x->size + shift + 127) / 64 * 64));
  x->mem = base;
  x->first = base + PAD + shift - x->lo;
  x->size += shift;
}

static void next_index(const Case *c, int64_t *index) {
  for (int i = c->ndim - 1; i >= 0; i--) {
    if (++index[i] < c->dim[i]) return;
    index[i] = 0;
  }
}

static int64_t offset_of(const Case *c, const Side *x, const int64_t *index) {
  int64_t at = 0;
  for (int i = 0; i < c->ndim; i++) at += index[i] * x->stride[i];
  return at;
}

static void describe(const Case *c, const char *what) {
  fprintf(stderr, "%s: %s, %d and %d bytes:", isa, what, c->db, c->sb);
  for (int i = 0; i < c->ndim; i++)
    fprintf(stderr, " %lld (%lld, %lld)", (long long)c->dim[i], (long long)c->d.stride[i],
            (long long)c->s.stride[i]);
  fprintf(stderr, "\n");
  failures++;
}

/* `convert` is NULL for a copy. */
static void check(Case *c, TsDtype to, TsDtype from, const char *what) {
  TsConvertFn *convert = to == from ? NULL : conversions.convert[from][to];
  int64_t n = elements(c), index[MAX] = {0};
  for (int64_t i = 0; i < c->s.size; i++) c->s.mem[i] = (char)draw();
  memset(c->d.mem, 0x5a, (size_t)c->d.size);
  char *want = malloc((size_t)c->d.size), *first = want + (c->d.first - c->d.mem);
  memcpy(want, c->d.mem, (size_t)c->d.size);
  for (int64_t i = 0; i < n; i++, next_index(c, index)) {
    char *d = first + offset_of(c, &c->d, index);
    const char *s = c->s.first + offset_of(c, &c->s, index);
    if (convert)
      convert(1, d, s);
    else
      memcpy(d, s, (size_t)c->db);
  }
  if (convert)
    ts_convert_nd(c->ndim, c->dim, c->d.first, to, c->d.stride, c->s.first, from, c->s.stride);
  else
    ts_copy_nd(c->ndim, c->dim, c->d.first, c->d.stride, c->s.first, c->s.stride, c->db);
  if (memcmp(want, c->d.mem, (size_t)c->d.size)) describe(c, what);
  free(want);
}

static void shuffle(int n, int *order) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int at = (int)below(i + 1), t = order[i];
    order[i] = order[at], order[at] = t;
  }
}

/* Packed strides in a random order of dimensions, some with gaps, some negative,
 * with `repeat` some zero. */
static void random_strides(const Case *c, Side *x, int bytes, int repeat) {
  int order[MAX], plain = below(2) == 0;
  shuffle(c->ndim, order);
  if (below(3) == 0)
    for (int i = 0; i < c->ndim; i++) order[i] = c->ndim - 1 - i;
  int64_t step = bytes;
  for (int i = 0; i < c->ndim; i++) {
    int a = order[i];
    if (!plain && below(4) == 0) step += bytes * below(5);
    x->stride[a] = step;
    step *= c->dim[a] > 0 ? c->dim[a] : 1;
    if (!plain && below(5) == 0) x->stride[a] = -x->stride[a];
    if (repeat && below(8) == 0) x->stride[a] = 0;
  }
}

static void random_case(Case *c, int db, int sb, int64_t room) {
  c->db = db, c->sb = sb;
  c->ndim = (int)below(MAX + 1);
  for (int i = 0; i < c->ndim; i++) {
    int64_t top = below(3) ? 9 : below(2) ? 70 : 300;
    c->dim[i] = 1 + below(top);
    if (below(200) == 0) c->dim[i] = 0;
    if (c->dim[i] > room) c->dim[i] = room;
    room /= c->dim[i] ? c->dim[i] : 1;
  }
  random_strides(c, &c->d, db, 0);
  random_strides(c, &c->s, sb, 1);
  int64_t shift = below(2) ? 0 : below(64 / db) * db;
  place(c, &c->d, db, shift);
  place(c, &c->s, sb, below(2) ? 0 : below(64 / sb) * sb);
}

static void release(Case *c) {
  free(c->d.mem);
  free(c->s.mem);
}

static void random_copies(int count) {
  for (int i = 0; i < count; i++) {
    Case c;
    int bytes = 1 << below(5);
    random_case(&c, bytes, bytes, i % 50 ? 20000 : 400000);
    check(&c, TS_DT_u8, TS_DT_u8, "copy");
    release(&c);
  }
}

static void random_conversions(int count) {
  for (int i = 0; i < count; i++) {
    Case c;
    TsDtype to = (TsDtype)below(TS_DT_mxfp4), from = (TsDtype)below(TS_DT_mxfp4);
    random_case(&c, ts_dtypes[to].nbytes, ts_dtypes[from].nbytes, i % 50 ? 20000 : 400000);
    check(&c, to, from, "conversion");
    release(&c);
  }
}

static void random_fills(int count) {
  for (int i = 0; i < count; i++) {
    Case c;
    int bytes = 1 << below(5);
    random_case(&c, bytes, bytes, 20000);
    int64_t n = elements(&c), index[MAX] = {0};
    memset(c.d.mem, 0x5a, (size_t)c.d.size);
    ts_fill_nd(c.ndim, c.dim, c.d.first, c.d.stride, bytes, c.s.first);
    for (int64_t e = 0; e < n; e++, next_index(&c, index)) {
      char *at = c.d.first + offset_of(&c, &c.d, index);
      if (memcmp(at, c.s.first, (size_t)bytes)) {
        describe(&c, "fill");
        break;
      }
      memset(at, 0x5a, (size_t)bytes);
    }
    for (int64_t b = 0; b < c.d.size; b++)
      if (c.d.mem[b] != 0x5a) {
        describe(&c, "fill outside");
        break;
      }
    release(&c);
  }
}

/* Destinations above the size from which stores pass the caches: dst row-major with
 * `gap` extra elements after each row, src by the permutation or step given. */
static void large(int bytes, int ndim, const int64_t *dim, const int *order, int64_t gap,
                  int64_t step, int64_t shift, TsDtype to, TsDtype from) {
  Case c = {.ndim = ndim, .db = bytes, .sb = bytes};
  if (to != from) c.db = ts_dtypes[to].nbytes, c.sb = ts_dtypes[from].nbytes;
  int64_t d = c.db, s = c.sb * step;
  memcpy(c.dim, dim, sizeof *dim * (size_t)ndim);
  for (int i = ndim - 1; i >= 0; i--) {
    c.d.stride[i] = d;
    d = d * dim[i] + (i == ndim - 1 ? gap * c.db : 0);
  }
  for (int i = ndim - 1; i >= 0; i--) {
    c.s.stride[order[i]] = s;
    s *= dim[order[i]];
  }
  place(&c, &c.d, c.db, shift * c.db);
  place(&c, &c.s, c.sb, 0);
  check(&c, to, from, "large");
  release(&c);
}

static void large_copies(void) {
  static const int64_t square[] = {1536, 1600}, odd[] = {1537, 1601},
                       image[] = {8, 3, 400 * 401}, pixels[] = {8, 160400, 3},
                       deep[] = {20, 56 * 56, 64}, flat[] = {2500001},
                       heads[] = {16, 12, 257, 64};
  static const int same2[] = {0, 1}, swap2[] = {1, 0}, same3[] = {0, 1, 2}, swap3[] = {0, 2, 1};
  static const int same1[] = {0}, swap4[] = {0, 2, 1, 3};
  for (int bytes = 1; bytes <= 16; bytes *= 2) {
    int64_t scale = bytes < 4 ? 4 / bytes : 1, tall[] = {1536 * scale, 1600};
    int64_t tall_odd[] = {1537 * scale, 1601};
    large(bytes, 2, tall, swap2, 0, 1, 0, TS_DT_u8, TS_DT_u8);
    large(bytes, 2, tall, swap2, 0, 1, 3, TS_DT_u8, TS_DT_u8);
    large(bytes, 2, tall_odd, swap2, 0, 1, 0, TS_DT_u8, TS_DT_u8);
    /* rows of src that share sets of the cache; planes of short rows */
    int64_t clash[] = {8192 / bytes, 1216}, planes[] = {100 / bytes + 1, 196 + bytes, 512};
    large(bytes, 2, clash, swap2, 0, 1, 0, TS_DT_u8, TS_DT_u8);
    large(bytes, 3, planes, swap3, 0, 1, 0, TS_DT_u8, TS_DT_u8);
    large(bytes, 2, tall_odd, same2, 5, 1, 1, TS_DT_u8, TS_DT_u8);
    large(bytes, 2, tall_odd, same2, 0, 2, 1, TS_DT_u8, TS_DT_u8);
  }
  large(4, 3, image, swap3, 0, 1, 0, TS_DT_u8, TS_DT_u8);
  large(4, 3, pixels, swap3, 0, 1, 0, TS_DT_u8, TS_DT_u8);
  large(4, 3, pixels, same3, 1, 1, 2, TS_DT_u8, TS_DT_u8);
  large(4, 3, deep, swap3, 0, 1, 0, TS_DT_u8, TS_DT_u8);
  large(4, 1, flat, same1, 0, 1, 7, TS_DT_u8, TS_DT_u8);
  large(4, 1, flat, same1, 0, 0, 7, TS_DT_u8, TS_DT_u8);
  large(4, 1, flat, same1, 0, -1, 7, TS_DT_u8, TS_DT_u8);
  large(2, 4, heads, swap4, 0, 1, 0, TS_DT_u8, TS_DT_u8);
  large(0, 1, flat, same1, 0, 1, 3, TS_DT_f32, TS_DT_bf16);
  large(0, 2, square, swap2, 0, 1, 0, TS_DT_f64, TS_DT_f16);
  large(0, 2, odd, swap2, 3, 1, 1, TS_DT_i64, TS_DT_u8);
  large(0, 3, deep, swap3, 0, 2, 0, TS_DT_f32, TS_DT_i32);
}

/* Rows of blocks with space between them. */
static void block_rows(void) {
  enum { ROWS = 3, COLS = 64 };
  float x[ROWS][COLS + 8], back[ROWS][COLS];
  char blocks[ROWS][40];
  const int64_t dim[] = {ROWS, COLS}, xs[] = {sizeof x[0], 4}, bs[] = {sizeof blocks[0], 0};
  const int64_t rs[] = {sizeof back[0], 4};
  for (int i = 0; i < ROWS; i++)
    for (int e = 0; e < COLS; e++) x[i][e] = (float)((i + e) % 2 ? -3 : 1.5);
  ts_convert_nd(2, dim, blocks, TS_DT_mxfp4, bs, x, TS_DT_f32, xs);
  ts_convert_nd(2, dim, back, TS_DT_f32, rs, blocks, TS_DT_mxfp4, bs);
  for (int i = 0; i < ROWS; i++)
    if (memcmp(x[i], back[i], sizeof back[i])) {
      fprintf(stderr, "%s: rows of mxfp4\n", isa);
      failures++;
    }
}

static void suite(const char *name, void copy(TsCopyKernels *),
                  void convert(TsConvertKernels *)) {
  isa = name;
  copy(&kernels);
  convert(&conversions);
  ts_copy_use(&kernels, &conversions);
  random_copies(3000);
  random_conversions(1500);
  random_fills(800);
  large_copies();
  block_rows();
}

int main(void) {
  skip_isas();
  ts_cpu_set_threads(2);
  suite("base", ts_kernels_copy_base, ts_kernels_convert_base);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    suite("avx2", ts_kernels_copy_avx2, ts_kernels_convert_avx2);
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    suite("avx512", ts_kernels_copy_avx512, ts_kernels_convert_avx512);
  if (!failures) printf("copy: ok\n");
  return failures != 0;
}
