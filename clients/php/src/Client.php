<?php

declare(strict_types=1);

namespace Tarry;

/**
 * A server, or several that share a store.
 *
 *     $client = new Tarry\Client();
 *     $client->push('orders', ['order' => 1001], id: '1001', delay: 1800);
 *
 * Durations are seconds or a DateInterval, times seconds since 1970 or a DateTimeInterface.
 */
final class Client
{
    private const BATCH = 1000;
    private const PROGRESS_BYTES = 256;

    /** @internal */
    public readonly Transport $transport;

    /**
     * @param string|null $url else TARRY_URL, else http://127.0.0.1:8279; several, with commas between, are tried in turn
     * @param string|null $token else what is in the file TARRY_TOKEN_FILE, else TARRY_TOKEN
     * @param float $timeout of one request; a take has its wait as well
     * @param float $retryFor how long a call is made again before its failure is reported
     * @param array<string, array<string, mixed>> $context options of a stream context: ['ssl' => ['cafile' => …]]
     * @param Codec|null $codec of bodies and results
     */
    public function __construct(
        ?string $url = null,
        ?string $token = null,
        float $timeout = 10.0,
        float $retryFor = 30.0,
        array $context = [],
        /** @internal */
        public readonly ?Codec $codec = null,
    ) {
        $url ??= getenv('TARRY_URL') ?: 'http://127.0.0.1:8279';
        $this->transport = new Transport($url, $token ?? self::tokenOfEnvironment(), $timeout, $retryFor, $context);
    }

    private static function tokenOfEnvironment(): ?string
    {
        $path = getenv('TARRY_TOKEN_FILE');
        if ($path === false || $path === '') {
            return getenv('TARRY_TOKEN') ?: null;
        }
        $found = file_get_contents($path);
        return $found === false ? throw new \RuntimeException("cannot read the token file '$path'") : trim($found);
    }

    /** Closes the connection; the next call opens another. */
    public function close(): void
    {
        $this->transport->close();
    }

    // ---- push ----

    /**
     * Hands over a job. Without an id it gets one here, so that a try whose answer was lost does not make two.
     *
     * @param mixed $body a string goes as it is, anything else becomes JSON
     * @param array<string, string> $meta
     * @param int|float|\DateInterval|null $keepFinished how long the server keeps the job and its result after its end;
     * else as its topic says
     * @param string|null $group groups, such as the tenants of a service, are served fairly and may have limits
     * @param array{string, string}|null $batch topic and id of the waiting job of the batch of which this job is a member
     * @param string|Job|null $parent a member that runs, or its lease: it may add members after the close of the batch
     * @param bool|null $waits the job becomes due when its batch is closed and all members have ended
     * @param int|list<array<string, mixed>>|null $members the batch of this waiting job closes itself when it has this number of
     * members; in pushBatch(), the members of this member
     * @param int|float|\DateInterval|null $waitAtMost the waiting job becomes due after this time in any case
     * @param int|float|\DateInterval|null $closeWithin the waiting job is dead if its batch is not closed within this time
     * @param string|null $onDead effect of a dead member on the waiting job: go, hold or stop
     * @throws TarryError
     */
    public function push(
        string $topic,
        mixed $body = '',
        ?string $id = null,
        int|float|\DateInterval|null $delay = null,
        int|float|\DateTimeInterface|null $at = null,
        ?int $priority = null,
        int|float|\DateInterval|null $ttl = null,
        int|float|\DateInterval|null $lease = null,
        ?int $maxAttempts = null,
        ?string $backoff = null,
        ?string $onConflict = null,
        ?string $once = null,
        int|float|\DateInterval|null $onceFor = null,
        int|float|\DateInterval|null $keepFinished = null,
        ?string $group = null,
        ?array $batch = null,
        string|Job|null $parent = null,
        ?bool $waits = null,
        int|array|null $members = null,
        int|float|\DateInterval|null $waitAtMost = null,
        int|float|\DateInterval|null $closeWithin = null,
        ?string $onDead = null,
        ?string $callback = null,
        array $meta = [],
        ?string $contentType = null,
        ?string $traceparent = null,
        ?string $tracestate = null,
    ): Pushed {
        $result = $this->pushMany([get_defined_vars()])[0] ?? null;
        return $result instanceof Pushed ? $result : throw $result ?? new TarryError('the answer has no result');
    }

    /**
     * Pushes a job and waits for its end, up to 4 minutes. Returns the job with its outcome and result, or as it is after the
     * wait. If the answer is lost, the call is repeated, and the wait begins again; a job that was acked in between runs
     * twice, unless its topic has a dedup_window.
     *
     * @param mixed ...$options those of push() by their names
     * @throws TarryError
     */
    public function pushAndWait(string $topic, mixed $body = '', int|float|\DateInterval $wait = 30, mixed ...$options): Job
    {
        $item = $this->item($topic, $body, ...$options); // @phpstan-ignore argument.type
        if (!is_string($item['id'] ?? null)) {
            throw new \InvalidArgumentException('a push that waits needs an id if it has a once');
        }
        $id = $item['id'];
        $headers = [];
        foreach ((array) ($item['meta'] ?? []) as $name => $value) {
            $isTrace = in_array($name, ['traceparent', 'tracestate'], true);
            $headers[($isTrace ? '' : 'Tarry-Meta-') . $name] = is_string($value) ? $value : '';
        }
        $query = array_diff_key($item, array_flip(['topic', 'id', 'body_base64', 'content_type', 'meta']));
        $request = $this->long($wait, new Request(
            'PUT',
            self::path($topic, 'jobs', $id),
            self::query([...$query, 'wait' => Format::milliseconds($wait)]), // @phpstan-ignore argument.type
            is_string($item['body_base64']) ? (string) base64_decode($item['body_base64']) : '',
            contentType: is_string($item['content_type']) ? $item['content_type'] : null,
            headers: $headers,
        ));
        [$tries, $raw, $began] = [0, '', Transport::now()];
        try {
            $answer = $this->transport->call($request, tries: $tries, raw: $raw);
        } catch (Conflict $fault) {
            // An earlier try may have pushed the job, which a worker holds by now.
            $answer = $tries > 0 && $fault->code === 'leased' ? [] : throw $fault;
        } catch (NotFound) {
            $answer = []; // it existed, has ended, and is not kept
        }
        $hasEnded = in_array($answer['state'] ?? '', ['finished', 'dead'], true);
        $left = Format::seconds($wait) - (isset($answer['attempt']) ? Transport::now() - $began : 0);
        if (!$hasEnded && $left > 0) { // a push that is not the first with its once does not wait
            return $this->wait([[$topic, $id]], timeout: $left)[0];
        }
        $exact = json_decode($raw);
        $members = $exact instanceof \stdClass && isset($exact->result) ? ['result' => $exact->result] + $answer : $answer;
        return Job::of($members)->decoded($this->codec);
    }

    /** A call that the server answers after the wait at the latest. */
    private function long(int|float|\DateInterval $wait, Request $request): Request
    {
        $seconds = Format::seconds($wait);
        return new Request(
            $request->method,
            $request->path,
            $request->query,
            $request->body,
            $seconds + $this->transport->timeout,
            $request->contentType,
            $request->headers,
            $seconds + $this->transport->retryFor,
        );
    }

    /**
     * Waits until all of up to 1,000 jobs have ended, or any, up to 4 minutes. Returns each as it is then, in the given
     * order: 'finished' or 'dead' if it has ended, 'unknown' if there is no such job. A job that finished before the call is
     * found only if its topic keeps finished jobs.
     *
     * @param Job|Pushed|array<Job|Pushed|array{string, string}> $jobs each a job, the result of a push, or [topic, id]
     * @return list<Job>
     * @throws TarryError
     */
    public function wait(Job|Pushed|array $jobs, bool $any = false, int|float|\DateInterval $timeout = 30): array
    {
        $names = [];
        foreach (is_array($jobs) ? $jobs : [$jobs] as $one) {
            $names[] = is_array($one) ? [$one[0], $one[1]] : [$one->topic, $one->id];
        }
        $body = Format::json([
            'jobs' => array_map(static fn (array $name): array => ['topic' => $name[0], 'id' => $name[1]], $names),
            'for' => $any ? 'any' : 'all',
            'wait' => Format::milliseconds($timeout),
        ]);
        $answer = $this->transport->call($this->long($timeout, new Request('POST', '/v1/wait', [['body', 'base64']], $body)));
        $found = [];
        foreach ($this->decoded($answer) as $job) {
            $found["$job->topic $job->id"] = $job;
        }
        return array_map(
            static fn (array $name): Job => $found["$name[0] $name[1]"] ?? new Job($name[0], $name[1], state: 'unknown'),
            $names,
        );
    }

    /**
     * Pushes many jobs; each item has the arguments of push() by their names. A refused item is an error in its place and
     * does not affect the others.
     *
     * @param iterable<array<string, mixed>> $items
     * @return list<Pushed|TarryError>
     * @throws TarryError
     */
    public function pushMany(iterable $items): array
    {
        $results = [];
        foreach (array_chunk($this->items($items), self::BATCH) as $batch) {
            array_push($results, ...$this->pushItems($batch));
        }
        return $results;
    }

    /**
     * Pushes a waiting job and up to 999 members in one call and closes the batch. Each has the arguments of push() by their names.
     * Members may have 'members', so a chain is one call. Returns one result per job, each waiting job before its members, and
     * whether all batches are closed: the batch of a rejected job stays open.
     *
     * @param array<string, mixed> $job
     * @param iterable<array<string, mixed>> $members
     * @return array{results: list<Pushed|TarryError>, closed: bool}
     * @throws TarryError
     */
    public function pushBatch(array $job, iterable $members): array
    {
        $body = Format::json(['job' => $this->items([$job])[0], 'members' => $this->items($members)]);
        $answer = $this->transport->call(new Request('POST', '/v1/batches', body: $body));
        return ['results' => array_map(self::pushed(...), self::results($answer)), 'closed' => ($answer['closed'] ?? null) === true];
    }

    /**
     * @param iterable<array<string, mixed>> $items
     * @return list<array<string, mixed>>
     */
    private function items(iterable $items): array
    {
        $made = [];
        foreach ($items as $item) {
            $made[] = $this->item(...$item); // @phpstan-ignore argument.type
        }
        return $made;
    }

    /**
     * Closes the batch of a waiting job: it gets no more members.
     *
     * @throws TarryError
     */
    public function closeBatch(string $topic, string $id): void
    {
        $tries = 0;
        try {
            $this->transport->call(new Request('POST', self::path($topic, 'jobs', $id, 'close')), tries: $tries);
        } catch (NotFound $fault) {
            $tries > 0 || throw $fault; // an earlier try may have closed it, and the job has ended since
        }
    }

    /**
     * Cancels a waiting job and its members. Consumers that hold members are notified, as by requestCancel(). False: there is
     * no such job.
     *
     * @throws TarryError
     */
    public function cancelBatch(string $topic, string $id): bool
    {
        $tries = 0;
        $request = new Request('DELETE', self::path($topic, 'jobs', $id), [['members', 'true']]);
        return $this->cancelBy($request, $tries) !== null || $tries > 0; // an earlier try may have done it
    }

    /**
     * An item that the server had no room for just now (429, 503) is made again as a call would be.
     *
     * @param list<array<string, mixed>> $items
     * @return list<Pushed|TarryError>
     * @throws TarryError
     */
    private function pushItems(array $items): array
    {
        $limit = Transport::now() + $this->transport->retryFor;
        $results = array_fill(0, count($items), new TarryError('the answer has no result for it'));
        $left = array_keys($items);
        for ($pause = Transport::FIRST_PAUSE;; $pause = min(2 * $pause, Transport::LONGEST_PAUSE)) {
            $asked = array_map(static fn (int $at): array => $items[$at], $left);
            $found = self::results($this->transport->call(new Request('POST', '/v1/jobs', body: Format::json($asked))));
            foreach ($left as $nth => $at) {
                $results[$at] = isset($found[$nth]) ? self::pushed($found[$nth]) : $results[$at];
            }
            $left = array_values(array_filter($left, static fn (int $at): bool => $results[$at] instanceof Unavailable));
            $wait = Transport::jitter($pause);
            if ($left === [] || Transport::now() + $wait > $limit) {
                return array_values($results);
            }
            usleep((int) ($wait * 1e6));
        }
    }

    /**
     * An item of a batch push.
     *
     * @param array{string, string}|null $batch
     * @param int|list<array<string, mixed>>|null $members
     * @param array<string, string> $meta
     * @return array<string, mixed>
     */
    private function item(
        string $topic,
        mixed $body = '',
        ?string $id = null,
        int|float|\DateInterval|null $delay = null,
        int|float|\DateTimeInterface|null $at = null,
        ?int $priority = null,
        int|float|\DateInterval|null $ttl = null,
        int|float|\DateInterval|null $lease = null,
        ?int $maxAttempts = null,
        ?string $backoff = null,
        ?string $onConflict = null,
        ?string $once = null,
        int|float|\DateInterval|null $onceFor = null,
        int|float|\DateInterval|null $keepFinished = null,
        ?string $group = null,
        ?array $batch = null,
        string|Job|null $parent = null,
        ?bool $waits = null,
        int|array|null $members = null,
        int|float|\DateInterval|null $waitAtMost = null,
        int|float|\DateInterval|null $closeWithin = null,
        ?string $onDead = null,
        ?string $callback = null,
        array $meta = [],
        ?string $contentType = null,
        ?string $traceparent = null,
        ?string $tracestate = null,
    ): array {
        [$data, $type] = Format::encoded($this->codec, $body, $contentType);
        $meta += array_filter(['traceparent' => $traceparent, 'tracestate' => $tracestate], is_string(...));
        return array_filter([
            'topic' => $topic,
            // With a once the server generates an id that belongs to its shard.
            'id' => $id ?? ($once === null ? Format::newId() : null),
            'body_base64' => base64_encode($data),
            'content_type' => $type,
            'delay' => $delay === null ? null : Format::milliseconds($delay),
            'at' => $at === null ? null : Format::moment($at),
            'priority' => $priority,
            'ttl' => $ttl === null ? null : Format::milliseconds($ttl),
            'lease_for' => $lease === null ? null : Format::milliseconds($lease),
            'max_attempts' => $maxAttempts,
            'backoff' => $backoff,
            'on_conflict' => $onConflict ?? ($id === null ? 'keep' : null),
            'once' => $once,
            'once_for' => $onceFor === null ? null : Format::milliseconds($onceFor),
            'keep_finished' => $keepFinished === null ? null : Format::milliseconds($keepFinished),
            'group' => $group,
            'batch_topic' => $batch[0] ?? null,
            'batch_id' => $batch[1] ?? null,
            'parent' => $parent instanceof Job ? $parent->lease : $parent,
            'waits' => $waits,
            'members' => is_array($members) ? $this->items($members) : $members,
            'wait_at_most' => $waitAtMost === null ? null : Format::milliseconds($waitAtMost),
            'close_within' => $closeWithin === null ? null : Format::milliseconds($closeWithin),
            'on_dead' => $onDead,
            'callback' => $callback,
            'meta' => $meta === [] ? null : (object) $meta,
        ], static fn (mixed $value): bool => $value !== null);
    }

    /** @param array<mixed> $result */
    private static function pushed(array $result): Pushed|TarryError
    {
        $what = $result['result'] ?? null;
        if (is_string($what) && in_array($what, ['created', 'replaced', 'existed'], true)) {
            $id = is_string($result['id'] ?? null) ? $result['id'] : '';
            $topic = is_string($result['topic'] ?? null) ? $result['topic'] : '';
            return new Pushed($id, $what, Format::time($result['due_at'] ?? null), $topic);
        }
        return TarryError::of(0, $result);
    }

    // ---- one job ----

    /**
     * False: there is no such job.
     *
     * @throws Conflict where a consumer holds the job; see requestCancel()
     * @throws TarryError
     */
    public function cancel(string $topic, string $id): bool
    {
        $tries = 0;
        $result = $this->cancelBy(new Request('DELETE', self::path($topic, 'jobs', $id)), $tries);
        return $result !== null || $tries > 0; // an earlier try may have done it
    }

    /**
     * 'cancelled'; or 'requested' if a consumer holds the job: the consumer is notified, and the job is cancelled unless it
     * acks it. Null: there is no such job, or it has finished.
     *
     * @throws TarryError
     */
    public function requestCancel(string $topic, string $id): ?string
    {
        return $this->cancelBy(new Request('DELETE', self::path($topic, 'jobs', $id), [['request', 'true']]));
    }

    private function cancelBy(Request $request, int &$tries = 0): ?string
    {
        try {
            $answer = $this->transport->call($request, tries: $tries);
        } catch (NotFound) {
            return null;
        }
        return ($answer['result'] ?? null) === 'requested' ? 'requested' : 'cancelled';
    }

    /**
     * The new due.
     *
     * @throws TarryError
     */
    public function reschedule(
        string $topic,
        string $id,
        int|float|\DateInterval|null $delay = null,
        int|float|\DateTimeInterface|null $at = null,
        ?int $priority = null,
    ): ?\DateTimeImmutable {
        $query = self::query([
            'delay' => $delay === null ? null : Format::milliseconds($delay),
            'at' => $at === null ? null : Format::moment($at),
            'priority' => $priority,
        ]);
        $answer = $this->transport->call(new Request('PATCH', self::path($topic, 'jobs', $id), $query));
        return Format::time($answer['due_at'] ?? null);
    }

    /**
     * The job is due now.
     *
     * @throws TarryError
     */
    public function run(string $topic, string $id): void
    {
        $this->transport->call(new Request('POST', self::path($topic, 'jobs', $id, 'run')));
    }

    /** @throws TarryError */
    public function get(string $topic, string $id): ?Job
    {
        $request = new Request('GET', self::path($topic, 'jobs', $id), [['body', 'base64']]);
        try {
            return Job::of($this->transport->call($request))->decoded($this->codec);
        } catch (NotFound) {
            return null;
        }
    }

    /**
     * Lists the jobs by due time, read page by page during the iteration.
     *
     * @param string|null $state delayed, ready, leased, retrying or dead
     * @param bool $bodies also read the bodies
     * @return \Generator<int, Job>
     * @throws TarryError
     */
    public function list(
        string $topic,
        ?string $state = null,
        ?string $idPrefix = null,
        bool $bodies = false,
        int $page = 100,
    ): \Generator {
        $body = $bodies ? 'base64' : null;
        $query = ['limit' => $page, 'state' => $state, 'id_prefix' => $idPrefix, 'body' => $body];
        yield from $this->pages(self::path($topic, 'jobs'), $query, 'jobs');
    }

    /**
     * Lists the members of a batch, read page by page during the iteration. Finished members are found if they are kept.
     *
     * @param string|null $outcome unfinished, acked, dead, cancelled or expired
     * @param bool $results also read the results of finished members
     * @return \Generator<int, Job>
     * @throws TarryError
     */
    public function members(
        string $topic,
        string $id,
        ?string $outcome = null,
        bool $results = false,
        int $page = 100,
    ): \Generator {
        $query = ['limit' => $page, 'outcome' => $outcome, 'results' => $results ? 'true' : null];
        yield from $this->pages(self::path($topic, 'jobs', $id, 'members'), $query, 'members');
    }

    /**
     * @param array<string, string|int|null> $query
     * @return \Generator<int, Job>
     */
    private function pages(string $path, array $query, string $name): \Generator
    {
        $cursor = null;
        do {
            try {
                $answer = $this->transport->call(new Request('GET', $path, self::query($query + ['cursor' => $cursor])));
            } catch (NotFound) {
                return;
            }
            foreach ($this->decoded($answer, $name) as $job) {
                yield $job;
            }
            $cursor = is_string($answer['cursor'] ?? null) ? $answer['cursor'] : null;
        } while ($cursor !== null);
    }

    // ---- schedules ----

    /**
     * Creates or replaces a schedule that pushes a job each time it fires. The same specification again changes nothing.
     *
     * @param mixed $body a string is sent as text if it is UTF-8, else as bytes; anything else becomes JSON; null: no body
     * @param string|list<string>|null $cron
     * @param array<string, mixed> $members other members of docs/schedules.md, as the API has them: ['overlap' => 'skip']
     * @param bool $takeOver also change a schedule of another owner
     * @throws TarryError
     */
    public function schedule(
        string $name,
        string $topic,
        mixed $body = null,
        string|array|null $cron = null,
        int|float|\DateInterval|null $every = null,
        ?string $zone = null,
        ?string $contentType = null,
        array $members = [],
        bool $takeOver = false,
    ): Scheduled {
        if ($this->codec !== null && $body !== null) {
            [$body, $contentType] = Format::encoded($this->codec, $body, $contentType, isSteady: true);
        }
        $isBytes = is_string($body) && preg_match('//u', $body) !== 1;
        $spec = array_filter([
            'topic' => $topic,
            'cron' => $cron,
            'every' => $every === null ? null : Format::milliseconds($every),
            'zone' => $zone,
            $isBytes ? 'body_base64' : 'body' => is_string($body) && $isBytes ? base64_encode($body) : $body,
            'content_type' => $contentType,
        ], static fn (mixed $value): bool => $value !== null);
        $query = $takeOver ? [['take_over', 'true']] : [];
        $request = new Request('PUT', self::schedulePath($name), $query, body: Format::json($spec + $members));
        $answer = $this->transport->call($request);
        $result = is_string($answer['result'] ?? null) ? $answer['result'] : '';
        return new Scheduled($result, Format::time($answer['next'] ?? null));
    }

    /**
     * Deletes a schedule; its jobs that are due stay. False: there is no such schedule.
     *
     * @throws TarryError
     */
    public function unschedule(string $name): bool
    {
        $tries = 0;
        try {
            $this->transport->call(new Request('DELETE', self::schedulePath($name)), tries: $tries);
        } catch (NotFound) {
            return $tries > 0; // an earlier try may have done it
        }
        return true;
    }

    private static function schedulePath(string $name): string
    {
        return '/v1/schedules/' . rawurlencode($name);
    }

    // ---- consuming ----

    /**
     * Ready jobs, of the topic named first first. Never made again by itself: a try whose answer was lost may hold jobs
     * until their lease ends.
     *
     * @param string|array<string> $topics
     * @param string|null $consumer who takes, in 64 printable ASCII characters at most: shown as the holder
     * @return list<Job>
     * @throws TarryError
     */
    public function take(
        string|array $topics,
        int $max = 1,
        int|float|\DateInterval $wait = 0,
        int|float|\DateInterval|null $lease = null,
        ?string $consumer = null,
    ): array {
        $request = $this->takeRequest($topics, $max, $wait, $lease, $consumer);
        return $this->decoded($this->transport->call($request, again: false));
    }

    /**
     * @param string|array<string> $topics
     * @internal
     */
    public function takeRequest(
        string|array $topics,
        int $max,
        int|float|\DateInterval $wait,
        int|float|\DateInterval|null $lease,
        ?string $consumer,
    ): Request {
        $query = [...array_map(static fn (string $topic): array => ['topic', $topic], array_values((array) $topics))];
        array_push($query, ...self::query([
            'max' => $max,
            'wait' => Format::milliseconds($wait),
            'body' => 'base64',
            'lease_for' => $lease === null ? null : Format::milliseconds($lease),
            'consumer' => $consumer,
        ]));
        return new Request('POST', '/v1/take', $query, timeout: Format::seconds($wait) + $this->transport->timeout);
    }

    /**
     * Done. Null for each that counts; else why not. One that an earlier try may have acked counts.
     *
     * @param string|Job|array<string|Job> $jobs or their leases
     * @param mixed $result of one job, as a body in push(). One that is too big is Refused, and the job stays leased
     * @param int|float|\DateInterval|null $hold how long no job of its group is delivered; without a group, of its topic
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function ack(
        string|Job|array $jobs,
        mixed $result = null,
        ?string $contentType = null,
        int|float|\DateInterval|null $hold = null,
    ): array {
        return $this->answers('ack', $jobs, $this->resultOfOne($jobs, $result, $contentType) + self::holdOptions($hold));
    }

    /** @return array<string, string> */
    private static function holdOptions(int|float|\DateInterval|null $hold): array
    {
        return $hold === null ? [] : ['hold' => Format::milliseconds($hold)];
    }

    /**
     * @param string|Job|array<string|Job> $jobs
     * @return array<string, string>
     */
    private function resultOfOne(string|Job|array $jobs, mixed $result, ?string $contentType): array
    {
        if ($result instanceof Job || ($result !== null && is_array($jobs) && count($jobs) !== 1)) {
            throw new \InvalidArgumentException('a result belongs to one job; to ack several without, give them in a list');
        }
        return Format::result($result, $contentType, $this->codec);
    }

    /**
     * Failed: tried again after the delay, without it by the backoff; or, where it is final, dead.
     *
     * @param string|Job|array<string|Job> $jobs or their leases
     * @param mixed $result of one job, if it is final: sent to those that wait for the job
     * @param int|float|\DateInterval|null $hold as in ack()
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function nack(
        string|Job|array $jobs,
        int|float|\DateInterval|null $delay = null,
        string $error = '',
        bool $final = false,
        mixed $result = null,
        ?string $contentType = null,
        int|float|\DateInterval|null $hold = null,
    ): array {
        $options = self::nackOptions($delay, $error, $final) + $this->resultOfOne($jobs, $result, $contentType);
        return $this->answers('nack', $jobs, $options + self::holdOptions($hold));
    }

    /**
     * @return array<string, mixed>
     * @internal
     */
    public static function nackOptions(int|float|\DateInterval|null $delay, string $error, bool $final = false): array
    {
        $line = Format::line($error);
        return ($delay === null ? [] : ['delay' => Format::milliseconds($delay)])
            + ($line === '' ? [] : ['error' => $line]) + ($final ? ['final' => true] : []);
    }

    /**
     * The lease ends so long from now.
     *
     * @param string|Job|array<string|Job> $jobs or their leases
     * @param string $progress how far the job is, up to 256 bytes of text; shown with the job
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function extend(string|Job|array $jobs, int|float|\DateInterval|null $lease = null, string $progress = ''): array
    {
        $options = $lease === null ? [] : ['lease_for' => Format::milliseconds($lease)];
        $line = Format::line($progress, self::PROGRESS_BYTES);
        return $this->answers('extend', $jobs, $options + ($line === '' ? [] : ['progress' => $line]));
    }

    /**
     * Gives the job back unbegun: it is ready again immediately, and the attempt does not count.
     *
     * @param string|Job|array<string|Job> $jobs or their leases
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function giveBack(string|Job|array $jobs): array
    {
        return $this->answers('return', $jobs);
    }

    /**
     * Acks a job and pushes it again in one step; what is not given stays the same. False: its cancel was requested, and it
     * has ended.
     *
     * @param mixed $body as in push(); null: the old body
     * @throws TarryError
     */
    public function again(
        string|Job $job,
        mixed $body = null,
        int|float|\DateInterval|null $delay = null,
        int|float|\DateTimeInterface|null $at = null,
        ?int $priority = null,
        ?string $contentType = null,
    ): bool {
        [$data, $type] = $body === null ? [null, null] : Format::encoded($this->codec, $body, $contentType);
        $query = self::query([
            'lease' => $job instanceof Job ? $job->lease : $job,
            'delay' => $delay === null ? null : Format::milliseconds($delay),
            'at' => $at === null ? null : Format::moment($at),
            'priority' => $priority,
        ]);
        $tries = 0;
        try {
            $answer = $this->transport->call(new Request('POST', '/v1/again', $query, $data, contentType: $type), tries: $tries);
        } catch (LeaseEnded $fault) {
            return $tries > 0 ? true : throw $fault; // an earlier try may have done it
        }
        return (self::results($answer)[0]['result'] ?? null) !== 'cancelled';
    }

    /**
     * @param string|Job|array<string|Job> $jobs
     * @param array<string, mixed> $options
     * @return list<TarryError|null>
     */
    private function answers(string $verb, string|Job|array $jobs, array $options = []): array
    {
        $items = array_map(
            static fn (string|Job $job): array => ['lease' => $job instanceof Job ? $job->lease : $job] + $options,
            is_array($jobs) ? array_values($jobs) : [$jobs],
        );
        $out = [];
        foreach (array_chunk($items, self::BATCH) as $batch) {
            $tries = 0;
            $answer = $this->transport->call(self::answersRequest($verb, $batch), tries: $tries);
            foreach (self::results($answer) as $result) {
                $out[] = self::answered($verb, $result, $tries > 0);
            }
        }
        return $out;
    }

    /**
     * @param list<array<string, mixed>> $items
     * @internal
     */
    public static function answersRequest(string $verb, array $items, ?float $timeout = null): Request
    {
        return new Request('POST', "/v1/$verb", body: Format::json(['leases' => $items]), timeout: $timeout);
    }

    /**
     * Returns the error of an answer; null if the answer counts.
     *
     * @param array<mixed> $result
     * @param bool $wasTried may an earlier try of it have been carried out?
     * @internal
     */
    public static function answered(string $verb, array $result, bool $wasTried): ?TarryError
    {
        $what = $result['result'] ?? null;
        $counts = $what === 'ok' || $what === 'cancelled' || ($wasTried && $verb !== 'extend' && $what === 'lease_ended');
        return $counts ? null : TarryError::of(0, $result);
    }

    // ---- parts of requests and answers ----

    private static function path(string ...$parts): string
    {
        return '/v1/topics/' . implode('/', array_map(rawurlencode(...), $parts));
    }

    /**
     * @param array<string, string|int|bool|null> $options
     * @return list<array{string, string}>
     */
    private static function query(array $options): array
    {
        $query = [];
        foreach ($options as $name => $value) {
            if ($value !== null) {
                $query[] = [$name, is_bool($value) ? ($value ? 'true' : 'false') : (string) $value];
            }
        }
        return $query;
    }

    /**
     * @param array<mixed> $answer
     * @return list<array<mixed>>
     * @internal
     */
    public static function results(array $answer): array
    {
        return array_values(array_filter((array) ($answer['results'] ?? []), is_array(...)));
    }

    /**
     * @param array<mixed> $answer
     * @return list<Job>
     */
    private function decoded(array $answer, string $name = 'jobs'): array
    {
        return array_map(fn (Job $job): Job => $job->decoded($this->codec), self::jobs($answer, $name));
    }

    /**
     * @param array<mixed> $answer
     * @return list<Job> which are not decoded
     * @internal
     */
    public static function jobs(array $answer, string $name = 'jobs'): array
    {
        return array_values(array_map(Job::of(...), array_filter((array) ($answer[$name] ?? []), is_array(...))));
    }
}
