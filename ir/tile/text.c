/* The text of a kernel. The grammar, with blanks and line ends anywhere, // to the line's end
 * a comment:
 *
 *   kernel  "tile" @name ["<" word {"," word} ">"] params ["->" params] {head} body
 *   params  "(" [%name ":" type {"," %name ":" type}] ")"       read; behind "->": written
 *   head    "target" name | "tile" 8x768 | "stages" int | "threads" int | "cluster" int
 *           | "order" name
 *           | "unroll" int | "vector" int | "grain" int | "high" int | "depth" int | "pack" int
 *           | "marks" | "form" ("block" | "explicit")
 *   name    word | word ":" int | string
 *   body    "{" {line} "}"
 *   line    [%name {"," %name} "="] (statement | for | if | role)
 *   for     "for" %name "in" operand ".." operand ["step" int] ["parallel"] ["unroll" int]
 *           ["carry" %name "=" operand {"," %name "=" operand}] [":" types] body
 *   if      "if" operand [":" types] body ["else" body]
 *   role    "role" name ["warps" int] ["lanes"] body
 *   statement word [operands] [attributes] [":" types]
 *   operands  operand {"," operand}, where memory has positions: %name "[" [operand {","
 *           operand}] "]"; what is stored stands behind "="
 *   operand %name | int                              int: an i64[] constant, made before it
 *   type    dtype "[" [size {"," size}] "]" ["strides" "[" int {"," int} "]"]
 *           [@space ["(" option {"," option} ")"]]
 *   option  ("swizzle" | "count" | "split") "=" int
 *   size    int | word                               word: one of those behind the name
 *
 * A value's space is left out, as is that of parameters, which are global. A name is seen by
 * the lines behind it in its region and by their regions. Attributes: ir/text/value.h. */
#include "ir/tile/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/text/name.h"
#include "ir/text/value.h"

const char *const ts_space_name[] = {"value", "fragment", "global", "scratch",
                                     "local", "shared",   "barrier"};

static const TsTileBrackets brackets[] = {
    {TS_TILE_load, 1, 0},          {TS_TILE_store, 1, '='},    {TS_TILE_gather, 1, 0},
    {TS_TILE_scatter, 1, '='},     {TS_TILE_prefetch, 1, 0},   {TS_TILE_copy_async, 2, 0},
    {TS_TILE_copy_bulk, 3, 0},     {TS_TILE_store_bulk, 2, 0}, {TS_TILE_expect, 1, 0},
    {TS_TILE_arrive, 1, 0},        {TS_TILE_await, 1, ','},    {TS_TILE_pace, 1, ','},
    {TS_TILE_claim, 1, ','},       {TS_TILE_until, 1, ','},    {TS_TILE_signal, 1, ','},
    {TS_TILE_store_below, 1, '='}, {TS_TILE_load_rows, 1, 0},  {TS_TILE_store_rows, 1, '='},
    {TS_TILE_blank, 1, 0},
};

const TsTileBrackets *ts_tile_brackets(int op) {
  for (size_t i = 0; i < sizeof brackets / sizeof *brackets; i++)
    if (brackets[i].op == op) return &brackets[i];
  return NULL;
}

typedef struct Printer {
  TsTileNames names;
  const TsTile *k;
  TsText *text;
  bool places;
} Printer;

static void put(Printer *p, const char *s) { ts_text_str(p->text, s); }
static void put_int(TsText *t, int64_t v) { ts_text_format(t, "%" PRId64, v); }

static void name(Printer *p, TsTileVal v) {
  put(p, "%");
  put(p, ts_tile_names_of(&p->names, v));
}

static void operand(Printer *p, TsTileVal v) {
  if (ts_tile_names_in_place(&p->names, v))
    put_int(p->text, (int64_t)v->stmt->attr[0].f);
  else
    name(p, v);
}

static void operands(Printer *p, const char *before, int n, const TsTileVal *v) {
  for (int i = 0; i < n; i++) {
    put(p, i ? ", " : before);
    operand(p, v[i]);
  }
}

/* A word, or a word and a number: "avx512", "swizzle:8". */
static bool is_word(const char *s) {
  const char *end = s;
  while (isalnum((unsigned char)*end) || *end == '_') end++;
  if (end == s || isdigit((unsigned char)*s)) return false;
  if (*end == ':' && isdigit((unsigned char)end[1]))
    for (end++; isdigit((unsigned char)*end);) end++;
  return !*end;
}

static void word(Printer *p, const char *s) {
  if (is_word(s))
    put(p, s);
  else
    ts_text_quoted(p->text, s);
}

/* ---- types */
static void size(const TsTile *k, int64_t d, TsText *t) {
  uint64_t i = (uint64_t)d - (uint64_t)INT64_MIN;
  if (d >= 0 || i >= (uint64_t)k->ndim)
    put_int(t, d);
  else
    ts_text_str(t, k->dim[i]);
}

static void space_option(int value, const char *word, const char **before, TsText *text) {
  if (!value) return;
  ts_text_format(text, "%s%s=%d", *before, word, value);
  *before = ", ";
}

static void space(const TsTileType *t, TsText *text) {
  ts_text_format(text, " @%s", t->space <= TS_SPACE_barrier ? ts_space_name[t->space] : "?");
  const char *before = "(";
  space_option(t->swizzle, "swizzle", &before, text);
  space_option(t->count, "count", &before, text);
  space_option(t->split, "split", &before, text);
  if (*before == ',') ts_text_char(text, ')');
}

static void type(const TsTile *k, const TsTileType *t, TsSpace unsaid, TsText *text) {
  int rank = t->rank < TS_TILE_RANK ? t->rank : TS_TILE_RANK;
  ts_text_str(text, ts_dtype_name((TsDtype)t->dtype));
  ts_text_char(text, '[');
  for (int i = 0; i < rank; i++) {
    if (i) ts_text_char(text, ',');
    size(k, t->dim[i], text);
  }
  ts_text_char(text, ']');
  if (t->strided) {
    for (int i = 0; i < rank; i++) {
      ts_text_str(text, i ? "," : " strides [");
      put_int(text, t->stride[i]);
    }
    ts_text_str(text, rank ? "]" : " strides []");
  }
  if (t->space != unsaid || t->swizzle || t->count || t->split) space(t, text);
}

void ts_tile_type_text(const TsTile *k, const TsTileType *t, TsText *text) {
  type(k, t, t->space == TS_SPACE_global ? TS_SPACE_global : TS_SPACE_value, text);
}

static void types(Printer *p, const TsTileStmt *s) {
  for (int i = 0; i < s->nout; i++) {
    put(p, i ? ", " : " : ");
    type(p->k, &s->out[i]->type, TS_SPACE_value, p->text);
  }
}

/* ---- attributes. Whole numbers are bits here, and never symbolic sizes. */
static void attr(Printer *p, const TsAttrSpec *spec, const TsAttr *a) {
  TsText *t = p->text;
  if (a->type == TS_ATTR_int) {
    put_int(t, a->i);
  } else if (a->type == TS_ATTR_f && isnan(a->f)) {
    put(p, signbit(a->f) ? "-nan" : "nan");
  } else if (a->type == TS_ATTR_ints) {
    for (int i = 0; i < a->n; i++) {
      put(p, i ? "," : "[");
      put_int(t, a->ints[i]);
    }
    put(p, a->n ? "]" : "[]");
  } else {
    ts_text_attr(t, spec, a);
  }
}

static void attrs(Printer *p, const TsTileStmt *s) {
  int n;
  const TsAttrSpec *spec = ts_tile_op_attrs(s->op, &n);
  const char *before = " {";
  for (int i = 0; i < n && i < s->nattr; i++) {
    if (ts_attr_same(&s->attr[i], &spec[i].preset)) continue;
    put(p, before);
    ts_text_add(p->text, spec[i].name, (size_t)spec[i].namelen);
    put(p, "=");
    attr(p, &spec[i], &s->attr[i]);
    before = " ";
  }
  if (before[1] == 0) put(p, "}");
}

/* ---- statements */
static void positions(Printer *p, const TsTileStmt *s, int from, int n) {
  put(p, "[");
  operands(p, "", n, s->in + from);
  put(p, "]");
}

/* Of the positions the last ones are those in the memory that is read. */
static void copy(Printer *p, const TsTileStmt *s, int memories) {
  int first = memories == 2 ? 2 : 4, n = s->nin - first, rank = s->in[1]->type.rank;
  int nread = n < rank ? n : rank;
  operands(p, " ", 1, s->in);
  if (n > nread) positions(p, s, first, n - nread);
  operands(p, ", ", 1, s->in + 1);
  positions(p, s, first + n - nread, nread);
  if (memories == 2) return;
  operands(p, ", ", 1, s->in + 2);
  positions(p, s, 3, 1);
}

static void in_brackets(Printer *p, const TsTileStmt *s, char tail) {
  operands(p, " ", 1, s->in);
  positions(p, s, 1, s->nin - 1 - (tail != 0));
  if (tail) operands(p, tail == '=' ? " = " : ", ", 1, s->in + s->nin - 1);
}

static void plain(Printer *p, const TsTileStmt *s) {
  const TsTileBrackets *b = ts_tile_brackets(s->op);
  int least = b ? b->memories + (b->memories == 3) + (b->tail != 0) : 0;
  if (!b || s->nin < least)
    operands(p, " ", s->nin, s->in);
  else if (b->memories > 1)
    copy(p, s, b->memories);
  else
    in_brackets(p, s, b->tail);
  attrs(p, s);
}

static void loop(Printer *p, const TsTileStmt *s) {
  const TsTileRegion *r = s->region[0];
  int64_t step = ts_tile_attr(s, "step")->i, unroll = ts_tile_attr(s, "unroll")->i;
  put(p, " ");
  name(p, r->nparam ? r->param[0] : NULL);
  operands(p, " in ", 1, s->in);
  operands(p, "..", 1, s->in + 1);
  if (step != 1) ts_text_format(p->text, " step %" PRId64, step);
  if (ts_tile_attr(s, "parallel")->i) put(p, " parallel");
  if (unroll != 1) ts_text_format(p->text, " unroll %" PRId64, unroll);
  for (int i = 2; i < s->nin; i++) {
    put(p, i > 2 ? ", " : " carry ");
    name(p, i - 1 < r->nparam ? r->param[i - 1] : NULL);
    operands(p, " = ", 1, s->in + i);
  }
}

static void repeat(Printer *p, const TsTileStmt *s) {
  const TsTileRegion *r = s->region[0];
  for (int i = 0; i < s->nin; i++) {
    put(p, i ? ", " : " carry ");
    name(p, i < r->nparam ? r->param[i] : NULL);
    operands(p, " = ", 1, s->in + i);
  }
}

static void role(Printer *p, const TsTileStmt *s) {
  const TsAttr *who = ts_tile_attr(s, "name");
  int64_t warps = ts_tile_attr(s, "warps")->i;
  put(p, " ");
  word(p, who->type == TS_ATTR_str && who->str ? who->str : "");
  if (warps != 1) ts_text_format(p->text, " warps %" PRId64, warps);
  if (ts_tile_attr(s, "lanes")->i) put(p, " lanes");
}

static void line(Printer *p, const TsTileStmt *s) {
  for (int i = 0; i < s->nout; i++) {
    if (i) put(p, ", ");
    name(p, s->out[i]);
  }
  if (s->nout) put(p, " = ");
  put(p, ts_tile_op_name(s->op));
  if (s->op == TS_TILE_for && s->nin > 1)
    loop(p, s);
  else if (s->op == TS_TILE_repeat)
    repeat(p, s);
  else if (s->op == TS_TILE_role)
    role(p, s);
  else
    plain(p, s);
  types(p, s);
}

static void place(Printer *p, const TsTileStmt *s) {
  if (!p->places || s->line <= 0 || s->line >= p->k->nplace) return;
  put(p, "  // ");
  ts_text_place_text(p->text, p->k->place[s->line]);
}

static void region(Printer *p, const TsTileRegion *r, int indent);

static void regions(Printer *p, const TsTileStmt *s, int indent) {
  for (int i = 0; i < s->nregion; i++) {
    bool empty = s->op == TS_TILE_if && i && !s->region[i]->first;
    if (empty) break;
    if (i) {
      ts_text_pad(p->text, ' ', indent);
      put(p, "} else {\n");
    }
    region(p, s->region[i], indent + 2);
  }
  ts_text_pad(p->text, ' ', indent);
  put(p, "}\n");
}

static void region(Printer *p, const TsTileRegion *r, int indent) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->nout == 1 && ts_tile_names_in_place(&p->names, s->out[0])) continue;
    ts_text_pad(p->text, ' ', indent);
    line(p, s);
    if (s->nregion) put(p, " {");
    place(p, s);
    put(p, "\n");
    if (s->nregion) regions(p, s, indent);
  }
}

/* ---- the head */
static void params(Printer *p, int from, int to) {
  put(p, "(");
  for (int i = from; i < to; i++) {
    if (i > from) put(p, ", ");
    name(p, p->k->param[i]);
    put(p, ": ");
    type(p->k, &p->k->param[i]->type, TS_SPACE_global, p->text);
  }
  put(p, ")");
}

static void signature(Printer *p) {
  const TsTile *k = p->k;
  TsArena a = {0};
  const char *legal = ts_name_legal(&a, k->name && *k->name ? k->name : "_");
  put(p, "tile @");
  if (!legal) p->text->failed = 1;
  put(p, legal ? legal : "_");
  ts_arena_free(&a);
  for (int i = 0; i < k->ndim; i++) {
    put(p, i ? "," : "<");
    put(p, k->dim[i]);
  }
  if (k->ndim) put(p, ">");
  params(p, 0, k->nin);
  if (k->nin == k->nparam) return;
  put(p, " -> ");
  params(p, k->nin, k->nparam);
}

static void head(Printer *p) {
  const TsTile *k = p->k;
  signature(p);
  if (strcmp(k->target, "cpu")) {
    put(p, " target ");
    word(p, k->target);
  }
  for (int i = 0; i < k->ntile; i++)
    ts_text_format(p->text, "%s%" PRId64, i ? "x" : " tile ", k->tile[i]);
  if (k->stages) ts_text_format(p->text, " stages %d", k->stages);
  if (k->threads) ts_text_format(p->text, " threads %d", k->threads);
  if (k->cluster) ts_text_format(p->text, " cluster %d", k->cluster);
  if (k->unroll) ts_text_format(p->text, " unroll %d", k->unroll);
  if (k->vector) ts_text_format(p->text, " vector %d", k->vector);
  if (k->grain) ts_text_format(p->text, " grain %d", k->grain);
  if (k->high) ts_text_format(p->text, " high %d", k->high);
  if (k->depth) ts_text_format(p->text, " depth %d", k->depth);
  if (k->pack) ts_text_format(p->text, " pack %d", k->pack);
  if (k->marks) put(p, " marks");
  if (k->order) {
    put(p, " order ");
    word(p, k->order);
  }
  if (k->form == TS_FORM_explicit) put(p, " form explicit");
}

static void print(const TsTile *k, TsText *text, bool places) {
  Printer p = {.k = k, .text = text, .places = places};
  if (ts_tile_names_open(&p.names, k, places)) text->failed = 1;
  head(&p);
  put(&p, " {\n");
  region(&p, k->body, 2);
  put(&p, "}\n");
  ts_tile_names_close(&p.names);
}

void ts_tile_stmt_text(const TsTile *k, const TsTileStmt *s, TsText *text) {
  Printer p = {.k = k, .text = text};
  if (ts_tile_names_open(&p.names, k, false)) text->failed = 1;
  line(&p, s);
  ts_tile_names_close(&p.names);
}

void ts_tile_text(const TsTile *k, TsText *text) { print(k, text, false); }
void ts_tile_text_places(const TsTile *k, TsText *text) { print(k, text, true); }
