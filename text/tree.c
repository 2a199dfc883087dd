/* JSON as a tree. What is wrong with the text lib/json.h has said before: here it is only taken
 * apart. */
#include "text/tree.h"

#include <stdlib.h>
#include <string.h>

#include "lib/json.h"
#include "lib/text.h"
#include "text/char.h"

typedef struct Reader {
  TsArena *arena;
  const char *s;
  bool failed;
} Reader;

static void skip_space(Reader *r) {
  while (*r->s == ' ' || *r->s == '\n' || *r->s == '\t' || *r->s == '\r') r->s++;
}

static uint32_t hexadecimal(const char *s) {
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) {
    char c = s[i];
    v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return v;
}

/* What stands behind a backslash, into `to`, of which it gives the end. */
static char *escape(Reader *r, char *to) {
  static const char from[] = "bfnrt", as[] = "\b\f\n\r\t";
  char c = *r->s++;
  if (c != 'u') {
    const char *named = strchr(from, c);
    *to = named ? as[named - from] : c;
    return to + 1;
  }
  uint32_t v = hexadecimal(r->s);
  r->s += 4;
  if (v >> 10 == 0x36) {
    v = 0x10000 + ((v & 0x3ff) << 10 | (hexadecimal(r->s + 2) & 0x3ff));
    r->s += 6;
  }
  return to + ts_char_put(to, v);
}

/* Without escapes it stays where it is. */
static const char *string(Reader *r, uint32_t *n) {
  const char *from = ++r->s, *end = from;
  while (*end != '"' && *end != '\\') end++;
  r->s = end;
  if (*end == '"') {
    *n = (uint32_t)(end - from);
    return r->s++, from;
  }
  for (; *end != '"'; end++) end += *end == '\\';
  char *out = ts_arena_alloc(r->arena, (size_t)(end - from)), *to = out;
  if (!out) return r->failed = true, from;
  memcpy(to, from, (size_t)(r->s - from));
  to += r->s - from;
  while (*r->s != '"') {
    if (*r->s == '\\')
      r->s++, to = escape(r, to);
    else
      *to++ = *r->s++;
  }
  r->s++;
  *n = (uint32_t)(to - out);
  return out;
}

static TsTree *value(Reader *r);

static void members(Reader *r, TsTree *t, char close) {
  TsTree **at = &t->first;
  r->s++;
  skip_space(r);
  while (!r->failed && *r->s != close) {
    const char *name = NULL;
    uint32_t len = 0;
    if (close == '}') {
      name = string(r, &len);
      if (r->failed) return;
      skip_space(r);
      r->s++; /* : */
    }
    TsTree *v = value(r);
    if (r->failed) return;
    v->name = name;
    v->len = len;
    *at = v;
    at = &v->next;
    t->n++;
    skip_space(r);
    if (*r->s == ',') r->s++;
    skip_space(r);
  }
  r->s++;
}

static TsTree *value(Reader *r) {
  TsTree *t = ts_arena_alloc(r->arena, sizeof *t);
  if (!t) return r->failed = true, t;
  skip_space(r);
  char c = *r->s;
  if (c == '{' || c == '[') {
    t->kind = c == '{' ? TS_TREE_object : TS_TREE_list;
    members(r, t, c == '{' ? '}' : ']');
  } else if (c == '"') {
    t->kind = TS_TREE_string;
    t->s = string(r, &t->n);
  } else if (c == 't' || c == 'f') {
    t->kind = TS_TREE_boolean;
    t->yes = c == 't';
    r->s += c == 't' ? 4 : 5;
  } else if (c == 'n') {
    r->s += 4;
  } else {
    char *end;
    t->kind = TS_TREE_number;
    t->number = strtod(r->s, &end);
    r->s = end;
  }
  return t;
}

TsTree *ts_tree_read(TsArena *a, const char *text, size_t n, TsError *err) {
  TsJsonFault fault, fraction;
  if (n >= UINT32_MAX)
    return ts_error_set(err, TS_ERR_format, "4 GiB of JSON or more are not read"), NULL;
  if (ts_json_check(text, n, &fault, &fraction))
    return ts_error_set(err, TS_ERR_format, "no JSON: %s at byte %zu", fault.why, fault.at),
           NULL;
  Reader r = {a, text, false};
  TsTree *t = value(&r);
  return r.failed ? ts_error_memory(err), NULL : t;
}

const char *ts_tree_shown(const char *s, size_t n, char to[64]) {
  char text[48];
  if (n > sizeof text - 4) n = sizeof text - 4;
  while (n && !ts_char_begins(s[n])) n--;
  memcpy(text, s, n);
  text[n] = 0;
  return ts_text_shown(text, to, 64);
}

const TsTree *ts_tree_get(const TsTree *object, const char *name) {
  const TsTree *found = NULL;
  size_t len = strlen(name);
  if (object->kind != TS_TREE_object) return NULL;
  for (const TsTree *v = object->first; v; v = v->next)
    if (v->len == len && !memcmp(v->name, name, len)) found = v;
  return found && found->kind != TS_TREE_null ? found : NULL;
}

int ts_tree_find(const TsTree *object, const char *name, TsTreeKind kind, bool needed,
                 const TsTree **out, TsError *err) {
  static const char *const nouns[] = {"null",     "true or false", "a number",
                                      "a string", "a list",        "an object"};
  *out = ts_tree_get(object, name);
  if (!*out) return needed ? ts_error_set(err, TS_ERR_format, "'%s' is missing", name) : 0;
  if ((*out)->kind == kind) return 0;
  return ts_error_set(err, TS_ERR_format, "'%s' must be %s, not %s", name, nouns[kind],
                      nouns[(*out)->kind]);
}

int ts_tree_flag(const TsTree *object, const char *name, bool *to, TsError *err) {
  const TsTree *v;
  if (ts_tree_find(object, name, TS_TREE_boolean, false, &v, err)) return -1;
  if (v) *to = v->yes;
  return 0;
}

int64_t ts_tree_count(const TsTree *v, int64_t most) {
  if (v->kind != TS_TREE_number || !(v->number >= 0 && v->number <= (double)most)) return -1;
  int64_t n = (int64_t)v->number;
  return (double)n == v->number ? n : -1;
}

int ts_tree_whole(const TsTree *object, const char *name, int64_t *to, TsError *err) {
  const TsTree *v;
  if (ts_tree_find(object, name, TS_TREE_number, false, &v, err)) return -1;
  if (!v) return 0;
  int64_t n = ts_tree_count(v, INT32_MAX);
  if (n < 0)
    return ts_error_set(err, TS_ERR_format, "'%s' must be a whole number from 0 to %d", name,
                        INT32_MAX);
  *to = n;
  return 0;
}

int ts_tree_text(TsArena *a, const TsTree *object, const char *name, const char **to, size_t *n,
                 TsError *err) {
  const TsTree *v;
  if (ts_tree_find(object, name, TS_TREE_string, false, &v, err)) return -1;
  if (!v) return 0;
  char *s = ts_arena_alloc(a, (size_t)v->n + 1);
  if (!s) return ts_error_memory(err);
  memcpy(s, v->s, v->n);
  *to = s;
  *n = v->n;
  return 0;
}

bool ts_tree_is(const TsTree *v, const char *word) {
  return v->kind == TS_TREE_string && v->n == strlen(word) && !memcmp(v->s, word, v->n);
}
