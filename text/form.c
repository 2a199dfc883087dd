/* Normal forms (Unicode's Annex 15) that say what became of which character: decomposed
 * characters are one in place of theirs and inserted ones; a composed one takes in what it
 * consists of. */
#include "text/form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "devices/cpu_pool.h"

typedef struct Part {
  uint32_t c;
  int16_t change;
  uint8_t class; /* of combining */
} Part;

typedef struct Parts {
  Part *at;
  size_t n, room;
} Parts;

typedef struct Composer {
  TsForm form;
  TsEdit *to;
  Parts pending; /* decomposed, up to the next starter: not in order yet */
  Parts held;    /* behind the starter, not taken in by it */
  bool started;
  Part starter;
  int last; /* class of the last one behind the starter, or -1 */
  bool failed;
} Composer;

static uint8_t class_of(uint32_t c) {
  return c < 0x300 ? 0 : (uint8_t)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

bool ts_form_is(TsForm form, const char *s, size_t n) {
  size_t i = ts_char_ascii(s, n);
  uint32_t least = form.composed     ? form.compatible ? 0xa0 : 0x300
                   : form.compatible ? 0xa0
                                     : 0xc0;
  for (uint32_t len; i < n; i += len) {
    uint32_t c = ts_char_get(s + i, &len);
    if (c < least) continue;
    if ((c >= 0x1100 && c < 0x1200) || (c >= 0xac00 && c < 0xd7a4)) return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    if (p->combining_class || p->decomp_seqindex != UINT16_MAX || p->comb_index != UINT16_MAX)
      return false;
  }
  return true;
}

static bool push(Composer *k, Parts *p, Part part) {
  if (p->n == p->room) {
    size_t room = p->room ? p->room * 2 : 32;
    Part *at = realloc(p->at, room * sizeof *at);
    if (!at) return k->failed = true, false;
    p->at = at;
    p->room = room;
  }
  p->at[p->n++] = part;
  return true;
}

static void put(Composer *k, Part p) { ts_edit_put(k->to, p.c, p.change); }

static void put_held(Composer *k) {
  for (size_t i = 0; i < k->held.n; i++) put(k, k->held.at[i]);
  k->held.n = 0;
}

/* The character that the two are, or 0. */
static uint32_t pair(uint32_t a, uint32_t b) {
  utf8proc_int32_t two[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
  return utf8proc_normalize_utf32(two, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) == 1
             ? (uint32_t)two[0]
             : 0;
}

/* The next one in canonical order. */
static void compose(Composer *k, Part p) {
  if (!k->form.composed) return put(k, p);
  if (!k->started) {
    if (p.class) return put(k, p);
    k->started = true;
    k->starter = p;
    return;
  }
  bool blocked = k->last >= 0 && k->last >= p.class;
  uint32_t one = blocked ? 0 : pair(k->starter.c, p.c);
  if (one) {
    k->starter.c = one;
    k->starter.change = (int16_t)(k->starter.change + p.change - 1);
  } else if (!p.class) {
    put(k, k->starter);
    put_held(k);
    k->starter = p;
    k->last = -1;
  } else {
    push(k, &k->held, p);
    k->last = p.class;
  }
}

/* Stable: few marks stand behind a letter, but a text may consist of them. */
static void order(Composer *k, Part *p, size_t n) {
  if (n < 32) {
    for (size_t i = 1; i < n; i++) {
      Part one = p[i];
      size_t j = i;
      for (; j && p[j - 1].class > one.class; j--) p[j] = p[j - 1];
      p[j] = one;
    }
    return;
  }
  Part *sorted = malloc(n * sizeof *sorted);
  if (!sorted) {
    k->failed = true;
    return;
  }
  size_t first[257] = {0};
  for (size_t i = 0; i < n; i++) first[p[i].class + 1]++;
  for (int c = 0; c < 256; c++) first[c + 1] += first[c];
  for (size_t i = 0; i < n; i++) sorted[first[p[i].class]++] = p[i];
  memcpy(p, sorted, n * sizeof *p);
  free(sorted);
}

static void flush(Composer *k) {
  Part *p = k->pending.at;
  order(k, p, k->pending.n);
  for (size_t i = 0; i < k->pending.n && !k->failed; i++) compose(k, p[i]);
  k->pending.n = 0;
}

static void decompose(Composer *k, uint32_t c) {
  utf8proc_int32_t parts[32];
  utf8proc_ssize_t n = 1;
  parts[0] = (utf8proc_int32_t)c;
  if (c >= 0xa0) {
    n = utf8proc_decompose_char(
        (utf8proc_int32_t)c, parts, 32,
        UTF8PROC_DECOMPOSE | (k->form.compatible ? UTF8PROC_COMPAT : (utf8proc_option_t)0),
        NULL);
    if (n < 0 || n > 32) n = 1, parts[0] = (utf8proc_int32_t)c;
  }
  for (utf8proc_ssize_t i = 0; i < n; i++) {
    Part p = {(uint32_t)parts[i], i > 0, class_of((uint32_t)parts[i])};
    if (!p.class) flush(k);
    if (!push(k, &k->pending, p)) return;
  }
}

int ts_form_apply(TsForm form, const char *s, size_t n, TsEdit *e, TsError *err) {
  Composer k = {.form = form, .to = e, .last = -1};
  for (size_t i = 0; i < n && !k.failed && !e->failed;) {
    uint32_t len;
    if (!(i & 0xfff) && ts_cpu_interrupted()) break;
    decompose(&k, ts_char_get(s + i, &len));
    i += len;
  }
  if (!k.failed) flush(&k);
  if (k.started) put(&k, k.starter);
  put_held(&k);
  free(k.pending.at);
  free(k.held.at);
  if (k.failed) return ts_error_memory(err);
  if (ts_cpu_interrupted()) return ts_error_set(err, TS_ERR_interrupt, "interrupted");
  return e->failed ? -1 : 0;
}
