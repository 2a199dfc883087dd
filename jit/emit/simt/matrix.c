/* Products of tiles by a matrix unit. See jit/emit/simt/matrix.h.
 *
 * Tiles of the sums' shape have a frame of their own in a phase that has such a product: waves
 * stand in rows and columns of the tile, and a lane has of each square what the unit gives it, so
 * that what follows the product computes where the sums are. Operands come in frames as all tiles
 * do and go to shared memory, rows of A and columns of B, each along k with some bytes between
 * them, so that the lanes that read numbers of one k are not at one bank; a lane reads its numbers
 * of a row at once. Where operands are carried by a loop whose body loads those of the next round
 * first, these are on their way meanwhile. */
#include "jit/emit/simt/matrix.h"

#include <string.h>

#include "ir/tile/square.h"
#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

enum { SQUARE = TS_SQUARE, GAP = 16 /* bytes between rows */, BYTES = 2 };

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }
static LLVMTypeRef i16(TsGpuEmit *g) { return ts_emit_int_type(g->e, 16, 0); }

static const TsGpuMatrix *unit_of(const TsGpuEmit *g) {
  return g->maker->matrix ? g->maker->matrix(g) : NULL;
}

/* ---- waves: side by side as long as they are no narrower than high */
typedef struct Waves {
  int high, across;
  int rows, cols; /* squares of one */
} Waves;

static bool divide(const TsGpuEmit *g, const TsGpuMatrix *u, const TsTileType *t, Waves *w) {
  int n = g->threads / u->lanes, rows = (int)t->dim[0] / SQUARE, cols = (int)t->dim[1] / SQUARE;
  *w = (Waves){.high = 1, .across = n};
  while (w->across % 2 == 0 && (cols % w->across || cols / w->across < rows / w->high))
    w->across /= 2, w->high *= 2;
  w->rows = rows / w->high, w->cols = cols / w->across;
  return n && g->threads % u->lanes == 0 && t->dim[0] % (SQUARE * w->high) == 0 &&
         t->dim[1] % (SQUARE * w->across) == 0;
}

/* Where this thread is: its wave, its row of a square, its group of lanes. */
typedef struct Place {
  V high, across, row, group;
} Place;

static Place place_of(TsGpuEmit *g, const TsGpuMatrix *u, const Waves *w) {
  V wave = ts_gpu_div(g, g->tid64, u->lanes), lane = ts_gpu_mod(g, g->tid64, u->lanes);
  return (Place){ts_gpu_div(g, wave, w->across), ts_gpu_mod(g, wave, w->across),
                 ts_gpu_mod(g, lane, SQUARE), ts_gpu_div(g, lane, SQUARE)};
}

/* ---- the frame */
/* A product by the unit, of sums of this shape. */
static const TsTileStmt *find(const TsTileRegion *r, const TsTileType *t) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (!t && ts_tile_square_of(s)) return s;
    if (t && ts_tile_square_of(s) && s->out[0]->type.dim[0] == t->dim[0] &&
        s->out[0]->type.dim[1] == t->dim[1])
      return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *found = find(s->region[i], t);
      if (found) return found;
    }
  }
  return NULL;
}

bool ts_gpu_matrix_used(const TsGpuEmit *g) {
  if (ts_gpu_intel_lanes(g)) return g->maker->matrix_product;
  return unit_of(g) && find(g->phase->loop->region[0], NULL);
}

TsGpuFrame *ts_gpu_matrix_frame(TsGpuEmit *g, const TsTileType *t) {
  if (g->maker->matrix_frame) return g->maker->matrix_frame(g, t);
  const TsGpuMatrix *u = unit_of(g);
  Waves w;
  if (!u || t->rank != 2 || !find(g->phase->loop->region[0], t) || !divide(g, u, t, &w))
    return NULL;
  int vector = u->col == 1 ? u->sums : 1, runs = u->sums / vector;
  TsGpuFrame *f = ts_gpu_frame_of(g, t, vector, w.rows * w.cols * runs);
  f->whole = u->sums;
  f->wholes = ts_emit_take(g->e, sizeof *f->wholes * (g->e->k->nvalue + 1));
  memset(f->wholes, 0, sizeof *f->wholes * (g->e->k->nvalue + 1));
  Place p = place_of(g, u, &w);
  V row = ts_gpu_add(g, ts_gpu_mul(g, p.high, w.rows * SQUARE), p.row);
  V col = ts_gpu_add(g, ts_gpu_mul(g, p.across, w.cols * SQUARE),
                     ts_gpu_mul(g, p.group, u->col_group));
  for (int r = 0, k = 0; r < w.rows; r++)
    for (int c = 0; c < w.cols; c++)
      for (int i = 0; i < runs; i++, k++)
        for (int v = 0; v < vector; v++) {
          TsGpuCoord *at = f->at[k * vector + v];
          memset(at, 0, sizeof *at * TS_TILE_RANK);
          at[0] = (TsGpuCoord){row, (int64_t)r * SQUARE, 0};
          at[1] = (TsGpuCoord){col, (int64_t)c * SQUARE + (int64_t)i * u->col + v,
                               vector > 1 ? vector : 0};
        }
  return f;
}

/* Slots of a vector: of sums those of a square, of operands those that were loaded together, which
 * nobody takes apart before they have come. */
static int whole_of(const TsGpuEmit *g, const TsGpuFrame *f, TsTileVal v) {
  if (v->type.dtype == TS_DT_f32) return f->whole;
  bool half = v->type.dtype == TS_DT_bf16 || v->type.dtype == TS_DT_f16;
  return half && f->vector > 1 && ts_gpu_matrix_used(g) ? f->vector : 0;
}

V *ts_gpu_matrix_wholes(TsGpuEmit *g, TsTileVal v, int *n) {
  TsGpuFrame *f = v->type.rank ? ts_gpu_frame_found(g, &v->type) : NULL;
  int each = f ? whole_of(g, f, v) : 0;
  if (!each) return NULL;
  *n = f->vector * f->chunks / each;
  if (f->wholes && f->wholes[v->id]) return f->wholes[v->id];
  V *x = ts_gpu_slots(g, f, v), *y = ts_emit_take(g->e, sizeof *y * (size_t)*n);
  LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(x[0]), (unsigned)each);
  for (int i = 0; i < *n; i++) {
    y[i] = LLVMGetPoison(t);
    for (int k = 0; k < each; k++)
      y[i] = LLVMBuildInsertElement(g->e->b, y[i], x[i * each + k],
                                    ts_emit_int(g->e, i32(g), k), "");
  }
  return y;
}

void ts_gpu_matrix_define(TsGpuEmit *g, TsTileVal v, V *whole) {
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  int n = f->vector * f->chunks, each = whole_of(g, f, v);
  V *out = ts_emit_take(g->e, sizeof *out * (size_t)n);
  for (int i = 0; i < n; i++)
    out[i] = LLVMBuildExtractElement(g->e->b, whole[i / each],
                                     ts_emit_int(g->e, i32(g), i % each), "");
  if (f->wholes) f->wholes[v->id] = whole;
  ts_gpu_define(g, v, out);
}

/* ---- operands in shared memory */
static int64_t pitch_of(int64_t depth) { return depth + GAP / BYTES; }

static V at(TsGpuEmit *g, int64_t offset, V index) {
  return ts_gpu_shared_at(g, offset, i16(g), index);
}

/* Rows of A as they come, in vectors. */
static void put_rows(TsGpuEmit *g, TsGpuFrame *f, const V *x, int64_t offset, int64_t pitch) {
  LLVMBuilderRef b = g->e->b;
  for (int k = 0; k < f->chunks; k++) {
    const TsGpuCoord *c = f->at[k * f->vector];
    LLVMBasicBlockRef after = f->valid[k] ? ts_gpu_if(g, f->valid[k]) : NULL;
    V to =
        at(g, offset,
           ts_gpu_add(g, ts_gpu_mul(g, ts_gpu_coord(g, c[0]), pitch), ts_gpu_coord(g, c[1])));
    V y = LLVMGetPoison(LLVMVectorType(i16(g), (unsigned)f->vector));
    for (int i = 0; i < f->vector; i++)
      y = LLVMBuildInsertElement(b, y, x[k * f->vector + i], ts_emit_int(g->e, i32(g), i), "");
    LLVMSetAlignment(LLVMBuildStore(b, y, to), (unsigned)(BYTES * f->vector));
    if (after) ts_gpu_if_end(g, after);
  }
}

/* Numbers of B one by one, each to its column. */
static void put_columns(TsGpuEmit *g, TsGpuFrame *f, const V *x, int64_t offset,
                        int64_t pitch) {
  for (int k = 0; k < f->chunks; k++) {
    LLVMBasicBlockRef after = f->valid[k] ? ts_gpu_if(g, f->valid[k]) : NULL;
    for (int i = 0; i < f->vector; i++) {
      const TsGpuCoord *c = f->at[k * f->vector + i];
      V to = ts_gpu_add(g, ts_gpu_mul(g, ts_gpu_coord(g, c[1]), pitch), ts_gpu_coord(g, c[0]));
      LLVMBuildStore(g->e->b, x[k * f->vector + i], at(g, offset, to));
    }
    if (after) ts_gpu_if_end(g, after);
  }
}

/* How many numbers lie one behind the other in a lane's row. */
static int run_of(const TsGpuMatrix *u) {
  int n = 1;
  while (n < u->each && u->k[n] == n) n++;
  return n;
}

/* A lane's numbers of the row `first` + its own, for the step of k that begins at `from`. */
static V numbers(TsGpuEmit *g, const TsGpuMatrix *u, const Place *p, int64_t offset, V row,
                 int64_t pitch, int64_t from, TsDtype d) {
  LLVMBuilderRef b = g->e->b;
  int run = run_of(u);
  V all = LLVMGetPoison(LLVMVectorType(i16(g), (unsigned)u->each));
  V first = ts_gpu_add(g, ts_gpu_mul(g, row, pitch), ts_gpu_mul(g, p->group, u->k_group));
  for (int e = 0; e < u->each; e += run) {
    V from_here = ts_gpu_add(g, first, ts_gpu_i64(g, from + u->k[e]));
    V some =
        LLVMBuildLoad2(b, LLVMVectorType(i16(g), (unsigned)run), at(g, offset, from_here), "");
    int align = run * BYTES;
    LLVMSetAlignment(some, (unsigned)(align < 16 ? align : 16));
    if (run == u->each) {
      all = some;
      continue;
    }
    for (int i = 0; i < run; i++) {
      V x = LLVMBuildExtractElement(b, some, ts_emit_int(g->e, i32(g), i), "");
      all = LLVMBuildInsertElement(b, all, x, ts_emit_int(g->e, i32(g), e + i), "");
    }
  }
  if (d == TS_DT_bf16 && u->bits) return all;
  LLVMTypeRef t =
      d == TS_DT_bf16 ? LLVMBFloatTypeInContext(g->e->ctx) : LLVMHalfTypeInContext(g->e->ctx);
  return LLVMBuildBitCast(b, all, LLVMVectorType(t, (unsigned)u->each), "");
}

/* ---- the product */
static V multiply(TsGpuEmit *g, const TsGpuMatrix *u, TsDtype d, V x, V w, V sum) {
  V zero = ts_emit_int(g->e, i32(g), 0), in[6] = {x, w, sum, zero, zero, zero};
  LLVMTypeRef type[2] = {LLVMTypeOf(sum), LLVMTypeOf(x)};
  return ts_emit_call(g->e, d == TS_DT_bf16 ? u->bf16 : u->f16, u->typed ? 2 : 0, type,
                      u->flags ? 6 : 3, in);
}

typedef struct Sides {
  int64_t a, b, pitch; /* in shared memory */
  V row, col;          /* of this thread */
} Sides;

static void step(TsGpuEmit *g, const TsGpuMatrix *u, const Waves *w, const Place *p,
                 const Sides *o, int64_t k, TsDtype d, V *sum) {
  V x[64];
  for (int c = 0; c < w->cols; c++)
    x[c] = numbers(g, u, p, o->b, ts_gpu_add(g, o->col, ts_gpu_i64(g, (int64_t)c * SQUARE)),
                   o->pitch, k, d);
  for (int r = 0; r < w->rows; r++) {
    V y = numbers(g, u, p, o->a, ts_gpu_add(g, o->row, ts_gpu_i64(g, (int64_t)r * SQUARE)),
                  o->pitch, k, d);
    for (int c = 0; c < w->cols; c++)
      sum[r * w->cols + c] = multiply(g, u, d, x[c], y, sum[r * w->cols + c]);
  }
}

static bool fits(const TsGpuMatrix *u, const TsTileStmt *s) {
  const TsTileType *a = &s->in[0]->type;
  return (a->dtype == TS_DT_bf16 || a->dtype == TS_DT_f16) && a->dim[1] % u->depth == 0;
}

bool ts_gpu_matrix_product(TsGpuEmit *g, const TsTileStmt *s) {
  if (g->maker->matrix_product) return g->maker->matrix_product(g, s);
  const TsGpuMatrix *u = ts_tile_square_of(s) ? unit_of(g) : NULL;
  const TsTileType *y = &s->out[0]->type;
  Waves w;
  if (!u) return false;
  if (!fits(u, s) || !divide(g, u, y, &w) || w.cols > 64)
    ts_emit_fail(g->e, "the unit has no product of these tiles");
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  TsGpuFrame *fa = ts_gpu_frame(g, &s->in[0]->type), *fb = ts_gpu_frame(g, &s->in[1]->type);
  int n = 0;
  V *acc = ts_gpu_matrix_wholes(g, s->in[2], &n);
  V *left = ts_gpu_slots(g, fa, s->in[0]), *right = ts_gpu_slots(g, fb, s->in[1]);
  int64_t depth = s->in[0]->type.dim[1], pitch = pitch_of(depth);
  Sides o = {.pitch = pitch};
  o.a = ts_gpu_shared_take(g, y->dim[0] * pitch * BYTES);
  o.b = ts_gpu_shared_take(g, y->dim[1] * pitch * BYTES);
  put_rows(g, fa, left, o.a, pitch), put_columns(g, fb, right, o.b, pitch);
  ts_gpu_sync(g);
  Place p = place_of(g, u, &w);
  o.row = ts_gpu_add(g, ts_gpu_mul(g, p.high, w.rows * SQUARE), p.row);
  o.col = ts_gpu_add(g, ts_gpu_mul(g, p.across, w.cols * SQUARE), p.row);
  V *sum = ts_emit_take(g->e, sizeof *sum * (size_t)n);
  memcpy(sum, acc, sizeof *sum * (size_t)n);
  for (int64_t k = 0; k < depth; k += u->depth) step(g, u, &w, &p, &o, k, d, sum);
  ts_gpu_matrix_define(g, s->out[0], sum);
  return true;
}
