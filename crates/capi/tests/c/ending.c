/* cm_disconnect and cm_connect end the calls of other threads. Needs a running daemon with an open window. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <cm.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
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

static int started, returned;

static void slow(cm_id id, int bytes, void *user)
{
    (void)bytes;
    (void)user;
    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    usleep(20000);
    cm_notify(id, 0);
    __atomic_add_fetch(&returned, 1, __ATOMIC_SEQ_CST);
}

static void *dispatch(void *result)
{
    int *last = result;
    while ((*last = cm_dispatch(-1)) >= 0)
        ;
    return NULL;
}

static cm_id open_flow(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct cm_callbacks callbacks = {.send = slow};
    cm_id id = cm_open((struct sockaddr *)&to, sizeof to, &callbacks, NULL);
    EXPECT(id > 0, 1);
    return id;
}

static int disconnect(void)
{
    return cm_disconnect();
}

static int reconnect(void)
{
    return cm_connect(NULL);
}

/* A thread dispatches the grants of `requests` requests; then the connection ends. */
static void test_end(int (*end)(void), int requests)
{
    int last = 0;
    cm_id id = open_flow();
    pthread_t thread;
    pthread_create(&thread, NULL, dispatch, &last);
    for (int n = 0; n < requests; n++)
        EXPECT(cm_request(id), CM_OK);
    usleep(50000);
    EXPECT(end(), CM_OK);
    int before = __atomic_load_n(&started, __ATOMIC_SEQ_CST);
    EXPECT(__atomic_load_n(&returned, __ATOMIC_SEQ_CST), before);
    usleep(100000);
    EXPECT(__atomic_load_n(&started, __ATOMIC_SEQ_CST), before);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    EXPECT(pthread_timedjoin_np(thread, NULL, &until), 0);
    EXPECT(last == CM_EDISCONNECTED || last == CM_EUNKNOWN, 1);
    int gone = cm_request(id);
    EXPECT(gone == CM_EUNKNOWN || gone == CM_ECLOSED, 1);
}

int main(void)
{
    for (int requests = 0; requests <= 20; requests += 20) {
        test_end(disconnect, requests);
        EXPECT(cm_connect(NULL), CM_OK);
        if (requests == 0)
            test_end(reconnect, 0);
    }
    EXPECT(started > 0, 1);
    EXPECT(cm_disconnect(), CM_OK);
    puts(failed ? "ending: failed" : "ending: no callback is called after the end");
    return failed;
}
