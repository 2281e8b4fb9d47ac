/* A program that sends on a socket of its own and gets no feedback from its receiver: the receiver's daemon counts what
 * arrives, and the daemon here asks it.
 *
 *     own receive PORT                    receives packets until none has come for two seconds
 *     own send ADDRESS PORT PACKETS       sends PACKETS packets of 1000 bytes to a receiver
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <cm.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SIZE = 1000 };

struct transfer {
    int socket;
    unsigned packets, sent, with_header;
};

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "own: %s: %s\n", what, cm_strerror(result));
        exit(1);
    }
}

static void fail(const char *what)
{
    fprintf(stderr, "own: ");
    perror(what);
    exit(1);
}

/* The CM grants one packet. */
static void may_send(cm_id id, int bytes, void *user)
{
    struct transfer *t = user;
    static char data[SIZE];
    char header[CM_HEADER_SIZE];
    struct sockaddr_storage to;
    socklen_t to_length;

    if (bytes < SIZE) {
        fprintf(stderr, "own: the path carries packets of %d bytes only\n", bytes);
        exit(1);
    }
    if (t->sent == t->packets) {
        check(cm_notify(id, 0), "cm_notify"); /* an unused grant is no loss */
        return;
    }
    int header_length = cm_header(id, SIZE, header, &to, &to_length);
    check(header_length, "cm_header");
    struct iovec parts[] = {{header, (size_t)header_length}, {data, SIZE}};
    struct msghdr message = {.msg_name = &to, .msg_namelen = to_length, .msg_iov = parts, .msg_iovlen = 2};
    if (sendmsg(t->socket, &message, 0) < 0)
        fail("sendmsg");
    check(cm_notify(id, SIZE), "cm_notify");
    t->sent++;
    t->with_header += header_length > 0;
    if (t->sent < t->packets)
        check(cm_request(id), "cm_request");
}

static void closed(cm_id id, int error, void *user)
{
    (void)id;
    (void)user;
    check(error, "the flow was closed");
}

static int send_all(struct sockaddr_in to, unsigned packets)
{
    struct transfer t = {.socket = socket(AF_INET, SOCK_DGRAM, 0), .packets = packets};
    struct cm_callbacks callbacks = {.send = may_send, .closed = closed};
    if (t.socket < 0)
        fail("socket");
    cm_id id = cm_open((struct sockaddr *)&to, sizeof to, &callbacks, &t);
    check(id, "cm_open");
    check(cm_request(id), "cm_request");
    while (t.sent < t.packets)
        check(cm_dispatch(1000), "cm_dispatch");
    sleep(1); /* the last answers */
    double rate;
    check(cm_query(id, &rate, NULL), "cm_query");
    printf("sent %u packets, %u with a header; the rate is %.0f b/s\n", t.sent, t.with_header, rate);
    check(cm_close(id), "cm_close");
    return 0;
}

static int receive_all(struct sockaddr_in at, int port)
{
    int file = socket(AF_INET, SOCK_DGRAM, 0), buffer = 1 << 20;
    unsigned packets = 0, idle = 0;

    if (file < 0 || bind(file, (struct sockaddr *)&at, sizeof at) < 0)
        fail("bind");
    /* Packets that find this buffer full are lost, and no daemon notices. */
    if (setsockopt(file, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) < 0)
        fail("setsockopt");
    check(cm_listen(port), "cm_listen");
    while (idle < (packets > 0 ? 2 : 20)) {
        static char packet[65536];
        struct pollfd files[] = {{file, POLLIN, 0}};
        int ready = poll(files, 1, 1000);
        if (cm_dispatch(0) < 0) /* the daemon has ended, and the next one does not know the port */
            cm_listen(port);
        idle = ready == 0 ? idle + 1 : 0;
        if (ready == 0)
            continue;
        ssize_t length = ready < 0 ? -1 : recv(file, packet, sizeof packet, 0);
        if (length < 0)
            fail("recv");
        packets += length == SIZE;
    }
    printf("%u packets arrived\n", packets);
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (argc == 3 && strcmp(argv[1], "receive") == 0) {
        address.sin_addr.s_addr = htonl(INADDR_ANY);
        address.sin_port = htons((uint16_t)atoi(argv[2]));
        return receive_all(address, atoi(argv[2]));
    }
    if (argc == 5 && strcmp(argv[1], "send") == 0 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1) {
        address.sin_port = htons((uint16_t)atoi(argv[3]));
        return send_all(address, (unsigned)atoi(argv[4]));
    }
    fprintf(stderr, "usage: own receive PORT | own send ADDRESS PORT PACKETS\n");
    return 2;
}
