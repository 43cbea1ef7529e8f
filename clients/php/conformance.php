<?php

/** The adapter of the PHP client for clients/conformance: JSON lines in, JSON lines out. */

declare(strict_types=1);

use Tarry\AesGcm;
use Tarry\BadSignature;
use Tarry\ClaimCheck;
use Tarry\CancelRequested;
use Tarry\Client;
use Tarry\Codec;
use Tarry\DirectoryStore;
use Tarry\Gzip;
use Tarry\Job;
use Tarry\Lost;
use Tarry\Pushed;
use Tarry\Reject;
use Tarry\Retry;
use Tarry\Signature;
use Tarry\TarryError;
use Tarry\Worker;

require __DIR__ . '/autoload.php';

/** @param array<string, mixed> $line */
function say(array $line): void
{
    fwrite(STDOUT, json_encode($line, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE) . "\n");
}

/** @param array<string, mixed> $from */
function seconds(array $from, string $name, ?float $else = null): ?float
{
    return isset($from[$name]) ? $from[$name] / 1000 : $else;
}

/** @return array<string, mixed> */
function problem(TarryError $fault): array
{
    $kind = (new ReflectionClass($fault))->getShortName();
    return ['kind' => $kind, 'code' => $fault->code, 'status' => $fault->status, 'detail' => $fault->detail];
}

/**
 * @param array<string, mixed> $item
 * @return array<string, mixed>
 */
function pushOptions(array $item): array
{
    $body = isset($item['body_base64']) ? base64_decode($item['body_base64']) : $item['text'] ?? $item['json'] ?? null;
    $options = [
        'topic' => $item['topic'], 'body' => $body, 'id' => $item['id'] ?? null, 'priority' => $item['priority'] ?? null,
        'delay' => seconds($item, 'delay_ms'), 'at' => seconds($item, 'at_ms'), 'ttl' => seconds($item, 'ttl_ms'),
        'maxAttempts' => $item['max_attempts'] ?? null, 'backoff' => $item['backoff'] ?? null,
        'onConflict' => $item['on_conflict'] ?? null, 'contentType' => $item['content_type'] ?? null,
        'meta' => $item['meta'] ?? null, 'once' => $item['once'] ?? null,
        'keepFinished' => seconds($item, 'keep_finished_ms'), 'group' => $item['group'] ?? null,
        'batch' => isset($item['batch']) ? [$item['batch']['topic'], $item['batch']['id']] : null,
        'parent' => $item['parent'] ?? null, 'waits' => $item['waits'] ?? null, 'onDead' => $item['on_dead'] ?? null,
        'members' => is_array($item['members'] ?? null) ? array_map(pushOptions(...), $item['members']) : $item['members'] ?? null,
        'waitAtMost' => seconds($item, 'wait_at_most_ms'), 'closeWithin' => seconds($item, 'close_within_ms'),
    ];
    return array_filter($options, static fn (mixed $value): bool => $value !== null);
}

/** @return array<string, mixed> */
function pushed(Pushed|TarryError $one): array
{
    return $one instanceof Pushed ? ['id' => $one->id, 'result' => $one->result] : ['error' => problem($one)];
}

/** @param array<string, mixed>|null $given */
function codec(?array $given): ?Codec
{
    if ($given === null) {
        return null;
    }
    $check = $given['claim_check'] ?? null;
    return new Codec(
        isset($given['gzip']) ? new Gzip() : null,
        isset($given['keys']) ? new AesGcm($given['current'], $given['keys']) : null,
        $check === null ? null : new ClaimCheck(new DirectoryStore($check['directory']), $check['above']),
        $given['context'] ?? '',
    );
}

/** @return array<string, mixed> */
function job(Job $job): array
{
    $isDecoded = $job->codecError === null;
    return [
        'topic' => $job->topic, 'id' => $job->id, 'lease' => $job->lease, 'attempt' => $job->attempt,
        'delivery' => $job->delivery, 'body_base64' => $isDecoded ? base64_encode($job->body) : null,
        'codec_error' => $job->codecError?->detail, 'content_type' => $job->contentType,
        'meta' => (object) $job->meta, 'consumer' => $job->consumer, 'cancel_requested' => $job->cancelRequested,
        'state' => $job->state, 'group' => $job->group, 'waits_for' => $job->waitsFor, 'outcomes' => $job->outcomes,
        'batch' => $job->batch === null ? null : ['topic' => $job->batch[0], 'id' => $job->batch[1]], 'outcome' => $job->outcome,
        'progress' => $job->progress, 'last_error' => $job->lastError,
        'finished_at_ms' => $job->finishedAt === null ? null : 1000 * (float) $job->finishedAt->format('U.u'),
        'duration_ms' => $job->duration === null ? null : 1000 * $job->duration,
        'result_base64' => !$isDecoded || $job->result === null ? null : base64_encode($job->result), 'result_type' => $job->resultType,
    ];
}

/**
 * The result that a request or a step of a handler describes.
 *
 * @param array<string, mixed> $step
 */
function result_of(array $step): mixed
{
    $given = $step['result'] ?? [];
    return isset($given['base64']) ? base64_decode($given['base64']) : $given['text'] ?? $given['json'] ?? null;
}

/**
 * The leases as they are, or the jobs: a single one, or a list.
 *
 * @param array<string, mixed> $request
 * @param array<string, Job> $taken
 */
function given(array $request, array $taken): string|Job|array
{
    if (!isset($request['as'])) {
        return $request['leases'];
    }
    $jobs = array_map(static fn (string $lease): Job => $taken[$lease], $request['leases']);
    return $request['as'] === 'job' ? $jobs[0] : $jobs;
}

/**
 * @param list<TarryError|null> $found
 * @return array<string, mixed>
 */
function results(array $found): array
{
    return ['results' => array_map(static fn (?TarryError $one): string => $one === null ? 'ok' : $one->code, $found)];
}

/** @param array<string, mixed> $step */
function end_as(array $step): mixed
{
    return match ($step['do']) {
        'fail' => throw new RuntimeException($step['error']),
        'retry' => throw new Retry($step['after_ms'] / 1000, $step['error']),
        'reject' => throw new Reject($step['error'], result_of($step)),
        default => result_of($step),
    };
}

/**
 * The handler that treats jobs by the plan.
 *
 * @param array<string, mixed> $plan
 */
function handler(string $name, array $plan): Closure
{
    return static function (Job $job) use ($name, $plan): mixed {
        say(['event' => 'began', 'worker' => $name, 'id' => $job->id, 'attempt' => $job->attempt, 'delivery' => $job->delivery]);
        $steps = $plan['by_attempt'] ?? [$plan];
        $step = $steps[min($job->attempt, count($steps)) - 1];
        if (isset($step['progress'])) {
            $isDone = $job->reportProgress($step['progress']);
            say(['event' => 'reported', 'worker' => $name, 'id' => $job->id, 'done' => $isDone]);
        }
        try {
            usleep(1000 * ($step['sleep_ms'] ?? 0));
        } catch (CancelRequested | Lost $fault) {
            $isUnwanted = $fault instanceof CancelRequested;
            say(['event' => 'notified', 'worker' => $name, 'id' => $job->id, 'cancel_requested' => $isUnwanted]);
            if (!$isUnwanted || ($step['heeds'] ?? true)) {
                throw $fault;
            }
        }
        return end_as($step);
    };
}

/**
 * Works in a process of its own, until a grace is read from the pipe.
 *
 * @param array<string, mixed> $request
 * @return array{int, resource}
 */
function start_worker(Client $client, array $request): array
{
    [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $pid = pcntl_fork();
    if ($pid !== 0) {
        fclose($its);
        return [$pid, $mine];
    }
    $name = $request['name'];
    $handlers = array_map(static fn (array $plan): Closure => handler($name, $plan), $request['handlers'] ?? []);
    $done = static fn (Job $job, string $outcome) =>
        say(['event' => 'ended', 'worker' => $name, 'id' => $job->id, 'attempt' => $job->attempt, 'outcome' => $outcome]);
    $error = static fn (Throwable $fault, string $what) => fwrite(STDERR, date('H:i:s') . " $what: {$fault->getMessage()}\n");
    $worker = new Worker(
        $client,
        $handlers ?: $request['topics'],
        $handlers ? null : handler($name, $request['handler']),
        ...array_intersect_key($request, ['log' => true]),
        concurrency: $request['concurrency'],
        lease: $request['lease_ms'] / 1000,
        onDone: $done,
        onError: $error,
        consumer: $request['consumer'] ?? null,
    );
    pcntl_async_signals(true);
    pcntl_signal(SIGUSR1, static fn () => $worker->stop((float) fgets($its)));
    $worker->run(signals: false);
    posix_kill(getmypid(), SIGKILL);
    exit;
}

/**
 * @param array<string, mixed> $request
 * @param array<string, array{int, resource}> $workers
 */
function answer(?Client &$client, array &$workers, array $request): mixed
{
    static $taken = [];
    [$topic, $id, $leases] = [$request['topic'] ?? '', $request['id'] ?? '', $request['leases'] ?? []];
    switch ($request['op']) {
        case 'open':
            $retryFor = seconds($request, 'retry_for_ms', 30.0);
            $timeout = seconds($request, 'timeout_ms', 10.0);
            $codec = codec($request['codec'] ?? null);
            $client = new Client($request['url'], $request['token'] ?? null, $timeout, $retryFor, codec: $codec);
            return [];
        case 'recode': // for bench/codec.py
            [$body, $codec, $found] = [(string) base64_decode($request['body_base64']), codec($request['codec']), ['']];
            for ($n = 0; $n < $request['times']; $n++) {
                $found = $codec->decode(...$codec->encode($body, $request['content_type']));
            }
            return ['body_base64' => base64_encode($found[0])];
        case 'push':
            $found = $client->push(...pushOptions($request));
            $due = $found->dueAt === null ? null : 1000 * (float) $found->dueAt->format('U.u');
            return ['id' => $found->id, 'result' => $found->result, 'due_at_ms' => $due];
        case 'push_many':
            return array_map(pushed(...), $client->pushMany(array_map(pushOptions(...), $request['items'])));
        case 'push_batch':
            $found = $client->pushBatch(pushOptions($request['job']), array_map(pushOptions(...), $request['members']));
            return ['closed' => $found['closed'], 'results' => array_map(pushed(...), $found['results'])];
        case 'close_batch':
            $client->closeBatch($topic, $id);
            return ['done' => true];
        case 'members':
            $found = $client->members($topic, $id, $request['outcome'] ?? null, page: $request['page'] ?? 100);
            return ['jobs' => array_map(job(...), iterator_to_array($found, false))];
        case 'cancel':
            return ['done' => $client->cancel($topic, $id)];
        case 'cancel_batch':
            return ['done' => $client->cancelBatch($topic, $id)];
        case 'request_cancel':
            return ['result' => $client->requestCancel($topic, $id)];
        case 'run':
            $client->run($topic, $id);
            return ['done' => true];
        case 'reschedule':
            $at = seconds($request, 'at_ms');
            $client->reschedule($topic, $id, seconds($request, 'delay_ms'), $at, $request['priority'] ?? null);
            return ['done' => true];
        case 'get':
            $found = $client->get($topic, $id);
            return ['job' => $found === null ? null : job($found)];
        case 'list':
            $found = $client->list($topic, $request['state'] ?? null, page: $request['page'] ?? 100);
            return ['ids' => array_map(static fn (Job $one): string => $one->id, iterator_to_array($found, false))];
        case 'take':
            $wait = $request['wait_ms'] / 1000;
            $lease = seconds($request, 'lease_ms');
            $found = $client->take($request['topics'], $request['max'], $wait, $lease, $request['consumer'] ?? null);
            $taken = array_column($found, null, 'lease') + $taken;
            return ['jobs' => array_map(job(...), $found)];
        case 'ack':
            [$type, $hold] = [$request['result']['content_type'] ?? null, seconds($request, 'hold_ms')];
            return results($client->ack(given($request, $taken), result_of($request), $type, $hold));
        case 'nack':
            [$delay, $error, $final] = [seconds($request, 'delay_ms'), $request['error'] ?? '', $request['final'] ?? false];
            $more = [$delay, $error, $final, result_of($request), null, seconds($request, 'hold_ms')];
            return results($client->nack(given($request, $taken), ...$more));
        case 'extend':
            $progress = $request['progress'] ?? '';
            return results($client->extend(given($request, $taken), seconds($request, 'lease_ms'), $progress));
        case 'push_and_wait':
            return ['job' => job($client->pushAndWait(...pushOptions($request), wait: $request['wait_ms'] / 1000))];
        case 'wait':
            $names = array_map(static fn (string $id): array => [$topic, $id], $request['ids']);
            $found = $client->wait($names, $request['any'] ?? false, $request['timeout_ms'] / 1000);
            return ['jobs' => array_map(job(...), $found)];
        case 'again':
            $delay = seconds($request, 'delay_ms');
            return ['done' => $client->again($leases[0], $request['text'] ?? null, $delay, null, $request['priority'] ?? null)];
        case 'schedule':
            $bytes = isset($request['body_base64']) ? base64_decode($request['body_base64']) : null;
            $body = $request['text'] ?? $request['json'] ?? $bytes;
            [$cron, $every, $zone] = [$request['cron'] ?? null, seconds($request, 'every_ms'), $request['zone'] ?? null];
            $members = $request['members'] ?? [];
            $takeOver = $request['take_over'] ?? false;
            $found = $client->schedule($request['name'], $topic, $body, $cron, $every, $zone, members: $members, takeOver: $takeOver);
            return ['result' => $found->result, 'next_ms' => $found->next === null ? null : 1000 * $found->next->getTimestamp()];
        case 'unschedule':
            return ['done' => $client->unschedule($request['name'])];
        case 'give_back':
            return results($client->giveBack(given($request, $taken)));
        case 'worker':
            $workers[$request['name']] = start_worker($client, $request);
            return [];
        case 'stop':
            [$pid, $socket] = $workers[$request['name']];
            fwrite($socket, $request['grace_ms'] / 1000 . "\n");
            posix_kill($pid, SIGUSR1);
            pcntl_waitpid($pid, $status);
            return [];
        case 'verify':
            try {
                $body = base64_decode($request['body_base64']);
                Signature::verify($request['secrets'], $request['headers'], $body, seconds($request, 'now_ms'));
                return ['valid' => true];
            } catch (BadSignature) {
                return ['valid' => false];
            }
        case 'quit':
            return [];
        default:
            throw new LogicException("no such operation: {$request['op']}");
    }
}

[$client, $workers] = [null, []];
while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true, 512, JSON_THROW_ON_ERROR);
    try {
        $found = answer($client, $workers, $request);
        $answer = ['ok' => $found === [] && $request['op'] !== 'push_many' ? new stdClass() : $found];
    } catch (TarryError $fault) {
        $answer = ['error' => problem($fault)];
    }
    say($answer + ['n' => $request['n'] ?? null]);
    if ($request['op'] === 'quit') {
        foreach ($workers as [$pid]) {
            posix_kill($pid, SIGKILL); // if no stop came before
        }
        break;
    }
}
