/* Short forms of functions that are rounded to bf16 (ir/tile/pass/nearly.c): the same bits as the
 * long ones in the interpreter, for every bf16 as argument, for numbers of f32 of all sizes,
 * and where sums cancel; and few elements need the long form. Other casts stay as they are, and
 * gelu and silu of bf16 have their quick forms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/pass/nearly.h"

enum { N = 65536 };

static int failed;

static uint64_t rnd(void) {
  static uint64_t seed = 7;
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 16;
}

static float as_float(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

static float about_normal(void) {
  double sum = 0;
  for (int i = 0; i < 4; i++) sum += (double)(rnd() % 65536) / 65536 - 0.5;
  return (float)(sum * sqrt(3));
}

/* Sets of arguments: all of bf16, any bits, numbers as of a model, close to sums of zero. */
static void fill(int set, float *x, float *a, float *c) {
  for (uint32_t i = 0; i < N; i++) {
    x[i] = set == 0   ? as_float(i << 16)
           : set == 1 ? as_float((uint32_t)rnd())
                      : about_normal() * (set == 3 ? 4.0f : 1.5f);
    a[i] = set == 1 ? as_float((uint32_t)rnd()) : about_normal();
    c[i] = set == 3 ? -a[i] * x[i] / (1 + expf(-x[i])) : about_normal();
  }
}

/* narrow: the argument was bf16. */
static TsTile *parse(const char *word, const char *chain, bool narrow) {
  char text[900];
  TsError err = {0};
  snprintf(
      text, sizeof text,
      "tile @f(%%x: f32[65536], %%a: f32[65536], %%c: f32[65536]) -> (%%y: bf16[65536]) {\n"
      "  for %%i in 0..65536 step 4096 parallel {\n"
      "    %%p = load %%x[%%i] : f32[4096]\n    %%q = load %%a[%%i] : f32[4096]\n"
      "    %%r = load %%c[%%i] : f32[4096]\n%s    %%g = %s %%%c : f32[4096]\n%s"
      "    %%z = cast %%%c : bf16[4096]\n    store %%y[%%i] = %%z\n  }\n}\n",
      narrow ? "    %n = cast %p : bf16[4096]\n    %w = cast %n : f32[4096]\n" : "", word,
      narrow ? 'w' : 'p', chain, *chain ? 'h' : 'g');
  TsTile *k = ts_tile_parse(text, &err);
  if (!k) failed++, printf("%s\n%s\n", err.message, text);
  return k;
}

static int count_rare(const TsTile *k) {
  int n = 0;
  for (const TsTileStmt *s = k->body->first; s; s = s->next)
    for (const TsTileStmt *t = s->nregion ? s->region[0]->first : NULL; t; t = t->next)
      n += t->op == TS_TILE_rare;
  return n;
}

static void one_of(const char *word, const char *chain, bool narrow, bool near) {
  static float x[N], a[N], c[N];
  static uint16_t y[N], z[N];
  TsError err = {0};
  TsTile *k = parse(word, chain, narrow), *n = k ? ts_tile_nearly(k, &err) : NULL;
  if (n) n->target = "sm_90a";
  if (!n || ts_tile_check(n, NULL, &err)) {
    failed++, printf("%s: %s\n", word, err.message);
    return;
  }
  if (count_rare(n) != near) failed++, printf("%s%s: %d rare\n", word, chain, count_rare(n));
  for (int set = 0; set < 4; set++) {
    fill(set, x, a, c);
    if (ts_tile_run(k, (void *[]){x, a, c, y}, NULL, &err) ||
        ts_tile_run(n, (void *[]){x, a, c, z}, NULL, &err))
      failed++, printf("%s: %s\n", word, err.message);
    int at = 0;
    while (at < N && y[at] == z[at]) at++;
    if (at < N)
      failed++, printf("%s%s: set %d: of %a %a %a: %04x, not %04x\n", word, chain, set,
                       (double)x[at], (double)a[at], (double)c[at], z[at], y[at]);
  }
  ts_tile_free(k);
  ts_tile_free(n);
}

static void one(const char *word, const char *chain, bool near) {
  one_of(word, chain, false, near);
}

int main(void) {
  static const char plain[] = "    %h = neg %g : f32[4096]\n";
  static const char sum[] = "    %m = mul %g, %q : f32[4096]\n"
                            "    %h = add %m, %r : f32[4096]\n";
  static const char less[] = "    %m = sub %r, %g : f32[4096]\n"
                             "    %h = mul %m, %q : f32[4096]\n";
  static const char *const word[] = {"gelu_tanh", "silu", "sigmoid"};
  for (int i = 0; i < 3; i++) {
    one(word[i], "", true);
    one(word[i], sum, true);
    one(word[i], less, true);
    one(word[i], plain, false);
  }
  /* of x and g: all of bf16 for both alike, then normal x and any g */
  static const char *const slope[] = {"gelu_tanh_grad %p,", "silu_grad %p,",
                                      "gelu_tanh_grad %q,", "silu_grad %q,"};
  for (int i = 0; i < 4; i++) {
    one(slope[i], "", true);
    one(slope[i], sum, true);
    one(slope[i], less, true);
    one(slope[i], plain, false);
  }
  one_of("gelu_tanh", "", true, false);
  one_of("gelu_erf", "", true, false);
  one_of("gelu_tanh", sum, true, true);
  one_of("silu", "", true, false);
  one_of("silu", sum, true, true);
  one("silu", "    %m = mul %g, %g : f32[4096]\n    %h = add %m, %r : f32[4096]\n", false);
  one("tanh", "", false);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
