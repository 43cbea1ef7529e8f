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

    /** @internal */
    public readonly Transport $transport;

    /**
     * @param string|null $url else TARRY_URL, else http://127.0.0.1:8279; several, with commas between, are tried in turn
     * @param string|null $token else what is in the file TARRY_TOKEN_FILE, else TARRY_TOKEN
     * @param float $timeout of one request; a take has its wait as well
     * @param float $retryFor how long a call is made again before its failure is reported
     * @param array<string, array<string, mixed>> $context options of a stream context: ['ssl' => ['cafile' => …]]
     */
    public function __construct(
        ?string $url = null,
        ?string $token = null,
        float $timeout = 10.0,
        float $retryFor = 30.0,
        array $context = [],
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
     * Pushes many jobs; each item has the arguments of push() by their names. A refused item is an error in its place and
     * does not affect the others.
     *
     * @param iterable<array<string, mixed>> $items
     * @return list<Pushed|TarryError>
     * @throws TarryError
     */
    public function pushMany(iterable $items): array
    {
        $wanted = [];
        foreach ($items as $item) {
            $wanted[] = self::item(...$item); // @phpstan-ignore argument.type
        }
        $results = [];
        foreach (array_chunk($wanted, self::BATCH) as $batch) {
            array_push($results, ...$this->pushBatch($batch));
        }
        return $results;
    }

    /**
     * An item that the server had no room for just now (429, 503) is made again as a call would be.
     *
     * @param list<array<string, mixed>> $items
     * @return list<Pushed|TarryError>
     * @throws TarryError
     */
    private function pushBatch(array $items): array
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
     * @param array<string, string> $meta
     * @return array<string, mixed>
     */
    private static function item(
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
        ?string $callback = null,
        array $meta = [],
        ?string $contentType = null,
        ?string $traceparent = null,
        ?string $tracestate = null,
    ): array {
        [$data, $type] = Format::body($body, $contentType);
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
            return new Pushed($id, $what, Format::time($result['due_at'] ?? null));
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
            return Job::of($this->transport->call($request));
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
        $cursor = null;
        do {
            $body = $bodies ? 'base64' : null;
            $query = ['limit' => $page, 'state' => $state, 'id_prefix' => $idPrefix, 'body' => $body, 'cursor' => $cursor];
            try {
                $answer = $this->transport->call(new Request('GET', self::path($topic, 'jobs'), self::query($query)));
            } catch (NotFound) {
                return;
            }
            foreach (self::jobs($answer) as $job) {
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
    ): Scheduled {
        $isBytes = is_string($body) && preg_match('//u', $body) !== 1;
        $spec = array_filter([
            'topic' => $topic,
            'cron' => $cron,
            'every' => $every === null ? null : Format::milliseconds($every),
            'zone' => $zone,
            $isBytes ? 'body_base64' : 'body' => is_string($body) && $isBytes ? base64_encode($body) : $body,
            'content_type' => $contentType,
        ], static fn (mixed $value): bool => $value !== null);
        $request = new Request('PUT', self::schedulePath($name), body: Format::json($spec + $members));
        $answer = $this->transport->call($request);
        $result = is_string($answer['result'] ?? null) ? $answer['result'] : '';
        return new Scheduled($result, Format::time($answer['next'] ?? null));
    }

    /**
     * Deletes a schedule; its jobs stay. False: there is no such schedule.
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
        return self::jobs($this->transport->call($request, again: false));
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
     * @param string|array<string> $leases
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function ack(string|array $leases): array
    {
        return $this->answers('ack', $leases);
    }

    /**
     * Failed: tried again after the delay, without it by the backoff; or, where it is final, dead.
     *
     * @param string|array<string> $leases
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function nack(
        string|array $leases,
        int|float|\DateInterval|null $delay = null,
        string $error = '',
        bool $final = false,
    ): array {
        return $this->answers('nack', $leases, self::nackOptions($delay, $error, $final));
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
     * @param string|array<string> $leases
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function extend(string|array $leases, int|float|\DateInterval|null $lease = null): array
    {
        return $this->answers('extend', $leases, $lease === null ? [] : ['lease_for' => Format::milliseconds($lease)]);
    }

    /**
     * Gives the job back unbegun: it is ready again immediately, and the attempt does not count.
     *
     * @param string|array<string> $leases
     * @return list<TarryError|null>
     * @throws TarryError
     */
    public function giveBack(string|array $leases): array
    {
        return $this->answers('return', $leases);
    }

    /**
     * Acks a job and pushes it again in one step; what is not given stays the same. False: its cancel was requested, and it
     * has ended.
     *
     * @param mixed $body as in push(); null: the old body
     * @throws TarryError
     */
    public function again(
        string $lease,
        mixed $body = null,
        int|float|\DateInterval|null $delay = null,
        int|float|\DateTimeInterface|null $at = null,
        ?int $priority = null,
        ?string $contentType = null,
    ): bool {
        [$data, $type] = $body === null ? [null, null] : Format::body($body, $contentType);
        $query = self::query([
            'lease' => $lease,
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
     * @param string|array<string> $leases
     * @param array<string, mixed> $options
     * @return list<TarryError|null>
     */
    private function answers(string $verb, string|array $leases, array $options = []): array
    {
        $items = array_map(static fn (string $lease): array => ['lease' => $lease] + $options, array_values((array) $leases));
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
     * @param array<string, string|int|null> $options
     * @return list<array{string, string}>
     */
    private static function query(array $options): array
    {
        $query = [];
        foreach ($options as $name => $value) {
            if ($value !== null) {
                $query[] = [$name, (string) $value];
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
     * @internal
     */
    public static function jobs(array $answer): array
    {
        return array_values(array_map(Job::of(...), array_filter((array) ($answer['jobs'] ?? []), is_array(...))));
    }
}
