/* Texts that are kept (jit/code/texts.h): found under their keys, once each, and the oldest go where there are too many bytes. */
#include "jit/code/texts.h"
#include "tests/jit/jit_test.h"

static TsText key_of(int i) {
  TsText key = {0};
  ts_text_format(&key, "asm 0x1\nkernel %d", i);
  return key;
}

static void keep(int i, const char *text, size_t n) {
  TsText key = key_of(i);
  ts_texts_keep(&key, text, n);
  ts_text_free(&key);
}

/* The length of what is kept, -1: nothing. */
static int64_t found(int i, char first) {
  TsText key = key_of(i), text = {0};
  bool known = ts_texts_find(&key, &text);
  int64_t n = known ? (int64_t)text.len : -1;
  CHECK(!n || n < 0 || text.at[0] == first);
  ts_text_free(&key);
  ts_text_free(&text);
  return n;
}

int main(void) {
  enum { MANY = 1500, PARTS = 5 };
  for (int i = 0; i < MANY; i++) keep(i, i % 2 ? "odd" : "even", i % 2 ? 3 : 4);
  size_t bytes = ts_texts_bytes();
  keep(7, "another", 7); /* it is known */
  CHECK(ts_texts_bytes() == bytes);
  for (int i = 0; i < MANY; i++) CHECK(found(i, i % 2 ? 'o' : 'e') == (i % 2 ? 3 : 4));
  CHECK(found(MANY, 0) == -1);
  size_t part = TS_TEXTS_BYTES / (PARTS - 1) - 1000;
  char *large = malloc(TS_TEXTS_BYTES);
  memset(large, 'x', TS_TEXTS_BYTES);
  for (int i = 0; i < PARTS; i++) keep(MANY + i, large, part);
  CHECK(found(0, 0) == -1 && found(MANY - 1, 0) == -1 && found(MANY, 0) == -1);
  for (int i = 1; i < PARTS; i++) CHECK(found(MANY + i, 'x') == (int64_t)part);
  CHECK(ts_texts_bytes() <= TS_TEXTS_BYTES);
  keep(-1, large, TS_TEXTS_BYTES); /* more than there is room for: nothing goes for it */
  CHECK(found(-1, 0) == -1 && found(MANY + 1, 'x') > 0);
  ts_texts_drop();
  CHECK(!ts_texts_bytes() && found(MANY + 1, 0) == -1);
  keep(3, "again", 5);
  CHECK(found(3, 'a') == 5);
  ts_texts_drop();
  free(large);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
