/* Block forms with rows behind a product, for tests of ir/tile/gpu/epilogue.h. */
#ifndef TESTS_IR_GPU_EPILOGUE_H
#define TESTS_IR_GPU_EPILOGUE_H

#include <stdio.h>

#include "ir/tile/gpu/product.h"

/* What stands behind `%c = mma ..` for names %x .. of parameters. */
typedef struct EpilogueCase {
  const char *params; /* that are read beside %a and %b */
  const char *results;
  const char *rows;
} EpilogueCase;

static const EpilogueCase epilogue_cases[] = {
    /* bias in f32 before the only rounding, then gelu */
    {", %w: D[N]", "%y: D[M,N]",
     "%l = load %w[%n0] {edge=true} : D[n]\n"
     "%l2 = broadcast %l {axes=[1]} : D[m,n]\n"
     "%l3 = cast %l2 : f32[m,n]\n"
     "%z = add %c, %l3 : f32[m,n]\n"
     "%h = cast %z : D[m,n]\n"
     "%g = cast %h : f32[m,n]\n"
     "%e = gelu_erf %g : f32[m,n]\n"
     "%o = cast %e : D[m,n]\n"
     "store %y[%m0, %n0] = %o {edge=true}\n"},
    /* what the backward pass needs as well */
    {", %w: D[N]", "%y: D[M,N], %y2: D[M,N]",
     "%l = load %w[%n0] {edge=true} : D[n]\n"
     "%l2 = broadcast %l {axes=[1]} : D[m,n]\n"
     "%l3 = cast %l2 : f32[m,n]\n"
     "%z = add %c, %l3 : f32[m,n]\n"
     "%h = cast %z : D[m,n]\n"
     "%g = cast %h : f32[m,n]\n"
     "%e = gelu_erf %g : f32[m,n]\n"
     "%o = cast %e : D[m,n]\n"
     "store %y[%m0, %n0] = %o {edge=true}\n"
     "store %y2[%m0, %n0] = %h {edge=true}\n"},
    /* a residual behind a rounding, relu, half of it */
    {", %r: D[M,N]", "%y: D[M,N]",
     "%h = cast %c : D[m,n]\n"
     "%g = cast %h : f32[m,n]\n"
     "%e = relu %g : f32[m,n]\n"
     "%l = load %r[%m0, %n0] {edge=true} : D[m,n]\n"
     "%l2 = cast %l : f32[m,n]\n"
     "%half = const {value=0.5} : f32[m,n]\n"
     "%s = mul %e, %half : f32[m,n]\n"
     "%s2 = add %s, %l2 : f32[m,n]\n"
     "%o = cast %s2 : D[m,n]\n"
     "store %y[%m0, %n0] = %o {edge=true}\n"},
    /* the other gelu */
    {"", "%y: D[M,N]",
     "%h = cast %c : D[m,n]\n"
     "%g = cast %h : f32[m,n]\n"
     "%e = gelu_tanh %g : f32[m,n]\n"
     "%o = cast %e : D[m,n]\n"
     "store %y[%m0, %n0] = %o {edge=true}\n"},
    /* one number, before the only rounding */
    {", %q: f32[]", "%y: D[M,N]",
     "%l = load %q[] : f32[]\n"
     "%l2 = broadcast %l : f32[m,n]\n"
     "%z = mul %c, %l2 : f32[m,n]\n"
     "%o = cast %z : D[m,n]\n"
     "store %y[%m0, %n0] = %o {edge=true}\n"},
    /* a rounding before the bias and one behind it, then a gelu: operators one by one */
    {", %w: D[N]", "%y: D[M,N]",
     "%h = cast %c : D[m,n]\n"
     "%g = cast %h : f32[m,n]\n"
     "%l = load %w[%n0] {edge=true} : D[n]\n"
     "%l2 = broadcast %l {axes=[1]} : D[m,n]\n"
     "%l3 = cast %l2 : f32[m,n]\n"
     "%z = add %g, %l3 : f32[m,n]\n"
     "%q = cast %z : D[m,n]\n"
     "%r = cast %q : f32[m,n]\n"
     "%e = gelu_tanh %r : f32[m,n]\n"
     "%o = cast %e : D[m,n]\n"
     "store %y[%m0, %n0] = %o {edge=true}\n"},
};

enum { EPILOGUE_CASES = sizeof epilogue_cases / sizeof *epilogue_cases };

/* Puts type and sizes in for D, M, N, K and m, n. */
static void put_sizes(TsText *t, const char *s, TsDtype d, const int64_t *size,
                      const int64_t *block) {
  for (; *s; s++) {
    bool sized = s[1] == ']' || s[1] == ',';
    if (*s == 'D' && s[1] == '[')
      ts_text_format(t, "%s", ts_dtype_name(d));
    else if ((*s == 'M' || *s == 'N' || *s == 'K') && sized)
      ts_text_format(t, "%lld", (long long)size[*s == 'M' ? 0 : *s == 'N' ? 1 : 2]);
    else if ((*s == 'm' || *s == 'n') && sized && (s[-1] == '[' || s[-1] == ','))
      ts_text_format(t, "%lld", (long long)block[*s == 'n']);
    else
      ts_text_char(t, *s);
  }
}

/* Size: M, N, K. NULL with the error. */
static TsTile *epilogue_block(int number, TsDtype d, const int64_t *size, TsError *err) {
  const EpilogueCase *c = &epilogue_cases[number];
  const int64_t block[2] = {16, 32};
  int64_t down = (size[0] + block[0] - 1) / block[0],
          across = (size[1] + block[1] - 1) / block[1];
  TsText t = {0};
  put_sizes(&t, "tile @rows(%a: D[M,K], %b: D[K,N]", d, size, block);
  put_sizes(&t, c->params, d, size, block);
  put_sizes(&t, ") -> (", d, size, block);
  put_sizes(&t, c->results, d, size, block);
  ts_text_format(&t,
                 ") target sm_90a {\nfor %%r0 in 0..%lld parallel {\n"
                 "%%i = mod %%r0, %lld : i64[]\n%%j = floordiv %%r0, %lld : i64[]\n"
                 "%%m0 = mul %%i, %lld : i64[]\n%%n0 = mul %%j, %lld : i64[]\n",
                 (long long)(down * across), (long long)down, (long long)down,
                 (long long)block[0], (long long)block[1]);
  ts_text_format(&t, "%%zero = const {value=0} : f32[%lld,%lld]\n", (long long)block[0],
                 (long long)block[1]);
  ts_text_format(&t, "%%u = load %%a[%%m0, 0] {edge=true} : %s[%lld,%lld]\n", ts_dtype_name(d),
                 (long long)block[0], (long long)size[2]);
  ts_text_format(&t, "%%v = load %%b[0, %%n0] {edge=true} : %s[%lld,%lld]\n", ts_dtype_name(d),
                 (long long)size[2], (long long)block[1]);
  ts_text_format(&t, "%%u2 = cast %%u : f32[%lld,%lld]\n%%v2 = cast %%v : f32[%lld,%lld]\n",
                 (long long)block[0], (long long)size[2], (long long)size[2],
                 (long long)block[1]);
  ts_text_format(&t, "%%c = mma %%u2, %%v2, %%zero : f32[%lld,%lld]\n", (long long)block[0],
                 (long long)block[1]);
  put_sizes(&t, c->rows, d, size, block);
  ts_text_format(&t, "}\n}\n");
  TsTile *k = ts_tile_parse(t.at, err);
  if (!k) printf("%s\n", t.at);
  ts_text_free(&t);
  return k;
}

/* Rows between the products of the next tile if they can be there, or not. */
static inline void epilogue_rows(TsGpuProduct *p, const TsGpuEpilogue *f, bool late) {
  ts_gpu_product_epilogue(p, f, late ? 1 << 20 : 1);
}

#endif
