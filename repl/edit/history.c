/* History in memory; repl/edit/history_file.c keeps the file. */
#include "repl/edit/history.h"

#include <stdlib.h>
#include <string.h>

void ts_edit_history_free(TsEditHistory *h) {
  for (size_t i = 0; i < h->count; i++) free(h->entries[i]);
  free(h->entries);
  free(h->path);
  *h = (TsEditHistory){0};
}

static void drop_oldest(TsEditHistory *h) {
  free(h->entries[0]);
  h->count--;
  memmove(h->entries, h->entries + 1, h->count * sizeof *h->entries);
  if (h->unsaved > h->count) h->unsaved = h->count;
}

int ts_edit_history_add(TsEditHistory *h, const char *entry) {
  if (!*entry || (h->count && strcmp(h->entries[h->count - 1], entry) == 0)) return 0;
  if (!h->entries) h->entries = malloc((TS_EDIT_HISTORY_MAX + 1) * sizeof *h->entries);
  char *copy = h->entries ? strdup(entry) : NULL;
  if (!copy) return -1;
  h->entries[h->count++] = copy;
  h->unsaved++;
  if (h->count > TS_EDIT_HISTORY_MAX) drop_oldest(h);
  return 1;
}

static int matches(const char *entry, const char *prefix, const char *current) {
  return strncmp(entry, prefix, strlen(prefix)) == 0 && strcmp(entry, current) != 0;
}

long ts_edit_history_older(const TsEditHistory *h, long from, const char *prefix,
                           const char *current) {
  while (--from >= 0)
    if (matches(h->entries[from], prefix, current)) return from;
  return -1;
}

long ts_edit_history_newer(const TsEditHistory *h, long from, const char *prefix,
                           const char *current) {
  while (++from < (long)h->count)
    if (matches(h->entries[from], prefix, current)) return from;
  return -1;
}
