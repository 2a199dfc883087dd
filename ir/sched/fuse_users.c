/* Fusion by who reads what: groups that ir/sched/fuse.c has made give nodes to their readers, and
 * become one with others. See ir/sched/fuse_state.h. */
#include <stdlib.h>

#include "ir/sched/conv.h"
#include "ir/sched/fuse_state.h"
#include "ir/sched/norm_grad.h"
#include "ir/sched/rows.h"
#include "ir/sched/product/product.h"
#include "ir/sched/prologue.h"

/* Groups further apart would keep what one of them makes, or reads, for long. */
enum { NEAR = 8, SOME = 4 /* readers behind one that are looked at with it */ };

/* ---- nodes that only one later group needs move there
 *
 * The reverse pass asks for 1 - t*t of a t that the forward pass made: a node that joins the last
 * group it reads from is then in the forward group, and what it makes lies in memory until the
 * reverse pass comes. Where t is kept anyway, it is better made where it is read. */
typedef struct Users {
  int *start, *at; /* by node: the nodes that read it, also through views; -1: it leaves */
} Users;

static void put_user(Users *u, bool counting, TsVal v, int user) {
  int id = (int)ts_fuse_origin(v)->id;
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
  if (!u->start) return ts_fuse_no_memory(f);
  put_users(f, u, true);
  for (int i = 0; i < n; i++) u->start[i + 1] += u->start[i];
  u->at = malloc(sizeof *u->at * ((size_t)u->start[n] + 1));
  if (!u->at) return ts_fuse_no_memory(f);
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

/* Whether less is moved through memory: an intermediate value is written and read. w: how
 * much. */
static bool saves(const Fuse *f, const Users *u, const TsGroup *g, int to, unsigned char *sinks,
                  TsWhy *w) {
  enum { COUNTED = 2 };
  int64_t less = 0, more = 0;
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    if (sinks[n->id] != 1) continue;
    if (used_in(f, u, n, to)) less += 2 * ts_meta_nbytes(&n->out[0].meta);
    for (int i = 0; i < n->nin; i++) {
      const TsNode *from = n->in[i] && !n->in[i]->meta.weak ? ts_fuse_origin(n->in[i]) : NULL;
      if (!from || sinks[from->id]) continue;
      sinks[from->id] = COUNTED;
      int64_t nbytes = ts_meta_nbytes(&from->out[0].meta);
      if (f->s->of[from->id] == g->index && !used_outside(f, u, from, g->index)) more += nbytes;
      if (!used_in(f, u, from, to)) more += nbytes;
    }
  }
  for (int i = 0; i < f->g->nnode; i++)
    if (sinks[i] == COUNTED) sinks[i] = 0;
  *w = ts_why(more < less ? TS_WHY_nearer : TS_WHY_costs_more, less, more);
  return more < less;
}

/* The nodes of part went to `to`: where they are now, what was read of those that stay, and with
 * which node these begin. */
static void say_moved(const Fuse *f, const TsGroup *g, const TsGroup *part, const TsGroup *to,
                      TsWhy *w) {
  TsWhy moved = ts_why(TS_WHY_moved, 0, 0), begins = ts_why(TS_WHY_begins, 0, 0);
  w->to = to->node[to->nnode - 1];
  for (int i = 0; i < part->capnode; i++) {
    w->from = part->node[i];
    ts_why_member(f->s->why, part->node[i], w);
  }
  ts_why_apart_groups(f->s, g, to, &moved);
  if (!ts_fuse_first(f, g)) ts_why_member(f->s->why, g->node[0], &begins);
}

static void sink(Fuse *f, const Users *u, TsGroup *g, TsGroup *to, unsigned char *sinks) {
  if (ts_fuse_alone(to->kind) || ts_fuse_has_head(to->kind)) return;
  int count = mark_sinking(f, u, g, to->index, sinks), kept = 0;
  TsWhy w;
  if (!count || count == g->nnode) return;
  if (!saves(f, u, g, to->index, sinks, &w)) return ts_why_apart_groups(f->s, g, to, &w);
  TsGroup part = *g;
  part.kind = TS_GROUP_map;
  part.nrow = part.nnode = 0;
  if (!(part.node = malloc(sizeof *part.node * (size_t)count))) return ts_fuse_no_memory(f);
  for (int k = 0; k < g->nnode; k++)
    if (sinks[g->node[k]->id]) part.node[part.nnode++] = g->node[k];
  part.capnode = count;
  if (ts_fuse_join(f, &part, to, &w)) {
    for (int k = 0; k < g->nnode; k++)
      if (!sinks[g->node[k]->id]) g->node[kept++] = g->node[k];
    g->nnode = kept;
    say_moved(f, g, &part, to, &w);
  }
  free(part.node);
}

/* The latest first: what moved may move on. */
void ts_fuse_sink(Fuse *f) {
  Users u = {0};
  unsigned char *sinks = calloc((size_t)f->g->nnode + 1, 1);
  if (!sinks) ts_fuse_no_memory(f);
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
                        TsSide side, TsWhy *w) {
  for (int k = 0; k < g->nnode; k++) {
    const TsNode *n = g->node[k];
    bool last = n == head->in[side]->node;
    int readers = u->start[n->id + 1] - u->start[n->id];
    *w = ts_why(TS_WHY_read_twice, readers, 0);
    if (last && readers != 1) return false;
    if (!last && used_outside(f, u, n, g->index)) return false;
  }
  return true;
}

static bool takes_all(const TsNode *conv, const TsGroup *from) {
  for (int i = 0; i < from->nnode; i++)
    if (!ts_sched_conv_takes(conv, from->node[i])) return false;
  return true;
}

static int64_t row_of(const TsGroup *g) {
  int64_t row = 1;
  for (int i = g->naxis - g->nrow; i < g->naxis; i++) row *= g->axis[i];
  return row;
}

/* Whether all of `from` is done while g's head takes its operand; w: why, or why not. */
static bool is_prologue(const Fuse *f, const Users *u, const TsGroup *from, const TsGroup *g,
                        const TsNode *head, TsSide side, TsWhy *w) {
  if (from->kind != TS_GROUP_map) {
    *w = from->nrow ? ts_why(TS_WHY_rows_packed, row_of(from), 0)
                    : ts_why(TS_WHY_other_packed, 0, 0);
    w->from = ts_fuse_reducing(from);
    return false;
  }
  if (!serves_only(f, u, from, head, side, w)) return false;
  if (from->nnode + g->nnode > TS_FUSE_AFTER_PRODUCT) {
    *w = ts_why(TS_WHY_behind_most, TS_FUSE_AFTER_PRODUCT, 0);
    return false;
  }
  if (g->kind != TS_GROUP_conv) return ts_sched_prologue_pays(f->s, from, g, side, w);
  bool takes = takes_all(head, from);
  *w = ts_why(takes ? TS_WHY_padded : TS_WHY_packed_form, 0, 0);
  return takes;
}

static void join_prologue(Fuse *f, const Users *u, TsGroup *g, const TsNode *head,
                          TsSide side) {
  int k = f->s->of[head->in[side]->node->id];
  TsGroup *from = k >= 0 && k != g->index ? f->s->group[k] : NULL;
  TsWhy w;
  if (!from || from->kind == TS_GROUP_vm) return;
  if (!is_prologue(f, u, from, g, head, side, &w))
    return ts_why_apart(f->s->why, head, side, &w);
  w.from = head->in[side]->node, w.to = head;
  const TsNode *first = ts_fuse_first(f, from);
  if (first) ts_why_member(f->s->why, first, &w);
  for (int i = 0; i < from->nnode; i++) ts_fuse_add(f, g, from->node[i]);
  ts_fuse_sort(g);
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

void ts_fuse_prologues(Fuse *f) {
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

/* Sums down columns, on a GPU: of what reads elements only, not what the other one sums. */
static bool can_share_columns(const Fuse *f, const TsGroup *a, const TsGroup *b) {
  if (!a->nnode || !b->nnode || !ts_target_gpu(f->s->target)) return false;
  if (a->kind != TS_GROUP_columns || b->kind != TS_GROUP_columns) return false;
  for (int k = 0; k < b->nnode; k++)
    for (int i = 0; i < b->node[k]->nin; i++) {
      TsVal v = b->node[k]->in[i];
      if (v && ts_fuse_group_of(f, v) == a->index &&
          ts_sched_extent(a, &v->meta) != TS_EXTENT_full)
        return false;
    }
  for (int k = 0; k < a->nnode + b->nnode; k++) { /* norms wait for their rows */
    const TsNode *n = k < a->nnode ? a->node[k] : b->node[k - a->nnode];
    if (ts_sched_norm_grad(n) || (ts_sched_column(n) && ts_sched_column(n) != TS_TILE_sum))
      return false;
  }
  return true;
}

/* All that b needs is there before a runs, or a makes it. */
static bool needs_nothing_after(const Fuse *f, const TsGroup *b, int a) {
  for (int k = 0; k < b->nnode; k++)
    for (int i = 0; i < b->node[k]->nin; i++) {
      int from = b->node[k]->in[i] ? ts_fuse_group_of(f, b->node[k]->in[i]) : -1;
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
  TsSpaceAxes s = ts_fuse_space(b);
  int64_t n = 1;
  if (ts_sched_extent(a, m) == TS_EXTENT_full && ts_sched_extent(b, m) == TS_EXTENT_full)
    return true;
  for (int i = 0; i < s.naxis; i++) n *= s.axis[i];
  return ts_fuse_same_space(a, &s) && ts_meta_numel(m) > n;
}

static void put_at(Fuse *f, TsGroup *g, int index) {
  f->s->group[g->index = index] = g;
  for (int k = 0; k < g->nnode; k++) f->s->of[g->node[k]->id] = index;
}

/* a goes to the place before the first that needs what it makes, if that is before b and all that b needs
 * is there by then: between them may stand what counts the rows of a loss. */
static bool goes_behind(Fuse *f, const Users *u, TsGroup *a, const TsGroup *b) {
  int first = b->index;
  for (int k = 0; k < a->nnode; k++)
    for (int i = u->start[a->node[k]->id]; i < u->start[a->node[k]->id + 1]; i++) {
      int of = u->at[i] < 0 ? -1 : f->s->of[u->at[i]];
      if (of > a->index && of < first) first = of;
    }
  for (int k = 0; k < b->nnode; k++)
    for (int i = 0; i < b->node[k]->nin; i++) {
      int from = b->node[k]->in[i] ? ts_fuse_group_of(f, b->node[k]->in[i]) : -1;
      if (from >= first && from != b->index) return false;
    }
  for (int i = a->index; i + 1 < first; i++) put_at(f, f->s->group[i + 1], i);
  put_at(f, a, first - 1);
  return true;
}

static void share(Fuse *f, const Users *u, const TsNode *n, TsGroup *a, TsGroup *b, bool next) {
  bool both = (next && can_share(a) && can_share(b)) || can_share_columns(f, a, b);
  if (!both || b->index - a->index > NEAR) return;
  if (!both_walk(a, b, &n->out[0].meta)) return;
  TsWhy w = ts_why(TS_WHY_same_input, ts_meta_nbytes(&n->out[0].meta), 0);
  w.other = n;
  if (needs_nothing_after(f, b, a->index) && (a->nrow || !b->nrow))
    ts_fuse_join(f, b, a, &w);
  else if (wanted_from(f, u, a, b->index))
    ts_fuse_join(f, a, b, &w);
  else if ((a->nrow || !b->nrow) && goes_behind(f, u, a, b))
    ts_fuse_join(f, b, a, &w);
}

void ts_fuse_siblings(Fuse *f) {
  Users u = {0};
  find_users(f, &u);
  for (int i = 0; i < f->g->nnode && !f->failed; i++) {
    const TsNode *n = f->g->node[i];
    for (int k = u.start[i]; n->nout == 1 && k + 1 < u.start[i + 1] && !f->failed; k++)
      for (int m = k + 1; m <= k + SOME && m < u.start[i + 1]; m++) {
        int x = u.at[k] < 0 ? -1 : f->s->of[u.at[k]];
        int y = u.at[m] < 0 ? -1 : f->s->of[u.at[m]];
        if (x < 0 || y < 0 || x == y) continue;
        share(f, &u, n, f->s->group[x < y ? x : y], f->s->group[x < y ? y : x], m == k + 1);
      }
  }
  free(u.start);
  free(u.at);
}
