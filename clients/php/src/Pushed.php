<?php

declare(strict_types=1);

namespace Tarry;

/** The result of a push. `result`: created, replaced, or existed (nothing was changed). */
final readonly class Pushed
{
    public function __construct(
        public string $id,
        public string $result,
        public ?\DateTimeImmutable $dueAt = null,
        public string $topic = '',
    ) {
    }
}
