/* The kernel's half of `rampmeter kernel`: a TCP congestion control that reports and obeys.
 *
 *   socket ── event ──> ring buffer ──> daemon, which runs a controller
 *   socket <── window, rate ── array of sockets <── decision
 *
 * An acknowledgement and each transmission apply the last decision. A socket to which the daemon has not answered for a
 * tenth of a second is Reno by itself, paced, from the packets in flight on. */

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "shared.h"

#define NAME "rampmeter"
/* Without an answer for so long, a socket decides by itself. */
#define TIMEOUT_NS 100000000
/* The first events are all reported, then at most so many in a round trip; losses and marks always are. */
#define FIRST_EVENTS 32
#define EVENTS_A_ROUND 32
/* Reno paces at twice its window a round trip in slow start, and at 1.2 windows later, as Linux does. */
#define SLOW_START_PACE 200
#define PACE 120

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, u32);
	__type(value, struct socket);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} control SEC(".maps");

/* Places in `sockets` that are free. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, MAX_SOCKETS);
	__type(value, u32);
} places SEC(".maps");

/* A socket's own state, in its `icsk_ca_priv`. */
struct state {
	u32 place;                      /* in `sockets`, plus one; zero for none */
	u32 generation, number;
	u32 answered;                   /* the event that the decision in force answers */
	u32 must_answer;                /* older decisions do not know of the last loss */
	u32 window;
	u64 rate, reported_ns;
	s32 rtt_us;                     /* of the acknowledgements since the last report */
	u32 marked;
	u32 threshold, acked;           /* Reno's */
	u8 is_fallback, is_repairing, app_limited;
};
_Static_assert(sizeof(struct state) <= 104, "icsk_ca_priv");

static __always_inline struct control *the_control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct state *state_of(const struct sock *sk)
{
	return (struct state *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline u8 ca_state(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
}

static __always_inline u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline struct socket *socket_of(const struct state *state)
{
	u32 key = state->place - 1;

	return state->place ? bpf_map_lookup_elem(&sockets, &key) : 0;
}

static __always_inline void report(struct sock *sk, u8 kind, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *state = state_of(sk);
	struct control *control = the_control();
	struct event *event;

	if (!state->place || !control)
		return;
	state->number++;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		control->lost_events++;
		return;
	}
	event->time_ns = now;
	event->bytes_acked = tp->bytes_acked;
	event->socket = state->place - 1;
	event->generation = state->generation;
	event->number = state->number;
	event->kind = kind;
	event->flags = (state->app_limited ? FLAG_APP_LIMITED : 0) |
		       (ca_state(tp) >= TCP_CA_Recovery ? FLAG_RECOVERING : 0);
	event->pad[0] = event->pad[1] = 0;
	event->sent = tp->data_segs_out;
	event->delivered = tp->delivered;
	event->marked = tp->delivered_ce;
	event->lost = tp->lost;
	event->in_flight = in_flight(tp);
	event->unacked = tp->packets_out;
	event->mss = tp->mss_cache;
	event->rtt_us = state->rtt_us;
	event->smoothed_rtt_us = tp->srtt_us >> 3;
	event->min_rtt_us = tp->rtt_min.s[0].v;
	bpf_ringbuf_submit(event, control->polls ? BPF_RB_NO_WAKEUP : 0);
	state->reported_ns = now;
	state->rtt_us = -1;
	state->app_limited = 0;
}

/* Takes the last decision. Returns whether there is one from a daemon that is alive. */
static __always_inline bool obey(struct state *state, u64 now)
{
	struct control *control = the_control();
	struct socket *socket = socket_of(state);
	u64 decision;

	if (!socket || !control || (s64)(now - control->alive_ns) > TIMEOUT_NS)
		return false;
	decision = *(volatile u64 *)&socket->decision;
	if (decision >> 48 != (state->generation & 0xffff) || !(decision & 0xffffff))
		return false;
	state->answered = decision >> 24 & 0xffffff;
	state->window = decision & 0xffffff;
	state->rate = *(volatile u64 *)&socket->rate;
	return true;
}

/* Whether the decision in force knows of the last loss. */
static __always_inline bool is_informed(const struct state *state)
{
	return (s32)((state->answered - state->must_answer) << 8) >= 0;
}

static __always_inline void set_window(struct tcp_sock *tp, u32 packets)
{
	if (packets > tp->snd_cwnd_clamp)
		packets = tp->snd_cwnd_clamp;
	tp->snd_cwnd = packets ? packets : 1;
}

/* Reno (RFC 5681), paced. A controller with a rate may have had any window, so it starts from the packets in flight. */
static __always_inline void fall_back(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *state = state_of(sk);
	u32 window = tp->snd_cwnd, flying = in_flight(tp), srtt_us = tp->srtt_us >> 3;
	u8 ca = ca_state(tp);

	if (!state->is_fallback) {
		state->is_fallback = 1;
		state->acked = 0;
		if (state->window) {
			window = flying + acked < state->window ? flying + acked : state->window;
			window = window < 4 ? 4 : window;
			state->threshold = window;
		}
	}
	if (ca < TCP_CA_Recovery) {
		state->is_repairing = 0;
	} else if (!state->is_repairing) {
		state->is_repairing = 1;
		state->threshold = window / 2 < 2 ? 2 : window / 2;
		window = ca == TCP_CA_Loss ? flying + 1 : state->threshold;
	}
	if (ca != TCP_CA_Recovery && BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited)) {
		if (window < state->threshold) {
			window += acked;
		} else {
			state->acked += acked;
			if (state->acked >= window) {
				state->acked -= window;
				window++;
			}
		}
	}
	set_window(tp, window);
	if (srtt_us)
		sk->sk_pacing_rate = (u64)window * tp->mss_cache * 10000 / srtt_us *
				     (window < state->threshold / 2 ? SLOW_START_PACE : PACE);
}

SEC("struct_ops/rampmeter_init")
void BPF_PROG(rampmeter_init, struct sock *sk)
{
	struct state *state = state_of(sk);
	struct control *control = the_control();
	struct sock_common *common = &sk->__sk_common;
	struct socket *socket;
	u32 place;

	__builtin_memset(state, 0, sizeof(*state));
	state->rtt_us = -1;
	state->threshold = 0x7fffffff;
	state->marked = tcp_sk(sk)->delivered_ce;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!control)
		return;
	if (bpf_map_pop_elem(&places, &place)) {
		control->without_place++;
		return;
	}
	state->place = place + 1;
	socket = socket_of(state);
	if (!socket)
		return;
	socket->generation++;
	state->generation = socket->generation;
	socket->family = common->skc_family;
	socket->remote_port = __builtin_bswap16(common->skc_dport);
	socket->local_port = common->skc_num;
	if (common->skc_family == AF_INET) {
		socket->remote[0] = common->skc_daddr;
		socket->local[0] = common->skc_rcv_saddr;
	} else {
		for (int i = 0; i < 4; i++) {
			socket->remote[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
			socket->local[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		}
	}
	report(sk, EVENT_OPEN, bpf_ktime_get_ns());
}

SEC("struct_ops/rampmeter_release")
void BPF_PROG(rampmeter_release, struct sock *sk)
{
	struct state *state = state_of(sk);
	u32 place = state->place - 1;

	if (!state->place)
		return;
	report(sk, EVENT_CLOSE, bpf_ktime_get_ns());
	state->place = 0;
	bpf_map_push_elem(&places, &place, 0);
}

SEC("struct_ops/rampmeter_control")
void BPF_PROG(rampmeter_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *state = state_of(sk);
	struct control *control = the_control();
	u64 now = bpf_ktime_get_ns(), gap_ns = (u64)(tp->srtt_us >> 3) * 1000 / EVENTS_A_ROUND;
	u32 window;
	bool is_urgent;

	if (!control)
		return;
	control->acks++;
	if (sample->rtt_us > 0)
		state->rtt_us = sample->rtt_us;
	state->app_limited |= sample->is_app_limited;
	is_urgent = sample->losses > 0 || tp->delivered_ce != state->marked || !tp->packets_out;
	state->marked = tp->delivered_ce;
	if (sample->losses > 0)
		state->must_answer = (state->number + 1) & 0xffffff;
	if (is_urgent || state->number < FIRST_EVENTS || now - state->reported_ns >= gap_ns)
		report(sk, EVENT_ACK, now);
	if (!obey(state, now)) {
		control->fallback_acks++;
		fall_back(sk, sample->acked_sacked);
		return;
	}
	state->is_fallback = state->is_repairing = 0;
	window = state->window;
	if (!is_informed(state) && window > in_flight(tp) + sample->acked_sacked)
		window = in_flight(tp) + sample->acked_sacked;
	set_window(tp, window);
	sk->sk_pacing_rate = state->rate;
}

/* The kernel asks before each transmission, of its pacing timer's, too: a decision need not wait for an acknowledgement. */
SEC("struct_ops/rampmeter_min_tso_segs")
u32 BPF_PROG(rampmeter_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *state = state_of(sk);

	if (state->is_fallback || !obey(state, bpf_ktime_get_ns()))
		return 2;
	sk->sk_pacing_rate = state->rate;
	if (ca_state(tp) < TCP_CA_Recovery && is_informed(state))
		set_window(tp, state->window);
	return 1;
}

SEC("struct_ops/rampmeter_set_state")
void BPF_PROG(rampmeter_set_state, struct sock *sk, u8 new_state)
{
	struct state *state = state_of(sk);

	if (new_state != TCP_CA_Loss)
		return;
	state->must_answer = (state->number + 1) & 0xffffff;
	report(sk, EVENT_TIMEOUT, bpf_ktime_get_ns());
}

SEC("struct_ops/rampmeter_cwnd_event")
void BPF_PROG(rampmeter_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		report(sk, EVENT_BUSY, bpf_ktime_get_ns());
}

SEC("struct_ops/rampmeter_ssthresh")
u32 BPF_PROG(rampmeter_ssthresh, struct sock *sk)
{
	u32 half = tcp_sk(sk)->snd_cwnd / 2;

	return half < 2 ? 2 : half;
}

SEC("struct_ops/rampmeter_undo_cwnd")
u32 BPF_PROG(rampmeter_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return state_of(sk)->is_fallback && tp->prior_cwnd > tp->snd_cwnd ? tp->prior_cwnd : tp->snd_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops rampmeter = {
	.init = (void *)rampmeter_init,
	.release = (void *)rampmeter_release,
	.cong_control = (void *)rampmeter_control,
	.min_tso_segs = (void *)rampmeter_min_tso_segs,
	.set_state = (void *)rampmeter_set_state,
	.cwnd_event = (void *)rampmeter_cwnd_event,
	.ssthresh = (void *)rampmeter_ssthresh,
	.undo_cwnd = (void *)rampmeter_undo_cwnd,
	.name = NAME,
};

/* New connections of a cgroup. */
SEC("sockops")
int new_connections(struct bpf_sock_ops *context)
{
	char name[16] = NAME;

	if (context->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || context->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	return 1;
}

/* Connections of this network namespace that exist. */
SEC("iter/tcp")
int existing_connections(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common;
	struct control *control = the_control();
	struct tcp_sock *tp;
	char now[16] = {}, then[16];

	if (!control || !common || common->skc_state != TCP_ESTABLISHED)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, now, sizeof(now)))
		return 0;
	for (int i = 0; i < sizeof(now) && (now[i] || control->from[i]); i++)
		if (now[i] != control->from[i])
			return 0;
	__builtin_memcpy(then, control->to, sizeof(then));
	if (!bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, then, sizeof(then)))
		control->changed++;
	return 0;
}
