/* Help on operators: everything is read off the rows of lib/ops.def. What the
 * rules for result dtype and shape say in words stands here. */
#include "repl/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/op.h"
#include "repl/edit/utf8.h"

/* ---- the columns that only help needs as text */
static const struct {
  const char *dtype, *shape;
} rule_name[TS_OP_COUNT] = {
#define OP(n, c, arity, t, dtype_, shape_, ...) [TS_OP_##n] = {#dtype_, #shape_},
#include "lib/ops.def"
#undef OP
};

typedef struct Sentence {
  const char *rule, *text;
} Sentence;

static const Sentence dtype_sentence[] = {
    {"same", "the dtype of the input"},
    {"first", "the dtype of the first input"},
    {"float1", "the dtype of the first input, f32 for integers"},
    {"promote", "the common dtype of the inputs"},
    {"unblocked", "the dtype of the first input, f32 of one stored in blocks"},
    {"promote_all", "the common dtype of the inputs"},
    {"experts_linear", "the common dtype of x and bias"},
    {"promote_experts", "the common dtype of the inputs that are no places"},
    {"arith", "the common dtype of the inputs (i64 for two bools)"},
    {"float", "the common float dtype of the inputs (f32 for integers)"},
    {"compare", "bool"},
    {"bool", "bool"},
    {"index", "i64"},
    {"compare_index", "i64"},
    {"real", "the dtype of the input, of complex numbers that of their parts"},
    {"angle", "the float dtype of the input, of complex numbers that of their parts"},
    {"complex", "complex64, of f64 complex128"},
    {"where", "the common dtype of x and y"},
    {"attr", "the dtype asked for"},
    {"like", "the dtype asked for, else that of the input"},
    {"arange", "the dtype asked for, else i64 if all numbers are whole, else f32"},
    {"accum", "the dtype of the input (i64 for integers and bool)"},
    {"mean", "the dtype of the input (f32 for integers and bool)"},
    {"norm", "the float dtype of the input, of complex numbers that of their parts"},
    {"attention", "the dtype of q, k and v, which have to agree"},
    {"linalg", "the common float or complex dtype of the inputs (f32 for integers)"},
    {"fft", "complex64, of f64 and complex128 complex128"},
    {"filter",
     "real for real x, its own type if that is narrow, else the common one of f32 and f64"},
    {"ifft_real", "f32, of f64 and complex128 f64"},
    {"matmul", "the common dtype of both factors, or the one named by accumulate"},
};

static const Sentence shape_sentence[] = {
    {"same", "the shape of the input"},
    {"clamp", "the shape of the input"},
    {"softplus", "the shape of the input"},
    {"rope", "the shape of the input"},
    {"fill", "the given shape"},
    {"fill_like", "the shape of the input"},
    {"broadcast", "the shape that the inputs broadcast to"},
    {"create", "the given shape"},
    {"eye", "n rows and m columns, or n"},
    {"eye1", "a vector of n elements"},
    {"arange", "a vector"},
    {"linspace", "a vector of num elements"},
    {"one_hot", "the shape of index with a new last axis of all classes"},
    {"categorical", "logits with count elements along the last axis"},
    {"reduce", "the shape without the reduced axes (with size 1 if keepdims)"},
    {"reduce1", "the shape without the reduced axes (with size 1 if keepdims)"},
    {"axisreduce", "the shape without that axis (with size 1 if keepdims)"},
    {"argreduce", "the shape without that axis (with size 1 if keepdims)"},
    {"scan", "the shape of the input"},
    {"linear_scan", "the shape of both inputs"},
    {"axis", "the shape of the input"},
    {"sort", "values and i64 indices, both in the shape of the input"},
    {"cummax", "values and i64 indices, both in the shape of the input"},
    {"topk", "values and i64 indices, with k elements along axis"},
    {"unique", "values, i64 places and i64 counts"},
    {"histogram", "counts, and edges in f32 or f64"},
    {"matmul", "shape [.., m, n]"},
    {"quantized_matmul", "the shape of x with the last size replaced by that of w"},
    {"experts_linear", "the shape of index, then the rows of a matrix of w"},
    {"grouped_matmul", "shape [t, n], or [g, c, n]"},
    {"grouped_matmul_weight_grad", "shape [g, k, n]"},
    {"reshape", "the given shape, without copying where strides allow it"},
    {"transpose", "a view with two axes swapped"},
    {"permute", "a view with the axes in the given order"},
    {"squeeze", "a view without those axes"},
    {"unsqueeze", "a view with one axis more"},
    {"expand", "a view of the given shape"},
    {"slice", "a view of the selected part"},
    {"narrow", "a view of the selected part"},
    {"select", "a view with one axis less"},
    {"flip", "a view in the shape of the input"},
    {"unfold", "a view with one axis more"},
    {"flatten", "one axis in place of those merged, without copying where strides allow it"},
    {"bitcast", "a view with the last axis scaled by the sizes of elements"},
    {"real_view", "a view with a new last axis of 2"},
    {"pad", "the shape of the input, enlarged"},
    {"repeat_interleave", "count times as many elements along axis"},
    {"segment", "x with one row for each segment"},
    {"cast", "the shape of the input"},
    {"layernorm", "the shape of the first input"},
    {"matrix", "the shape of the input"},
    {"square", "the shape of the input"},
    {"scatter", "the shape of x"},
    {"slice_update", "the shape of x"},
    {"index_add", "the shape of x"},
    {"moe_places",
     "places in the shape of index, a choice for each place, sizes, and a number"},
    {"csr_rows", "a vector of the entries"},
    {"spmm_coo", "x with `rows` rows"},
    {"sddmm", "a vector of the entries"},
    {"route_rows", "the shape of place, then the size of a row"},
    {"masked_scatter", "the shape of x"},
    {"fold", "x without its last axis, with length elements along axis"},
    {"gather", "the shape of index"},
    {"take", "the shape of index"},
    {"roll", "the shape of the input"},
    {"fftn", "the shape of the input"},
    {"fft1", "the shape of the input, with n elements along axis"},
    {"rfft", "the shape of the input, with n/2 + 1 terms along axis"},
    {"irfft", "the shape of the input, with n elements along axis"},
    {"filter", "the shape of x, with n elements along the last of axes"},
    {"masked_select", "a vector as long as there are true elements"},
    {"attention", "the shape of q, with the last size of v"},
    {"paged_attention", "the shape of q, with the last size of v"},
    {"softmax_grad", "the shape of the inputs"},
    {"norm_grad", "the gradients, each in the shape of its input"},
    {"cross_entropy", "a number, or one for each target"},
    {"cross_entropy_grad", "the shape of logits"},
    {"det", "the shape without the last two axes"},
    {"attention_grad", "the gradients of q, k, v and, where asked for, of scores and sink"},
    {"lstm_grad", "the gradients of x, w, h and c"},
    {"linear", "the shape of x with the last size replaced by that of w"},
    {"conv", "x with the channels of w and one element for each place of its window"},
    {"conv_transpose", "x with the channels of w and all that its windows reach"},
    {"conv_weight_grad", "the shape of w"},
    {"pool", "x with one element for each window"},
    {"adaptive_pool", "x with as many elements as size says"},
    {"interpolate", "x with the size given, or scaled"},
    {"avg_pool_grad", "the shape of the input of avg_pool"},
    {"adaptive_pool_grad", "the shape of the input of adaptive_avg_pool"},
    {"interpolate_grad", "the shape of the input of interpolate"},
    {"embedding", "the shape of index, then the size of a row"},
    {"concat", "the inputs side by side along axis"},
    {"stack", "the shape of one input with a new axis"},
    {"index_select", "x with axis replaced by the shape of index"},
    {"nonzero", "one row of indices for each element found"},
    {"solve", "the shape of b"},
    {"tri_solve", "the shape of b"},
    {"qr", "q and r"},
    {"svd", "u, s and vh"},
    {"lu", "p, l and u"},
    {"eigh", "w and v"},
    {"eig", "w and v"},
    {"eigvals", "shape [.., n]"},
    {"pinv", "shape [.., m, n]"},
    {"optim", "new values in the shapes of the old ones"},
};

static const char *sentence(const Sentence *list, size_t n, const char *rule) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(list[i].rule, rule)) return list[i].text;
  return NULL;
}
#define SENTENCE(list, rule) sentence(list, sizeof(list) / sizeof *(list), rule)

/* ---- lines */
enum { NARROW = 12 }; /* columns for words at least */

void ts_help_wrap(TsText *out, const char *s, int column, int indent, int width) {
  if (width < indent + NARROW) width = indent + NARROW;
  for (bool first = true; *s; first = false) {
    s += strspn(s, " ");
    size_t n = strcspn(s, " ");
    int columns = (int)ts_edit_utf8_columns(s, n);
    if (n == 0) break;
    if (!first && column + 1 + columns > width) {
      ts_text_char(out, '\n');
      ts_text_pad(out, ' ', indent);
      column = indent;
    } else if (!first) {
      ts_text_char(out, ' ');
      column++;
    }
    ts_text_add(out, s, n);
    column += columns;
    s += n;
  }
  ts_text_char(out, '\n');
}

enum { HEADING = 11, NAME = 12 }; /* columns of "  options  ", least ones of a name behind it */

static int name_columns(const TsOpInfo *o) {
  int n = NAME;
  for (int i = 0; i < o->nattr; i++)
    if (o->attr[i].namelen + 2 > n) n = o->attr[i].namelen + 2;
  for (int i = 0; i < o->nin; i++)
    if ((int)strlen(o->input[i]) + 2 > n) n = (int)strlen(o->input[i]) + 2;
  const TsMoreOption *m;
  for (int i = 0; (m = ts_help_more(o, i)); i++)
    if ((int)strlen(m->name) + 2 > n) n = (int)strlen(m->name) + 2;
  return n;
}

static void put_heading(TsText *out, const char *word) {
  ts_text_format(out, "  %-*s", HEADING - 2, word);
}

/* ---- signatures */
static bool is_needed(const TsAttrSpec *s) { return !s->optional && !s->has_default; }

static bool leads(const TsOpInfo *o, int i) { /* written before the tensors: einsum */
  return o->variadic && o->attr[i].type == TS_ATTR_str;
}

static void put_options(const TsOpInfo *o, TsText *out, bool names) {
  const TsMoreOption *m;
  int n = 0;
  for (int i = 0; i < o->nattr; i++) n += !is_needed(&o->attr[i]);
  for (int i = 0; (m = ts_help_more(o, i)); i++) n += ts_help_more_is_new(o, m);
  if (!n) return;
  ts_text_str(out, out->len && out->at[out->len - 1] != '(' ? " [, " : "[");
  ts_text_str(out, names ? "{" : "options");
  int k = 0;
  for (int i = 0; names && i < o->nattr; i++)
    if (!is_needed(&o->attr[i]))
      ts_text_format(out, "%s%.*s", k++ ? ", " : "", o->attr[i].namelen, o->attr[i].name);
  for (int i = 0; names && (m = ts_help_more(o, i)); i++)
    if (ts_help_more_is_new(o, m)) ts_text_format(out, "%s%s", k++ ? ", " : "", m->name);
  ts_text_str(out, names ? "}]" : "]");
}

static void put_arguments(const TsOpInfo *o, int first_input, TsText *out, bool names) {
  int k = 0;
  for (int i = 0; i < o->nattr; i++)
    if (is_needed(&o->attr[i]) && leads(o, i))
      ts_text_format(out, "%s%.*s", k++ ? ", " : "", o->attr[i].namelen, o->attr[i].name);
  for (int i = first_input; i < o->nin; i++) {
    bool optional = !(o->required >> i & 1) && !o->variadic;
    ts_text_format(out, "%s%s%s%s%s", optional && k ? " [" : "", k ? ", " : "", o->input[i],
                   o->variadic ? "..." : "", optional && k ? "]" : "");
    k++;
  }
  for (int i = 0; i < o->nattr; i++)
    if (is_needed(&o->attr[i]) && !leads(o, i))
      ts_text_format(out, "%s%.*s", k++ ? ", " : "", o->attr[i].namelen, o->attr[i].name);
  put_options(o, out, names);
}

int ts_help_arguments(const char *name, bool method, TsText *text) {
  TsOp op = ts_op_find(name);
  if (op == TS_OP_COUNT) return -1;
  put_arguments(ts_op_info(op), method, text, true);
  return 0;
}

static void put_signature(const TsOpInfo *o, int width, TsText *out) {
  for (int names = 1; names >= 0; names--) {
    TsText line = {0};
    ts_text_format(&line, "op.%s(", o->name);
    put_arguments(o, 0, &line, names);
    ts_text_str(&line, ")\n");
    bool fits = (int)line.len <= width + 1;
    if (fits || !names) ts_text_add(out, line.at, line.len);
    ts_text_free(&line);
    if (fits) return;
  }
}

/* ---- inputs and options */
static const char *type_word(const TsAttrSpec *s, char buffer[160]) {
  static const char *const word[] = {
      [TS_ATTR_int] = "integer",        [TS_ATTR_f] = "number",
      [TS_ATTR_bool] = "true or false", [TS_ATTR_ints] = "integers",
      [TS_ATTR_floats] = "numbers",     [TS_ATTR_str] = "string",
      [TS_ATTR_dtype] = "dtype"};
  if (s->type != TS_ATTR_choice) return word[s->type];
  size_t n = 0;
  char one[64];
  buffer[0] = 0;
  for (int i = 0; ts_attr_word(s, i, one) && n < 120; i++)
    n += (size_t)snprintf(buffer + n, 160 - n, "%s\"%.20s\"", i ? " | " : "", one);
  return buffer;
}

static void put_default(const TsAttrSpec *s, TsText *out) {
  const TsAttr *a = &s->preset;
  char word[64];
  if (!s->has_default) return;
  ts_text_str(out, " = ");
  switch (s->type) {
  case TS_ATTR_int: ts_text_format(out, "%lld", (long long)a->i); break;
  case TS_ATTR_f: ts_text_format(out, "%g", a->f); break;
  case TS_ATTR_bool: ts_text_str(out, a->i ? "true" : "false"); break;
  case TS_ATTR_choice: ts_text_format(out, "\"%s\"", ts_attr_word(s, (int)a->i, word)); break;
  case TS_ATTR_dtype: ts_text_format(out, "\"%s\"", ts_dtype_name((TsDtype)a->i)); break;
  default:
    for (int i = 0; i < a->n; i++)
      ts_text_format(out, "%s%lld", i ? ", " : a->n > 1 ? "{" : "", (long long)a->ints[i]);
    if (a->n > 1) ts_text_char(out, '}');
  }
}

static void put_inputs(const TsOpInfo *o, TsText *out) {
  for (int i = 0; i < o->nin; i++) {
    put_heading(out, i ? "" : "inputs");
    ts_text_format(out, "%-*s%s\n", name_columns(o), o->input[i],
                   o->variadic               ? "tensors, any number"
                   : !(o->required >> i & 1) ? "tensor, optional"
                                             : "tensor");
  }
}

static void put_option_lines(const TsOpInfo *o, int width, TsText *out) {
  char buffer[160];
  int names = name_columns(o);
  for (int i = 0; i < o->nattr; i++) {
    const TsAttrSpec *s = &o->attr[i];
    const TsMoreOption *more = ts_help_more_named(o, s->name, s->namelen);
    TsText line = {0};
    put_heading(out, i ? "" : "options");
    ts_text_format(out, "%-*.*s", names, s->namelen, s->name);
    if (more) {
      ts_text_str(&line, more->text);
    } else {
      ts_text_str(&line, type_word(s, buffer));
      put_default(s, &line);
      if (s->optional) ts_text_str(&line, ", optional");
      if (is_needed(s)) ts_text_str(&line, ", needed");
    }
    ts_help_wrap(out, line.at, HEADING + names, HEADING + names, width);
    ts_text_free(&line);
  }
  const TsMoreOption *m;
  for (int i = 0, k = o->nattr; (m = ts_help_more(o, i)); i++) {
    if (!ts_help_more_is_new(o, m)) continue;
    TsText line = {0};
    put_heading(out, k++ ? "" : "options");
    ts_text_format(out, "%-*s", names, m->name);
    ts_text_format(&line, "%s%s%s", m->text, m->help ? ": " : "", m->help ? m->help : "");
    ts_help_wrap(out, line.at, HEADING + names, HEADING + names, width);
    ts_text_free(&line);
  }
}

static void put_choices(TsOp op, int width, TsText *out) {
  TsText line = {0};
  ts_help_choices(op, &line);
  if (line.len) {
    put_heading(out, "kernel");
    ts_help_wrap(out, line.at, HEADING, HEADING, width);
  }
  ts_text_free(&line);
}

static void put_kinds(const TsOpInfo *o, TsText *line) {
  static const struct {
    int kind;
    const char *word;
  } kinds[] = {{TS_KIND_F, "floats"},
               {TS_KIND_I, "integers"},
               {TS_KIND_B, "bool"},
               {TS_KIND_C, "complex numbers"},
               {TS_KIND_X, "blocks"}};
  int n = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (o->types & kinds[i].kind) ts_text_format(line, "%s%s", n++ ? ", " : "", kinds[i].word);
}

/* Without what is said of integers where none are taken. */
static size_t dtype_length(const TsOpInfo *o, const char *dtype) {
  const char *integers = strstr(dtype, "f32 for integers");
  if (!integers || o->types & TS_KIND_I) return strlen(dtype);
  return (size_t)(integers - dtype) - 2; /* " (" or ", " before it */
}

static void put_returns(TsOp op, const TsOpInfo *o, int width, TsText *out) {
  const char *dtype = SENTENCE(dtype_sentence, rule_name[op].dtype);
  if (o->nin == 1 && !strcmp(rule_name[op].dtype, "float"))
    dtype = "the dtype of the input (f32 for integers)";
  const char *shape = SENTENCE(shape_sentence, rule_name[op].shape);
  if (o->nin == 1 && !strcmp(rule_name[op].shape, "broadcast"))
    shape = "the shape of the input";
  TsText line = {0};
  /* The shape of a composition comes from its parts: "same" only fills the column. */
  if (ts_class_composed(o->cls) && !strcmp(rule_name[op].shape, "same")) shape = NULL;
  if (dtype) ts_text_add(&line, dtype, dtype_length(o, dtype));
  ts_text_format(&line, "%s%s", dtype && shape ? "; " : "", shape ? shape : "");
  put_heading(out, "returns");
  ts_help_wrap(out, line.at, HEADING, HEADING, width);
  ts_text_free(&line);
  if (!o->autocast) return;
  put_heading(out, "autocast");
  ts_text_format(out, "%s\n",
                 o->autocast == TS_AUTOCAST_LOW ? "takes bf16 or f16" : "takes f32");
}

/* ---- examples: a value for every option that has to be given */
static const char *sample(const TsOpInfo *o, const TsAttrSpec *s, char buffer[80]) {
  static const struct {
    const char *name, *value;
  } named[] = {
      {"roll.shift", "1"}, /* of one operator, or of all ("*"), instead of a list as well */
      {"roll.axis", "0"},
      {"*.stride", "2"},
      {"shape", "{2, 3}"},
      {"axis", "0"},
      {"axis", "{0, 1}"},
      {"axes", "{0, 1}"},
      {"k", "5"},
      {"equation", "\"bij,bjk->bik\""},
      {"perm", "{1, 0}"},
      {"classes", "10"},
      {"pads", "{1, 1}"},
      {"p", "0.1"},
      {"eps", "1e-6"},
      {"lr", "0.001"},
      {"step", "1"},
      {"theta", "500000"},
      {"low", "0"},
      {"high", "10"},
      {"stop", "10"},
      {"heads", "8"},
      {"value", "0.5"},
      {"q", "0.5"},
      {"index", "0"},
      {"frame", "256"},
      {"segments", "4"},
      {"beta2", "0.999"},
      {"n", "8"},
      {"epilogue", "\"relu\""},
      {"accumulate", "\"f64\""},
      {"tile_shape", "{128, 128, 64}"},
  };
  char name[32], own[80], any[40], word[64];
  snprintf(name, sizeof name, "%.*s", s->namelen, s->name);
  snprintf(own, sizeof own, "%s.%s", o->name, name);
  snprintf(any, sizeof any, "*.%s", name);
  bool list = s->type == TS_ATTR_ints || s->type == TS_ATTR_floats;
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    const char *of = named[i].name;
    if (!strcmp(of, own) || !strcmp(of, any) ||
        (!strcmp(of, name) && list == (named[i].value[0] == '{')))
      return named[i].value;
  }
  switch (s->type) {
  case TS_ATTR_int: return "2";
  case TS_ATTR_f: return "0.5";
  case TS_ATTR_bool: return s->preset.i ? "false" : "true";
  case TS_ATTR_ints: return strcmp(name, "start") ? "{2, 2}" : "{0, 0}";
  case TS_ATTR_floats: return "{0.5, 0.5}";
  case TS_ATTR_str: return "\"text\"";
  case TS_ATTR_dtype: return s->preset.i == TS_DT_f64 ? "\"f32\"" : "\"f64\"";
  default: break;
  }
  ts_attr_word(s, s->preset.i == 0 ? 1 : 0, word);
  snprintf(buffer, 80, "\"%s\"", word);
  return buffer;
}

static void put_needed(const TsOpInfo *o, TsText *out) {
  char buffer[80];
  for (int i = 0; i < o->nattr; i++)
    if (is_needed(&o->attr[i]) && !leads(o, i))
      ts_text_format(out, "%s%s", out->len ? ", " : "", sample(o, &o->attr[i], buffer));
}

/* What stands first in calls with any number of tensors, and two of them. */
static void put_leading(const TsOpInfo *o, TsText *out) {
  char buffer[80];
  for (int i = 0; i < o->nattr; i++)
    if (is_needed(&o->attr[i]) && leads(o, i))
      ts_text_format(out, "%s, ", sample(o, &o->attr[i], buffer));
  if (o->variadic) ts_text_str(out, "a, b");
}

static void put_option(const TsOpInfo *o, const TsAttrSpec *s, TsText *args) {
  char buffer[80];
  ts_text_format(args, "%s{%.*s = %s}", args->len ? ", " : "", s->namelen, s->name,
                 sample(o, s, buffer));
}

static void put_plain_call(const TsOpInfo *o, TsText *out) {
  TsText args = {0};
  bool one_of =
      !strcmp(o->name, "interpolate"); /* size or scale: none has to be given, but one */
  put_leading(o, &args);
  for (int i = 0; !o->variadic && i < o->nrequired; i++)
    ts_text_format(&args, "%s%s", args.len ? ", " : "", o->input[i]);
  put_needed(o, &args);
  if (one_of) put_option(o, &o->attr[0], &args);
  ts_text_format(out, "y = op.%s(%s)\n", o->name, args.len ? args.at : "");
  ts_text_free(&args);
}

/* The method form, or for rows without a first tensor the function, with an option.
 * A table that is the only argument needs no brackets. */
static void put_option_call(const TsOpInfo *o, TsText *out) {
  TsText args = {0};
  const TsAttrSpec *option = NULL;
  for (int i = 0; i < o->nattr && !option; i++)
    if (!is_needed(&o->attr[i])) option = &o->attr[i];
  bool method = o->nin && !o->variadic;
  if (!method && !option) return;
  if (method)
    for (int i = 1; i < o->nrequired; i++)
      ts_text_format(&args, "%s%s", args.len ? ", " : "", o->input[i]);
  else
    put_leading(o, &args);
  put_needed(o, &args);
  bool alone = option && !args.len;
  if (option) put_option(o, option, &args);
  put_heading(out, "");
  ts_text_format(out, alone ? "y = %s%s%s%s\n" : "y = %s%s%s(%s)\n",
                 method ? o->input[0] : "op", method ? ":" : ".", o->name,
                 args.len ? args.at : "");
  ts_text_free(&args);
}

static void put_operator(TsOp op, int width, TsText *out) {
  const TsOpInfo *o = ts_op_info(op);
  TsText kinds = {0};
  put_signature(o, width, out);
  ts_text_str(out, "    ");
  ts_help_wrap(out, o->help, 4, 4, width);
  ts_text_char(out, '\n');
  put_inputs(o, out);
  put_option_lines(o, width, out);
  put_choices(op, width, out);
  if (o->nin) {
    put_kinds(o, &kinds);
    put_heading(out, "dtypes");
    ts_help_wrap(out, kinds.at, HEADING, HEADING, width);
    ts_text_free(&kinds);
  }
  put_returns(op, o, width, out);
  put_heading(out, "example");
  put_plain_call(o, out);
  put_option_call(o, out);
}

/* ---- lists */
static void put_families(int width, TsText *out) {
  enum { INDENT = 14 };
  for (int i = 0; i < TS_OP_COUNT;) {
    const char *family = ts_op_info((TsOp)i)->family;
    TsText names = {0};
    for (; i < TS_OP_COUNT && !strcmp(ts_op_info((TsOp)i)->family, family); i++)
      ts_text_format(&names, "%s ", ts_op_info((TsOp)i)->name);
    ts_text_format(out, "%-*s", INDENT, family);
    ts_help_wrap(out, names.at, INDENT, INDENT, width);
    ts_text_free(&names);
  }
}

static void put_dtypes(TsDtype only, int width, TsText *out) {
  for (int d = 0; d < TS_DT_COUNT; d++) {
    if (only != TS_DT_none && d != (int)only) continue;
    ts_text_format(out, "%-*s", NAME, ts_dtypes[d].name);
    ts_help_wrap(out, ts_dtypes[d].help, NAME, NAME, width);
  }
}

int ts_help_operator(const char *name, int width, TsText *text) {
  if (width <= 0) width = 80;
  if (!strncmp(name, "op.", 3)) name += 3;
  TsOp op = ts_op_find(name);
  if (op != TS_OP_COUNT) {
    put_operator(op, width, text);
    return 0;
  }
  TsDtype d = ts_dtype_parse(name, (int)strlen(name));
  if (!*name) {
    put_families(width, text);
    return 0;
  }
  if (d != TS_DT_none || !strcmp(name, "dtypes")) {
    put_dtypes(d, width, text);
    return 0;
  }
  const char *guess = ts_op_suggest(name);
  ts_text_format(text, "no help on '%s'", name);
  if (guess) ts_text_format(text, "; did you mean '%s'?", guess);
  ts_text_char(text, '\n');
  return -1;
}
