/* Products by DPAS where rows of sums are reduced, or what is computed is multiplied: attention and its
 * gradients.
 *
 * D is given 8 columns of our sums, turned, as in intel_matrix.c, and a sub-group has all columns of its 16
 * rows: a lane has a row. So what is reduced over columns stays with its lane, a number of each row is
 * one of each lane, and sums that were rounded are an operand as they are, words of neighbours. Nobody
 * meets. What lies in memory comes by 2D block loads, each sub-group its own:
 *
 *   rows of the left operand      turned, of words: a lane has its row's along k
 *   of the right one, k along     8 lines, which are columns of ours
 *   the lines
 *   columns along the lines       turned, of words: a lane has a step of k, 16 columns, which are
 *                                 numbers of two instructions
 *
 * Operands that are in no boxes (parameters that begin elsewhere, lines of few bytes) go by shared
 * memory. */
#include <string.h>

#include "ir/tile/square.h"
#include "jit/emit/simt/intel.h"
#include "jit/gpu/boxes.h"

typedef LLVMValueRef V;

enum {
  LANES = TS_INTEL_LANES,
  RUN = TS_INTEL_RUN,
  STEP = TS_INTEL_STEP_BYTES / 2, /* of k of an instruction, of 16 bits */
  MOST = 16                       /* bands, or pairs of strips */
};

static LLVMTypeRef int_type(TsGpuEmit *g, int bits) { return ts_emit_int_type(g->e, bits, 0); }
static LLVMTypeRef words(TsGpuEmit *g, int n, int bits) {
  return LLVMVectorType(int_type(g, bits), (unsigned)n);
}
static V plus(TsGpuEmit *g, V x, int64_t by) { return ts_gpu_add(g, x, ts_gpu_i64(g, by)); }

typedef struct Side {
  enum { REGISTERS, BOXES, SHARED } in;
  V *slots; /* of lanes, `each` of a row */
  int each;
  TsIntelBoxes boxes;
  TsIntelSide shared;
  bool along_k; /* of the right one: k is along the lines */
} Side;

/* ---- where an operand is */
static V *registers_of(TsGpuEmit *g, TsTileVal v, int *each) {
  TsGpuFrame *f = ts_gpu_frame_found(g, &v->type);
  if (!f || !f->whole || !f->squares) return NULL;
  *each = f->vector * f->chunks / f->squares;
  return ts_gpu_slots(g, f, v);
}

static Side open_side(TsGpuEmit *g, const TsTileStmt *s, int side) {
  TsGpuBox box;
  bool turned;
  Side o = {.in = BOXES};
  TsTileVal v = ts_gpu_matrix_operand(s, side, &turned);
  o.along_k = side && !turned;
  if (ts_gpu_intel_boxes(g) && ts_gpu_box_of(s, side, &box)) {
    o.boxes = ts_gpu_intel_boxes_of(g, s, side);
    o.along_k = side && !box.along;
    return o;
  }
  o.in = REGISTERS;
  if (!side && (o.slots = registers_of(g, s->in[0], &o.each))) return o;
  o.in = SHARED;
  if (!side) v = s->in[0];
  o.shared = ts_gpu_intel_put(g, v);
  return o;
}

/* ---- of the left operand: words of a lane's row along k */
static V of_registers(TsGpuEmit *g, const Side *o, int band, int64_t k) {
  V x = LLVMGetPoison(words(g, STEP, 16));
  for (int i = 0; i < STEP; i++)
    x = LLVMBuildInsertElement(g->e->b, x, o->slots[band * o->each + k + i],
                               ts_emit_int(g->e, int_type(g, 32), i), "");
  return LLVMBuildBitCast(g->e->b, x, words(g, RUN, 32), "");
}

static V left(TsGpuEmit *g, const Side *o, const TsIntelPlace *p, int band, int64_t k) {
  V row = plus(g, p->row, (int64_t)band * LANES);
  if (o->in == REGISTERS) return of_registers(g, o, band, k);
  if (o->in == BOXES) return ts_gpu_intel_words(g, &o->boxes, row, ts_gpu_i64(g, k));
  V at = ts_gpu_intel_at(g, &o->shared, ts_gpu_add(g, row, p->lane), ts_gpu_i64(g, k));
  V x = LLVMBuildLoad2(g->e->b, words(g, RUN, 32), at, "");
  return LLVMSetAlignment(x, 16), x;
}

/* ---- of the right one: 8 columns of a lane's step of k */
static V half_of(TsGpuEmit *g, V x, int half) {
  V pick[RUN];
  for (int i = 0; i < RUN; i++) pick[i] = ts_emit_int(g->e, int_type(g, 32), half * RUN + i);
  return LLVMBuildShuffleVector(g->e->b, x, x, LLVMConstVector(pick, RUN), "");
}

static V from_shared(TsGpuEmit *g, const Side *o, V lane, int64_t k, int64_t col) {
  V x = LLVMGetPoison(words(g, RUN, 16)), step = plus(g, lane, k);
  if (!o->along_k) {
    V at = ts_gpu_intel_at(g, &o->shared, step, ts_gpu_i64(g, col));
    x = LLVMBuildLoad2(g->e->b, words(g, RUN, 16), at, "");
    return LLVMSetAlignment(x, 16), x;
  }
  for (int i = 0; i < RUN; i++) {
    V at = ts_gpu_intel_at(g, &o->shared, ts_gpu_i64(g, col + i), step);
    V one = LLVMBuildLoad2(g->e->b, int_type(g, 16), at, "");
    x = LLVMBuildInsertElement(g->e->b, x, one, ts_emit_int(g->e, int_type(g, 32), i), "");
  }
  return x;
}

/* Of two strips, x[strip], two steps each: [step]. */
static void right(TsGpuEmit *g, const Side *o, const TsIntelPlace *p, int64_t k, int64_t col,
                  int strips, int steps, V x[2][2]) {
  if (o->in == SHARED) {
    for (int c = 0; c < strips; c++)
      for (int i = 0; i < steps; i++)
        x[c][i] = from_shared(g, o, p->lane, k + (int64_t)i * STEP, col + (int64_t)c * RUN);
  } else if (o->along_k) {
    for (int c = 0; c < strips; c++)
      for (int i = 0; i < steps; i++)
        x[c][i] = ts_gpu_intel_lines(g, &o->boxes, k + (int64_t)i * STEP,
                                     ts_gpu_i64(g, col + (int64_t)c * RUN));
  } else {
    for (int i = 0; i < steps; i++) {
      V at = ts_gpu_i64(g, k + (int64_t)i * STEP);
      V both = ts_gpu_intel_words(g, &o->boxes, at, ts_gpu_i64(g, col));
      both = LLVMBuildBitCast(g->e->b, both, words(g, 2 * RUN, 16), "");
      for (int c = 0; c < strips; c++) x[c][i] = half_of(g, both, c);
    }
  }
}

/* ---- the product */
typedef struct Product {
  const TsTileStmt *s;
  const TsIntelGroups *w;
  const TsTileStmt *chosen; /* what the sums are for; NULL: nothing is known */
  Side left, right;
  TsIntelPlace p;
  V *sum;
} Product;

/* ---- `where` behind it, of rows: those that keep what they had */
static int uses(const TsTileRegion *r, TsTileVal v) {
  int n = 0;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) n += s->in[i] == v;
    for (int i = 0; i < s->nregion; i++) n += uses(s->region[i], v);
  }
  return n;
}

/* Only where every lane knows its rows' conditions by itself. */
static const TsTileStmt *choice_of(TsGpuEmit *g, const TsTileStmt *product) {
  TsTileVal v = product->out[0];
  const TsTileStmt *s = product->next;
  while (s && !(s->op == TS_OP_where && s->in[1] == v)) s = s->next;
  if (!s || uses(g->phase->loop->region[0], v) != 1 || !s->in[0]->stmt) return NULL;
  TsGpuFrame *f = ts_gpu_frame(g, &v->type);
  return ts_gpu_matrix_spread(g, s->in[0]->stmt, f) ? s : NULL;
}

static V holds(TsGpuEmit *g, const Product *o, int at) {
  TsTileVal cond = o->chosen->in[0];
  return ts_gpu_elem(g, ts_gpu_frame(g, &cond->type), cond, at * RUN);
}

static void choose(TsGpuEmit *g, const Product *o, int at) {
  V was = ts_gpu_matrix_whole(g, o->chosen->in[2], at);
  o->sum[at] = LLVMBuildSelect(g->e->b, holds(g, o, at), o->sum[at], was, "");
}

/* Rows that keep what they had begin anywhere: at 0, as Intel's compiler would copy all sums at once, and
 * have no registers for them, to have those of before behind an instruction that adds to them. */
static V begun(TsGpuEmit *g, const Product *o, int at) {
  V sum = ts_gpu_matrix_whole(g, o->s->in[2], at);
  if (!o->chosen || o->chosen->in[2] != o->s->in[2]) return sum;
  return LLVMBuildSelect(g->e->b, holds(g, o, at), sum, LLVMConstNull(LLVMTypeOf(sum)), "");
}

/* Words of the rows, of two steps from k on at most. */
static void read_left(TsGpuEmit *g, const Product *o, int64_t k, int steps, V (*y)[2]) {
  for (int b = 0; b < o->w->bands; b++)
    for (int i = 0; i < steps; i++)
      y[b][i] = left(g, &o->left, &o->p, b, k + (int64_t)i * STEP);
}

static int steps_of(const Product *o, int64_t k) {
  return k + STEP < o->s->in[0]->type.dim[1] ? 2 : 1;
}

/* Two strips from c on, and as many steps from k on. */
static void piece(TsGpuEmit *g, const Product *o, int64_t k, int c, V (*y)[2]) {
  int strips = c + 1 < o->w->strips ? 2 : 1, steps = steps_of(o, k);
  TsDtype d = (TsDtype)o->s->in[0]->type.dtype;
  V x[2][2];
  right(g, &o->right, &o->p, k, (int64_t)c * RUN, strips, steps, x);
  for (int b = 0; b < o->w->bands; b++)
    for (int i = 0; i < strips; i++) {
      int at = b * o->w->strips + c + i;
      if (!k) o->sum[at] = begun(g, o, at);
      for (int j = 0; j < steps; j++)
        o->sum[at] = ts_gpu_intel_multiply(g, d, x[i][j], y[b][j], o->sum[at]);
    }
}

/* What is in registers is there for all strips, and each of these is done with before the next one: what
 * it was and what it becomes are never there together. */
static void by_strips(TsGpuEmit *g, const Product *o) {
  int64_t depth = o->s->in[0]->type.dim[1];
  V(*y)[MOST][2] = ts_emit_take(g->e, sizeof *y * (size_t)(depth / STEP + 1));
  for (int64_t k = 0; k < depth; k += 2 * STEP) read_left(g, o, k, steps_of(o, k), y[k / STEP]);
  for (int c = 0; c < o->w->strips; c += 2) {
    for (int64_t k = 0; k < depth; k += 2 * STEP) piece(g, o, k, c, y[k / STEP]);
    for (int b = 0; o->chosen && b < o->w->bands; b++)
      for (int i = c; i < c + 2 && i < o->w->strips; i++) choose(g, o, b * o->w->strips + i);
  }
}

static void by_steps(TsGpuEmit *g, const Product *o) {
  V y[MOST][2];
  for (int64_t k = 0; k < o->s->in[0]->type.dim[1]; k += 2 * STEP) {
    read_left(g, o, k, steps_of(o, k), y);
    for (int c = 0; c < o->w->strips; c += 2) piece(g, o, k, c, y);
  }
}

TsTileVal ts_gpu_intel_rows_product(TsGpuEmit *g, const TsTileStmt *s, const TsIntelGroups *w,
                                    V *sum) {
  if (w->across != 1 || w->bands > MOST || ts_dtypes[s->in[0]->type.dtype].nbytes != 2)
    ts_emit_fail(g->e, "the unit has no product of these rows");
  int64_t used = g->shared_used;
  Product o = {.s = s, .w = w, .sum = sum};
  ts_gpu_slots_begin(g, s->in[2]);
  o.left = open_side(g, s, 0), o.right = open_side(g, s, 1);
  bool meets = o.left.in == SHARED || o.right.in == SHARED;
  if (meets) ts_gpu_sync(g);
  o.p = ts_gpu_intel_place(g, w);
  if (o.left.in == REGISTERS && (o.chosen = choice_of(g, s)))
    ts_gpu_slots_begin(g, o.chosen->in[0]), ts_gpu_slots_begin(g, o.chosen->in[2]);
  (o.left.in == REGISTERS ? by_strips : by_steps)(g, &o);
  if (meets) {
    ts_gpu_sync(g); /* another product can have its memory */
    g->shared_used = used;
  }
  return o.chosen ? o.chosen->out[0] : s->out[0];
}
