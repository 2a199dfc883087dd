/* needs:  a kernel of block form, or explicit with roles
 * keeps:  its statements and their order
 * gives:  one whose head says `marks`, with marks around runs of statements of one stage
 *
 * A run begins at the first statement of a stage and ends before the next one, a loop or the end of
 * the region. What takes no time of its own, or belongs to what stands before it, is of the run
 * around it: arithmetic on single numbers, which is where positions come from, arrivals, what lies
 * in memory of the block. A branch is as what stands in it, where that is of one stage: a turn is
 * what marks cost. */
#include "ir/tile/pass/stages.h"

#include "ir/tile/copy.h"
#include "ir/tile/marks.h"
#include "ir/tile/find.h"

typedef enum Kind {
  NONE = -2,  /* ends a run */
  WITHIN = -1 /* of the run around it */
} Kind;

typedef struct Stage {
  int stage; /* or a Kind */
  const char *what;
} Stage;

static bool scalars(const TsTileStmt *s) {
  for (int i = 0; i < s->nin; i++)
    if (ts_tile_memory(&s->in[i]->type) || s->in[i]->type.rank) return false;
  for (int i = 0; i < s->nout; i++)
    if (ts_tile_memory(&s->out[i]->type) || s->out[i]->type.rank) return false;
  return !s->nregion;
}

static bool is_loop(const TsTileStmt *s) {
  return s->op == TS_TILE_for || s->op == TS_TILE_repeat;
}

/* Products from s on, in loops alone or in all statements. */
static bool products_from(const TsTileStmt *s, bool loops) {
  for (; s; s = s->next) {
    if (!loops && s->op == TS_TILE_mma) return true;
    for (int i = 0; i < s->nregion; i++)
      if (loops && is_loop(s) ? ts_tile_find(s->region[i], TS_TILE_mma) != NULL
                              : products_from(s->region[i]->first, loops))
        return true;
  }
  return false;
}

/* What was found out of the statements before, which are asked for again and again: kernels have
 * bodies of thousands. */
typedef struct Known {
  const TsTileRegion *all, *body; /* of a role or kernel, of a loop */
  bool mma, ex2;                  /* anywhere in all */
  bool between, inner;            /* of body: products in it; none in a loop inside of it */
  const TsTileStmt *branch;       /* which is of this stage: */
  Stage of_branch;
  const TsTileStmt *before; /* whose run is that: */
  Stage run;
  int line;
} Known;

static void know(Known *k, const TsTileRegion *all, const TsTileRegion *body) {
  if (k->all != all) {
    k->all = all;
    k->mma = ts_tile_find(all, TS_TILE_mma) != NULL;
    k->ex2 = ts_tile_find(all, TS_TILE_ex2) != NULL;
  }
  if (!k->mma || k->body == body) return;
  k->body = body;
  k->between = ts_tile_find(body, TS_TILE_mma) != NULL;
  k->inner = !products_from(body->first, true);
}

/* The role or kernel that s stands in, and the body of its loop; gives what of that it stands in. */
static const TsTileStmt *know_around(Known *k, const TsTileStmt *s) {
  const TsTileRegion *all = s->in_region, *body = s->in_region;
  const TsTileStmt *at = s;
  while (all->owner && all->owner->op != TS_TILE_role) all = all->outer;
  while (body->owner && !is_loop(body->owner) && body->owner->op != TS_TILE_role)
    at = body->owner, body = body->outer;
  know(k, all, body);
  return at;
}

/* Copies that are told between products are of these: each is an instruction among those of the units, which
 * a turn would keep apart. */
static Stage told(Known *k, const TsTileStmt *s) {
  know_around(k, s);
  if (k->mma && k->between && k->inner) return (Stage){WITHIN, NULL};
  return (Stage){TS_STAGE_load, "issue"};
}

/* On tiles, in a role or kernel with products: between these, softmax where there are powers of two;
 * behind the last of them the epilogue. */
static Stage arithmetic(Known *k, const TsTileStmt *s) {
  static const Stage plain = {TS_STAGE_other, "arithmetic"};
  if (scalars(s)) return (Stage){WITHIN, NULL};
  const TsTileStmt *at = know_around(k, s);
  if (!k->mma) return plain;
  bool between = k->between && (k->inner || products_from(at, false));
  if (!between) return (Stage){TS_STAGE_epilogue, NULL};
  return k->ex2 ? (Stage){TS_STAGE_other, "softmax"} : plain;
}

static bool of_device(const TsTileVal memory) {
  return memory->type.space == TS_SPACE_global || memory->type.space == TS_SPACE_scratch;
}

static bool same(Stage a, Stage b) { return a.stage == b.stage && a.what == b.what; }

static Stage stage_of(Known *k, const TsTileStmt *s);

/* The one stage of what stands in a branch; WITHIN: all of it is of the run around. */
static Stage branch(Known *k, const TsTileStmt *s) {
  Stage all = {WITHIN, NULL};
  if (k->branch == s) return k->of_branch;
  for (int i = 0; i < s->nregion && all.stage != NONE; i++)
    for (const TsTileStmt *x = s->region[i]->first; x; x = x->next) {
      Stage is = stage_of(k, x);
      if (x->op == TS_TILE_yield || is.stage == WITHIN) continue;
      if (all.stage == WITHIN) all = is;
      if (!same(all, is)) all.stage = NONE;
    }
  k->branch = s, k->of_branch = all;
  return all;
}

/* s stands in a branch that is of one stage. */
static bool in_branch(Known *k, const TsTileStmt *s) {
  const TsTileStmt *at = s->in_region->owner;
  for (; at && at->op == TS_TILE_if; at = at->in_region->owner)
    if (branch(k, at).stage != NONE) return true;
  return false;
}

static Stage stage_of(Known *k, const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_if: return branch(k, s);
  case TS_TILE_load:
  case TS_TILE_gather:
  case TS_TILE_load_rows:
  case TS_TILE_unpack:
    return of_device(s->in[0]) ? (Stage){TS_STAGE_load, NULL} : (Stage){WITHIN, NULL};
  case TS_TILE_copy_async: return told(k, s);
  case TS_TILE_copy_bulk:
  case TS_TILE_expect: return (Stage){TS_STAGE_load, "issue"};
  case TS_TILE_turn: /* its end is of what stands before */
    if (ts_tile_attr(s, "end")->i) return (Stage){WITHIN, NULL};
    return (Stage){TS_STAGE_wait, "barrier"};
  case TS_TILE_await: return (Stage){TS_STAGE_wait, "barrier"};
  case TS_TILE_wait: {
    int64_t of = ts_tile_attr(s, "of")->i; /* copies|products|stores|writes */
    return of == 1 ? (Stage){TS_STAGE_mma, NULL}
                   : (Stage){TS_STAGE_wait, of ? "stores" : "copies"};
  }
  case TS_TILE_until: return (Stage){TS_STAGE_wait, "other blocks"};
  case TS_TILE_meet: return (Stage){TS_STAGE_wait, "other devices"};
  case TS_TILE_barrier:
  case TS_TILE_sync: return (Stage){TS_STAGE_wait, "threads"};
  case TS_TILE_await_launch: return (Stage){TS_STAGE_wait, "launch before"};
  case TS_TILE_mma:
  case TS_TILE_outer: return (Stage){TS_STAGE_mma, NULL};
  case TS_TILE_store:
  case TS_TILE_store_below:
  case TS_TILE_store_rows:
  case TS_TILE_blank:
  case TS_TILE_scatter:
    return of_device(s->in[0]) ? (Stage){TS_STAGE_store, NULL} : (Stage){WITHIN, NULL};
  case TS_TILE_store_bulk:
  case TS_TILE_signal: return (Stage){TS_STAGE_store, NULL};
  case TS_TILE_quarter:
  case TS_TILE_row: return arithmetic(k, s);
  case TS_TILE_sum:
  case TS_TILE_pairs:
  case TS_TILE_prod:
  case TS_TILE_max:
  case TS_TILE_min:
  case TS_TILE_argmax:
  case TS_TILE_argmin:
  case TS_TILE_places: return (Stage){TS_STAGE_other, "reduce"};
  case TS_TILE_commit: { /* it stands directly behind what it closes */
    int64_t of = ts_tile_attr(s, "of")->i;
    return of == 0   ? told(k, s)
           : of == 1 ? (Stage){TS_STAGE_mma, NULL}
                     : (Stage){TS_STAGE_store, NULL};
  }
  case TS_TILE_alloc:
  case TS_TILE_arrive:
  case TS_TILE_fence:
  case TS_TILE_const:
  case TS_TILE_bits:
  case TS_TILE_iota:
  case TS_TILE_view:
  case TS_TILE_own:
  case TS_TILE_broadcast:
  case TS_TILE_reshape:
  case TS_TILE_part: return (Stage){WITHIN, NULL};
  default: return s->nregion || s->op == TS_TILE_yield ? (Stage){NONE, NULL} : arithmetic(k, s);
  }
}

/* The stage of the run that ends in front of s, and the line of its first statement. */
static Stage run_before(Known *k, const TsTileStmt *s, int *line) {
  Stage run = {NONE, NULL};
  if (s->prev && k->before == s->prev) return *line = k->line, k->run;
  for (s = s->prev; s; s = s->prev) {
    Stage is = stage_of(k, s);
    if (is.stage == WITHIN) continue;
    if (run.stage == NONE) run = is;
    if (is.stage < 0 || !same(is, run)) break;
    *line = s->line;
  }
  return run;
}

static void mark(TsTileCopy *c, Stage is, int line, bool end) {
  if (is.stage < 0) return;
  c->b.line = line;
  ts_tile_mark(&c->b, (TsTileStage)is.stage, is.what, end);
}

/* Marks of what ends in front of s and what begins there; runs also end behind what is within them. */
static int around(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  Known *k = arg;
  if (!s->in_region->owner) return 0; /* above the grid are sizes and positions alone */
  if (in_branch(k, s)) return 0;
  int line = s->line;
  Stage is = stage_of(k, s), before = run_before(k, s, &line);
  bool turns = is.stage != WITHIN && !same(is, before);
  k->before = s;
  k->run = is.stage == WITHIN ? before : is;
  k->line = is.stage == WITHIN || !turns ? line : s->line;
  if (turns) {
    mark(c, before, line, true);
    mark(c, is, line = s->line, false);
  }
  if (s->next) return 0;
  if (s->op == TS_TILE_yield) return 0;
  if (!ts_tile_copy_stmt(c, s)) return -1;
  mark(c, is.stage == WITHIN ? before : is, line, true);
  return 1;
}

static int without(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  (void)c, (void)arg;
  return s->op == TS_TILE_mark;
}

TsTile *ts_tile_stages(const TsTile *k, bool whole, TsError *err) {
  bool own = !whole && ts_tile_has_marks(k);
  TsTile *head = ts_tile_copy(k, whole ? without : NULL, NULL, err), *marked = NULL;
  if (!head) return NULL;
  head->marks = true;
  if (own || whole) return head;
  Known known = {.all = NULL};
  marked = ts_tile_copy(head, around, &known, err);
  ts_tile_free(head);
  return marked;
}
