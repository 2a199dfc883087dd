/* A server of HTTP for one thread: requests come whole, with limits on their size and time, and are
 * answered at once or piece by piece. What they ask for is not known here. */
#ifndef TS_NET_HTTP_H
#define TS_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

typedef struct TsHttp TsHttp;

typedef struct TsHttpOptions {
  const char *host;  /* a numeric address */
  int port;          /* 0: one that is free */
  size_t most_body;  /* bytes */
  size_t most_heads; /* bytes of the first line and all headers */
  int patience;      /* seconds in which a request has to come, and its answer to be taken */
} TsHttpOptions;

/* A request as it came; all texts live until it is answered. */
typedef struct TsHttpRequest {
  int64_t id;
  const char *method, *path, *body;
  size_t nbody;
} TsHttpRequest;

/* NULL with the error: the program is built without libevent, or the address cannot be had. */
TsHttp *ts_http_open(const TsHttpOptions *o, TsError *e);
void ts_http_close(TsHttp *h); /* all connections too */
int ts_http_port(const TsHttp *h);

/* Does what there is to do, and waits for it for so long at most. */
void ts_http_wait(TsHttp *h, int msec);
/* The next request that came and was not yet given. */
bool ts_http_next(TsHttp *h, TsHttpRequest *r);
/* Whether who asked has gone, or the id is not known: what is sent there is dropped. */
bool ts_http_is_gone(TsHttp *h, int64_t id);
/* How many requests are not answered, or have answers that are not yet taken. */
int ts_http_open_count(const TsHttp *h);

/* A whole answer; one in pieces, of which _send gives the next and _end the last. 0, or -1 when memory
 * runs out, which ends the connection. */
int ts_http_reply(TsHttp *h, int64_t id, int status, const char *type, const char *body,
                  size_t n);
int ts_http_begin(TsHttp *h, int64_t id, const char *type);
int ts_http_send(TsHttp *h, int64_t id, const char *piece, size_t n);
int ts_http_end(TsHttp *h, int64_t id);
/* No further connections. */
void ts_http_refuse(TsHttp *h);

#endif
