<?php

declare(strict_types=1);

namespace Tarry;

/** A job as it was taken, or as it stands. `body` is to the byte what was pushed. */
final class Job
{
    /** @var (\Closure(string): bool)|null how a handler reports its progress */
    private ?\Closure $extend = null;
    /** The body and the result. If one cannot be decoded, to read it throws codecError. */
    public readonly string $body;
    public readonly ?string $result;

    /**
     * @param array<string, string> $meta
     * @param int $delivery rises with every delivery of the job: pass it to the systems that you write to, so that they
     * can reject late writes
     * @param string|null $consumer name of the consumer that holds it
     * @param bool $cancelRequested unless it is acked, it is cancelled when the lease ends
     * @param array{string, string}|null $batch topic and id of the waiting job of the batch of which the job is a member
     * @param int|null $waitsFor number of members that have not ended, while the job waits for them
     * @param array<string, int> $outcomes members of a waiting job: unfinished, acked, dead, cancelled, expired
     * @param string|null $outcome how a finished job ended: acked, cancelled or expired
     * @param float|null $duration seconds of the last attempt of a finished job
     * @param string|null $progress the last one that the worker reported
     * @param string|null $result the bytes that the worker returned
     * @param CodecError|null $codecError why the body or the result cannot be decoded
     * @param string|null $storedAs the name of the body in the store of a ClaimCheck
     * @param list<string> $undecoded body, result
     */
    public function __construct(
        public readonly string $topic,
        public readonly string $id,
        string $body = '',
        public readonly string $contentType = 'application/octet-stream',
        public readonly array $meta = [],
        public readonly int $attempt = 0,
        public readonly int $delivery = 0,
        public readonly int $priority = 100,
        public readonly string $state = 'leased',
        public readonly ?\DateTimeImmutable $dueAt = null,
        public readonly string $lease = '',
        public readonly ?\DateTimeImmutable $leaseUntil = null,
        public readonly ?string $lastError = null,
        public readonly ?string $consumer = null,
        public readonly bool $cancelRequested = false,
        public readonly ?string $group = null,
        public readonly ?string $outcome = null,
        public readonly ?\DateTimeImmutable $finishedAt = null,
        public readonly ?float $duration = null,
        public readonly ?string $progress = null,
        ?string $result = null,
        public readonly ?string $resultType = null,
        public readonly ?CodecError $codecError = null,
        public readonly ?string $storedAs = null,
        array $undecoded = [],
        public readonly ?array $batch = null,
        public readonly ?int $waitsFor = null,
        public readonly array $outcomes = [],
    ) {
        unset($this->body, $this->result);
        in_array('body', $undecoded, true) || $this->body = $body;
        in_array('result', $undecoded, true) || $this->result = $result;
    }

    /** Reached only by a body or a result that cannot be decoded. */
    public function __get(string $name): mixed
    {
        throw $this->codecError ?? new \LogicException("a job has no $name");
    }

    /**
     * Returns the job with its body and its result decoded.
     *
     * @internal
     */
    public function decoded(?Codec $codec): self
    {
        $members = get_object_vars($this);
        unset($members['extend']);
        foreach (['body' => 'contentType', 'result' => 'resultType'] as $part => $type) {
            [$data, $kind] = [$members[$part], $members[$type]];
            if (!is_string($data) || $data === '' || !is_string($kind) || !Codec::isEncoded($kind)) {
                continue;
            }
            try {
                [$members[$part], $members[$type]] = Codec::decodePart($codec, $data, $kind, $part);
            } catch (CodecError $fault) {
                $members['codecError'] = $fault;
                $members['undecoded'][] = $part;
            }
        }
        $made = new self(...$members); // @phpstan-ignore argument.type
        $made->extend = $this->extend;
        return $made;
    }

    public function text(): string
    {
        return $this->body;
    }

    /** The body as JSON; objects are arrays unless `$asArrays` is false. */
    public function json(bool $asArrays = true): mixed
    {
        return json_decode($this->body, $asArrays, 512, JSON_THROW_ON_ERROR);
    }

    /** The result as text; '' if the job has no result. */
    public function resultText(): string
    {
        return $this->result ?? '';
    }

    /** The result as JSON; null if the job has no result. Objects are arrays unless `$asArrays` is false. */
    public function resultJson(bool $asArrays = true): mixed
    {
        return ($this->result ?? '') === '' ? null : json_decode($this->resultText(), $asArrays, 512, JSON_THROW_ON_ERROR);
    }

    /** Stores the progress of the job, which is shown with it, in a handler: up to 256 bytes of text. False: the lease is lost. */
    public function reportProgress(string $text): bool
    {
        return $this->extend === null ? throw new \LogicException('no worker holds the job') : ($this->extend)($text);
    }

    /**
     * @param \Closure(string): bool $extend
     * @internal
     */
    public function heldBy(\Closure $extend): void
    {
        $this->extend = $extend;
    }

    public function traceparent(): ?string
    {
        return $this->meta['traceparent'] ?? null;
    }

    /**
     * @param array<mixed> $data a job of an answer that was asked for with body=base64
     * @internal
     */
    public static function of(array $data): self
    {
        $text = static fn (string $name, string $else): string => is_string($data[$name] ?? null) ? $data[$name] : $else;
        $number = static fn (string $name, int $else): int => is_int($data[$name] ?? null) ? $data[$name] : $else;
        /** @var array<string, string> $meta */
        $meta = is_array($data['meta'] ?? null) ? $data['meta'] : [];
        $batch = is_array($data['batch'] ?? null) ? $data['batch'] : [];
        /** @var array<string, int> $outcomes */
        $outcomes = is_array($data['outcomes'] ?? null) ? $data['outcomes'] : [];
        return new self(
            topic: $text('topic', ''),
            id: $text('id', ''),
            body: $body = (string) base64_decode($text('body_base64', '')),
            contentType: $text('content_type', 'application/octet-stream'),
            meta: $meta,
            attempt: $number('attempt', 0),
            delivery: $number('delivery', 0),
            priority: $number('priority', 100),
            state: $text('state', 'leased'),
            dueAt: Format::time($data['due_at'] ?? null),
            lease: $text('lease', ''),
            leaseUntil: Format::time($data['lease_until'] ?? null),
            lastError: $text('last_error', '') ?: null,
            consumer: $text('consumer', '') ?: null,
            cancelRequested: ($data['cancel_requested'] ?? null) === true,
            group: $text('group', '') ?: null,
            outcome: $text('outcome', '') ?: null,
            finishedAt: Format::time($data['finished_at'] ?? null),
            duration: is_int($data['duration_ms'] ?? null) ? $data['duration_ms'] / 1000 : null,
            progress: $text('progress', '') ?: null,
            result: self::resultOf($data, $text('result_type', '')),
            resultType: $text('result_type', '') ?: null,
            storedAs: Codec::storedAs($body, $text('content_type', '')),
            batch: is_string($batch['topic'] ?? null) && is_string($batch['id'] ?? null) ? [$batch['topic'], $batch['id']] : null,
            waitsFor: is_int($data['waits_for'] ?? null) ? $data['waits_for'] : null,
            outcomes: $outcomes,
        );
    }

    /**
     * The bytes of a result, which an answer has in base64, as text, or as JSON.
     *
     * @param array<mixed> $data
     */
    private static function resultOf(array $data, string $type): ?string
    {
        if (is_string($data['result_base64'] ?? null)) {
            return (string) base64_decode($data['result_base64']);
        }
        if (!array_key_exists('result', $data)) {
            return null;
        }
        return is_string($data['result']) && !str_starts_with($type, 'application/json') ? $data['result'] : Format::json($data['result']);
    }
}
