/* Calling C functions on tensors. Nothing is known of their threads, so they are called on
 * the caller's. */
#include "vm/foreign.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/foreign_text.h"
#include "vm/core/vm.h"

struct TsForeign {
  int refs;
  TsForeignText text;
  char *symbol;
  void (*call)(void);
  ffi_cif cif;
  ffi_type *type[TS_FOREIGN_PARAMS];
};

/* A value as libffi wants it; results narrower than a register arrive widened. */
typedef union Cell {
  void *pointer;
  ffi_arg u;
  ffi_sarg i;
  int64_t i64;
  int32_t i32;
  int16_t i16;
  int8_t i8;
  float f32;
  double f64;
} Cell;

const char *ts_foreign_name(const TsForeign *f) { return f->symbol; }

int ts_foreign_params(const TsForeign *f, const TsForeignParam **param) {
  *param = f->text.param;
  return f->text.n;
}

static bool returns_value(const TsForeign *f) {
  return f->text.returns != TS_FOREIGN_VOID && !f->text.status;
}

static int count(const TsForeign *f, TsForeignKind kind) {
  int n = 0;
  for (int i = 0; i < f->text.n; i++) n += f->text.param[i].kind == kind;
  return n;
}

int ts_foreign_nresult(const TsForeign *f) {
  return returns_value(f) + count(f, TS_FOREIGN_out);
}

/* ---- libraries */
/* "m" without version exists only where it is developed for, so the newest version counts. */
static void *open_short(const char *name) {
  char file[256];
  void *lib;
  for (int version = 30; version >= 0; version--) {
    snprintf(file, sizeof file, "lib%s.so.%d", name, version);
    if ((lib = dlopen(file, RTLD_NOW | RTLD_LOCAL))) return lib;
  }
  snprintf(file, sizeof file, "lib%s.so", name);
  return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

static void *open_library(TsError *err, const char *name) {
  bool whole = !name || strchr(name, '/') || strstr(name, ".so");
  void *lib = whole ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : open_short(name);
  if (lib) return lib;
  const char *why = dlerror();
  ts_error_set(err, TS_ERR_value, "foreign: no library '%.80s': %.250s", name ? name : "",
               why ? why : "not found");
  if (whole)
    ts_error_hint(err, "file names are searched for as the loader does; a path has a '/'");
  else
    ts_error_hint(err, "\"m\" stands for libm.so.6; a file name has \".so\", a path a '/'");
  return NULL;
}

static int find_symbol(TsForeign *f, TsError *err, const char *library) {
  void *lib = open_library(err, library);
  if (!lib) return -1;
  void *at = dlsym(lib, f->symbol);
  if (!at) {
    dlclose(lib);
    ts_error_set(err, TS_ERR_value, "foreign: the library '%.80s' has no function '%.80s'",
                 library ? library : "of the program", f->symbol);
    return ts_error_hint(
        err, "nm -D lists what a library has; C++ changes names unless they are extern \"C\"");
  }
  memcpy(&f->call, &at, sizeof at);
  return 0;
}

static int prepare(TsForeign *f, TsError *err) {
  const TsForeignText *t = &f->text;
  for (int i = 0; i < t->n; i++) {
    bool pointer = t->param[i].kind == TS_FOREIGN_in || t->param[i].kind == TS_FOREIGN_out;
    f->type[i] = pointer ? &ffi_type_pointer : ts_foreign_type[t->param[i].type].ffi;
  }
  if (ffi_prep_cif(&f->cif, FFI_DEFAULT_ABI, (unsigned)t->n, ts_foreign_type[t->returns].ffi,
                   f->type) == FFI_OK)
    return 0;
  return ts_error_set(err, TS_ERR_value, "foreign %s: libffi does not take the signature",
                      f->symbol);
}

TsForeign *ts_foreign_open(TsError *err, const char *library, const char *symbol,
                           const char *signature) {
  TsForeign *f = calloc(1, sizeof *f);
  if (!f || !(f->symbol = strdup(symbol))) {
    free(f);
    return ts_error_memory(err), NULL;
  }
  f->refs = 1;
  if (!ts_foreign_read(&f->text, err, symbol, signature) && !find_symbol(f, err, library) &&
      !prepare(f, err))
    return f;
  ts_foreign_unref(f);
  return NULL;
}

TsForeign *ts_foreign_ref(TsForeign *f) {
  f->refs++;
  return f;
}

void ts_foreign_unref(TsForeign *f) {
  if (!f || --f->refs) return;
  free(f->symbol);
  free(f);
}

/* ---- types */
static int wrong_count(const TsForeign *f, TsError *err, int have, int want) {
  ts_error_set(err, TS_ERR_argument, "%s: %d tensors given, its signature has %d", f->symbol,
               have, want);
  return ts_error_hint(err,
                       "numbers of the signature go into a table behind the tensors, {n = 2}");
}

static int check_inputs(const TsForeign *f, TsError *err, int nin, const TsMeta *const *in) {
  int want = count(f, TS_FOREIGN_in) + count(f, TS_FOREIGN_each), k = 0;
  char text[TS_META_TEXT];
  if (nin != want) return wrong_count(f, err, nin, want);
  for (int i = 0; i < f->text.n; i++) {
    const TsForeignParam *p = &f->text.param[i];
    if (p->kind != TS_FOREIGN_in && p->kind != TS_FOREIGN_each) continue;
    const TsMeta *m = in[k++];
    if (m->dtype == p->dtype) continue;
    ts_error_set(err, TS_ERR_dtype, "%s: input '%s' is %s, the function takes %s", f->symbol,
                 p->name, ts_meta_text(m, text), ts_dtype_name(p->dtype));
    return ts_error_hint(err, "x:cast(\"%s\") converts it", ts_dtype_name(p->dtype));
  }
  return 0;
}

static int check_axes(const TsForeign *f, TsError *err, int nin, const TsMeta *const *in,
                      const TsMeta *out) {
  const TsMeta *type[TS_FOREIGN_PARAMS] = {NULL};
  int k = 0, made = returns_value(f);
  for (int i = 0; i < f->text.n; i++) {
    TsForeignKind kind = (TsForeignKind)f->text.param[i].kind;
    if (kind == TS_FOREIGN_in || kind == TS_FOREIGN_each) type[i] = k < nin ? in[k++] : NULL;
    if (kind == TS_FOREIGN_out) type[i] = &out[made++];
  }
  for (int i = 0; i < f->text.n; i++) {
    const TsForeignParam *p = &f->text.param[i];
    if (p->kind != TS_FOREIGN_size || p->size != TS_FOREIGN_dim) continue;
    int ndim = type[p->of]->ndim;
    if (p->axis >= -ndim && p->axis < ndim) continue;
    return ts_error_set(err, TS_ERR_shape, "%s: '%s' is the size of axis %d, '%s' has %d axes",
                        f->symbol, p->name, p->axis, f->text.param[p->of].name, ndim);
  }
  return 0;
}

static int elementwise(const TsForeign *f, TsError *err, int nin, const TsMeta *const *in,
                       TsMeta *out) {
  char have[TS_META_TEXT], before[TS_META_TEXT];
  int k = 0, failed = 0;
  bool any = false;
  for (int i = 0; i < f->text.n && !failed; i++) {
    TsForeignKind kind = (TsForeignKind)f->text.param[i].kind;
    if (kind != TS_FOREIGN_in && kind != TS_FOREIGN_each) continue;
    TS_ASSERT(k < nin);
    const TsMeta *m = in[k++];
    if (kind != TS_FOREIGN_each) continue;
    TsMeta sum = *m;
    if (any && ts_meta_broadcast(out, m, &sum))
      failed = ts_error_set(
          err, TS_ERR_shape, "%s: '%s' is %s, which does not broadcast with %s", f->symbol,
          f->text.param[i].name, ts_meta_text(m, have), ts_meta_text(out, before));
    *out = sum;
    any = true;
  }
  return failed;
}

int ts_foreign_infer(const TsForeign *f, TsError *err, int nin, const TsMeta *const *in,
                     int nshape, const TsMeta *shape, TsMeta *out) {
  int want = count(f, TS_FOREIGN_out), made = 0, k = 0;
  if (check_inputs(f, err, nin, in)) return -1;
  if (nshape && nshape != want)
    return ts_error_set(
        err, TS_ERR_shape,
        "%s: shape gives %d shapes, the signature has %d results behind pointers", f->symbol,
        nshape, want);
  if (want && !nshape && nin == 0) {
    ts_error_set(err, TS_ERR_shape, "%s: without inputs, its result needs a shape", f->symbol);
    return ts_error_hint(err, "give {shape = function(options) return {10} end}");
  }
  if (returns_value(f)) {
    out[made] = (TsMeta){0};
    if (count(f, TS_FOREIGN_each) && elementwise(f, err, nin, in, &out[made])) return -1;
    out[made++].dtype = (uint8_t)ts_foreign_type[f->text.returns].result;
  }
  for (int i = 0; i < f->text.n; i++) {
    const TsForeignParam *p = &f->text.param[i];
    if (p->kind != TS_FOREIGN_out) continue;
    out[made] = nshape ? shape[k++] : *in[0];
    out[made++].dtype = (uint8_t)p->dtype;
  }
  for (int i = 0; i < made; i++) out[i].weak = 0, out[i].device = 0;
  return check_axes(f, err, nin, in, out);
}

/* ---- numbers */
static int check_number(const TsForeign *f, TsError *err, const TsForeignParam *p, double v) {
  const TsForeignType *t = &ts_foreign_type[p->type];
  if (t->high == 0 || (v == floor(v) && v >= t->low && v <= t->high)) return 0;
  return ts_error_set(err, TS_ERR_value, "%s: '%s' = %.17g does not fit its type %s", f->symbol,
                      p->name, v, t->name);
}

int ts_foreign_check(const TsForeign *f, TsError *err, const double *option) {
  for (int i = 0; i < f->text.n; i++)
    if (f->text.param[i].kind == TS_FOREIGN_option &&
        check_number(f, err, &f->text.param[i], option[i]))
      return -1;
  return 0;
}

static void set_number(Cell *c, int type, double v) {
  ffi_type *t = ts_foreign_type[type].ffi;
  if (t == &ffi_type_float)
    c->f32 = (float)v;
  else if (t == &ffi_type_double)
    c->f64 = v;
  else if (t == &ffi_type_uint64)
    c->u = (ffi_arg)v;
  else
    c->i64 = (int64_t)v; /* the low bytes are those of the narrower types */
}

static double size_of(const TsForeignParam *p, const TsMeta *m) {
  switch ((TsForeignSize)p->size) {
  case TS_FOREIGN_numel: return (double)ts_meta_numel(m);
  case TS_FOREIGN_nbytes: return (double)ts_meta_nbytes(m);
  case TS_FOREIGN_ndim: return m->ndim;
  default: return (double)m->dim[p->axis < 0 ? p->axis + m->ndim : p->axis];
  }
}

/* An element as C's parameter. */
static void get_element(Cell *c, TsDtype d, const void *at, int64_t k) {
  int nbytes = ts_dtypes[d].nbytes;
  c->u = 0;
  memcpy(c, (const char *)at + k * nbytes, (size_t)nbytes);
}

static void put_result(const Cell *c, int type, void *at, int64_t k) {
  ffi_type *t = ts_foreign_type[type].ffi;
  switch (ts_foreign_type[type].result) {
  case TS_DT_f32: ((float *)at)[k] = c->f32; break;
  case TS_DT_f64: ((double *)at)[k] = c->f64; break;
  case TS_DT_i8: ((int8_t *)at)[k] = (int8_t)c->i; break;
  case TS_DT_u8: ((uint8_t *)at)[k] = (uint8_t)c->u; break;
  case TS_DT_bool: ((uint8_t *)at)[k] = (uint8_t)c->u != 0; break;
  case TS_DT_i16: ((int16_t *)at)[k] = (int16_t)c->i; break;
  case TS_DT_i32:
    ((int32_t *)at)[k] = t == &ffi_type_uint16 ? (uint16_t)c->u : (int32_t)c->i;
    break;
  default: ((int64_t *)at)[k] = t == &ffi_type_uint32 ? (uint32_t)c->u : c->i64;
  }
}

/* ---- calling */
typedef struct Run {
  const TsForeign *f;
  TsContext *c;
  TsTensor *own[TS_FOREIGN_PARAMS]; /* row-major inputs, by parameter */
  const TsMeta *type[TS_FOREIGN_PARAMS];
  Cell cell[TS_FOREIGN_PARAMS];
  void *arg[TS_FOREIGN_PARAMS];
} Run;

static TsTensor *spread(TsContext *c, TsTensor *x, const TsMeta *to) {
  if (ts_meta_same_shape(&x->meta, to)) return ts_tensor_contiguous(c, x);
  TsAttr shape = ts_attr_ints(to->dim, to->ndim);
  TsTensor *view = ts_vm_call1(c, TS_OP_broadcast_to, 1, &x, &shape), *y;
  y = view ? ts_tensor_contiguous(c, view) : NULL;
  ts_tensor_unref(view);
  return y;
}

static int bind_inputs(Run *r, TsTensor *const *in, const TsMeta *each) {
  for (int i = 0, k = 0; i < r->f->text.n; i++) {
    const TsForeignParam *p = &r->f->text.param[i];
    if (p->kind != TS_FOREIGN_in && p->kind != TS_FOREIGN_each) continue;
    TsTensor *x = in[k++];
    r->type[i] = &x->meta;
    r->own[i] =
        p->kind == TS_FOREIGN_each ? spread(r->c, x, each) : ts_tensor_contiguous(r->c, x);
    const void *at = r->own[i] ? ts_tensor_read(r->own[i]) : NULL;
    if (!at && (!r->own[i] || ts_tensor_numel(r->own[i]))) return -1;
    r->cell[i].pointer = (void *)(uintptr_t)at;
  }
  return 0;
}

static int bind_results(Run *r, int nout, const TsMeta *const *type, TsTensor **out) {
  for (int i = 0; i < nout; i++) {
    if (!(out[i] = ts_tensor_new(r->c, type[i]))) return -1;
    void *at = ts_tensor_write(out[i]);
    if (!at && ts_tensor_numel(out[i])) return -1;
    if (at) memset(at, 0, (size_t)ts_meta_nbytes(type[i]));
  }
  for (int i = 0, k = returns_value(r->f); i < r->f->text.n; i++) {
    if (r->f->text.param[i].kind != TS_FOREIGN_out) continue;
    r->type[i] = type[k];
    r->cell[i].pointer = ts_tensor_write(out[k++]);
  }
  return 0;
}

static int bind_numbers(Run *r, const double *option) {
  for (int i = 0; i < r->f->text.n; i++) {
    const TsForeignParam *p = &r->f->text.param[i];
    r->arg[i] = &r->cell[i];
    if (p->kind != TS_FOREIGN_option && p->kind != TS_FOREIGN_size) continue;
    double v = p->kind == TS_FOREIGN_option ? option[i] : size_of(p, r->type[p->of]);
    if (check_number(r->f, &r->c->err, p, v)) return -1;
    set_number(&r->cell[i], p->type, v);
  }
  return 0;
}

static int call_once(Run *r, TsTensor **out) {
  const TsForeign *f = r->f;
  Cell result = {0};
  ffi_call((ffi_cif *)(uintptr_t)&f->cif, f->call, &result, r->arg);
  if (f->text.status) {
    TsDtype d = ts_foreign_type[f->text.returns].result;
    int64_t wide = 0;
    put_result(&result, f->text.returns, &wide, 0);
    int64_t status = d == TS_DT_i8    ? (int8_t)wide
                     : d == TS_DT_i16 ? (int16_t)wide
                     : d == TS_DT_i32 ? (int32_t)wide
                                      : wide;
    if (!status) return 0;
    return ts_error_set(&r->c->err, TS_ERR_value, "%s: the function failed with status %lld",
                        f->symbol, (long long)status);
  }
  if (returns_value(f)) put_result(&result, f->text.returns, ts_tensor_write(out[0]), 0);
  return 0;
}

/* The commonest forms need no libffi. */
static bool call_plain(Run *r, int64_t from, int64_t to, void *y) {
  const TsForeign *f = r->f;
  const TsForeignParam *p = f->text.param;
  if (f->text.n != 1 || p[0].kind != TS_FOREIGN_each || p[0].type != f->text.returns)
    return false;
  const void *x = ts_tensor_read(r->own[0]);
  if (p[0].dtype == TS_DT_f64)
    for (int64_t k = from; k < to; k++)
      ((double *)y)[k] = ((double (*)(double))f->call)(((const double *)x)[k]);
  else if (p[0].dtype == TS_DT_f32)
    for (int64_t k = from; k < to; k++)
      ((float *)y)[k] = ((float (*)(float))f->call)(((const float *)x)[k]);
  else
    return false;
  return true;
}

static void call_range(Run *r, int64_t from, int64_t to, void *y) {
  const TsForeign *f = r->f;
  const void *x[TS_FOREIGN_PARAMS] = {NULL};
  Cell result = {0};
  for (int i = 0; i < f->text.n; i++)
    if (f->text.param[i].kind == TS_FOREIGN_each) x[i] = ts_tensor_read(r->own[i]);
  for (int64_t k = from; k < to; k++) {
    for (int i = 0; i < f->text.n; i++)
      if (x[i]) get_element(&r->cell[i], f->text.param[i].dtype, x[i], k);
    ffi_call((ffi_cif *)(uintptr_t)&f->cif, f->call, &result, r->arg);
    put_result(&result, f->text.returns, y, k);
  }
}

static int call_elements(Run *r, TsTensor *out) {
  enum { STEP = 4096 };
  int64_t n = ts_tensor_numel(out);
  void *y = ts_tensor_write(out);
  for (int64_t k = 0; k < n; k += STEP) {
    int64_t end = n - k < STEP ? n : k + STEP;
    if (!call_plain(r, k, end, y)) call_range(r, k, end, y);
    if (ts_cpu_interrupted())
      return ts_error_set(&r->c->err, TS_ERR_interrupt, "%s: interrupted", r->f->symbol);
  }
  return 0;
}

int ts_foreign_call(const TsForeign *f, TsContext *c, int nin, TsTensor *const *in,
                    const double *option, int nout, const TsMeta *const *type, TsTensor **out) {
  Run r = {.f = f, .c = c};
  bool each = count(f, TS_FOREIGN_each) > 0;
  (void)nin;
  for (int i = 0; i < nout; i++) out[i] = NULL;
  int failed = bind_inputs(&r, in, type[0]) || bind_results(&r, nout, type, out) ||
               bind_numbers(&r, option);
  if (!failed) failed = each ? call_elements(&r, out[0]) : call_once(&r, out);
  for (int i = 0; i < nout && !failed; i++)
    if (ts_tensor_dtype(out[i]) == TS_DT_bool)
      ts_bools_tidy(ts_tensor_write(out[i]), ts_tensor_numel(out[i]));
  for (int i = 0; i < f->text.n; i++) ts_tensor_unref(r.own[i]);
  for (int i = 0; i < nout && failed; i++) {
    ts_tensor_unref(out[i]);
    out[i] = NULL;
  }
  return failed ? -1 : 0;
}
