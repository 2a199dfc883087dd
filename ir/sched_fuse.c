/* Fusion: which nodes become one kernel.
 *
 * Needs a graph of concrete sizes. Keeps it. Gives groups in an order in which each needs only
 * what groups before it made: a node joins the last of the groups that it reads from, so that no
 * cycle can arise, or a group that stands behind all of them and walks the same space. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph_copy.h"
#include "ir/sched.h"
#include "ir/sched_rows.h"
#include "ir/sched_space.h"

enum { MOST_NODES = 64 };

typedef struct Fuse {
  TsSched *s;
  const TsGraph *g;
  unsigned char *live, *fixed; /* fixed: depends on no parameter, computed before any run */
  TsError *err;
  bool failed;
} Fuse;

static TsSpaceAxes space_of(const TsGroup *g) {
  TsSpaceAxes a = {.naxis = g->naxis, .nrow = g->nrow};
  memcpy(a.axis, g->axis, sizeof a.axis);
  return a;
}

static void set_space(TsGroup *g, const TsSpaceAxes *a) {
  g->naxis = a->naxis, g->nrow = a->nrow;
  memcpy(g->axis, a->axis, sizeof g->axis);
}

static void no_memory(Fuse *f) {
  f->failed = true;
  ts_error_set(f->err, TS_ERR_memory, "out of memory");
}

static TsGroup *new_group(Fuse *f, TsGroupKind kind) {
  TsSched *s = f->s;
  if (s->ngroup == s->capgroup) {
    int cap = s->capgroup ? 2 * s->capgroup : 32;
    TsGroup **more = realloc(s->group, sizeof *more * (size_t)cap);
    if (!more) return no_memory(f), NULL;
    s->group = more;
    s->capgroup = cap;
  }
  TsGroup *g = ts_arena_alloc(&s->arena, sizeof *g);
  if (!g) return no_memory(f), NULL;
  g->kind = (uint8_t)kind;
  g->index = s->ngroup;
  return s->group[s->ngroup++] = g;
}

static void add_node(Fuse *f, TsGroup *g, const TsNode *n) {
  if (g->nnode == g->capnode) {
    int cap = g->capnode ? 2 * g->capnode : 4;
    const TsNode **more = realloc(g->node, sizeof *more * (size_t)cap);
    if (!more) return no_memory(f);
    g->node = more;
    g->capnode = cap;
  }
  g->node[g->nnode++] = n;
  f->s->of[n->id] = g->index;
}

/* ---- joining */
/* The group that made what v shows, -1 for parameters and constants. Views that change the order
 * of the elements are read from memory; their group must be done. */
static int group_of(const Fuse *f, TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return f->s->of[v->node->id];
}

static bool numel_is_one(const TsSpaceAxes *a) {
  for (int i = 0; i < a->naxis; i++)
    if (a->axis[i] != 1) return false;
  return true;
}

static bool row_value(const TsGroup *g, TsVal v) {
  return ts_sched_role(g, &v->meta) == TS_ROLE_row;
}

/* The operand v of a node of shape `at`, in the group's space: what the group itself made must be
 * aligned with what it made. */
static bool operand_fits(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a, const TsMeta *at,
                         TsVal v) {
  int64_t moves[TS_TILE_RANK], own[TS_TILE_RANK];
  TsVal root = ts_sched_root(v);
  if (!ts_space_strides(a, at, &v->meta, NULL, moves)) return false;
  if (group_of(f, v) != g->index) return true;
  if (f->s->of[root->node->id] != g->index) return false;
  if (ts_meta_numel(&v->meta) == 1 && numel_is_one(a)) return true;
  ts_space_own(a, !row_value(g, root), own);
  for (int i = 0; i < a->naxis; i++)
    if (a->axis[i] > 1 && moves[i] != own[i]) return false;
  return true;
}

/* The space of g once n is in it. */
static bool joined_space(const TsGroup *g, const TsNode *n, TsSpaceAxes *out) {
  TsSpaceAxes a = space_of(g);
  int64_t row = 1;
  bool rows = ts_sched_row(n) != NULL;
  for (int i = a.naxis - a.nrow; i < a.naxis; i++) row *= a.axis[i];
  if (rows) {
    int64_t length = ts_sched_row_length(n);
    if (a.nrow && row != length) return false;
    if (length < 2) return false;
    return ts_space_refine(&a, &n->in[0]->meta, length, out);
  }
  if (ts_sched_role(g, &n->out[0].meta) == TS_ROLE_row) {
    *out = a; /* arithmetic on row values: the axes before the rows must agree */
    TsSpaceAxes outer = {.naxis = a.naxis - a.nrow}, fine;
    memcpy(outer.axis, a.axis, sizeof outer.axis);
    return ts_space_refine(&outer, &n->out[0].meta, 0, &fine) && fine.naxis == outer.naxis;
  }
  return ts_space_refine(&a, &n->out[0].meta, a.nrow ? row : 0, out);
}

static bool fits(const Fuse *f, const TsGroup *g, const TsNode *n, TsSpaceAxes *space) {
  if (g->kind == TS_GROUP_vm || g->nnode >= MOST_NODES) return false;
  if (!joined_space(g, n, space)) return false;
  for (int i = 0; i < n->nin; i++) {
    TsVal v = n->in[i];
    if (!v || v->meta.weak) continue;
    if (group_of(f, v) > g->index) return false;
    const TsMeta *at = ts_sched_row(n) ? &n->in[0]->meta : &n->out[0].meta;
    if (!operand_fits(f, g, space, at, v)) return false;
  }
  return true;
}

/* Nodes that were in g before must still fit: a finer space only splits their axes. */
static TsGroup *group_for(Fuse *f, const TsNode *n, TsSpaceAxes *space) {
  int last = -1;
  for (int i = 0; i < n->nin; i++) {
    int k = n->in[i] ? group_of(f, n->in[i]) : -1;
    if (k > last) last = k;
  }
  if (last >= 0 && fits(f, f->s->group[last], n, space)) return f->s->group[last];
  return NULL;
}

static bool own_space(const TsNode *n, TsSpaceAxes *out) {
  const TsMeta *m = ts_sched_row(n) ? &n->in[0]->meta : &n->out[0].meta;
  TsSpaceAxes all = {.naxis = 1, .axis = {ts_meta_numel(m)}};
  return ts_space_refine(&all, m, ts_sched_row(n) ? ts_sched_row_length(n) : 0, out);
}

static void place(Fuse *f, const TsNode *n) {
  TsSpaceAxes space;
  TsGroupKind kind = ts_sched_kind(n);
  TsGroup *g = kind == TS_GROUP_vm ? NULL : group_for(f, n, &space);
  if (!g) {
    if (kind != TS_GROUP_vm && !own_space(n, &space)) kind = TS_GROUP_vm;
    if (!(g = new_group(f, kind))) return;
  }
  if (kind != TS_GROUP_vm) set_space(g, &space);
  if (kind == TS_GROUP_rows) g->kind = TS_GROUP_rows;
  add_node(f, g, n);
}

/* ---- groups that only one later group reads join it */
static void find_readers(const Fuse *f, int *reader) {
  const TsGraph *g = f->g;
  enum { NOBODY = -1, MANY = -2 };
  for (int i = 0; i < f->s->ngroup; i++) reader[i] = NOBODY;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    int own = f->s->of[i];
    for (int k = 0; f->live[i] && !ts_sched_is_view(n) && k < n->nin; k++) {
      int from = n->in[k] ? group_of(f, n->in[k]) : -1;
      if (from >= 0 && from != own) reader[from] = reader[from] == NOBODY || reader[from] == own ? own : MANY;
    }
  }
  for (int i = 0; i < g->nresult + g->nupdate; i++) {
    int from = group_of(f, i < g->nresult ? g->result[i] : g->update[i - g->nresult].value);
    if (from >= 0) reader[from] = MANY;
  }
}

static bool all_fit(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a) {
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    const TsMeta *at = ts_sched_row(n) ? &n->in[0]->meta : &n->out[0].meta;
    for (int i = 0; i < n->nin; i++)
      if (n->in[i] && !n->in[i]->meta.weak && !operand_fits(f, g, a, at, n->in[i])) return false;
  }
  return true;
}

static void sort_nodes(TsGroup *g) {
  for (int i = 1; i < g->nnode; i++)
    for (int k = i; k > 0 && g->node[k]->id < g->node[k - 1]->id; k--) {
      const TsNode *n = g->node[k];
      g->node[k] = g->node[k - 1];
      g->node[k - 1] = n;
    }
}

static void join(Fuse *f, TsGroup *from, TsGroup *to) {
  TsGroup before = *to;
  TsSpaceAxes a;
  if (to->kind == TS_GROUP_vm || from->kind == TS_GROUP_vm) return;
  if (from->nnode + to->nnode > MOST_NODES || (from->nrow && !to->nrow)) return;
  for (int i = 0; i < from->nnode; i++) {
    if (!joined_space(to, from->node[i], &a)) {
      *to = before;
      return;
    }
    set_space(to, &a);
  }
  a = space_of(to);
  *to = before;
  for (int i = 0; i < from->nnode && !f->failed; i++) add_node(f, to, from->node[i]);
  TsSpaceAxes old = space_of(to);
  set_space(to, &a);
  sort_nodes(to);
  if (all_fit(f, to, &a)) {
    if (from->kind == TS_GROUP_rows) to->kind = TS_GROUP_rows;
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
  if (!reader) return no_memory(f);
  find_readers(f, reader);
  for (int i = f->s->ngroup; i-- > 0 && !f->failed;)
    if (reader[i] > i) join(f, f->s->group[i], f->s->group[reader[i]]);
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
    if (!more) return no_memory(f);
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
  for (int i = 0; i < g->nnode && !f->failed; i++)
    if (f->live[i] && !ts_sched_is_view(g->node[i])) note_operands(f, g->node[i]);
  for (int i = 0; i < g->nresult; i++) note_output(f, g->result[i]);
  for (int i = 0; i < g->nupdate; i++) note_output(f, g->update[i].value);
}

/* ---- the pass */
static bool depends(const Fuse *f, const TsNode *n) {
  if (n->op == TS_NODE_param || n->nregion) return true;
  if (n->op >= TS_OP_COUNT) return n->op != TS_NODE_number;
  if (ts_op_info((TsOp)n->op)->cls == TS_CLASS_RANDOM) return true;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && !f->fixed[n->in[i]->node->id]) return true;
  return false;
}

static int fuse(Fuse *f) {
  const TsGraph *g = f->g;
  f->live = ts_graph_live(g);
  f->fixed = calloc((size_t)g->nnode + 1, 1);
  if (!f->live || !f->fixed) no_memory(f);
  for (int i = 0; i < g->nnode && !f->failed; i++) {
    const TsNode *n = g->node[i];
    f->s->of[i] = -1;
    f->fixed[i] = !depends(f, n);
    bool runs = f->live[i] && !f->fixed[i] && n->op != TS_NODE_param && !ts_sched_is_view(n);
    if (runs) place(f, n);
  }
  if (!f->failed) join_readers(f);
  drop_empty(f);
  if (!f->failed) find_operands(f);
  free(f->live);
  free(f->fixed);
  return f->failed ? -1 : 0;
}

int ts_sched_fuse(TsSched *s, TsError *err) {
  Fuse f = {.s = s, .g = s->g, .err = err};
  return fuse(&f);
}
