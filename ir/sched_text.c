/* Schedules as text. The graph is a text of its own; here its values are named as it names them.
 * What stands behind "//" is the cost model's and is not read back. */
#include "ir/graph_names.h"
#include "ir/sched.h"

static const char *const kind_name[] = {"vm", "map", "rows"};

static void values(TsText *t, const TsNames *names, int n, const TsVal *v) {
  for (int i = 0; i < n; i++) ts_text_format(t, "%s%%%s", i ? ", " : "", ts_names_of(names, v[i]));
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

static void costs(TsText *t, const TsGroup *g) {
  ts_text_str(t, "  // ");
  for (int i = 0; i < g->nnode; i++)
    ts_text_format(t, "%s%s", i ? " " : "", ts_node_name(g->node[i]));
  ts_text_str(t, ": ");
  amount(t, g->bytes, "B");
  ts_text_str(t, ", ");
  amount(t, g->flops, "FLOP");
  ts_text_str(t, ", ");
  ts_text_format(t, "%.3g us", g->usec);
}

static void group(TsText *t, const TsNames *names, const TsGroup *g) {
  ts_text_format(t, "  %-4s ", kind_name[g->kind]);
  if (g->node[0]->nout == 0) ts_text_str(t, ts_node_name(g->node[0]));
  nodes(t, names, g);
  if (g->kind != TS_GROUP_vm) {
    ts_text_str(t, " space [");
    for (int i = 0; i < g->naxis; i++)
      ts_text_format(t, "%s%lld", i ? "," : "", (long long)g->axis[i]);
    ts_text_char(t, ']');
    if (g->nrow) ts_text_format(t, " row %d", g->nrow);
    ts_text_str(t, " in ");
    values(t, names, g->nin, g->in);
    ts_text_str(t, " out ");
    values(t, names, g->nout, g->out);
  }
  costs(t, g);
  ts_text_char(t, '\n');
}

void ts_sched_text(const TsSched *s, TsText *text) {
  TsNames names;
  if (ts_names_open(&names, s->g)) text->failed = 1;
  ts_text_format(text, "schedule @%s", ts_names_of(&names, s->g));
  if (s->target) ts_text_format(text, " target %s", s->target->name);
  ts_text_format(text, " threads %d {\n", s->threads);
  for (int i = 0; i < s->ngroup; i++) group(text, &names, s->group[i]);
  ts_text_str(text, "}\n");
  ts_names_close(&names);
}
