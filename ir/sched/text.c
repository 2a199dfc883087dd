/* Schedules as text. The graph is a text of its own; here its values are named as it names them.
 * What stands behind "//" is the cost model's and is not read back. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/names.h"
#include "ir/sched/product/product.h"
#include "ir/sched/sched.h"
#include "ir/text/value.h"

enum { MOST_LINES = 8 }; /* that a file is quoted with */

static const char *const kind_name[] = {"vm",     "map",     "rows", "attention",
                                        "matmul", "columns", "conv"};

const char *ts_group_kind_name(int kind) {
  return kind < (int)(sizeof kind_name / sizeof *kind_name) ? kind_name[kind] : NULL;
}

static void values(TsText *t, const TsNames *names, int n, const TsVal *v) {
  for (int i = 0; i < n; i++)
    ts_text_format(t, "%s%%%s", i ? ", " : "", ts_names_of(names, v[i]));
}

static void nodes(TsText *t, const TsNames *names, const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++) {
    TsVal v = (TsVal)(uintptr_t)&g->node[i]->out[0];
    ts_text_format(t, "%s%%%s", i ? ", " : "", ts_names_of(names, v));
  }
}

static void amount(TsText *t, double v, const char *unit) {
  const char *scale = " kMGTP";
  while (v >= 1000 && scale[1]) v /= 1000, scale++;
  ts_text_format(t, "%.3g %s%s", v, *scale == ' ' ? "" : (char[]){*scale, 0}, unit);
}

void ts_sched_what(const TsGroup *g, TsText *text) {
  for (int i = 0; i < g->nnode; i++)
    ts_text_format(text, "%s%s", i ? " " : "", ts_node_name(g->node[i]));
}

/* "model.lua" of "model.lua:12": its length; 0: there is no place. */
static size_t file_of(const TsNode *n) {
  const char *where = ts_graph_where(n), *colon = strrchr(where, ':');
  return colon ? (size_t)(colon - where) : 0;
}

static bool same_file(const TsNode *a, const TsNode *b) {
  size_t n = file_of(a);
  return n == file_of(b) && !memcmp(ts_graph_where(a), ts_graph_where(b), n);
}

/* The least line of the file of n above `after`, or 0. */
static int next_line(const TsGroup *g, const TsNode *n, int after) {
  int least = 0;
  for (int i = 0; i < g->nnode; i++) {
    if (!same_file(n, g->node[i])) continue;
    int line = atoi(ts_graph_where(g->node[i]) + file_of(n) + 1);
    if (line > after && (!least || line < least)) least = line;
  }
  return least;
}

static void file_lines(const TsGroup *g, const TsNode *n, TsText *text) {
  int count = 0;
  TsText file = {0};
  ts_text_add(&file, ts_graph_where(n), file_of(n));
  if (file.at) ts_text_place_text(text, file.at);
  text->failed |= file.failed;
  ts_text_free(&file);
  ts_text_char(text, ':');
  for (int line = 0; (line = next_line(g, n, line)) > 0 && count <= MOST_LINES; count++)
    ts_text_format(text, count == MOST_LINES ? ",.." : count ? ",%d" : "%d", line);
}

void ts_sched_where(const TsGroup *g, TsText *text) {
  bool any = false;
  for (int i = 0; i < g->nnode; i++) {
    bool seen = !file_of(g->node[i]);
    for (int k = 0; k < i && !seen; k++) seen = same_file(g->node[k], g->node[i]);
    if (seen) continue;
    if (any) ts_text_str(text, ", ");
    file_lines(g, g->node[i], text);
    any = true;
  }
}

static void costs(TsText *t, const TsSched *s, const TsGroup *g) {
  TsText where = {0};
  TsText choice = {0};
  TsText how = {0};
  ts_text_str(t, "  // ");
  ts_sched_what(g, t);
  ts_sched_choice_text(&g->choice, &choice);
  ts_text_take(t, " with ", &choice);
  ts_sched_product_how(s, g, &how);
  ts_text_take(t, " ", &how);
  ts_text_str(t, ": ");
  amount(t, g->bytes, "B");
  ts_text_str(t, ", ");
  amount(t, g->flops, "FLOP");
  ts_text_str(t, ", ");
  ts_text_format(t, "%.3g us", g->usec);
  ts_sched_where(g, &where);
  ts_text_take(t, " at ", &where);
}

static void group(TsText *t, const TsNames *names, const TsSched *s, const TsGroup *g,
                  bool notes) {
  ts_text_format(t, "  %-4s ", kind_name[g->kind]);
  nodes(t, names, g);
  if (g->kind != TS_GROUP_vm) {
    for (int i = 0; i < g->naxis; i++)
      ts_text_format(t, "%s%lld", i ? "," : " space [", (long long)g->axis[i]);
    if (g->kind != TS_GROUP_attention) ts_text_str(t, g->naxis ? "]" : " space []");
    if (g->nrow) ts_text_format(t, " row %d", g->nrow);
    if (g->transposed) ts_text_str(t, " transposed");
    ts_text_str(t, g->nin ? " in " : "");
    values(t, names, g->nin, g->in);
    ts_text_str(t, " out ");
    values(t, names, g->nout, g->out);
    TsText choice = {0};
    if (!notes) ts_sched_choice_text(&g->choice, &choice); /* else the note has it */
    ts_text_take(t, " with ", &choice);
  }
  if (notes) costs(t, s, g);
  ts_text_char(t, '\n');
}

/* only: NULL for all groups; else one of them, or a copy with another choice. */
static void text_of(const TsSched *s, const TsGroup *only, TsText *text, bool notes) {
  TsNames names;
  if (ts_names_open(&names, s->g)) text->failed = 1;
  ts_text_format(text, "schedule @%s", ts_names_of(&names, s->g));
  if (s->target) ts_text_format(text, " target %s", s->target->name);
  ts_text_format(text, " threads %d", s->threads);
  if (s->profile == TS_PROFILE_fast && s->target && s->target->pairs)
    ts_text_format(text, " pairs %s", s->target->pairs);
  ts_text_str(text, " {\n");
  for (int i = 0; i < s->ngroup; i++)
    if (!only || only->index == i) group(text, &names, s, only ? only : s->group[i], notes);
  ts_text_str(text, "}\n");
  ts_names_close(&names);
}

void ts_sched_text(const TsSched *s, TsText *text) { text_of(s, NULL, text, false); }
void ts_sched_text_notes(const TsSched *s, TsText *text) { text_of(s, NULL, text, true); }
void ts_sched_text_group(const TsSched *s, const TsGroup *g, TsText *text) {
  text_of(s, g, text, false);
}
