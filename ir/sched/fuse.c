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
#include "ir/sched/product.h"
#include "ir/sched/rows.h"
#include "ir/sched/space.h"

enum {
  MOST_NODES = 64,
  MOST_TWICE = 4096, /* rows of a column that is walked again with what it was reduced to */
};

/* Nothing joins groups of this kind. */
static bool alone(int kind) { return kind == TS_GROUP_vm || kind == TS_GROUP_attention; }

/* Groups with a head whose axes are those of the kernel. */
static bool has_head(int kind) { return kind == TS_GROUP_matmul || kind == TS_GROUP_conv; }

TsSpaceAxes ts_fuse_space(const TsGroup *g) {
  TsSpaceAxes a = {.naxis = g->naxis, .nrow = g->nrow, .columns = g->kind == TS_GROUP_columns};
  memcpy(a.axis, g->axis, sizeof a.axis);
  return a;
}

static void set_space(TsGroup *g, const TsSpaceAxes *a) {
  g->naxis = a->naxis, g->nrow = a->nrow;
  memcpy(g->axis, a->axis, sizeof g->axis);
}

/* A product's axes are what its kernel is made of. */
bool ts_fuse_same_space(const TsGroup *g, const TsSpaceAxes *a) {
  return g->naxis == a->naxis && g->nrow == a->nrow &&
         !memcmp(g->axis, a->axis, sizeof *a->axis * (size_t)a->naxis);
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

static bool numel_is_one(const TsSpaceAxes *a) {
  for (int i = 0; i < a->naxis; i++)
    if (a->axis[i] != 1) return false;
  return true;
}

static bool row_value(const TsGroup *g, TsVal v) {
  return ts_sched_extent(g, &v->meta) == TS_EXTENT_row;
}

/* The operand v of a node, in the group's space: what the group itself made must be
 * aligned with what it made. */
static bool operand_fits(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a, const TsNode *n,
                         TsVal v) {
  int64_t moves[TS_TILE_RANK], own[TS_TILE_RANK];
  TsVal root = ts_sched_root(v);
  if (!ts_space_strides(a, ts_sched_operand_at(n, v), &v->meta, NULL, moves)) return false;
  if (ts_sched_indexes(n, v)) return ts_fuse_group_of(f, v) != g->index;
  if (ts_fuse_group_of(f, v) != g->index) return true;
  if (f->s->of[root->node->id] != g->index) return false;
  if (ts_meta_numel(&v->meta) == 1 && numel_is_one(a)) return true;
  ts_space_own(a, !row_value(g, root), own);
  for (int i = 0; i < a->naxis; i++)
    if (a->axis[i] > 1 && moves[i] != own[i]) return false;
  return true;
}

/* Arithmetic on row values: their axes must agree. */
static bool row_axes_agree(const TsSpaceAxes *a, const TsMeta *m) {
  int n = a->columns ? a->nrow : a->naxis - a->nrow;
  TsSpaceAxes part = {.naxis = n}, fine;
  memcpy(part.axis, a->axis + (a->columns ? a->naxis - n : 0), sizeof *part.axis * (size_t)n);
  return ts_space_refine(&part, m, 0, &fine) && fine.naxis == n;
}

/* Tiles of random bits have one axis. */
static bool draws(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (ts_sched_draws(g->node[i])) return true;
  return false;
}

/* How many columns n sums down, 0: it does not. */
static int64_t columns_of(const TsNode *n) {
  int64_t norm = ts_sched_norm_grad(n);
  return norm || !ts_sched_column(n) ? norm : ts_meta_numel(&n->out[0].meta);
}

/* The space of g once n is in it. */
static bool joined_space(const TsGroup *g, const TsNode *n, TsSpaceAxes *out) {
  TsSpaceAxes a = ts_fuse_space(g);
  int64_t row = 1;
  bool rows = ts_sched_row(n) != NULL;
  for (int i = a.naxis - a.nrow; i < a.naxis; i++) row *= a.axis[i];
  int64_t width = rows ? 0 : columns_of(n);
  if (width) {
    if ((a.nrow && (!a.columns || row != width)) || draws(g)) return false;
    a.columns = true;
    return ts_space_refine(&a, &n->in[0]->meta, width, out);
  }
  if (a.columns && (rows || ts_sched_draws(n))) return false;
  if (rows) {
    int64_t length = ts_sched_row_length(n);
    if (a.nrow && row != length) return false;
    if (length < 2) return false;
    return ts_space_refine(&a, &n->in[0]->meta, length, out);
  }
  if (ts_sched_extent(g, &n->out[0].meta) == TS_EXTENT_row) {
    *out = a;
    return row_axes_agree(&a, &n->out[0].meta);
  }
  return ts_space_refine(&a, &n->out[0].meta, a.nrow ? row : 0, out);
}

static bool reduces(const TsNode *n) { return ts_sched_row(n) || columns_of(n); }

static bool has_norms(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (ts_sched_norm_grad(g->node[i])) return true;
  return false;
}

/* Goes over the elements of columns again, with values of columns. */
static bool walks_again(const Fuse *f, const TsGroup *g, const TsNode *n) {
  if (g->kind != TS_GROUP_columns || ts_sched_extent(g, ts_sched_at(n)) != TS_EXTENT_full)
    return false;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && ts_fuse_group_of(f, n->in[i]) == g->index && row_value(g, n->in[i]))
      return true;
  return false;
}

static int64_t column_length(const TsSpaceAxes *a) {
  int64_t n = 1;
  for (int i = 0; i < a->naxis - a->nrow; i++) n *= a->axis[i];
  return n;
}

static bool bare(const Fuse *f, const TsGroup *g) {
  return g->kind == TS_GROUP_matmul && ts_target_gpu(f->s->target);
}

static bool fits(const Fuse *f, const TsGroup *g, const TsNode *n, TsSpaceAxes *space) {
  if (alone(g->kind) || g->nnode >= MOST_NODES) return false;
  if (bare(f, g) && !ts_sched_epilogue_takes(g, n)) return false;
  if (has_head(g->kind) && (reduces(n) || g->nnode >= TS_FUSE_AFTER_PRODUCT)) return false;
  if (!joined_space(g, n, space)) return false;
  if (has_head(g->kind) && !ts_fuse_same_space(g, space)) return false;
  if (ts_sched_draws(n) && (space->columns || has_head(g->kind))) return false;
  if (walks_again(f, g, n) && (has_norms(g) || column_length(space) > MOST_TWICE)) return false;
  for (int i = 0; i < n->nin; i++) {
    TsVal v = n->in[i];
    if (!v || v->meta.weak) continue;
    if (ts_fuse_group_of(f, v) > g->index) return false;
    if (!operand_fits(f, g, space, n, v)) return false;
  }
  return true;
}

/* Nodes that were in g before must still fit: a finer space only splits their axes. */
static TsGroup *group_for(Fuse *f, const TsNode *n, TsSpaceAxes *space) {
  int last = -1;
  for (int i = 0; i < n->nin; i++) {
    int k = n->in[i] ? ts_fuse_group_of(f, n->in[i]) : -1;
    if (k > last) last = k;
  }
  if (last >= 0 && fits(f, f->s->group[last], n, space)) return f->s->group[last];
  return NULL;
}

static bool own_space(const TsNode *n, TsSpaceAxes *out) {
  const TsMeta *m = ts_sched_at(n);
  TsSpaceAxes all = {.naxis = 1, .axis = {ts_meta_numel(m)}};
  int64_t row = ts_sched_row(n) ? ts_sched_row_length(n) : 0;
  if (!row && (row = columns_of(n))) all.columns = true;
  return ts_space_refine(&all, m, row, out);
}

static void place(Fuse *f, const TsNode *n) {
  TsSpaceAxes space;
  TsGroupKind kind = ts_sched_kind_in(f->s, n);
  if (has_head(kind) && !(f->s->target && f->s->target->fma)) kind = TS_GROUP_vm;
  if (ts_sched_epilogue_begins(f->s->target, n)) kind = TS_GROUP_matmul;
  bool joins = !has_head(kind) && !alone(kind);
  TsGroup *g = joins ? group_for(f, n, &space) : NULL;
  if (!g) {
    if (!alone(kind) && !own_space(n, &space)) kind = TS_GROUP_vm;
    if (!(g = new_group(f, kind))) return;
  }
  if (!alone(kind)) set_space(g, &space);
  if (kind == TS_GROUP_rows || kind == TS_GROUP_columns) g->kind = (uint8_t)kind;
  if (kind == TS_GROUP_attention) g->transposed = ts_sched_transposed(f->s, f->live, n);
  ts_fuse_add(f, g, n);
}

/* ---- groups that only one later group reads join it */
static void find_readers(const Fuse *f, int *reader) {
  const TsGraph *g = f->g;
  enum { NOBODY = -1, MANY = -2 };
  for (int i = 0; i < f->s->ngroup; i++) reader[i] = NOBODY;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    int own = f->s->of[i];
    if (n->runs && own >= 0) reader[own] = MANY;
    for (int k = 0; f->runs[i] && k < n->nin; k++) {
      int from = n->in[k] ? ts_fuse_group_of(f, n->in[k]) : -1;
      if (from >= 0 && from != own)
        reader[from] = reader[from] == NOBODY || reader[from] == own ? own : MANY;
    }
  }
  for (int i = 0; i < g->nresult + g->nupdate; i++) {
    int from =
        ts_fuse_group_of(f, i < g->nresult ? g->result[i] : g->update[i - g->nresult].value);
    if (from >= 0) reader[from] = MANY;
  }
}

static bool all_fit(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a) {
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    /* What heads read has been made before. */
    if (n->op == TS_OP_matmul || n == ts_sched_conv_of(g)) continue;
    for (int i = 0; i < n->nin; i++)
      if (n->in[i] && !n->in[i]->meta.weak && !operand_fits(f, g, a, n, n->in[i])) return false;
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

void ts_fuse_join(Fuse *f, TsGroup *from, TsGroup *to) {
  TsGroup before = *to;
  TsSpaceAxes a;
  if (alone(to->kind) || alone(from->kind) || bare(f, from)) return;
  if (from->nnode + to->nnode > MOST_NODES || (from->nrow && !to->nrow)) return;
  bool product = has_head(from->kind);
  if (has_head(to->kind) || (product && to->kind != TS_GROUP_map)) return;
  if (product && draws(to)) return;
  if (product && from->nnode + to->nnode > TS_FUSE_AFTER_PRODUCT) return;
  for (int i = 0; i < from->nnode; i++) {
    if (!joined_space(to, from->node[i], &a)) {
      *to = before;
      return;
    }
    set_space(to, &a);
  }
  a = ts_fuse_space(to);
  *to = before;
  if (product && !ts_fuse_same_space(from, &a)) return;
  for (int i = 0; i < from->nnode && !f->failed; i++) ts_fuse_add(f, to, from->node[i]);
  TsSpaceAxes old = ts_fuse_space(to);
  set_space(to, &a);
  ts_fuse_sort(to);
  if (all_fit(f, to, &a)) {
    if (from->kind != TS_GROUP_map) to->kind = from->kind;
    from->nnode = 0;
    return;
  }
  set_space(to, &old); /* put them apart again */
  for (int i = 0; i < from->nnode; i++) f->s->of[from->node[i]->id] = from->index;
  int kept = 0;
  for (int i = 0; i < to->nnode; i++)
    if (f->s->of[to->node[i]->id] == to->index) to->node[kept++] = to->node[i];
  to->nnode = kept;
}

/* The latest first, so that chains of groups end in their last reader. */
static void join_readers(Fuse *f) {
  int *reader = malloc(sizeof *reader * ((size_t)f->s->ngroup + 1));
  if (!reader) return ts_fuse_no_memory(f);
  find_readers(f, reader);
  for (int i = f->s->ngroup; i-- > 0 && !f->failed;)
    if (reader[i] > i) ts_fuse_join(f, f->s->group[i], f->s->group[reader[i]]);
  free(reader);
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
  if (!f->runs || !f->live) ts_fuse_no_memory(f);
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
