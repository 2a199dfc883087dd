/* A hash table for readers and printers of IR text: by a piece of text, which the owner keeps,
 * or by an address. Slots move when it grows. */
#ifndef TS_IR_TEXT_MAP_H
#define TS_IR_TEXT_MAP_H

#include <stddef.h>
#include <stdint.h>

enum { TS_KEY_ADDRESS = -1 }; /* as len: the address itself is the key */

typedef struct TsMapSlot {
  const char *key; /* NULL: free */
  int len;
  int count; /* for the owner, as is value; 0 and NULL in a new slot */
  uint32_t hash;
  const void *value;
} TsMapSlot;

typedef struct TsTextMap {
  TsMapSlot *slot;
  size_t nslot, used;
} TsTextMap;

TsMapSlot *ts_text_map_find(const TsTextMap *m, const void *key, int len);
/* The slot of key, made if it is new. NULL when memory runs out. */
TsMapSlot *ts_text_map_enter(TsTextMap *m, const void *key, int len);
void ts_text_map_free(TsTextMap *m);

#endif
