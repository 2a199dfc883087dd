/* Graphs: modules, nodes, interning, and the builder that emits into them. */
#include "ir/graph/graph.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/custom.h"

static const char *const node_name[] = {
#define NODE(name, attrs, help) #name,
#include "ir/graph/graph.def"
#undef NODE
};

const char *ts_node_name(const TsNode *n) {
  return n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op)->name : node_name[n->op - TS_OP_COUNT];
}

static int no_memory(TsGraph *g) {
  g->b.failed = true;
  return ts_error_memory(g->err);
}

/* ---- modules */
int ts_graph_place(TsModule *u, const char *place) {
  /* A function has few lines, and the newest one is asked for most. */
  for (int i = u->nplace; i-- > 0;)
    if (!strcmp(u->place[i], place)) return i;
  if (u->nplace == u->capplace) {
    int cap = u->capplace ? u->capplace * 2 : 16;
    const char **p = ts_arena_alloc(&u->arena, sizeof *p * (size_t)cap);
    if (!p) return u->lacking = true, 0;
    if (u->nplace) memcpy(p, u->place, sizeof *p * (size_t)u->nplace);
    u->place = p;
    u->capplace = cap;
  }
  char *text = ts_arena_text(&u->arena, place);
  if (!text) return u->lacking = true, 0;
  u->place[u->nplace] = text;
  return u->nplace++;
}

const char *ts_graph_where(const TsNode *n) {
  const TsModule *u = n->out[0].graph->module;
  return n->line > 0 && n->line < u->nplace ? u->place[n->line] : "";
}

static TsVal emit(TsBuild *b, TsOp op, int nin, const TsVal *in, const TsAttr *attr,
                  TsVal *out) {
  return ts_graph_emit((TsGraph *)b, op, nin, in, attr, out, NULL);
}

static const TsMeta *meta(TsBuild *b, TsVal v) {
  static const TsMeta nothing = {.dtype = TS_DT_f32};
  (void)b;
  return v ? &v->meta : &nothing;
}

static TsVal number(TsBuild *b, double value) {
  return b->failed ? NULL : ts_graph_number((TsGraph *)b, value);
}

TsGraph *ts_graph_in_module(TsModule *u, const char *name, TsError *err) {
  static atomic_uint_fast64_t last;
  TsGraph *g = ts_arena_alloc(&u->arena, sizeof *g);
  char *own = g ? ts_arena_text(&u->arena, name) : NULL;
  if (!own) return ts_error_memory(err), NULL;
  g->b = (TsBuild){.emit = emit, .meta = meta, .number = number, .err = err};
  g->module = u;
  g->serial = atomic_fetch_add(&last, 1) + 1;
  g->name = own;
  g->err = err;
  return g;
}

TsGraph *ts_graph_new(const char *name, TsError *err) {
  TsModule *u = calloc(1, sizeof *u);
  TsGraph *g = u ? ts_graph_in_module(u, name, err) : NULL;
  if (!g) {
    if (u) ts_arena_free(&u->arena);
    free(u);
    ts_error_memory(err);
    return NULL;
  }
  u->refs = 1;
  ts_graph_place(u, "");
  return g;
}

TsGraph *ts_graph_region(TsGraph *parent, const char *name) {
  TsGraph *g = ts_graph_in_module(parent->module, name, parent->err);
  if (g) g->parent = parent;
  if (g) g->line = parent->line, g->backward = parent->backward;
  return g;
}

void ts_graph_free(TsGraph *g) {
  if (!g || --g->module->refs > 0) return;
  TsModule *u = g->module;
  for (int i = 0; i < u->nheld; i++) ts_custom_unref(u->held[i]);
  ts_text_free(&u->recognised);
  ts_graph_free(u->whole);
  ts_arena_free(&u->arena);
  free(u);
}

/* ---- growing lists in the arena: the old one is left behind, sizes double */
static bool grow(TsGraph *g, void *list, int n, int *cap, size_t size) {
  if (n < *cap) return true;
  int more = *cap ? *cap * 2 : 8;
  void **at = list, *p = ts_arena_alloc(&g->module->arena, size * (size_t)more);
  if (!p) return no_memory(g), false;
  if (n) memcpy(p, *at, size * (size_t)n);
  *at = p;
  *cap = more;
  return true;
}

/* ---- interning */
static uint32_t mix(uint32_t h, uint64_t v) {
  v = (v ^ h) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(v >> 32) ^ (uint32_t)v * 0x85ebca6bu;
}

static uint32_t mix_bytes(uint32_t h, const void *p, size_t n) {
  const unsigned char *c = p;
  for (size_t i = 0; i < n; i++) h = (h ^ c[i]) * 0x01000193u;
  return h;
}

static size_t list_nbytes(const TsAttr *a) { return 8 * (size_t)a->n; }

static bool is_list(const TsAttr *a) {
  return a->type == TS_ATTR_ints || a->type == TS_ATTR_floats;
}

static uint32_t hash_attr(uint32_t h, const TsAttr *a) {
  h = mix(h, a->type);
  if (is_list(a)) return mix_bytes(h, a->ints, list_nbytes(a));
  if (a->type == TS_ATTR_str) return mix_bytes(h, a->str, strlen(a->str));
  return a->type == TS_ATTR_none ? h : mix(h, (uint64_t)a->i);
}

static bool same_attr(const TsAttr *a, const TsAttr *b) {
  if (a->type != b->type) return false;
  if (is_list(a)) return a->n == b->n && (!a->n || !memcmp(a->ints, b->ints, list_nbytes(a)));
  if (a->type == TS_ATTR_str) return !strcmp(a->str, b->str);
  return a->type == TS_ATTR_none || a->i == b->i;
}

static uint32_t hash_node(const TsNode *n) {
  uint32_t h = mix(n->op, (uint64_t)n->nin);
  for (int i = 0; i < n->nin; i++) h = mix(h, (uint64_t)(uintptr_t)n->in[i]);
  for (int i = 0; i < n->nattr; i++) h = hash_attr(h, &n->attr[i]);
  for (int i = 0; i < n->nregion; i++) h = mix(h, (uint64_t)(uintptr_t)n->region[i]);
  if (n->choice) h = mix_bytes(h, n->choice, strlen(n->choice));
  uint64_t bits;
  memcpy(&bits, &n->number, 8);
  return mix(mix(h, bits), n->ref ? n->ref->identity : 0);
}

static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static bool same_node(const TsNode *a, const TsNode *b) {
  if (a->hash != b->hash || a->op != b->op || a->nin != b->nin || a->nattr != b->nattr ||
      a->nregion != b->nregion || !ts_custom_same(a->ref, b->ref) ||
      memcmp(&a->number, &b->number, 8))
    return false;
  for (int i = 0; i < a->nin; i++)
    if (a->in[i] != b->in[i]) return false;
  for (int i = 0; i < a->nregion; i++)
    if (a->region[i] != b->region[i]) return false;
  for (int i = 0; i < a->nattr; i++)
    if (!same_attr(&a->attr[i], &b->attr[i])) return false;
  return same_text(a->choice, b->choice);
}

/* A copy is there to be another tensor: no two are one. */
static TsNode *find(const TsGraph *g, const TsNode *n) {
  if (!g->nbucket || n->op == TS_OP_clone) return NULL;
  for (int32_t i = g->bucket[n->hash & (uint32_t)(g->nbucket - 1)]; i >= 0;
       i = g->node[i]->next)
    if (same_node(g->node[i], n)) return g->node[i];
  return NULL;
}

static void chain(TsGraph *g, TsNode *n) {
  int32_t *b = &g->bucket[n->hash & (uint32_t)(g->nbucket - 1)];
  n->next = *b;
  *b = (int32_t)n->id;
}

static bool rehash(TsGraph *g) {
  if (g->nnode < g->nbucket) return true;
  int size = g->nbucket ? g->nbucket * 2 : 32;
  int32_t *b = ts_arena_alloc(&g->module->arena, sizeof *b * (size_t)size);
  if (!b) return no_memory(g), false;
  for (int i = 0; i < size; i++) b[i] = -1;
  g->bucket = b;
  g->nbucket = size;
  for (int i = 0; i < g->nnode; i++) chain(g, g->node[i]);
  return true;
}

/* ---- nodes */
static const TsAttr *copy_attrs(TsGraph *g, int n, const TsAttr *attr) {
  TsArena *a = &g->module->arena;
  TsAttr *to = ts_arena_copy(a, attr, sizeof *to * (size_t)n);
  for (int i = 0; to && i < n; i++) {
    if (is_list(&to[i]) && !(to[i].ints = ts_arena_copy(a, attr[i].ints, list_nbytes(&to[i]))))
      return NULL;
    if (to[i].type == TS_ATTR_str && !(to[i].str = ts_arena_text(a, attr[i].str))) return NULL;
  }
  return to;
}

static bool hold(TsGraph *g, TsCustom *ref) {
  TsModule *u = g->module;
  if (!ref) return true;
  if (!grow(g, &u->held, u->nheld, &u->capheld, sizeof *u->held)) return false;
  u->held[u->nheld++] = ts_custom_ref(ref);
  return true;
}

/* Enters a copy of the node described by n, unless there is an equal one. */
static TsNode *intern(TsGraph *g, TsNode *n, int nout, const TsMeta *out, bool unique) {
  TsArena *a = &g->module->arena;
  n->hash = hash_node(n);
  TsNode *made = unique || g->apart ? NULL : find(g, n);
  if (made) return made->runs |= n->runs, made->bytes |= n->bytes, made;
  if (!rehash(g) || !grow(g, &g->node, g->nnode, &g->capnode, sizeof *g->node)) return NULL;
  made = ts_arena_alloc(a, sizeof *made + sizeof(TsValue) * (size_t)(nout ? nout : 1));
  if (!made) return no_memory(g), NULL;
  *made = *n;
  made->nout = nout;
  made->line = g->line;
  g->reverses |= made->reversed;
  if (!made->as) made->as = g->as;
  made->id = (uint32_t)g->nnode;
  made->in = ts_arena_copy(a, n->in, sizeof *n->in * (size_t)n->nin);
  made->attr = copy_attrs(g, n->nattr, n->attr);
  made->region = ts_arena_copy(a, n->region, sizeof *n->region * n->nregion);
  if (n->choice) made->choice = ts_arena_text(a, n->choice);
  if (!made->in || !made->attr || !made->region || (n->choice && !made->choice))
    return no_memory(g), NULL;
  if (!hold(g, made->ref)) return NULL;
  made->out[0].graph = g;
  for (int i = 0; i < nout; i++)
    made->out[i] = (TsValue){.node = made, .graph = g, .index = i, .meta = out[i]};
  g->node[g->nnode++] = made;
  chain(g, made);
  return made;
}

TsVal ts_graph_param(TsGraph *g, const TsMeta *m, const char *name, void *bound) {
  TsNode n = {.op = TS_NODE_param};
  int cap = g->capparam;
  if (!grow(g, &g->param, g->nparam, &cap, sizeof *g->param)) return NULL;
  cap = g->capparam;
  if (!grow(g, &g->bound, g->nparam, &cap, sizeof *g->bound)) return NULL;
  if (!grow(g, &g->outer, g->nparam, &g->capparam, sizeof *g->outer)) return NULL;
  n.number = g->nparam;
  TsNode *made = intern(g, &n, 1, m, true);
  if (!made) return NULL;
  if (name && !(made->out[0].name = ts_arena_text(&g->module->arena, name)))
    return no_memory(g), NULL;
  g->bound[g->nparam] = bound;
  g->outer[g->nparam] = NULL;
  return g->param[g->nparam++] = &made->out[0];
}

TsVal ts_graph_number(TsGraph *g, double value) {
  TsMeta m = ts_meta_number(value);
  TsNode n = {.op = TS_NODE_number, .number = value};
  TsNode *made = intern(g, &n, 1, &m, false);
  return made ? &made->out[0] : NULL;
}

TsNode *ts_graph_node(TsGraph *g, TsNodeOp op, int nin, const TsVal *in, int nregion,
                      TsGraph *const *region, int nattr, const TsAttr *attr, int nout,
                      const TsMeta *out, TsCustom *ref) {
  TsNode n = {.op = (uint16_t)op,
              .nin = nin,
              .in = in,
              .nregion = (uint16_t)nregion,
              .region = (TsGraph **)(uintptr_t)region,
              .nattr = nattr,
              .attr = attr,
              .ref = ref,
              .backward = g->backward,
              .reversed = g->backward && !g->forward};
  return intern(g, &n, nout, out, false);
}

int ts_graph_set_ref(TsGraph *g, TsNode *n, TsCustom *ref) {
  if (!hold(g, ref)) return -1;
  n->ref = ref;
  return 0;
}

static TsNode *again(TsGraph *g, const TsNode *n, const TsVal *in, TsGraph *const *region,
                     const TsAttr *attr, const char *choice) {
  TsNode same = *n;
  same.choice = choice;
  TsMeta few[8], *m = n->nout <= 8 ? few : malloc(sizeof *m * (size_t)n->nout);
  if (!m) return no_memory(g), NULL;
  for (int i = 0; i < n->nout; i++) m[i] = n->out[i].meta;
  same.in = in;
  if (attr) same.attr = attr;
  same.region = (TsGraph **)(uintptr_t)region;
  int line = g->line;
  g->module->lacking |= n->out[0].graph->module->lacking;
  if (n->line > 0 && n->out[0].graph->module == g->module)
    g->line = n->line;
  else if (n->line > 0)
    g->line = ts_graph_place(g->module, ts_graph_where(n));
  TsNode *made = intern(g, &same, n->nout, m, false);
  g->line = line;
  if (m != few) free(m);
  return made;
}

TsNode *ts_graph_again(TsGraph *g, const TsNode *n, const TsVal *in, TsGraph *const *region,
                       const TsAttr *attr) {
  return again(g, n, in, region, attr, n->choice);
}

TsNode *ts_graph_chosen(TsGraph *g, const TsNode *n, const char *choice) {
  return again(g, n, n->in, n->region, NULL, choice);
}

TsNode *ts_graph_raw(TsGraph *g, const TsNode *n, const TsVal *in, TsGraph *const *region,
                     const TsAttr *attr, double number, const TsMeta *out) {
  TsNode same = *n;
  same.in = in, same.attr = attr, same.number = number;
  same.region = (TsGraph **)(uintptr_t)region;
  g->module->lacking |= n->out[0].graph->module->lacking;
  g->line = n->line > 0 ? ts_graph_place(g->module, ts_graph_where(n)) : 0;
  return intern(g, &same, n->nout, out, false);
}

/* ---- operators */
static int wrong_inputs(TsGraph *g, const TsOpInfo *o, int nin, const TsVal *in) {
  int most = o->variadic ? 1 << 20 : o->nin;
  if (nin < o->nrequired || nin > most || (o->variadic && nin == 0)) {
    ts_error_set(g->err, TS_ERR_argument, "%s: %d tensors given, takes %s%s", o->name, nin,
                 o->nin ? "" : "none", o->inputs);
    return ts_error_hint(g->err, "see ? %s", o->name);
  }
  for (int i = 0; i < o->nrequired; i++)
    if (!in[i] && o->required >> i & 1)
      return ts_error_set(g->err, TS_ERR_argument, "%s: input '%s' is missing", o->name,
                          o->input[i]);
  return 0;
}

/* Random calls without a stream get the next of the function: -1, -2, ... count from the
 * stream at which a run of the function starts. */
static void pin_stream(TsGraph *g, const TsOpInfo *o, TsAttr *attr) {
  TsAttr *stream = &attr[o->nattr - 1], *seed = &attr[o->nattr - 2];
  if (o->cls != TS_CLASS_RANDOM || stream->type != TS_ATTR_none || seed->type != TS_ATTR_none)
    return;
  *stream = ts_b_int(-++g->module->nrandom);
}

/* Random calls have streams of their own and become something else each time. */
static int note_call(TsGraph *g, const TsCompose *k) {
  TsArena *a = &g->module->arena;
  TsCalled c = {.op = k->op, .nin = k->nin, .nout = k->nout};
  c.in = ts_arena_copy(a, k->given, sizeof *k->given * (size_t)k->nin);
  c.out = ts_arena_copy(a, k->out, sizeof *k->out * (size_t)k->nout);
  c.attr = copy_attrs(g, ts_op_info(k->op)->nattr, k->attr);
  if (g->choice) c.choice = ts_arena_text(a, g->choice);
  if (!c.in || !c.out || !c.attr || (g->choice && !c.choice)) return no_memory(g);
  if (!grow(g, &g->called, g->ncalled, &g->capcalled, sizeof *g->called)) return -1;
  g->called[g->ncalled++] = c;
  return 0;
}

int ts_graph_note_derived(TsGraph *g, const TsDerived *d) {
  TsArena *a = &g->module->arena;
  TsDerived own = *d;
  own.x = ts_arena_copy(a, d->x, sizeof *d->x * (size_t)d->nx);
  own.v = ts_arena_copy(a, d->v, sizeof *d->v * (size_t)d->nx);
  if (!own.x || !own.v) return no_memory(g);
  if (!grow(g, &g->derived, g->nderived, &g->capderived, sizeof *g->derived)) return -1;
  g->derived[g->nderived++] = own;
  return 0;
}

static int expand(TsGraph *g, TsOp op, int nin, const TsVal *in, const TsAttr *attr, TsVal *out,
                  int *nout) {
  TsCompose k = {.b = &g->b,
                 .op = op,
                 .nin = nin,
                 .given = in,
                 .attr = attr,
                 .nout = 1,
                 .room = 1024,
                 .out = out};
  bool inner = g->expanding;
  int64_t nrandom = g->module->nrandom;
  g->expanding = true;
  if (!inner) g->as = (uint16_t)(op + 1);
  int failed = ts_compose(&k) || g->b.failed;
  g->expanding = inner;
  if (!inner) g->as = 0;
  *nout = k.nout;
  if (failed || inner || !g->calling || g->module->nrandom != nrandom) return failed ? -1 : 0;
  return note_call(g, &k);
}

static int infer(TsGraph *g, TsInfer *inf, const TsMeta **m, const TsVal *in) {
  for (int i = 0; i < inf->nin; i++) {
    m[i] = in[i] ? &in[i]->meta : NULL;
    if (!in[i] || in[i]->node->op != TS_NODE_number || i >= TS_MAX_IN) continue;
    inf->number[i] = in[i]->node->number;
    inf->known |= 1u << i;
  }
  inf->in = m;
  inf->err = g->err;
  if (ts_op_infer(inf)) return -1;
  if (inf->dynamic) {
    ts_error_set(g->err, TS_ERR_value,
                 "%s: its result's shape depends on data and cannot be captured",
                 ts_op_info(inf->op)->name);
    return ts_error_hint(g->err, "use op.where or op.masked_fill, or call it outside");
  }
  for (int i = 0; i < inf->nout; i++) inf->out[i].weak = 0, inf->out[i].device = 0;
  return 0;
}

static TsNode *add_op(TsGraph *g, TsOp op, int nin, const TsVal *in, const TsAttr *attr);

/* The call with its bare numbers cast to what the row takes them as. */
static TsNode *with_tensors(TsGraph *g, const TsInfer *inf, const TsVal *in,
                            const TsAttr *attr) {
  TsVal *v = malloc(sizeof *v * (size_t)inf->nin);
  if (!v) return no_memory(g), NULL;
  for (int i = 0; i < inf->nin; i++) {
    TsDtype d = ts_op_number_dtype(inf, i);
    v[i] = d == TS_DT_none ? in[i] : ts_build_cast(&g->b, in[i], d);
  }
  TsNode *made = g->b.failed ? NULL : add_op(g, inf->op, inf->nin, v, attr);
  free(v);
  return made;
}

static TsNode *add_op(TsGraph *g, TsOp op, int nin, const TsVal *in, const TsAttr *attr) {
  const TsOpInfo *o = ts_op_info(op);
  const TsMeta *few[16], **m = nin <= 16 ? few : malloc(sizeof *m * (size_t)nin);
  TsInfer inf = {.op = op, .nin = nin, .attr = attr, .settles = g->as || g->backward};
  TsNode n = {.op = (uint16_t)op,
              .nin = nin,
              .in = in,
              .nattr = o->nattr,
              .attr = attr,
              .backward = g->backward,
              .reversed = g->backward && !g->forward};
  TsNode *made = NULL;
  if (o->cls != TS_CLASS_VIEW) n.choice = g->choice;
  if (!m) return no_memory(g), NULL;
  n.hash = hash_node(&n);
  bool known = (made = find(g, &n)) || infer(g, &inf, m, in), numbers = false;
  for (int i = 0; i < nin && !known; i++) numbers |= ts_op_number_dtype(&inf, i) != TS_DT_none;
  if (numbers)
    made = with_tensors(g, &inf, in, attr);
  else if (!known)
    made = intern(g, &n, inf.nout, inf.out, true);
  if (m != few) free(m);
  return made;
}

/* A call that fails has drawn nothing. */
static TsVal failed_call(TsGraph *g, int64_t nrandom) {
  g->module->nrandom = nrandom;
  g->b.failed = true;
  return NULL;
}

TsVal ts_graph_emit(TsGraph *g, TsOp op, int nin, const TsVal *in, const TsAttr *attr,
                    TsVal *out, int *nout) {
  const TsOpInfo *o = ts_op_info(op);
  TsAttr full[TS_MAX_ATTR];
  TsVal own[1024];
  int made = 0;
  own[0] = NULL;
  if (g->b.failed) return NULL;
  if (attr)
    memcpy(full, attr, sizeof *attr * o->nattr);
  else
    ts_op_defaults(op, full);
  g->b.failed = wrong_inputs(g, o, nin, in) || ts_op_check_attrs(op, full, g->err);
  if (g->b.failed) return NULL;
  while (nin > o->nrequired && !in[nin - 1]) nin--; /* one form for absent inputs */
  int64_t nrandom = g->module->nrandom;
  if (ts_class_composed(o->cls)) {
    if (expand(g, op, nin, in, full, own, &made)) return failed_call(g, nrandom);
  } else {
    pin_stream(g, o, full);
    TsNode *n = add_op(g, op, nin, in, full);
    if (!n) return failed_call(g, nrandom);
    made = n->nout;
    for (int i = 0; i < made; i++) own[i] = &n->out[i];
  }
  if (out) memcpy(out, own, sizeof *out * (size_t)made);
  if (nout) *nout = made;
  return own[0];
}

/* ---- results and regions */
int ts_graph_results(TsGraph *g, int n, const TsVal *v) {
  g->result = ts_arena_copy(&g->module->arena, v, sizeof *v * (size_t)n);
  if (!g->result) return no_memory(g);
  g->nresult = n;
  g->bytes = NULL, g->spread = NULL;
  return 0;
}

int ts_graph_result_bytes(TsGraph *g, const int *bytes) {
  g->bytes = ts_arena_copy(&g->module->arena, bytes, sizeof *bytes * (size_t)g->nresult);
  return g->bytes ? 0 : no_memory(g);
}

int ts_graph_result_spread(TsGraph *g, const bool *spread) {
  g->spread = ts_arena_copy(&g->module->arena, spread, sizeof *spread * (size_t)g->nresult);
  return g->spread ? 0 : no_memory(g);
}

int ts_graph_update(TsGraph *g, int param, TsVal v) {
  for (int i = 0; i < g->nupdate; i++)
    if (g->update[i].param == param) return g->update[i].value = v, 0;
  if (!grow(g, &g->update, g->nupdate, &g->capupdate, sizeof *g->update)) return -1;
  g->update[g->nupdate++] = (TsUpdate){param, v};
  return 0;
}

static bool within(const TsGraph *inner, const TsGraph *outer) {
  for (; inner; inner = inner->parent)
    if (inner == outer) return true;
  return false;
}

TsVal ts_graph_import(TsGraph *g, TsVal v) {
  if (!v || v->graph == g) return v;
  if (v->node->op == TS_NODE_number) return ts_graph_number(g, v->node->number);
  if (!within(g, v->graph)) {
    ts_error_set(g->err, TS_ERR_value, "a value of another function (%s) is used in %s",
                 v->graph->name, g->name);
    ts_error_hint(g->err, "return it from there, or pass it as an argument");
    return NULL;
  }
  TsVal up = ts_graph_import(g->parent, v);
  if (!up) return NULL;
  for (int i = 0; i < g->nparam; i++)
    if (g->outer[i] == up) return g->param[i];
  TsVal p = ts_graph_param(g, &up->meta, NULL, NULL);
  if (p) g->outer[g->nparam - 1] = up;
  return p;
}
