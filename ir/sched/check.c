/* The legality of a schedule: every node that runs is in one group, groups need only what
 * groups before them made, the values of a kernel lie in its space, and its lists are what is
 * read from memory and what others need. */
#include <stdlib.h>

#include "ir/graph/copy.h"
#include "ir/sched/sched.h"
#include "ir/sched/conv.h"
#include "ir/sched/prologue.h"
#include "ir/sched/rows.h"
#include "ir/sched/epilogue.h"
#include "ir/sched/space.h"

static int bad(TsError *err, const TsGroup *g, const TsNode *n, const char *what) {
  return ts_error_set(err, TS_ERR_value, "schedule: group %d, %s: %s", g->index,
                      n ? ts_node_name(n) : "as a whole", what);
}

static TsVal origin(TsVal v) {
  while (v && ts_sched_is_view(v->node)) v = v->node->in[0];
  return v;
}

/* ---- nodes of a group */
static int check_order(const TsSched *s, const TsGroup *g, int k, TsError *err) {
  const TsNode *n = g->node[k];
  if (s->of[n->id] != g->index) return bad(err, g, n, "the node is in another group as well");
  if (k && g->node[k - 1]->id >= n->id)
    return bad(err, g, n, "the nodes are not in the order of the graph");
  for (int i = 0; i < n->nin; i++) {
    TsVal v = origin(n->in[i]);
    if (v && s->of[v->node->id] > g->index) return bad(err, g, n, "needs a later group");
  }
  return 0;
}

/* Pointwise rows and rows: their operands move along the axes. */
static int check_operands(const TsGroup *g, const TsNode *n, TsError *err) {
  TsSpaceAxes a = {.naxis = g->naxis, .nrow = g->nrow, .columns = g->kind == TS_GROUP_columns};
  int64_t moves[TS_TILE_RANK];
  for (int i = 0; i < g->naxis; i++) a.axis[i] = g->axis[i];
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->node->op != TS_NODE_number &&
        !ts_space_strides(&a, ts_sched_operand_at(n, n->in[i]), &n->in[i]->meta, NULL, moves))
      return bad(err, g, n, "the axes do not divide the shape of an operand");
  return 0;
}

static int check_row(const TsGroup *g, const TsNode *n, TsError *err) {
  int64_t row = 1;
  for (int i = g->naxis - g->nrow; i < g->naxis; i++) row *= g->axis[i];
  if (g->nrow && row == ts_sched_row_length(n)) return 0;
  return bad(err, g, n, "its rows are not those of the space");
}

/* What node k of a product's group is part of; anything of another group is of the result. */
static int side_of(const TsGroup *g, int k, TsError *err) {
  uint8_t side[TS_PROLOGUE_NODES];
  if (g->kind != TS_GROUP_matmul || !ts_sched_product_of(g)) return TS_SIDE_result;
  if (!ts_sched_sides(g, side)) return bad(err, g, NULL, "a node is part of two operands");
  return side[k];
}

static int check_prologue(const TsGroup *g, const TsNode *n, int side, TsError *err) {
  if (ts_sched_in_prologue(n, &ts_sched_product_of(g)->in[side]->meta)) return 0;
  return bad(err, g, n, "cannot be part of an operand");
}

static int check_node(const TsSched *s, const TsGroup *g, int k, TsError *err) {
  const TsNode *n = g->node[k];
  if (check_order(s, g, k, err)) return -1;
  if (g->kind == TS_GROUP_vm) return 0;
  TsGroupKind kind = ts_sched_kind_in(s, n);
  if ((kind == TS_GROUP_attention) != (g->kind == TS_GROUP_attention))
    return bad(err, g, n, "attention is a group of its own");
  if (kind == TS_GROUP_attention) return 0;
  if (ts_sched_epilogue_begins(s->target, n)) return 0;
  if (kind == TS_GROUP_vm) return bad(err, g, n, "has no place in a kernel");
  if (g->kind == TS_GROUP_conv && ts_sched_conv_before(g) >> k & 1)
    return ts_sched_conv_takes(ts_sched_conv_of(g), n)
               ? 0
               : bad(err, g, n, "does not make the images of the convolution");
  int side = side_of(g, k, err);
  if (side != TS_SIDE_result) return side < 0 ? -1 : check_prologue(g, n, side, err);
  for (int i = 0; i < n->nout; i++)
    if (ts_sched_extent(g, &n->out[i].meta) == TS_EXTENT_none)
      return bad(err, g, n, "its result does not fit the space");
  if (kind == TS_GROUP_rows && g->kind != TS_GROUP_rows)
    return bad(err, g, n, "the group has no rows");
  if (kind == TS_GROUP_rows && check_row(g, n, err)) return -1;
  if (kind == TS_GROUP_columns && g->kind != TS_GROUP_columns)
    return bad(err, g, n, "the group has no columns");
  return kind == TS_GROUP_matmul || kind == TS_GROUP_conv ? 0 : check_operands(g, n, err);
}

/* ---- what is read and written */
static bool listed(int n, const TsVal *list, TsVal v) {
  for (int i = 0; i < n; i++)
    if (list[i] == v) return true;
  return false;
}

static bool own(const TsSched *s, const TsGroup *g, TsVal v) {
  return s->of[ts_sched_root(v)->node->id] == g->index;
}

static bool reads(const TsSched *s, const TsGroup *g, TsVal v) {
  for (int k = 0; k < g->nnode; k++)
    for (int i = 0; i < g->node[k]->nin; i++)
      if (g->node[k]->in[i] == v && v->node->op != TS_NODE_number && !own(s, g, v)) return true;
  return false;
}

static int check_in(const TsSched *s, const TsGroup *g, TsError *err) {
  for (int i = 0; i < g->nin; i++) {
    if (!reads(s, g, g->in[i]))
      return bad(err, g, NULL, "none of its nodes reads a value of 'in'");
    if (listed(i, g->in, g->in[i])) return bad(err, g, NULL, "a value stands twice in 'in'");
  }
  for (int k = 0; k < g->nnode; k++)
    for (int i = 0; i < g->node[k]->nin; i++) {
      TsVal v = g->node[k]->in[i];
      if (v && reads(s, g, v) && !listed(g->nin, g->in, v))
        return bad(err, g, g->node[k], "a value that it reads is missing from 'in'");
    }
  return 0;
}

/* What a node of a kernel can have at most as outputs fits. */
static void need(unsigned char *needed, TsVal v) {
  if (v->index < 8) needed[v->node->id] |= (unsigned char)(1u << v->index);
}

/* Marks by node and output what has to be in memory: what other groups read, results, and what runs
 * although nobody reads it. */
static void find_needed(const TsSched *s, const unsigned char *live, unsigned char *needed) {
  const TsGraph *g = s->g;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (n->runs) need(needed, (TsVal)&n->out[0]);
    for (int k = 0; live[i] && !ts_sched_is_view(n) && k < n->nin; k++) {
      TsVal v = origin(n->in[k]);
      if (v && s->of[v->node->id] != s->of[i]) need(needed, v);
    }
  }
  for (int i = 0; i < g->nresult + g->nupdate; i++) {
    need(needed, origin(i < g->nresult ? g->result[i] : g->update[i - g->nresult].value));
  }
}

static int check_out(const TsGroup *g, const unsigned char *needed, TsError *err) {
  int n = 0;
  for (int k = 0; k < g->nnode; k++)
    for (int i = 0; i < g->node[k]->nout; i++) {
      TsVal v = (TsVal)(uintptr_t)&g->node[k]->out[i];
      bool want = needed[g->node[k]->id] >> i & 1;
      n += want;
      if (want && !listed(g->nout, g->out, v))
        return bad(err, g, g->node[k], "others need its result, which is missing from 'out'");
    }
  for (int i = 0; i < g->nout; i++)
    if (listed(i, g->out, g->out[i])) return bad(err, g, NULL, "a value stands twice in 'out'");
  return g->nout == n ? 0 : bad(err, g, NULL, "nobody needs a value of 'out'");
}

/* ---- the whole */
static int check_group(const TsSched *s, const TsGroup *g, int index,
                       const unsigned char *needed, TsError *err) {
  if (g->index != index) return bad(err, g, NULL, "is not where its index says");
  bool single = g->kind == TS_GROUP_vm || g->kind == TS_GROUP_attention;
  if (!g->nnode || (single && g->nnode != 1))
    return bad(err, g, NULL, "has the wrong number of nodes");
  if (g->kind != TS_GROUP_rows && g->kind != TS_GROUP_columns && g->nrow)
    return bad(err, g, NULL, "has rows but is a map");
  int products = 0, convs = 0;
  for (int k = 0; k < g->nnode; k++) {
    if (check_node(s, g, k, err)) return -1;
    const TsNode *n = g->node[k];
    products += g->kind != TS_GROUP_vm && (ts_sched_kind_in(s, n) == TS_GROUP_matmul ||
                                           ts_sched_epilogue_begins(s->target, n));
    convs += g->kind != TS_GROUP_vm && ts_sched_kind_in(s, n) == TS_GROUP_conv;
  }
  if (convs != (g->kind == TS_GROUP_conv))
    return bad(err, g, NULL, "has the wrong number of convolutions");
  if (products != (g->kind == TS_GROUP_matmul))
    return bad(err, g, NULL, "has the wrong number of products");
  if (g->kind == TS_GROUP_vm) return 0;
  return check_in(s, g, err) || check_out(g, needed, err) ? -1 : 0;
}

static int check(const TsSched *s, const unsigned char *runs, unsigned char *needed,
                 TsError *err) {
  const TsGraph *g = s->g;
  for (int i = 0; i < g->nnode; i++)
    if (!runs[i] != (s->of[i] < 0))
      return ts_error_set(err, TS_ERR_value, "schedule: node %d, %s, %s", i,
                          ts_node_name(g->node[i]),
                          runs[i] ? "is in no group" : "does not run");
  find_needed(s, runs, needed);
  for (int i = 0; i < s->ngroup; i++)
    if (check_group(s, s->group[i], i, needed, err)) return -1;
  return 0;
}

int ts_sched_check(const TsSched *s, TsError *err) {
  unsigned char *runs = ts_sched_runs(s->g), *needed = calloc((size_t)s->g->nnode + 1, 1);
  int failed = runs && needed ? check(s, runs, needed, err) : ts_error_memory(err);
  free(runs);
  free(needed);
  return failed;
}
