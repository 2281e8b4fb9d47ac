/* The parts of the kernel's types that the program reads. The loader looks up where they are in the kernel that runs. */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
enum { false, true };
/* Of bpf/bpf_helper_defs.h. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

enum bpf_map_type { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_QUEUE = 22, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_MMAPABLE = 1 << 10, BPF_RB_NO_WAKEUP = 1 };

enum { AF_INET = 2, AF_INET6 = 10 };
enum { SOL_TCP = 6, TCP_CONGESTION = 13 };
enum { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1 };
enum { TCP_ESTABLISHED = 1 };
enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum tcp_ca_event { CA_EVENT_TX_START };
enum { BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr { union { u32 u6_addr32[4]; } in6_u; };

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num, skc_family;
	volatile u8 skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	u32 sk_pacing_status;
};

struct inet_sock { struct sock sk; };

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[13];
};

struct minmax_sample { u32 t, v; };
struct minmax { struct minmax_sample s[3]; };

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 bytes_acked;
	u32 packets_out, sacked_out, lost_out, retrans_out;
	u32 snd_cwnd, snd_cwnd_clamp, snd_ssthresh, prior_cwnd;
	u32 srtt_us, mss_cache;
	u32 delivered, delivered_ce, lost, data_segs_out;
	struct minmax rtt_min;
	u8 is_cwnd_limited : 1;
};

struct rate_sample {
	s32 losses;
	u32 acked_sacked;
	long rtt_us;
	bool is_app_limited;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
};

struct bpf_sock_ops { u32 op; };
struct bpf_iter__tcp { struct sock_common *sk_common; };

#pragma clang attribute pop
