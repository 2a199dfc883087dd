/* The operator table expanded: rows, their parsed inputs and attributes, and
 * the inference that runs a row's dtype and shape rule. */
#include "lib/op.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/infer.h"
#include "lib/shard/shard.h"
#include "lib/text.h"

/* TYPES column: letters of dtype kinds. */
#define TYPES_F    TS_KIND_F
#define TYPES_C    TS_KIND_C
#define TYPES_I    (TS_KIND_U | TS_KIND_I)
#define TYPES_B    TS_KIND_B
#define TYPES_FC   (TYPES_F | TYPES_C)
#define TYPES_FI   (TYPES_F | TYPES_I)
#define TYPES_IB   (TYPES_I | TYPES_B)
#define TYPES_FIB  (TYPES_F | TYPES_I | TYPES_B)
#define TYPES_FIC  (TYPES_F | TYPES_I | TYPES_C)
#define TYPES_FIBC (TYPES_F | TYPES_I | TYPES_B | TYPES_C)
#define TYPES_ANY  (TYPES_FIBC | TS_KIND_X)

/* ARITY column: inputs, and for pointwise rows parameters ("1p2"). */
#define NPAR_0   0
#define NPAR_1   0
#define NPAR_2   0
#define NPAR_3   0
#define NPAR_4   0
#define NPAR_5   0
#define NPAR_6   0
#define NPAR_7   0
#define NPAR_8   0
#define NPAR_n   0
#define NPAR_1p1 1
#define NPAR_1p2 2

/* Facts are members, written behind the help: .steps = 16. */
#define NOTHING  TS_FAILS_NOTHING
#define OPTIONS  TS_FAILS_OPTIONS
#define ELEMENTS TS_FAILS_ELEMENTS
#define NEVER    TS_FINITE_NEVER
#define SOME     TS_FINITE_SOME
#define WIDE     TS_FINITE_WIDE
#define KEEPS    TS_FINITE_KEEPS
#define ALWAYS   TS_FINITE_ALWAYS
#define LOW      TS_AUTOCAST_LOW
#define FULL     TS_AUTOCAST_FULL

enum { USUAL_STEPS = 1, USUAL_CODE = 24 };

static TsOpInfo table[TS_OP_COUNT] = {
#define OP(n, c, arity, t, dtype_, shape_, adj, inputs_, attrs_, ...)                          \
  [TS_OP_##n] = {.name = #n,                                                                   \
                 .cls = TS_CLASS_##c,                                                          \
                 .types = TYPES_##t,                                                           \
                 .npar = NPAR_##arity,                                                         \
                 .dtype = ts_dtype_rule_##dtype_,                                              \
                 .shape = ts_shape_rule_##shape_,                                              \
                 .adjoint = #adj,                                                              \
                 .inputs = inputs_,                                                            \
                 .attrs = attrs_,                                                              \
                 .help = __VA_ARGS__},
#include "lib/ops.def"
#undef OP
};

static const char *const class_name[] = {"pointwise", "reduce", "scan",    "view",
                                         "kernel",    "random", "compose", "direct"};

const char *ts_op_class_name(TsClass c) { return class_name[c]; }

/* ---- parsing of the inputs and attributes columns */
static const struct {
  const char *word;
  TsAttrType type;
} attr_type[] = {{"int", TS_ATTR_int},    {"f", TS_ATTR_f},     {"bool", TS_ATTR_bool},
                 {"ints", TS_ATTR_ints},  {"str", TS_ATTR_str}, {"floats", TS_ATTR_floats},
                 {"dtype", TS_ATTR_dtype}};

static void parse_inputs(TsOpInfo *o) {
  for (const char *s = o->inputs; *s;) {
    size_t len = strcspn(s, " ");
    bool optional = s[len - 1] == '?', many = len > 3 && !memcmp(s + len - 3, "...", 3);
    size_t n = len - (many ? 3 : optional ? 1 : 0);
    TS_ASSERT(o->nin < TS_MAX_IN && n < sizeof o->input[0]);
    memcpy(o->input[o->nin++], s, n);
    o->variadic |= many;
    if (!optional && !many) {
      o->nrequired = o->nin;
      o->required |= (uint8_t)(1u << (o->nin - 1));
    }
    s += len + (s[len] == ' ');
  }
}

/* A list default is written "1,1" or, without any, "[]"; its numbers live as long as the table. */
static void parse_list(TsAttr *a, const char *s, size_t len) {
  static int64_t pool[256];
  static int used;
  a->ints = pool + used;
  if (len == 2 && !memcmp(s, "[]", 2)) return;
  for (const char *end = s + len; s < end;) {
    char *next;
    TS_ASSERT(used < 256);
    pool[used++] = strtoll(s, &next, 10);
    a->n++;
    s = next + (*next == ',');
  }
}

static void parse_default(TsAttrSpec *a, const char *s, size_t len) {
  char word[64];
  TS_ASSERT(len < sizeof word);
  memcpy(word, s, len);
  word[len] = 0;
  a->has_default = 1;
  a->preset.type = a->type;
  switch (a->type) {
  case TS_ATTR_int: a->preset.i = strtoll(word, NULL, 10); break;
  case TS_ATTR_f: a->preset.f = strtod(word, NULL); break;
  case TS_ATTR_bool: a->preset.i = !strcmp(word, "true"); break;
  case TS_ATTR_choice: a->preset.i = ts_attr_choice(a, word); break;
  case TS_ATTR_dtype: a->preset.i = ts_dtype_parse(word, (int)len); break;
  case TS_ATTR_ints: parse_list(&a->preset, s, len); break;
  default: TS_BUG("no default can be written for this type: %s", word);
  }
}

static void parse_attr(TsAttrSpec *a, const char *s, size_t len) {
  size_t name = strcspn(s, ":"), type = strcspn(s + name + 1, " =?");
  const char *t = s + name + 1;
  a->name = s, a->namelen = (int)name;
  a->words = t, a->wordslen = (int)type;
  a->type = TS_ATTR_none;
  for (size_t i = 0; i < sizeof attr_type / sizeof *attr_type; i++)
    if (strlen(attr_type[i].word) == type && !memcmp(attr_type[i].word, t, type))
      a->type = attr_type[i].type;
  if (memchr(t, '|', type)) a->type = TS_ATTR_choice;
  TS_ASSERT(a->type != TS_ATTR_none);
  const char *rest = t + type;
  if (rest < s + len && *rest == '?') a->optional = 1;
  if (rest < s + len && *rest == '=') parse_default(a, rest + 1, (size_t)(s + len - rest - 1));
}

int ts_attr_specs(const char *attrs, TsAttrSpec *spec) {
  int n = 0;
  for (const char *s = attrs; *s;) {
    size_t len = strcspn(s, " ");
    TS_ASSERT(n < TS_MAX_ATTR);
    parse_attr(&spec[n++], s, len);
    s += len + (s[len] == ' ');
  }
  return n;
}

/* The first row of each family: an enumerator that takes the next row's number. */
enum {
#define FAMILY(f)  FIRST_##f,
#define OP(n, ...) AFTER_##n = TS_OP_##n,
#include "lib/ops.def"
#undef OP
#undef FAMILY
};

static const struct {
  const char *name;
  int first;
} family[] = {
#define FAMILY(f) {#f, FIRST_##f},
#define OP(...)
#include "lib/ops.def"
#undef OP
#undef FAMILY
};

static bool keeps_float(TsRule *r) {
  return r == ts_dtype_rule_same || r == ts_dtype_rule_float || r == ts_dtype_rule_arith ||
         r == ts_dtype_rule_promote || r == ts_dtype_rule_real || r == ts_dtype_rule_angle;
}

static bool takes_places(const TsOpInfo *o) {
  for (int i = 0; i < o->nin; i++)
    if (!strcmp(o->input[i], "index") || !strcmp(o->input[i], "ids")) return true;
  return false;
}

static int8_t find_varying(const TsOpInfo *o) {
  size_t n = o->varies ? strlen(o->varies) : 0;
  for (int i = 0; n && i < o->nattr; i++)
    if ((size_t)o->attr[i].namelen == n && !memcmp(o->attr[i].name, o->varies, n))
      return (int8_t)i;
  TS_ASSERT(!n);
  return -1;
}

/* Facts that the row leaves to the others. */
static void derive(TsOpInfo *o) {
  bool view = o->cls == TS_CLASS_VIEW;
  o->keeps_float = keeps_float(o->dtype);
  o->gives_bool = o->dtype == ts_dtype_rule_compare || o->dtype == ts_dtype_rule_bool;
  o->moves =
      view && o->nin == 1 && o->dtype == ts_dtype_rule_same && strcmp(o->adjoint, "zero");
  o->keeps_order |= o->moves && !strcmp(o->adjoint, "reshape");
  if (!o->steps) o->steps = USUAL_STEPS;
  if (!o->code) o->code = USUAL_CODE;
  if (!o->fails) o->fails = takes_places(o) ? TS_FAILS_ELEMENTS : TS_FAILS_NOTHING;
  o->varying = find_varying(o);
  if (!o->shard && o->cls == TS_CLASS_POINTWISE) o->shard = ts_shard_pointwise;
  if (!o->shard && o->cls == TS_CLASS_REDUCE) o->shard = ts_shard_reduce;
  if (!o->shard && o->cls == TS_CLASS_SCAN) o->shard = ts_shard_others;
  if (!o->shard && !ts_class_composed(o->cls)) TS_BUG("%s has no rule in .shard", o->name);
  if (!o->finite) o->finite = view ? TS_FINITE_KEEPS : TS_FINITE_NEVER;
}

static atomic_bool parsed;

/* Operators by name: places by a hash of it, the next free ones where several have one. */
enum { PLACES = 1024 };
_Static_assert(2 * TS_OP_COUNT <= PLACES, "few names share a place");
static uint16_t by_name[PLACES]; /* 1 + the operator */

static unsigned place_of(const char *name) { return ts_text_hash(name, strlen(name)) % PLACES; }

static void enter_name(int op) {
  unsigned at = place_of(table[op].name);
  while (by_name[at]) at = (at + 1) % PLACES;
  by_name[at] = (uint16_t)(op + 1);
}

static void parse_table(void) {
  for (int i = 0; i < TS_OP_COUNT; i++) {
    TsOpInfo *o = &table[i];
    for (size_t f = 0; f < sizeof family / sizeof *family && family[f].first <= i; f++)
      o->family = family[f].name;
    parse_inputs(o);
    o->nattr = (uint8_t)ts_attr_specs(o->attrs, o->attr);
    derive(o);
  }
  for (int i = 0; i < TS_OP_COUNT; i++) enter_name(i);
  atomic_store_explicit(&parsed, true, memory_order_release);
}

/* pthread_once for every call of an operator would be a tenth of it. */
const TsOpInfo *ts_op_info(TsOp op) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!atomic_load_explicit(&parsed, memory_order_acquire)) pthread_once(&once, parse_table);
  return &table[op];
}

TsOp ts_op_find(const char *name) {
  ts_op_info((TsOp)0); /* the names are entered */
  for (unsigned at = place_of(name); by_name[at]; at = (at + 1) % PLACES)
    if (!strcmp(table[by_name[at] - 1].name, name)) return (TsOp)(by_name[at] - 1);
  return TS_OP_COUNT;
}

void ts_op_error_of(TsError *e, const char *name) {
  char was[sizeof e->message], word[32];
  size_t n = strcspn(e->message, ":");
  if (n == 0 || n >= sizeof word || e->message[n + 1] != ' ') return;
  snprintf(word, sizeof word, "%.*s", (int)n, e->message);
  if (!strcmp(word, name) || ts_op_find(word) == TS_OP_COUNT) return;
  const char *place = strstr(e->message, " (in ");
  if (!place) place = strstr(e->message, " (at ");
  TsOp op = ts_op_find(name);
  if (op != TS_OP_COUNT && table[op].refuses && e->code == TS_ERR_index) {
    snprintf(was, sizeof was, "%s", place ? place : "");
    ts_error_clear(e);
    ts_error_set(e, TS_ERR_value, "%s: %s%.300s", name, table[op].refuses, was);
  } else if (!place) {
    snprintf(was, sizeof was, "%s", e->message);
    snprintf(e->message, sizeof e->message, "%.40s%.430s", name, was + n);
  }
}

static const char *nth_name(const void *arg, int i) {
  (void)arg;
  return table[i].name;
}

/* The longest name that the word goes on behind: mse of mse_loss. */
static const char *beginning(const char *word) {
  const char *best = NULL;
  size_t most = 1;
  for (int i = 0; i < TS_OP_COUNT; i++) {
    size_t n = strlen(table[i].name);
    if (n > most && !strncmp(word, table[i].name, n) && word[n] == '_')
      best = table[i].name, most = n;
  }
  return best;
}

const char *ts_op_suggest(const char *name) {
  const char *guess = ts_text_closest(name, TS_OP_COUNT, nth_name, NULL);
  return guess ? guess : beginning(name);
}

/* ---- attributes */
int ts_attr_choice(const TsAttrSpec *s, const char *word) {
  const char *p = s->words, *end = p + s->wordslen;
  size_t len = strlen(word);
  for (int i = 0; p < end; i++) {
    const char *bar = memchr(p, '|', (size_t)(end - p));
    size_t n = (size_t)((bar ? bar : end) - p);
    if (n == len && !memcmp(p, word, n)) return i;
    p += n + 1;
  }
  return -1;
}

const char *ts_attr_word(const TsAttrSpec *s, int i, char buffer[64]) {
  const char *p = s->words, *end = p + s->wordslen;
  for (;;) {
    const char *bar = memchr(p, '|', (size_t)(end - p));
    size_t n = (size_t)((bar ? bar : end) - p);
    if (i-- == 0 && n < 64) {
      memcpy(buffer, p, n);
      buffer[n] = 0;
      return buffer;
    }
    if (!bar) return NULL;
    p = bar + 1;
  }
}

void ts_op_defaults(TsOp op, TsAttr *attr) {
  const TsOpInfo *o = ts_op_info(op);
  for (int i = 0; i < o->nattr; i++) attr[i] = o->attr[i].preset;
}

int ts_op_check_attrs(TsOp op, const TsAttr *attr, TsError *err) {
  const TsOpInfo *o = ts_op_info(op);
  for (int i = 0; i < o->nattr; i++) {
    const TsAttrSpec *s = &o->attr[i];
    if (attr[i].type != TS_ATTR_none || s->optional) continue;
    ts_error_set(err, TS_ERR_attribute, "%s: option '%.*s' is missing", o->name, s->namelen,
                 s->name);
    return ts_error_hint(err, "see ? %s", o->name);
  }
  return 0;
}

/* ---- inference */
static const char *kinds_text(int kinds, char buffer[80]) {
  snprintf(buffer, 80, "%s%s%s%s", kinds & TS_KIND_F ? "floats, " : "",
           kinds & TS_KIND_I ? "integers, " : "", kinds & TS_KIND_B ? "bool, " : "",
           kinds & TS_KIND_C ? "complex numbers, " : "");
  buffer[strlen(buffer) - 2] = 0;
  return buffer;
}

/* Blocks are stored and converted; few look inside them. */
static int check_blocks(TsInfer *inf, const TsOpInfo *o) {
  char text[TS_META_TEXT];
  if (inf->op == TS_OP_cast || inf->op == TS_OP_clone || inf->op == TS_OP_contiguous ||
      inf->op == TS_OP_bitcast)
    return 0;
  for (int i = 0; i < inf->nin; i++) {
    if (!inf->in[i] || !ts_dtype_in_blocks(inf->in[i]->dtype)) continue;
    if (o->stored && !strcmp(o->input[i], "w")) continue;
    ts_error_set(inf->err, TS_ERR_dtype, "%s: %s is a storage format, in %s", o->name,
                 ts_dtype_name((TsDtype)inf->in[i]->dtype), ts_meta_text(inf->in[i], text));
    const char *x = o->variadic ? "x" : o->input[i];
    return ts_error_hint(inf->err, "convert with %s:cast(\"f32\") or %s:cast(\"bf16\") first",
                         x, x);
  }
  return 0;
}

/* How one comes from what a row does not take to what it does. */
static int kinds_hint(TsError *err, const char *x, TsDtype d, int kinds) {
  if (ts_dtype_is(d, TS_KIND_C))
    return ts_error_hint(err,
                         "complex numbers have the parts %s:real() and %s:imag(), and the "
                         "absolute value %s:abs()",
                         x, x, x);
  if (kinds & TS_KIND_C && !(kinds & TS_KIND_F))
    return ts_error_hint(err,
                         "convert with %s:cast(\"complex64\") first, or op.complex(re, im)", x);
  return ts_error_hint(err, "convert with %s:cast(\"%s\") first", x,
                       kinds & TS_KIND_F   ? "f32"
                       : kinds & TS_KIND_I ? "i64"
                                           : "bool");
}

/* The input that the common type comes from; a bare number only if it is no other's. */
static int wrong_input(const TsInfer *inf) {
  for (int weak = 0; weak < 2; weak++)
    for (int i = 0; i < inf->nin; i++)
      if (inf->in[i] && !inf->in[i]->weak == !weak && ts_op_is_value(inf->op, i) &&
          ts_dtype_rank((TsDtype)inf->in[i]->dtype) == ts_dtype_rank(inf->compute))
        return i;
  return 0;
}

/* "y", or "xs 3" of those that may be any number. */
static const char *input_name(const TsOpInfo *o, int i, char buffer[32]) {
  if (!o->variadic || i < o->nin - 1) return o->input[i];
  snprintf(buffer, 32, "%s %d", o->input[o->nin - 1], i - o->nin + 2);
  return buffer;
}

static int check_kinds(TsInfer *inf, const TsOpInfo *o) {
  char text[TS_META_TEXT], kinds[80], name[32];
  if (inf->nin == 0 || ts_dtype_is(inf->compute, o->types)) return 0;
  int i = wrong_input(inf);
  const TsMeta *m = inf->in[i];
  kinds_text(o->types, kinds);
  if (i < TS_MAX_IN && inf->known >> i & 1)
    return ts_error_set(inf->err, TS_ERR_dtype, "%s: takes %s, not the number %.14g", o->name,
                        kinds, inf->number[i]);
  ts_meta_text(m, text);
  if (inf->nin == 1)
    ts_error_set(inf->err, TS_ERR_dtype, "%s: takes %s, not %s", o->name, kinds, text);
  else
    ts_error_set(inf->err, TS_ERR_dtype, "%s: takes %s, not %s as %s", o->name, kinds, text,
                 input_name(o, i, name));
  return kinds_hint(inf->err, inf->nin == 1 || o->variadic ? "x" : o->input[i],
                    (TsDtype)m->dtype, o->types);
}

static inline int infer_types(TsInfer *inf, const TsOpInfo *o) {
  inf->nout = 1;
  inf->dynamic = false;
  inf->compute = inf->nin && inf->in[0] ? (TsDtype)inf->in[0]->dtype : TS_DT_f32;
  memset(&inf->out[0], 0, offsetof(TsMeta, dim));
  return check_blocks(inf, o) || o->dtype(inf) || check_kinds(inf, o) ? -1 : 0;
}

int ts_op_infer_types(TsInfer *inf) { return infer_types(inf, ts_op_info(inf->op)); }

int ts_op_infer(TsInfer *inf) {
  const TsOpInfo *o = ts_op_info(inf->op);
  if (infer_types(inf, o) || o->shape(inf)) return -1;
  for (int i = 0; i < inf->nout; i++)
    if (ts_meta_check_size(&inf->out[i], o->name, inf->err)) return -1;
  return o->shard ? ts_shard_infer(inf) : 0;
}

TsDtype ts_op_number_dtype(const TsInfer *inf, int i) {
  const TsMeta *m = inf->in[i];
  int cls = ts_op_info(inf->op)->cls;
  if (!m || !m->weak || !ts_dtype_is((TsDtype)m->dtype, TS_KIND_F) || inf->op == TS_OP_cast ||
      cls == TS_CLASS_POINTWISE || ts_class_composed(cls))
    return TS_DT_none;
  return ts_dtype_float(ts_dtype_real(inf->compute));
}

int ts_infer_axis(TsInfer *inf, int64_t axis, int ndim, int *out) {
  if (axis >= -ndim && axis < ndim) {
    *out = (int)(axis < 0 ? axis + ndim : axis);
    return 0;
  }
  char text[TS_META_TEXT];
  ts_error_set(inf->err, TS_ERR_index, "%s: axis %lld is out of range for %s",
               table[inf->op].name, (long long)axis,
               inf->nin && inf->in[0] ? ts_meta_text(inf->in[0], text) : "the result");
  if (ndim == 0)
    return ts_error_hint(inf->err, table[inf->op].scalars ? "of a scalar it is 0 or -1"
                                                          : "a scalar has no axes");
  return ts_error_hint(inf->err, "axes go from 0 to %d, or from -%d to -1", ndim - 1, ndim);
}

int ts_infer_axes(TsInfer *inf, const TsAttr *a, int ndim, bool reduced[TS_MAX_RANK]) {
  memset(reduced, a->type == TS_ATTR_none, TS_MAX_RANK * sizeof *reduced);
  for (int i = 0; a->type != TS_ATTR_none && i < a->n; i++) {
    int axis;
    if (ts_infer_axis(inf, a->ints[i], ndim, &axis)) return -1;
    if (reduced[axis])
      return ts_error_set(inf->err, TS_ERR_attribute, "%s: axis %d is named twice",
                          table[inf->op].name, axis);
    reduced[axis] = true;
  }
  return 0;
}

bool ts_op_is_value(TsOp op, int i) {
  static const char *const other[] = {
      "index",  "ids",   "mask", "target", "cond",    "place",  "positions", "sizes",
      "source", "clock", "row",  "column", "offsets", "scales", "table",     "start"};
  const TsOpInfo *o = &table[op];
  if (i >= o->nin) i = o->nin - 1;
  for (size_t k = 0; k < sizeof other / sizeof *other; k++)
    if (!strcmp(o->input[i], other[k])) return false;
  return true;
}

int ts_infer_number(TsInfer *inf, int i, TsDtype d) {
  if (!(inf->known >> i & 1)) return 0;
  return ts_dtype_check_number(d, inf->number[i], table[inf->op].name, inf->err);
}

int ts_infer_mismatch(TsInfer *inf, const char *what, int a, int b) {
  char ta[TS_META_TEXT], tb[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s: %s x %s", table[inf->op].name, what,
                      ts_meta_text(inf->in[a], ta), ts_meta_text(inf->in[b], tb));
}
