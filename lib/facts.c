/* See lib/facts.h. */
#include "lib/facts.h"

#include <math.h>
#include <string.h>

#include "lib/json.h"

static void begin(TsText *t, const char *key) {
  char last = t->len ? t->at[t->len - 1] : '[';
  if (last != '[' && last != '{') ts_text_char(t, ',');
  if (!key) return;
  ts_json_string(t, "", key, strlen(key));
  ts_text_char(t, ':');
}

void ts_facts_object(TsText *t, const char *key) {
  begin(t, key);
  ts_text_char(t, '{');
}

void ts_facts_list(TsText *t, const char *key) {
  begin(t, key);
  ts_text_char(t, '[');
}

void ts_facts_end(TsText *t, char c) { ts_text_char(t, c); }

static void put(TsText *t, const char *key, const char *s, size_t n) {
  begin(t, key);
  ts_json_string(t, "", s, n);
}

void ts_facts_text(TsText *t, const char *key, const char *s) {
  if (s) put(t, key, s, strlen(s));
}

void ts_facts_take(TsText *t, const char *key, TsText *s) {
  put(t, key, s->at ? s->at : "", s->len);
  t->failed |= s->failed;
  ts_text_free(s);
}

void ts_facts_number(TsText *t, const char *key, double v) {
  if (!isfinite(v)) return;
  begin(t, key);
  ts_text_format(t, "%.17g", v);
}

void ts_facts_flag(TsText *t, const char *key, bool v) {
  begin(t, key);
  ts_text_str(t, v ? "true" : "false");
}

void ts_facts_numbers(TsText *t, const char *key, int n, const int64_t *v) {
  ts_facts_list(t, key);
  for (int i = 0; i < n; i++) ts_facts_number(t, NULL, (double)v[i]);
  ts_facts_end(t, ']');
}

void ts_facts_none(TsText *t, const char *key, const char *reason) {
  TsText name = {0};
  ts_text_format(&name, "%s_reason", key);
  if (name.at) ts_facts_text(t, name.at, reason);
  ts_text_free(&name);
}
