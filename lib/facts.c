/* See lib/facts.h. */
#include "lib/facts.h"

#include <math.h>
#include <string.h>

static void quoted(TsText *t, const char *s, size_t n) {
  ts_text_char(t, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\')
      ts_text_format(t, "\\%c", c);
    else if (c == '\n')
      ts_text_str(t, "\\n");
    else if (c < 32 || c == 127)
      ts_text_format(t, "\\u%04x", c);
    else
      ts_text_char(t, (char)c);
  }
  ts_text_char(t, '"');
}

static void begin(TsText *t, const char *key) {
  char last = t->len ? t->at[t->len - 1] : '[';
  if (last != '[' && last != '{') ts_text_char(t, ',');
  if (!key) return;
  quoted(t, key, strlen(key));
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
  char *copy = NULL;
  TsText fine = {0};
  if (!ts_text_is_utf8(s, n)) {
    for (size_t i = 0; i < n; i++) ts_text_char(&fine, (unsigned char)s[i] < 128 ? s[i] : '?');
    copy = fine.at;
  }
  begin(t, key);
  if (copy && !fine.failed)
    quoted(t, copy, fine.len);
  else
    quoted(t, s, fine.failed ? 0 : n);
  ts_text_free(&fine);
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
