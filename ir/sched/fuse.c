/* Fusion: which nodes become one kernel.
 *
 * Needs a graph of concrete sizes. Keeps it. Gives groups in an order in which each needs only
 * what groups before it made: a node joins the last of the groups that it reads from, so that no
 * cycle can arise, or a group that stands behind all of them and walks the same space. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/sched/fuse_state.h"
#include "ir/sched/attention.h"
#include "ir/sched/conv.h"
#include "ir/sched/epilogue.h"
#include "ir/sched/prologue.h"
#include "ir/sched/norm_grad.h"
#include "ir/sched/product/product.h"
#include "ir/sched/rows.h"
#include "ir/sched/space.h"
#include "ir/sched/why.h"

const TsNode *ts_fuse_origin(TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return v->node;
}

const TsNode *ts_fuse_first(const Fuse *f, const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++) {
    const TsWhy *w = ts_why_of(f->s, g->node[i]);
    if (w && w->name == TS_WHY_begins) return g->node[i];
  }
  return NULL;
}

static void set_space(TsGroup *g, const TsSpaceAxes *a) {
  g->naxis = a->naxis, g->nrow = a->nrow;
  memcpy(g->axis, a->axis, sizeof g->axis);
}

void ts_fuse_no_memory(Fuse *f) {
  f->failed = true;
  ts_error_memory(f->err);
}

static TsGroup *new_group(Fuse *f, TsGroupKind kind) {
  TsSched *s = f->s;
  if (s->ngroup == s->capgroup) {
    int cap = s->capgroup ? 2 * s->capgroup : 32;
    TsGroup **more = realloc(s->group, sizeof *more * (size_t)cap);
    if (!more) return ts_fuse_no_memory(f), NULL;
    s->group = more;
    s->capgroup = cap;
  }
  TsGroup *g = ts_arena_alloc(&s->arena, sizeof *g);
  if (!g) return ts_fuse_no_memory(f), NULL;
  g->kind = (uint8_t)kind;
  g->index = s->ngroup;
  return s->group[s->ngroup++] = g;
}

void ts_fuse_add(Fuse *f, TsGroup *g, const TsNode *n) {
  if (g->nnode == g->capnode) {
    int cap = g->capnode ? 2 * g->capnode : 4;
    const TsNode **more = realloc(g->node, sizeof *more * (size_t)cap);
    if (!more) return ts_fuse_no_memory(f);
    g->node = more;
    g->capnode = cap;
  }
  g->node[g->nnode++] = n;
  f->s->of[n->id] = g->index;
}

/* ---- joining */
/* The group that made what v shows, -1 for parameters and constants. Views that change the order
 * of the elements are read from memory; their group must be done. */
int ts_fuse_group_of(const Fuse *f, TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return f->s->of[v->node->id];
}

/* The last group that n reads, -1: none. */
static int last_of(const Fuse *f, const TsNode *n) {
  int last = -1;
  for (int i = 0; i < n->nin; i++) {
    int k = n->in[i] ? ts_fuse_group_of(f, n->in[i]) : -1;
    if (k > last) last = k;
  }
  return last;
}

static bool own_space(const TsNode *n, TsSpaceAxes *out) {
  const TsMeta *m = ts_sched_at(n);
  TsSpaceAxes all = {.naxis = 1, .axis = {ts_meta_numel(m)}};
  int64_t row = ts_sched_row(n) ? ts_sched_row_length(n) : 0;
  if (!row && (row = ts_fuse_columns_of(n))) all.columns = true;
  return ts_space_refine(&all, m, row, out);
}

/* What is so of all that a node reads. */
static bool is_memory(const TsWhy *w) {
  return w->name == TS_WHY_takes_memory || w->name == TS_WHY_operand;
}

/* n is in g. What it reads of others it did not join: of the last one for *w, of those before
 * because of that one. */
static void say_apart(const Fuse *f, const TsGroup *g, const TsNode *n, int last,
                      const TsWhy *w) {
  TsWhy later = ts_why(TS_WHY_later, 0, 0);
  if (last >= 0) later.other = f->s->group[last]->node[0];
  for (int i = 0; i < n->nin; i++) {
    int k = n->in[i] ? ts_fuse_group_of(f, n->in[i]) : -1;
    if (k >= 0 && k != g->index)
      ts_why_apart(f->s->why, n, i, k == last || is_memory(w) ? w : &later);
  }
}

static void say_member(const Fuse *f, const TsGroup *g, const TsNode *n) {
  TsWhy w = ts_why(TS_WHY_begins, 0, 0);
  int64_t columns = ts_fuse_columns_of(n);
  TsSpaceAxes a = ts_fuse_space(g);
  if (g->nnode && ts_sched_row(n))
    w = ts_why(TS_WHY_along_row, ts_sched_row_length(n), 0);
  else if (g->nnode && columns)
    w = ts_why(TS_WHY_down_column, columns, 0);
  else if (g->nnode)
    w = ts_why_space(ts_fuse_has_head(g->kind) ? TS_WHY_on_product : TS_WHY_element, &a);
  w.from = g->nnode ? g->node[0] : NULL, w.to = n;
  ts_why_member(f->s->why, n, &w);
}

static void place(Fuse *f, const TsNode *n) {
  TsSpaceAxes space;
  TsGroupKind kind = ts_sched_kind_in(f->s, n);
  if (ts_fuse_has_head(kind) && !(f->s->target && f->s->target->fma)) kind = TS_GROUP_vm;
  if (ts_sched_epilogue_begins(f->s->target, n)) kind = TS_GROUP_matmul;
  bool joins = !ts_fuse_has_head(kind) && !ts_fuse_alone(kind);
  int last = last_of(f, n);
  TsWhy w = ts_why(TS_WHY_none, 0, 0);
  TsGroup *g = joins && last >= 0 ? f->s->group[last] : NULL;
  /* Nodes that were in g before must still fit: a finer space only splits their axes. */
  if (g && !ts_fuse_fits(f, g, n, &space, &w)) g = NULL;
  if (!g) {
    if (!ts_fuse_alone(kind) && !own_space(n, &space)) kind = TS_GROUP_vm;
    if (!(g = new_group(f, kind))) return;
    if (!joins || kind == TS_GROUP_vm)
      w = ts_why(ts_fuse_alone(kind) ? TS_WHY_takes_memory : TS_WHY_operand, 0, 0);
  }
  if (!ts_fuse_alone(kind)) set_space(g, &space);
  if (kind == TS_GROUP_rows || kind == TS_GROUP_columns) g->kind = (uint8_t)kind;
  if (kind == TS_GROUP_attention) g->transposed = ts_sched_transposed(f->s, f->live, n);
  say_member(f, g, n);
  ts_fuse_add(f, g, n);
  say_apart(f, g, n, last, &w);
}

/* ---- groups that only one later group reads join it */
typedef struct Readers {
  int *reader;     /* by group: the one that reads it, or one of these */
  int *count;      /* how many do */
  uint8_t *leaves; /* a TsWhyName: it is made whoever reads it */
} Readers;
enum { NOBODY = -1, MANY = -2 };

static void find_readers(const Fuse *f, Readers *r) {
  const TsGraph *g = f->g;
  int *reader = r->reader;
  for (int i = 0; i < f->s->ngroup; i++) reader[i] = NOBODY;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    int own = f->s->of[i];
    if (n->runs && own >= 0) reader[own] = MANY, r->leaves[own] = TS_WHY_runs_anyway;
    for (int k = 0; f->runs[i] && k < n->nin; k++) {
      int from = n->in[k] ? ts_fuse_group_of(f, n->in[k]) : -1;
      if (from >= 0 && from != own)
        reader[from] = reader[from] == NOBODY || reader[from] == own ? own : MANY;
    }
  }
  for (int i = 0; i < g->nresult + g->nupdate; i++) {
    int from =
        ts_fuse_group_of(f, i < g->nresult ? g->result[i] : g->update[i - g->nresult].value);
    if (from >= 0) reader[from] = MANY, r->leaves[from] = TS_WHY_result;
  }
}

/* How many groups read each that has no single reader. last: by group, for this alone. */
static void count_readers(const Fuse *f, Readers *r, int *last) {
  for (int i = 0; i < f->s->ngroup; i++) last[i] = -1;
  for (int i = 0; i < f->s->ngroup; i++)
    for (int k = 0; k < f->s->group[i]->nnode; k++) {
      const TsNode *n = f->s->group[i]->node[k];
      for (int x = 0; x < n->nin; x++) {
        int from = n->in[x] ? ts_fuse_group_of(f, n->in[x]) : -1;
        if (from >= 0 && from != i && last[from] != i) last[from] = i, r->count[from]++;
      }
    }
}

static void say_readers(const Fuse *f, const Readers *r) {
  for (int i = 0; i < f->g->nnode; i++) {
    const TsNode *n = f->g->node[i];
    for (int k = 0; f->runs[i] && k < n->nin; k++) {
      int from = n->in[k] ? ts_fuse_group_of(f, n->in[k]) : -1;
      if (from < 0 || from == f->s->of[i] || r->reader[from] != MANY) continue;
      TsWhyName why = r->leaves[from] ? (TsWhyName)r->leaves[from] : TS_WHY_readers;
      TsWhy w = ts_why(why, r->count[from], 0);
      ts_why_apart(f->s->why, n, k, &w);
    }
  }
}

static bool all_fit(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a, TsWhy *w) {
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    /* What heads read has been made before. */
    if (n->op == TS_OP_matmul || n == ts_sched_conv_of(g)) continue;
    for (int i = 0; i < n->nin; i++)
      if (n->in[i] && !n->in[i]->meta.weak && !ts_fuse_operand_fits(f, g, a, n, n->in[i], w))
        return false;
  }
  return true;
}

void ts_fuse_sort(TsGroup *g) {
  for (int i = 1; i < g->nnode; i++)
    for (int k = i; k > 0 && g->node[k]->id < g->node[k - 1]->id; k--) {
      const TsNode *n = g->node[k];
      g->node[k] = g->node[k - 1];
      g->node[k - 1] = n;
    }
}

/* What is reduced of a group with a head, by one that it would join. */
static bool reader_reduces(const Fuse *f, const TsGroup *from, const TsGroup *to, TsWhy *w) {
  for (int i = 0; i < to->nnode; i++)
    if (ts_fuse_reduces(to->node[i])) {
      ts_fuse_reduces_tiles(f, from, to->node[i], w);
      w->to = to->node[i];
      return false;
    }
  return ts_why_not(w, TS_WHY_reduces_tiles, 0, 0);
}

/* Kinds and sizes. Where *w stays empty what was said of them before is why. */
static bool may_join(const Fuse *f, const TsGroup *from, const TsGroup *to, TsWhy *w) {
  bool product = ts_fuse_has_head(from->kind);
  int most = product ? TS_FUSE_AFTER_PRODUCT : TS_FUSE_MOST;
  if (ts_fuse_alone(to->kind) || ts_fuse_alone(from->kind) || ts_fuse_bare(f, from))
    return false;
  if (from->nnode + to->nnode > TS_FUSE_MOST)
    return ts_why_not(w, TS_WHY_nodes, TS_FUSE_MOST, 0);
  if (from->nrow && !to->nrow && !ts_fuse_has_head(to->kind)) {
    TsSpaceAxes a = ts_fuse_space(from);
    int64_t row = 1;
    for (int i = a.naxis - a.nrow; i < a.naxis; i++) row *= a.axis[i];
    *w = ts_why(TS_WHY_reader_walks, row, 0);
    w->from = ts_fuse_reducing(from);
    return false;
  }
  if (ts_fuse_has_head(to->kind)) return false;
  if (product && to->kind != TS_GROUP_map) return reader_reduces(f, from, to, w);
  if (product && ts_fuse_draws(to)) return ts_why_not(w, TS_WHY_draws, 0, 0);
  if (from->nnode + to->nnode > most) return ts_why_not(w, TS_WHY_behind_most, most, 0);
  return true;
}

/* What was said of `to` as the kernel and a node of `from` is said of `from` as the kernel. */
static void say_from_here(const TsGroup *from, TsWhy *w) {
  TsSpaceAxes own = ts_fuse_space(from);
  if (w->naxis >= 0) *w = ts_why_space((TsWhyName)w->name, &own);
  if (w->name == TS_WHY_row_lengths) *w = ts_why(TS_WHY_row_lengths, w->b, w->a);
}

/* The space of to once from is in it. */
static bool space_of_both(const TsGroup *from, TsGroup *to, TsSpaceAxes *a, TsWhy *w) {
  TsGroup before = *to;
  bool fit = true;
  for (int i = 0; i < from->nnode && fit; i++) {
    fit = ts_fuse_joined_space(to, from->node[i], a, w);
    if (fit) set_space(to, a);
  }
  if (!fit) say_from_here(from, w);
  *a = ts_fuse_space(to);
  *to = before;
  if (!fit || !ts_fuse_has_head(from->kind) || ts_fuse_same_space(from, a)) return fit;
  TsSpaceAxes own = ts_fuse_space(from);
  *w = ts_why_space(TS_WHY_other_axes, &own);
  return false;
}

static void put_apart(Fuse *f, const TsGroup *from, TsGroup *to) {
  for (int i = 0; i < from->nnode; i++) f->s->of[from->node[i]->id] = from->index;
  int kept = 0;
  for (int i = 0; i < to->nnode; i++)
    if (f->s->of[to->node[i]->id] == to->index) to->node[kept++] = to->node[i];
  to->nnode = kept;
}

static bool try_join(Fuse *f, TsGroup *from, TsGroup *to, TsWhy *w) {
  TsSpaceAxes a, old = ts_fuse_space(to);
  if (!may_join(f, from, to, w) || !space_of_both(from, to, &a, w)) return false;
  for (int i = 0; i < from->nnode && !f->failed; i++) ts_fuse_add(f, to, from->node[i]);
  set_space(to, &a);
  ts_fuse_sort(to);
  if (all_fit(f, to, &a, w) && !ts_fuse_walks_far(f, to, w)) {
    if (from->kind != TS_GROUP_map) to->kind = from->kind;
    return true;
  }
  set_space(to, &old);
  put_apart(f, from, to);
  return false;
}

bool ts_fuse_join(Fuse *f, TsGroup *from, TsGroup *to, const TsWhy *w) {
  TsWhy apart = ts_why(TS_WHY_none, 0, 0), both = *w;
  const TsNode *begin = ts_fuse_first(f, from), *second = ts_fuse_first(f, to);
  if (!try_join(f, from, to, &apart)) {
    ts_why_apart_groups(f->s, from, to, &apart);
    return false;
  }
  /* Of two beginnings the one that was read is left, or the first. */
  bool swapped = w->name == TS_WHY_same_input && begin && second && begin->id < second->id;
  both.to = second;
  if (begin) ts_why_member(f->s->why, swapped ? second : begin, &both);
  from->nnode = 0;
  return true;
}

/* What `to` reads of `from`: one of its nodes, and bytes of all of them. */
static const TsNode *passed(const Fuse *f, const TsGroup *from, const TsGroup *to,
                            int64_t *nbytes) {
  const TsNode *last = NULL;
  for (int k = 0; k < to->nnode; k++)
    for (int i = 0; i < to->node[k]->nin; i++) {
      const TsNode *n = to->node[k]->in[i] ? ts_fuse_origin(to->node[k]->in[i]) : NULL;
      if (!n || n == last || f->s->of[n->id] != from->index) continue;
      *nbytes += ts_meta_nbytes(&n->out[0].meta);
      last = n;
    }
  return last;
}

/* The latest first, so that chains of groups end in their last reader. into: by group, where its
 * nodes are by now. */
static void join_each(Fuse *f, const Readers *r, int *into) {
  for (int i = 0; i < f->s->ngroup; i++) into[i] = i;
  for (int i = f->s->ngroup; i-- > 0 && !f->failed;) {
    if (r->reader[i] <= i) continue;
    TsGroup *g = f->s->group[i], *to = f->s->group[into[r->reader[i]]];
    TsWhy w = ts_why(TS_WHY_one_reader, 0, 0);
    w.from = passed(f, g, to, &w.a);
    if (ts_fuse_join(f, g, to, &w)) into[i] = to->index;
  }
}

static void join_readers(Fuse *f) {
  size_t n = (size_t)f->s->ngroup + 1;
  Readers r = {malloc(sizeof *r.reader * n), calloc(n, sizeof *r.count), calloc(n, 1)};
  int *by_group = malloc(sizeof *by_group * n);
  if (r.reader && r.count && r.leaves && by_group) {
    find_readers(f, &r);
    count_readers(f, &r, by_group);
    say_readers(f, &r);
    join_each(f, &r, by_group);
  } else {
    ts_fuse_no_memory(f);
  }
  free(r.reader), free(r.count), free(r.leaves), free(by_group);
}

static void drop_empty(Fuse *f) {
  TsSched *s = f->s;
  int n = 0;
  for (int i = 0; i < s->ngroup; i++) {
    TsGroup *g = s->group[i];
    if (!g->nnode) {
      free(g->node);
      continue;
    }
    s->group[n] = g;
    g->index = n++;
    for (int k = 0; k < g->nnode; k++) s->of[g->node[k]->id] = g->index;
  }
  s->ngroup = n;
}

/* ---- what a group reads and writes */
static void note(Fuse *f, TsVal **list, int *n, TsVal v) {
  for (int i = 0; i < *n; i++)
    if ((*list)[i] == v) return;
  if ((*n & (*n - 1)) == 0) {
    TsVal *more = ts_arena_alloc(&f->s->arena, sizeof *more * (size_t)(*n ? 2 * *n : 1));
    if (!more) return ts_fuse_no_memory(f);
    if (*n) memcpy(more, *list, sizeof *more * (size_t)*n);
    *list = more;
  }
  (*list)[(*n)++] = v;
}

static void note_output(Fuse *f, TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  int k = f->s->of[v->node->id];
  if (k >= 0) note(f, &f->s->group[k]->out, &f->s->group[k]->nout, v);
}

static void note_operands(Fuse *f, const TsNode *n) {
  int k = f->s->of[n->id];
  TsGroup *g = k >= 0 ? f->s->group[k] : NULL;
  for (int i = 0; i < n->nin; i++) {
    TsVal v = n->in[i];
    if (!v || (v->node->op == TS_NODE_number && g && g->kind != TS_GROUP_vm)) continue;
    bool inside = g && g->kind != TS_GROUP_vm && f->s->of[ts_sched_root(v)->node->id] == k;
    if (inside) continue;
    if (g) note(f, &g->in, &g->nin, v);
    note_output(f, v);
  }
}

static void find_operands(Fuse *f) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nnode && !f->failed; i++) {
    if (f->runs[i]) note_operands(f, g->node[i]);
    if (g->node[i]->runs) note_output(f, (TsVal)&g->node[i]->out[0]);
  }
  for (int i = 0; i < g->nresult; i++) note_output(f, g->result[i]);
  for (int i = 0; i < g->nupdate; i++) note_output(f, g->update[i].value);
}

/* ---- the pass */
static int fuse(Fuse *f) {
  const TsGraph *g = f->g;
  f->live = ts_graph_live(g);
  f->runs = ts_sched_runs(g);
  if (!f->runs || !f->live || !ts_why_book(f->s)) ts_fuse_no_memory(f);
  for (int i = 0; i < g->nnode && !f->failed; i++)
    if (f->runs[i]) place(f, g->node[i]);
  if (!f->failed) join_readers(f);
  if (!f->failed) ts_fuse_sink(f);
  if (!f->failed) ts_fuse_prologues(f);
  if (!f->failed) ts_fuse_siblings(f);
  drop_empty(f);
  if (!f->failed) find_operands(f);
  for (int i = 0; i < f->s->ngroup && !f->failed; i++) ts_sched_pin(f->s, f->s->group[i]);
  free(f->live);
  free(f->runs);
  return f->failed ? -1 : 0;
}

int ts_sched_fuse(TsSched *s, TsError *err) {
  Fuse f = {.s = s, .g = s->g, .err = err};
  return fuse(&f);
}
