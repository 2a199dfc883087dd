/* Searching: strings by memmem, expressions by PCRE2, compiled to machine code where it can. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "text/char.h"

struct TsPattern {
  char *string; /* or an expression: */
  size_t n;
  pcre2_code *code;
  pcre2_match_data *data;
  pcre2_match_context *context;
  bool fast; /* machine code */
};

/* Steps of one match, a second or so; bytes for the way back. */
enum { STEPS = 50 * 1000 * 1000, HEAP_KIB = 64 * 1024 };

void ts_pattern_free(TsPattern *p) {
  if (!p) return;
  pcre2_match_context_free(p->context);
  pcre2_match_data_free(p->data);
  pcre2_code_free(p->code);
  free(p->string);
  free(p);
}

TsPattern *ts_pattern_string(const char *s, size_t n, TsError *err) {
  TsPattern *p = calloc(1, sizeof *p);
  if (p) p->string = malloc(n + 1);
  if (!p || !p->string) return free(p), ts_error_memory(err), NULL;
  memcpy(p->string, s, n);
  p->n = n;
  return p;
}

static int compile(TsPattern *p, const char *s, size_t n, TsError *err) {
  TsText text = {0};
  int code, bad = ts_pattern_translate(s, n, &text, err);
  size_t at;
  pcre2_compile_context *how = bad ? NULL : pcre2_compile_context_create(NULL);
  if (!bad && !how) bad = ts_error_memory(err);
  if (!bad) {
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(how, 1 << 20);
    p->code = pcre2_compile((PCRE2_SPTR)(text.at ? text.at : ""), text.len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, how);
    if (!p->code && code == PCRE2_ERROR_HEAP_FAILED) {
      bad = ts_error_memory(err);
    } else if (!p->code) {
      char what[120];
      pcre2_get_error_message(code, (PCRE2_UCHAR *)what, sizeof what);
      bad = ts_error_set(err, TS_ERR_format, "%s, at byte %zu of %.200s", what, at, text.at);
    }
  }
  pcre2_compile_context_free(how);
  ts_text_free(&text);
  return bad;
}

TsPattern *ts_pattern_regex(const char *s, size_t n, TsError *err) {
  TsPattern *p = calloc(1, sizeof *p);
  if (!p) return ts_error_memory(err), NULL;
  if (compile(p, s, n, err)) return ts_pattern_free(p), NULL;
  p->data = pcre2_match_data_create_from_pattern(p->code, NULL);
  p->context = pcre2_match_context_create(NULL);
  if (!p->data || !p->context) return ts_pattern_free(p), ts_error_memory(err), NULL;
  pcre2_set_match_limit(p->context, STEPS);
  pcre2_set_heap_limit(p->context, HEAP_KIB);
  p->fast = !pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it matches are slower */
  return p;
}

TsMatches ts_pattern_matches(const TsPattern *p, const char *s, size_t n) {
  return (TsMatches){p, s, n, 0, SIZE_MAX, 0, 0};
}

static int next_string(TsMatches *m) {
  const TsPattern *p = m->p;
  if (!p->n || p->n > m->n - m->at) return 0;
  const char *found = p->n == 1 ? memchr(m->s + m->at, p->string[0], m->n - m->at)
                                : memmem(m->s + m->at, m->n - m->at, p->string, p->n);
  if (!found) return 0;
  m->from = (size_t)(found - m->s);
  m->at = m->to = m->from + p->n;
  return 1;
}

static int search(const TsMatches *m) {
  const TsPattern *p = m->p;
  PCRE2_SPTR s = (PCRE2_SPTR)m->s;
  uint32_t checked = PCRE2_NO_UTF_CHECK;
  if (p->fast) {
    int found = pcre2_jit_match(p->code, s, m->n, m->at, checked, p->data, p->context);
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
  }
  return pcre2_match(p->code, s, m->n, m->at, checked | PCRE2_NO_JIT, p->data, p->context);
}

int ts_matches_next(TsMatches *m, TsError *err) {
  if (!m->p->code) return next_string(m);
  for (;;) {
    if (m->at > m->n) return 0;
    if (ts_cpu_interrupted()) return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    int found = search(m);
    if (found == PCRE2_ERROR_NOMATCH) return m->at = m->n + 1, 0;
    if (found == PCRE2_ERROR_NOMEMORY) return ts_error_memory(err);
    if (found < 0) {
      ts_error_set(err, TS_ERR_value, "a match at byte %zu takes too many steps", m->at);
      return ts_error_hint(err, "the tokenizer's regular expression has too many ways to fit");
    }
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m->p->data);
    m->from = at[0];
    m->to = at[1];
    if (m->to < m->from) m->from = m->to; /* \K in a look-ahead */
    if (m->to > m->from || m->to != m->end) {
      m->at = m->end = m->to;
      return 1;
    }
    m->at += m->at < m->n ? ts_char_len((unsigned char)m->s[m->at]) : 1;
  }
}
