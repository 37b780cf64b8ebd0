/* How much a load program can send at all: a server that does nothing of a broker's work.
 *
 *   ceiling_server PORT                answer what was read: a send with SEND_OK, any other request with code 0
 *   ceiling_server PORT --sync FILE    append what was read to FILE, and answer when it is on disk
 *
 * It listens on 127.0.0.1 and prints "ready". One thread reads, cuts frames and writes all answers of one read at once.
 * With --sync one other thread flushes: while a flush runs the answers for the next one gather (group commit), and the
 * file is kept filled with zeros ahead of its end, as the gateway's commit log is. Headers are JSON, of which nothing
 * is looked at but code, flag and opaque. It runs until it is killed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    MAX_CLIENTS = 1024, /* descriptors, rather */
    MAX_EVENTS = 64,
    MAX_FRAME = 16 << 20,
    READ_BYTES = 256 << 10,
    PREPARED_BYTES = 256 << 10,
    PREPARED_LEAST_BYTES = 64 << 10,
};
static const off_t FILE_BYTES = (off_t)16 << 30; /* sparse; when it is full the measurement is over */

typedef struct {
    char *bytes;
    size_t count, room;
} Buffer;

typedef struct {
    bool connected, blocked; /* blocked: nothing is read until the answers went out */
    Buffer in, gathering, syncing, out;
} Client;

static Client clients[MAX_CLIENTS]; /* by descriptor */
static int highest, epoll_fd;
static int file_fd = -1, sync_wanted, sync_done; /* file_fd: -1 without --sync */
static off_t file_end, prepared_to;
static bool sync_runs;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void reserve(Buffer *buffer, size_t more)
{
    if (buffer->count + more <= buffer->room)
        return;
    buffer->room = 2 * (buffer->count + more);
    buffer->bytes = realloc(buffer->bytes, buffer->room);
    if (buffer->bytes == NULL)
        fail("realloc");
}

static void append(Buffer *buffer, const char *bytes, size_t count)
{
    reserve(buffer, count);
    memcpy(buffer->bytes + buffer->count, bytes, count);
    buffer->count += count;
}

static void drop_first(Buffer *buffer, size_t count)
{
    buffer->count -= count;
    memmove(buffer->bytes, buffer->bytes + count, buffer->count);
}

static uint32_t big_endian(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return ntohl(value);
}

/* -- answers -- */

static const char SEND_OK[] =
    "{\"code\":0,\"extFields\":{\"msgId\":\"7F00000100002A9F0000000000000000\",\"queueId\":\"0\",\"queueOffset\":\"0\"},"
    "\"flag\":1,\"language\":\"JAVA\",\"opaque\":";
static const char OK[] = "{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"opaque\":";
static const char REST[] = ",\"version\":479}";

/* The digits after a member's name, NULL when it is missing. In a string the quotes of a name would be escaped. */
static const char *member(const char *header, size_t size, const char *name, size_t *digits)
{
    const char *end = header + size, *found = memmem(header, size, name, strlen(name));
    if (found == NULL)
        return NULL;
    found += strlen(name);
    for (*digits = 0; found + *digits < end && found[*digits] >= '0' && found[*digits] <= '9';)
        ++*digits;
    return *digits ? found : NULL;
}

static bool is_send(const char *code, size_t digits)
{
    return (digits == 2 && !memcmp(code, "10", 2)) ||
           (digits == 3 && (!memcmp(code, "310", 3) || !memcmp(code, "320", 3)));
}

static void append_answer(Buffer *to, const char *start, size_t size, const char *opaque, size_t digits)
{
    uint32_t header = size + digits + sizeof REST - 1; /* JSON has the serialize type 0 */
    uint32_t lengths[] = {htonl(4 + header), htonl(header)};
    append(to, (const char *)lengths, sizeof lengths);
    append(to, start, size);
    append(to, opaque, digits);
    append(to, REST, sizeof REST - 1);
}

static bool answer(Buffer *to, const char *header, size_t size)
{
    size_t code_digits, flag_digits, opaque_digits;
    const char *code = member(header, size, "\"code\":", &code_digits);
    const char *flag = member(header, size, "\"flag\":", &flag_digits);
    const char *opaque = member(header, size, "\"opaque\":", &opaque_digits);
    if (code == NULL || flag == NULL || opaque == NULL)
        return false;
    if (*flag != '0')
        return true; /* one-way */
    if (is_send(code, code_digits))
        append_answer(to, SEND_OK, sizeof SEND_OK - 1, opaque, opaque_digits);
    else
        append_answer(to, OK, sizeof OK - 1, opaque, opaque_digits);
    return true;
}

/* Answer all whole frames; how many bytes they are, -1 when they are none of the protocol's. */
static ssize_t answer_frames(const Buffer *in, Buffer *answers)
{
    size_t at = 0;
    while (in->count - at >= 8) {
        const char *frame = in->bytes + at;
        uint32_t length = big_endian(frame), header = big_endian(frame + 4);
        if (length < 4 || length > MAX_FRAME || header > length - 4) /* so is a binary header */
            return -1;
        if (in->count - at < 4 + (size_t)length)
            break;
        if (!answer(answers, frame + 8, header))
            return -1;
        at += 4 + (size_t)length;
    }
    return at;
}

/* -- connections -- */

static void watch(int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll_fd, operation, fd, &event) < 0)
        fail("epoll_ctl");
}

static void accept_client(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
    if (fd < 0)
        return;
    if (fd >= MAX_CLIENTS) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    clients[fd].connected = true;
    highest = fd > highest ? fd : highest;
    watch(EPOLL_CTL_ADD, fd, EPOLLIN);
}

static void disconnect(int fd)
{
    Client *client = &clients[fd];
    close(fd);
    client->connected = client->blocked = false;
    client->in.count = client->gathering.count = client->syncing.count = client->out.count = 0;
}

static void send_answers(int fd)
{
    Client *client = &clients[fd];
    ssize_t count = send(fd, client->out.bytes, client->out.count, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) {
        disconnect(fd);
        return;
    }
    drop_first(&client->out, count < 0 ? 0 : count);
    bool blocked = client->out.count > 0;
    if (blocked != client->blocked)
        watch(EPOLL_CTL_MOD, fd, blocked ? EPOLLOUT : EPOLLIN);
    client->blocked = blocked;
}

/* -- the file -- */

static void write_at(const char *bytes, size_t count, off_t position)
{
    while (count > 0) {
        ssize_t written = pwrite(file_fd, bytes, count, position);
        if (written < 0)
            fail("pwrite");
        bytes += written, count -= written, position += written;
    }
}

static void append_to_file(const char *bytes, size_t count)
{
    static const char zeros[PREPARED_BYTES];
    write_at(bytes, count, file_end);
    file_end += count;
    if (file_end + PREPARED_BYTES > FILE_BYTES) {
        fputs("the file is full\n", stderr);
        exit(1);
    }
    if (file_end + PREPARED_LEAST_BYTES <= prepared_to)
        return;
    off_t start = file_end > prepared_to ? file_end : prepared_to;
    prepared_to = file_end + PREPARED_BYTES;
    write_at(zeros, prepared_to - start, start);
}

static void *sync_when_wanted(void *unused)
{
    eventfd_t count;
    for (;;) {
        if (eventfd_read(sync_wanted, &count) < 0 || fdatasync(file_fd) < 0 || eventfd_write(sync_done, 1) < 0)
            fail("fdatasync");
    }
    return unused;
}

/* Flush what was written so far, if an answer waits for it. */
static void start_sync(void)
{
    for (int fd = 0; fd <= highest; fd++) {
        Client *client = &clients[fd];
        if (client->gathering.count == 0)
            continue;
        Buffer empty = client->syncing; /* its answers were taken */
        client->syncing = client->gathering;
        client->gathering = empty;
        sync_runs = true;
    }
    if (sync_runs && eventfd_write(sync_wanted, 1) < 0)
        fail("eventfd_write");
}

/* The next flush comes first, so that the disk does not wait while answers are sent. */
static void end_sync(void)
{
    eventfd_t count;
    if (eventfd_read(sync_done, &count) < 0)
        fail("eventfd_read");
    for (int fd = 0; fd <= highest; fd++) {
        if (clients[fd].syncing.count > 0)
            append(&clients[fd].out, clients[fd].syncing.bytes, clients[fd].syncing.count);
        clients[fd].syncing.count = 0;
    }
    sync_runs = false;
    start_sync();
    for (int fd = 0; fd <= highest; fd++)
        if (clients[fd].connected && clients[fd].out.count > 0)
            send_answers(fd);
}

/* -- all of it -- */

static void receive(int fd)
{
    Client *client = &clients[fd];
    reserve(&client->in, READ_BYTES);
    ssize_t count = recv(fd, client->in.bytes + client->in.count, READ_BYTES, 0);
    if (count < 0 && errno == EAGAIN)
        return;
    if (count <= 0) {
        disconnect(fd);
        return;
    }
    client->in.count += count;
    ssize_t taken = answer_frames(&client->in, file_fd < 0 ? &client->out : &client->gathering);
    if (taken < 0) {
        disconnect(fd);
        return;
    }
    if (file_fd >= 0 && taken > 0)
        append_to_file(client->in.bytes, taken);
    drop_first(&client->in, taken);
    if (client->out.count > 0)
        send_answers(fd);
}

static int listening(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0)
        fail("listen");
    return fd;
}

static void open_file(const char *path)
{
    pthread_t thread;
    file_fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file_fd < 0 || ftruncate(file_fd, FILE_BYTES) < 0 || fdatasync(file_fd) < 0)
        fail(path);
    sync_wanted = eventfd(0, 0);
    sync_done = eventfd(0, EFD_NONBLOCK);
    watch(EPOLL_CTL_ADD, sync_done, EPOLLIN);
    if (pthread_create(&thread, NULL, sync_when_wanted, NULL) != 0)
        fail("pthread_create");
}

int main(int count, char **arguments)
{
    struct epoll_event events[MAX_EVENTS];
    if (count != 2 && (count != 4 || strcmp(arguments[2], "--sync") != 0)) {
        fprintf(stderr, "usage: %s PORT [--sync FILE]\n", arguments[0]);
        return 2;
    }
    epoll_fd = epoll_create1(0);
    int listener = listening(atoi(arguments[1]));
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    if (count == 4)
        open_file(arguments[3]);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int ready = epoll_wait(epoll_fd, events, MAX_EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener)
                accept_client(listener);
            else if (file_fd >= 0 && fd == sync_done)
                end_sync();
            else if (clients[fd].connected && clients[fd].blocked)
                send_answers(fd);
            else if (clients[fd].connected)
                receive(fd);
        }
        if (file_fd >= 0 && !sync_runs)
            start_sync();
    }
}
