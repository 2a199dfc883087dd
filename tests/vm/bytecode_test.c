/* Bytecode put together by hand: run, checked, printed. */
#include "vm/bytecode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static TsTensor *scalar(TsContext *c, float v) {
  TsMeta m = {.dtype = TS_DT_f32};
  TsTensor *t = ts_tensor_new(c, &m);
  *(float *)t->storage->host = v;
  return t;
}

/* y = x; while (y < limit) y = y + y */
static TsCode *doubling(TsContext *c) {
  TsCode *code = ts_code_new(1);
  TsTensor *limit = scalar(c, 100);
  uint32_t k = ts_code_constant(code, limit), y = ts_code_register(code), t = ts_code_register(code);
  ts_tensor_unref(limit);
  ts_code_vm(code, TS_VM_move, y, 0);
  int top = ts_code_here(code);
  ts_code_op(code, TS_OP_lt, 2, (uint32_t[]){y, k}, NULL, 1, &t);
  int branch = ts_code_here(code);
  ts_code_vm(code, TS_VM_jump_if_not, t, 0);
  ts_code_op(code, TS_OP_add, 2, (uint32_t[]){y, y}, NULL, 1, &y);
  ts_code_vm(code, TS_VM_drop, t, 0);
  ts_code_vm(code, TS_VM_jump, (uint32_t)top, 0);
  ts_code_patch(code, branch + 2, (uint32_t)ts_code_here(code));
  CHECK(ts_code_finish(code, 1, &y) == 0);
  return code;
}

static void test_loop(TsContext *c) {
  TsCode *code = doubling(c);
  TsTensor *x = scalar(c, 3), *y = NULL;
  CHECK(ts_code_verify(code, &c->err) == 0);
  uint64_t before = c->trace.count;
  CHECK(ts_code_run(c, code, &x, &y) == 0);
  CHECK(y && ts_tensor_get(y, 0) == 192.0);
  CHECK(c->trace.count - before == 7 + 6); /* comparisons and additions */
  ts_tensor_unref(x);
  ts_tensor_unref(y);
  ts_code_free(code);
}

static void test_text(TsContext *c) {
  TsCode *code = ts_code_new(2);
  uint32_t r = ts_code_register(code);
  TsAttr a[TS_MAX_ATTR];
  ts_op_defaults(TS_OP_clamp, a);
  a[0] = ts_attr_f(-1);
  ts_code_op(code, TS_OP_mul, 2, (uint32_t[]){0, 1}, NULL, 1, &r);
  ts_code_op(code, TS_OP_clamp, 1, &r, a, 1, &r);
  CHECK(ts_code_finish(code, 1, &r) == 0 && ts_code_verify(code, &c->err) == 0);
  TsText t = {0};
  ts_code_text(code, &t);
  const char *want = "   0  r2 = mul r0, r1\n   5  r2 = clamp r2 min=-1\n   9  ret\n";
  CHECK(!strcmp(t.at, want));
  if (strcmp(t.at, want)) printf("%s", t.at);
  ts_text_free(&t);
  ts_code_free(code);
}

/* Every single-word damage is either harmless or refused: never a crash. */
static void test_verify(TsContext *c) {
  TsCode *code = doubling(c);
  int refused = 0;
  for (int i = 0; i < code->nword; i++) {
    uint32_t old = code->word[i];
    for (uint32_t bad = 0x10000; bad; bad <<= 3) {
      code->word[i] = old ^ bad ^ 0xff;
      refused += ts_code_verify(code, &c->err) != 0;
    }
    code->word[i] = old;
  }
  CHECK(refused > code->nword * 3);
  CHECK(ts_code_verify(code, &c->err) == 0);
  ts_code_free(code);
}

static void test_errors(TsContext *c) {
  TsCode *code = ts_code_new(2);
  uint32_t r = ts_code_register(code);
  ts_code_op(code, TS_OP_add, 2, (uint32_t[]){0, 1}, NULL, 1, &r);
  CHECK(ts_code_finish(code, 1, &r) == 0);
  TsMeta m2 = {.dtype = TS_DT_f32, .ndim = 1, .dim = {2}}, m3 = m2;
  m3.dim[0] = 3;
  TsTensor *in[2] = {ts_tensor_new(c, &m2), ts_tensor_new(c, &m3)}, *out = NULL;
  CHECK(ts_code_run(c, code, in, &out) == -1 && c->err.code == TS_ERR_shape);
  CHECK(!strcmp(c->err.message, "add: shapes do not broadcast: f32[2] x f32[3]"));
  ts_tensor_unref(in[0]);
  ts_tensor_unref(in[1]);
  ts_code_free(code);
}

int main(void) {
  TsContext *c = ts_context_open();
  test_loop(c);
  test_text(c);
  test_verify(c);
  test_errors(c);
  CHECK(c->live_bytes == 0);
  ts_context_close(c);
  return failures != 0;
}
