<?php

declare(strict_types=1);

namespace Tarry;

/** A handler throws it: try the job again after so many seconds; without them, after the job's backoff. */
final class Retry extends \RuntimeException
{
    public function __construct(
        public readonly int|float|\DateInterval|null $after = null,
        public readonly string $error = '',
    ) {
        parent::__construct($error);
    }
}
