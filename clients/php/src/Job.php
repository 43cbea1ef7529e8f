<?php

declare(strict_types=1);

namespace Tarry;

/** A job as it was taken, or as it stands. `body` is to the byte what was pushed. */
final readonly class Job
{
    /**
     * @param array<string, string> $meta
     * @param int $delivery rises with every delivery of the job: pass it to the systems that you write to, so that they
     * can reject late writes
     * @param string|null $consumer name of the consumer that holds it
     * @param bool $cancelRequested unless it is acked, it is cancelled when the lease ends
     */
    public function __construct(
        public string $topic,
        public string $id,
        public string $body = '',
        public string $contentType = 'application/octet-stream',
        public array $meta = [],
        public int $attempt = 0,
        public int $delivery = 0,
        public int $priority = 100,
        public string $state = 'leased',
        public ?\DateTimeImmutable $dueAt = null,
        public string $lease = '',
        public ?\DateTimeImmutable $leaseUntil = null,
        public ?string $lastError = null,
        public ?string $consumer = null,
        public bool $cancelRequested = false,
    ) {
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
        return new self(
            topic: $text('topic', ''),
            id: $text('id', ''),
            body: (string) base64_decode($text('body_base64', '')),
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
        );
    }
}
