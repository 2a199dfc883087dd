/* What a turn is said to touch (ir/persistent/footprint.c), beside what it touches: with
 * everything scrambled that it is not said to read, a round gives the same; what it is not said
 * to write stays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/persistent/program.h"

enum { MOST = 4096, PARAMS = 3 };

static int failures, rounds_seen, narrow;

static const struct {
  const char *text;
  int64_t dim[4];
} kernels[] = {
    {"tile @edge<N>(%x: f32[N]) -> (%y: f32[N]) target sm_90a {\n  %n = dim {index=0} : i64[]\n"
     "  %z = const : i64[]\n  for %r in %z..%n step 16 parallel {\n"
     "    %a = load %x[%r] {edge=true} : f32[16]\n    store %y[%r] = %a {edge=true}\n  }\n}\n",
     {75}},
    {"tile @axes<A,B>(%x: f32[A,B], %t: f32[B]) -> (%y: f32[A,B]) target sm_90a {\n"
     "  %a = dim {index=0} : i64[]\n  %z = const : i64[]\n  for %i in %z..%a parallel {\n"
     "    %b = dim {index=1} : i64[]\n    for %j in %z..%b step 8 parallel {\n"
     "      %v = load %x[%i, %j] {edge=true} : f32[8]\n      %w = load %t[%j] {edge=true} : "
     "f32[8]\n"
     "      %s = add %v, %w : f32[8]\n      store %y[%i, %j] = %s {edge=true}\n    }\n  }\n}\n",
     {5, 21}},
    {"tile @turned<N>(%x: f32[N,8]) -> (%y: f32[8,16]) target sm_90a {\n  %n = const {value=4} "
     ": i64[]\n"
     "  %z = const : i64[]\n  for %r in %z..%n parallel {\n    %t = const {value=2} : i64[]\n"
     "    %p = floordiv %r, %t : i64[]\n    %q = mod %r, %t : i64[]\n    %e = const {value=8} "
     ": i64[]\n"
     "    %i = mul %p, %e : i64[]\n    %f = const {value=4} : i64[]\n    %j = mul %q, %f : "
     "i64[]\n"
     "    %a = load %x[%i, %j] : f32[8,4]\n    %b = transpose %a {perm=[1,0]} : f32[4,8]\n"
     "    store %y[%j, %i] = %b\n  }\n}\n",
     {16}},
    {"tile @loop<N>(%x: f32[N,16]) -> (%y: f32[N]) target sm_90a {\n  %n = dim {index=0} : "
     "i64[]\n"
     "  %z = const : i64[]\n  %k = const {value=16} : i64[]\n  for %r in %z..%n parallel {\n"
     "    %o = const : f32[4]\n    %s = for %c in %z..%k step 4 carry %t = %o : f32[4] {\n"
     "      %a = load %x[%r, %c] : f32[4]\n      %b = add %t, %a : f32[4]\n      yield %b\n    "
     "}\n"
     "    %u = sum %s {axis=0} : f32[]\n    store %y[%r] = %u\n  }\n}\n",
     {9}},
    {"tile @picked<N>(%x: f32[N], %i: i64[N]) -> (%y: f32[N]) target sm_90a {\n"
     "  %n = dim {index=0} : i64[]\n  %z = const : i64[]\n  for %r in %z..%n step 8 parallel "
     "{\n"
     "    %a = load %i[%r] {edge=true} : i64[8]\n    %b = gather %x[%a] {edge=true} : f32[8]\n"
     "    store %y[%r] = %b {edge=true}\n  }\n}\n",
     {20}},
    {"tile @apart(%x: f32[6,4] strides [10,1]) -> (%y: f32[6,4] strides [1,6]) target sm_90a "
     "{\n"
     "  %n = const {value=6} : i64[]\n  %z = const : i64[]\n  for %r in %z..%n step 2 parallel "
     "{\n"
     "    %a = load %x[%r, %z] : f32[2,4]\n    store %y[%r, %z] = %a\n  }\n}\n",
     {0}},
};

static void fill(unsigned char *p, int i, TsDtype d, unsigned by) {
  for (int k = 0; k < MOST; k++)
    p[k] = (unsigned char)((unsigned)(k * 31 + i * 7) * by >> 3 & 0x3f);
  for (int k = 0; d == TS_DT_i64 && k < MOST / 8; k++)
    ((int64_t *)(void *)p)[k] = (k * 7 + 3) % 20;
}

static int run(const TsTile *k, unsigned char (*at)[MOST], const int64_t *dim, int64_t round) {
  void *arg[PARAMS] = {at[0], at[1], at[2]};
  TsTileRunOne one = {.phase = 0, .round = round};
  TsTileRunAs as = {.one = &one};
  TsError err = {0};
  int failed = ts_tile_run_as(k, arg, dim, &as, &err);
  if (failed) failures++, printf("%s: %s\n", k->name, err.message);
  return failed;
}

static bool within(const TsPersistentBytes *b, int64_t i) {
  return i >= (int64_t)b->at && i < (int64_t)(b->at + b->nbytes);
}

static _Alignas(16) unsigned char first[PARAMS][MOST], second[PARAMS][MOST],
    before[PARAMS][MOST];

static void one_round(const TsTile *k, const int64_t *dim, int64_t round) {
  TsPersistentBytes touch[PARAMS] = {{0, 0}};
  if (!ts_persistent_footprint(k, 0, round, round + 1, dim, touch))
    failures++, printf("%s: lost\n", k->name);
  for (int i = 0; i < k->nparam; i++) {
    TsDtype d = (TsDtype)k->param[i]->type.dtype;
    int64_t below, above;
    fill(first[i], i, d, 977), memcpy(second[i], first[i], MOST);
    for (int b = 0; b < MOST; b++) /* integers stay positions */
      if (!within(&touch[i], b)) second[i][b] ^= d == TS_DT_i64 ? (b % 8 ? 0 : 4) : 0x2a;
    ts_tile_reach(&k->param[i]->type, dim, &below, &above);
    narrow += (int64_t)touch[i].nbytes < above;
  }
  memcpy(before, second, sizeof before);
  if (run(k, first, dim, round) || run(k, second, dim, round)) return;
  for (int i = k->nin; i < k->nparam; i++)
    for (int b = 0; b < MOST; b++) {
      bool own = within(&touch[i], b), wrote = second[i][b] != before[i][b];
      if (wrote && !own)
        failures++, printf("%s: round %d writes byte %d of %d\n", k->name, (int)round, b, i);
      if (own && wrote && first[i][b] != second[i][b])
        failures++, printf("%s: round %d reads what it is not said to\n", k->name, (int)round);
      if (failures) return;
    }
  rounds_seen++;
}

int main(void) {
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && !failures; i++) {
    TsError err = {0};
    int64_t rounds[4];
    TsTile *k = ts_tile_parse(kernels[i].text, &err);
    if (!k || ts_tile_check(k, NULL, &err)) return printf("%s\n", err.message), 1;
    int n = ts_persistent_rounds(k, kernels[i].dim, 4, rounds);
    if (n != 1) failures++, printf("%s: %d phases\n", k->name, n);
    for (int64_t r = 0; n == 1 && r < rounds[0]; r++) one_round(k, kernels[i].dim, r);
    ts_tile_free(k);
  }
  if (rounds_seen < 35 || narrow < 60)
    failures++, printf("%d rounds, %d parts of memory\n", rounds_seen, narrow);
  return failures != 0;
}
