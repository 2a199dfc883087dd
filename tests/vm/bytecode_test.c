/* Bytecode put together by hand: planned, run, checked, printed. */
#include "vm/code/bytecode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

static int failures;
#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static const TsMeta vector = {.dtype = TS_DT_f32, .ndim = 1, .dim = {4}};

static TsTensor *filled(TsContext *c, const TsMeta *m, float v) {
  TsTensor *t = ts_tensor_new(c, m);
  for (int64_t i = 0; i < ts_tensor_numel(t); i++)
    ((float *)t->storage->host)[i] = v + (float)i;
  return t;
}

static uint32_t put(TsCode *code, TsOp op, int nin, const uint32_t *in, const TsAttr *attr) {
  uint32_t r = ts_code_register(code, &vector);
  ts_code_add(code, op, nin, in, attr ? ts_op_info(op)->nattr : 0, attr, 1, &r, 0);
  return r;
}

/* (x + y) * y, clamped from below */
static TsCode *sample(void) {
  TsCode *code = ts_code_new("sample");
  TsAttr a[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_clamp, a);
  a[0] = ts_attr_f(5);
  uint32_t x = ts_code_param(code, &vector, NULL), y = ts_code_param(code, &vector, NULL);
  uint32_t s = put(code, TS_OP_add, 2, (uint32_t[]){x, y}, NULL);
  uint32_t p = put(code, TS_OP_mul, 2, (uint32_t[]){s, y}, NULL);
  uint32_t r = put(code, TS_OP_clamp, 1, &p, a);
  CHECK(ts_code_finish(code, 1, &r) == 0);
  return code;
}

static void test_run(TsContext *c) {
  TsCode *code = sample();
  TsTensor *arg[2] = {filled(c, &vector, 1), filled(c, &vector, 0)}, *y = NULL;
  CHECK(ts_code_verify(code, &c->err) == 0 && ts_code_plan(code, &c->err) == 0);
  CHECK(ts_code_verify(code, &c->err) == 0);
  TsFrame *f = ts_frame_new(c, code);
  for (int round = 0; round < 3; round++) {
    int64_t before = c->live_bytes;
    CHECK(f && ts_frame_run(f, arg, &y) == 0);
    CHECK(ts_tensor_get(y, 0) == 5 && ts_tensor_get(y, 3) == 21);
    ts_tensor_unref(y);
    CHECK(c->live_bytes == before);
  }
  ts_frame_free(f);
  ts_tensor_unref(arg[0]);
  ts_tensor_unref(arg[1]);
  ts_code_free(code);
}

/* A chain reuses its bytes; the plan needs no more than what is alive. */
static void test_plan(TsContext *c) {
  TsCode *code = ts_code_new("chain");
  uint32_t r = ts_code_param(code, &vector, NULL);
  for (int i = 0; i < 50; i++) r = put(code, TS_OP_exp, 1, &r, NULL);
  CHECK(ts_code_finish(code, 1, &r) == 0 && ts_code_plan(code, &c->err) == 0);
  CHECK(code->slab_nbytes == 64 && code->bound_nbytes == 64 && code->sum_nbytes == 64);
  CHECK(ts_code_verify(code, &c->err) == 0);
  ts_code_free(code);
}

static void test_text(TsContext *c) {
  TsCode *code = sample();
  TsText t = {0};
  CHECK(ts_code_plan(code, &c->err) == 0);
  ts_code_text(code, &t);
  const char *want = "function @sample(r0 : f32[4] param, r1 : f32[4] param) -> r4  // slab 64 "
                     "bytes, at least 64, "
                     "unshared 64\n"
                     "     0  r2 = add r0, r1 : f32[4] slab+0\n"
                     "     1  r3 = mul r2, r1 : f32[4] slab+0\n"
                     "     2  r4 = clamp r3 min=5 : f32[4] fresh\n";
  CHECK(!strcmp(t.at, want));
  if (strcmp(t.at, want)) printf("%s", t.at);
  ts_text_free(&t);
  ts_code_free(code);
}

/* Damage to operands and counts is either harmless or refused: never a crash. */
static void test_verify(TsContext *c) {
  TsCode *code = sample();
  int refused = 0;
  CHECK(ts_code_plan(code, &c->err) == 0);
  for (int i = 0; i < code->noperand; i++) {
    uint32_t old = code->operand[i];
    for (uint32_t bad = 1; bad; bad <<= 3) {
      code->operand[i] = old ^ bad;
      refused += ts_code_verify(code, &c->err) != 0;
    }
    code->operand[i] = old;
  }
  CHECK(refused > 40);
  for (int i = 0; i < code->ninstr; i++) {
    TsInstr old = code->instr[i];
    code->instr[i].op = 0xffff;
    CHECK(ts_code_verify(code, &c->err) != 0);
    code->instr[i] = old;
    code->instr[i].nin = 1000000;
    CHECK(ts_code_verify(code, &c->err) != 0);
    code->instr[i] = old;
    code->instr[i].attr = 77;
    CHECK(ts_op_info((TsOp)old.op)->nattr == 0 || ts_code_verify(code, &c->err) != 0);
    code->instr[i] = old;
  }
  /* Two values that are alive together in the same bytes. */
  TsCode *wide = ts_code_new("wide");
  uint32_t x = ts_code_param(wide, &vector, NULL);
  uint32_t a = put(wide, TS_OP_exp, 1, &x, NULL), b = put(wide, TS_OP_sin, 1, &x, NULL);
  uint32_t s = put(wide, TS_OP_add, 2, (uint32_t[]){a, b}, NULL);
  CHECK(ts_code_finish(wide, 1, &s) == 0 && ts_code_plan(wide, &c->err) == 0);
  CHECK(ts_code_verify(wide, &c->err) == 0);
  wide->reg[b].offset = wide->reg[a].offset;
  CHECK(ts_code_verify(wide, &c->err) != 0);
  ts_code_free(wide);
  ts_code_free(code);
}

/* The same at the end of code of which each value lives shortly: length costs no care. */
static void test_verify_long(TsContext *c) {
  TsCode *code = ts_code_new("long");
  uint32_t r = ts_code_param(code, &vector, NULL), kept = r;
  for (int i = 0; i < 5000; i++) {
    kept = r;
    r = put(code, TS_OP_exp, 1, &r, NULL);
  }
  uint32_t a = put(code, TS_OP_sin, 1, &kept, NULL);
  uint32_t s = put(code, TS_OP_add, 2, (uint32_t[]){a, r}, NULL);
  CHECK(ts_code_finish(code, 1, &s) == 0 && ts_code_plan(code, &c->err) == 0);
  CHECK(ts_code_verify(code, &c->err) == 0);
  code->reg[r].offset = code->reg[a].offset;
  CHECK(ts_code_verify(code, &c->err) != 0);
  ts_code_free(code);
}

int main(void) {
  TsContext *c = ts_context_open();
  test_run(c);
  test_plan(c);
  test_text(c);
  test_verify(c);
  test_verify_long(c);
  ts_context_close(c);
  printf("%s\n", failures ? "FAILED" : "ok");
  return failures != 0;
}
