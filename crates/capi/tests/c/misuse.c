/* Every misuse has its own error, and callbacks may call the API. Needs a running daemon with an open window. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <cm.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;

static void expect(int line, const char *what, int got, int wanted)
{
    if (got != wanted) {
        printf("line %d: %s is %d (%s), not %d\n", line, what, got, cm_strerror(got), wanted);
        failed = 1;
    }
}

#define EXPECT(call, wanted) expect(__LINE__, #call, call, wanted)

static struct sockaddr_in address(const char *ip, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    inet_pton(AF_INET, ip, &to.sin_addr);
    return to;
}

static int calls, closes_itself;

static void callback(cm_id id, int bytes, void *user)
{
    double rate, srtt;
    calls++;
    EXPECT(bytes > 0 && user == &calls, 1);
    EXPECT(cm_dispatch(0), CM_EREENTRY);
    EXPECT(cm_disconnect(), CM_EREENTRY);
    EXPECT(cm_query(id, &rate, &srtt), CM_OK);
    EXPECT(rate > 0 && srtt > 0, 1);
    EXPECT(cm_notify(id, 0), CM_OK);
    if (calls < 100)
        EXPECT(cm_request(id), CM_OK);
    if (closes_itself)
        EXPECT(cm_close(id), CM_OK);
}

enum { THREADS = 4, EACH = 200 };
static int granted[THREADS];

static void count(cm_id id, int bytes, void *user)
{
    (void)bytes;
    __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
    EXPECT(cm_notify(id, 0), CM_OK);
}

static void *work(void *number)
{
    int *mine = number;
    char ip[] = "127.0.0.2";
    struct sockaddr_in to = address(ip, 9);
    struct cm_callbacks callbacks = {.send = count};
    cm_id id = cm_open((struct sockaddr *)&to, sizeof to, &callbacks, mine);
    EXPECT(id > 0, 1);
    for (int n = 0; n < EACH; n++) {
        int result;
        while ((result = cm_request(id)) == CM_EFULL)
            cm_dispatch(10);
        EXPECT(result, CM_OK);
        cm_dispatch(0);
    }
    while (__atomic_load_n(mine, __ATOMIC_SEQ_CST) < EACH)
        cm_dispatch(10);
    EXPECT(cm_close(id), CM_OK);
    return NULL;
}

int main(void)
{
    struct sockaddr_in to = address("127.0.0.1", 9), nowhere = address("0.0.0.0", 9), many = address("224.0.0.1", 9);
    struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
    struct cm_callbacks callbacks = {.send = callback};
    char large[70000] = {0};

    EXPECT(cm_request(1), CM_EUNKNOWN);
    EXPECT(cm_dispatch(0), CM_EDISCONNECTED);
    EXPECT(cm_disconnect(), CM_EDISCONNECTED);
    EXPECT(cm_connect("/nowhere/cm.sock"), CM_ENODAEMON);
    EXPECT(cm_open(NULL, sizeof to, &callbacks, NULL), CM_EINVAL);
    EXPECT(cm_open((struct sockaddr *)&to, 3, &callbacks, NULL), CM_EINVAL);
    EXPECT(cm_open((struct sockaddr *)&nowhere, sizeof nowhere, &callbacks, NULL), CM_EDEST);
    EXPECT(cm_open((struct sockaddr *)&many, sizeof many, &callbacks, NULL), CM_EDEST);
    EXPECT(cm_open((struct sockaddr *)&unix_address, sizeof unix_address, &callbacks, NULL), CM_EDEST);

    cm_id id = cm_open((struct sockaddr *)&to, sizeof to, &callbacks, &calls);
    EXPECT(id > 0, 1);
    EXPECT(cm_mtu(id) == 1452 || cm_mtu(id) == 1472, 1); /* less the CM header, if the daemon communicates with others */
    EXPECT(cm_request(0), CM_EUNKNOWN);
    EXPECT(cm_request(-5), CM_EUNKNOWN);
    EXPECT(cm_request(id + 1), CM_EUNKNOWN);
    EXPECT(cm_notify(id, -1), CM_EINVAL);
    EXPECT(cm_notify(id, 65508), CM_ETOOLARGE);
    EXPECT(cm_update(id, -1, 0, CM_NO_LOSS, 0), CM_EINVAL);
    EXPECT(cm_update(id, 0, 0, (enum cm_loss)7, 0), CM_EINVAL);
    EXPECT(cm_update(id, 0, 0, CM_NO_LOSS, -1), CM_EINVAL);
    EXPECT(cm_update(id, 0, 0, CM_NO_LOSS, NAN), CM_EINVAL);
    EXPECT(cm_send(id, NULL, 1), CM_EINVAL);
    EXPECT(cm_send(id, large, -1), CM_EINVAL);
    EXPECT(cm_send(id, large, sizeof large), CM_ETOOLARGE);
    struct sockaddr_in peer = address("127.0.0.9", 0);
    const unsigned short ports[] = {5000, 5001};
    const unsigned weights[] = {1, 4};
    EXPECT(cm_listen(0), CM_EINVAL);
    EXPECT(cm_listen(65536), CM_EINVAL);
    EXPECT(cm_listen(5000), CM_OK);
    EXPECT(cm_hint((struct sockaddr *)&peer, sizeof peer, ports, weights, 1), CM_OK);
    EXPECT(cm_hint((struct sockaddr *)&peer, sizeof peer, ports, weights, 2), CM_EINVAL);
    EXPECT(cm_hint((struct sockaddr *)&peer, sizeof peer, ports, NULL, 1), CM_EINVAL);
    EXPECT(cm_hint((struct sockaddr *)&peer, sizeof peer, ports, weights, -1), CM_EINVAL);
    EXPECT(cm_hint(NULL, 0, ports, weights, 1), CM_EINVAL);
    EXPECT(cm_unlisten(5000), CM_OK);
    EXPECT(cm_unlisten(5000), CM_EINVAL);
    EXPECT(cm_thresh(id, 2, 1), CM_EINVAL);
    EXPECT(cm_weight(id, 0), CM_EINVAL);
    EXPECT(cm_weight(id, NAN), CM_EINVAL);
    EXPECT(cm_weight(id, 1e308), CM_EINVAL);
    EXPECT(cm_guarantee(id, -1, 0), CM_EINVAL);
    EXPECT(cm_guarantee(id, 320e3, 0.005), CM_OK);
    EXPECT(cm_weight(id, 2), CM_OK);
    cm_id other = cm_open((struct sockaddr *)&to, sizeof to, NULL, NULL);
    cm_id far = cm_open((struct sockaddr *)&peer, sizeof peer, NULL, NULL);
    EXPECT(cm_set_macroflow(id, CM_NEW_MACROFLOW), CM_OK);
    EXPECT(cm_set_macroflow(other, id), CM_OK);
    EXPECT(cm_set_macroflow(other, other), CM_OK);
    EXPECT(cm_set_macroflow(other, CM_DEFAULT_MACROFLOW), CM_OK);
    EXPECT(cm_set_macroflow(id, far), CM_EOTHERDEST);
    EXPECT(cm_set_macroflow(id, 0), CM_EUNKNOWN);
    EXPECT(cm_set_macroflow(id, CM_ENODAEMON), CM_EUNKNOWN); /* cm_open's error instead of an id */
    EXPECT(cm_set_macroflow(0, CM_NEW_MACROFLOW), CM_EUNKNOWN);
    unsigned char header[CM_HEADER_SIZE];
    struct sockaddr_storage peer_cm;
    socklen_t peer_length = 0;
    EXPECT(cm_header(id, 100, NULL, &peer_cm, &peer_length), CM_EINVAL);
    EXPECT(cm_header(id, 100, header, NULL, &peer_length), CM_EINVAL);
    EXPECT(cm_header(id, 100, header, &peer_cm, NULL), CM_EINVAL);
    EXPECT(cm_header(0, 100, header, &peer_cm, &peer_length), CM_EUNKNOWN);
    EXPECT(cm_header(far, 100, header, &peer_cm, &peer_length), CM_EDEST); /* it has no port */
    struct sockaddr_in program = peer;
    program.sin_port = htons(5000);
    cm_id own = cm_open((struct sockaddr *)&program, sizeof program, NULL, NULL);
    EXPECT(cm_header(own, -1, header, &peer_cm, &peer_length), CM_EINVAL);
    EXPECT(cm_header(own, 0, header, &peer_cm, &peer_length), CM_EINVAL);
    EXPECT(cm_header(own, 70000, header, &peer_cm, &peer_length), CM_ETOOLARGE);
    EXPECT(cm_header(own, 100, header, &peer_cm, &peer_length), 0); /* no daemon is known there */
    EXPECT((int)peer_length, (int)sizeof program);
    EXPECT(memcmp(&peer_cm, &program, sizeof program), 0);
    EXPECT(cm_close(own), CM_OK);
    EXPECT(cm_header(own, 100, header, &peer_cm, &peer_length), CM_ECLOSED);
    EXPECT(cm_notify(other, 100), CM_OK);
    EXPECT(cm_set_macroflow(other, id), CM_OK);
    EXPECT(cm_notify(other, 100), CM_OK);
    EXPECT(cm_set_macroflow(other, CM_NEW_MACROFLOW), CM_EINFLIGHT);
    EXPECT(cm_close(other), CM_OK);
    EXPECT(cm_set_macroflow(id, other), CM_ECLOSED);
    EXPECT(cm_set_macroflow(id, CM_DEFAULT_MACROFLOW), CM_OK);
    EXPECT(cm_close(far), CM_OK);
    EXPECT(cm_query(id, NULL, NULL), CM_OK);
    EXPECT(cm_dispatch(0), 0);

    /* Callbacks that send the next request, a hundred times. */
    EXPECT(cm_request(id), CM_OK);
    while (calls < 100)
        EXPECT(cm_dispatch(10000) > 0, 1);
    closes_itself = 1;
    EXPECT(cm_request(id), CM_OK);
    EXPECT(cm_dispatch(10000), 1);
    EXPECT(calls, 101);
    EXPECT(cm_request(id), CM_ECLOSED);
    EXPECT(cm_close(id), CM_ECLOSED);

    /* A child process gets errors. */
    cm_id again = cm_open((struct sockaddr *)&to, sizeof to, NULL, NULL);
    pid_t child = fork();
    if (child == 0) {
        EXPECT(cm_request(again), CM_EFORK);
        EXPECT(cm_dispatch(0), CM_EFORK);
        EXPECT(cm_open((struct sockaddr *)&to, sizeof to, NULL, NULL), CM_EFORK);
        EXPECT(cm_connect(NULL), CM_OK);
        EXPECT(cm_open((struct sockaddr *)&to, sizeof to, NULL, NULL) > 0, 1);
        _exit(failed);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(status, 0);
    EXPECT(cm_request(again), CM_OK); /* no callback: the library returns the grant */
    EXPECT(cm_dispatch(50), 0);

    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, work, &granted[n]);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    for (int n = 0; n < THREADS; n++)
        EXPECT(granted[n], EACH);

    EXPECT(cm_disconnect(), CM_OK);
    EXPECT(cm_request(again), CM_EUNKNOWN);
    EXPECT(cm_connect(NULL), CM_OK);
    EXPECT(cm_request(again) == CM_EUNKNOWN || cm_request(again) == CM_ECLOSED, 1);
    EXPECT(cm_strerror(CM_OK) != NULL && cm_strerror(-12345) != NULL, 1);
    puts(failed ? "misuse: failed" : "misuse: every call returned what cm.h says");
    return failed;
}
