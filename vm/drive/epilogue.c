/* The words of an epilogue. */
#include "vm/drive/epilogue.h"

#include <string.h>

static const char *const names[] = {"none", "bias", "relu", "silu", "gelu", "residual"};
enum { WORDS = sizeof names / sizeof *names };

static int parse(TsCall *call, const char *text, TsEpilogueWord *word) {
  int n = 0;
  for (const char *p = text; *p;) {
    size_t len = strcspn(p, "_");
    int w = 0;
    while (w < WORDS && (strlen(names[w]) != len || memcmp(names[w], p, len))) w++;
    if (w == WORDS || n + 1 == TS_EPILOGUE_MAX) {
      ts_error_set(&call->ctx->err, TS_ERR_attribute, "%s: cannot read the epilogue \"%s\"",
                   ts_op_info(call->op)->name, text);
      return ts_error_hint(&call->ctx->err,
                           "words of bias, relu, silu, gelu, residual joined by _");
    }
    if (w) word[n++] = (TsEpilogueWord)w;
    p += len + (p[len] == '_');
  }
  word[n] = TS_EPILOGUE_end;
  return 0;
}

static int count(const TsEpilogueWord *word, TsEpilogueWord w) {
  int n = 0;
  for (; *word; word++) n += *word == w;
  return n;
}

static int check_operand(TsCall *call, const TsEpilogueWord *word, TsEpilogueWord w,
                         bool given) {
  int n = count(word, w);
  if (n > 1)
    return ts_error_set(&call->ctx->err, TS_ERR_attribute, "%s: the epilogue names %s twice",
                        ts_op_info(call->op)->name, names[w]);
  if (n == given) return 0;
  return ts_error_set(&call->ctx->err, TS_ERR_argument, "%s: the epilogue %s, but %s is %s",
                      ts_op_info(call->op)->name, given ? "does not name it" : "names it",
                      names[w], given ? "given" : "missing");
}

static int check_activation(TsCall *call, TsEpilogueWord w, TsDtype acc) {
  if (w == TS_EPILOGUE_bias || w == TS_EPILOGUE_residual || ts_dtype_is(acc, TS_KIND_F))
    return 0;
  bool whole = ts_dtype_is(acc, TS_KIND_I);
  if (whole && w == TS_EPILOGUE_relu) return 0;
  return ts_error_set(&call->ctx->err, TS_ERR_dtype, "%s: %s numbers have no %s",
                      ts_op_info(call->op)->name, whole ? "integer" : "complex",
                      whole ? names[w] : "activation");
}

int ts_epilogue_read(TsCall *call, const TsAttr *words, bool bias, bool residual, TsDtype acc,
                     TsEpilogueWord word[TS_EPILOGUE_MAX]) {
  int n = 0;
  if (words && words->type == TS_ATTR_str) {
    if (parse(call, words->str, word)) return -1;
  } else {
    if (bias) word[n++] = TS_EPILOGUE_bias;
    if (residual) word[n++] = TS_EPILOGUE_residual;
    word[n] = TS_EPILOGUE_end;
  }
  if (check_operand(call, word, TS_EPILOGUE_bias, bias)) return -1;
  if (check_operand(call, word, TS_EPILOGUE_residual, residual)) return -1;
  for (; *word; word++)
    if (check_activation(call, *word, acc)) return -1;
  return 0;
}

/* The kernel of a pointwise row in type acc. */
static TsPointwiseFn *kernel(const TsKernels *k, TsDtype acc, int op) {
  return acc == TS_DT_f64              ? k->pointwise.f64[op]
         : acc == TS_DT_f32            ? k->pointwise.f32[op]
         : ts_dtype_is(acc, TS_KIND_C) ? k->pointwise_complex.fn[acc - TS_DT_complex64][op]
                                       : k->pointwise_int.fn[acc][op];
}

void ts_epilogue_activate(const TsKernels *k, TsEpilogueWord word, TsDtype acc, void *at,
                          int64_t n) {
  int op = word == TS_EPILOGUE_relu   ? TS_PW_relu
           : word == TS_EPILOGUE_silu ? TS_PW_silu
                                      : TS_PW_gelu_erf;
  const void *in[1] = {at};
  kernel(k, acc, op)(n, at, in, NULL, 0);
}

void ts_epilogue_add(const TsKernels *k, TsDtype acc, void *at, const void *from, bool one,
                     int64_t n) {
  const void *in[2] = {at, from};
  kernel(k, acc, TS_PW_add)(n, at, in, NULL, one ? 2 : 0);
}
