<?php

declare(strict_types=1);

namespace Tarry\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;
use Tarry\Client;
use Tarry\TarryError;

/** A job that a worker of Laravel holds. */
final class TarryJob extends Job implements JobContract
{
    public function __construct(
        Container $container,
        private readonly Client $client,
        private readonly \Tarry\Job $job,
        string $connectionName,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $job->topic;
    }

    /**
     * Ready again after so many seconds. It counts as an attempt, as everywhere in Laravel.
     *
     * @param int $delay
     * @throws TarryError if `retry_after` has passed, so that another worker may have the job
     */
    public function release($delay = 0): void
    {
        parent::release($delay);
        $this->heed($this->client->nack($this->job->lease, $delay));
    }

    /** @throws TarryError if `retry_after` has passed, so that another worker may have the job */
    public function delete(): void
    {
        parent::delete();
        $this->heed($this->client->ack($this->job->lease));
    }

    public function attempts(): int
    {
        return $this->job->attempt;
    }

    public function getJobId(): string
    {
        return $this->job->id;
    }

    public function getRawBody(): string
    {
        return $this->job->body;
    }

    /** Its `delivery` rises each time the job is handed out: for fencing. */
    public function tarryJob(): \Tarry\Job
    {
        return $this->job;
    }

    /** @param list<TarryError|null> $results */
    private function heed(array $results): void
    {
        foreach ($results as $error) {
            if ($error !== null) {
                throw $error;
            }
        }
    }
}
