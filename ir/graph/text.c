/* The text of a graph. The grammar, with blanks and line ends anywhere, // to the line's end
 * a comment:
 *
 *   text    [mesh] graph {graph}                            mesh: ir/text/mesh.h
 *   graph   "graph" @name body
 *   body    "(" params {";" params} ")" ["->" operands] "{" {line} "}"
 *   params  [%name ":" type {"," %name ":" type}]       behind an odd ";": captured
 *   line    [%name {"," %name} "="] node [":" type {"," type}] | "update" %name "=" operand
 *   node    word [operands] [attributes] {"do" body} | "call" @name "(" [operands] ")"
 *   operand %name | number | "_"                        "_": an optional one is absent
 *
 * Types and attributes: ir/text/value.h. Names: ir/graph/names.h. */
#include "ir/graph/names.h"
#include "ir/text/mesh.h"
#include "ir/text/value.h"

#include <ctype.h>

typedef struct Printer {
  TsNames names;
  TsText *text;
  bool places, short_regions;
} Printer;

static void put(Printer *p, const char *s) { ts_text_str(p->text, s); }

static void name(Printer *p, const char *sigil, const void *what) {
  put(p, sigil);
  put(p, ts_names_of(&p->names, what));
}

static void operand(Printer *p, TsVal v) {
  if (!v)
    put(p, "_");
  else if (v->node->op == TS_NODE_number)
    ts_text_number(p->text, v->node->number);
  else
    name(p, "%", v);
}

static void operands(Printer *p, const char *before, int n, const TsVal *v) {
  for (int i = 0; i < n; i++) {
    put(p, i ? ", " : before);
    operand(p, v[i]);
  }
}

/* Each ";" turns from parameters that are given to captured ones and back: the order of the
 * parameters is the graph's, whatever was captured when. */
static void params(Printer *p, const TsGraph *g) {
  bool captured = false;
  const char *before = "";
  put(p, "(");
  for (int i = 0; i < g->nparam; i++) {
    bool is = g->bound[i] != NULL;
    put(p, is != captured ? "; " : before);
    name(p, "%", g->param[i]);
    put(p, ": ");
    ts_text_type(p->text, &g->param[i]->meta);
    captured = is;
    before = ", ";
  }
  put(p, ")");
  operands(p, " -> ", g->nresult, g->result);
}

static void types(Printer *p, const TsNode *n) {
  for (int i = 0; i < n->nout; i++) {
    put(p, i ? ", " : " : ");
    ts_text_type(p->text, &n->out[i].meta);
  }
}

static void place(Printer *p, const TsNode *n) {
  const char *where = ts_graph_where(n);
  if (!p->places || !*where) return;
  put(p, "  // ");
  ts_text_place_text(p->text, where);
}

static void body(Printer *p, const TsGraph *g, int indent);

static void line(Printer *p, const TsNode *n, int indent) {
  int nspec;
  const TsAttrSpec *spec = ts_node_attrs(n->op, &nspec);
  for (int i = 0; i < n->nout; i++) name(p, i ? ", %" : "%", &n->out[i]);
  if (n->nout) put(p, " = ");
  put(p, ts_node_name(n));
  if (n->op == TS_NODE_call) {
    name(p, " @", n->nregion ? n->region[0] : NULL);
    operands(p, "(", n->nin, n->in);
    put(p, n->nin ? ")" : "()");
  } else {
    operands(p, " ", n->nin, n->in);
  }
  ts_text_attrs(p->text, spec, n->nattr < nspec ? n->nattr : nspec, n->attr);
  if (n->choice) {
    put(p, " choose ");
    ts_text_quoted(p->text, n->choice);
  }
  for (int i = 0; i < n->nregion && n->op != TS_NODE_call; i++) {
    put(p, " do ");
    if (p->short_regions)
      put(p, "...");
    else
      body(p, n->region[i], indent);
  }
  types(p, n);
}

static void lines(Printer *p, const TsGraph *g, int indent) {
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (n->op == TS_NODE_param || n->op == TS_NODE_number) continue;
    ts_text_pad(p->text, ' ', indent);
    line(p, n, indent);
    place(p, n);
    put(p, "\n");
  }
  for (int i = 0; i < g->nupdate; i++) {
    ts_text_pad(p->text, ' ', indent);
    name(p, "update %", g->param[g->update[i].param]);
    operands(p, " = ", 1, &g->update[i].value);
    put(p, "\n");
  }
}

static void body(Printer *p, const TsGraph *g, int indent) {
  params(p, g);
  put(p, " {\n");
  lines(p, g, indent + 2);
  ts_text_pad(p->text, ' ', indent);
  put(p, "}");
}

/* The mesh over which values lie, and into how many leaves their sums are cut. */
static void find_mesh(const TsGraph *g, const TsMesh **mesh, int *leaves) {
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    for (int k = 0; k < n->nout; k++) {
      const TsLayout *l = n->out[k].meta.layout ? ts_layout_of(&n->out[k].meta) : NULL;
      if (l && !*mesh) *mesh = l->mesh;
      if (l && !*leaves) *leaves = l->leaves;
    }
    for (int k = 0; k < n->nregion; k++) find_mesh(n->region[k], mesh, leaves);
  }
}

static void print(const TsGraph *g, TsText *text, bool places) {
  Printer p = {.text = text, .places = places};
  if (ts_names_open(&p.names, g)) text->failed = 1;
  const TsMesh *mesh = NULL;
  int leaves = 0;
  for (int i = 0; i < p.names.ngraph; i++) find_mesh(p.names.graph[i], &mesh, &leaves);
  if (mesh) ts_text_mesh(text, mesh, leaves);
  for (int i = 0; i < p.names.ngraph; i++) {
    name(&p, i ? "\ngraph @" : "graph @", p.names.graph[i]);
    body(&p, p.names.graph[i], 0);
    put(&p, "\n");
  }
  ts_names_close(&p.names);
}

void ts_node_text(const TsNode *n, TsText *text) {
  Printer p = {.text = text, .short_regions = true};
  if (ts_names_open(&p.names, n->out[0].graph)) text->failed = 1;
  line(&p, n, 0);
  ts_names_close(&p.names);
}

void ts_graph_text_places(const TsGraph *g, TsText *text) { print(g, text, true); }

void ts_graph_text(const TsGraph *g, TsText *text) { print(g, text, false); }
