/* Laws of graph text: what is printed reads back as the same graph, and prints the same again.
 * Random graphs over every operator of the table, names and numbers that are hard, graphs that
 * are not legal, and memory that runs out at the n-th allocation.
 * Usage: graph_text_test [rounds [seed]], or graph_text_test --time. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/graph/custom.h"
#include "ir/graph/graph.h"
#include "ir/graph/export.h"
#include "tests/ir/failing.h"

static int failed;

#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

/* ---- the laws */
static void laws(const TsGraph *g) {
  TsText once = {0}, again = {0}, why = {0}, other = {0};
  TsError err = {0};
  if (ts_graph_check(g, &err)) failed++, printf("illegal: %s\n", err.message);
  ts_graph_text(g, &once);
  TsGraph *h = ts_graph_parse(once.at, &err);
  if (!h) {
    failed++;
    printf("does not read back: %s\n%s\n", err.message, once.at);
  } else {
    if (!ts_graph_equal(g, h, &why)) failed++, printf("differs: %s\n%s\n", why.at, once.at);
    if (ts_graph_check(h, &err)) failed++, printf("illegal when read: %s\n", err.message);
    ts_graph_text(h, &again);
    if (strcmp(once.at, again.at))
      failed++, printf("once:\n%s\nagain:\n%s\n", once.at, again.at);
    ts_graph_json(h, &other);
    ts_graph_dot(h, &other);
    ts_graph_text_places(h, &other);
  }
  ts_graph_free(h);
  ts_text_free(&once);
  ts_text_free(&again);
  ts_text_free(&why);
  ts_text_free(&other);
}

/* ---- random graphs */
static uint64_t state = 1;

static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static double some_number(void) {
  static const double list[] = {
      0,    -0.0, 1,    2,       -1,       0.5,        1e-5,    3.25e100,
      1e15, 1e14, 1e16, 5e-324,  2.5e-310, 0.1,        1.0 / 3, INFINITY,
      1e21, NAN,  8,    -NAN,    -1e-300,  0x1p53,     1e22,    -INFINITY,
      3,    4,    12,   123.456, 1e300,    4294967296, -8.5,    DBL_MIN};
  union {
    uint64_t bits;
    double f;
  } any = {.bits = (uint64_t)below(1 << 30) << 34 ^ (uint64_t)below(1 << 30) << 9};
  int i = below((int)(sizeof list / sizeof *list) + 4);
  return i < (int)(sizeof list / sizeof *list) ? list[i] : any.f;
}

static const char *some_name(void) {
  static const char *const list[] = {
      "x",   "y",   "x", "weight", "layer.0.bias", "x.1", "3",   "",
      "é\n", "a b", "_", "%x",     "x.1.1",        ".",   "inf", "update"};
  int i = below((int)(sizeof list / sizeof *list) + 12);
  return i < (int)(sizeof list / sizeof *list) ? list[i] : NULL;
}

static TsMeta some_type(void) {
  static const int sizes[] = {1, 2, 2, 3, 4, 4, 4, 8, 8, 0, 16};
  TsMeta m = {.dtype = (uint8_t)(below(3) ? TS_DT_f32 : below(TS_DT_COUNT)),
              .ndim = (uint8_t)below(5)};
  for (int i = 0; i < m.ndim; i++) m.dim[i] = sizes[below(11)];
  if (ts_dtype_in_blocks(m.dtype) && !m.ndim) m.dtype = TS_DT_bf16;
  if (ts_dtype_in_blocks(m.dtype)) m.dim[m.ndim - 1] = TS_BLOCK_MOST;
  return m;
}

static int64_t ints[8];
static double floats[4];

static TsAttr some_attr(const TsAttrSpec *s) {
  static const char *const words[] = {"bias", "relu",         "ij,jk->ik",
                                      "",     "a\"\\\n\x01é", "bias_gelu"};
  char word[64];
  TsAttr a = s->preset;
  if (below(3) && (s->optional || s->has_default)) return a;
  a = (TsAttr){.type = s->type};
  switch (s->type) {
  case TS_ATTR_int: a.i = below(8) - 2; break;
  case TS_ATTR_f: a.f = some_number(); break;
  case TS_ATTR_bool: a.i = below(2); break;
  case TS_ATTR_dtype: a.i = below(TS_DT_COUNT); break;
  case TS_ATTR_str: a.str = words[below(6)]; break;
  case TS_ATTR_choice:
    while (ts_attr_word(s, (int)a.i + 1, word) && below(2)) a.i++;
    break;
  case TS_ATTR_ints:
    a.n = below(5);
    for (int i = 0; i < a.n; i++) ints[i] = below(6) - 1;
    a.ints = ints;
    break;
  default:
    a.n = below(4);
    for (int i = 0; i < a.n; i++) floats[i] = some_number();
    a.floats = floats;
  }
  return a;
}

static unsigned char covered[TS_OP_COUNT];

static TsVal some_value(TsGraph *g) {
  if (!below(8)) return ts_graph_number(g, some_number());
  for (;;) {
    TsNode *n = g->node[below(g->nnode)];
    if (n->nout) return &n->out[below(n->nout)];
  }
}

/* Numbers are operands of operators only. */
static TsVal some_tensor(TsGraph *g) {
  for (;;) {
    TsVal v = some_value(g);
    if (v->node->op != TS_NODE_number) return v;
  }
}

static void some_op(TsGraph *g) {
  TsOp op = (TsOp)below(TS_OP_COUNT);
  const TsOpInfo *o = ts_op_info(op);
  TsAttr attr[TS_MAX_ATTR];
  TsVal in[8], out[1024];
  int nout = 0,
      nin = o->variadic ? 1 + below(4) : o->nrequired + below(o->nin - o->nrequired + 1);
  for (int i = 0; i < nin; i++) {
    in[i] = i && below(2) ? in[i - 1] : some_value(g);
    if (!o->variadic && !(o->required >> i & 1) && below(3) == 0) in[i] = NULL;
  }
  for (int i = 0; i < o->nattr; i++) attr[i] = some_attr(&o->attr[i]);
  /* The lists are shared by the attributes of a call; what the graph keeps, it copies. */
  g->line = below(2) ? ts_graph_place(g->module, "a.lua:1") : 0;
  if (!ts_graph_emit(g, op, nin, in, attr, out, &nout)) {
    g->b.failed = false;
    return;
  }
  covered[op] = 1;
  const char *name = some_name();
  TsVal v = out[below(nout)];
  if (name && !v->name && v->node->op != TS_NODE_number) v->name = name;
}

static void fill(TsGraph *g, int nparam, int nop) {
  for (int i = 0; i < nparam; i++) {
    TsMeta m = some_type();
    ts_graph_param(g, &m, some_name(), below(3) ? NULL : TS_GRAPH_UNBOUND);
  }
  for (int i = 0; i < nop; i++) some_op(g);
  for (int i = 0; i < 2 && g->nparam; i++) {
    int p = below(g->nparam);
    TsVal v = some_tensor(g);
    if (ts_meta_same_shape(&v->meta, &g->param[p]->meta) &&
        v->meta.dtype == g->param[p]->meta.dtype)
      ts_graph_update(g, p, v);
  }
}

static void some_results(TsGraph *g) {
  TsVal r[4];
  int n = below(4);
  for (int i = 0; i < n; i++) r[i] = some_value(g);
  ts_graph_results(g, n, r);
}

static TsGraph *some_region(TsGraph *parent, int nin, const TsVal *in, const TsMeta *result) {
  TsGraph *r = ts_graph_region(parent, "region");
  for (int i = 0; i < nin; i++) ts_graph_param(r, &in[i]->meta, some_name(), NULL);
  for (int i = 0; i < 3 && r->nnode; i++) some_op(r);
  TsAttr a[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_zeros, a);
  a[0] = ts_b_ints(result->dim, result->ndim);
  a[1] = ts_b_dtype(result->dtype);
  TsVal z = ts_graph_emit(r, TS_OP_zeros, 0, NULL, a, NULL, NULL);
  ts_graph_results(r, 1, &z);
  return r;
}

static void some_custom(TsGraph *g, const TsVal *in, const TsAttr *name, const TsMeta *out) {
  TsCustom *called = ts_custom_unknown();
  ts_graph_node(g, TS_NODE_custom, 2, in, 0, NULL, 1, name, 1, out, called);
  ts_custom_unref(called);
}

static void some_control(TsGraph *g) {
  TsMeta cond = {.dtype = TS_DT_bool}, out = some_type();
  TsVal in[3] = {ts_graph_param(g, &cond, some_name(), NULL), some_tensor(g), some_tensor(g)};
  if (ts_dtype_in_blocks(out.dtype)) out.dtype = TS_DT_bf16;
  out.weak = 0;
  TsGraph *region[2] = {some_region(g, 2, in + 1, &out), some_region(g, 2, in + 1, &out)};
  if (below(2)) region[1] = region[0];
  ts_graph_node(g, TS_NODE_cond, 3, in, 2, region, 0, NULL, 1, &out, NULL);
  TsAttr name = ts_b_str("same");
  for (int i = 0; i < 2; i++) /* equal but for what they call */
    some_custom(g, in, &name, &out);
}

/* A recursion whose region calls itself, now and then from a region within. */
static void some_recursion(TsGraph *g) {
  TsMeta bool_type = {.dtype = TS_DT_bool}, out = some_type();
  if (ts_dtype_in_blocks(out.dtype)) out.dtype = TS_DT_bf16;
  out.weak = 0;
  TsGraph *r = ts_graph_region(g, "body"), *part[2] = {r, r};
  TsVal in[2] = {ts_graph_param(g, &bool_type, some_name(), NULL),
                 ts_graph_param(g, &out, some_name(), NULL)},
        own[2] = {ts_graph_param(r, &bool_type, some_name(), NULL),
                  ts_graph_param(r, &out, some_name(), NULL)};
  bool nested = below(2);
  for (int i = 0; i < 2; i++) {
    TsVal args[2] = {own[0], own[1]};
    if (nested) part[i] = ts_graph_region(r, "part");
    for (int k = 0; k < 2 && nested; k++)
      args[k] = ts_graph_param(part[i], &own[k]->meta, some_name(), NULL);
    TsAttr site = ts_b_int(below(3));
    TsNode *n =
        ts_graph_node(part[i], TS_NODE_recur, 2, args, 0, NULL, 1, &site, 1, &out, NULL);
    TsVal y = &n->out[0];
    ts_graph_results(part[i], 1, &y);
  }
  TsVal cond_in[3] = {own[0], own[0], own[1]};
  TsNode *n = NULL;
  if (nested) n = ts_graph_node(r, TS_NODE_cond, 3, cond_in, 2, part, 0, NULL, 1, &out, NULL);
  TsVal y = n ? &n->out[0] : own[1];
  ts_graph_results(r, 1, &y);
  TsAttr attr[2] = {ts_b_int(1 + below(3)), {0}};
  ts_graph_node(g, TS_NODE_recursive, 2, in, 1, &r, 2, attr, 1, &out, NULL);
}

static void some_call(TsGraph *g, TsGraph *called) {
  TsVal args[2];
  for (int i = 0; i < 2; i++)
    args[i] = ts_graph_param(g, &called->param[i]->meta, some_name(), NULL);
  ts_graph_node(g, TS_NODE_call, 2, args, 1, &called, 0, NULL, 1, &called->param[0]->meta,
                NULL);
}

static void random_graphs(int rounds) {
  TsError err = {0};
  int ncovered = 0;
  for (int i = 0; i < rounds; i++) {
    TsGraph *g = ts_graph_new("main", &err),
            *called = ts_graph_in_module(g->module, "ma in", &err);
    if (below(2)) called->name = "main";
    fill(called, 2, 3);
    ts_graph_results(called, 1, called->param);
    fill(g, 1 + below(6), 30);
    some_control(g);
    some_recursion(g);
    some_call(g, called);
    for (int k = 0; k < 5; k++) some_op(g);
    some_results(g);
    laws(g);
    ts_graph_free(g);
  }
  for (int i = 0; i < TS_OP_COUNT; i++) ncovered += covered[i];
  if (rounds < 200 || ncovered > TS_OP_COUNT * 3 / 4) return;
  failed++;
  printf("only %d of %d operators were built, not", ncovered, TS_OP_COUNT);
  for (int i = 0; i < TS_OP_COUNT; i++)
    if (!covered[i]) printf(" %s", ts_op_info((TsOp)i)->name);
  printf("\n");
}

/* ---- equality sees what the text shows */
static bool equal_texts(const char *a, const char *b) {
  TsError err = {0};
  TsText why = {0};
  TsGraph *g = ts_graph_parse(a, &err), *h = ts_graph_parse(b, &err);
  bool same = g && h && ts_graph_equal(g, h, &why);
  CHECK(g && h);
  CHECK(same == !why.at);
  ts_graph_free(g);
  ts_graph_free(h);
  ts_text_free(&why);
  return same;
}

static void equality(void) {
  static const char start[] =
      "graph @f(%x: f32[2], %t: bool[], %u: i8[]; %w: f32[2]) -> %a { "
      "%a = sum %x {axis=[0]} %b = add %w, 1 %c = cond %t, %x do (%b: f32[2]) -> %b { } "
      "do (%b: f32[2]) -> %b { } : f32[2] update %w = %x }";
  static const struct {
    const char *from, *to;
  } edit[] = {{"@f", "@g"},
              {"i8[]", "i16[]"},
              {"; %w", ", %w"},
              {"-> %a", "-> %b"},
              {"-> %a", "-> 1"},
              {"sum", "prod"},
              {"[0]", "[-1]"},
              {"%w, 1", "%w, -1"},
              {"%w, 1", "%x, 1"},
              {"%b = add", "%bb = add"},
              {"update %w", "update %x"},
              {"update %w = %x", ""},
              {"= %x }", "= %w }"},
              {"{ }", "{ %z = neg %b }"}};
  char text[512];
  CHECK(equal_texts(start, start));
  for (size_t i = 0; i < sizeof edit / sizeof *edit; i++) {
    const char *at = strstr(start, edit[i].from);
    snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - start) : 0, start, edit[i].to,
             at ? at + strlen(edit[i].from) : "");
    if (!at || equal_texts(start, text))
      failed++, printf("no difference by '%s'\n", edit[i].to);
  }
}

/* ---- the check sees what a pass can do wrong */
static TsGraph *small(void) {
  static const char text[] =
      "graph @f(%x: f32[2,3], %y: f32[2,3], %c: bool[]; %w: f32[2,3]) -> %b {\n"
      "  %a = add %x, %y\n  %b = pad %a {pads=[1,1] mode=reflect}\n"
      "  %d = cond %c do () -> %o { %o = ones {shape=[]} } do () -> %z { %z = zeros {shape=[]} "
      "} : f32[]\n"
      "  update %w = %a\n}\n";
  TsError err = {0};
  TsGraph *g = ts_graph_parse(text, &err);
  if (!g) printf("%s\n", err.message);
  return g;
}

static void is_illegal(TsGraph *g, const char *message) {
  TsError err = {0};
  if (!ts_graph_check(g, &err))
    failed++, printf("legal, not '%s'\n", message);
  else if (!strstr(err.message, message))
    failed++, printf("'%s', not '%s'\n", err.message, message);
  ts_graph_free(g);
}

static TsNode *line(TsGraph *g, const char *op) {
  for (int i = 0; i < g->nnode; i++)
    if (!strcmp(ts_node_name(g->node[i]), op)) return g->node[i];
  return NULL;
}

static void illegal(void) {
  TsGraph *g = small(), *h;
  line(g, "add")->out[0].meta.dim[0] = 5;
  is_illegal(g, "add: result 0 is f32[5,3], not f32[2,3]\n    %a = add %x, %y : f32[5,3]");
  g = small();
  ((TsVal *)(uintptr_t)line(g, "add")->in)[0] = &line(g, "pad")->out[0];
  is_illegal(g, "@f: add: operand 0 is not defined before it\n    %a = add %b, %y");
  g = small(), h = small();
  ((TsVal *)(uintptr_t)line(g, "add")->in)[0] = &line(h, "add")->out[0];
  is_illegal(g, "operand 0 is not defined before it");
  ts_graph_free(h);
  g = small();
  ((TsVal *)(uintptr_t)line(g, "add")->in)[0] = NULL;
  is_illegal(g, "operand 0 cannot be absent\n    %a = add _, %y");
  g = small();
  ((TsAttr *)(uintptr_t)line(g, "pad")->attr)[1].i = 9;
  is_illegal(g, "pad: option 'mode' has a value of the wrong kind");
  g = small();
  ((TsAttr *)(uintptr_t)line(g, "pad")->attr)[0].type = TS_ATTR_none;
  is_illegal(g, "pad: option 'pads' is missing");
  g = small();
  line(g, "add")->op = TS_OP_outer;
  is_illegal(g, "outer: is defined by other operators");
  g = small();
  line(g, "add")->op = TS_NODE_END;
  is_illegal(g, "unknown operator");
  g = small();
  line(g, "add")->id = 9;
  is_illegal(g, "stands in another place");
  g = small();
  g->update[0].param = 7;
  is_illegal(g, "there is no parameter 7");
  g = small();
  g->update[0].value = &line(g, "pad")->out[0];
  is_illegal(g, "update: f32[2,5] written into f32[2,3]");
  g = small();
  g->result[0] = NULL;
  is_illegal(g, "result 0 is not defined");
  g = small();
  line(g, "cond")->region[0]->nresult = 0;
  is_illegal(g, "cond: 0 results of a region, not 1");
  g = small();
  TsAttr site = ts_b_int(0);
  ts_graph_node(g, TS_NODE_recur, 0, NULL, 0, NULL, 1, &site, 0, NULL, NULL);
  is_illegal(g, "@f: recur stands in no recursive");
  g = small();
  ts_graph_node(g, TS_NODE_call, 0, NULL, 1, &g, 0, NULL, 0, NULL, NULL);
  is_illegal(g, "a graph calls itself");
}

/* ---- memory that runs out anywhere gives an error, or the whole text */
static void no_memory(void) {
  static const char text[] =
      "graph @g(%a: f32[2]) -> %a {\n}\n"
      "graph @f(%x: f32[2], %c: bool[]; %w: f32[2]) -> %1, 2, %x {\n"
      "  %0 = call @g(%x) : f32[2]  // a.lua:1\n"
      "  %1 = concat %0, %x, %w, %x, %0, %x, %w, %x, %0, %x, %w, %x, %0, %x, %w, %x, %w : "
      "f32[34]\n"
      "  %2 = cond %c, %x do (%x: f32[2]) -> %x { } do (%x: f32[2]) -> %0 { %0 = neg %x } : "
      "f32[2]\n"
      "  custom %2 {name=\"a\"}\n  %3 = pad %x {pads=[1,1]}\n  update %w = %x\n}\n";
  TsText whole = {0};
  TsError err = {0};
  for (long n = -1;; n++) {
    TsText t = {0}, other = {0};
    err = (TsError){0};
    until = n;
    TsGraph *g = ts_graph_parse(text, &err);
    if (g && ts_graph_check(g, &err)) CHECK(err.code == TS_ERR_memory);
    if (g) ts_graph_text(g, &t);
    if (g) ts_graph_json(g, &other);
    if (g) ts_graph_dot(g, &other);
    if (g) ts_graph_equal(g, g, NULL);
    bool over = n >= 0 && until >= 0;
    until = -1;
    if (n < 0)
      whole = t, t = (TsText){0};
    else if (g)
      CHECK(t.failed || (t.at && !strcmp(t.at, whole.at)));
    else
      CHECK(err.code == TS_ERR_memory);
    ts_graph_free(g);
    ts_text_free(&t);
    ts_text_free(&other);
    if (over || failed > 5) break;
  }
  CHECK(whole.at && strstr(whole.at, "%3 = pad"));
  ts_text_free(&whole);
}

/* ---- linear time */
static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void timing(int n) {
  TsText t = {0}, again = {0};
  TsError err = {0};
  ts_text_str(
      &t, "graph @long(%x: f32[8,64], %y: f32[64]) -> %1 {\n  %0 = add %x, %y : f32[8,64]\n");
  for (int i = 1; i < n; i++)
    ts_text_format(&t,
                   i % 3 ? "  %%%d = add %%%d, %d : f32[8,64]\n"
                         : "  %%%d = softmax %%%d {axis=0} : f32[8,64]  // model.lua:%d\n",
                   i, i - 1, i % 1000);
  ts_text_str(&t, "}\n");
  double start = seconds();
  TsGraph *g = ts_graph_parse(t.at, &err);
  double parsed = seconds();
  if (!g)
    failed++, printf("%s\n", err.message);
  else
    ts_graph_text_places(g, &again);
  double printed = seconds();
  CHECK(g && !strcmp(t.at, again.at));
  CHECK(g && !ts_graph_check(g, &err));
  double checked = seconds();
  printf("%d nodes, %.1f MB: parse %.3f s, print %.3f s, check %.3f s, %.1f MB of graph\n", n,
         (double)t.len / 1e6, parsed - start, printed - parsed, checked - printed,
         g ? (double)g->module->arena.nbytes / 1e6 : 0);
  ts_graph_free(g);
  ts_text_free(&t);
  ts_text_free(&again);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--time")) {
    for (int n = 25000; n <= 400000; n *= 2) timing(n);
    return failed > 0;
  }
  if (argc > 2) state = (uint64_t)atoll(argv[2]);
  random_graphs(argc > 1 ? atoi(argv[1]) : 300);
  equality();
  illegal();
  no_memory();
  return failed > 0;
}
