/* Tile IR for a CPU with vectors: from block form to explicit form.
 *
 * A round of a block kernel is straight-line code over tiles of any size. Done statement by
 * statement it would write every tile to memory; done as one loop it could not hold a
 * reduction, whose result its own operands wait for. So a stretch of tile code is cut into
 * passes over the elements, by what waits for what: a value belongs to the first pass in which
 * its operands are there, the result of a reduction is there after its pass
 * (ir/tile/pass/vec_plan.c). In a pass one vector after the other is computed from memory to
 * memory, in registers (ir/tile/pass/vec_eval.c, ir/tile/pass/vec_pass.c). A value that several
 * passes want is computed in each of them where that is cheap, else kept in local memory.
 * Rejected: a tile in memory for each statement (three times the traffic of a softmax), and
 * polyhedral scheduling (the dependences here are chains).
 *
 * Sums keep the canonical order: ir/tile/pass/vec_reduce.c along vectors,
 * ir/tile/pass/vec_columns.c across them. Tiles of two axes without a reduction along the
 * first one are done row by row. Loops and branches within a round divide it into stretches;
 * a tile that crosses from one to another, or round a loop, lives in local memory. */
#include "ir/tile/pass/vec.h"

#include <stdlib.h>
#include <string.h>

#include "ir/tile/copy.h"
#include "ir/tile/text.h"

int ts_tile_vec_fail(TsVec *v, const TsTileStmt *s, const char *what) {
  TsText t = {0};
  if (v->failed) return -1;
  v->failed = true;
  if (s) ts_tile_stmt_text(v->from, s, &t);
  if (v->k->failed || t.failed) /* a value that is not there, or no room to say what is wrong */
    ts_error_memory(v->err);
  else
    ts_error_set(v->err, TS_ERR_argument, "@%.40s: not in vectors: %s%s%.200s", v->from->name,
                 what, s ? "\n    " : "", t.at ? t.at : "");
  ts_text_free(&t);
  return -1;
}

VecVal *ts_tile_vec_of(TsVec *v, TsTileVal x) { return &v->val[x->id]; }

/* ---- local memory */
static void unlink_stmt(TsTileStmt *s) {
  TsTileRegion *r = s->in_region;
  if (s->prev)
    s->prev->next = s->next;
  else
    r->first = s->next;
  if (s->next)
    s->next->prev = s->prev;
  else
    r->last = s->prev;
}

static void link_behind(TsTileRegion *r, TsTileStmt *before, TsTileStmt *s) {
  TsTileStmt *next = before ? before->next : r->first;
  s->in_region = r;
  s->prev = before;
  s->next = next;
  if (before)
    before->next = s;
  else
    r->first = s;
  if (next)
    next->prev = s;
  else
    r->last = s;
}

static int64_t padded(int64_t n) {
  int64_t p = 1;
  if (n > 64) return (n + 63) / 64 * 64;
  while (p < n) p *= 2;
  return p;
}

TsTileVal ts_tile_vec_local(TsVec *v, TsDtype d, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(d, rank, dim);
  if (rank) t.dim[rank - 1] = padded(dim[rank - 1]);
  TsTileVal m = ts_tile_alloc(&v->b, TS_SPACE_local, &t);
  if (v->k->failed || !v->round) return m;
  unlink_stmt(m->stmt);
  link_behind(v->round, v->last_alloc, m->stmt);
  v->last_alloc = m->stmt;
  return m;
}

TsTileVal ts_tile_vec_home(TsVec *v, TsTileVal x) {
  VecVal *p = ts_tile_vec_of(v, x);
  int64_t dim[TS_TILE_RANK];
  int n = 0;
  p->rowless = p->row >= 0 && !p->kept;
  for (int i = 0; i < x->type.rank; i++) {
    if (ts_tile_dim_is(x->type.dim[i])) {
      ts_tile_vec_fail(v, x->stmt, "a tile of symbolic size that must lie in memory");
      return NULL;
    }
    if (!p->rowless || i != p->row) dim[n++] = x->type.dim[i];
  }
  return ts_tile_vec_local(v, (TsDtype)x->type.dtype, n, dim);
}

/* ---- stretches: numbers of them, and the tiles that cross between them */
static bool is_tile(TsTileVal x) { return !ts_tile_memory(&x->type) && x->type.rank > 0; }

/* A mark of the text stands between stretches, else what is measured would move over it. */
static bool cuts(const TsVec *v, const TsTileStmt *s) {
  return s->nregion || (s->op == TS_TILE_mark && v->own_marks);
}

static int number(TsVec *v, const TsTileRegion *r, int n) {
  for (int i = 0; i < r->nparam; i++) ts_tile_vec_of(v, r->param[i])->segment = VEC_CARRIED;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nregion; i++) n = number(v, s->region[i], n + 1);
    if (cuts(v, s)) n++;
    for (int i = 0; i < s->nout; i++)
      ts_tile_vec_of(v, s->out[i])->segment = s->nregion ? VEC_CARRIED : n;
  }
  return n;
}

/* A value that any stretch may compute for itself. */
static bool free_value(TsTileVal x) {
  if (!x->stmt) return false;
  switch (x->stmt->op) {
  case TS_TILE_const:
  case TS_TILE_bits:
  case TS_TILE_iota: return true;
  case TS_TILE_broadcast: return x->stmt->in[0]->type.rank == 0 || free_value(x->stmt->in[0]);
  default: return false;
  }
}

static int find_kept(TsVec *v, const TsTileRegion *r, int n) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) {
      VecVal *p = ts_tile_vec_of(v, s->in[i]);
      p->uses++;
      bool other = p->segment != n || s->nregion;
      if (other && p->segment != VEC_CARRIED && !ts_tile_memory(&s->in[i]->type) &&
          !free_value(s->in[i]))
        p->kept = true;
    }
    for (int i = 0; i < s->nregion; i++) n = find_kept(v, s->region[i], n + 1);
    if (cuts(v, s)) n++;
  }
  return n;
}

/* ---- a stretch */
enum { NOWHERE = -3 }; /* the number of one that makes no values */

typedef struct Copies {
  TsTileVal from[64], to[64]; /* values, memory */
  int n;
} Copies;

static void add_copy(TsVec *v, Copies *c, TsTileVal from, TsTileVal to, const TsTileStmt *s) {
  if (c->n == 64) {
    ts_tile_vec_fail(v, s, "so many tiles round a loop");
    return;
  }
  c->from[c->n] = from;
  c->to[c->n++] = to;
}

static int stretch(TsVec *v, TsTileStmt *first, TsTileStmt *end, int segment, const Copies *c) {
  int n = 0;
  for (TsTileStmt *s = first; s != end; s = s->next) n += s->op != TS_TILE_yield;
  v->segment = segment;
  v->nstmt = v->nroot = 0;
  v->stmt = ts_arena_alloc(&v->arena, sizeof *v->stmt * (size_t)(n + 1));
  v->root =
      ts_arena_alloc(&v->arena, sizeof *v->root * (size_t)(4 * n + 2 * (c ? c->n : 0) + 4));
  if (!v->stmt || !v->root) {
    v->k->failed = true;
    return -1;
  }
  for (TsTileStmt *s = first; s != end; s = s->next)
    if (s->op != TS_TILE_yield) v->stmt[v->nstmt++] = s;
  for (int i = 0; c && i < c->n; i++)
    v->root[v->nroot++] = (VecRoot){.kind = VEC_HOME, .value = c->from[i], .home = c->to[i]};
  if (!v->nstmt && !v->nroot) return 0;
  return ts_tile_vec_plan(v) || ts_tile_vec_emit(v) ? -1 : 0;
}

/* ---- regions */
static int region(TsVec *v, TsTileRegion *r, int n, Copies *last);

static void set_now(TsVec *v, TsTileVal x, TsTileVal now) { ts_tile_vec_of(v, x)->now = now; }

static void set_home(TsVec *v, TsTileVal x, TsTileVal home) {
  VecVal *p = ts_tile_vec_of(v, x);
  p->home = home;
  p->homed = -1;
}

/* Tiles that a loop carries get a home, which the loop's value, parameter and result share. */
static void carry_homes(TsVec *v, TsTileStmt *s, Copies *start) {
  TsTileRegion *r = s->region[0];
  for (int i = 0; i < s->nout; i++) {
    if (!is_tile(s->out[i])) continue;
    TsTileVal home = ts_tile_vec_home(v, s->out[i]);
    set_home(v, s->out[i], home);
    set_home(v, r->param[i + 1], home);
    add_copy(v, start, s->in[i + 2], home, s);
  }
}

/* Operands of a yield: tiles are copied home, scalars stay. */
static int yields(TsVec *v, const TsTileStmt *s, TsTileRegion *r, Copies *c) {
  int n = 0;
  for (int i = 0; r->last && r->last->op == TS_TILE_yield && i < s->nout; i++)
    if (is_tile(s->out[i]))
      add_copy(v, c, r->last->in[i], ts_tile_vec_of(v, s->out[i])->home, s);
    else
      n++;
  return n;
}

static void emit_yield(TsVec *v, const TsTileStmt *s, TsTileRegion *r, int nscalar) {
  TsTileVal list[64];
  int n = 0;
  for (int i = 0; nscalar && i < s->nout; i++)
    if (!is_tile(s->out[i])) list[n++] = ts_tile_vec_of(v, r->last->in[i])->now;
  if (n) ts_tile_emit(&v->b, TS_TILE_yield, n, list, NULL, 0, NULL);
}

static bool parallel_inside(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next)
    if (s->op == TS_TILE_for &&
        (ts_tile_attr(s, "parallel")->i || parallel_inside(s->region[0])))
      return true;
  return false;
}

static int loop(TsVec *v, TsTileStmt *s, int n) {
  TsTileRegion *r = s->region[0], *round = v->round;
  TsTileStmt *last_alloc = v->last_alloc;
  TsTileVal carry[64];
  Copies start = {.n = 0}, again = {.n = 0};
  int ncarry = 0, mark = ts_tile_vec_mark(v);
  bool parallel = ts_tile_attr(s, "parallel")->i;
  if (s->nout > 64) return ts_tile_vec_fail(v, s, "a loop that carries so much");
  carry_homes(v, s, &start);
  if (v->failed || (start.n && stretch(v, NULL, NULL, NOWHERE, &start))) return n;
  for (int i = 0; i < s->nout; i++)
    if (!is_tile(s->out[i])) carry[ncarry++] = ts_tile_vec_of(v, s->in[i + 2])->now;
  v->b.line = s->line;
  TsTileLoop l =
      ts_tile_for(&v->b, ts_tile_vec_of(v, s->in[0])->now, ts_tile_vec_of(v, s->in[1])->now,
                  ts_tile_attr(s, "step")->i, parallel, ncarry, carry);
  if (!l.carry || v->k->failed) return n;
  if (parallel && !parallel_inside(r)) v->round = v->b.at, v->last_alloc = NULL;
  set_now(v, r->param[0], l.i);
  for (int i = 0, c = 0; i < s->nout; i++)
    if (!is_tile(s->out[i])) set_now(v, r->param[i + 1], l.carry[c++]);
  int nscalar = yields(v, s, r, &again);
  n = region(v, r, n + 1, &again);
  emit_yield(v, s, r, nscalar);
  v->b.at = l.before;
  ts_tile_vec_drop(v, mark);
  for (int i = 0, c = 0; i < s->nout; i++)
    if (!is_tile(s->out[i])) set_now(v, s->out[i], l.stmt->out[c++]);
  v->round = round;
  v->last_alloc = last_alloc;
  return n;
}

static int branch(TsVec *v, TsTileStmt *s, int n) {
  TsTileVal cond = ts_tile_vec_of(v, s->in[0])->now;
  TsTileType out[64];
  int nout = 0;
  if (s->nout > 64) return ts_tile_vec_fail(v, s, "a branch with so many results"), n;
  for (int i = 0; i < s->nout; i++)
    if (is_tile(s->out[i]))
      set_home(v, s->out[i], ts_tile_vec_home(v, s->out[i]));
    else
      out[nout++] = s->out[i]->type;
  TsTileStmt *made = ts_tile_emit(&v->b, TS_TILE_if, 1, &cond, NULL, nout, out);
  if (!made) return n;
  TsTileBuild here = v->b;
  for (int k = 0; k < 2; k++) {
    Copies c = {.n = 0};
    int mark = ts_tile_vec_mark(v);
    v->b.at = made->region[k];
    int nscalar = yields(v, s, s->region[k], &c);
    n = region(v, s->region[k], n + 1, &c);
    emit_yield(v, s, s->region[k], nscalar);
    ts_tile_vec_drop(v, mark);
  }
  v->b = here;
  for (int i = 0, c = 0; i < s->nout; i++)
    if (!is_tile(s->out[i])) set_now(v, s->out[i], made->out[c++]);
  return n;
}

/* The statements of a region; `last` is copied at the end of its last stretch. Gives the number
 * of that stretch, in the order of number(). */
static int region(TsVec *v, TsTileRegion *r, int n, Copies *last) {
  TsTileStmt *first = r->first;
  for (TsTileStmt *s = r->first; s && !v->failed; s = s->next) {
    if (!cuts(v, s)) continue;
    stretch(v, first, s, n, NULL);
    if (v->failed) return n;
    if (s->op == TS_TILE_mark)
      v->b.line = s->line, ts_tile_emit(&v->b, s->op, 0, NULL, s->attr, 0, NULL);
    else if (s->op == TS_TILE_for)
      n = loop(v, s, n);
    else if (s->op == TS_TILE_if)
      n = branch(v, s, n);
    else
      ts_tile_vec_fail(v, s, "roles are of other processors");
    first = s->next;
    n++;
  }
  if (!v->failed) stretch(v, first, NULL, n, last);
  return n;
}

/* ---- the kernel */
static bool copy_head(TsVec *v) {
  TsTile *k = v->k;
  for (int i = 0; i < k->nparam; i++) set_now(v, v->from->param[i], k->param[i]);
  k->form = TS_FORM_explicit;
  k->target = ts_arena_text(&k->arena, v->target->name);
  return k->target != NULL;
}

static void release(TsVec *v) {
  ts_arena_free(&v->arena);
  free(v->memo);
}

static TsTile *vectorise(const TsTile *k, const TsTarget *target, TsError *err) {
  TsTarget narrow = *target;
  TsVec v = {.from = k, .target = &narrow, .err = err, .segment = -1};
  if (k->vector) narrow.vector_bytes = k->vector;
  if (narrow.vector_bytes < 8 || narrow.vector_bytes > target->vector_bytes ||
      (narrow.vector_bytes & (narrow.vector_bytes - 1)))
    return ts_error_set(err, TS_ERR_argument, "%s has no vectors of %d bytes", target->name,
                        narrow.vector_bytes),
           NULL;
  v.k = ts_tile_copy_head(k);
  v.val = ts_arena_alloc(&v.arena, sizeof *v.val * (size_t)(k->nvalue + 1));
  v.at.vec = -1;
  if (v.k && v.val) {
    v.b = ts_tile_build(v.k);
    v.own_marks = k->marks && ts_tile_has_marks(k);
    for (uint32_t i = 0; i < k->nvalue; i++) v.val[i].row = -1, v.val[i].segment = VEC_CARRIED;
    number(&v, k->body, 0);
    find_kept(&v, k->body, 0);
    if (copy_head(&v))
      region(&v, k->body, 0, NULL);
    else
      v.k->failed = true;
  }
  bool lost = !v.k || !v.val || v.k->failed;
  if (lost && !v.failed) ts_error_memory(err);
  if (lost || v.failed) {
    ts_tile_free(v.k);
    v.k = NULL;
  }
  release(&v);
  return v.k;
}

/* Needs: block form, legal, target one of a CPU. Keeps: every bit of the results. Gives: a new
 * kernel in explicit form, pointwise rows not yet expanded, or NULL with the error. Memory of
 * different parameters does not overlap, but for equal positions of rows that are written after
 * they are read. */
TsTile *ts_tile_vectorise(const TsTile *k, const TsTarget *target, TsError *err) {
  ts_error_clear(err);
  TsTile *piped = ts_tile_pipeline(k, target, err);
  if (!piped && err->code) return NULL;
  TsTile *v = vectorise(piped ? piped : k, target, err);
  ts_tile_free(piped);
  return v;
}
