/* Room for the results of concat and pad before their parts are made (ir/graph/parts.h): the parts
 * are written where they belong, and the operator finds them there. */
#ifndef TS_VM_ROOMS_H
#define TS_VM_ROOMS_H

#include "ir/graph/parts.h"
#include "vm/code/bytecode.h"

typedef struct TsRooms {
  TsContext *c;
  TsParts parts;
  bool *used;     /* by part */
  uint32_t *room; /* by part: the register of its whole's room, once it is there */
} TsRooms;

/* may: 1 if a part can be made in its place, 2 if it must be, as its kernel writes it so.
 * Places of less than half of a whole are not worth that it takes its memory early. */
int ts_rooms_open(TsRooms *r, TsContext *c, const TsGraph *g,
                  int (*may)(void *arg, const TsPart *p), void *arg);
void ts_rooms_close(TsRooms *r);
/* The register over which v is made, and, of a part, how it lies; NONE: v is as others. Appends
 * the instructions that make the room and look at the part. */
uint32_t ts_rooms_of(TsRooms *r, TsCode *code, TsVal v, int line, TsTensor **layout);

#endif
