/* Lua's tokens. */
#include "repl/lex.h"

#include <ctype.h>
#include <string.h>

static const char *const keywords[] = {
    "and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
    "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
    "repeat",   "return", "then", "true", "until",  "while",
};

enum { KEYWORDS = sizeof keywords / sizeof *keywords };

const char *ts_lex_keyword(int i) { return i >= 0 && i < KEYWORDS ? keywords[i] : NULL; }

bool ts_lex_is(const char *text, const TsToken *t, const char *word) {
  return strlen(word) == t->size && !memcmp(text + t->start, word, t->size);
}

typedef struct Scan {
  const char *text;
  size_t size, at;
} Scan;

static char peek(const Scan *s, size_t ahead) {
  return s->at + ahead < s->size ? s->text[s->at + ahead] : 0;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || (c & 0x80); }

/* Number of "=" in a long bracket that opens `ahead` of here, or -1. */
static int long_bracket(const Scan *s, size_t ahead) {
  if (peek(s, ahead) != '[') return -1;
  int level = 0;
  while (peek(s, ahead + 1 + (size_t)level) == '=') level++;
  return peek(s, ahead + 1 + (size_t)level) == '[' ? level : -1;
}

/* Moves behind the closing bracket; false if there is none. */
static bool skip_long(Scan *s, int level) {
  for (; s->at < s->size; s->at++) {
    if (peek(s, 0) != ']') continue;
    int n = 0;
    while (peek(s, 1 + (size_t)n) == '=') n++;
    if (n != level || peek(s, 1 + (size_t)n) != ']') continue;
    s->at += (size_t)level + 2;
    return true;
  }
  return false;
}

static bool skip_string(Scan *s) {
  char quote = s->text[s->at++];
  for (; s->at < s->size && s->text[s->at] != '\n'; s->at++) {
    if (s->text[s->at] == '\\' && s->at + 1 < s->size) {
      s->at++;
    } else if (s->text[s->at] == quote) {
      s->at++;
      return true;
    }
  }
  return false;
}

static void skip_number(Scan *s) {
  bool hex = peek(s, 0) == '0' && (peek(s, 1) | 32) == 'x';
  while (isalnum((unsigned char)peek(s, 0)) || peek(s, 0) == '.' ||
         ((peek(s, 0) == '+' || peek(s, 0) == '-') &&
          (s->text[s->at - 1] | 32) == (hex ? 'p' : 'e')))
    s->at++;
}

static void skip_symbol(Scan *s) {
  static const char *const longer[] = {"...", "..", "==", "~=", "<=", ">=", "::"};
  for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
    size_t n = strlen(longer[i]);
    if (s->size - s->at < n || memcmp(s->text + s->at, longer[i], n)) continue;
    s->at += n;
    return;
  }
  s->at++;
}

static TsLexKind word_kind(const Scan *s, size_t start) {
  TsToken t = {.start = start, .size = s->at - start};
  for (int i = 0; i < KEYWORDS; i++)
    if (ts_lex_is(s->text, &t, keywords[i])) return TS_LEX_KEYWORD;
  return TS_LEX_NAME;
}

TsToken ts_lex_next(const char *text, size_t size, size_t at) {
  Scan s = {text, size, at};
  TsToken t = {.kind = TS_LEX_END, .start = at};
  char c = peek(&s, 0);
  int level;
  if (at >= size) return t;
  if (isspace((unsigned char)c)) {
    t.kind = TS_LEX_SPACE;
    while (s.at < size && isspace((unsigned char)text[s.at])) s.at++;
  } else if (c == '-' && peek(&s, 1) == '-') {
    t.kind = TS_LEX_COMMENT;
    if ((level = long_bracket(&s, 2)) >= 0) {
      s.at += (size_t)level + 4;
      t.open = !skip_long(&s, level);
    } else {
      while (s.at < size && text[s.at] != '\n') s.at++;
    }
  } else if (c == '"' || c == '\'') {
    t.kind = TS_LEX_STRING;
    t.open = !skip_string(&s);
  } else if ((level = long_bracket(&s, 0)) >= 0) {
    t.kind = TS_LEX_STRING;
    s.at += (size_t)level + 2;
    t.open = !skip_long(&s, level);
  } else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(&s, 1)))) {
    t.kind = TS_LEX_NUMBER;
    s.at++;
    skip_number(&s);
  } else if (is_word(c)) {
    while (is_word(peek(&s, 0))) s.at++;
    t.kind = word_kind(&s, at);
  } else {
    t.kind = TS_LEX_SYMBOL;
    skip_symbol(&s);
  }
  t.size = s.at - at;
  return t;
}
