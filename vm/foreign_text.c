/* Reading signatures of C functions. */
#include "vm/foreign_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

const TsForeignType ts_foreign_type[] = {
    {"void", TS_DT_none, TS_DT_none, &ffi_type_void, 0, 0},
    {"f32", TS_DT_f32, TS_DT_f32, &ffi_type_float, 0, 0},
    {"f64", TS_DT_f64, TS_DT_f64, &ffi_type_double, 0, 0},
    {"i8", TS_DT_i8, TS_DT_i8, &ffi_type_sint8, -0x1p7, 0x1p7 - 1},
    {"i16", TS_DT_i16, TS_DT_i16, &ffi_type_sint16, -0x1p15, 0x1p15 - 1},
    {"i32", TS_DT_i32, TS_DT_i32, &ffi_type_sint32, -0x1p31, 0x1p31 - 1},
    {"i64", TS_DT_i64, TS_DT_i64, &ffi_type_sint64, -0x1p63, 0x1p63 - 1024},
    {"u8", TS_DT_u8, TS_DT_u8, &ffi_type_uint8, 0, 0x1p8 - 1},
    {"u16", TS_DT_none, TS_DT_i32, &ffi_type_uint16, 0, 0x1p16 - 1},
    {"u32", TS_DT_none, TS_DT_i64, &ffi_type_uint32, 0, 0x1p32 - 1},
    {"u64", TS_DT_none, TS_DT_i64, &ffi_type_uint64, 0, 0x1p64 - 2048},
    {"bool", TS_DT_bool, TS_DT_bool, &ffi_type_uint8, 0, 1},
    {"f16", TS_DT_f16, TS_DT_none, NULL, 0, 0},
    {"bf16", TS_DT_bf16, TS_DT_none, NULL, 0, 0},
    {"fp8_e4m3", TS_DT_fp8_e4m3, TS_DT_none, NULL, 0, 0},
    {"fp8_e5m2", TS_DT_fp8_e5m2, TS_DT_none, NULL, 0, 0},
    {"complex64", TS_DT_complex64, TS_DT_none, NULL, 0, 0},
    {"complex128", TS_DT_complex128, TS_DT_none, NULL, 0, 0},
};
enum { TYPES = sizeof ts_foreign_type / sizeof *ts_foreign_type };

/* C's names on the platforms that we run on, where long has 64 bits. */
static const struct {
  const char *name, *type;
} c_name[] = {
    {"float", "f32"},
    {"double", "f64"},
    {"signed char", "i8"},
    {"char", "i8"},
    {"short", "i16"},
    {"int", "i32"},
    {"long", "i64"},
    {"long long", "i64"},
    {"long int", "i64"},
    {"unsigned char", "u8"},
    {"unsigned short", "u16"},
    {"unsigned int", "u32"},
    {"unsigned", "u32"},
    {"unsigned long", "u64"},
    {"unsigned long long", "u64"},
    {"size_t", "u64"},
    {"ssize_t", "i64"},
    {"ptrdiff_t", "i64"},
    {"int8_t", "i8"},
    {"int16_t", "i16"},
    {"int32_t", "i32"},
    {"int64_t", "i64"},
    {"uint8_t", "u8"},
    {"uint16_t", "u16"},
    {"uint32_t", "u32"},
    {"uint64_t", "u64"},
    {"_Bool", "bool"},
    {"float complex", "complex64"},
    {"double complex", "complex128"},
    {"float _Complex", "complex64"},
    {"double _Complex", "complex128"},
};
enum { C_NAMES = sizeof c_name / sizeof *c_name };

typedef struct Reader {
  const char *text, *at, *symbol;
  TsForeignText *t;
  TsError *err;
} Reader;

static int wrong(Reader *r, const char *what, const char *word) {
  ts_error_set(r->err, TS_ERR_value, "foreign %s: %s%s at column %d of \"%.200s\"", r->symbol,
               what, word, (int)(r->at - r->text) + 1, r->text);
  return ts_error_hint(
      r->err, "as in \"void f(const f32 *x, f32 *y, i64 n = x.numel)\"; see ? op.foreign");
}

static void skip(Reader *r) {
  while (isspace((unsigned char)*r->at)) r->at++;
}

static bool take(Reader *r, char c) {
  skip(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

/* The next word, or false. */
static bool word(Reader *r, char *out, size_t room) {
  skip(r);
  size_t n = 0;
  if (!isalpha((unsigned char)*r->at) && *r->at != '_') return false;
  while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
  if (n >= room) return false;
  memcpy(out, r->at, n);
  out[n] = 0;
  r->at += n;
  return true;
}

static bool take_word(Reader *r, const char *wanted) {
  const char *before = r->at;
  char w[64];
  if (word(r, w, sizeof w) && !strcmp(w, wanted)) return true;
  r->at = before;
  return false;
}

/* ---- types */
static int type_of(const char *name) {
  for (int i = 0; i < C_NAMES; i++)
    if (!strcmp(c_name[i].name, name)) name = c_name[i].type;
  for (int i = 0; i < TYPES; i++)
    if (!strcmp(ts_foreign_type[i].name, name)) return i;
  return -1;
}

static const char *nth_name(const void *arg, int i) {
  (void)arg;
  return i < TYPES ? ts_foreign_type[i].name : c_name[i - TYPES].name;
}

static int unknown_type(Reader *r, const char *name) {
  const char *guess = ts_text_closest(name, TYPES + C_NAMES, nth_name, NULL);
  wrong(r, "unknown type ", name);
  if (guess) return ts_error_hint(r->err, "did you mean '%s'?", guess);
  return ts_error_hint(
      r->err, "types are f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool, C's names of them, "
              "and behind pointers every dtype that is not stored in blocks");
}

/* As many words as make a type: "unsigned long". -1 with the error. */
static int type(Reader *r) {
  char name[64], more[64];
  skip(r);
  const char *first = r->at;
  if (!word(r, name, 32)) return wrong(r, "a type is missing", "");
  int found = type_of(name);
  for (;;) {
    const char *before = r->at;
    size_t n = strlen(name);
    if (!word(r, more, sizeof more - n - 1)) break;
    name[n] = ' ';
    strcpy(name + n + 1, more);
    int longer = type_of(name);
    if (longer < 0) {
      name[n] = 0;
      r->at = before;
      break;
    }
    found = longer;
  }
  if (found < 0) r->at = first;
  return found < 0 ? unknown_type(r, name) : found;
}

/* ---- parameters */
static int find_param(const TsForeignText *t, const char *name) {
  for (int i = 0; i < t->n; i++)
    if (!strcmp(t->param[i].name, name)) return i;
  return -1;
}

static int axis(Reader *r, TsForeignParam *p) {
  char *end;
  if (!take(r, '[')) return wrong(r, "'[' is missing", "");
  long n = strtol(r->at, &end, 10);
  if (end == r->at) return wrong(r, "an axis is missing", "");
  if (n < -TS_MAX_RANK || n >= TS_MAX_RANK) return wrong(r, "there is no such axis", "");
  p->axis = (int)n;
  r->at = end;
  return take(r, ']') ? 0 : wrong(r, "']' is missing", "");
}

/* x.numel and so on; x is found when all parameters are read. */
static int size(Reader *r, TsForeignParam *p, char of[64]) {
  static const char *const name[] = {"numel", "nbytes", "ndim", "shape"};
  char what[64];
  if (!word(r, of, 32)) return wrong(r, "a number or x.numel is missing", "");
  if (!take(r, '.') || !word(r, what, sizeof what)) return wrong(r, "'.numel' is missing", "");
  p->kind = TS_FOREIGN_size;
  for (int i = 0; i < 4; i++) {
    if (strcmp(what, name[i])) continue;
    p->size = (uint8_t)i;
    return i == TS_FOREIGN_dim ? axis(r, p) : 0;
  }
  return wrong(r, "numel, nbytes, ndim or shape[..] is wanted, not ", what);
}

static int value(Reader *r, TsForeignParam *p, char of[64]) {
  char *end;
  skip(r);
  double v = strtod(r->at, &end);
  if (isalpha((unsigned char)*r->at) || end == r->at)
    return size(r, p, of); /* strtod reads "nan" */
  r->at = end;
  p->has_preset = true;
  p->preset = v;
  return 0;
}

static int kind_of(Reader *r, TsForeignParam *p, bool each, bool constant, bool pointer) {
  const TsForeignType *t = &ts_foreign_type[p->type];
  p->dtype = t->dtype;
  p->kind = pointer ? (constant ? TS_FOREIGN_in : TS_FOREIGN_out)
            : each  ? TS_FOREIGN_each
                    : TS_FOREIGN_option;
  if (each && pointer) return wrong(r, "each is for numbers, not for pointers", "");
  if (p->type == TS_FOREIGN_VOID)
    return wrong(
        r, pointer ? "a pointer needs the type of its elements" : "a parameter cannot be void",
        "");
  if (p->kind != TS_FOREIGN_option && t->dtype == TS_DT_none)
    return wrong(r, "no tensor has elements of type ", t->name);
  if (!pointer && !t->ffi) return wrong(r, "only pointers can have type ", t->name);
  return 0;
}

static int param(Reader *r, char of[64]) {
  TsForeignText *t = r->t;
  TsForeignParam *p = &t->param[t->n];
  if (t->n == TS_FOREIGN_PARAMS) return wrong(r, "more than 16 parameters", "");
  *p = (TsForeignParam){.of = -1};
  bool each = take_word(r, "each"), constant = take_word(r, "const");
  int found = type(r);
  if (found < 0) return -1;
  p->type = (uint8_t)found;
  constant |= take_word(r, "const");
  bool pointer = take(r, '*');
  if (take(r, '*')) return wrong(r, "pointers to pointers have no tensors", "");
  take_word(r, "restrict");
  if (kind_of(r, p, each, constant, pointer)) return -1;
  if (!word(r, p->name, sizeof p->name)) return wrong(r, "a parameter needs a name", "");
  if (find_param(t, p->name) >= 0) return wrong(r, "two parameters are called ", p->name);
  t->n++;
  if (!take(r, '=')) return 0;
  if (p->kind != TS_FOREIGN_option) return wrong(r, "only a number can be given by ", "=");
  return value(r, p, of);
}

static int find_sizes(Reader *r, char of[][64]) {
  TsForeignText *t = r->t;
  for (int i = 0; i < t->n; i++) {
    TsForeignParam *p = &t->param[i];
    if (p->kind != TS_FOREIGN_size) continue;
    p->of = find_param(t, of[i]);
    bool tensor = p->of >= 0 && (t->param[p->of].kind == TS_FOREIGN_in ||
                                 t->param[p->of].kind == TS_FOREIGN_out);
    if (!tensor) return wrong(r, "no pointer is called ", of[i]);
  }
  return 0;
}

static int check_result(Reader *r) {
  TsForeignText *t = r->t;
  bool any = t->returns != TS_FOREIGN_VOID && !t->status, each = false, pointers = false;
  for (int i = 0; i < t->n; i++) {
    each |= t->param[i].kind == TS_FOREIGN_each;
    pointers |= t->param[i].kind == TS_FOREIGN_out;
  }
  if (each && (!any || pointers))
    return wrong(r, "a function for each element returns its only result", "");
  if (!any && !pointers)
    return wrong(r, "nothing is returned and no pointer is without const: there is no result",
                 "");
  return 0;
}

int ts_foreign_read(TsForeignText *t, TsError *err, const char *symbol, const char *signature) {
  Reader r = {.text = signature, .at = signature, .symbol = symbol, .t = t, .err = err};
  char name[128], of[TS_FOREIGN_PARAMS + 1][64];
  *t = (TsForeignText){0};
  t->status = take_word(&r, "status");
  t->returns = type(&r);
  if (t->returns < 0) return -1;
  const TsForeignType *back = &ts_foreign_type[t->returns];
  if (take(&r, '*')) return wrong(&r, "a pointer cannot be returned", "");
  if (!back->ffi) return wrong(&r, "only pointers can have type ", back->name);
  if (t->status && (t->returns == TS_FOREIGN_VOID || back->high == 0))
    return wrong(&r, "a status is an integer", "");
  if (word(&r, name, sizeof name) && strcmp(name, symbol))
    return wrong(&r, "the signature is that of ", name);
  if (!take(&r, '(')) return wrong(&r, "'(' is missing", "");
  const char *first = r.at;
  if (take_word(&r, "void") && take(&r, ')'))
    return wrong(&r, "a function without parameters is no operator", "");
  r.at = first;
  do
    if (param(&r, of[t->n])) return -1;
  while (take(&r, ','));
  if (!take(&r, ')')) return wrong(&r, "',' or ')' is missing", "");
  skip(&r);
  take(&r, ';');
  skip(&r);
  if (*r.at) return wrong(&r, "something stands behind the signature", "");
  return find_sizes(&r, of) || check_result(&r) ? -1 : 0;
}
