/* bulk - sends UDP packets as fast as the Congestion Manager allows.
 *
 *     bulk receive PORT [RATE]        acknowledges packets, until none has arrived for two seconds
 *     bulk send ADDRESS PORT PACKETS  sends; prints its counts and the rates that the CM reported
 *
 * With a RATE the receiver emulates the bottleneck of a long path, so that the sender has to adapt on a single machine:
 * RATE packets per second, a queue of 40 packets, and a delay of 20 ms for acknowledgements.
 *
 * The data has three encodings, and the sender uses the best one that fits the last reported rate. The receiver
 * acknowledges each packet with the packet's number and sending time. The sender keeps one request pending, sends a
 * packet per grant, and reports delivered packets to the CM (cm_update). A packet counts as lost after three later ones
 * arrived. Everything runs in one thread, in the program's own poll loop.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <cm.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_IN_FLIGHT = 65536 };

struct header {
    uint32_t number;
    double sent_at;
};

/* The rates of the encodings, in bits per second. */
static const double encodings[] = {0, 4e6, 10e6};

struct transfer {
    int socket;
    int encoding;              /* in use */
    uint32_t encoded[3];       /* packets sent in each */
    uint32_t packets;          /* to send */
    uint32_t next;             /* number of the next one */
    uint32_t lowest;           /* lowest number that is neither acknowledged nor lost */
    uint32_t acknowledged, lost, grants, updates;
    int size[MAX_IN_FLIGHT];            /* of packets in flight, by number modulo MAX_IN_FLIGHT; 0 if none */
    double first_grant, last_grant, slowest_rate, fastest_rate;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "bulk: %s: %s\n", what, cm_strerror(result));
        exit(1);
    }
}

/* The CM grants one packet. */
static void may_send(cm_id id, int bytes, void *user)
{
    struct transfer *t = user;
    char packet[65536] = {0};
    struct header header = {t->next, now()};

    t->grants++;
    t->last_grant = header.sent_at;
    if (t->first_grant == 0)
        t->first_grant = header.sent_at;
    if (t->next == t->packets || bytes < (int)sizeof header) {
        check(cm_notify(id, 0), "cm_notify"); /* nothing to send after all */
        return;
    }
    memcpy(packet, &header, sizeof header);
    ssize_t sent = send(t->socket, packet, (size_t)bytes, 0);
    check(cm_notify(id, sent > 0 ? (int)sent : 0), "cm_notify");
    if (sent > 0) {
        t->encoded[t->encoding]++;
        t->size[t->next++ % MAX_IN_FLIGHT] = (int)sent;
    }
    if (t->next < t->packets)
        check(cm_request(id), "cm_request");
}

/* The CM reports a changed share of the path. Chooses the encoding that fits. */
static void changed(cm_id id, double rate, double srtt, void *user)
{
    struct transfer *t = user;
    (void)id;
    (void)srtt;
    t->updates++;
    for (t->encoding = 2; rate < encodings[t->encoding]; t->encoding--)
        ;
    if (t->slowest_rate == 0 || rate < t->slowest_rate)
        t->slowest_rate = rate;
    if (rate > t->fastest_rate)
        t->fastest_rate = rate;
}

static void closed(cm_id id, int error, void *user)
{
    (void)id;
    (void)user;
    check(error, "the flow was closed");
}

/* Processes one acknowledgement. */
static void acknowledged(struct transfer *t, cm_id id, const struct header *header)
{
    uint32_t number = header->number;
    if (number < t->lowest || number >= t->next || t->size[number % MAX_IN_FLIGHT] == 0)
        return;
    int received = t->size[number % MAX_IN_FLIGHT], lost = 0;
    t->size[number % MAX_IN_FLIGHT] = 0;
    t->acknowledged++;
    while (t->lowest < t->next && (t->size[t->lowest % MAX_IN_FLIGHT] == 0 || t->lowest + 3 <= number)) {
        int size = t->size[t->lowest % MAX_IN_FLIGHT];
        if (size > 0) {
            lost += size;
            t->lost++;
            t->size[t->lowest % MAX_IN_FLIGHT] = 0;
        }
        t->lowest++;
    }
    check(cm_update(id, received, lost, lost ? CM_TRANSIENT : CM_NO_LOSS, now() - header->sent_at), "cm_update");
}

/* No acknowledgement for a second: all packets in flight count as lost. */
static void feedback_timeout(struct transfer *t, cm_id id)
{
    int lost = 0;
    for (; t->lowest < t->next; t->lowest++) {
        lost += t->size[t->lowest % MAX_IN_FLIGHT];
        t->lost += t->size[t->lowest % MAX_IN_FLIGHT] > 0;
        t->size[t->lowest % MAX_IN_FLIGHT] = 0;
    }
    check(cm_update(id, 0, lost, CM_PERSISTENT, 0), "cm_update");
}

static int send_all(struct sockaddr_in to, uint32_t packets)
{
    static struct transfer t; /* zero */
    struct cm_callbacks callbacks = {.send = may_send, .update = changed, .closed = closed};
    double rate, srtt, start = now(), last_feedback = start;

    t.packets = packets;
    t.socket = socket(AF_INET, SOCK_DGRAM, 0);
    if (t.socket < 0 || connect(t.socket, (struct sockaddr *)&to, sizeof to) < 0) {
        perror("bulk");
        return 1;
    }
    cm_id id = cm_open((struct sockaddr *)&to, sizeof to, &callbacks, &t);
    check(id, "cm_open");
    check(cm_query(id, &rate, &srtt), "cm_query");
    printf("mtu %d bytes, initial rate %.0f b/s, round trip %.3f ms\n", cm_mtu(id), rate, srtt * 1e3);
    check(cm_request(id), "cm_request");
    while (t.lowest < packets) {
        struct pollfd files[] = {{cm_fd(), POLLIN, 0}, {t.socket, POLLIN, 0}};
        struct header header;
        check(files[0].fd, "cm_fd");
        poll(files, 2, 100);
        while (recv(t.socket, &header, sizeof header, MSG_DONTWAIT) == (ssize_t)sizeof header) {
            last_feedback = now();
            acknowledged(&t, id, &header);
        }
        if (now() - last_feedback > 1 && t.lowest < t.next) {
            last_feedback = now();
            feedback_timeout(&t, id);
        }
        check(cm_dispatch(0), "cm_dispatch");
    }
    check(cm_query(id, &rate, &srtt), "cm_query");
    printf("sent %u packets on %u grants in %.3f s: %u arrived, %u lost\n", t.next, t.grants, now() - start,
           t.acknowledged, t.lost);
    printf("grants from %.3f s to %.3f s, %u updates from %.0f to %.0f b/s\n", t.first_grant - start,
           t.last_grant - start, t.updates, t.slowest_rate, t.fastest_rate);
    printf("encodings: %u packets low, %u medium, %u high\n", t.encoded[0], t.encoded[1], t.encoded[2]);
    printf("final rate %.0f b/s, round trip %.3f ms\n", rate, srtt * 1e3);
    check(cm_close(id), "cm_close");
    check(cm_disconnect(), "cm_disconnect");
    return 0;
}

/* A delayed acknowledgement. */
struct acknowledgement {
    double due;
    struct header header;
    struct sockaddr_in to;
};

enum { QUEUE = 40, MAX_PENDING = 4096 };
static const double REVERSE_DELAY = 0.02;

static int receive_all(struct sockaddr_in at, double rate)
{
    static struct acknowledgement pending[MAX_PENDING];
    unsigned long packets = 0, dropped = 0, first = 0, last = 0; /* number first .. last - 1 are pending */
    double free_at = 0, last_arrival = now();
    int file = socket(AF_INET, SOCK_DGRAM, 0);

    if (file < 0 || bind(file, (struct sockaddr *)&at, sizeof at) < 0) {
        perror("bulk");
        return 1;
    }
    while (now() - last_arrival < (packets > 0 ? 2 : 20)) {
        struct pollfd files[] = {{file, POLLIN, 0}};
        struct acknowledgement ack;
        static char packet[65536];
        socklen_t length = sizeof ack.to;

        for (; first < last && pending[first % MAX_PENDING].due <= now(); first++) {
            const struct acknowledgement *a = &pending[first % MAX_PENDING];
            sendto(file, &a->header, sizeof a->header, 0, (const struct sockaddr *)&a->to, sizeof a->to);
        }
        if (poll(files, 1, first < last ? 1 : 500) <= 0)
            continue;
        if (recvfrom(file, packet, sizeof packet, 0, (struct sockaddr *)&ack.to, &length) < (ssize_t)sizeof ack.header)
            continue;
        last_arrival = ack.due = now();
        if (rate > 0) {
            free_at = free_at > last_arrival ? free_at : last_arrival;
            if (free_at - last_arrival > QUEUE / rate || last - first == MAX_PENDING) {
                dropped++;
                continue;
            }
            free_at += 1 / rate;
            ack.due = free_at + REVERSE_DELAY;
        }
        memcpy(&ack.header, packet, sizeof ack.header);
        packets++;
        pending[last++ % MAX_PENDING] = ack;
    }
    printf("%lu packets arrived, %lu found the queue full\n", packets, dropped);
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "receive") == 0) {
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons((uint16_t)atoi(argv[2]));
        return receive_all(address, argc == 4 ? atof(argv[3]) : 0);
    }
    if (argc == 5 && strcmp(argv[1], "send") == 0 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1) {
        address.sin_port = htons((uint16_t)atoi(argv[3]));
        return send_all(address, (uint32_t)atoi(argv[4]));
    }
    fprintf(stderr, "usage: bulk receive PORT [RATE] | bulk send ADDRESS PORT PACKETS\n");
    return 2;
}
