/* Products of tiles by a matrix unit. See jit/emit/simt/matrix.h.
 *
 * Tiles of the sums' shape have a frame of their own in a phase that has such a product: waves
 * stand in rows and columns of the tile, and a lane has of each square what the unit gives it, so
 * that what follows the product computes where the sums are. Operands go to shared memory
 * (matrix_operand.c); a lane reads its numbers of a row at once. Where operands are carried by a loop
 * whose body loads those of the next round first, these are on their way meanwhile. */
#include "jit/emit/simt/matrix.h"

#include <string.h>

#include "ir/tile/square.h"
#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

enum { SQUARE = TS_SQUARE };

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }

const TsGpuMatrix *ts_gpu_matrix_of(const TsGpuEmit *g, TsDtype d) {
  return g->maker->matrix ? g->maker->matrix(g, d) : NULL;
}

/* Of a product. */
static const TsGpuMatrix *unit_of(const TsGpuEmit *g, const TsTileStmt *s) {
  return s && ts_tile_square_of(s) ? ts_gpu_matrix_of(g, (TsDtype)s->in[0]->type.dtype) : NULL;
}

/* ---- waves: side by side as long as they are no narrower than high */
typedef struct Waves {
  int high, across;
  int rows, cols; /* squares of one */
} Waves;

static bool divide(const TsGpuEmit *g, const TsGpuMatrix *u, const TsTileType *t, Waves *w) {
  int n = g->threads / u->lanes, rows = (int)t->dim[0] / SQUARE, cols = (int)t->dim[1] / SQUARE;
  bool whole = rows % (n ? n : 1) == 0 && ts_gpu_matrix_rows(g, t);
  *w = whole ? (Waves){.high = n, .across = 1} : (Waves){.high = 1, .across = n};
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
  return unit_of(g, find(g->phase->loop->region[0], NULL));
}

void ts_gpu_matrix_keep_wholes(TsGpuEmit *g, TsGpuFrame *f) {
  size_t n = sizeof *f->wholes * (g->e->k->nvalue + 1);
  f->wholes = memset(ts_emit_take(g->e, n), 0, n);
}

TsGpuFrame *ts_gpu_matrix_frame(TsGpuEmit *g, const TsTileType *t) {
  if (g->maker->matrix_frame) return g->maker->matrix_frame(g, t);
  const TsTileStmt *s = t->rank == 2 ? find(g->phase->loop->region[0], t) : NULL;
  const TsGpuMatrix *u = unit_of(g, s);
  Waves w;
  if (t->rank == 1) return ts_gpu_matrix_used(g) ? ts_gpu_matrix_row_frame(g, t) : NULL;
  if (!u || !divide(g, u, t, &w))
    return ts_gpu_matrix_used(g) ? ts_gpu_matrix_turned(g, t) : NULL;
  int vector = u->col == 1 ? u->sums : 1, runs = u->sums / vector;
  TsGpuFrame *f = ts_gpu_frame_of(g, t, vector, w.rows * w.cols * runs);
  f->whole = u->sums, f->whole_of = s->out[0]->type.dtype, f->factor = (uint8_t)u->of;
  f->squares = w.across == 1 ? w.rows : 0;
  ts_gpu_matrix_keep_wholes(g, f);
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

static bool is_sums(const TsGpuFrame *f, TsTileVal v) {
  return f->whole && v->type.dtype == f->whole_of;
}

/* Slots of a vector: of sums those of a square, of operands those that were loaded together, which
 * nobody takes apart before they have come. */
static int whole_of(const TsGpuEmit *g, const TsGpuFrame *f, TsTileVal v) {
  if (is_sums(f, v)) return f->whole;
  bool short_one = ts_dtypes[v->type.dtype].nbytes < 4 && v->type.dtype != TS_DT_bool;
  return short_one && f->vector > 1 && ts_gpu_matrix_used(g) ? f->vector : 0;
}

/* Bytes go in words, as LLVM would keep each in one of its own. */
static V in_words(TsGpuEmit *g, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  unsigned n = LLVMGetVectorSize(t);
  if (LLVMGetElementType(t) != ts_emit_int_type(g->e, 8, 0) || n % 4) return x;
  return LLVMBuildBitCast(g->e->b, x, n == 4 ? i32(g) : LLVMVectorType(i32(g), n / 4), "");
}

V ts_gpu_matrix_whole(TsGpuEmit *g, TsTileVal v, int i) {
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  int each = whole_of(g, f, v);
  if (f->wholes && f->wholes[v->id]) return f->wholes[v->id][i];
  V y = NULL;
  for (int k = 0; k < each; k++) {
    V x = ts_gpu_elem(g, f, v, i * each + k);
    if (!y) y = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), (unsigned)each));
    y = LLVMBuildInsertElement(g->e->b, y, x, ts_emit_int(g->e, i32(g), k), "");
  }
  return in_words(g, y);
}

V *ts_gpu_matrix_wholes(TsGpuEmit *g, TsTileVal v, int *n) {
  TsGpuFrame *f = v->type.rank ? ts_gpu_frame_found(g, &v->type) : NULL;
  int each = f ? whole_of(g, f, v) : 0;
  if (!each) return NULL;
  *n = f->vector * f->chunks / each;
  if (f->wholes && f->wholes[v->id]) return f->wholes[v->id];
  V *y = ts_emit_take(g->e, sizeof *y * (size_t)*n);
  ts_gpu_slots(g, f, v);
  for (int i = 0; i < *n; i++) y[i] = ts_gpu_matrix_whole(g, v, i);
  if (is_sums(f, v) && g->maker->matrix_join) g->maker->matrix_join(g, *n, y);
  return y;
}

/* Whether somebody wants its numbers, and not what loops carry of it. */
static bool is_taken_apart(const TsTileRegion *r, TsTileVal v) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) {
      const TsTileStmt *loop = s->op == TS_TILE_yield ? r->owner : s;
      bool carries = loop && loop->op == TS_TILE_for;
      if (s->in[i] == v && !carries && !(i == 2 && ts_tile_square_of(s))) return true;
    }
    for (int i = 0; i < s->nregion; i++)
      if (is_taken_apart(s->region[i], v)) return true;
  }
  return false;
}

/* Sums of which nobody knows where they lie are matrices until they are wanted. */
static bool keeps(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v, V *whole) {
  if (LLVMGetTypeKind(LLVMTypeOf(whole[0])) != LLVMTargetExtTypeKind) return false;
  f->wholes[v->id] = whole;
  return !is_taken_apart(g->phase->loop->region[0], v);
}

void ts_gpu_matrix_define(TsGpuEmit *g, TsTileVal v, V *whole) {
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  int n = f->vector * f->chunks, each = whole_of(g, f, v);
  if (keeps(g, f, v, whole)) return;
  V *out = ts_emit_take(g->e, sizeof *out * (size_t)n), x = NULL, *part = whole;
  LLVMTypeRef number = ts_emit_elem(g->e, (TsDtype)v->type.dtype);
  LLVMTypeRef t = LLVMVectorType(number, (unsigned)each);
  if (LLVMGetTypeKind(LLVMTypeOf(whole[0])) == LLVMTargetExtTypeKind) {
    part = ts_emit_take(g->e, sizeof *part * (size_t)(n / each));
    g->maker->matrix_split(g, number, n / each, whole, part);
  }
  for (int i = 0; i < n; i++) {
    if (i % each == 0) x = LLVMBuildBitCast(g->e->b, part[i / each], t, "");
    out[i] = LLVMBuildExtractElement(g->e->b, x, ts_emit_int(g->e, i32(g), i % each), "");
  }
  if (f->wholes) f->wholes[v->id] = whole;
  ts_gpu_define(g, v, out);
}

/* ---- the product */
static V multiply(TsGpuEmit *g, const TsGpuMatrix *u, V x, V w, V sum) {
  V zero = ts_emit_int(g->e, i32(g), 0), in[6] = {x, w, sum, zero, zero, zero};
  V yes = ts_emit_int(g->e, ts_emit_int_type(g->e, 1, 0), 1);
  V no = ts_emit_int(g->e, ts_emit_int_type(g->e, 1, 0), 0);
  LLVMTypeRef type[2] = {LLVMTypeOf(sum), LLVMTypeOf(x)};
  int n = u->flags || u->signs ? 6 : 3;
  if (u->signs) memcpy(in, (V[]){yes, x, yes, w, sum, no}, sizeof in);
  return ts_emit_call(g->e, u->name, u->typed ? 2 : 0, type, n, in);
}

typedef struct Sides {
  TsGpuMatrixRows a, b;
  V row, col; /* of this thread */
} Sides;

/* An operand in shared memory that a loop around does not change. */
typedef struct TsGpuMatrixKept {
  const TsTileStmt *s;
  TsGpuMatrixRows rows;
  struct TsGpuMatrixKept *next;
} Kept;

static const Kept *kept_of(const TsGpuEmit *g, const TsTileStmt *s) {
  for (const Kept *k = g->kept; k; k = k->next)
    if (k->s == s) return k;
  return NULL;
}

/* Those of A, which come from outside of the region. */
void ts_gpu_matrix_before(TsGpuEmit *g, const TsTileRegion *r) {
  bool any = false;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool turned;
    if (!unit_of(g, s)) continue;
    TsTileVal v = ts_gpu_matrix_operand(s, 0, &turned);
    const TsTileRegion *of = v->stmt ? v->stmt->in_region : v->region;
    if (of == r || turned) continue;
    TsDtype d = (TsDtype)v->type.dtype;
    Kept *k = ts_emit_take(g->e, sizeof *k);
    int64_t pitch = ts_gpu_matrix_pitch(d, v->type.dim[1]);
    *k = (Kept){s, {.pitch = pitch, .of = d}, g->kept};
    k->rows.at = ts_gpu_shared_take(g, v->type.dim[0] * pitch);
    ts_gpu_matrix_put(g, v, false, &k->rows);
    g->kept = k, any = true;
  }
  if (any) ts_gpu_sync(g);
}

/* What a step multiplies: columns of B, rows of A. */
typedef struct Step {
  V *x, *y;
} Step;

static V of_column(TsGpuEmit *g, const TsGpuMatrix *u, const Place *p, const Sides *o, int c,
                   int64_t k) {
  TsGpuCoord at = {o->col, (int64_t)c * SQUARE, 0};
  return ts_gpu_matrix_numbers(g, u, &o->b, at, p->row, p->group, k);
}

static V of_row(TsGpuEmit *g, const TsGpuMatrix *u, const Place *p, const Sides *o, int r,
                int64_t k) {
  TsGpuCoord at = {o->row, (int64_t)r * SQUARE, 0};
  return ts_gpu_matrix_numbers(g, u, &o->a, at, p->row, p->group, k);
}

/* came: what was read before; NULL: it is read now. */
static void step(TsGpuEmit *g, const TsGpuMatrix *u, const Waves *w, const Place *p,
                 const Sides *o, const Step *came, int64_t k, V *sum) {
  V x[64];
  for (int c = 0; c < w->cols; c++) x[c] = came ? came->x[c] : of_column(g, u, p, o, c, k);
  for (int r = 0; r < w->rows; r++) {
    V y = came ? came->y[r] : of_row(g, u, p, o, r, k);
    for (int c = 0; c < w->cols; c++)
      sum[r * w->cols + c] = multiply(g, u, x[c], y, sum[r * w->cols + c]);
  }
}

/* The loop over stages around a product; NULL. */
static const TsTileStmt *loop_of(const TsTileStmt *s) {
  const TsTileStmt *loop = s->in_region->owner;
  return loop && loop->op == TS_TILE_for && !ts_tile_attr(loop, "parallel")->i ? loop : NULL;
}

/* Nothing, but LLVM does not know: it makes addresses that are the same in all rounds of a loop in
 * front of it, each with what is known of it, and keeps them all in registers. */
static V nothing(TsGpuEmit *g, const TsTileStmt *s) {
  const TsTileStmt *loop = loop_of(s);
  V i = loop ? g->scalar[loop->region[0]->param[0]->id] : NULL;
  return i ? LLVMBuildLShr(g->e->b, i, ts_gpu_i64(g, 40), "") : NULL;
}

/* Stages of a loop over k take turns at two places, so that threads meet once in each. */
static V stage_of(TsGpuEmit *g, const TsTileStmt *s, int64_t nbytes) {
  const TsTileStmt *loop = loop_of(s);
  if (g->e->k->stages != 2 || !loop) return NULL;
  V i = g->scalar[loop->region[0]->param[0]->id];
  int64_t by = ts_tile_attr(loop, "step")->i;
  V odd = LLVMBuildAnd(g->e->b, ts_gpu_div(g, i, by), ts_gpu_i64(g, 1), "");
  return ts_gpu_mul(g, odd, nbytes);
}

static void open_sides(TsGpuEmit *g, const TsTileStmt *s, const Kept *kept, Sides *o) {
  const TsTileType *y = &s->out[0]->type;
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  int64_t pitch = ts_gpu_matrix_pitch(d, s->in[0]->type.dim[1]);
  int64_t high = kept ? 0 : y->dim[0], rows = high + y->dim[1];
  V stage = stage_of(g, s, rows * pitch);
  o->a = (TsGpuMatrixRows){.pitch = pitch, .of = d, .stage = stage};
  o->a.at = ts_gpu_shared_take(g, rows * pitch * (stage ? 2 : 1));
  o->b = o->a, o->b.at += high * pitch;
  if (kept) o->a = kept->rows;
  if (!o->a.stage) o->a.stage = nothing(g, s);
  if (!o->b.stage) o->b.stage = o->a.stage;
  g->staged += stage != NULL;
}

/* Whether another one stands beside it, which can have its memory. */
static bool is_one_of_several(const TsTileStmt *s) {
  for (const TsTileStmt *other = s->in_region->first; other; other = other->next)
    if (other != s && ts_tile_square_of(other)) return true;
  return false;
}

/* ---- stages that are copied */
typedef struct TsGpuMatrixFetched {
  const TsTileStmt *s;
  Step *step;
} Fetched;

static bool are_stages(TsGpuEmit *g, const TsTileStmt *s, Sides *o) {
  bool turned;
  return ts_gpu_ring_rows(g, ts_gpu_matrix_operand(s, 0, &turned), &o->a) &&
         ts_gpu_ring_rows(g, ts_gpu_matrix_operand(s, 1, &turned), &o->b);
}

static Place place_sides(TsGpuEmit *g, const TsGpuMatrix *u, const Waves *w, Sides *o) {
  Place p = place_of(g, u, w);
  o->row = ts_gpu_mul(g, p.high, w->rows * SQUARE);
  o->col = ts_gpu_mul(g, p.across, w->cols * SQUARE);
  return p;
}

void ts_gpu_matrix_fetch(TsGpuEmit *g, const TsTileStmt *s) {
  const TsGpuMatrix *u = unit_of(g, s);
  Waves w;
  Sides o;
  if (!u || !divide(g, u, &s->out[0]->type, &w) || !are_stages(g, s, &o)) return;
  Place p = place_sides(g, u, &w, &o);
  int n = (int)(s->in[0]->type.dim[1] / u->depth);
  Fetched *f = ts_emit_take(g->e, sizeof *f);
  *f = (Fetched){s, ts_emit_take(g->e, sizeof *f->step * (size_t)(n + 1))};
  for (int k = 0; k < n; k++) {
    Step *at = &f->step[k];
    at->x = ts_emit_take(g->e, sizeof *at->x * (size_t)w.cols);
    at->y = ts_emit_take(g->e, sizeof *at->y * (size_t)w.rows);
    for (int c = 0; c < w.cols; c++) at->x[c] = of_column(g, u, &p, &o, c, k * u->depth);
    for (int r = 0; r < w.rows; r++) at->y[r] = of_row(g, u, &p, &o, r, k * u->depth);
  }
  g->fetched = f;
}

/* Operands go to shared memory, if they do not lie there. */
static void put_sides(TsGpuEmit *g, const TsTileStmt *s, Sides *o) {
  bool turned[2];
  const Kept *kept = kept_of(g, s);
  if (are_stages(g, s, o)) return;
  TsTileVal a = ts_gpu_matrix_operand(s, 0, &turned[0]);
  TsTileVal b = ts_gpu_matrix_operand(s, 1, &turned[1]);
  open_sides(g, s, kept, o);
  if (!kept) ts_gpu_matrix_put(g, a, turned[0], &o->a);
  ts_gpu_matrix_put(g, b, turned[1], &o->b);
  ts_gpu_sync(g);
}

bool ts_gpu_matrix_product(TsGpuEmit *g, const TsTileStmt *s) {
  if (g->maker->matrix_product) return g->maker->matrix_product(g, s);
  const TsGpuMatrix *u = unit_of(g, s);
  const TsTileType *y = &s->out[0]->type;
  int64_t depth = s->in[0]->type.rank == 2 ? s->in[0]->type.dim[1] : 0;
  Waves w;
  if (!u) return false;
  if (depth % u->depth || !divide(g, u, y, &w) || w.cols > 64)
    ts_emit_fail(g->e, "the unit has no product of these tiles");
  int n = 0;
  V *acc = ts_gpu_matrix_wholes(g, s->in[2], &n);
  Sides o;
  int64_t used = g->shared_used;
  const Fetched *f = g->fetched && g->fetched->s == s ? g->fetched : NULL;
  if (!f) put_sides(g, s, &o);
  Place p = place_sides(g, u, &w, &o);
  V *sum = ts_emit_take(g->e, sizeof *sum * (size_t)n);
  memcpy(sum, acc, sizeof *sum * (size_t)n);
  for (int64_t k = 0; k < depth; k += u->depth)
    step(g, u, &w, &p, &o, f ? &f->step[k / u->depth] : NULL, k, sum);
  ts_gpu_matrix_define(g, s->out[0], sum);
  if (is_one_of_several(s)) {
    ts_gpu_sync(g);
    g->shared_used = used;
  }
  return true;
}
