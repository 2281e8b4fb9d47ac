/* cm.h - the Congestion Manager's API, for programs that send over a network.
 *
 * A Congestion Manager (CM) decides *when* you may send; you decide *what*. All programs of this host that send to the
 * same destination share one estimate of the path. So they do not compete with each other, and a second program starts
 * at the rate that the first one found. `rampmeter cm daemon` is the CM; this library is its client.
 *
 * From "An Integrated Congestion Management Architecture for Internet Hosts" (SIGCOMM 1999), Figure 4, and RFC 3124.
 *
 * A minimal program:
 *
 *     static void may_send(cm_id id, int bytes, void *user)      // one packet, of up to `bytes` bytes
 *     {
 *         ssize_t sent = send(my_udp_socket, data, bytes, 0);
 *         cm_notify(id, sent > 0 ? (int)sent : 0);               // always: 0 means that nothing was sent
 *         if (there_is_more)
 *             cm_request(id);                                    // one request, one call of may_send
 *     }
 *
 *     struct cm_callbacks callbacks = { .send = may_send };
 *     cm_id id = cm_open((struct sockaddr *)&to, sizeof to, &callbacks, NULL);
 *     cm_request(id);
 *     while (cm_dispatch(-1) >= 0)                               // calls the callbacks
 *         ;
 *
 * and whenever its receiver reports what arrived:
 *
 *     cm_update(id, bytes_received, bytes_lost, bytes_lost ? CM_TRANSIENT : CM_NO_LOSS, rtt_in_seconds);
 *
 * Only feedback opens the window: what you have sent counts as in flight until you report that it arrived or was lost.
 * If your receiver reports nothing and its host has a CM, send with cm_send or cm_header: that CM reports.
 *
 * You may call every function from any thread, also from within callbacks (except cm_dispatch and cm_disconnect).
 * Functions that return int return CM_OK or a negative error. cm_open returns an id, which is positive, or a negative
 * error. errno has no meaning after them. Bytes are your own data, without headers of UDP and IP. Link with
 * -lrampmeter_cm, or use pkg-config with rampmeter-cm.
 */
#ifndef RAMPMETER_CM_H
#define RAMPMETER_CM_H

#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---------------------------------------------------------------------------------------------------- */

enum cm_error {
    CM_OK = 0,
    CM_EINVAL = -1,        /* an argument is invalid: null, negative, not a number */
    CM_EUNKNOWN = -2,      /* no flow of this connection has or had this id */
    CM_ECLOSED = -3,       /* you have closed this flow */
    CM_EDISCONNECTED = -4, /* the daemon has ended, and all flows with it, or does not answer, or there is no
                              connection; call cm_connect and open the flows again */
    CM_ENODAEMON = -5,     /* no daemon listens; start `rampmeter cm daemon` */
    CM_EREENTRY = -6,      /* cm_dispatch or cm_disconnect was called from within a callback */
    CM_EFORK = -7,         /* this is a child of the process that connected; call cm_connect */
    CM_EFULL = -8,         /* the queue is full, or the daemon has read nothing for a second: the call has changed
                              nothing; after cm_send, the callback `room` says when to try again */
    CM_ETOOMANY = -9,      /* too many flows are open */
    CM_ETOOLARGE = -10,    /* a datagram is larger than cm_mtu, or than the maximum of UDP (cm_notify) */
    CM_EUNANSWERED = -11,  /* the daemon closed the flow: it did not answer many grants in a row with cm_notify */
    CM_EIDLE = -12,        /* the daemon closed the flow: it made no call for a long time */
    CM_EDENIED = -13,      /* the daemon belongs to another user */
    CM_EVERSION = -14,     /* the daemon has another version */
    CM_EDEST = -15,        /* no packet can go to this address: not a single host, no port for cm_send or cm_header,
                              not IP */
    CM_ESYSTEM = -16,      /* the system refused memory, a file or a socket */
    CM_EINFLIGHT = -17,    /* the flow has bytes in flight in its macroflow and in the one before: report those sent
                              before the last cm_set_macroflow, then try again */
    CM_EOTHERDEST = -18    /* the two flows have different destinations; all flows of a macroflow have the same */
};

/* What an error means and what to do about it: one line, never null. Do not free it. */
const char *cm_strerror(int error);

/* ---- flows ----------------------------------------------------------------------------------------------------- */

/* A flow's id. Positive. An id is not used again for a long time after its flow is closed. */
typedef int cm_id;

/* Functions that the CM calls from within cm_dispatch. Any of them may be null. `user` is the argument of cm_open. */
struct cm_callbacks {
    /* The paper's cmapp_send, a grant: you may send one packet of up to `bytes` bytes now. Answer soon with
     * cm_notify: a grant without an answer after two round trips (at least 100 ms) goes to other flows, and a flow
     * that does not answer many grants in a row is closed. */
    void (*send)(cm_id id, int bytes, void *user);

    /* The paper's cmapp_update: your share of the path is now `rate` bits per second, its smoothed round-trip time
     * `srtt` seconds. Choose an encoding, a frame rate or an image size that fits. cm_thresh sets the size of a
     * change that is reported. */
    void (*update)(cm_id id, double rate, double srtt, void *user);

    /* cm_send had returned CM_EFULL; now there is room again. */
    void (*room)(cm_id id, void *user);

    /* The daemon closed the flow, for the reason `error`. The id is good for cm_close only. */
    void (*closed)(cm_id id, int error, void *user);
};

/* Opens a flow to `to`, an IPv4 or IPv6 address; only cm_send and cm_header use the port. Connects to the daemon if
 * there is no connection yet. Copies `callbacks`. Takes some microseconds; if the daemon does not answer within ten
 * seconds, it returns CM_EDISCONNECTED. */
cm_id cm_open(const struct sockaddr *to, socklen_t length, const struct cm_callbacks *callbacks, void *user);

/* The number of your bytes that a packet of the flow may carry; negative is an error. */
int cm_mtu(cm_id id);

/* Requests permission to send one packet. The CM calls `send` once per request, when it is the flow's turn. Up to 256
 * requests of a flow may wait. */
int cm_request(cm_id id);

/* Reports a packet of `sent` bytes; 0 means that nothing was sent. Call it for every packet. If the flow has grants,
 * it answers the oldest one. Without a grant it reports what a program sends by its own clock (for example an audio
 * source), and the CM shapes the packets of all other flows around it. More than a packet can carry (65507 bytes) is
 * refused (CM_ETOOLARGE). */
int cm_notify(cm_id id, int sent);

/* How packets were lost. */
enum cm_loss {
    CM_NO_LOSS = 0,
    CM_PERSISTENT = 1,  /* no feedback arrives: a retransmission timer expired */
    CM_TRANSIENT = 2,   /* some packets were lost, later ones arrived */
    CM_ECN = 3          /* a router marked packets instead of dropping them */
};

/* Reports the bytes that arrived and the bytes that were lost since the last call. `rtt` is a measured round-trip
 * time in seconds, or 0 if none was measured; less than 10 microseconds counts as 10. */
int cm_update(cm_id id, int received, int lost, enum cm_loss loss, double rtt);

/* The flow's share of its path in bits per second, and the smoothed round-trip time in seconds. Either may be
 * null. */
int cm_query(cm_id id, double *rate, double *srtt);

/* The CM calls `update` when the rate falls to `down` times the last reported one, or below, or rises to `up` times
 * of it. `down` is above 0 and at most 1, `up` is 1 or more; the defaults are 0.875 and 1.125. (RFC 3124,
 * cm_thresh.) */
int cm_thresh(cm_id id, double down, double up);

/* The flow's weight relative to others on its path, from 1e-6 to 1e6; the default is 1. */
int cm_weight(cm_id id, double weight);

/* Flows to one destination share one macroflow: one window, one round-trip time. Use this call for flows that the
 * network treats differently from the others, for example with another priority or a policer. Puts the flow into
 * the macroflow of your flow `with` (itself: no change), or into one of these. It stays there until the next call. Its bytes in flight
 * remain with the macroflow whose window permitted them, and reports about them count there. That works for one
 * earlier macroflow at a time: the next call may return CM_EINFLIGHT until these bytes are reported. A new
 * macroflow starts with the initial window. Separate macroflows compete with each other as separate TCP flows do,
 * so do not use this call to get more of a path. (RFC 3124, cm_setmacroflow.) */
enum cm_macroflow {
    CM_NEW_MACROFLOW = -1001,     /* a new one; only flows that are put there join it */
    CM_DEFAULT_MACROFLOW = -1002  /* the one that flows to the destination join by themselves */
};
int cm_set_macroflow(cm_id id, cm_id with);

/* Guarantees the flow `rate` bits per second before anything is shared, as far as the path allows. A requested packet
 * then waits no longer than `delay` seconds (0: no longer than the rate needs). A rate of 0 ends the guarantee. Only
 * daemons that were started with --scheduler h-fsc keep guarantees; others use weights only. */
int cm_guarantee(cm_id id, double rate, double delay);

/* Buffered transmission: the CM keeps a copy of these bytes and sends them as one UDP datagram when it is the flow's
 * turn, from a socket of the daemon. Do not call cm_request or cm_notify for them. If the receiver's host has a CM,
 * that CM reports what arrived, and you need not. Once you call cm_update for a flow, only your reports count. */
int cm_send(cm_id id, const void *data, int length);

/* For programs that send from sockets of their own and get no feedback from their receivers: if the receiver's host
 * has a CM, that CM counts what arrives, removes the header and delivers the data, as for cm_send. For a packet with
 * `length` bytes of your data, at least one, writes CM_HEADER_SIZE bytes to `header` and the address of the receiver's
 * CM to `to`, with its length in `to_length`. Send the header and then the data there, in one datagram, and call
 * cm_notify with the number of your bytes, without the header, or with 0 if you have not sent it. One packet at a time:
 * cm_header, send, cm_notify. You need a grant, or send by your own clock, as for other packets.
 *
 * Returns CM_HEADER_SIZE; or 0 while the receiver's host is not known to have a CM: then `to` is the flow's
 * destination, and the data goes there without a header. The first call for a flow starts the handshake. Once you call
 * cm_update for the flow, it returns 0. Send from the address that your host's CM uses: an unbound socket does so
 * unless the daemon was started with --listen. */
enum { CM_HEADER_SIZE = 20 };
int cm_header(cm_id id, int length, void *header, struct sockaddr_storage *to, socklen_t *to_length);

/* Closes the flow. After it none of the flow's callbacks is called; a callback that ran in another thread has
 * returned. So you can free what `user` points to, whatever this returns. Do not hold a lock here that a callback
 * takes. After CM_EFULL the flow is still open. If another thread ends the connection meanwhile (cm_connect,
 * cm_disconnect), that call waits for the callbacks, and this one does not. */
int cm_close(cm_id id);

/* ---- receivers --------------------------------------------------------------------------------------------------- */

/* Declares that this program receives on the UDP port `port` of this host. Datagrams that other hosts' programs send
 * here with cm_send or cm_header come with a CM header to the daemon. The daemon removes the header and delivers them
 * to that port, from an address of this host. It does so only for ports that a program has declared, until that program
 * ends or calls cm_unlisten, or the daemon ends: then call this again. Connects to the daemon if there is no connection
 * yet. Nothing else changes: receive from your own socket. */
int cm_listen(int port);
int cm_unlisten(int port);

/* Asks for weights of flows from the host `peer`, for `count` flows, at most 180. Flows are named by their ports on
 * this host, which you must listen to; weights[i] is for the flows to ports[i]. The CM sends the weights to the
 * sender's CM; a flow without a hint usually has 1. The port of `peer` is ignored. The CM takes hints one after the
 * other: if it refuses one, the hints before it stay valid. */
int cm_hint(const struct sockaddr *peer, socklen_t length, const unsigned short *ports, const unsigned *weights, int count);

/* ---- the connection -------------------------------------------------------------------------------------------- */

/* Connects to the daemon at `path`. Null means the default: $RAMPMETER_CM_SOCKET, else
 * $XDG_RUNTIME_DIR/rampmeter/cm.sock, else (and for root) /run/rampmeter/cm.sock. Needed only for another path, and
 * after CM_EDISCONNECTED or a fork. It closes the flows of an earlier connection, as cm_disconnect does. */
int cm_connect(const char *path);

/* Closes all flows and the connection. After it no callback is called; a callback that ran in another thread has
 * returned, as after cm_close. A cm_dispatch that waits in another thread returns CM_EDISCONNECTED. A callback that calls
 * cm_open meanwhile connects again. */
int cm_disconnect(void);

/* Waits for events for up to `milliseconds` (-1: without limit; 0: not at all), then calls the callbacks of all
 * pending events. A signal ends the wait. Returns the number of callbacks called, or a negative error. One thread
 * dispatches at a time; other threads wait for it, up to their own `milliseconds`. */
int cm_dispatch(int milliseconds);

/* For your own poll loop: a file descriptor that is readable (POLLIN) when you should call cm_dispatch(0). Do not
 * read from it and do not close it. Negative is an error. */
int cm_fd(void);

#ifdef __cplusplus
}
#endif

#endif
