<?php

declare(strict_types=1);

namespace Tarry;

/** What became of a push. `result`: created, replaced, or existed, where nothing was changed. */
final readonly class Pushed
{
    public function __construct(
        public string $id,
        public string $result,
        public ?\DateTimeImmutable $dueAt = null,
    ) {
    }
}
