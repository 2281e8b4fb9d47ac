/* What the BPF program and the daemon share; src/shared.rs has the same layouts. All of it is 64-bit aligned. */

#define MAX_SOCKETS 4096

enum event_kind { EVENT_OPEN = 1, EVENT_ACK, EVENT_TIMEOUT, EVENT_BUSY, EVENT_CLOSE };

/* The sample is from a time when the application had nothing to send. */
#define FLAG_APP_LIMITED 1
/* The socket repairs losses. */
#define FLAG_RECOVERING 2

/* What a socket reports. Counters count from its beginning, in packets, so that lost events lose nothing. */
struct event {
	unsigned long long time_ns;     /* CLOCK_MONOTONIC */
	unsigned long long bytes_acked;
	unsigned int socket, generation;
	unsigned int number;            /* of this event, at this socket */
	unsigned char kind, flags, pad[2];
	unsigned int sent, delivered, marked, lost;
	unsigned int in_flight, unacked, mss;
	int rtt_us;                     /* of the last packet that was acknowledged; -1 for none */
	unsigned int smoothed_rtt_us, min_rtt_us;
};

/* A socket's place in an array that both sides map. */
struct socket {
	/* Written by the daemon. `decision`: generation, 16 bits; number of the event that it answers, 24; window in packets,
	 * 24. So one word is always whole, and one for an earlier socket of this place is none. */
	unsigned long long decision;
	unsigned long long rate;        /* bytes of payload in a second */
	/* Written by BPF. Addresses are in network order; an IPv4 address is the first word. */
	unsigned int generation, family;
	unsigned int remote[4], local[4];
	unsigned int remote_port, local_port;
};

struct control {
	/* Written by the daemon: when it was last alive (CLOCK_MONOTONIC), and whether it polls by itself. */
	unsigned long long alive_ns, polls;
	/* Written by BPF. */
	unsigned long long acks, fallback_acks, lost_events, without_place;
	/* Connections that exist go from one controller to the other; how many have. */
	char from[16], to[16];
	unsigned long long changed;
};
