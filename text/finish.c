/* What post-processors do. Each takes parts and gives parts. */
#include "text/finish.h"
#include "text/normal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t begin_of(const TsEncoding *e, uint32_t part) {
  return part ? e->end[part - 1] : 0;
}

static int put_in(TsEncoding *to, int32_t id, uint32_t type, TsError *err) {
  return ts_encoding_add(
      to, (TsItem){.id = id, .type = type, .word = TS_NO_WORD, .special = true}, err);
}

static int copy(TsEncoding *to, const TsEncoding *e, uint32_t part, TsError *err) {
  for (uint32_t i = begin_of(e, part); i < e->end[part]; i++)
    if (ts_encoding_add(to, e->at[i], err)) return -1;
  return 0;
}

static int by_template(const TsFinish *k, bool special, TsEncoding *e, TsEncoding *to,
                       TsError *err) {
  if (e->nend < 1 || e->nend > 2)
    return ts_error_set(err, TS_ERR_value, "TemplateProcessing: %u sequences are too many",
                        e->nend);
  const TsSlotPiece *slot = k->slots[e->nend - 1];
  for (uint32_t i = 0; i < k->nslots[e->nend - 1]; i++) {
    if (slot[i].text >= 0) {
      if ((uint32_t)slot[i].text >= e->nend)
        return ts_error_set(err, TS_ERR_value,
                            "TemplateProcessing: there is no second sequence");
      uint32_t part = (uint32_t)slot[i].text;
      for (uint32_t t = begin_of(e, part); t < e->end[part]; t++) e->at[t].type = slot[i].type;
      if (copy(to, e, part, err)) return -1;
    } else if (special) {
      for (uint32_t t = 0; t < slot[i].n; t++)
        if (put_in(to, slot[i].ids[t], slot[i].type, err)) return -1;
    } else {
      continue;
    }
    if (ts_encoding_part(to, err)) return -1;
  }
  return 0;
}

/* BERT: cls A sep B sep. RoBERTa: cls A sep sep B sep. */
static int by_bert(const TsFinish *k, const TsEncoding *e, TsEncoding *to, TsError *err) {
  bool roberta = k->kind == TS_FINISH_RobertaProcessing;
  for (uint32_t part = 0; part < e->nend; part++) {
    if (!part ? put_in(to, k->cls, 0, err) : roberta ? put_in(to, k->sep, 0, err) : 0)
      return -1;
    if (copy(to, e, part, err) || put_in(to, k->sep, part && !roberta, err) ||
        ts_encoding_part(to, err))
      return -1;
  }
  return 0;
}

/* Offsets without the white space of a token, as GPT-2's have it. Counts of characters are
 * taken off bytes there, and here. */
static void trim(const TsFinish *k, TsEncoding *e) {
  for (uint32_t part = 0; part < e->nend; part++)
    for (uint32_t i = begin_of(e, part); i < e->end[part]; i++) {
      TsItem *t = &e->at[i];
      uint32_t lead = t->lead;
      bool first = i == begin_of(e, part) || !t->from;
      if (lead) {
        if (first && k->prefix && lead == 1) lead = 0;
        t->from = t->from + lead < t->to ? t->from + lead : t->to;
      }
      if (t->trail && t->to >= t->trail)
        t->to = t->to - t->trail > t->from ? t->to - t->trail : t->from;
    }
}

static void swap(TsEncoding *a, TsEncoding *b) {
  TsEncoding t = *a;
  *a = *b;
  *b = t;
}

int ts_finish_apply(const TsFinishes *all, bool special, TsEncoding *e, TsEncoding *other,
                    TsError *err) {
  for (uint32_t part = 0; all->n && part < e->nend; part++)
    for (uint32_t i = begin_of(e, part); i < e->end[part]; i++) e->at[i].type = part;
  for (int i = 0; i < all->n; i++) {
    const TsFinish *k = &all->at[i];
    ts_encoding_clear(other);
    if (k->trim) trim(k, e);
    if (k->kind == TS_FINISH_RobertaProcessing)
      for (uint32_t t = 0; t < e->n; t++) e->at[t].type = 0;
    if (k->kind == TS_FINISH_ByteLevel) continue;
    if (k->kind == TS_FINISH_TemplateProcessing) {
      if (by_template(k, special, e, other, err)) return -1;
    } else if (!special) {
      continue;
    } else if (by_bert(k, e, other, err)) {
      return -1;
    }
    swap(e, other);
  }
  return 0;
}

int64_t ts_finish_count(const TsFinishes *all, bool pair) {
  int64_t n = 0;
  for (int i = 0; i < all->n; i++) {
    const TsFinish *k = &all->at[i];
    if (k->kind == TS_FINISH_BertProcessing) n += pair ? 3 : 2;
    if (k->kind == TS_FINISH_RobertaProcessing) n += pair ? 4 : 2;
    for (uint32_t s = 0; k->kind == TS_FINISH_TemplateProcessing && s < k->nslots[pair]; s++)
      n += k->slots[pair][s].n;
  }
  return n;
}

/* ---- reading */
static int read_id(const TsTree *v, int32_t *id, TsError *err) {
  int64_t n = v ? ts_tree_count(v, INT32_MAX) : -1;
  if (n < 0) return ts_error_set(err, TS_ERR_format, "an id is no whole number from 0 on");
  *id = (int32_t)n;
  return 0;
}

/* ["[SEP]", 102] */
static int read_pair(const TsTree *t, const char *name, int32_t *id, TsError *err) {
  const TsTree *v;
  if (ts_tree_find(t, name, TS_TREE_list, true, &v, err)) return -1;
  if (v->n != 2) return ts_error_set(err, TS_ERR_format, "'%s' must be [token, id]", name);
  return read_id(v->first->next, id, err);
}

static int read_special(TsSlotPiece *p, TsArena *a, const TsTree *all, const TsTree *id,
                        TsError *err) {
  char name[64];
  const TsTree *token = NULL, *ids;
  for (const TsTree *v = all ? all->first : NULL; v; v = v->next)
    if (v->len == id->n && !memcmp(v->name, id->s, id->n)) token = v;
  if (!token || token->kind != TS_TREE_object)
    return ts_error_set(err, TS_ERR_format, "'%s' of the template is none of 'special_tokens'",
                        ts_tree_shown(id->s, id->n, name));
  if (ts_tree_find(token, "ids", TS_TREE_list, true, &ids, err)) return -1;
  int32_t *to = ts_arena_alloc(a, ids->n * sizeof *to + 1);
  if (!to) return ts_error_memory(err);
  p->text = -1;
  p->ids = to;
  p->n = ids->n;
  for (const TsTree *v = ids->first; v; v = v->next)
    if (read_id(v, to++, err)) return -1;
  return 0;
}

static int read_slots(TsFinish *k, int pair, TsArena *a, const TsTree *t, TsError *err) {
  const TsTree *list, *specials, *body, *id;
  if (ts_tree_find(t, pair ? "pair" : "single", TS_TREE_list, true, &list, err) ||
      ts_tree_find(t, "special_tokens", TS_TREE_object, false, &specials, err))
    return -1;
  TsSlotPiece *p = ts_arena_alloc(a, list->n * sizeof *p + 1);
  if (!p) return ts_error_memory(err);
  k->slots[pair] = p;
  k->nslots[pair] = list->n;
  for (const TsTree *v = list->first; v; v = v->next, p++) {
    int64_t type = 0;
    bool text = (body = ts_tree_get(v, "Sequence")) != NULL;
    if (!body) body = ts_tree_get(v, "SpecialToken");
    if (!body || body->kind != TS_TREE_object)
      return ts_error_set(
          err, TS_ERR_format,
          "a template consists of {\"Sequence\": ..} and {\"SpecialToken\": ..}");
    if (ts_tree_find(body, "id", TS_TREE_string, true, &id, err) ||
        ts_tree_whole(body, "type_id", &type, err))
      return -1;
    p->type = (uint32_t)type;
    if (!text) {
      if (read_special(p, a, specials, id, err)) return -1;
      continue;
    }
    if (!ts_tree_is(id, "A") && !ts_tree_is(id, "B"))
      return ts_error_set(err, TS_ERR_format, "a sequence of a template is \"A\" or \"B\"");
    p->text = ts_tree_is(id, "B");
    if (p->text && !pair)
      return ts_error_set(err, TS_ERR_format, "the template of one sequence has a second");
  }
  return 0;
}

int ts_finish_read(TsFinishes *all, TsArena *a, const TsTree *t, TsError *err) {
  static const char *const names[] = {
#define X(name) #name,
      TS_POSTPROCESSORS(X)
#undef X
  };
  const TsTree *list;
  if (t->kind == TS_TREE_object && ts_tree_get(t, "type") &&
      ts_tree_is(ts_tree_get(t, "type"), "Sequence")) {
    if (ts_tree_find(t, "processors", TS_TREE_list, true, &list, err)) return -1;
    for (const TsTree *v = list->first; v; v = v->next)
      if (ts_finish_read(all, a, v, err)) return -1;
    return 0;
  }
  int kind = ts_normal_kind(t, names, TS_FINISH_n, "post-processor", err);
  if (kind < 0) return -1;
  TsFinish *at = realloc(all->at, (size_t)(all->n + 1) * sizeof *at);
  if (!at) return ts_error_memory(err);
  all->at = at;
  TsFinish *k = &at[all->n++];
  *k = (TsFinish){.kind = (TsFinishKind)kind};
  if (k->kind == TS_FINISH_TemplateProcessing)
    return read_slots(k, 0, a, t, err) || read_slots(k, 1, a, t, err) ? -1 : 0;
  if (k->kind != TS_FINISH_ByteLevel &&
      (read_pair(t, "sep", &k->sep, err) || read_pair(t, "cls", &k->cls, err)))
    return -1;
  k->trim = k->prefix = k->kind != TS_FINISH_BertProcessing;
  if (ts_tree_flag(t, "trim_offsets", &k->trim, err) ||
      ts_tree_flag(t, "add_prefix_space", &k->prefix, err))
    return -1;
  all->trims |= k->trim;
  return 0;
}

void ts_finish_free(TsFinishes *all) {
  free(all->at);
  *all = (TsFinishes){0};
}
