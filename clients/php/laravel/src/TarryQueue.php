<?php

declare(strict_types=1);

namespace Tarry\Laravel;

use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;
use Tarry\Client;
use Tarry\NotFound;
use Tarry\Request;

/** A queue of Laravel is a topic. Laravel itself counts tries, waits between them, and keeps failed jobs. */
final class TarryQueue extends Queue implements QueueContract
{
    private const MAX_ATTEMPTS = 10000; // the most there is: tries are Laravel's

    /**
     * @param int $retryAfter seconds that a worker has for a job; more than the longest `timeout` of a job
     * @param int $blockFor seconds that a worker waits for a job
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $default,
        private readonly int $retryAfter,
        private readonly int $blockFor,
        bool $afterCommit,
    ) {
        $this->dispatchAfterCommit = $afterCommit;
    }

    // ---- pushing ----

    /**
     * @param \Closure|string|object $job
     * @param mixed $data
     * @param \UnitEnum|string|null $queue
     * @return string the id
     */
    public function push($job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->topic($queue), $data);
        return $this->enqueueUsing($job, $payload, $queue, null, fn ($payload, $queue) => $this->pushRaw($payload, $queue));
    }

    /**
     * @param \DateTimeInterface|\DateInterval|int $delay of any length
     * @param \Closure|string|object $job
     * @param mixed $data
     * @param \UnitEnum|string|null $queue
     * @return string the id
     */
    public function later($delay, $job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->topic($queue), $data, $delay);
        $later = fn ($payload, $queue, $delay) => $this->pushRaw($payload, $queue, ['delay' => $this->secondsUntil($delay)]);
        return $this->enqueueUsing($job, $payload, $queue, $delay, $later);
    }

    /**
     * @param string $payload
     * @param \UnitEnum|string|null $queue
     * @param array<string, mixed> $options arguments of Tarry\Client::push() by their names
     * @return string the id
     */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        $options += ['contentType' => 'application/json', 'maxAttempts' => self::MAX_ATTEMPTS];
        return $this->client->push($this->topic($queue), $payload, ...$options)->id;
    }

    /**
     * @param iterable<string|object> $jobs
     * @param mixed $data
     * @param \UnitEnum|string|null $queue
     */
    public function bulk($jobs, $data = '', $queue = null): void
    {
        foreach ($jobs as $job) {
            $delay = is_object($job) ? $job->delay ?? null : null;
            $delay === null ? $this->push($job, $data, $queue) : $this->later($delay, $job, $data, $queue);
        }
    }

    // ---- taking ----

    /**
     * @param \UnitEnum|string|null $queue
     * @param int $index of the queue among those of the worker: only for the first one is waited
     */
    public function pop($queue = null, $index = 0): ?TarryJob
    {
        $wait = $index === 0 ? $this->blockFor : 0;
        $jobs = $this->client->take($this->topic($queue), wait: $wait, lease: $this->retryAfter);
        return $jobs === [] ? null : new TarryJob($this->container, $this->client, $jobs[0], $this->connectionName);
    }

    // ---- how many there are ----

    /** @param \UnitEnum|string|null $queue */
    public function size($queue = null): int
    {
        return $this->count($queue, 'ready', 'delayed', 'retrying', 'leased');
    }

    /** @param \UnitEnum|string|null $queue */
    public function pendingSize($queue = null): int
    {
        return $this->count($queue, 'ready');
    }

    /** @param \UnitEnum|string|null $queue */
    public function delayedSize($queue = null): int
    {
        return $this->count($queue, 'delayed', 'retrying');
    }

    /** @param \UnitEnum|string|null $queue */
    public function reservedSize($queue = null): int
    {
        return $this->count($queue, 'leased');
    }

    /**
     * The due time of the oldest ready job.
     *
     * @param \UnitEnum|string|null $queue
     */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        $due = $this->look($queue)['oldest_ready_due_at'] ?? null;
        return is_string($due) ? (new \DateTimeImmutable($due))->getTimestamp() : null;
    }

    /** @param \UnitEnum|string|null $queue */
    private function count($queue, string ...$states): int
    {
        $counts = $this->look($queue)['counts'] ?? [];
        return array_sum(array_intersect_key($counts, array_flip($states)));
    }

    /**
     * @param \UnitEnum|string|null $queue
     * @return array<mixed>
     */
    private function look($queue): array
    {
        try {
            return $this->client->transport->call(new Request('GET', '/v1/topics/' . rawurlencode($this->topic($queue))));
        } catch (NotFound) {
            return []; // nothing was pushed yet
        }
    }

    /** @param \UnitEnum|string|null $queue */
    private function topic($queue): string
    {
        $name = match (true) {
            $queue instanceof \BackedEnum => (string) $queue->value,
            $queue instanceof \UnitEnum => $queue->name,
            default => (string) $queue,
        };
        return $name === '' ? $this->default : $name;
    }
}
