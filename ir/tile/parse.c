/* The reader of Tile IR; the grammar stands in ir/tile/text.c. It builds what the text says and
 * leaves it to ts_tile_check whether that is legal. Every step is linear in the text, and
 * regions nest to a limit. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/text/value.h"
#include "ir/tile/parse_state.h"

static const int64_t MOST_EXACT = INT64_C(1) << 53; /* a constant's value is a double */

/* A line on its way to become a statement; what is its own begins there in the stacks. */
typedef struct Line {
  TsToken word;
  int op, names, operands, types;
  TsAttr attr[TS_MAX_ATTR];
} Line;

static TsToken *name_at(const Parser *p, int i) { return (TsToken *)p->names.at + i; }

char *ts_tile_read_keep(Parser *p, TsArena *a, const char *s, int len) {
  char *copy = ts_arena_alloc(a, (size_t)len + 1);
  if (!copy) return no_memory(p), NULL;
  memcpy(copy, s, (size_t)len);
  return copy;
}

/* ---- names of values */
int ts_tile_read_define(Parser *p, const TsToken *t, TsTileVal v) {
  TsMapSlot *slot = ts_text_map_enter(&p->values, t->at + 1, t->len - 1);
  if (!slot) return no_memory(p);
  if (slot->value) return ts_read_fail(&p->r, t->at, "%.*s is defined twice", t->len, t->at);
  TsToken *d = ts_text_push(&p->r, &p->defined, sizeof *d);
  if (!d) return -1;
  slot->value = v;
  *d = *t;
  if (v->name || (!p->lines && isdigit((unsigned char)t->at[1]))) return 0;
  return (v->name = ts_tile_read_keep(p, &p->k->arena, t->at + 1, t->len - 1)) ? 0 : -1;
}

static void forget(Parser *p, int from) {
  for (; p->defined.n > from; p->defined.n--) {
    const TsToken *t = (TsToken *)p->defined.at + p->defined.n - 1;
    ts_text_map_find(&p->values, t->at + 1, t->len - 1)->value = NULL;
  }
}

static int push_name(Parser *p, const char *what) {
  TsToken *t = ts_text_push(&p->r, &p->names, sizeof *t);
  if (!t) return -1;
  *t = p->r.now;
  return ts_read_expect(&p->r, TS_TOKEN_value, what);
}

/* ---- operands */
static bool at_operand(const TsReader *r) {
  return r->now.kind == TS_TOKEN_value || r->now.kind == TS_TOKEN_number;
}

static int number(Parser *p, Operand *o) {
  const char *at = p->r.now.at;
  if (ts_read_int(&p->r, "a whole number", &o->number)) return -1;
  if (o->number <= MOST_EXACT && o->number >= -MOST_EXACT) return 0;
  return ts_read_fail(&p->r, at, "a number as operand has at most 53 bits");
}

static int operand(Parser *p) {
  TsReader *r = &p->r;
  Operand *o = ts_text_push(&p->r, &p->operands, sizeof *o);
  if (!o) return -1;
  *o = (Operand){0};
  if (r->now.kind == TS_TOKEN_number) return number(p, o);
  if (r->now.kind != TS_TOKEN_value) return ts_read_unexpected(r, "a value or a number");
  const TsToken *t = &r->now;
  const TsMapSlot *slot = ts_text_map_find(&p->values, t->at + 1, t->len - 1);
  if (!slot || !slot->value)
    return ts_read_fail(r, t->at, "%.*s is not defined before", t->len, t->at);
  o->v = (TsTileVal)(uintptr_t)slot->value;
  return ts_read_next(r);
}

static int operands(Parser *p) {
  do
    if (operand(p)) return -1;
  while (ts_read_accept(&p->r, ','));
  return p->r.failed ? -1 : 0;
}

static int positions(Parser *p) {
  if (ts_read_expect(&p->r, '[', "'[' and a position")) return -1;
  if (p->r.now.kind != ']' && operands(p)) return -1;
  return ts_read_expect(&p->r, ']', "',' or ']'");
}

static int one_memory(Parser *p, char tail) {
  if (operand(p) || positions(p)) return -1;
  if (!tail) return 0;
  return ts_read_expect(&p->r, tail, tail == '=' ? "'=' and what is stored" : "','") ||
                 operand(p)
             ? -1
             : 0;
}

/* Brings n pieces of the text, which begin at from[i], into the order of operands. */
static int reorder(Parser *p, const int *from, int n, const int *order) {
  Operand *all = p->operands.at;
  int begin = from[0], count = p->operands.n - begin, at = 0;
  Operand *copy = malloc(sizeof *copy * (size_t)count);
  if (!copy) return no_memory(p);
  for (int i = 0; i < n; i++) {
    int piece = order[i], end = piece + 1 < n ? from[piece + 1] : begin + count;
    memcpy(copy + at, all + from[piece], sizeof *copy * (size_t)(end - from[piece]));
    at += end - from[piece];
  }
  memcpy(all + begin, copy, sizeof *copy * (size_t)count);
  free(copy);
  return 0;
}

/* %to[..], %from[..], %barrier[..]: its pieces are memories and positions in turn. */
static int copy_operands(Parser *p, int memories) {
  static const int order[2][6] = {{0, 2, 1, 3}, {0, 2, 4, 5, 1, 3}};
  int from[6];
  for (int i = 0; i < memories; i++) {
    if (i && ts_read_expect(&p->r, ',', "','")) return -1;
    from[2 * i] = p->operands.n;
    if (operand(p)) return -1;
    from[2 * i + 1] = p->operands.n;
    if ((i || p->r.now.kind == '[') && positions(p)) return -1;
  }
  if (memories == 3 && p->operands.n != from[5] + 1)
    return ts_read_fail(&p->r, p->r.before.at, "a barrier has one slot");
  return reorder(p, from, 2 * memories, order[memories - 2]);
}

static int memory_operands(Parser *p, const TsTileBrackets *b) {
  return b->memories > 1 ? copy_operands(p, b->memories) : one_memory(p, b->tail);
}

/* ---- types */
static int find_size(Parser *p, int64_t *out) {
  const TsToken *t = &p->r.now;
  for (int i = 0; i < p->k->ndim; i++) {
    const char *s = p->k->dim[i];
    if (strlen(s) != (size_t)t->len || memcmp(s, t->at, (size_t)t->len)) continue;
    *out = ts_tile_dim(i);
    return ts_read_next(&p->r);
  }
  ts_read_fail(&p->r, t->at, "there is no size %.*s", t->len > 24 ? 24 : t->len, t->at);
  return ts_error_hint(p->r.err, "sizes stand behind the name: tile @f<M,N>(...)");
}

static int one_size(Parser *p, int64_t *out) {
  return p->r.now.kind == TS_TOKEN_word ? find_size(p, out) : ts_read_size(&p->r, out);
}

static int one_stride(Parser *p, int64_t *out) { return ts_read_int(&p->r, "a stride", out); }

static int list(Parser *p, int *n, int64_t *v, int (*one)(Parser *, int64_t *)) {
  TsReader *r = &p->r;
  if (ts_read_expect(r, '[', "'['")) return -1;
  for (*n = 0; r->now.kind != ']'; ++*n) {
    if (*n && ts_read_expect(r, ',', "',' or ']'")) return -1;
    if (*n == TS_TILE_RANK)
      return ts_read_fail(r, r->now.at, "a type has at most %d axes", TS_TILE_RANK);
    if (one(p, &v[*n])) return -1;
  }
  return ts_read_next(r);
}

static int space_option(Parser *p, TsTileType *t) {
  TsReader *r = &p->r;
  int64_t v;
  uint16_t split = 0, *to = ts_read_is_word(r, "swizzle") ? &t->swizzle
                            : ts_read_is_word(r, "count") ? &t->count
                            : ts_read_is_word(r, "split") ? &split
                                                          : NULL;
  if (!to) return ts_read_unexpected(r, "swizzle, count or split");
  ts_read_next(r);
  if (ts_read_expect(r, '=', "'='")) return -1;
  const char *at = r->now.at;
  if (ts_read_int(r, "a whole number", &v)) return -1;
  if (v < 0 || v > UINT16_MAX) return ts_read_fail(r, at, "the number does not fit 16 bits");
  *to = (uint16_t)v;
  if (to != &split) return 0;
  if (v > TS_TILE_RANK) return ts_read_fail(r, at, "there is no axis %d", (int)v);
  t->split = (uint8_t)v;
  return 0;
}

static int space(Parser *p, TsTileType *t) {
  TsReader *r = &p->r;
  TsToken s = r->now;
  int i = 0;
  while (i <= TS_SPACE_barrier && (strlen(ts_space_name[i]) != (size_t)s.len - 1 ||
                                   memcmp(ts_space_name[i], s.at + 1, (size_t)s.len - 1)))
    i++;
  if (i > TS_SPACE_barrier) {
    ts_read_fail(r, s.at, "there is no space %.*s", s.len > 24 ? 24 : s.len, s.at);
    return ts_error_hint(r->err, "@fragment @scratch @local @shared @barrier");
  }
  t->space = (uint8_t)i;
  ts_read_next(r);
  if (!ts_read_accept(r, '(')) return r->failed ? -1 : 0;
  do
    if (space_option(p, t)) return -1;
  while (ts_read_accept(r, ','));
  return ts_read_expect(r, ')', "',' or ')'");
}

int ts_tile_read_type(Parser *p, TsTileType *t) {
  TsReader *r = &p->r;
  TsDtype d;
  int rank, nstride;
  *t = (TsTileType){0};
  if (ts_read_dtype(r, &d) || list(p, &rank, t->dim, one_size)) return -1;
  t->dtype = (uint8_t)d;
  t->rank = (uint8_t)rank;
  if (ts_read_is_word(r, "strides")) {
    const char *at = r->now.at;
    ts_read_next(r);
    if (list(p, &nstride, t->stride, one_stride)) return -1;
    if (nstride != rank) return ts_read_fail(r, at, "%d strides for %d axes", nstride, rank);
    t->strided = true;
  }
  return r->now.kind == TS_TOKEN_symbol ? space(p, t) : r->failed ? -1 : 0;
}

static int types(Parser *p, const Line *n) {
  int want = p->names.n - n->names;
  if (ts_read_accept(&p->r, ':')) do {
      TsTileType *t = ts_text_push(&p->r, &p->types, sizeof *t);
      if (!t || ts_tile_read_type(p, t)) return -1;
    } while (ts_read_accept(&p->r, ','));
  if (p->r.failed) return -1;
  if (p->types.n - n->types == want) return 0;
  return ts_read_fail(&p->r, n->word.at, "%.*s: the line has %d names and %d types",
                      n->word.len, n->word.at, want, p->types.n - n->types);
}

/* ---- making statements */
static int place(Parser *p) {
  const char *text;
  TsMapSlot *slot = ts_text_place(&p->r, &p->places, &p->scratch, &text);
  if (text) slot->count = ts_tile_place(p->k, text);
  return slot ? slot->count : 0;
}

/* "12", or "12 model.lua:3" where the line has a place of its own. */
static int numbered(Parser *p, const char *at) {
  TsText text = {0};
  int own = place(p);
  for (; p->at_line < at; p->at_line++) p->line += *p->at_line == '\n';
  ts_text_format(&text, own ? "%d %s" : "%d", p->line, own ? p->k->place[own] : "");
  int number = text.failed ? 0 : ts_tile_place(p->k, text.at);
  ts_text_free(&text);
  return number;
}

static TsTileStmt *emit(Parser *p, const Line *n, int nout) {
  Operand *o = (Operand *)p->operands.at + n->operands;
  int nin = p->operands.n - n->operands;
  p->b.line = p->lines ? numbered(p, n->word.at) : place(p);
  TsTileVal *in = malloc(sizeof *in * (size_t)(nin + 1));
  if (!in) return no_memory(p), NULL;
  for (int i = 0; i < nin; i++) in[i] = o[i].v ? o[i].v : ts_tile_index(&p->b, o[i].number);
  TsTileStmt *s =
      ts_tile_emit(&p->b, n->op, nin, in, n->attr, nout, (TsTileType *)p->types.at + n->types);
  free(in);
  if (!s) no_memory(p);
  return s;
}

static int define_results(Parser *p, const Line *n, const TsTileStmt *s) {
  for (int i = 0; i < s->nout; i++)
    if (ts_tile_read_define(p, name_at(p, n->names + i), s->out[i])) return -1;
  return 0;
}

/* ---- lines */
static int region(Parser *p, TsTileRegion *at, int first_name);

static void set_attr(Line *n, const char *name, TsAttr value) {
  int nspec;
  const TsAttrSpec *spec = ts_tile_op_attrs(n->op, &nspec);
  size_t len = strlen(name);
  for (int i = 0; i < nspec; i++)
    if ((size_t)spec[i].namelen == len && !memcmp(spec[i].name, name, len)) n->attr[i] = value;
}

/* "step 16" */
static int word_int(Parser *p, Line *n, const char *name) {
  TsAttr a = {.type = TS_ATTR_int};
  if (!ts_read_is_word(&p->r, name)) return 0;
  ts_read_next(&p->r);
  if (ts_read_int(&p->r, "a whole number", &a.i)) return -1;
  set_attr(n, name, a);
  return 0;
}

/* "avx512", "swizzle:8", or a string */
int ts_tile_read_word(Parser *p, TsArena *a, const char **out) {
  TsReader *r = &p->r;
  TsToken t = r->now;
  if (t.kind == TS_TOKEN_string) {
    if (ts_read_string(r, out)) return -1;
    return (*out = ts_tile_read_keep(p, a, *out, (int)strlen(*out))) ? 0 : -1;
  }
  if (ts_read_expect(r, TS_TOKEN_word, "a word or a string")) return -1;
  TsToken number = {0};
  if (ts_read_accept(r, ':')) {
    number = r->now;
    if (ts_read_expect(r, TS_TOKEN_number, "a number")) return -1;
  }
  char *s = ts_tile_read_keep(p, a, t.at, t.len + 1 + number.len);
  if (!s) return -1;
  if (number.len) memcpy(s + t.len + 1, number.at, (size_t)number.len);
  s[t.len] = number.len ? ':' : 0;
  *out = s;
  return 0;
}

static int carried(Parser *p) {
  if (!ts_read_is_word(&p->r, "carry")) return 0;
  ts_read_next(&p->r);
  do
    if (push_name(p, "a name") || ts_read_expect(&p->r, '=', "'=' and the first value") ||
        operand(p))
      return -1;
  while (ts_read_accept(&p->r, ','));
  return p->r.failed ? -1 : 0;
}

static int for_head(Parser *p, Line *n) {
  TsReader *r = &p->r;
  if (push_name(p, "the name of the index")) return -1;
  if (!ts_read_is_word(r, "in")) return ts_read_unexpected(r, "'in' and the bounds");
  ts_read_next(r);
  if (operand(p) || ts_read_expect(r, TS_TOKEN_range, "'..' and the upper bound") ||
      operand(p) || word_int(p, n, "step"))
    return -1;
  if (ts_read_is_word(r, "parallel")) {
    set_attr(n, "parallel", (TsAttr){.type = TS_ATTR_bool, .i = 1});
    ts_read_next(r);
  }
  return word_int(p, n, "unroll") || carried(p) ? -1 : 0;
}

/* The parameters have the types of what they are first. */
static int for_params(Parser *p, const TsTileStmt *s) {
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  ts_tile_region_param(p->k, s->region[0], &index);
  for (int i = 2; i < s->nin; i++) ts_tile_region_param(p->k, s->region[0], &s->in[i]->type);
  return p->k->failed ? no_memory(p) : 0;
}

/* Behind a loop's head, whose names from `inner` on are those of its region: its types, "{". */
static TsTileStmt *loop(Parser *p, Line *n, int inner) {
  int all = p->names.n, nout = inner - n->names;
  p->names.n = inner;
  if (types(p, n)) return NULL;
  p->names.n = all;
  return ts_read_expect(&p->r, '{', "'{'") ? NULL : emit(p, n, nout);
}

static int for_line(Parser *p, Line *n) {
  int inner = p->names.n;
  if (for_head(p, n)) return -1;
  TsTileStmt *s = loop(p, n, inner);
  if (!s || for_params(p, s) || region(p, s->region[0], inner)) return -1;
  return define_results(p, n, s);
}

static int repeat_line(Parser *p, Line *n) {
  int inner = p->names.n;
  if (carried(p)) return -1;
  TsTileStmt *s = loop(p, n, inner);
  for (int i = 0; s && i < s->nin; i++)
    ts_tile_region_param(p->k, s->region[0], &s->in[i]->type);
  if (!s || (p->k->failed && no_memory(p)) || region(p, s->region[0], inner)) return -1;
  return define_results(p, n, s);
}

static int if_line(Parser *p, Line *n) {
  TsReader *r = &p->r;
  if (operand(p) || types(p, n) || ts_read_expect(r, '{', "'{'")) return -1;
  TsTileStmt *s = emit(p, n, p->names.n - n->names);
  if (!s || region(p, s->region[0], 0)) return -1;
  if (ts_read_is_word(r, "else")) {
    ts_read_next(r);
    if (ts_read_expect(r, '{', "'{'") || region(p, s->region[1], 0)) return -1;
  }
  return define_results(p, n, s);
}

static int role_line(Parser *p, Line *n) {
  TsAttr name = {.type = TS_ATTR_str};
  if (p->names.n > n->names) return ts_read_fail(&p->r, n->word.at, "a role gives nothing");
  if (ts_tile_read_word(p, &p->scratch, &name.str) || word_int(p, n, "warps")) return -1;
  if (ts_read_is_word(&p->r, "lanes")) {
    set_attr(n, "lanes", (TsAttr){.type = TS_ATTR_bool, .i = 1});
    ts_read_next(&p->r);
  }
  if (ts_read_expect(&p->r, '{', "'{'")) return -1;
  set_attr(n, "name", name);
  TsTileStmt *s = emit(p, n, 0);
  return s ? region(p, s->region[0], 0) : -1;
}

static int plain_line(Parser *p, Line *n) {
  const TsTileBrackets *b = ts_tile_brackets(n->op);
  bool more, any = ts_tile_op_operands(n->op, &more) || more;
  int nspec;
  const TsAttrSpec *spec = ts_tile_op_attrs(n->op, &nspec);
  if (b ? memory_operands(p, b) : any && at_operand(&p->r) && operands(p)) return -1;
  if (ts_read_attrs(&p->r, &n->word, spec, nspec, n->attr) || types(p, n) || p->r.failed)
    return -1;
  TsTileStmt *s = emit(p, n, p->names.n - n->names);
  return s ? define_results(p, n, s) : -1;
}

static const char *nth_word(const void *arg, int i) {
  (void)arg;
  bool known = i >= TS_OP_COUNT || ts_op_info((TsOp)i)->cls == TS_CLASS_POINTWISE;
  return known ? ts_tile_op_name(i) : "";
}

static int operation(Parser *p, Line *n) {
  TsReader *r = &p->r;
  char name[32];
  n->word = r->now;
  if (ts_read_expect(r, TS_TOKEN_word, "an operation")) return -1;
  n->op = ts_tile_op_find(n->word.at, n->word.len);
  if (n->op != TS_TILE_END) {
    int nspec;
    const TsAttrSpec *spec = ts_tile_op_attrs(n->op, &nspec);
    for (int i = 0; i < nspec; i++) n->attr[i] = spec[i].preset;
    return 0;
  }
  int len = n->word.len < 31 ? n->word.len : 31;
  memcpy(name, n->word.at, (size_t)len);
  name[len] = 0;
  ts_error_set(r->err, TS_ERR_argument, "there is no operation '%s' in Tile IR", name);
  const char *guess = ts_text_closest(name, TS_TILE_END, nth_word, NULL);
  if (guess) ts_error_hint(r->err, "did you mean '%s'?", guess);
  return ts_read_blame(r, n->word.at);
}

static int results(Parser *p) {
  if (p->r.now.kind != TS_TOKEN_value) return 0;
  do
    if (push_name(p, "a name")) return -1;
  while (ts_read_accept(&p->r, ','));
  return ts_read_expect(&p->r, '=', "'=' behind what the line defines");
}

/* Texts of megabytes take seconds. */
static int interrupted(Parser *p) {
  enum { LINES = 256 };
  if (++p->looks % LINES || !ts_cpu_interrupted()) return 0;
  p->r.failed = true;
  return ts_error_set(p->r.err, TS_ERR_interrupt, "interrupted");
}

static int line(Parser *p) {
  if (interrupted(p)) return -1;
  Line n = {.names = p->names.n, .operands = p->operands.n, .types = p->types.n};
  if (results(p) || operation(p, &n)) return -1;
  int bad = n.op == TS_TILE_for      ? for_line(p, &n)
            : n.op == TS_TILE_if     ? if_line(p, &n)
            : n.op == TS_TILE_repeat ? repeat_line(p, &n)
            : n.op == TS_TILE_role   ? role_line(p, &n)
                                     : plain_line(p, &n);
  p->names.n = n.names;
  p->operands.n = n.operands;
  p->types.n = n.types;
  return bad;
}

static int lines(Parser *p) {
  while (p->r.now.kind != '}') {
    if (p->r.now.kind != TS_TOKEN_value && p->r.now.kind != TS_TOKEN_word)
      return ts_read_unexpected(&p->r, "a line or '}'");
    if (line(p)) return -1;
  }
  return ts_read_next(&p->r);
}

static int region(Parser *p, TsTileRegion *at, int first_name) {
  TsTileRegion *before = p->b.at;
  int defined = p->defined.n;
  if (p->depth == TS_TILE_DEEPEST)
    return ts_read_fail(&p->r, p->r.before.at, "regions more than %d deep", TS_TILE_DEEPEST);
  for (int i = 0; i < at->nparam; i++)
    if (ts_tile_read_define(p, name_at(p, first_name + i), at->param[i])) return -1;
  p->depth++;
  p->b.at = at;
  int bad = lines(p);
  p->b.at = before;
  p->depth--;
  forget(p, defined);
  return bad;
}

/* ---- a kernel */
static int kernel(Parser *p) {
  TsReader *r = &p->r;
  if (!ts_read_is_word(r, "tile")) return ts_read_unexpected(r, "'tile'");
  ts_read_next(r);
  TsToken t = r->now;
  if (ts_read_expect(r, TS_TOKEN_symbol, "'@' and the kernel's name")) return -1;
  char *name = ts_tile_read_keep(p, &p->scratch, t.at + 1, t.len - 1);
  if (!name) return -1;
  if (!(p->k = ts_tile_new(name))) return no_memory(p);
  p->b = ts_tile_build(p->k);
  if (ts_tile_read_head(p)) return -1;
  if (ts_read_expect(r, '{', "'{'") || lines(p)) return -1;
  return r->now.kind == TS_TOKEN_end ? 0 : ts_read_unexpected(r, "the end behind the kernel");
}

static TsTile *parse(const char *text, bool lines, TsError *err) {
  Parser p = {.lines = lines, .at_line = text, .line = 1};
  ts_read_open(&p.r, text, &p.scratch, err);
  int bad = kernel(&p);
  if (!bad && p.k->failed) bad = no_memory(&p);
  if (bad) {
    ts_tile_free(p.k);
    p.k = NULL;
  }
  ts_arena_free(&p.scratch);
  ts_text_map_free(&p.values);
  ts_text_map_free(&p.places);
  free(p.names.at);
  free(p.operands.at);
  free(p.types.at);
  free(p.defined.at);
  return p.k;
}

TsTile *ts_tile_parse(const char *text, TsError *err) { return parse(text, false, err); }

TsTile *ts_tile_parse_lines(const char *text, TsError *err) { return parse(text, true, err); }
