/* The reader of graph text; the grammar stands in ir/graph/text.c. It builds through the same
 * functions as a capture does, so that wrong text gets the operator's own message, with the
 * line in front. Every step is linear in the text, and regions nest to a limit. */
#include "ir/graph/custom.h"
#include "ir/graph/failing.h"
#include "ir/graph/check.h"
#include "ir/text/line.h"
#include "ir/text/mesh.h"
#include "ir/text/value.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32, MOST_REGIONS = 8, MOST_RESULTS = 1024 };

typedef struct Parser {
  TsReader r;
  TsArena scratch; /* attributes, until the graph has copied them */
  TsTextMap graphs, places;
  TsTextStack names, values, types, type_at; /* TsToken, TsVal, TsMeta, where that stands */
  TsModule *module;
  TsGraph *last;
  int depth, recursive; /* regions around, and those of recursive nodes among them */
} Parser;

/* One graph or region and its names. */
typedef struct Scope {
  TsGraph *g;
  TsTextMap values;
} Scope;

/* A line on its way to become a node; from here on, counts into the parser's stacks. */
typedef struct Line {
  TsToken word;
  int op;
  int names, values, types; /* where its own begin */
  TsGraph *region[MOST_REGIONS];
  int nregion, nattr;
  TsAttr attr[TS_MAX_ATTR];
  const char *choice; /* for its kernel, or NULL */
} Line;

/* ---- names */
static bool is_numbered(const TsToken *t) { return isdigit((unsigned char)t->at[1]); }

static char *own_name(Parser *p, const TsToken *t) {
  char *s = ts_arena_alloc(&p->module->arena, (size_t)t->len);
  if (s)
    memcpy(s, t->at + 1, (size_t)t->len - 1);
  else
    ts_read_no_memory(&p->r);
  return s;
}

static int define(Parser *p, Scope *s, const TsToken *t, TsVal v, bool made) {
  TsMapSlot *slot = ts_text_map_enter(&s->values, t->at + 1, t->len - 1);
  if (!slot) return ts_read_no_memory(&p->r);
  if (slot->value) return ts_read_fail(&p->r, t->at, "%.*s is defined twice", t->len, t->at);
  slot->value = v;
  if (!made || v->name || is_numbered(t)) return 0;
  return (v->name = own_name(p, t)) ? 0 : -1;
}

static TsVal look_up(Parser *p, const Scope *s, const TsToken *t) {
  const TsMapSlot *slot = ts_text_map_find(&s->values, t->at + 1, t->len - 1);
  if (slot) return (TsVal)(uintptr_t)slot->value;
  ts_read_fail(&p->r, t->at, "%.*s is not defined before", t->len, t->at);
  if (s->g->parent) ts_error_hint(p->r.err, "a region sees its parameters only");
  return NULL;
}

/* ---- operands: values, numbers, "_" where an input is absent */
static bool at_operand(const TsReader *r) {
  return r->now.kind == TS_TOKEN_value || ts_read_at_number(r) || ts_read_is_word(r, "_");
}

static int operand(Parser *p, Scope *s, TsVal *out) {
  TsReader *r = &p->r;
  double number;
  TsToken t = r->now;
  *out = NULL;
  if (t.kind == TS_TOKEN_value) {
    if (!(*out = look_up(p, s, &t))) return -1;
  } else if (ts_read_at_number(r)) {
    if (ts_read_number(r, &number)) return -1;
    return (*out = ts_graph_number(s->g, number)) ? 0 : ts_read_blame(r, t.at);
  } else if (!ts_read_is_word(r, "_")) {
    return ts_read_unexpected(r, "an operand");
  }
  return ts_read_next(r);
}

static int operands(Parser *p, Scope *s) {
  do {
    TsVal v, *slot;
    if (operand(p, s, &v) || !(slot = ts_text_push(&p->r, &p->values, sizeof v))) return -1;
    *slot = v;
  } while (ts_read_accept(&p->r, ','));
  return 0;
}

/* ---- heads of graphs and regions */
static int param(Parser *p, Scope *s, bool captured) {
  TsReader *r = &p->r;
  TsToken t = r->now;
  TsMeta m;
  if (ts_read_expect(r, TS_TOKEN_value, "a parameter") ||
      ts_read_expect(r, ':', "':' and the parameter's type"))
    return -1;
  const char *at = r->now.at;
  if (ts_read_type(r, &m)) return -1;
  if (ts_meta_check_size(&m, "parameter", r->err)) return ts_read_blame(r, at);
  TsVal v = ts_graph_param(s->g, &m, NULL, captured ? TS_GRAPH_UNBOUND : NULL);
  return v ? define(p, s, &t, v, true) : ts_read_blame(r, t.at);
}

static int params(Parser *p, Scope *s) {
  bool captured = false;
  if (ts_read_expect(&p->r, '(', "'(' and the parameters")) return -1;
  while (p->r.now.kind != ')') {
    if (ts_read_accept(&p->r, ';')) {
      captured = !captured;
      continue;
    }
    if (param(p, s, captured)) return -1;
    if (p->r.now.kind != ')' && p->r.now.kind != ';' &&
        ts_read_expect(&p->r, ',', "',' or ')' behind the parameter"))
      return -1;
  }
  return ts_read_next(&p->r);
}

/* The results are defined by the lines that follow: their tokens wait on the stack. */
static int result_tokens(Parser *p) {
  TsReader *r = &p->r;
  if (!ts_read_accept(r, TS_TOKEN_arrow)) return 0;
  do {
    if (r->now.kind != TS_TOKEN_value && !ts_read_at_number(r))
      return ts_read_unexpected(r, "a result");
    TsToken *t = ts_text_push(&p->r, &p->names, sizeof *t);
    if (!t) return -1;
    *t = r->now;
    ts_read_next(r);
  } while (ts_read_accept(r, ','));
  return r->failed ? -1 : 0;
}

static int resolve_results(Parser *p, Scope *s, int from) {
  int values = p->values.n, n = p->names.n - from;
  TsReader here = p->r;
  for (int i = 0; i < n; i++) {
    TsVal v, *slot;
    p->r.now = ((TsToken *)p->names.at)[from + i];
    if (operand(p, s, &v) || !(slot = ts_text_push(&p->r, &p->values, sizeof v))) return -1;
    *slot = v;
  }
  p->r = here;
  p->names.n = from;
  p->values.n = values;
  if (!n) return 0;
  return ts_graph_results(s->g, n, (TsVal *)p->values.at + values) ? ts_read_no_memory(&p->r)
                                                                   : 0;
}

static int body(Parser *p, Scope *s);

/* ---- lines */
static int defined_names(Parser *p) {
  TsReader *r = &p->r;
  if (r->now.kind != TS_TOKEN_value) return 0;
  do {
    TsToken *t = ts_text_push(&p->r, &p->names, sizeof *t);
    if (!t) return -1;
    *t = r->now;
    if (ts_read_expect(r, TS_TOKEN_value, "a name")) return -1;
  } while (ts_read_accept(r, ','));
  return ts_read_expect(r, '=', "'=' behind what the line defines");
}

static int operator(Parser *p, Line *n) {
  TsReader *r = &p->r;
  char name[32];
  n->word = r->now;
  if (ts_read_expect(r, TS_TOKEN_word, "an operator")) return -1;
  n->op = ts_node_find(n->word.at, n->word.len);
  if (n->op != TS_NODE_END && n->op != TS_NODE_param && n->op != TS_NODE_number) {
    const TsAttrSpec *spec = ts_node_attrs(n->op, &n->nattr);
    for (int i = 0; i < n->nattr; i++) n->attr[i] = spec[i].preset;
    return 0;
  }
  int len = n->word.len < 31 ? n->word.len : 31;
  memcpy(name, n->word.at, (size_t)len);
  name[len] = 0;
  ts_error_set(r->err, TS_ERR_argument, "there is no operator '%s'", name);
  const char *guess = ts_op_suggest(name);
  if (guess) ts_error_hint(r->err, "did you mean '%s'?", guess);
  return ts_read_blame(r, n->word.at);
}

static int call(Parser *p, Scope *s, Line *n) {
  TsReader *r = &p->r;
  TsToken t = r->now;
  if (ts_read_expect(r, TS_TOKEN_symbol, "'@' and the graph's name") ||
      ts_read_expect(r, '(', "'(' and the arguments"))
    return -1;
  const TsMapSlot *slot = ts_text_map_find(&p->graphs, t.at + 1, t.len - 1);
  if (!slot || !slot->value)
    return ts_read_fail(r, t.at, "there is no graph %.*s before this one", t.len, t.at);
  n->region[n->nregion++] = (TsGraph *)(uintptr_t)slot->value;
  if (r->now.kind != ')' && operands(p, s)) return -1;
  return ts_read_expect(r, ')', "',' or ')' behind the argument");
}

/* What the program chose for its kernel. */
static int choice(Parser *p, Line *n) {
  n->choice = NULL;
  if (!ts_read_is_word(&p->r, "choose")) return 0;
  return ts_read_next(&p->r) || ts_read_string(&p->r, &n->choice) ? -1 : 0;
}

static int regions(Parser *p, Scope *s, Line *n) {
  while (ts_read_is_word(&p->r, "do")) {
    Scope inner = {0};
    if (n->nregion == MOST_REGIONS || p->depth == DEEPEST)
      return ts_read_fail(&p->r, p->r.now.at,
                          "regions more than %d deep, or more than %d in a line", DEEPEST,
                          MOST_REGIONS);
    ts_read_next(&p->r);
    if (!(inner.g = ts_graph_region(s->g, s->g->name))) return ts_read_no_memory(&p->r);
    p->depth++;
    p->recursive += n->op == TS_NODE_recursive;
    int bad = body(p, &inner);
    p->depth--;
    p->recursive -= n->op == TS_NODE_recursive;
    ts_text_map_free(&inner.values);
    if (bad) return -1;
    n->region[n->nregion++] = inner.g;
  }
  return 0;
}

static int types(Parser *p) {
  if (!ts_read_accept(&p->r, ':')) return 0;
  do {
    TsMeta *m = ts_text_push(&p->r, &p->types, sizeof *m);
    const char **at = ts_text_push(&p->r, &p->type_at, sizeof *at);
    if (!m || !at) return -1;
    *at = p->r.now.at;
    if (ts_read_type(&p->r, m)) return -1;
  } while (ts_read_accept(&p->r, ','));
  return p->r.failed ? -1 : 0;
}

static int place(Parser *p) {
  const char *text;
  TsMapSlot *slot = ts_text_place(&p->r, &p->places, &p->scratch, &text);
  if (text) slot->count = ts_graph_place(p->module, text);
  return slot ? slot->count : 0;
}

/* ---- nodes */
/* A text that names the streams of its random calls goes on counting behind them. */
static void count_stream(Parser *p, const Line *n) {
  if (ts_op_info((TsOp)n->op)->cls != TS_CLASS_RANDOM) return;
  const TsAttr *stream = &n->attr[n->nattr - 1];
  if (stream->type != TS_ATTR_int) return;
  if (stream->i < -p->module->nrandom && stream->i > -(INT64_C(1) << 60))
    p->module->nrandom = -stream->i;
}

static int absent_operand(Parser *p, const Line *n, int nin, const TsVal *in) {
  const TsOpInfo *o = n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op) : NULL;
  for (int i = 0; i < nin; i++) {
    if (in[i] || (o && !o->variadic && (i >= o->nin || !(o->required >> i & 1)))) continue;
    return ts_read_fail(&p->r, n->word.at, "%.*s: operand %d cannot be left out", n->word.len,
                        n->word.at, i);
  }
  return 0;
}

static int emit_op(Parser *p, Scope *s, Line *n, int nin, const TsVal *in, TsVal *out) {
  int nout = 0;
  if (n->nregion)
    return ts_read_fail(&p->r, n->word.at, "%.*s has no regions", n->word.len, n->word.at);
  count_stream(p, n);
  if (!ts_graph_emit(s->g, (TsOp)n->op, nin, in, n->attr, out, &nout))
    return ts_read_blame(&p->r, n->word.at);
  return nout;
}

/* Two custom nodes of a graph differ at least in what they call, so each line has a marker. */
static int emit_node(Parser *p, Scope *s, Line *n, int nin, const TsVal *in, TsVal *out) {
  int nout = p->types.n - n->types;
  if (nout > MOST_RESULTS)
    return ts_read_fail(&p->r, n->word.at, "more than %d results", MOST_RESULTS);
  if (n->op == TS_NODE_recur && !p->recursive)
    return ts_read_fail(&p->r, n->word.at, "recur stands in no recursive");
  const TsMeta *meta = (TsMeta *)p->types.at + n->types;
  TsCustom *ref = n->op == TS_NODE_custom ? ts_custom_unknown() : NULL;
  TsNode *made = ts_graph_node(s->g, (TsNodeOp)n->op, nin, in, n->nregion, n->region, n->nattr,
                               n->attr, nout, meta, ref);
  ts_custom_unref(ref);
  if (!made) return ts_read_no_memory(&p->r);
  if (ts_node_check(made, p->r.err)) return ts_read_blame(&p->r, n->word.at);
  for (int i = 0; i < made->nout; i++) out[i] = &made->out[i];
  return made->nout;
}

/* The types on the line, where it has some, are those of the results. */
static int compare_types(Parser *p, const Line *n, int nout, const TsVal *out) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  const TsMeta *said = (TsMeta *)p->types.at + n->types;
  const char *const *at = (const char **)p->type_at.at + n->types;
  int ntype = p->types.n - n->types, nname = p->names.n - n->names;
  if (nname != nout || (ntype && ntype != nout))
    return ts_read_fail(&p->r, n->word.at,
                        "%.*s: %d results, the line has %d names and %d types", n->word.len,
                        n->word.at, nout, nname, ntype);
  for (int i = 0; i < ntype; i++) {
    ts_meta_text(&said[i], a), ts_meta_text(&out[i]->meta, b);
    bool lies = said[i].layout == out[i]->meta.layout || !strcmp(a, b);
    if (ts_type_same(&said[i], &out[i]->meta) && lies) continue;
    ts_error_set(p->r.err, TS_ERR_shape, "%.*s: its type is %s, the line says %s", n->word.len,
                 n->word.at, ts_meta_text(&out[i]->meta, a), ts_meta_text(&said[i], b));
    return ts_read_blame(&p->r, at[i]);
  }
  return 0;
}

static int emit(Parser *p, Scope *s, Line *n) {
  TsVal out[MOST_RESULTS];
  const TsVal *in = (TsVal *)p->values.at + n->values;
  int nin = p->values.n - n->values, before = s->g->nnode;
  s->g->line = place(p);
  s->g->choice = n->choice;
  if (absent_operand(p, n, nin, in)) return -1;
  int nout = (n->op < TS_OP_COUNT ? emit_op : emit_node)(p, s, n, nin, in, out);
  if (nout < 0 || compare_types(p, n, nout, out)) return -1;
  const TsToken *t = (TsToken *)p->names.at + n->names;
  for (int i = 0; i < nout; i++)
    if (define(p, s, &t[i], out[i], (int)out[i]->node->id >= before)) return -1;
  return 0;
}

static int node_line(Parser *p, Scope *s) {
  Line n = {.names = p->names.n, .values = p->values.n, .types = p->types.n};
  int spec;
  if (defined_names(p) || operator(p, &n)) return -1;
  if (n.op == TS_NODE_call ? call(p, s, &n) : at_operand(&p->r) && operands(p, s)) return -1;
  const TsAttrSpec *attrs = ts_node_attrs(n.op, &spec);
  if (ts_read_attrs(&p->r, &n.word, attrs, spec, n.attr) || choice(p, &n) ||
      regions(p, s, &n) || types(p))
    return -1;
  if (p->r.failed || emit(p, s, &n)) return -1;
  p->names.n = n.names;
  p->values.n = n.values;
  p->types.n = p->type_at.n = n.types;
  return 0;
}

static int update_line(Parser *p, Scope *s) {
  TsReader *r = &p->r;
  TsVal param, v;
  ts_read_next(r);
  TsToken t = r->now;
  if (t.kind != TS_TOKEN_value) return ts_read_unexpected(r, "a parameter");
  if (operand(p, s, &param) || ts_read_expect(r, '=', "'=' and the new value")) return -1;
  const char *at = r->now.at;
  if (ts_read_is_word(r, "_")) return ts_read_unexpected(r, "a value");
  if (operand(p, s, &v) || r->failed) return -1;
  if (param->node->op != TS_NODE_param)
    return ts_read_fail(r, t.at, "update: %.*s is not a parameter", t.len, t.at);
  int i = (int)param->node->number, before = s->g->nupdate;
  if (ts_update_check(s->g, i, v, r->err)) return ts_read_blame(r, at);
  if (ts_graph_update(s->g, i, v)) return ts_read_no_memory(&p->r);
  if (s->g->nupdate > before) return 0;
  return ts_read_fail(r, t.at, "update: %.*s is written twice", t.len, t.at);
}

static int body(Parser *p, Scope *s) {
  int from = p->names.n;
  if (params(p, s) || result_tokens(p) || ts_read_expect(&p->r, '{', "'{'")) return -1;
  while (p->r.now.kind != '}') {
    TsToken t = p->r.now;
    if (t.kind != TS_TOKEN_value && t.kind != TS_TOKEN_word)
      return ts_read_unexpected(&p->r, "a line or '}'");
    if (ts_read_is_word(&p->r, "update") ? update_line(p, s) : node_line(p, s)) return -1;
  }
  if (ts_read_next(&p->r) || resolve_results(p, s, from)) return -1;
  return ts_graph_keep_failing(s->g, 0, NULL) ? ts_read_no_memory(&p->r) : 0;
}

/* ---- the text */
static TsGraph *new_graph(Parser *p, const TsToken *t) {
  char name[64];
  int len = t->len - 1 < 63 ? t->len - 1 : 63;
  memcpy(name, t->at + 1, (size_t)len);
  name[len] = 0;
  TsGraph *g =
      p->module ? ts_graph_in_module(p->module, name, p->r.err) : ts_graph_new(name, p->r.err);
  if (!g) return ts_read_blame(&p->r, t->at), NULL;
  p->last = g;
  p->module = g->module;
  if (t->len - 1 > len && !(g->name = own_name(p, t))) return NULL;
  return g;
}

static int graph(Parser *p) {
  TsReader *r = &p->r;
  if (!ts_read_is_word(r, "graph")) return ts_read_unexpected(r, "'graph'");
  ts_read_next(r);
  TsToken t = r->now;
  Scope s = {0};
  if (ts_read_expect(r, TS_TOKEN_symbol, "'@' and the graph's name")) return -1;
  TsMapSlot *slot = ts_text_map_enter(&p->graphs, t.at + 1, t.len - 1);
  if (!slot) return ts_read_no_memory(&p->r);
  if (slot->value) return ts_read_fail(r, t.at, "%.*s is defined twice", t.len, t.at);
  if (!(s.g = new_graph(p, &t))) return -1;
  int bad = body(p, &s);
  ts_text_map_free(&s.values);
  /* Entered when it is complete, so that it cannot call itself. */
  if (!bad) ts_text_map_find(&p->graphs, t.at + 1, t.len - 1)->value = s.g;
  return bad;
}

TsGraph *ts_graph_parse(const char *text, TsError *err) {
  return ts_graph_parse_at(text, NULL, err);
}

TsGraph *ts_graph_parse_at(const char *text, const int64_t *symbol, TsError *err) {
  Parser p = {0};
  ts_read_open(&p.r, text, &p.scratch, err);
  p.r.symbol = symbol;
  p.r.sized = true;
  int bad = ts_read_mesh(&p.r) || graph(&p);
  while (!bad && p.r.now.kind != TS_TOKEN_end) bad = graph(&p);
  TsGraph *last = p.last;
  if (bad) ts_graph_free(last), last = NULL; /* with its module */
  ts_arena_free(&p.scratch);
  ts_text_map_free(&p.graphs);
  ts_text_map_free(&p.places);
  free(p.names.at);
  free(p.values.at);
  free(p.types.at);
  free(p.type_at.at);
  return last;
}
