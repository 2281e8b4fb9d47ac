/* cm.h - the Congestion Manager's API, for programs that send over a network.
 *
 * A Congestion Manager (CM) decides *when* you may send; you decide *what*. All programs of this host that send to the
 * same destination share one estimate of its path, so they don't fight each other, and the second one starts at the
 * speed that the first one found. The daemon that does this is `rampmeter cm daemon`; this library talks to it.
 *
 * From "An Integrated Congestion Management Architecture for Internet Hosts" (SIGCOMM 1999), Figure 4, and RFC 3124.
 *
 * The least a program does:
 *
 *     static void may_send(cm_id id, int bytes, void *user)      // one packet, of up to `bytes` bytes
 *     {
 *         ssize_t sent = send(my_udp_socket, data, bytes, 0);
 *         cm_notify(id, sent > 0 ? (int)sent : 0);               // always: 0 says that nothing was sent
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
 * and whenever its receiver says what arrived:
 *
 *     cm_update(id, bytes_received, bytes_lost, bytes_lost ? CM_TRANSIENT : CM_NO_LOSS, rtt_in_seconds);
 *
 * Without cm_update nothing opens the window: what you have sent counts as under way until you say that it arrived or
 * was lost.
 *
 * Every function may be called from any thread, also from within callbacks (cm_dispatch and cm_disconnect excepted).
 * Functions that return int return CM_OK or a negative error; cm_open returns an id, which is positive, or a negative
 * error; errno says nothing after them. Bytes are your own, without headers of UDP and IP. Link with -lrampmeter_cm, or ask
 * pkg-config for rampmeter-cm.
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
    CM_EINVAL = -1,        /* an argument makes no sense: null, negative, not a number */
    CM_EUNKNOWN = -2,      /* no flow of this connection has or had this id */
    CM_ECLOSED = -3,       /* you have closed this flow */
    CM_EGONE = -4,         /* the daemon has gone and all flows with it, or does not answer, or there is no connection;
                              cm_connect and open them anew */
    CM_ENODAEMON = -5,     /* no daemon listens; start `rampmeter cm daemon` */
    CM_EREENTRY = -6,      /* cm_dispatch or cm_disconnect was called from within a callback */
    CM_EFORK = -7,         /* this is a child of the process that connected; cm_connect anew */
    CM_EFULL = -8,         /* as much is waiting as may wait, or the daemon has taken nothing for a second: the call has
                              changed nothing; after cm_send, `room` says when to try again */
    CM_ETOOMANY = -9,      /* too many flows are open */
    CM_ETOOLARGE = -10,    /* a datagram is larger than cm_mtu, or than any can be (cm_notify) */
    CM_EUNANSWERED = -11,  /* the daemon closed the flow: it answered none of many grants with cm_notify */
    CM_ESILENT = -12,      /* the daemon closed the flow: nothing was heard of it for long */
    CM_EDENIED = -13,      /* the daemon belongs to another user */
    CM_EVERSION = -14,     /* the daemon is of another version */
    CM_EDEST = -15,        /* nothing can be sent to this address: not one host, no port for cm_send, no IP at all */
    CM_ESYSTEM = -16       /* the system refused memory, a file or a socket */
};

/* What an error means and what to do about it: one line, never null, never freed. */
const char *cm_strerror(int error);

/* ---- flows ----------------------------------------------------------------------------------------------------- */

/* A flow's id. Positive. An id is not used again for long after its flow is closed. */
typedef int cm_id;

/* What the CM calls, from within cm_dispatch. Any of them may be null. `user` is what cm_open was given. */
struct cm_callbacks {
    /* The paper's cmapp_send: you may send one packet of up to `bytes` bytes, now. Answer with cm_notify, soon: a grant
     * that has no answer after two round trips (at least 100 ms) goes to others, and a flow that leaves many in a row
     * unanswered is closed. */
    void (*send)(cm_id id, int bytes, void *user);

    /* The paper's cmapp_update: your share of the path is now `rate` bits per second, its smoothed round-trip time
     * `srtt` seconds. Choose an encoding, a frame rate, a picture of that size. cm_thresh says how large a change must
     * be. */
    void (*update)(cm_id id, double rate, double srtt, void *user);

    /* There is room again for cm_send, which had returned CM_EFULL. */
    void (*room)(cm_id id, void *user);

    /* The daemon closed the flow, for the reason `error`. The id is good for cm_close only. */
    void (*closed)(cm_id id, int error, void *user);
};

/* Opens a flow to `to`, an IPv4 or IPv6 address; the port matters to cm_send only. Connects to the daemon if that has
 * not been done. `callbacks` is copied. It takes some microseconds; a daemon that does not answer is given up after ten
 * seconds (CM_EGONE). */
cm_id cm_open(const struct sockaddr *to, socklen_t length, const struct cm_callbacks *callbacks, void *user);

/* How many bytes of yours a packet of the flow may carry; negative is an error. */
int cm_mtu(cm_id id);

/* "I have a packet to send." `send` is called once for each request, when it is the flow's turn. Up to 256 requests of
 * a flow may wait. */
int cm_request(cm_id id);

/* "I have sent a packet of so many bytes", or with 0 "nothing after all". Call it for every packet. With a grant under
 * way it answers the oldest one; without it says what a program sends by its own clock (an audio source, say), and the
 * CM shapes everybody else's packets around it. More than one packet can carry (65507 bytes) is refused (CM_ETOOLARGE). */
int cm_notify(cm_id id, int sent);

/* How packets were lost. */
enum cm_loss {
    CM_NO_LOSS = 0,
    CM_PERSISTENT = 1,  /* nothing comes back: a retransmission timer ran out */
    CM_TRANSIENT = 2,   /* some packets were lost, later ones arrived */
    CM_ECN = 3          /* a router marked packets instead of dropping them */
};

/* "So many bytes have arrived, so many are lost, since my last call." `rtt` is a measured round-trip time in seconds, or
 * 0 if none was measured; less than 10 microseconds is taken for that much. */
int cm_update(cm_id id, int received, int lost, enum cm_loss loss, double rtt);

/* The flow's share of its path in bits per second, and the smoothed round-trip time in seconds. Either may be null. */
int cm_query(cm_id id, double *rate, double *srtt);

/* Call `update` when the rate falls to `down` times what was told last, or below, or rises to `up` times of it. Down is
 * above 0 and at most 1, up is 1 or more; 0.875 and 1.125 unless told otherwise. (RFC 3124, cm_thresh.) */
int cm_thresh(cm_id id, double down, double up);

/* The flow's share relative to others on its path, from 1e-6 to 1e6; 1 unless told otherwise. */
int cm_weight(cm_id id, double weight);

/* The flow is guaranteed `rate` bits per second before anything is shared, and that a packet that it asks for waits no
 * longer than `delay` seconds (0: no longer than the rate says), as far as the path allows. A rate of 0 ends it. Kept by
 * daemons that were started with --scheduler service-curves; others only weigh. */
int cm_guarantee(cm_id id, double rate, double delay);

/* Buffered transmission: the CM keeps a copy of these bytes and sends them as one UDP datagram when it is the flow's
 * turn, from a socket of the daemon's. Neither cm_request nor cm_notify is called for them. Where the receiver's host has
 * a CM, it says what arrived, and you need not; a flow for which you call cm_update is left to you from then on. */
int cm_send(cm_id id, const void *data, int length);

/* The flow ends. None of its callbacks is called any more; one that runs in another thread has returned. So whatever
 * `user` points to can be freed, whatever this returns, but don't hold a lock here that a callback wants. After CM_EFULL
 * the flow is open. Ids of a connection that another thread ends meanwhile (cm_connect, cm_disconnect) are that thread's. */
int cm_close(cm_id id);

/* ---- receivers --------------------------------------------------------------------------------------------------- */

/* "I take what comes to the UDP port `port` of this host." Datagrams that other hosts' programs cm_send here come with a
 * header of the CM's, through the daemon, which takes it off and hands them on to that port, from an address of this
 * host. It does so for ports that a program has asked for, until that program ends or says cm_unlisten, and for no
 * others. Connects to the daemon if that has not been done. Nothing else changes: receive from your own socket. */
int cm_listen(int port);
int cm_unlisten(int port);

/* "I would like flows from the host `peer` to have shares in proportion to these." `count` flows, at most 180, are named
 * by the ports here that they come to, which you listen to; weights[i] is for those that come to ports[i]. The sender's
 * CM hears of it; a flow without a hint has 1 as a rule. The port of `peer` does not matter. They are taken one after the
 * other: if one is refused, those before it stand. */
int cm_hint(const struct sockaddr *peer, socklen_t length, const unsigned short *ports, const unsigned *weights, int count);

/* ---- the connection -------------------------------------------------------------------------------------------- */

/* Connects to the daemon at `path`; null is the usual place: $RAMPMETER_CM_SOCKET, else
 * $XDG_RUNTIME_DIR/rampmeter/cm.sock, else (and for root) /run/rampmeter/cm.sock. Needed only for another place, and
 * after CM_EGONE or a fork; the flows of an earlier connection are over then, as after cm_disconnect. */
int cm_connect(const char *path);

/* Closes all flows and the connection. No callback is called any more; one that runs in another thread has returned, as
 * after cm_close. A cm_dispatch that waits in one returns CM_EGONE. A callback that calls cm_open meanwhile connects anew. */
int cm_disconnect(void);

/* Waits for events for up to `milliseconds` (-1: as long as it takes; 0: not at all), then calls callbacks for all that
 * there are. A signal ends the wait. Returns how many were called, or a negative error. One thread dispatches at a time,
 * others wait for it, no longer than they said. */
int cm_dispatch(int milliseconds);

/* For a poll loop of your own: a file descriptor that is readable (POLLIN) when cm_dispatch(0) should be called. Don't
 * read from it and don't close it. Negative is an error. */
int cm_fd(void);

#ifdef __cplusplus
}
#endif

#endif
