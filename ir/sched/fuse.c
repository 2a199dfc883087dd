/* Fusion: which nodes become one kernel.
 *
 * Needs a graph of concrete sizes. Keeps it. Gives groups in an order in which each needs only
 * what groups before it made: a node joins the last of the groups that it reads from, so that no
 * cycle can arise, or a group that stands behind all of them and walks the same space. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/sched/sched.h"
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
  MOST_AFTER_PRODUCT = 24,
  NEAR = 8, /* groups further apart would keep what one of them makes, or reads, for long */
  MOST_TWICE = 4096, /* rows of a column that is walked again with what it was reduced to */
};

typedef struct Fuse {
  TsSched *s;
  const TsGraph *g;
  unsigned char *live;
  unsigned char *runs; /* by node: it must be in a group */
  TsError *err;
  bool failed;
} Fuse;

/* Nothing joins groups of this kind. */
static bool alone(int kind) { return kind == TS_GROUP_vm || kind == TS_GROUP_attention; }

/* Groups with a head whose axes are those of the kernel. */
static bool has_head(int kind) { return kind == TS_GROUP_matmul || kind == TS_GROUP_conv; }

static TsSpaceAxes space_of(const TsGroup *g) {
  TsSpaceAxes a = {.naxis = g->naxis, .nrow = g->nrow, .columns = g->kind == TS_GROUP_columns};
  memcpy(a.axis, g->axis, sizeof a.axis);
  return a;
}

static void set_space(TsGroup *g, const TsSpaceAxes *a) {
  g->naxis = a->naxis, g->nrow = a->nrow;
  memcpy(g->axis, a->axis, sizeof g->axis);
}

/* A product's axes are what its kernel is made of. */
static bool same_space(const TsGroup *g, const TsSpaceAxes *a) {
  return g->naxis == a->naxis && g->nrow == a->nrow &&
         !memcmp(g->axis, a->axis, sizeof *a->axis * (size_t)a->naxis);
}

static void no_memory(Fuse *f) {
  f->failed = true;
  ts_error_memory(f->err);
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

/* The operand v of a node, in the group's space: what the group itself made must be
 * aligned with what it made. */
static bool operand_fits(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a, const TsNode *n,
                         TsVal v) {
  int64_t moves[TS_TILE_RANK], own[TS_TILE_RANK];
  TsVal root = ts_sched_root(v);
  if (!ts_space_strides(a, ts_sched_operand_at(n, v), &v->meta, NULL, moves)) return false;
  if (ts_sched_indexes(n, v)) return group_of(f, v) != g->index;
  if (group_of(f, v) != g->index) return true;
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
  TsSpaceAxes a = space_of(g);
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
  if (ts_sched_role(g, &n->out[0].meta) == TS_ROLE_row) {
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
  if (g->kind != TS_GROUP_columns || ts_sched_role(g, ts_sched_at(n)) != TS_ROLE_full)
    return false;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && group_of(f, n->in[i]) == g->index && row_value(g, n->in[i])) return true;
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
  if (has_head(g->kind) && (reduces(n) || g->nnode >= MOST_AFTER_PRODUCT)) return false;
  if (!joined_space(g, n, space)) return false;
  if (has_head(g->kind) && !same_space(g, space)) return false;
  if (ts_sched_draws(n) && (space->columns || has_head(g->kind))) return false;
  if (walks_again(f, g, n) && (has_norms(g) || column_length(space) > MOST_TWICE)) return false;
  for (int i = 0; i < n->nin; i++) {
    TsVal v = n->in[i];
    if (!v || v->meta.weak) continue;
    if (group_of(f, v) > g->index) return false;
    if (!operand_fits(f, g, space, n, v)) return false;
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
    if (n->runs && own >= 0) reader[own] = MANY;
    for (int k = 0; f->runs[i] && k < n->nin; k++) {
      int from = n->in[k] ? group_of(f, n->in[k]) : -1;
      if (from >= 0 && from != own)
        reader[from] = reader[from] == NOBODY || reader[from] == own ? own : MANY;
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
    /* What heads read has been made before. */
    if (n->op == TS_OP_matmul || n == ts_sched_conv_of(g)) continue;
    for (int i = 0; i < n->nin; i++)
      if (n->in[i] && !n->in[i]->meta.weak && !operand_fits(f, g, a, n, n->in[i])) return false;
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
  if (alone(to->kind) || alone(from->kind) || bare(f, from)) return;
  if (from->nnode + to->nnode > MOST_NODES || (from->nrow && !to->nrow)) return;
  bool product = has_head(from->kind);
  if (has_head(to->kind) || (product && to->kind != TS_GROUP_map)) return;
  if (product && draws(to)) return;
  if (product && from->nnode + to->nnode > MOST_AFTER_PRODUCT) return;
  for (int i = 0; i < from->nnode; i++) {
    if (!joined_space(to, from->node[i], &a)) {
      *to = before;
      return;
    }
    set_space(to, &a);
  }
  a = space_of(to);
  *to = before;
  if (product && !same_space(from, &a)) return;
  for (int i = 0; i < from->nnode && !f->failed; i++) add_node(f, to, from->node[i]);
  TsSpaceAxes old = space_of(to);
  set_space(to, &a);
  sort_nodes(to);
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
  if (!reader) return no_memory(f);
  find_readers(f, reader);
  for (int i = f->s->ngroup; i-- > 0 && !f->failed;)
    if (reader[i] > i) join(f, f->s->group[i], f->s->group[reader[i]]);
  free(reader);
}

/* ---- nodes that only one later group needs move there
 *
 * The reverse pass asks for 1 - t*t of a t that the forward pass made: a node that joins the last
 * group it reads from is then in the forward group, and what it makes lies in memory until the
 * reverse pass comes. Where t is kept anyway, it is better made where it is read. */
typedef struct Users {
  int *start, *at; /* by node: the nodes that read it, also through views; -1: it leaves */
} Users;

static const TsNode *origin(TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return v->node;
}

static void put_user(Users *u, bool counting, TsVal v, int user) {
  int id = (int)origin(v)->id;
  if (counting)
    u->start[id + 1]++;
  else
    u->at[u->start[id]++] = user;
}

static void put_users(const Fuse *f, Users *u, bool counting) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    for (int k = 0; f->runs[i] && k < n->nin; k++)
      if (n->in[k]) put_user(u, counting, n->in[k], i);
    if (n->runs) put_user(u, counting, (TsVal)&n->out[0], -1);
  }
  for (int i = 0; i < g->nresult; i++) put_user(u, counting, g->result[i], -1);
  for (int i = 0; i < g->nupdate; i++) put_user(u, counting, g->update[i].value, -1);
}

static void find_users(Fuse *f, Users *u) {
  int n = f->g->nnode;
  u->start = calloc((size_t)n + 2, sizeof *u->start);
  if (!u->start) return no_memory(f);
  put_users(f, u, true);
  for (int i = 0; i < n; i++) u->start[i + 1] += u->start[i];
  u->at = malloc(sizeof *u->at * ((size_t)u->start[n] + 1));
  if (!u->at) return no_memory(f);
  put_users(f, u, false);
  for (int i = n; i > 0; i--) u->start[i] = u->start[i - 1];
  u->start[0] = 0;
}

static bool used_in(const Fuse *f, const Users *u, const TsNode *n, int group) {
  for (int i = u->start[n->id]; i < u->start[n->id + 1]; i++)
    if (u->at[i] >= 0 && f->s->of[u->at[i]] == group) return true;
  return false;
}

static bool used_outside(const Fuse *f, const Users *u, const TsNode *n, int group) {
  for (int i = u->start[n->id]; i < u->start[n->id + 1]; i++)
    if (u->at[i] < 0 || f->s->of[u->at[i]] != group) return true;
  return false;
}

/* Marks the nodes of g that serve nobody but `to`; how many. */
static int mark_sinking(const Fuse *f, const Users *u, const TsGroup *g, int to,
                        unsigned char *sinks) {
  int count = 0;
  for (int k = g->nnode; k-- > 0;) {
    const TsNode *n = g->node[k];
    bool all = ts_sched_kind(n) == TS_GROUP_map && u->start[n->id] < u->start[n->id + 1];
    for (int i = u->start[n->id]; all && i < u->start[n->id + 1]; i++) {
      int user = u->at[i], of = user < 0 ? -1 : f->s->of[user];
      all = of == to || (of == g->index && sinks[user]);
    }
    count += sinks[n->id] = all;
  }
  return count;
}

/* Whether less is moved through memory: an intermediate value is written and read. */
static bool saves(const Fuse *f, const Users *u, const TsGroup *g, int to,
                  unsigned char *sinks) {
  enum { COUNTED = 2 };
  int64_t less = 0, more = 0;
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    if (sinks[n->id] != 1) continue;
    if (used_in(f, u, n, to)) less += 2 * ts_meta_nbytes(&n->out[0].meta);
    for (int i = 0; i < n->nin; i++) {
      const TsNode *from = n->in[i] && !n->in[i]->meta.weak ? origin(n->in[i]) : NULL;
      if (!from || sinks[from->id]) continue;
      sinks[from->id] = COUNTED;
      int64_t nbytes = ts_meta_nbytes(&from->out[0].meta);
      if (f->s->of[from->id] == g->index && !used_outside(f, u, from, g->index)) more += nbytes;
      if (!used_in(f, u, from, to)) more += nbytes;
    }
  }
  for (int i = 0; i < f->g->nnode; i++)
    if (sinks[i] == COUNTED) sinks[i] = 0;
  return more < less;
}

static void sink(Fuse *f, const Users *u, TsGroup *g, TsGroup *to, unsigned char *sinks) {
  int count = mark_sinking(f, u, g, to->index, sinks), kept = 0;
  if (!count || count == g->nnode || !saves(f, u, g, to->index, sinks)) return;
  TsGroup part = *g;
  part.kind = TS_GROUP_map;
  part.nrow = part.nnode = 0;
  if (!(part.node = malloc(sizeof *part.node * (size_t)count))) return no_memory(f);
  for (int k = 0; k < g->nnode; k++)
    if (sinks[g->node[k]->id]) part.node[part.nnode++] = g->node[k];
  join(f, &part, to);
  if (!part.nnode) {
    for (int k = 0; k < g->nnode; k++)
      if (!sinks[g->node[k]->id]) g->node[kept++] = g->node[k];
    g->nnode = kept;
  }
  free(part.node);
}

/* The latest first: what moved may move on. */
static void sink_nodes(Fuse *f) {
  Users u = {0};
  unsigned char *sinks = calloc((size_t)f->g->nnode + 1, 1);
  if (!sinks) no_memory(f);
  if (!f->failed) find_users(f, &u);
  for (int i = f->s->ngroup; i-- > 0 && !f->failed;) {
    TsGroup *g = f->s->group[i];
    for (int k = g->nnode; g->kind != TS_GROUP_vm && k-- > 0;) {
      const TsNode *n = g->node[k < g->nnode ? k : g->nnode - 1];
      int last = -1;
      for (int j = u.start[n->id]; j < u.start[n->id + 1]; j++)
        if (u.at[j] >= 0 && f->s->of[u.at[j]] > last) last = f->s->of[u.at[j]];
      if (last > i && ts_sched_kind(n) == TS_GROUP_map)
        sink(f, &u, g, f->s->group[last], sinks);
      if (k > g->nnode) k = g->nnode;
    }
  }
  free(sinks);
  free(u.start);
  free(u.at);
}

/* ---- what makes an operand of a head, and nothing else, joins it (ir/sched/prologue.h,
 * ir/sched/conv.h) */
static bool serves_only(const Fuse *f, const Users *u, const TsGroup *g, const TsNode *head,
                        TsSide side) {
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    bool last = n == head->in[side]->node;
    if (last && u->start[n->id + 1] - u->start[n->id] != 1) return false;
    if (!last && used_outside(f, u, n, g->index)) return false;
  }
  return true;
}

static bool takes_all(const TsNode *conv, const TsGroup *from) {
  for (int i = 0; i < from->nnode; i++)
    if (!ts_sched_conv_takes(conv, from->node[i])) return false;
  return true;
}

static void join_prologue(Fuse *f, const Users *u, TsGroup *g, const TsNode *head,
                          TsSide side) {
  int k = f->s->of[head->in[side]->node->id];
  TsGroup *from = k >= 0 ? f->s->group[k] : NULL;
  if (!from || from->kind != TS_GROUP_map || !serves_only(f, u, from, head, side)) return;
  if (from->nnode + g->nnode > MOST_AFTER_PRODUCT) return;
  bool pays = g->kind == TS_GROUP_conv ? takes_all(head, from)
                                       : ts_sched_prologue_pays(f->s, from, g, side);
  if (!pays) return;
  for (int i = 0; i < from->nnode; i++) add_node(f, g, from->node[i]);
  sort_nodes(g);
  from->nnode = 0;
}

/* B's first: for it alone a product may be a kernel's. */
static void join_operands(Fuse *f, const Users *u, TsGroup *g, const TsNode *product) {
  bool needed = ts_sched_needs_prologue(product);
  join_prologue(f, u, g, product, TS_SIDE_b);
  if (!needed || g->nnode > 1) {
    join_prologue(f, u, g, product, TS_SIDE_a);
    return;
  }
  g->kind = TS_GROUP_vm;
  g->naxis = 0;
}

static void join_prologues(Fuse *f) {
  Users u = {0};
  const TsTarget *t = f->s->target;
  if (!t || ts_target_gpu(t)) return;
  find_users(f, &u);
  for (int i = 0; i < f->s->ngroup && !f->failed; i++) {
    TsGroup *g = f->s->group[i];
    const TsNode *product = g->kind == TS_GROUP_matmul ? ts_sched_product_of(g) : NULL;
    if (product) join_operands(f, &u, g, product);
    if (g->kind == TS_GROUP_conv && g->nnode)
      join_prologue(f, &u, g, ts_sched_conv_of(g), TS_SIDE_a);
  }
  free(u.start);
  free(u.at);
}

/* ---- groups that read the same
 *
 * Two groups of which neither needs the other become one where they walk the same elements of
 * something in memory: it is read once, and what both compute of it is computed once. */
static bool can_share(const TsGroup *g) {
  return g->nnode && (g->kind == TS_GROUP_map || g->kind == TS_GROUP_rows);
}

/* All that b needs is there before a runs, or a makes it. */
static bool needs_nothing_after(const Fuse *f, const TsGroup *b, int a) {
  for (int k = 0; k < b->nnode; k++)
    for (int i = 0; i < b->node[k]->nin; i++) {
      int from = b->node[k]->in[i] ? group_of(f, b->node[k]->in[i]) : -1;
      if (from > a && from != b->index) return false;
    }
  return true;
}

/* Nobody before b needs what a makes. */
static bool wanted_from(const Fuse *f, const Users *u, const TsGroup *a, int b) {
  for (int k = 0; k < a->nnode; k++)
    for (int i = u->start[a->node[k]->id]; i < u->start[a->node[k]->id + 1]; i++) {
      int of = u->at[i] < 0 ? b : f->s->of[u->at[i]];
      if (of != a->index && of < b) return false;
    }
  return true;
}

/* All of it, or as many elements of something larger, as of its halves. */
static bool both_walk(const TsGroup *a, const TsGroup *b, const TsMeta *m) {
  TsSpaceAxes s = space_of(b);
  int64_t n = 1;
  if (ts_sched_role(a, m) == TS_ROLE_full && ts_sched_role(b, m) == TS_ROLE_full) return true;
  for (int i = 0; i < s.naxis; i++) n *= s.axis[i];
  return same_space(a, &s) && ts_meta_numel(m) > n;
}

static void share(Fuse *f, const Users *u, const TsNode *n, TsGroup *a, TsGroup *b) {
  if (!can_share(a) || !can_share(b) || b->index - a->index > NEAR) return;
  if (!both_walk(a, b, &n->out[0].meta)) return;
  if (needs_nothing_after(f, b, a->index) && (a->nrow || !b->nrow))
    join(f, b, a);
  else if (wanted_from(f, u, a, b->index))
    join(f, a, b);
}

static void join_siblings(Fuse *f) {
  Users u = {0};
  find_users(f, &u);
  for (int i = 0; i < f->g->nnode && !f->failed; i++) {
    const TsNode *n = f->g->node[i];
    for (int k = u.start[i]; n->nout == 1 && k + 1 < u.start[i + 1] && !f->failed; k++) {
      int x = u.at[k] < 0 ? -1 : f->s->of[u.at[k]];
      int y = u.at[k + 1] < 0 ? -1 : f->s->of[u.at[k + 1]];
      if (x < 0 || y < 0 || x == y) continue;
      share(f, &u, n, f->s->group[x < y ? x : y], f->s->group[x < y ? y : x]);
    }
  }
  free(u.start);
  free(u.at);
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
  if (!f->runs || !f->live) no_memory(f);
  for (int i = 0; i < g->nnode && !f->failed; i++)
    if (f->runs[i]) place(f, g->node[i]);
  if (!f->failed) join_readers(f);
  if (!f->failed) sink_nodes(f);
  if (!f->failed) join_prologues(f);
  if (!f->failed) join_siblings(f);
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
