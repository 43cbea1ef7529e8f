<?php

declare(strict_types=1);

namespace Tarry;

/** The result of a schedule. `result`: created, replaced, or existed (nothing was changed). `next`: the next fire. */
final readonly class Scheduled
{
    public function __construct(
        public string $result,
        public ?\DateTimeImmutable $next = null,
    ) {
    }
}
