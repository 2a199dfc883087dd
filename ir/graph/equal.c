/* Equality of graphs, as far as the text tells them apart. Operands are compared by the names
 * that the text gives them, as the lines that define those have been compared before. */
#include "ir/graph/names.h"
#include "ir/text/value.h"

#include <string.h>

typedef struct Pair {
  TsNames a, b;
  TsText *why;
} Pair;

static bool differ(const Pair *p, const char *what, const char *a, const char *b) {
  if (p->why) ts_text_format(p->why, "%s: %s or %s", what, a, b);
  return false;
}

static bool same_count(const Pair *p, const char *what, int a, int b) {
  if (a != b && p->why) ts_text_format(p->why, "%s: %d or %d", what, a, b);
  return a == b;
}

static bool same_name(const Pair *p, const char *what, const void *a, const void *b) {
  const char *na = ts_names_of(&p->a, a), *nb = ts_names_of(&p->b, b);
  return !strcmp(na, nb) || differ(p, what, na, nb);
}

static bool same_type(const Pair *p, TsVal a, TsVal b) {
  char ta[TS_META_TEXT], tb[TS_META_TEXT];
  return ts_type_same(&a->meta, &b->meta) ||
         differ(p, ts_names_of(&p->a, a), ts_meta_text(&a->meta, ta),
                ts_meta_text(&b->meta, tb));
}

static bool same_operands(const Pair *p, const char *of, int n, const TsVal *a,
                          const TsVal *b) {
  for (int i = 0; i < n; i++) {
    if (!a[i] || !b[i]) {
      if (a[i] != b[i]) return differ(p, of, "absent", "present");
      continue;
    }
    bool number = a[i]->node->op == TS_NODE_number;
    if (number != (b[i]->node->op == TS_NODE_number))
      return differ(p, of, "a number", "a value");
    if (number && !ts_number_same(a[i]->node->number, b[i]->node->number))
      return differ(p, of, "a number", "another one");
    if (!number && !same_name(p, of, a[i], b[i])) return false;
  }
  return true;
}

static bool same_attrs(const Pair *p, const TsNode *a, const TsNode *b) {
  int n;
  const TsAttrSpec *s = ts_node_attrs(a->op, &n);
  for (int i = 0; i < n; i++) {
    const TsAttr *x = i < a->nattr ? &a->attr[i] : &s[i].preset;
    const TsAttr *y = i < b->nattr ? &b->attr[i] : &s[i].preset;
    if (!ts_attr_same(x, y)) return differ(p, ts_node_name(a), "an attribute", "another one");
  }
  return true;
}

static bool same_graph(const Pair *p, const TsGraph *a, const TsGraph *b);

static bool same_regions(const Pair *p, const TsNode *a, const TsNode *b) {
  if (!same_count(p, "regions", a->nregion, b->nregion)) return false;
  if (a->op == TS_NODE_call) return same_name(p, "call", a->region[0], b->region[0]);
  for (int i = 0; i < a->nregion; i++)
    if (!same_graph(p, a->region[i], b->region[i])) return false;
  return true;
}

static bool same_node(const Pair *p, TsNode *a, TsNode *b) {
  const char *op = ts_node_name(a);
  if (a->op != b->op) return differ(p, "operator", op, ts_node_name(b));
  if (!same_count(p, op, a->nin, b->nin) || !same_count(p, op, a->nout, b->nout)) return false;
  if (!same_operands(p, op, a->nin, a->in, b->in) || !same_attrs(p, a, b)) return false;
  for (int i = 0; i < a->nout; i++)
    if (!same_name(p, op, &a->out[i], &b->out[i]) || !same_type(p, &a->out[i], &b->out[i]))
      return false;
  const char *x = a->choice ? a->choice : "", *y = b->choice ? b->choice : "";
  if (strcmp(x, y)) return differ(p, op, x, y);
  return same_regions(p, a, b);
}

/* Parameters and numbers have no lines: the first stand in the head, the others in place. */
static TsNode *next_line(const TsGraph *g, int *i) {
  while (*i < g->nnode) {
    TsNode *n = g->node[(*i)++];
    if (n->op != TS_NODE_param && n->op != TS_NODE_number) return n;
  }
  return NULL;
}

static bool same_lines(const Pair *p, const TsGraph *a, const TsGraph *b) {
  for (int i = 0, k = 0;;) {
    TsNode *x = next_line(a, &i), *y = next_line(b, &k);
    if (!x && !y) return true;
    if (!x || !y) return differ(p, "lines", x ? "more" : "less", x ? "less" : "more");
    if (!same_node(p, x, y)) return false;
  }
}

static bool same_head(const Pair *p, const TsGraph *a, const TsGraph *b) {
  if (!same_count(p, "parameters", a->nparam, b->nparam)) return false;
  for (int i = 0; i < a->nparam; i++) {
    if (!same_name(p, "parameter", a->param[i], b->param[i]) ||
        !same_type(p, a->param[i], b->param[i]))
      return false;
    if (!a->bound[i] != !b->bound[i]) return differ(p, "parameter", "captured", "given");
  }
  return true;
}

static bool same_graph(const Pair *p, const TsGraph *a, const TsGraph *b) {
  if (!same_head(p, a, b) || !same_lines(p, a, b)) return false;
  if (!same_count(p, "results", a->nresult, b->nresult)) return false;
  if (!same_operands(p, "result", a->nresult, a->result, b->result)) return false;
  if (!same_count(p, "updates", a->nupdate, b->nupdate)) return false;
  for (int i = 0; i < a->nupdate; i++)
    if (!same_count(p, "update of parameter", a->update[i].param, b->update[i].param) ||
        !same_operands(p, "update", 1, &a->update[i].value, &b->update[i].value))
      return false;
  return true;
}

static bool compare(const Pair *p) {
  if (!same_count(p, "graphs", p->a.ngraph, p->b.ngraph)) return false;
  for (int i = 0; i < p->a.ngraph; i++) {
    const TsGraph *a = p->a.graph[i], *b = p->b.graph[i];
    if (!same_name(p, "graph", a, b) || !same_graph(p, a, b)) return false;
  }
  return true;
}

bool ts_graph_equal(const TsGraph *a, const TsGraph *b, TsText *why) {
  Pair p = {.why = why};
  bool failed = ts_names_open(&p.a, a) || ts_names_open(&p.b, b);
  bool same = failed ? differ(&p, "out of memory", "equal", "not") : compare(&p);
  ts_names_close(&p.a);
  ts_names_close(&p.b);
  return same;
}
