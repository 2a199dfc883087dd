/* Operands of a matrix unit in shared memory: rows of A, and columns of B as rows, each along k. See
 * jit/emit/simt/matrix.h.
 *
 * What comes along k is stored as it comes. What comes across (k is the first axis of the tile)
 * has a frame of its own: a thread has the same columns of some steps of k one behind the other,
 * packs these, and stores them at once. Rows lie without a gap; where vectors of 16 bytes stand in
 * one is turned by the number of the row, so that the lanes that read numbers of one k, each of its
 * own row, are at different banks. */
#include <string.h>

#include "ir/tile/square.h"
#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

enum {
  SQUARE = TS_SQUARE,
  BANKS = 16,  /* bytes that stay together */
  AT_ONCE = 8, /* bytes of one k-run, packed */
  FOUR = 4     /* steps of k, and columns of a lane, that are read turned at once */
};

static LLVMTypeRef int_type(TsGpuEmit *g, int bits) { return ts_emit_int_type(g->e, bits, 0); }
static V i32_of(TsGpuEmit *g, int64_t i) { return ts_emit_int(g->e, int_type(g, 32), i); }

TsTileVal ts_gpu_matrix_operand(const TsTileStmt *s, int side, bool *turned) {
  TsTileVal v = s->in[side];
  bool across = v->stmt && v->stmt->op == TS_TILE_transpose && v->type.rank == 2 &&
                v->stmt->in_region == s->in_region;
  *turned = (side == 1) != across;
  return across ? v->stmt->in[0] : v;
}

/* ---- where numbers lie */
static bool is_turned_about(int64_t pitch) {
  return pitch >= 2 * BANKS && (pitch & (pitch - 1)) == 0;
}

int64_t ts_gpu_matrix_pitch(TsDtype d, int64_t depth) {
  int64_t n = depth * ts_dtypes[d].nbytes;
  return is_turned_about(n) ? n : ((n + BANKS - 1) & -BANKS) + BANKS;
}

/* Rows that share all banks, by pitch: each is turned by another number. */
static V turn_of(TsGpuEmit *g, int64_t pitch, V row) {
  LLVMBuilderRef b = g->e->b;
  int64_t n = pitch / BANKS;
  V one = LLVMBuildLShr(b, row, ts_gpu_i64(g, 1), ""),
    three = LLVMBuildLShr(b, row, ts_gpu_i64(g, 3), "");
  if (n >= 8) return LLVMBuildAnd(b, row, ts_gpu_i64(g, 7), "");
  if (n == 2)
    return LLVMBuildAnd(b, LLVMBuildLShr(b, one, ts_gpu_i64(g, 1), ""), ts_gpu_i64(g, 1), "");
  three = LLVMBuildAnd(b, three, ts_gpu_i64(g, 1), "");
  return LLVMBuildAnd(b, LLVMBuildXor(b, one, three, ""), ts_gpu_i64(g, 3), "");
}

static V address(TsGpuEmit *g, V to, int64_t known) {
  LLVMBuilderRef b = g->e->b;
  if (!g->maker->memory_at || g->phase->rounds > 1)
    return ts_gpu_shared_at(g, known, int_type(g, 8), to);
  V at = LLVMBuildAdd(b, g->maker->memory_at(g), LLVMBuildTrunc(b, to, int_type(g, 32), ""), "");
  at = LLVMBuildNUWAdd(b, at, i32_of(g, known), "");
  return LLVMBuildIntToPtr(b, at, LLVMTypeOf(g->shared), "");
}

/* Of steps of k in rows, four of which are read together, 16 columns of each. */
static V turn_across(TsGpuEmit *g, V in, V row) {
  LLVMBuilderRef b = g->e->b;
  V by = LLVMBuildAnd(b, row, ts_gpu_i64(g, FOUR - 1), "");
  return LLVMBuildXor(b, in, LLVMBuildShl(b, by, ts_gpu_i64(g, 5), ""), "");
}

/* Rows that are so far apart lie alike. */
static int64_t known_of(const TsGpuMatrixRows *r, TsGpuCoord row) {
  int64_t far = r->across ? FOUR : SQUARE;
  return row.base && row.off % far == 0 ? row.off : 0;
}

V ts_gpu_matrix_turned_in(TsGpuEmit *g, const TsGpuMatrixRows *r, TsGpuCoord row, V in) {
  LLVMBuilderRef b = g->e->b;
  if (!is_turned_about(r->pitch) || (r->across && r->pitch < FOUR * 2 * BANKS)) return in;
  row.off -= known_of(r, row);
  V at = ts_gpu_coord(g, row);
  if (r->across) return turn_across(g, in, at);
  V low = LLVMBuildAnd(b, at, ts_gpu_i64(g, SQUARE - 1), "");
  V by = LLVMBuildShl(b, turn_of(g, r->pitch, low), ts_gpu_i64(g, 4), "");
  return LLVMBuildXor(b, in, by, "");
}

/* What lies at one address does not reach beyond BANKS bytes. Squares further down lie alike, so
 * what is known of the row stands in instructions and takes no registers. */
V ts_gpu_matrix_place(TsGpuEmit *g, const TsGpuMatrixRows *r, TsGpuCoord row, V in) {
  int64_t down = known_of(r, row);
  in = ts_gpu_matrix_turned_in(g, r, row, in);
  row.off -= down;
  V at = ts_gpu_coord(g, row);
  V to = ts_gpu_add(g, ts_gpu_mul(g, at, r->pitch), in);
  if (r->stage) to = ts_gpu_add(g, to, r->stage);
  return address(g, to, r->at + down * r->pitch);
}

static V place_of(TsGpuEmit *g, const TsGpuMatrixRows *r, TsGpuCoord row, V k) {
  return ts_gpu_matrix_place(g, r, row, ts_gpu_mul(g, k, ts_dtypes[r->of].nbytes));
}

/* ---- storing */
static void put(TsGpuEmit *g, const TsGpuMatrixRows *r, TsGpuCoord row, V k, int n,
                const V *x) {
  LLVMBuilderRef b = g->e->b;
  int size = ts_dtypes[r->of].nbytes, most = BANKS / size;
  for (int from = 0; from < n; from += most) {
    int some = n - from < most ? n - from : most;
    V y = x[from];
    if (some > 1) y = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x[0]), (unsigned)some));
    for (int i = 0; some > 1 && i < some; i++)
      y = LLVMBuildInsertElement(b, y, x[from + i], i32_of(g, i), "");
    V to = place_of(g, r, row, ts_gpu_add(g, k, ts_gpu_i64(g, from)));
    LLVMSetAlignment(LLVMBuildStore(b, y, to), (unsigned)(size * some));
  }
}

static void put_along(TsGpuEmit *g, TsGpuFrame *f, const V *x, const TsGpuMatrixRows *r) {
  for (int k = 0; k < f->chunks; k++) {
    const TsGpuCoord *c = f->at[k * f->vector];
    LLVMBasicBlockRef after = f->valid[k] ? ts_gpu_if(g, f->valid[k]) : NULL;
    put(g, r, c[0], ts_gpu_coord(g, c[1]), f->vector, x + k * f->vector);
    if (after) ts_gpu_if_end(g, after);
  }
}

/* Word c of a chunk, four bytes. */
static V word_of(TsGpuEmit *g, V whole, int c) {
  bool one = LLVMGetTypeKind(LLVMTypeOf(whole)) != LLVMVectorTypeKind;
  return one ? whole : LLVMBuildExtractElement(g->e->b, whole, i32_of(g, c), "");
}

/* Four words, of four steps of k, to four of a column each. */
static void turn_bytes(TsGpuEmit *g, const V *x, V *out) {
  enum { EVEN = 0x05010400, ODD = 0x07030602, LOW = 0x05040100, HIGH = 0x07060302 };
  V pair[2][2];
  for (int i = 0; i < 2; i++) {
    pair[i][0] = g->maker->bytes(g, x[2 * i + 1], x[2 * i], EVEN);
    pair[i][1] = g->maker->bytes(g, x[2 * i + 1], x[2 * i], ODD);
  }
  for (int i = 0; i < 4; i++)
    out[i] = g->maker->bytes(g, pair[1][i / 2], pair[0][i / 2], i % 2 ? HIGH : LOW);
}

/* Bytes, four columns by four steps at a time. */
static void put_bytes(TsGpuEmit *g, TsGpuFrame *f, const V *whole, const TsGpuMatrixRows *r) {
  for (int k = 0; k < f->chunks; k += f->high)
    for (int c = 0; c < f->vector; c += 4) {
      V to[2][4];
      for (int j = 0; j < f->high; j += 4) {
        V x[4];
        for (int i = 0; i < 4; i++) x[i] = word_of(g, whole[k + j + i], c / 4);
        turn_bytes(g, x, to[j / 4]);
      }
      for (int i = 0; i < 4; i++) {
        const TsGpuCoord *at = f->at[k * f->vector + c + i];
        V y = to[0][i];
        if (f->high == 8) {
          y = LLVMGetPoison(LLVMVectorType(int_type(g, 32), 2));
          for (int j = 0; j < 2; j++)
            y = LLVMBuildInsertElement(g->e->b, y, to[j][i], i32_of(g, j), "");
        }
        V p = place_of(g, r, at[1], ts_gpu_coord(g, at[0]));
        LLVMSetAlignment(LLVMBuildStore(g->e->b, y, p), (unsigned)f->high);
      }
    }
}

static void put_across(TsGpuEmit *g, TsGpuFrame *f, const V *x, const TsGpuMatrixRows *r) {
  int high = f->high ? f->high : 1;
  for (int k = 0; k < f->chunks; k += high) {
    LLVMBasicBlockRef after = f->valid[k] ? ts_gpu_if(g, f->valid[k]) : NULL;
    for (int i = 0; i < f->vector; i++) {
      const TsGpuCoord *c = f->at[k * f->vector + i];
      V some[16];
      for (int j = 0; j < high; j++) some[j] = x[(k + j) * f->vector + i];
      put(g, r, c[1], ts_gpu_coord(g, c[0]), high, some);
    }
    if (after) ts_gpu_if_end(g, after);
  }
}

void ts_gpu_matrix_put(TsGpuEmit *g, TsTileVal v, bool turned, const TsGpuMatrixRows *to) {
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  bool bytes = turned && ts_dtypes[to->of].nbytes == 1 && f->vector % 4 == 0 && f->wholes;
  int n;
  if (bytes && (f->high == 4 || f->high == 8)) {
    put_bytes(g, f, ts_gpu_matrix_wholes(g, v, &n), to);
    return;
  }
  (turned ? put_across : put_along)(g, f, ts_gpu_slots(g, f, v), to);
}

/* ---- the frame of a tile that comes across */
/* That a product of this region wants; its type is that of the operand. */
static bool is_wanted(const TsTileRegion *r, const TsTileType *t, TsDtype *d) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int side = 0; side < 2 && ts_tile_square_of(s); side++) {
      bool turned;
      TsTileVal v = ts_gpu_matrix_operand(s, side, &turned);
      *d = (TsDtype)v->type.dtype;
      if (turned && v->type.dim[0] == t->dim[0] && v->type.dim[1] == t->dim[1]) return true;
    }
    for (int i = 0; i < s->nregion; i++)
      if (is_wanted(s->region[i], t, d)) return true;
  }
  return false;
}

TsGpuFrame *ts_gpu_matrix_turned(TsGpuEmit *g, const TsTileType *t) {
  TsDtype d;
  if (t->rank != 2 || !is_wanted(g->phase->loop->region[0], t, &d)) return NULL;
  int64_t each = t->dim[0] * t->dim[1] / g->threads, size = ts_dtypes[d].nbytes;
  int64_t most = g->phase->vector < 16 / size ? g->phase->vector : 16 / size, n = 0, high;
  if (t->dim[0] * t->dim[1] % g->threads) return NULL;
  for (high = size < AT_ONCE ? AT_ONCE / size : 1; high > 0; high /= 2) {
    for (n = 1; 2 * n <= each / high && 2 * n <= most;) n *= 2; /* vectors lie in no gap */
    bool words = n * size >= 4 || n == most || high == 1;
    if (n && words && each % (n * high) == 0 && t->dim[0] % high == 0 && t->dim[1] % n == 0)
      break;
  }
  int64_t across = n ? t->dim[1] / n : 0;
  if (!high || g->threads % across) return NULL;
  TsGpuFrame *f = ts_gpu_frame_of(g, t, (int)n, (int)(each / n));
  V col = ts_gpu_mul(g, ts_gpu_mod(g, g->tid64, across), n);
  V row = ts_gpu_mul(g, ts_gpu_div(g, g->tid64, across), high);
  f->high = (int)high;
  ts_gpu_matrix_keep_wholes(g, f);
  for (int k = 0; k < f->chunks; k++)
    for (int v = 0; v < f->vector; v++) {
      TsGpuCoord *at = f->at[k * f->vector + v];
      int64_t down = k / high * (g->threads / across) * high + k % high;
      memset(at, 0, sizeof *at * TS_TILE_RANK);
      at[0] = (TsGpuCoord){row, down, 0};
      at[1] = (TsGpuCoord){col, v, (int)n};
    }
  return f;
}

/* ---- reading */
static LLVMTypeRef type_of(TsGpuEmit *g, const TsGpuMatrix *u) {
  int bits = u->each * 8 * ts_dtypes[u->of].nbytes, n = u->each;
  LLVMTypeRef t = int_type(g, 16);
  if (u->words == TS_MATRIX_long) return int_type(g, 64);
  if (u->words == TS_MATRIX_words) t = int_type(g, 32), n = bits / 32;
  if (u->words == TS_MATRIX_numbers)
    t = u->of == TS_DT_bf16  ? LLVMBFloatTypeInContext(g->e->ctx)
        : u->of == TS_DT_f16 ? LLVMHalfTypeInContext(g->e->ctx)
                             : ts_emit_elem(g->e, u->of);
  return n > 1 ? LLVMVectorType(t, (unsigned)n) : t;
}

/* Four steps of k at a time: a lane asks for four columns of one, and gets its column of all. */
static V numbers_across(TsGpuEmit *g, const TsGpuMatrix *u, const TsGpuMatrixRows *of,
                        TsGpuCoord col, V lane, V group, int64_t from) {
  LLVMBuilderRef b = g->e->b;
  V all = LLVMGetPoison(LLVMVectorType(int_type(g, 16), (unsigned)u->each));
  V k = ts_gpu_add(g, ts_gpu_mul(g, group, u->k_group), ts_gpu_div(g, lane, FOUR));
  V in = ts_gpu_add(g, ts_gpu_coord(g, col), ts_gpu_mul(g, ts_gpu_mod(g, lane, FOUR), FOUR));
  in = ts_gpu_mul(g, in, ts_dtypes[u->of].nbytes);
  for (int e = 0; e < u->each; e += FOUR) {
    V p = ts_gpu_matrix_place(g, of, (TsGpuCoord){k, from + e, 0}, in);
    V four = g->maker->read_turned(g, p);
    ts_gpu_apart(g, four, false);
    for (int i = 0; i < FOUR; i++)
      all = LLVMBuildInsertElement(b, all, LLVMBuildExtractElement(b, four, i32_of(g, i), ""),
                                   i32_of(g, e + i), "");
  }
  return LLVMBuildBitCast(b, all, type_of(g, u), "");
}

V ts_gpu_matrix_numbers(TsGpuEmit *g, const TsGpuMatrix *u, const TsGpuMatrixRows *of,
                        TsGpuCoord row, V lane, V group, int64_t from) {
  LLVMBuilderRef b = g->e->b;
  int64_t size = ts_dtypes[u->of].nbytes;
  if (of->across) return numbers_across(g, u, of, row, lane, group, from);
  if (row.base || lane) row.base = ts_gpu_add(g, row.base, lane);
  int words = (int)(u->each * size / 4), run = (int)(u->run * size / 4);
  V all = LLVMGetPoison(LLVMVectorType(int_type(g, 32), (unsigned)words));
  V first = ts_gpu_mul(g, group, u->k_group * size);
  if (run > BANKS / 4) run = BANKS / 4;
  for (int e = 0; e < words; e += run) {
    int64_t number = e * 4 / size, far = number / u->run * u->far + number % u->run;
    V in = ts_gpu_add(g, first, ts_gpu_i64(g, (from + far) * size));
    V p = ts_gpu_matrix_place(g, of, row, in);
    LLVMTypeRef t = int_type(g, 32);
    V some = LLVMBuildLoad2(b, run > 1 ? LLVMVectorType(t, (unsigned)run) : t, p, "");
    LLVMSetAlignment(some, (unsigned)(4 * run));
    if (of->copied) ts_gpu_apart(g, some, false);
    if (run == words) {
      all = some;
      break;
    }
    for (int i = 0; i < run; i++) {
      V x = run > 1 ? LLVMBuildExtractElement(b, some, i32_of(g, i), "") : some;
      all = LLVMBuildInsertElement(b, all, x, i32_of(g, e + i), "");
    }
  }
  return LLVMBuildBitCast(b, all, type_of(g, u), "");
}
