/* Rows behind a product, from block form to fragments: ir/tile/gpu/epilogue.h. A value of the
 * block form is a tile of the round; here it is a piece of that, with the same rows of Tile IR.
 * Numbers of 16 bits that are spread over a tile are widened before instead of behind. */
#include "ir/tile/gpu/epilogue.h"

#include <string.h>

#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/quick.h"

typedef TsTileVal V;

/* ---- what there is */
static bool is_half(const TsTileType *t) {
  return t->dtype == TS_DT_bf16 || t->dtype == TS_DT_f16;
}

static bool is_param(V v) { return !v->stmt && !v->region; }

static bool number_of_params(const TsTile *k) {
  return k->nin >= 2 && k->nparam <= TS_GPU_EPILOGUE_PARAMS && k->nparam > k->nin &&
         k->nparam - k->nin <= TS_GPU_EPILOGUE_OUT;
}

/* Rows and columns of the result, its columns, or one number. */
static bool good_memory(const TsGpuEpilogue *f, const TsTileStmt *s, int rank) {
  const TsTileType *t = &s->in[0]->type, *y = &f->block->param[f->block->nparam - 1]->type;
  V *at = s->in + 1;
  if (!is_param(s->in[0]) || t->strided || t->rank != rank || y->rank != 2) return false;
  if (rank == 2)
    return at[0] == f->m0 && at[1] == f->n0 && t->dim[0] == y->dim[0] && t->dim[1] == y->dim[1];
  return rank == 0 || (at[0] == f->n0 && t->dim[0] == y->dim[1]);
}

static bool good_type(const TsTileType *t) {
  return t->dtype == TS_DT_f32 || t->dtype == TS_DT_bool || is_half(t);
}

static bool good_load(const TsGpuEpilogue *f, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  bool number = !t->rank && t->dtype == TS_DT_f32;
  return (number || (t->rank && (t->dtype == TS_DT_f32 || is_half(t)))) &&
         good_memory(f, s, t->rank);
}

static bool good_broadcast(const TsTileStmt *s) {
  const TsAttr *axes = ts_tile_attr(s, "axes");
  int rank = s->in[0]->type.rank;
  return rank == 0 || (rank == 1 && axes->n == 1 && axes->ints[0] == 1);
}

static bool good_rows(const TsTileStmt *s) {
  if (s->nout != 1 || s->nin > 4) return false;
  for (int i = 0; i < s->nin; i++) {
    const TsTileType *t = &s->in[i]->type;
    if (t->dtype != TS_DT_f32 && t->dtype != TS_DT_bool) return false;
  }
  return s->out[0]->type.dtype == TS_DT_f32 || s->out[0]->type.dtype == TS_DT_bool;
}

static bool note_store(TsGpuEpilogue *f, const TsTileStmt *s) {
  V x = s->in[s->nin - 1];
  if (f->nout == TS_GPU_EPILOGUE_OUT || !good_memory(f, s, 2)) return false;
  if (x->type.dtype == TS_DT_bool) return false;
  f->out[f->nout] = x;
  f->to[f->nout++] = s->in[0];
  return true;
}

static bool good(TsGpuEpilogue *f, const TsTileStmt *s) {
  if (s->nout && !good_type(&s->out[0]->type)) return false;
  if (s->op < TS_OP_COUNT) return good_rows(s);
  switch (s->op) {
  case TS_TILE_const:
  case TS_TILE_bits: return !is_half(&s->out[0]->type);
  case TS_TILE_cast: return true;
  case TS_TILE_load: return good_load(f, s);
  case TS_TILE_broadcast: return good_broadcast(s);
  case TS_TILE_store: return note_store(f, s);
  default: return false;
  }
}

/* A function of 16-bit numbers whose result is rounded to 16 bits needs no more exactness than
 * that takes. */
static bool is_quick(const TsTileStmt *s, TsDtype *d) {
  V x = s->in[0];
  if (s->op >= TS_OP_COUNT || !x->stmt || x->stmt->op != TS_TILE_cast) return false;
  *d = (TsDtype)x->stmt->in[0]->type.dtype;
  if (!is_half(&x->stmt->in[0]->type) || !ts_gpu_quick_has(s->op, *d)) return false;
  for (const TsTileStmt *u = s->next; u; u = u->next)
    for (int i = 0; i < u->nin; i++)
      if (u->in[i] == s->out[0] &&
          (u->op != TS_TILE_cast || u->out[0]->type.dtype != (unsigned)*d))
        return false;
  return true;
}

/* Arithmetic, and what is a few operations of it. */
static bool is_light(const TsTileStmt *s) {
  TsDtype d;
  if (s->op >= TS_OP_COUNT || is_quick(s, &d)) return true;
  if (s->op == TS_OP_div || s->op == TS_OP_sqrt) return false;
  return ts_tile_primitive(s->op, TS_DT_f32) || ts_tile_primitive(s->op, TS_DT_bool) ||
         s->op == TS_OP_relu || s->op == TS_OP_square;
}

/* ---- where it can be cut */
/* Whether v needs the sums other than through `cut`. */
static bool needs(const TsGpuEpilogue *f, V v, V cut) {
  if (v == cut || !v->stmt) return false;
  if (v->stmt == f->mma) return true;
  for (int i = 0; i < v->stmt->nin; i++)
    if (needs(f, v->stmt->in[i], cut)) return true;
  return false;
}

static void find_cut(TsGpuEpilogue *f) {
  for (const TsTileStmt *s = f->mma->next; s; s = s->next) {
    if (s->op != TS_TILE_cast || !is_half(&s->out[0]->type)) continue;
    if (!needs(f, s->out[0], NULL)) continue;
    bool all = true;
    for (int i = 0; i < f->nout; i++) all = all && !needs(f, f->out[i], s->out[0]);
    if (!all) continue;
    f->narrow = s->out[0];
    for (int i = 0; i < f->nout; i++) f->late += f->out[i] != f->narrow;
    return;
  }
}

static const TsTileStmt *the_loop(const TsTile *k) {
  const TsTileStmt *loop = NULL;
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->op == TS_TILE_for && loop) return NULL;
    if (s->op == TS_TILE_for) loop = s;
  }
  return loop;
}

bool ts_gpu_epilogue_find(const TsTile *block, TsGpuEpilogue *f) {
  const TsTileStmt *loop = the_loop(block), *s;
  *f = (TsGpuEpilogue){.block = block};
  if (!loop || !number_of_params(block)) return false;
  for (s = loop->region[0]->first; s && s->op != TS_TILE_mma; s = s->next) continue;
  if (!(f->mma = s)) return false;
  const TsTileStmt *a = s->in[0]->stmt, *b = s->in[1]->stmt;
  if (a && a->op == TS_TILE_cast) a = a->in[0]->stmt;
  if (b && b->op == TS_TILE_cast) b = b->in[0]->stmt;
  if (!a || !b || a->op != TS_TILE_load || b->op != TS_TILE_load) return false;
  if (a->in[0] != block->param[0] || b->in[0] != block->param[1] || a->nin != 3 || b->nin != 3)
    return false;
  f->m0 = a->in[1], f->n0 = b->in[2];
  for (s = f->mma->next; s; s = s->next)
    if (s->op != TS_TILE_yield && !good(f, s))
      return false;
    else
      f->heavy = f->heavy || !is_light(s);
  if (!f->nout) return false;
  for (int i = 1; i < f->nout; i++)
    if (f->to[i]->type.dtype != f->to[0]->type.dtype) return false;
  find_cut(f);
  return true;
}

/* ---- on a piece */
void ts_gpu_epilogue_begin(TsGpuEpiloguePiece *c, V m, V n, V line_at) {
  memset(c->made, 0, sizeof *c->made * (c->f->block->nvalue + 1));
  c->m = m, c->n = n, c->line_at = line_at;
}

static TsTileType piece(const TsGpuEpiloguePiece *c, V of, TsDtype d) {
  int rank = of->type.rank;
  int64_t dim[2] = {rank == 2 ? c->rows : c->width, c->width};
  TsTileType t = ts_tile_type(d, rank, dim);
  if (rank) t.space = TS_SPACE_fragment;
  return t;
}

static V loaded(TsGpuEpiloguePiece *c, const TsTileStmt *s) {
  V memory = c->param[s->in[0]->index], y = s->out[0];
  TsTileType t = piece(c, y, (TsDtype)y->type.dtype);
  V at[2] = {y->type.rank == 2 ? c->m : c->n, c->n};
  TsTileAccess access = {.edge = y->type.rank > 0};
  if (c->prefetched && s->in[0]->index == c->prefetched) return c->came;
  V near = c->line_at && y->type.rank == 1 ? c->line[s->in[0]->index] : NULL;
  if (near) return ts_tile_load(c->b, near, &c->line_at, &t, NULL);
  return ts_tile_load(c->b, memory, at, &t, &access);
}

static V as_f32(TsGpuEpiloguePiece *c, V x) {
  return x && is_half(&x->type) ? ts_tile_cast(c->b, x, TS_DT_f32) : x;
}

static V spread(TsGpuEpiloguePiece *c, const TsTileStmt *s) {
  static const int64_t columns[1] = {1};
  V x = as_f32(c, ts_gpu_epilogue(c, s->in[0]));
  if (!x) return NULL;
  TsTileType t = piece(c, s->out[0], (TsDtype)x->type.dtype);
  return ts_tile_broadcast(c->b, x, &t, columns);
}

static V converted(TsGpuEpiloguePiece *c, const TsTileStmt *s) {
  TsDtype d = (TsDtype)s->out[0]->type.dtype;
  V x = ts_gpu_epilogue(c, s->in[0]);
  if (x && is_half(&s->out[0]->type) && x->type.dtype != d)
    x = ts_tile_cast(c->b, x, TS_DT_f32);
  return x ? ts_tile_cast(c->b, x, d) : NULL;
}

static V computed(TsGpuEpiloguePiece *c, const TsTileStmt *s) {
  V in[4], y = s->out[0];
  TsDtype d;
  for (int i = 0; i < s->nin; i++)
    if (!(in[i] = as_f32(c, ts_gpu_epilogue(c, s->in[i])))) return NULL;
  if (is_quick(s, &d)) return ts_gpu_quick(c->b, s->op, in);
  TsTileType t = piece(c, y, (TsDtype)y->type.dtype);
  return ts_tile_emit1(c->b, s->op, s->nin, in, NULL, &t);
}

static V constant(TsGpuEpiloguePiece *c, const TsTileStmt *s) {
  V y = s->out[0];
  TsTileType t = piece(c, y, (TsDtype)y->type.dtype);
  if (s->op == TS_TILE_const) return ts_tile_const(c->b, ts_tile_attr(s, "value")->f, &t);
  return ts_tile_bits(c->b, (uint64_t)ts_tile_attr(s, "value")->i, &t);
}

V ts_gpu_epilogue(TsGpuEpiloguePiece *c, V of) {
  V *to = &c->made[of->id];
  const TsTileStmt *s = of->stmt;
  if (*to || !s || c->b->k->failed) return *to;
  switch (s->op) {
  case TS_TILE_load: return *to = loaded(c, s);
  case TS_TILE_broadcast: return *to = spread(c, s);
  case TS_TILE_cast: return *to = converted(c, s);
  case TS_TILE_const:
  case TS_TILE_bits: return *to = constant(c, s);
  default: return *to = computed(c, s);
  }
}

void ts_gpu_epilogue_params(const TsGpuEpilogue *f, TsTile *k, int64_t m, int64_t n,
                            const TsTileVal ab[2], TsTileVal *param) {
  const TsTile *from = f->block;
  param[0] = ab[0], param[1] = ab[1];
  for (int i = 2; i < from->nparam; i++) {
    const TsTileValue *was = from->param[i];
    int64_t dim[2] = {was->type.rank == 2 ? m : n, n};
    TsTileType t = ts_tile_type((TsDtype)was->type.dtype, was->type.rank, dim);
    param[i] = ts_tile_param(k, was->name, &t, i >= from->nin);
  }
}

void ts_gpu_named_params(TsTileBuild *b, TsDtype d, int64_t m, int64_t n, TsTileVal *bias,
                         TsTileVal *residual, TsTileVal *c) {
  TsTileType line = ts_tile_vector(d, n);
  if (bias) *bias = ts_tile_param(b->k, "bias", &line, false);
  if (residual) *residual = ts_gpu_matrix(b, "residual", d, m, n, false);
  *c = ts_gpu_matrix(b, "c", d, m, n, true);
}
