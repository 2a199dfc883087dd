/* Strided copies and conversions of any rank, as tiles of two dimensions.
 *
 * Dimensions are sorted by the destination's strides and merged where both sides
 * allow it. The last one is `inner`; `partner` is the dimension that makes good
 * tiles with it: the one along which the source is densest when inner jumps from
 * cache line to cache line or rows are whole lines, else inner's neighbour. A tile is then one
 * of the kernels' moves: runs, a transpose, or a strided loop. Conversions pack a tile into L1,
 * convert it there and move it on. The other dimensions are an odometer.
 *
 * A destination too large for the caches to keep is written past them, in whole
 * lines: straight from a transpose, else through a packed tile in L1. */
#include "vm/core/copy.h"

#include <stdbool.h>
#include <string.h>

#include "devices/cpu_pool.h"

enum {
  LINE = 64,
  SIDE = 8,              /* rows and columns from which tiles are transposed */
  PACK = 16 << 10,       /* bytes of a packed tile, half of L1 at most */
  PACK_LINES = 64 << 10, /* of a transpose that is packed: wide rows pay, in L2 */
  TILE = 256 << 10,      /* bytes of a tile that is moved at once */
  PARALLEL = 256 << 10,  /* bytes that one thread moves alone */
  PAST_CACHE = 8 << 20,  /* bytes from which a destination is streamed */
  SHORT_RUN = 512        /* bytes of a row not worth streaming */
};

typedef struct Job {
  int ndim, inner, partner; /* partner is -1 in one dimension */
  int64_t dim[TS_COPY_MAX_DIM], ds[TS_COPY_MAX_DIM], ss[TS_COPY_MAX_DIM];
  char *dst;
  const char *src;
  int db, sb; /* bytes of an element */
  TsConvertFn *convert;
  bool past_cache, packs, lines;
  int64_t ti, tj, skip; /* a tile's extents; how much the first one lacks of tj */
  int64_t ntile_i, ntile_j;
} Job;

/* A tile, or a part of one: ni rows of nj elements. */
typedef struct Tile {
  int64_t ni, nj;
  bool first, last; /* of the tiles along a row */
  char *dst;
  int64_t di, dj;
  const char *src;
  int64_t si, sj;
} Tile;

static const TsCopyKernels *k;
static const TsConvertKernels *conversions;

void ts_copy_use(const TsCopyKernels *copy, const TsConvertKernels *convert) {
  k = copy;
  conversions = convert;
}

const TsCopyKernels *ts_copy_used(void) { return k; }

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- the shape in normal form */

/* Takes in one dimension at its place among the others, destination steps falling. */
static void insert(Job *j, int64_t dim, int64_t ds, int64_t ss) {
  if (ds < 0) {
    j->dst += ds * (dim - 1), j->src += ss * (dim - 1);
    ds = -ds, ss = -ss;
  }
  int at = j->ndim++;
  for (; at > 0 && j->ds[at - 1] < ds; at--)
    j->dim[at] = j->dim[at - 1], j->ds[at] = j->ds[at - 1], j->ss[at] = j->ss[at - 1];
  j->dim[at] = dim, j->ds[at] = ds, j->ss[at] = ss;
}

static void coalesce(Job *j) {
  int n = 0;
  for (int i = 1; i < j->ndim; i++) {
    if (j->ds[n] == j->ds[i] * j->dim[i] && j->ss[n] == j->ss[i] * j->dim[i]) {
      j->dim[n] *= j->dim[i];
    } else {
      n++;
      j->dim[n] = j->dim[i];
    }
    j->ds[n] = j->ds[i], j->ss[n] = j->ss[i];
  }
  j->ndim = n + 1;
}

/* Short rows that make an element of another size become one. */
static void widen(Job *j) {
  int in = j->ndim - 1;
  if (j->convert || j->ndim == 1 || j->ds[in] != j->db || j->ss[in] != j->sb) return;
  int64_t bytes = j->dim[in] * j->db;
  if (bytes <= 16 && !(bytes & (bytes - 1))) {
    j->db = j->sb = (int)bytes;
    j->ndim--;
  }
}

/* False if there is nothing to do. */
static bool normalise(Job *j, int ndim, const int64_t *dim, const int64_t *ds,
                      const int64_t *ss) {
  j->ndim = 0;
  for (int i = 0; i < ndim; i++) {
    if (dim[i] <= 0) return false;
    if (dim[i] > 1) insert(j, dim[i], ds[i], ss[i]);
  }
  if (!j->ndim) insert(j, 1, j->db, j->sb);
  if (j->ndim > 1) {
    coalesce(j);
    widen(j);
  }
  return true;
}

/* ---- tiles */

static void move_strided(const Tile *t, int bytes) {
  if (t->ni <= t->nj) {
    for (int64_t i = 0; i < t->ni; i++)
      k->strided(t->nj, t->dst + i * t->di, t->dj, t->src + i * t->si, t->sj, bytes);
  } else {
    for (int64_t i = 0; i < t->nj; i++)
      k->strided(t->ni, t->dst + i * t->dj, t->di, t->src + i * t->sj, t->si, bytes);
  }
}

static void move(const Tile *t, int bytes, bool past_cache) {
  if (t->dj != bytes)
    move_strided(t, bytes);
  else if (t->sj == bytes)
    k->runs(t->ni, t->nj * bytes, t->dst, t->di, t->src, t->si);
  else if (t->nj >= 2 && t->nj <= 4 && t->di == t->nj * bytes && t->si == bytes &&
           t->ni >= SIDE)
    k->weave(t->ni, (int)t->nj, t->dst, t->src, t->sj, bytes);
  else if (t->ni >= 2 && t->ni <= 4 && t->sj == t->ni * bytes && t->si == bytes &&
           t->nj >= SIDE)
    k->part(t->nj, (int)t->ni, t->dst, t->di, t->src, bytes);
  else if (t->si == bytes && t->ni >= SIDE && t->nj >= SIDE)
    k->transpose(t->ni, t->nj, t->dst, t->di, t->src, t->sj, bytes, past_cache);
  else if (t->sj == 0 && t->nj >= 8)
    for (int64_t i = 0; i < t->ni; i++)
      k->splat(t->nj, t->dst + i * t->di, t->src + i * t->si, bytes);
  else
    move_strided(t, bytes);
}

static bool packed(const Tile *t, int64_t row, int64_t step, int bytes) {
  return step == bytes && (t->ni == 1 || row == t->nj * bytes);
}

static void stream_rows(const Tile *t, int bytes) {
  int64_t row = t->nj * bytes;
  if (packed(t, t->di, t->dj, bytes) && packed(t, t->si, t->sj, bytes)) {
    k->stream(t->ni * row, t->dst, t->src);
  } else if (packed(t, t->di, t->dj, bytes) && row >= LINE) {
    k->stream_runs(t->ni, row, t->dst, t->src, t->si);
  } else {
    for (int64_t i = 0; i < t->ni; i++) k->stream(row, t->dst + i * t->di, t->src + i * t->si);
  }
}

static void move_packed_out(const Tile *t, int bytes, const char *buf, bool past_cache) {
  Tile out = *t;
  out.src = buf, out.si = t->nj * bytes, out.sj = bytes;
  if (past_cache)
    stream_rows(&out, bytes);
  else
    move(&out, bytes, false);
}

static void pack(const Tile *t, int bytes, char *buf) {
  Tile in = *t;
  in.dst = buf, in.di = t->nj * bytes, in.dj = bytes;
  move(&in, bytes, false);
}

/* Both sides adjoin and dst is written past the caches: by small steps, so that what is
 * read for one is on its way while another is written. */
static void convert_stream(const Job *j, int64_t n, char *dst, const char *src) {
  enum { STEP = 1024 };
  _Alignas(LINE) char out[STEP * 16];
  for (int64_t i = 0; i < n; i += STEP) {
    int64_t len = least(n - i, STEP);
    j->convert(len, out, src + i * j->sb);
    k->stream(len * j->db, dst + i * j->db, out);
  }
}

static void convert_tile(const Job *j, const Tile *t) {
  if (j->past_cache && packed(t, t->si, t->sj, j->sb) && packed(t, t->di, t->dj, j->db)) {
    convert_stream(j, t->ni * t->nj, t->dst, t->src);
    return;
  }
  _Alignas(LINE) char in[PACK], out[PACK];
  bool direct = !j->past_cache && packed(t, t->di, t->dj, j->db);
  char *dst = direct ? t->dst : out;
  if (packed(t, t->si, t->sj, j->sb)) {
    j->convert(t->ni * t->nj, dst, t->src);
  } else if (t->sj == j->sb && t->nj >= 128) {
    for (int64_t i = 0; i < t->ni; i++)
      j->convert(t->nj, dst + i * t->nj * j->db, t->src + i * t->si);
  } else {
    pack(t, j->sb, in);
    j->convert(t->ni * t->nj, dst, in);
  }
  if (!direct) move_packed_out(t, j->db, out, j->past_cache);
}

/* A packed transpose whose rows begin anywhere in a cache line. Each row stores the
 * lines that end in this tile: the columns of one line before it are packed again, and
 * what follows the last whole line is left to the next tile. */
static void stream_lines(const Tile *t, int bytes) {
  _Alignas(LINE) char buf[PACK_LINES];
  int64_t before = t->first ? 0 : LINE, row = t->nj * bytes + before;
  Tile in = *t;
  in.src -= before / bytes * t->sj, in.nj = row / bytes;
  pack(&in, bytes, buf);
  for (int64_t i = 0; i < t->ni; i++) {
    char *d = t->dst + i * t->di;
    int64_t from = t->first ? 0 : -(int64_t)((uintptr_t)d & (LINE - 1)), to = t->nj * bytes;
    if (!t->last) to -= (int64_t)((uintptr_t)(d + to) & (LINE - 1));
    k->stream(to - from, d + from, buf + i * row + before + from);
  }
}

static void do_tile(const Job *j, const Tile *t) {
  if (j->convert) {
    convert_tile(j, t);
  } else if (j->lines) {
    stream_lines(t, j->db);
  } else if (j->packs) {
    _Alignas(LINE) char buf[PACK];
    pack(t, j->db, buf);
    move_packed_out(t, j->db, buf, true);
  } else if (j->past_cache && t->dj == j->db && t->sj == j->db) {
    stream_rows(t, j->db);
  } else {
    move(t, j->db, j->past_cache);
  }
}

/* ---- the plan */

/* Every row begins and ends with a cache line. */
static bool whole_lines(const Job *j) {
  int64_t odd = (int64_t)(uintptr_t)j->dst | j->dim[j->ndim - 1] * j->db;
  for (int i = 0; i < j->ndim - 1; i++) odd |= j->ds[i];
  return odd % LINE == 0;
}

static bool inner_is_run(const Job *j) {
  return j->ds[j->inner] == j->db && j->ss[j->inner] == j->sb;
}

static bool inner_jumps(const Job *j) { return magnitude(j->ss[j->inner]) >= LINE; }

static void choose_partner(Job *j) {
  j->inner = j->ndim - 1;
  j->partner = j->inner - 1;
  bool any_order = !j->convert && inner_is_run(j) && whole_lines(j);
  if (!inner_jumps(j) && !any_order) return;
  int64_t step = any_order ? INT64_MAX : magnitude(j->ss[j->inner]);
  for (int i = j->inner - 1; i >= 0; i--) {
    int64_t s = magnitude(j->ss[i]);
    if (s && s < step) step = s, j->partner = i;
  }
}

static int64_t rows_of(const Job *j) { return j->partner < 0 ? 1 : j->dim[j->partner]; }

static bool is_transpose(const Job *j) {
  return !j->convert && j->partner >= 0 && j->ds[j->inner] == j->db &&
         j->ss[j->inner] != j->sb && j->ss[j->partner] == j->sb && j->dim[j->partner] >= SIDE &&
         j->dim[j->inner] >= SIDE;
}

/* How a large destination is written. Transposes store whole lines when rows begin
 * at multiples of them; short rows that do not adjoin stay in the caches. */
static void choose_stores(Job *j, int64_t nbytes) {
  int64_t row = j->dim[j->inner] * j->db;
  j->past_cache = j->packs = j->lines = false;
  if (nbytes < PAST_CACHE || j->ds[j->inner] != j->db) return;
  bool adjoin = j->partner >= 0 && j->ds[j->partner] == row;
  if (row < SHORT_RUN && !adjoin && !(row >= LINE && whole_lines(j))) return;
  j->past_cache = true;
  if (is_transpose(j))
    j->packs = j->lines = j->ds[j->partner] % LINE != 0;
  else
    j->packs = j->ss[j->inner] != j->sb || (adjoin && row < LINE);
}

/* Tiles of `room` bytes: whole rows where they fit, as many as fit; where inner
 * jumps, so many columns that their source lines stay in L1 for all rows. */
static void choose_tiles(Job *j) {
  int bytes = j->db > j->sb ? j->db : j->sb;
  int64_t rows = rows_of(j), cols = j->dim[j->inner];
  bool packs = j->packs || j->convert;
  int64_t room = (packs || j->ss[j->inner] != j->sb ? PACK : TILE) / bytes;
  bool direct = is_transpose(j) && !packs;
  if (direct) room = TILE / bytes;
  if (j->lines) room = PACK_LINES / bytes;
  int64_t wide = room;
  if (j->partner >= 0 && inner_jumps(j)) wide = (j->lines ? 16 : packs ? 8 : 4) * LINE / bytes;
  if (direct && j->past_cache) wide = ts_copy_deep(j->db, j->ds[j->partner], j->ss[j->inner]);
  j->tj = least(cols, most(wide, room / rows));
  j->ti = least(rows, most(room / j->tj, 1));
  if (j->lines && j->tj < cols) j->tj -= LINE / bytes;
  if (j->tj < cols && j->tj * j->db > LINE) j->tj -= j->tj * j->db % LINE / j->db;
  j->skip = 0;
  int64_t lead = (-(int64_t)(uintptr_t)j->dst & (LINE - 1)) / j->db;
  if (j->past_cache && j->tj < cols && lead < j->tj) j->skip = lead ? j->tj - lead : 0;
  j->ntile_j = ceil_div(cols + j->skip, j->tj);
  j->ntile_i = ceil_div(rows, j->ti);
}

/* Tile (ti, tj) of the plane at the given offsets. */
static void plane_tile(const Job *j, int64_t ti, int64_t tj, int64_t dst, int64_t src) {
  int in = j->inner, pa = j->partner;
  int64_t i0 = ti * j->ti, j0 = most(tj * j->tj - j->skip, 0);
  Tile t = {.ni = least(rows_of(j) - i0, j->ti),
            .nj = least(j->dim[in], (tj + 1) * j->tj - j->skip) - j0,
            .di = pa < 0 ? 0 : j->ds[pa],
            .dj = j->ds[in],
            .si = pa < 0 ? 0 : j->ss[pa],
            .sj = j->ss[in]};
  t.first = tj == 0, t.last = tj == j->ntile_j - 1;
  t.dst = j->dst + dst + i0 * t.di + j0 * t.dj;
  t.src = j->src + src + i0 * t.si + j0 * t.sj;
  do_tile(j, &t);
}

/* Units lo..hi-1 of the job: a unit is a tile; the tiles of a plane follow each other,
 * down the rows first. */
static void work(void *arg, int64_t lo, int64_t hi, int worker) {
  (void)worker;
  const Job *j = arg;
  int64_t index[TS_COPY_MAX_DIM], dst = 0, src = 0;
  int64_t ti = lo % j->ntile_i, rest = lo / j->ntile_i;
  int64_t tj = rest % j->ntile_j;
  rest /= j->ntile_j;
  for (int i = j->ndim - 1; i >= 0; i--) {
    if (i == j->inner || i == j->partner) continue;
    index[i] = rest % j->dim[i], rest /= j->dim[i];
    dst += index[i] * j->ds[i], src += index[i] * j->ss[i];
  }
  for (int64_t tile = lo; tile < hi; tile++) {
    plane_tile(j, ti, tj, dst, src);
    if (++ti < j->ntile_i) continue;
    ti = 0;
    if (++tj < j->ntile_j) continue;
    tj = 0;
    for (int i = j->ndim - 1; i >= 0; i--) {
      if (i == j->inner || i == j->partner) continue;
      dst += j->ds[i], src += j->ss[i];
      if (++index[i] < j->dim[i]) break;
      dst -= j->ds[i] * j->dim[i], src -= j->ss[i] * j->dim[i];
      index[i] = 0;
    }
  }
  if (j->past_cache) ts_copy_fence();
}

static void run(Job *j) {
  int64_t n = 1;
  for (int i = 0; i < j->ndim; i++) n *= j->dim[i];
  int64_t nbytes = n * most(j->db, j->sb);
  choose_partner(j);
  choose_stores(j, n * j->db);
  choose_tiles(j);
  int64_t tiles = j->ntile_i * j->ntile_j;
  for (int i = 0; i < j->ndim; i++)
    if (i != j->inner && i != j->partner) tiles *= j->dim[i];
  if (nbytes < PARALLEL)
    work(j, 0, tiles, 0);
  else
    ts_cpu_parallel(tiles, ceil_div(tiles * (PARALLEL / 4), nbytes), work, j);
}

/* Up to two dimensions that one tile holds need no plan. */
static bool run_small(const Job *j) {
  if (j->ndim > 2) return false;
  int in = j->ndim - 1;
  Tile t = {.ni = 1,
            .nj = j->dim[in],
            .dst = j->dst,
            .dj = j->ds[in],
            .src = j->src,
            .sj = j->ss[in]};
  if (j->ndim == 2) t.ni = j->dim[0], t.di = j->ds[0], t.si = j->ss[0];
  if (t.ni * t.nj * most(j->db, j->sb) > PACK) return false;
  if (!j->convert)
    move(&t, j->db, false);
  else if (j->ndim == 1 && t.dj == j->db && t.sj == j->sb)
    j->convert(t.nj, t.dst, t.src);
  else
    return false;
  return true;
}

/* ---- exports */

void ts_copy_nd(int ndim, const int64_t *dim, void *dst, const int64_t *dst_stride,
                const void *src, const int64_t *src_stride, int elem_bytes) {
  Job j;
  j.dst = dst, j.src = src, j.db = j.sb = elem_bytes, j.convert = NULL;
  if (normalise(&j, ndim, dim, dst_stride, src_stride) && !run_small(&j)) run(&j);
}

void ts_fill_nd(int ndim, const int64_t *dim, void *dst, const int64_t *dst_stride,
                int elem_bytes, const void *value) {
  static const int64_t zero[TS_COPY_MAX_DIM];
  ts_copy_nd(ndim, dim, dst, dst_stride, value, zero, elem_bytes);
}

/* A row of which one side is blocks; the other side goes through a buffer unless it is
 * contiguous. */
static void convert_row(int64_t n, char *dst, TsDtype to, int64_t ds, const char *src,
                        TsDtype from, int64_t ss) {
  enum { STEP = 512 }; /* whole blocks */
  TsConvertFn *convert = conversions->convert[from][to];
  char buffer[STEP * 16];
  int sb = ts_dtypes[from].nbytes, db = ts_dtypes[to].nbytes;
  bool gather = !ts_dtype_in_blocks(from) && ss != sb,
       scatter = !ts_dtype_in_blocks(to) && ds != db;
  if (!gather && !scatter) {
    convert(n, dst, src);
    return;
  }
  for (int64_t i = 0; i < n; i += STEP) {
    int64_t len = least(n - i, STEP), one = gather ? sb : db;
    if (gather) {
      ts_copy_nd(1, &len, buffer, &one, src + i * ss, &ss, sb);
      convert(len, dst + ts_dtype_nbytes(to, i), buffer);
    } else {
      convert(len, buffer, src + ts_dtype_nbytes(from, i));
      ts_copy_nd(1, &len, dst + i * ds, &ds, buffer, &one, db);
    }
  }
}

/* Blocks stay whole: rows along the last dimension, one after the other. */
static void convert_blocks(int ndim, const int64_t *dim, char *dst, TsDtype to,
                           const int64_t *ds, const char *src, TsDtype from,
                           const int64_t *ss) {
  if (ndim == 1) {
    convert_row(*dim, dst, to, *ds, src, from, *ss);
    return;
  }
  for (int64_t i = 0; i < dim[0]; i++)
    convert_blocks(ndim - 1, dim + 1, dst + i * ds[0], to, ds + 1, src + i * ss[0], from,
                   ss + 1);
}

void ts_convert_nd(int ndim, const int64_t *dim, void *dst, TsDtype dst_dtype,
                   const int64_t *dst_stride, const void *src, TsDtype src_dtype,
                   const int64_t *src_stride) {
  if (ts_dtype_in_blocks(dst_dtype) || ts_dtype_in_blocks(src_dtype)) {
    convert_blocks(ndim, dim, dst, dst_dtype, dst_stride, src, src_dtype, src_stride);
    return;
  }
  Job j;
  j.dst = dst, j.db = ts_dtypes[dst_dtype].nbytes;
  j.src = src, j.sb = ts_dtypes[src_dtype].nbytes;
  j.convert = dst_dtype == src_dtype ? NULL : conversions->convert[src_dtype][dst_dtype];
  if (!normalise(&j, ndim, dim, dst_stride, src_stride)) return;
  if (!run_small(&j)) run(&j);
}
