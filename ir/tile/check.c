/* Legality of kernels: definitions before uses, regions, the top of a kernel, what it may
 * allocate. The rules of single rows stand in ir/tile/check_row.c. Passes build kernels too, so
 * nothing that the builder promises is taken for granted. */
#include "ir/tile/check.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/map.h"
#include "ir/tile/text.h"
#include "ir/tile/work.h"

typedef struct Walk {
  TsTileCheck c;
  TsTextMap seen;     /* values by address; count: 1 where they are in sight */
  unsigned char *ids; /* by id: a value has it */
} Walk;

static bool is_cpu(const char *name) {
  const TsTarget *t = ts_target(name);
  return t ? !ts_target_gpu(t) : !strcmp(name, "cpu");
}

/* The line behind the message, cut to what the slot holds. */
static int quote(const Walk *w, const TsTileStmt *s) {
  TsError *e = w->c.err, old = *e;
  TsText t = {0};
  if (s && s->op >= TS_TILE_END) s = NULL;
  if (s) ts_tile_stmt_text(w->c.k, s, &t);
  if (t.failed) return ts_text_free(&t), ts_error_memory(e);
  bool placed = s && s->line > 0 && s->line < w->c.k->nplace;
  ts_error_set(e, old.code, "@%.40s: %.270s%s%.60s%s%.100s", w->c.k->name, old.message,
               placed ? ", at " : "", placed ? w->c.k->place[s->line] : "", s ? "\n    " : "",
               t.at ? t.at : "");
  if (*old.hint) ts_error_hint(e, "%s", old.hint);
  ts_text_free(&t);
  return -1;
}

static int wrong(Walk *w, const TsTileStmt *s, const char *what) {
  ts_tile_wrong(&w->c, s, TS_ERR_argument, "%s", what);
  return -1;
}

/* ---- values */
static int define(Walk *w, const TsTileStmt *s, TsTileVal v) {
  const TsTile *k = w->c.k;
  if (v->id >= k->nvalue || w->ids[v->id]) return wrong(w, s, "a value has the id of another");
  w->ids[v->id] = 1;
  TsMapSlot *slot = ts_text_map_enter(&w->seen, v, TS_KEY_ADDRESS);
  if (!slot) return ts_error_memory(w->c.err);
  slot->count = 1;
  return 0;
}

static int check_uses(Walk *w, const TsTileStmt *s) {
  for (int i = 0; i < s->nin; i++) {
    const TsMapSlot *slot =
        s->in[i] ? ts_text_map_find(&w->seen, s->in[i], TS_KEY_ADDRESS) : NULL;
    if (slot && slot->count) continue;
    return ts_tile_wrong(&w->c, s, TS_ERR_value, "operand %d is not defined before it", i);
  }
  return 0;
}

static int check_results(Walk *w, const TsTileStmt *s) {
  for (int i = 0; i < s->nout; i++) {
    TsTileVal v = s->out[i];
    if (!v || v->stmt != s || v->index != i)
      return wrong(w, s, "a result belongs to another statement");
    if (ts_tile_check_type(&w->c, s, &v->type)) return -1;
  }
  return 0;
}

static int define_results(Walk *w, const TsTileStmt *s) {
  for (int i = 0; i < s->nout; i++)
    if (define(w, s, s->out[i])) return -1;
  return 0;
}

static void hide(Walk *w, const TsTileVal v) {
  TsMapSlot *slot = ts_text_map_find(&w->seen, v, TS_KEY_ADDRESS);
  if (slot) slot->count = 0;
}

/* ---- the top: parallel loops, and between them what every thread may compute again */
static bool is_arithmetic(const TsTileStmt *s) {
  int op = s->op;
  bool row = op < TS_OP_COUNT || op == TS_TILE_cast || op == TS_TILE_bitcast ||
             (op >= TS_TILE_shl && op <= TS_TILE_ult);
  for (int i = 0; row && i < s->nout; i++) {
    const TsTileType *t = &s->out[i]->type;
    row = !t->rank && ts_dtype_is((TsDtype)t->dtype, TS_KIND_I | TS_KIND_U | TS_KIND_B);
  }
  return row;
}

static bool is_phase(const TsTileStmt *s) {
  return s->op == TS_TILE_for && s->nattr && ts_tile_attr(s, "parallel")->i;
}

/* The top, and what stands around a parallel loop in another. */
static bool is_top(const Walk *w, const TsTileRegion *r) {
  if (r == w->c.k->body) return true;
  for (const TsTileStmt *s = r->first; s; s = s->next)
    if (is_phase(s)) return true;
  return false;
}

static int check_top(Walk *w, const TsTileStmt *s) {
  bool memory = s->op == TS_TILE_alloc && s->nout && s->out[0]->type.space == TS_SPACE_scratch;
  if (is_phase(s) || memory || s->op == TS_TILE_dim || s->op == TS_TILE_const ||
      s->op == TS_TILE_bits || is_arithmetic(s))
    return 0;
  return wrong(w, s,
               "stands outside of the parallel loops, where only sizes, arithmetic on "
               "positions, constants and scratch are");
}

/* ---- memory of a block */
static int count_memory(Walk *w, const TsTileStmt *s) {
  const TsTarget *target = w->c.target;
  if (s->op != TS_TILE_alloc || !target || s->out[0]->type.space < TS_SPACE_shared) return 0;
  int64_t n = ts_tile_nbytes(&s->out[0]->type);
  if (s->out[0]->type.split && w->c.k->cluster > 1) n /= w->c.k->cluster;
  if (__builtin_add_overflow(w->c.shared_bytes, n, &w->c.shared_bytes))
    w->c.shared_bytes = INT64_MAX;
  if (w->c.shared_bytes <= target->shared_bytes) return 0;
  return ts_tile_wrong(&w->c, s, TS_ERR_memory,
                       "%lld bytes of shared memory, %s has %lld for a block",
                       (long long)w->c.shared_bytes, target->name ? target->name : "the target",
                       (long long)target->shared_bytes);
}

/* ---- regions */
static int check_region(Walk *w, const TsTileRegion *r, int depth);

static int check_stmt(Walk *w, const TsTileStmt *s, bool top) {
  if (s->op >= TS_TILE_END)
    return ts_error_set(w->c.err, TS_ERR_value, "there is no operation %d", s->op);
  return check_uses(w, s) || check_results(w, s) || ts_tile_check_row(&w->c, s) ||
                 (top && check_top(w, s)) || count_memory(w, s)
             ? -1
             : 0;
}

static int check_inner(Walk *w, const TsTileStmt *s, int depth) {
  bool role = s->op == TS_TILE_role, grid = is_phase(s);
  w->c.roles += role;
  w->c.grid += grid;
  for (int i = 0; i < s->nregion; i++) {
    const TsTileRegion *inner = s->region[i];
    if (inner->owner != s || inner->outer != s->in_region) {
      wrong(w, s, "a region belongs to another statement");
      return quote(w, s);
    }
    if (check_region(w, inner, depth + 1)) return -1;
  }
  w->c.roles -= role;
  w->c.grid -= grid;
  return 0;
}

static void hide_all(Walk *w, const TsTileRegion *r) {
  for (int i = 0; i < r->nparam; i++) hide(w, r->param[i]);
  for (const TsTileStmt *s = r->first; s; s = s->next)
    for (int i = 0; i < s->nout; i++) hide(w, s->out[i]);
}

static int check_params(Walk *w, const TsTileRegion *r) {
  for (int i = 0; i < r->nparam; i++) {
    TsTileVal v = r->param[i];
    if (!v || v->region != r || v->stmt || v->index != i)
      return wrong(w, r->owner, "a parameter belongs to another region");
    if (ts_tile_check_type(&w->c, r->owner, &v->type) || define(w, r->owner, v)) return -1;
  }
  return 0;
}

static int check_region(Walk *w, const TsTileRegion *r, int depth) {
  const TsTileStmt *before = NULL;
  if (depth > TS_TILE_DEEPEST)
    return ts_error_set(w->c.err, TS_ERR_value, "@%.40s: regions more than %d deep",
                        w->c.k->name, TS_TILE_DEEPEST);
  if (check_params(w, r)) return quote(w, r->owner);
  bool top = is_top(w, r);
  for (const TsTileStmt *s = r->first; s; before = s, s = s->next) {
    if (s->in_region != r || s->prev != before)
      return ts_error_set(w->c.err, TS_ERR_value,
                          "@%.40s: a statement stands in another place than it says",
                          w->c.k->name);
    if (check_stmt(w, s, top)) return quote(w, s);
    if (check_inner(w, s, depth)) return -1;
    if (define_results(w, s)) return quote(w, s);
  }
  if (r->last != before)
    return ts_error_set(w->c.err, TS_ERR_value, "@%.40s: a region does not end where it says",
                        w->c.k->name);
  hide_all(w, r);
  return 0;
}

/* ---- the head */
static bool is_size_name(const char *s) {
  if (!s || (!isalpha((unsigned char)*s) && *s != '_')) return false;
  while (isalnum((unsigned char)*s) || *s == '_') s++;
  return !*s;
}

static int check_head(const TsTile *k, TsError *err) {
  if (!k->name || !k->target || !*k->target || k->failed)
    return ts_error_set(err, TS_ERR_value, "a kernel without name, target or memory");
  if (k->ndim < 0 || k->ndim > TS_TILE_DIMS || k->ntile < 0 || k->ntile > 4)
    return ts_error_set(err, TS_ERR_value, "@%.40s: too many sizes, or axes of the tile",
                        k->name);
  for (int i = 0; i < k->ntile; i++)
    if (k->tile[i] < 1)
      return ts_error_set(err, TS_ERR_value,
                          "@%.40s: axis %d of the tile has no elements: tile %lld", k->name, i,
                          (long long)k->tile[i]),
             ts_error_hint(
                 err, "the head says tile 8x768, each number 1 at least; without it the passes "
                      "choose");
  if (k->stages < 0 || k->threads < 0 || k->unroll < 0 || k->vector < 0 || k->grain < 0 ||
      k->cluster < 0 || k->high < 0 || k->depth < 0 || k->pack < 0)
    return ts_error_set(err, TS_ERR_value, "@%.40s: a negative number in the head", k->name);
  for (int i = 0; i < k->ndim; i++)
    for (int j = 0; j <= i; j++)
      if (j == i ? !is_size_name(k->dim[i]) : !strcmp(k->dim[i], k->dim[j]))
        return ts_error_set(err, TS_ERR_value,
                            "@%.40s: size %d has no name, or that of another", k->name, i);
  return 0;
}

static int check_kernel_params(Walk *w) {
  const TsTile *k = w->c.k;
  if (k->nin < 0 || k->nin > k->nparam) return wrong(w, NULL, "more are read than there are");
  for (int i = 0; i < k->nparam; i++) {
    TsTileVal v = k->param[i];
    if (!v || v->stmt || v->region || v->index != i || v->type.space != TS_SPACE_global)
      return wrong(w, NULL, "is none of the kernel, or no global memory");
    if (ts_tile_check_type(&w->c, NULL, &v->type) || define(w, NULL, v)) return -1;
  }
  return 0;
}

int ts_tile_check(const TsTile *k, const TsTarget *target, TsError *err) {
  if (check_head(k, err)) return -1;
  Walk w = {.c = {.k = k, .target = target, .err = err, .cpu = is_cpu(k->target)}};
  if (!(w.ids = calloc((size_t)k->nvalue + 1, 1))) return ts_error_memory(err);
  int bad = check_kernel_params(&w) ? quote(&w, NULL) : 0;
  if (!bad && (k->body->owner || k->body->outer || k->body->nparam))
    bad = ts_error_set(err, TS_ERR_value, "@%.40s: the body is no outermost region", k->name);
  if (!bad) bad = check_region(&w, k->body, 0);
  if (!bad) bad = ts_tile_check_work(k, NULL, err);
  ts_text_map_free(&w.seen);
  free(w.ids);
  return bad ? -1 : 0;
}
