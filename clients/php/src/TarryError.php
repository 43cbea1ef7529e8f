<?php

declare(strict_types=1);

namespace Tarry;

/** A refusal of the server. Its code, also by getCode(), is stable; `detail` explains what to do. */
class TarryError extends \RuntimeException
{
    private const BY_CODE = [
        'not_found' => NotFound::class,
        'conflict' => Conflict::class,
        'leased' => Conflict::class,
        'dead' => Conflict::class,
        'no_batch' => NotFound::class,
        'batch_closed' => Conflict::class,
        'waits' => Conflict::class,
        'too_many_members' => Conflict::class,
        'too_many_batches' => Conflict::class,
        'lease_ended' => LeaseEnded::class,
        'unauthorized' => Denied::class,
        'forbidden' => Denied::class,
        'topic_full' => Full::class,
        'group_full' => Full::class,
        'caller_full' => Full::class,
        'no_space' => Full::class,
        'memory' => Full::class,
        'too_many_requests' => Unavailable::class,
        'unavailable' => Unavailable::class,
        'stopping' => Unavailable::class,
    ];
    private const BY_STATUS = [
        401 => Denied::class,
        403 => Denied::class,
        404 => NotFound::class,
        409 => Conflict::class,
        429 => Unavailable::class,
        502 => Unavailable::class,
        503 => Unavailable::class,
        504 => Unavailable::class,
        507 => Full::class,
    ];

    /** @var string */
    public $code = '';

    /** @param string|null $state of a job that is in a conflict */
    final public function __construct(
        public readonly string $detail,
        string $code = '',
        public readonly int $status = 0,
        public readonly ?string $state = null,
        public readonly mixed $limit = null,
        public readonly ?float $retryAfter = null,
    ) {
        parent::__construct($code === '' ? $detail : "$code: $detail");
        $this->code = $code;
    }

    /**
     * The error for a refusal.
     *
     * @param array<mixed> $problem as the server wrote it, or a result of a batch
     * @internal
     */
    public static function of(int $status, array $problem, ?float $retryAfter = null): self
    {
        $text = static fn (string $name): string => is_string($problem[$name] ?? null) ? $problem[$name] : '';
        $code = $text('code') ?: $text('result');
        $isWrong = $status === 0 || ($status >= 400 && $status < 500);
        $kind = self::BY_CODE[$code] ?? self::BY_STATUS[$status] ?? ($isWrong ? Refused::class : self::class);
        return new $kind(
            $text('detail') ?: $text('title') ?: "the server answered $status",
            code: $code,
            status: $status,
            state: $text('state') ?: null,
            limit: $problem['limit'] ?? null,
            retryAfter: $retryAfter,
        );
    }
}
