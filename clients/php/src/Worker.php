<?php

declare(strict_types=1);

namespace Tarry;

/**
 * Takes jobs, runs a handler for each, extends their leases, and reports the results.
 *
 *     (new Tarry\Worker(new Tarry\Client(), 'orders', $handle, concurrency: 10, lease: 60))->run();
 *     (new Tarry\Worker(new Tarry\Client(), ['orders' => close_order(...), 'mails' => send_mail(...)]))->run();
 *
 * PHP has no threads, so processes are forked: one for each job at work, which is kept for the next, and one each for
 * takes, extensions and answers, because PHP can wait for many sockets or for one request, not for both. The process that
 * called run() only coordinates: nothing keeps it from a heartbeat. docs/clients.md has the rules.
 */
final class Worker
{
    private const WAIT = 30.0; // of a take
    private const MOMENT = 0.5; // that a take has when the worker stops
    private const LINGER = 0.005; // for answers that come together
    private const BEATS = 10; // in the time of a lease: nine tenths are left whenever the server goes
    private const GRACE = 2.0; // that leases have once a server is back
    private const PAUSE = 0.25; // at most, before an extend or an answer that failed is made again, for that grace
    private const BATCH = 1000;
    private const RESULTS_BYTES = 1 << 19; // of a request that acks; the server takes 1 MiB
    private const LOG_PAUSE = 10.0; // between lines about the same kind of call that fails
    private const KILL_AFTER = 2.0; // that a handler has once it was interrupted
    private const LONGEST_SLEEP = 1.0; // a signal may come just before the worker waits
    private const MOST = 900; // stream_select() knows 1,024 sockets

    /** @var list<string> */
    private readonly array $topics;
    private readonly float $lease;
    private readonly string $consumer;
    /** @var array<string, \Closure(Job): mixed> by topic */
    private readonly array $handlers;
    /** @var array<string, float> when the failure of such a call was logged */
    private array $loggedAt = [];

    /** @var array<int, Held> from take to answer, by object id */
    private array $held = [];
    /** @var list<Held> whose answer is to be sent */
    private array $answers = [];
    /** @var list<Job> acked, with a stored body */
    private array $stored = [];
    /** @var array<int, Child> those that run the handler, by process id */
    private array $children = [];
    /** @var list<Child> */
    private array $idle = [];
    /** @var array<string, Child> those that make requests: take, extend, answer */
    private array $helpers = [];
    /** @var array<string, \Closure(Answer): void> what is done with the answer of the helper's request */
    private array $then = [];
    /** @var list<Child> that are about to end */
    private array $leaving = [];

    private bool $isStopping = false;
    private float $stopsAt = INF;
    private float $takeAt = 0.0;
    private float $takePause = Transport::FIRST_PAUSE;
    private float $answerAt = 0.0;
    private float $answerPause = Transport::FIRST_PAUSE;
    private float $reapAt = 0.0;
    private ?\Throwable $failure = null;

    /**
     * @param string|array<string>|array<string, callable(Job): mixed> $topics a ready job of the first is taken first; with
     *     a handler for each, or with one for all
     * @param (callable(Job): mixed)|null $handler returns: done, with what it returns as the result unless that is null;
     *     throws: tried again, see Retry and Reject. Runs in a process of its own: open connections within it, and keep them
     *     in a static variable
     * @param int|float|\DateInterval $lease is extended for as long as the handler runs
     * @param float $grace seconds that handlers have to end once the worker stops
     * @param int $jobsPerChild after so many jobs a process is replaced, so that what leaks is given back
     * @param (\Closure(Job): mixed)|null $onTaken hooks run in the process that called run(), and hold it up
     * @param (\Closure(Job, string, float): mixed)|null $onDone job; ack, nack, reject, lost or given_back; seconds
     * @param (\Closure(\Throwable, string): mixed)|null $onError error; take, extend, ack, nack, return, result or fork
     * @param string|null $consumer who takes, in 64 printable ASCII characters at most: shown as the holder; else HOST:PID
     * @param bool $log whether failures go to error_log()
     */
    public function __construct(
        private readonly Client $client,
        string|array $topics,
        ?callable $handler = null,
        private readonly int $concurrency = 10,
        int|float|\DateInterval $lease = 60,
        private float $grace = 30.0,
        private readonly int $jobsPerChild = 1000,
        private readonly ?\Closure $onTaken = null,
        private readonly ?\Closure $onDone = null,
        private readonly ?\Closure $onError = null,
        ?string $consumer = null,
        private readonly bool $log = true,
    ) {
        if ($concurrency < 1 || $concurrency > self::MOST) {
            throw new \InvalidArgumentException('concurrency must be between 1 and ' . self::MOST);
        }
        if (!extension_loaded('pcntl') || !extension_loaded('posix')) {
            throw new \LogicException('a worker needs the extensions pcntl and posix: its heartbeat continues while handlers '
                . 'run, each in a process; without them, take(), extend() and ack() yourself');
        }
        $this->handlers = self::handlersOf($topics, $handler);
        $this->topics = array_map(strval(...), array_keys($this->handlers));
        $this->lease = Format::seconds($lease);
        $this->consumer = $consumer ?? Format::consumer((string) gethostname(), (int) getmypid());
    }

    /**
     * @param string|array<string>|array<string, callable(Job): mixed> $topics
     * @param (callable(Job): mixed)|null $handler
     * @return array<string, \Closure(Job): mixed>
     */
    private static function handlersOf(string|array $topics, ?callable $handler): array
    {
        $handlers = [];
        foreach ((array) $topics as $topic => $one) {
            $isHandler = !is_string($one) || $handler === null;
            if ($isHandler === ($handler !== null) || !($isHandler ? is_callable($one) : is_string($one))) {
                $example = "['orders' => close_order(...)]";
                throw new \InvalidArgumentException("give topics and a handler, or a handler for each topic as in $example");
            }
            $handlers[$isHandler ? (string) $topic : $one] = $isHandler ? $one(...) : $handler(...);
        }
        return $handlers;
    }

    // ---- life ----

    /**
     * Works until stop(), or SIGTERM or SIGINT where `$signals`.
     *
     * @throws TarryError a refusal of take that stays
     */
    public function run(bool $signals = true): void
    {
        $wasAsync = pcntl_async_signals();
        $before = [];
        foreach ($signals ? [SIGTERM, SIGINT] : [] as $number) {
            $before[$number] = pcntl_signal_get_handler($number);
            pcntl_async_signals(true);
            pcntl_signal($number, fn () => $this->stop());
        }
        try {
            $next = $this->step(Transport::now());
            while (!$this->isOver()) {
                $this->wait($next - Transport::now());
                $next = $this->step(Transport::now());
            }
        } finally {
            $this->endChildren();
            foreach ($before as $number => $handler) {
                pcntl_signal($number, $handler);
            }
            pcntl_async_signals($wasAsync);
        }
        if ($this->failure !== null) {
            throw $this->failure;
        }
    }

    /**
     * Requests a stop, for signal handlers and hooks: run() then takes no further job, waits for running handlers, `$grace`
     * seconds at most, and returns.
     */
    public function stop(?float $grace = null): void
    {
        $this->grace = $grace ?? $this->grace;
        $this->isStopping = true;
    }

    private function isOver(): bool
    {
        $isDeleting = $this->stored !== [] || isset($this->then['delete']);
        return $this->isStopping && !isset($this->then['take']) && $this->held === [] && !$isDeleting;
    }

    /** Does what is due; the time of what is due next. */
    private function step(float $now): float
    {
        return min(
            $this->isStopping ? $this->windUp($now) : $this->take($now),
            $this->beat($now),
            $this->answer($now),
            $this->deleteStored(),
            $this->reap($now),
        );
    }

    /** No take any more: one under way has a moment, handlers have their grace. */
    private function windUp(float $now): float
    {
        $this->stopsAt = min($this->stopsAt, $now);
        $cutAt = $this->stopsAt + self::MOMENT;
        if (isset($this->then['take']) && $now >= $cutAt) {
            $this->helpers['take']->kill();
            $this->helperGone('take');
        }
        $graceEnds = $this->stopsAt + $this->grace;
        foreach ($now < $graceEnds ? [] : $this->held as $one) {
            if ($one->verb === '') {
                $this->interrupt($one, $now);
                $this->settle($one, 'return');
            }
        }
        return min(isset($this->then['take']) ? $cutAt : INF, $now < $graceEnds ? $graceEnds : INF);
    }

    /** Waits for a child, so many seconds at most. */
    private function wait(float $seconds): void
    {
        $byKey = [];
        foreach ([...array_values($this->children), ...array_values($this->helpers)] as $child) {
            $byKey[$child->pid] = $child;
        }
        $read = array_map(static fn (Child $child): mixed => $child->socket, $byKey);
        $microseconds = (int) ceil(max(0.0, min($seconds, self::LONGEST_SLEEP)) * 1e6);
        if ($read === []) {
            usleep($microseconds);
            return;
        }
        [$write, $except] = [null, null];
        if ((int) @stream_select($read, $write, $except, 0, $microseconds) === 0) {
            return;
        }
        foreach (array_keys($read) as $pid) {
            $this->receive($byKey[$pid]);
        }
    }

    private function receive(Child $child): void
    {
        $name = array_search($child, $this->helpers, true);
        foreach ($child->receive() as $value) {
            if (is_string($name) && $value instanceof Answer) {
                $then = $this->then[$name];
                unset($this->then[$name]);
                $then($value);
            } elseif (is_array($value)) {
                $this->handled($child, ...$value);
            }
        }
        if ($child->isGone) {
            is_string($name) ? $this->helperGone($name) : $this->childGone($child);
        }
    }

    // ---- processes ----

    /**
     * @param mixed $request a Request, or jobs whose stored bodies are to be deleted
     * @param \Closure(Answer): void $then
     */
    private function ask(string $name, mixed $request, \Closure $then): void
    {
        $this->then[$name] = $then;
        try {
            $transport = $this->client->transport;
            $work = fn (mixed $asked): mixed => $asked instanceof Request ? $transport->once($asked) : $this->delete((array) $asked);
            $this->helpers[$name] ??= Child::start($work, false);
            $isSent = $this->helpers[$name]->send($request);
        } catch (\RuntimeException $fault) {
            $this->reportError($fault, 'fork');
            $isSent = false;
        }
        if (!$isSent) {
            $this->helperGone($name);
        }
    }

    private function helperGone(string $name): void
    {
        if (isset($this->helpers[$name])) {
            $this->leave($this->helpers[$name]);
            unset($this->helpers[$name]);
        }
        $then = $this->then[$name] ?? null;
        unset($this->then[$name]);
        if ($then !== null) {
            $then(new Answer(0, 'the process that made the request has ended'));
        }
    }

    private function childGone(Child $child): void
    {
        $one = $child->held;
        $this->dismiss($child);
        if ($one !== null) {
            $this->settle($one, 'nack', Client::nackOptions(null, 'the process of the handler has ended'));
        }
    }

    /** Gives the child no further job. */
    private function dismiss(Child $child): void
    {
        if (isset($this->children[$child->pid])) {
            unset($this->children[$child->pid]);
            $this->idle = array_values(array_filter($this->idle, static fn (Child $one): bool => $one !== $child));
            $this->leave($child);
        }
    }

    private function leave(Child $child): void
    {
        $child->held = null;
        $child->killAt = min($child->killAt, Transport::now() + self::KILL_AFTER);
        $child->close();
        $this->leaving[] = $child;
    }

    /** Sees to those that end, and kills those that do not. */
    private function reap(float $now): float
    {
        if ($now >= $this->reapAt) {
            $this->reapAt = $now + self::LONGEST_SLEEP;
            $this->reapLeaving($now);
        }
        $next = $this->reapAt;
        foreach ($this->children as $child) {
            if ($now >= $child->killAt) {
                $child->kill();
                $this->dismiss($child);
            }
            $next = min($next, $child->killAt);
        }
        return $next;
    }

    /** Reaps children that are about to end. */
    private function reapLeaving(float $now): void
    {
        $this->leaving = array_values(array_filter($this->leaving, static fn (Child $child): bool => !$child->reap()));
        foreach ($this->leaving as $child) {
            if ($now >= $child->killAt) {
                $child->kill();
            }
        }
    }

    private function endChildren(): void
    {
        foreach ($this->helpers as $child) {
            $child->kill();
            $this->leave($child);
        }
        foreach ($this->children as $child) {
            if ($child->held !== null) {
                $child->interrupt(INF);
            }
            $this->leave($child);
        }
        $this->reapLeaving(Transport::now());
        while ($this->leaving !== []) {
            usleep(2000);
            $this->reapLeaving(Transport::now());
        }
        $this->helpers = $this->children = $this->idle = $this->then = [];
    }

    // ---- taking ----

    private function take(float $now): float
    {
        $free = $this->concurrency - count($this->children) + count($this->idle);
        if (isset($this->then['take']) || $free < 1) {
            return INF;
        }
        if ($now < $this->takeAt) {
            return $this->takeAt;
        }
        $request = $this->client->takeRequest($this->topics, $free, self::WAIT, $this->lease, $this->consumer);
        $this->ask('take', $request, $this->taken(...));
        return isset($this->then['take']) ? INF : $this->takeAt;
    }

    private function taken(Answer $answer): void
    {
        try {
            $jobs = Client::jobs($answer->json());
        } catch (TarryError $fault) {
            if ($this->isStopping) {
                return;
            }
            if ($fault instanceof Denied || $fault instanceof NotFound || $fault instanceof Refused) {
                $this->failure = $fault;
                $this->stop();
                return;
            }
            $this->reportError($fault, 'take');
            $this->pauseTakes($fault->retryAfter);
            return;
        }
        $this->takePause = Transport::FIRST_PAUSE;
        foreach ($jobs as $job) {
            $one = new Held($job, Transport::now(), $this->lease, self::BEATS);
            $this->held[spl_object_id($one)] = $one;
            if ($this->onTaken !== null) {
                ($this->onTaken)($job);
            }
            $this->begin($one);
        }
    }

    private function pauseTakes(?float $seconds): void
    {
        $this->takeAt = Transport::now() + ($seconds ?? Transport::jitter($this->takePause));
        $this->takePause = min(2 * $this->takePause, Transport::LONGEST_PAUSE);
    }

    private function begin(Held $one): void
    {
        while (!$this->isStopping) {
            try {
                $child = array_pop($this->idle) ?? Child::start($this->handle(...), true);
            } catch (\RuntimeException $fault) {
                $this->reportError($fault, 'fork');
                $this->pauseTakes(null);
                break;
            }
            $this->children[$child->pid] = $child;
            if ($child->send($one->job)) {
                [$child->held, $one->child] = [$one, $child];
                return;
            }
            $this->dismiss($child);
        }
        $this->settle($one, 'return');
    }

    // ---- handling ----

    /**
     * Runs the handler, in a child, and returns the result of the job.
     *
     * @return array{string, array<string, mixed>}
     */
    private function handle(mixed $job): array
    {
        try {
            assert($job instanceof Job);
            $job = $job->decoded($this->client->codec);
            if ($job->codecError !== null) {
                throw $job->codecError;
            }
            $job->heldBy(fn (string $text): bool => $this->client->extend($job, $this->lease, $text) === [null]);
            return ['ack', $this->members(($this->handlers[$job->topic])($job))];
        } catch (Lost $lost) {
            throw $lost;
        } catch (Retry $retry) {
            return ['nack', Client::nackOptions($retry->after, $retry->error)];
        } catch (Reject $reject) {
            return ['nack', Client::nackOptions(null, $reject->error, true) + $this->members($reject->result)];
        } catch (\Throwable $fault) {
            return ['nack', Client::nackOptions(null, $fault->getMessage() ?: $fault::class)];
        }
    }

    /**
     * The members of an answer with this result. If it is not JSON or cannot be stored, the work is done nevertheless: the job is answered
     * without it.
     *
     * @return array<string, string>
     */
    private function members(mixed $result): array
    {
        try {
            return Format::result($result, null, $this->client->codec);
        } catch (Lost $lost) {
            throw $lost;
        } catch (\Throwable $fault) {
            return ['bad_result' => $fault->getMessage()];
        }
    }

    /**
     * Processes the result that a child reported, in the parent.
     *
     * @param array<string, mixed> $options
     */
    private function handled(Child $child, string $verb, array $options, bool $isItsLast = false): void
    {
        [$one, $child->held] = [$child->held, null];
        if ($isItsLast || ++$child->jobs >= $this->jobsPerChild) {
            $this->dismiss($child);
        } elseif ($child->killAt === INF) {
            $this->idle[] = $child;
        }
        if (is_string($options['bad_result'] ?? null)) {
            $this->reportError(new \UnexpectedValueException($options['bad_result']), 'result');
            unset($options['bad_result']);
        }
        if ($one !== null) {
            $this->settle($one, $verb, $options);
        }
    }

    /** The job is not the handler's any more. */
    private function interrupt(Held $one, float $now): void
    {
        if ($one->child !== null && $one->child->held === $one) {
            $one->child->held = null;
            $one->child->interrupt($now + self::KILL_AFTER);
        }
    }

    /** Notifies the handler, once. The lease continues, and the result of the handler counts. */
    private function requestCancel(Held $one): void
    {
        if (!$one->isUnwanted && $one->verb === '' && $one->child !== null && $one->child->held === $one) {
            $one->isUnwanted = true;
            $one->child->requestCancel();
        }
    }

    // ---- heartbeat ----

    private function beat(float $now): float
    {
        if (isset($this->then['extend'])) {
            return INF;
        }
        [$due, $next] = [[], INF];
        foreach ($this->held as $one) {
            if ($one->nextBeat <= $now && count($due) < self::BATCH) {
                $due[] = $one;
            } else {
                $next = min($next, $one->nextBeat);
            }
        }
        if ($due !== []) {
            $length = Format::milliseconds($this->lease);
            $items = array_map(static fn (Held $one): array => ['lease' => $one->job->lease, 'lease_for' => $length], $due);
            $request = Client::answersRequest('extend', $items, min(max($this->lease / 4, 0.5), 1.5));
            $this->ask('extend', $request, fn (Answer $answer) => $this->extended($due, $now, $answer));
        }
        return $next;
    }

    /** @param list<Held> $due */
    private function extended(array $due, float $sentAt, Answer $answer): void
    {
        $results = [];
        try {
            $results = Client::results($answer->json());
        } catch (TarryError $fault) {
            $this->reportError($fault, 'extend');
        }
        $now = Transport::now();
        foreach ($due as $at => $one) {
            $error = isset($results[$at]) ? Client::answered('extend', $results[$at], false) : new TarryError('no result');
            if (($results[$at]['cancel_requested'] ?? null) === true) {
                $this->requestCancel($one);
            }
            if ($error === null) {
                $one->livesUntil = $sentAt + $this->lease;
                $one->nextBeat = $sentAt + $this->lease / self::BEATS;
                continue;
            }
            $hasEnded = $error instanceof LeaseEnded;
            $one->nextBeat = $hasEnded ? INF : $now + min($this->lease / 20, self::PAUSE);
            if ($one->verb === '' && isset($this->held[spl_object_id($one)]) && ($hasEnded || $now > $one->livesUntil + self::GRACE)) {
                $this->logLine("the lease of job {$one->job->topic}/{$one->job->id} is lost; another worker may process it");
                $this->interrupt($one, $now);
                $this->finish($one, 'lost');
            }
        }
    }

    // ---- answers ----

    /**
     * Its answer is to be sent, once.
     *
     * @param array<string, mixed> $options
     */
    private function settle(Held $one, string $verb, array $options = []): void
    {
        if ($one->verb !== '' || !isset($this->held[spl_object_id($one)])) {
            return;
        }
        if ($this->answers === []) {
            $this->answerAt = max($this->answerAt, Transport::now() + self::LINGER);
        }
        [$one->verb, $one->options] = [$verb, $options];
        $this->answers[] = $one;
        if ($verb === 'nack' && !$one->isUnwanted) {
            $why = is_string($options['error'] ?? null) ? $options['error'] : '';
            $this->logLine("job {$one->job->topic}/{$one->job->id} failed in attempt {$one->job->attempt}: $why");
        }
    }

    private function answer(float $now): float
    {
        if ($this->answers === [] || isset($this->then['answer'])) {
            return INF;
        }
        if ($now < $this->answerAt) {
            return $this->answerAt;
        }
        $verb = $this->answers[0]->verb;
        $batch = $this->nextBatch($verb);
        $items = array_map(static fn (Held $one): array => ['lease' => $one->job->lease] + $one->options, $batch);
        $limit = min(max($this->lease / 3, 0.5), $this->client->transport->timeout);
        $request = Client::answersRequest($verb, $items, $limit);
        $this->ask('answer', $request, fn (Answer $answer) => $this->answered($verb, $batch, $answer));
        return $this->answers === [] ? INF : $now;
    }

    /**
     * Takes the answers of the next request.
     *
     * @return list<Held>
     */
    private function nextBatch(string $verb): array
    {
        [$batch, $rest, $size] = [[], [], 0];
        foreach ($this->answers as $at => $one) {
            $more = self::resultSize($one);
            $fits = $batch === [] || (count($batch) < self::BATCH && $size + $more <= self::RESULTS_BYTES);
            if ($one->verb !== $verb || !$fits || ($one->isAlone && $at > 0)) {
                $rest[] = $one;
                continue;
            }
            $batch[] = $one;
            $size += $more;
            if ($one->isAlone) {
                $rest = array_slice($this->answers, 1);
                break;
            }
        }
        $this->answers = $rest;
        return $batch;
    }

    private static function resultSize(Held $one): int
    {
        return is_string($one->options['result_base64'] ?? null) ? strlen($one->options['result_base64']) : 0;
    }

    /**
     * One result is too big, so the server has rejected the request: that of the largest one is sent by itself. Its job is
     * done, so it is answered without the result if that is rejected too.
     *
     * @param non-empty-list<Held> $batch
     */
    private function answerApart(array $batch, TarryError $fault): void
    {
        usort($batch, static fn (Held $one, Held $other): int => self::resultSize($other) <=> self::resultSize($one));
        if (count($batch) === 1) {
            $this->reportError($fault, 'result');
            unset($batch[0]->options['result_base64'], $batch[0]->options['result_type']);
        }
        $batch[0]->isAlone = count($batch) > 1;
        $this->answers = [...$batch, ...$this->answers];
    }

    /** @param list<Held> $batch */
    private function answered(string $verb, array $batch, Answer $answer): void
    {
        $results = [];
        try {
            $results = Client::results($answer->json());
        } catch (TarryError $fault) {
            if (in_array($fault->code, ['result_too_big', 'body_too_big'], true) && $batch !== []) {
                $this->answerApart($batch, $fault);
                return;
            }
            $this->reportError($fault, $verb);
        }
        if ($answer->asksForAnother()) {
            $this->answerLater($batch, $answer);
            return;
        }
        $this->answerPause = Transport::FIRST_PAUSE;
        foreach ($batch as $at => $one) {
            if ($verb === 'ack' && ($results[$at]['result'] ?? null) === 'ok' && $one->job->storedAs !== null) {
                $this->stored[] = $one->job;
            }
            $counts = isset($results[$at]) && Client::answered($verb, $results[$at], $one->wasTried) === null;
            $outcome = match ($verb) {
                'return' => 'given_back',
                'nack' => isset($one->options['final']) ? 'reject' : 'nack',
                default => $verb,
            };
            $this->finish($one, $counts ? $outcome : 'lost');
        }
    }

    /**
     * Again, for as long as the leases live.
     *
     * @param list<Held> $batch
     */
    private function answerLater(array $batch, Answer $answer): void
    {
        $now = Transport::now();
        $this->answerAt = $now + min($answer->retryAfter ?? Transport::jitter($this->answerPause), $this->lease);
        $this->answerPause = min(2 * $this->answerPause, self::PAUSE);
        $alive = [];
        foreach ($batch as $one) {
            $one->wasTried = $one->wasTried || $answer->leavesOpen();
            $one->livesUntil + self::GRACE > $now ? $alive[] = $one : $this->finish($one, 'lost');
        }
        $this->answers = [...$alive, ...$this->answers];
    }

    /** In a process of its own: a store may be slow. */
    private function deleteStored(): float
    {
        if ($this->stored !== [] && !isset($this->then['delete'])) {
            [$jobs, $this->stored] = [$this->stored, []];
            $this->ask('delete', $jobs, function (Answer $answer): void {
                if ($answer->status === 0) {
                    $this->reportError(new \RuntimeException($answer->body), 'delete');
                }
            });
        }
        return INF;
    }

    /**
     * Deletes stored bodies, in the helper.
     *
     * @param array<mixed> $jobs
     */
    private function delete(array $jobs): Answer
    {
        $why = '';
        foreach ($jobs as $job) {
            try {
                assert($job instanceof Job);
                $this->client->codec?->deleteStored($job);
            } catch (\Throwable $fault) {
                $why = $fault->getMessage();
            }
        }
        return new Answer($why === '' ? 200 : 0, $why);
    }

    private function finish(Held $one, string $outcome): void
    {
        unset($this->held[spl_object_id($one)]);
        if ($this->onDone !== null) {
            ($this->onDone)($one->job, $outcome, Transport::now() - $one->takenAt);
        }
    }

    private function logLine(string $text): void
    {
        if ($this->log) {
            error_log("tarry: $text");
        }
    }

    private function reportError(\Throwable $fault, string $what): void
    {
        $now = Transport::now();
        if ($now - ($this->loggedAt[$what] ?? -INF) >= self::LOG_PAUSE) {
            $this->loggedAt[$what] = $now;
            $this->logLine("$what failed: {$fault->getMessage()}");
        }
        if ($this->onError !== null) {
            ($this->onError)($fault, $what);
        }
    }
}
