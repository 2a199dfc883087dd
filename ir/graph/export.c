/* Graphs as DOT and as JSON. */
#include "ir/graph/export.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/graph/names.h"
#include "ir/text/value.h"
#include "lib/json.h"

typedef struct Export {
  TsNames names;
  TsText *text;
  int nregion; /* numbered in the order of printing */
  int body;    /* the region that recur runs again */
} Export;

static void put(Export *e, const char *s) { ts_text_str(e->text, s); }

static const char *name(const Export *e, const void *what) {
  return ts_names_of(&e->names, what);
}

static bool has_line(const TsNode *n) {
  return n->op != TS_NODE_param && n->op != TS_NODE_number;
}

static bool is_number(TsVal v) { return v && v->node->op == TS_NODE_number; }

/* ---- DOT: nodes are named n<region>_<id>. A node is a box of its operator and attributes,
 * an edge shows the value's name and type. */
static void dot_escape(Export *e, const char *s) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') put(e, "\\");
    ts_text_char(e->text, iscntrl((unsigned char)*s) ? ' ' : *s);
  }
}

static void dot_label(Export *e, const TsNode *n) {
  TsText attrs = {0};
  int nspec;
  const TsAttrSpec *spec = ts_node_attrs(n->op, &nspec);
  put(e, ts_node_name(n));
  if (n->op == TS_NODE_call && n->nregion)
    ts_text_format(e->text, " @%s", name(e, n->region[0]));
  ts_text_attrs(&attrs, spec, n->nattr < nspec ? n->nattr : nspec, n->attr);
  if (attrs.at) dot_escape(e, attrs.at);
  e->text->failed |= attrs.failed;
  ts_text_free(&attrs);
  for (int i = 0; i < n->nin; i++) {
    if (!is_number(n->in[i])) continue;
    ts_text_format(e->text, "\\n%d: ", i);
    ts_text_number(e->text, n->in[i]->node->number);
  }
}

static void dot_edge(Export *e, int region, TsVal v, const char *to) {
  ts_text_format(e->text, "  n%d_%u -> %s [label=\"%%%s ", region, v->node->id, to, name(e, v));
  ts_text_type(e->text, &v->meta);
  put(e, "\"];\n");
}

static void dot_edges(Export *e, int region, int n, const TsVal *v, const char *to) {
  for (int i = 0; i < n; i++)
    if (v[i] && !is_number(v[i])) dot_edge(e, region, v[i], to);
}

static void dot_results(Export *e, const TsGraph *g, int region) {
  char to[32];
  if (!g->nresult) return;
  snprintf(to, sizeof to, "r%d", region);
  ts_text_format(e->text, "  %s [shape=oval label=\"results\"];\n", to);
  dot_edges(e, region, g->nresult, g->result, to);
}

static void dot_updates(Export *e, const TsGraph *g, int region) {
  char to[32];
  for (int i = 0; i < g->nupdate; i++) {
    snprintf(to, sizeof to, "u%d_%d", region, i);
    ts_text_format(e->text, "  %s [shape=oval label=\"update %%%s\"];\n", to,
                   name(e, g->param[g->update[i].param]));
    dot_edges(e, region, 1, &g->update[i].value, to);
  }
}

static void dot_graph(Export *e, const TsGraph *g);

/* A region is a box of its own; a dotted edge leads to it from its node, and from those that
 * run it again. */
static void dot_regions(Export *e, const TsNode *n, int region) {
  int around = e->body;
  if (n->op == TS_NODE_recur)
    ts_text_format(e->text, "  n%d_%u -> s%d [style=dotted];\n", region, n->id, around);
  for (int i = 0; i < n->nregion && n->op != TS_NODE_call; i++) {
    int inner = e->nregion;
    e->body = n->op == TS_NODE_recursive ? inner : around;
    ts_text_format(e->text, "  subgraph cluster_%d {\n  label=\"%s %d\";\n", inner,
                   ts_node_name(n), i);
    ts_text_format(e->text, "  s%d [shape=point];\n", inner);
    dot_graph(e, n->region[i]);
    ts_text_format(e->text, "  }\n  n%d_%u -> s%d [style=dotted];\n", region, n->id, inner);
    e->body = around;
  }
}

static void dot_graph(Export *e, const TsGraph *g) {
  int region = e->nregion++;
  char to[32];
  for (int i = 0; i < g->nparam; i++)
    ts_text_format(e->text, "  n%d_%u [shape=oval%s label=\"%%%s\"];\n", region,
                   g->param[i]->node->id, g->bound[i] ? " style=dashed" : "",
                   name(e, g->param[i]));
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (!has_line(n)) continue;
    snprintf(to, sizeof to, "n%d_%u", region, n->id);
    ts_text_format(e->text, "  %s [label=\"", to);
    dot_label(e, n);
    if (*ts_graph_where(n)) put(e, "\" tooltip=\"");
    dot_escape(e, ts_graph_where(n));
    put(e, "\"];\n");
    dot_edges(e, region, n->nin, n->in, to);
    dot_regions(e, n, region);
  }
  dot_results(e, g, region);
  dot_updates(e, g, region);
}

void ts_graph_dot(const TsGraph *g, TsText *text) {
  Export e = {.text = text};
  if (ts_names_open(&e.names, g)) text->failed = 1;
  ts_text_format(text, "digraph \"%s\" {\n  node [shape=box fontname=monospace];\n",
                 name(&e, g));
  put(&e, "  edge [fontname=monospace fontsize=10];\n");
  dot_graph(&e, g);
  put(&e, "}\n");
  ts_names_close(&e.names);
}

/* ---- JSON */
static void json_string(Export *e, const char *sigil, const char *s) {
  ts_json_string(e->text, sigil, s, strlen(s));
}

static void json_number(Export *e, double v) {
  const char *quote = isfinite(v) ? "" : "\"";
  put(e, quote);
  ts_text_number(e->text, v);
  put(e, quote);
}

static void json_operand(Export *e, TsVal v) {
  if (!v)
    put(e, "null");
  else if (is_number(v))
    json_number(e, v->node->number);
  else
    json_string(e, "%", name(e, v));
}

static void json_operands(Export *e, const char *key, int n, const TsVal *v) {
  ts_text_format(e->text, "\"%s\":[", key);
  for (int i = 0; i < n; i++) {
    if (i) put(e, ",");
    json_operand(e, v[i]);
  }
  put(e, "]");
}

/* The name and the type of a value, as two members of the object around. */
static void json_value(Export *e, TsVal v) {
  put(e, "\"name\":");
  json_string(e, "%", name(e, v));
  ts_text_format(e->text, ",\"type\":{\"dtype\":\"%s\",\"shape\":[",
                 ts_dtype_name((TsDtype)v->meta.dtype));
  for (int i = 0; i < v->meta.ndim; i++) {
    if (i) put(e, ",");
    ts_text_int(e->text, v->meta.dim[i]);
  }
  put(e, "]}");
}

static void json_attr(Export *e, const TsAttrSpec *s, const TsAttr *a) {
  bool quoted = a->type == TS_ATTR_choice || a->type == TS_ATTR_dtype;
  switch (a->type) {
  case TS_ATTR_f: json_number(e, a->f); break;
  case TS_ATTR_str: json_string(e, "", a->str); break;
  case TS_ATTR_floats:
    put(e, "[");
    for (int i = 0; i < a->n; i++) {
      if (i) put(e, ",");
      json_number(e, a->floats[i]);
    }
    put(e, "]");
    break;
  default:
    if (quoted) put(e, "\"");
    ts_text_attr(e->text, s, a);
    if (quoted) put(e, "\"");
  }
}

/* All that have a value, defaults too. */
static void json_attrs(Export *e, const TsNode *n) {
  int nspec;
  const TsAttrSpec *s = ts_node_attrs(n->op, &nspec);
  const char *before = ",\"attributes\":{";
  for (int i = 0; i < nspec && i < n->nattr; i++) {
    if (n->attr[i].type == TS_ATTR_none) continue;
    ts_text_format(e->text, "%s\"%.*s\":", before, s[i].namelen, s[i].name);
    json_attr(e, &s[i], &n->attr[i]);
    before = ",";
  }
  if (!before[1]) put(e, "}");
}

static void json_body(Export *e, const TsGraph *g);

static void json_regions(Export *e, const TsNode *n) {
  if (!n->nregion) return;
  if (n->op == TS_NODE_call) {
    put(e, ",\"call\":");
    json_string(e, "@", name(e, n->region[0]));
    return;
  }
  put(e, ",\"regions\":[");
  for (int i = 0; i < n->nregion; i++) {
    put(e, i ? ",{" : "{");
    json_body(e, n->region[i]);
    put(e, "}");
  }
  put(e, "]");
}

static void json_node(Export *e, TsNode *n) {
  const char *where = ts_graph_where(n);
  ts_text_format(e->text, "{\"op\":\"%s\",", ts_node_name(n));
  json_operands(e, "in", n->nin, n->in);
  put(e, ",\"out\":[");
  for (int i = 0; i < n->nout; i++) {
    put(e, i ? ",{" : "{");
    json_value(e, &n->out[i]);
    put(e, "}");
  }
  put(e, "]");
  json_attrs(e, n);
  json_regions(e, n);
  if (*where) {
    put(e, ",\"place\":");
    json_string(e, "", where);
  }
  put(e, "}");
}

static void json_params(Export *e, const TsGraph *g) {
  put(e, "\"params\":[");
  for (int i = 0; i < g->nparam; i++) {
    put(e, i ? ",\n{" : "\n{");
    json_value(e, g->param[i]);
    if (g->bound[i]) put(e, ",\"captured\":true");
    put(e, "}");
  }
  put(e, "],\n");
}

static void json_body(Export *e, const TsGraph *g) {
  const char *before = "\"nodes\":[\n";
  json_params(e, g);
  for (int i = 0; i < g->nnode; i++) {
    if (!has_line(g->node[i])) continue;
    put(e, before);
    json_node(e, g->node[i]);
    before = ",\n";
  }
  put(e, before[0] == ',' ? "],\n" : "\"nodes\":[],\n");
  json_operands(e, "results", g->nresult, g->result);
  for (int i = 0; i < g->nupdate; i++) {
    put(e, i ? ",{\"param\":" : ",\n\"updates\":[{\"param\":");
    json_operand(e, g->param[g->update[i].param]);
    put(e, ",\"value\":");
    json_operand(e, g->update[i].value);
    put(e, "}");
  }
  if (g->nupdate) put(e, "]");
}

void ts_graph_json(const TsGraph *g, TsText *text) {
  Export e = {.text = text};
  if (ts_names_open(&e.names, g)) text->failed = 1;
  put(&e, "{\"graphs\":[");
  for (int i = 0; i < e.names.ngraph; i++) {
    put(&e, i ? ",\n{\"name\":" : "\n{\"name\":");
    json_string(&e, "@", name(&e, e.names.graph[i]));
    put(&e, ",\n");
    json_body(&e, e.names.graph[i]);
    put(&e, "}");
  }
  put(&e, "\n]}\n");
  ts_names_close(&e.names);
}
